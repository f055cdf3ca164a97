//! Order of writes: epochs, versions, operation numbers.

/// Number of an ownership; cluster-wide, strictly growing. Nodes reject a lower one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Epoch(pub u32);

impl Epoch {
    /// Largest epoch: 23 bits, so that an epoch and a 40-bit counter share one word and leave its top bit free.
    pub const MAX: Epoch = Epoch((1 << 23) - 1);
}

/// Version of an object: (epoch, counter), so that it is never "the largest seen plus one" (rule R9).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Version(u64);

impl Version {
    pub const COUNTER_BITS: u32 = 40;

    /// # Panics
    /// If `counter` does not fit in 40 bits or the epoch in 23.
    pub fn new(epoch: Epoch, counter: u64) -> Self {
        assert!(epoch <= Epoch::MAX && counter < 1 << Self::COUNTER_BITS, "version out of range");
        Version(u64::from(epoch.0) << Self::COUNTER_BITS | counter)
    }

    pub fn from_raw(raw: u64) -> Self {
        Version(raw)
    }

    pub fn raw(self) -> u64 {
        self.0
    }

    /// Of the owner that gave it.
    pub fn epoch(self) -> Epoch {
        // 24 bits are left above the counter, and epochs have 23.
        Epoch((self.0 >> Self::COUNTER_BITS) as u32)
    }

    pub fn next(self) -> Self {
        Version(self.0 + 1)
    }
}

/// Number of an append within its stripe, from 1; 0 means "none yet".
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct OpNumber(pub u32);

impl OpNumber {
    pub fn next(self) -> Self {
        OpNumber(self.0 + 1)
    }
}
