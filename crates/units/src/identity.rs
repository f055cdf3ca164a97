//! Who is who: cluster, node, incarnation of a node, partition, stripe.

use std::fmt;

use crate::Epoch;

/// Identity of a cluster, drawn at random when the cluster is created. A node of another cluster is refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct ClusterId(pub u64);

/// Number of a node within its cluster, assigned once and never used for another node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct NodeId(pub u16);

/// One life of a node's memory. A node that lost its memory comes back with another incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Incarnation(pub u64);

/// Number of a partition: a set of hash slots with one owner, one log and one index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct PartitionId(pub u16);

/// Which nodes hold a stripe, as of when: the epoch of the owner that said so, and its counter. A stripe is opened
/// under configuration 0; the highest one counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Configuration(u64);

impl Configuration {
    /// Above every one that is given.
    pub const END: Self = Configuration(u64::MAX);

    /// The configuration that an owner of `epoch` gives a stripe after this one: above every earlier one, its own and
    /// those of owners before it.
    pub fn next(self, epoch: Epoch) -> Self {
        Configuration(self.given(epoch).0 + 1)
    }

    /// As long as this is a stripe's newest one for its owner of `epoch`: no number above the answer was ever given to
    /// it, and every later one is.
    pub fn given(self, epoch: Epoch) -> Self {
        Configuration((u64::from(epoch.0) << 32).max(self.0))
    }

    pub const fn from_raw(raw: u64) -> Self {
        Configuration(raw)
    }

    pub fn raw(self) -> u64 {
        self.0
    }

    /// As it was opened or installed?
    pub fn is_first(self) -> bool {
        self.0 == 0
    }
}

/// Name of a stripe: the epoch of the owner that made it and a counter of that owner.
///
/// An id is never used twice, and ids of one partition grow in the order in which the stripes were opened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StripeId(u64);

impl StripeId {
    /// Bits of the counter; those above are the epoch's.
    pub const COUNTER_BITS: u32 = 40;

    /// # Panics
    /// If `counter` does not fit in 40 bits: at a million stripes a second that takes twelve days of
    /// one epoch, and the owner takes a new epoch long before.
    pub fn new(epoch: Epoch, counter: u64) -> Self {
        assert!(counter < 1 << Self::COUNTER_BITS, "stripe counter {counter} exhausted");
        StripeId(u64::from(epoch.0) << Self::COUNTER_BITS | counter)
    }

    pub fn from_raw(raw: u64) -> Self {
        StripeId(raw)
    }

    pub fn raw(self) -> u64 {
        self.0
    }

    pub fn epoch(self) -> Epoch {
        // 24 bits are left above the counter, and epochs have 23.
        Epoch((self.0 >> Self::COUNTER_BITS) as u32)
    }

    pub fn counter(self) -> u64 {
        self.0 & ((1 << Self::COUNTER_BITS) - 1)
    }

    /// The id `count` stripes after this one.
    pub fn plus(self, count: u64) -> Self {
        StripeId(self.0 + count)
    }
}

impl fmt::Debug for StripeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stripe {}.{}", self.0 >> Self::COUNTER_BITS, self.counter())
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition {}", self.0)
    }
}
