//! Fences and promises: which epoch may change the chunks of a partition, how long no other one may, and since when
//! this memory has been part of it.
//!
//! ```text
//! Fence 3    Renew 3                  Fence 7              promise to 3 ends     Fence 7       Renew 3
//!   |           |---- promised ---------|------------------------|                 |             |
//! fenced by 3   until now + lease     refused: Leased,         nobody's          fenced by 7    refused: Fenced by 7
//!                                     3 is not renewed
//! ```
//! Per partition the highest epoch that fenced it counts. Before any fence nothing may be changed: a joining node is
//! fenced before use. Promises are kept by core 0 of a node only, of an epoch for all partitions that it fenced: an
//! owner is not accepted before core 0 is fenced (rule R2).
//!
//! An owner says for which partitions it asks: it is promised something only while its epoch fences them all.
//!
//! A higher epoch that is refused is remembered: the promise runs out, whatever the older owner asks. So an owner that
//! only the coordinator lost sight of gives way within one lease.
//!
//! The first fence of a partition also says which stripe would be opened next. That is what this memory *joined* at: of
//! older stripes it never held anything, whatever an earlier memory of the node did. A new owner asks for it, so that
//! it can tell a member that lost its chunk from one that was never given it. Memory of which something was lost,
//! nobody can tell what, joins anew: the next fence, also one that it knows already, says what at. When everything is
//! rebuilt that it was to hold, its owner says so with another fence, of a lower id: then it has lost nothing since
//! that.
//!
//! Fences live as long as the memory does. Of promises only the longest lease does: a node that kept its memory over a
//! restart refuses higher epochs for that long, whoever was promised what.

use std::collections::BTreeMap;

use shorttail_units::{Epoch, PartitionId, StripeId};

use crate::limits::LEASE_US_MAX;

/// Why an epoch may not do something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Barred {
    /// It is below the fence. 0: none fenced yet.
    Fenced { by: Epoch },
    /// So long no higher epoch than the present one may fence.
    Leased { left_us: u64 },
}

/// Of a fence that is kept.
const ENTRY_BYTES: usize = 15;

/// Epoch 0: not fenced.
#[derive(Clone, Copy, Debug, Default)]
struct Fence {
    epoch: Epoch,
    joined: StripeId,
    /// The owner handed the partition over: no promise holds for it.
    is_released: bool,
}

/// To the owner of an epoch, while a partition is fenced by it.
#[derive(Clone, Copy, Debug, Default)]
struct Promise {
    until_us: u64,
    /// The epoch that fenced one of its partitions, or wants to. 0: none.
    wanted_by: Epoch,
    /// How many it fences.
    partition_count: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Fences {
    /// By partition number, as far as any was fenced.
    partitions: Vec<Fence>,
    promises: BTreeMap<Epoch, Promise>,
    /// The longest lease that was ever promised.
    lease_us_max: u64,
}

impl Fences {
    /// Fences the partition for `epoch`. Repeating the current epoch is allowed; a lower `next` then records that this
    /// memory has held everything since that stripe. Returns the stripe id it joined at.
    pub fn raise(
        &mut self,
        partition: PartitionId,
        epoch: Epoch,
        next: StripeId,
        now_us: u64,
    ) -> Result<StripeId, Barred> {
        let known = self.fence(partition);
        if epoch < known.epoch {
            return Err(Barred::Fenced { by: known.epoch });
        }
        let is_new = known.epoch == Epoch(0) || known.joined == Self::never();
        let joined = if is_new { next } else { known.joined };
        if epoch == known.epoch {
            let joined = joined.min(next);
            self.partitions[usize::from(partition.0)].joined = joined;
            return Ok(joined);
        }
        self.supersede(known, epoch, now_us)?;
        self.promises.entry(epoch).or_default().partition_count += 1;
        let place = usize::from(partition.0);
        if self.partitions.len() <= place {
            self.partitions.resize(place + 1, Fence::default());
        }
        self.partitions[place] = Fence { epoch, joined, is_released: false };
        Ok(joined)
    }

    /// Will [`Fences::raise`] fence out an older epoch?
    pub fn fences_out(&self, partition: PartitionId, epoch: Epoch, now_us: u64) -> bool {
        let known = self.fence(partition);
        let is_promised = |promise: &Promise| !known.is_released && promise.until_us > now_us;
        known.epoch > Epoch(0) && known.epoch < epoch && !self.promises.get(&known.epoch).is_some_and(is_promised)
    }

    /// A higher epoch takes the place of the one that fenced.
    fn supersede(&mut self, known: Fence, epoch: Epoch, now_us: u64) -> Result<(), Barred> {
        let Some(promise) = self.promises.get_mut(&known.epoch) else { return Ok(()) };
        if !known.is_released {
            promise.wanted_by = promise.wanted_by.max(epoch);
            let left_us = promise.until_us.saturating_sub(now_us);
            if left_us > 0 {
                return Err(Barred::Leased { left_us });
            }
        }
        promise.partition_count -= 1;
        if promise.partition_count == 0 {
            self.promises.remove(&known.epoch);
        }
        Ok(())
    }

    /// Promises the owner of an epoch that no higher one fences what it fenced: nothing, unless that is all of these
    /// partitions. What is left of an owner that gave way for one of them would prove it for all. Returns whether what
    /// has to outlive the process changed.
    pub fn renew(
        &mut self,
        epoch: Epoch,
        lease_us: u32,
        partitions: &[PartitionId],
        now_us: u64,
    ) -> Result<bool, Barred> {
        let of_another = |fence: &Fence| fence.epoch != epoch || fence.is_released;
        let others = partitions.iter().map(|&partition| self.fence(partition)).filter(of_another);
        if let Some(by) = others.map(|fence| fence.epoch).max() {
            return Err(Barred::Fenced { by });
        }
        let promise = self.promises.get_mut(&epoch).ok_or(Barred::Fenced { by: Epoch(0) })?;
        if promise.wanted_by > Epoch(0) {
            return Err(Barred::Fenced { by: promise.wanted_by });
        }
        let lease_us = u64::from(lease_us).min(LEASE_US_MAX);
        promise.until_us = promise.until_us.max(now_us + lease_us);
        let is_longest = lease_us > self.lease_us_max;
        self.lease_us_max = self.lease_us_max.max(lease_us);
        Ok(is_longest)
    }

    /// Above every stripe: what memory joined at that is to join anew.
    fn never() -> StripeId {
        StripeId::from_raw(u64::MAX)
    }

    /// Of chunks that this memory held some are missing: what it holds nothing of, it may have lost.
    pub fn forget_joined(&mut self) {
        self.partitions
            .iter_mut()
            .filter(|fence| fence.epoch > Epoch(0))
            .for_each(|fence| fence.joined = Self::never());
    }

    /// The owner of an epoch hands a partition over.
    pub fn release(&mut self, partition: PartitionId, epoch: Epoch) -> Result<(), Barred> {
        let known = self.fence(partition);
        if known.epoch != epoch || epoch == Epoch(0) {
            return Err(Barred::Fenced { by: known.epoch });
        }
        self.partitions[usize::from(partition.0)].is_released = true;
        Ok(())
    }

    /// What has to outlive the process: the longest lease (u64), and
    /// `partition u16 | epoch u32 | joined u64 | released u8` for each that is fenced.
    pub fn to_bytes(&self) -> Vec<u8> {
        let fenced = self.partitions.iter().enumerate().filter(|(_, fence)| fence.epoch > Epoch(0));
        let mut bytes = self.lease_us_max.to_le_bytes().to_vec();
        for (partition, fence) in fenced {
            bytes.extend_from_slice(&(partition as u16).to_le_bytes());
            bytes.extend_from_slice(&fence.epoch.0.to_le_bytes());
            bytes.extend_from_slice(&fence.joined.raw().to_le_bytes());
            bytes.push(u8::from(fence.is_released));
        }
        bytes
    }

    /// The fences that an earlier process had, which ended before now. What it promised ends after the longest lease.
    ///
    /// `None`: it wrote none of this.
    pub fn from_bytes(bytes: &[u8], now_us: u64) -> Option<Self> {
        let mut fences = Fences::default();
        if bytes.is_empty() {
            return Some(fences);
        }
        let (lease_us_max, entries) = bytes.split_first_chunk::<8>()?;
        fences.lease_us_max = u64::from_le_bytes(*lease_us_max).min(LEASE_US_MAX);
        let promised_until_us = if fences.lease_us_max > 0 { now_us + fences.lease_us_max } else { 0 };
        let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
        for entry in entries {
            let partition = usize::from(u16::from_le_bytes([entry[0], entry[1]]));
            let epoch = Epoch(u32::from_le_bytes(entry[2..6].try_into().ok()?));
            let joined = StripeId::from_raw(u64::from_le_bytes(entry[6..14].try_into().ok()?));
            let promise = fences.promises.entry(epoch).or_default();
            promise.partition_count += 1;
            promise.until_us = promised_until_us;
            if fences.partitions.len() <= partition {
                fences.partitions.resize(partition + 1, Fence::default());
            }
            fences.partitions[partition] = Fence { epoch, joined, is_released: entry[14] != 0 };
        }
        rest.is_empty().then_some(fences)
    }

    /// May an owner of `epoch` change chunks of this partition?
    pub fn check(&self, partition: PartitionId, epoch: Epoch) -> Result<(), Barred> {
        let by = self.fence(partition).epoch;
        if by == Epoch(0) || epoch < by { Err(Barred::Fenced { by }) } else { Ok(()) }
    }

    fn fence(&self, partition: PartitionId) -> Fence {
        self.partitions.get(usize::from(partition.0)).copied().unwrap_or_default()
    }

    /// Asserts that promises are to epochs that fence something.
    pub fn check_invariants(&self) {
        for (&epoch, promise) in &self.promises {
            let count = self.partitions.iter().filter(|fence| fence.epoch == epoch).count();
            assert_eq!(promise.partition_count, count, "partitions fenced by {epoch:?}");
            assert!(promise.wanted_by == Epoch(0) || promise.wanted_by > epoch, "{epoch:?} is wanted by a lower epoch");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_fences_as_before_and_promises_for_a_while() {
        let mut fences = Fences::default();
        for (partition, epoch) in [(0, 3), (7, 3), (9, 4)] {
            assert!(fences.raise(PartitionId(partition), Epoch(epoch), StripeId::from_raw(50), 0).is_ok());
        }
        assert!(fences.release(PartitionId(7), Epoch(3)).is_ok());
        assert_eq!(fences.renew(Epoch(3), 600, &[PartitionId(0)], 0), Ok(true));
        assert_eq!(fences.renew(Epoch(4), 600, &[PartitionId(9)], 0), Ok(false), "nothing is to be kept");
        let kept = fences.to_bytes();
        let mut again = Fences::from_bytes(&kept, 400).expect("our own");
        again.check_invariants();
        assert_eq!(again.to_bytes(), kept);
        assert_eq!(again.check(PartitionId(0), Epoch(2)), Err(Barred::Fenced { by: Epoch(3) }));
        assert_eq!(again.check(PartitionId(9), Epoch(4)), Ok(()));
        let raise = |fences: &mut Fences, partition, now_us| {
            fences.raise(PartitionId(partition), Epoch(8), StripeId::from_raw(90), now_us)
        };
        assert_eq!(raise(&mut again, 0, 400), Err(Barred::Leased { left_us: 600 }));
        assert_eq!(raise(&mut again, 7, 400), Ok(StripeId::from_raw(50)), "it was handed over");
        assert_eq!(raise(&mut again, 0, 1_000), Ok(StripeId::from_raw(50)), "what it joined at is kept");
        assert!(Fences::from_bytes(&kept[1..], 0).is_none());
        assert!(Fences::from_bytes(&[], 0).is_some_and(|fences| fences.partitions.is_empty()));
    }

    const ONE: PartitionId = PartitionId(1);
    const TWO: PartitionId = PartitionId(2);
    const LEASE_US: u32 = 1_000_000;

    fn id(counter: u64) -> StripeId {
        StripeId::new(Epoch(2), counter)
    }

    fn fenced_by<T>(epoch: u32) -> Result<T, Barred> {
        Err(Barred::Fenced { by: Epoch(epoch) })
    }

    /// Partitions one and two fenced by epoch 3, which was promised a lease at time 100.
    fn promised() -> Fences {
        let mut fences = Fences::default();
        assert_eq!(fences.raise(ONE, Epoch(3), id(1), 0), Ok(id(1)));
        assert_eq!(fences.raise(TWO, Epoch(3), id(1), 0), Ok(id(1)));
        assert!(fences.renew(Epoch(3), LEASE_US, &[ONE, TWO], 100).is_ok());
        fences
    }

    #[test]
    fn nothing_may_be_changed_before_a_fence() {
        assert_eq!(Fences::default().check(ONE, Epoch(9)), fenced_by(0));
        assert_eq!(Fences::default().renew(Epoch(9), LEASE_US, &[ONE], 0), fenced_by(0));
        assert_eq!(Fences::default().release(ONE, Epoch(0)), fenced_by(0));
    }

    #[test]
    fn the_highest_epoch_counts_per_partition() {
        let mut fences = Fences::default();
        assert!(fences.raise(ONE, Epoch(3), id(1), 0).is_ok());
        assert!(fences.raise(ONE, Epoch(3), id(1), 0).is_ok());
        assert_eq!(fences.raise(ONE, Epoch(2), id(1), 0).map(|_| ()), fenced_by(3));
        assert_eq!(fences.check(ONE, Epoch(2)), fenced_by(3));
        assert_eq!((fences.check(ONE, Epoch(3)), fences.check(ONE, Epoch(4))), (Ok(()), Ok(())));
        assert_eq!(fences.check(PartitionId(0), Epoch(4)), fenced_by(0));
        fences.check_invariants();
    }

    #[test]
    fn the_first_fence_of_a_partition_says_what_was_joined_at() {
        let mut fences = Fences::default();
        assert_eq!(fences.raise(ONE, Epoch(3), id(7), 0), Ok(id(7)));
        assert_eq!(fences.raise(ONE, Epoch(4), id(9), 0), Ok(id(7)));
        assert_eq!(fences.raise(TWO, Epoch(4), id(9), 0), Ok(id(9)));
        fences.check_invariants();
    }

    #[test]
    fn memory_that_lacks_nothing_is_told_by_its_owner_and_by_nobody_before() {
        let mut fences = Fences::default();
        assert_eq!(fences.raise(ONE, Epoch(4), id(7), 0), Ok(id(7)));
        assert_eq!(fences.raise(TWO, Epoch(4), id(7), 0), Ok(id(7)));
        assert_eq!(fences.raise(ONE, Epoch(3), id(0), 0), fenced_by(4));
        assert_eq!(fences.raise(ONE, Epoch(4), id(9), 0), Ok(id(7)), "greeted again");
        assert_eq!(fences.raise(ONE, Epoch(4), id(0), 0), Ok(id(0)));
        let mut fences = Fences::from_bytes(&fences.to_bytes(), 0).expect("our own");
        assert_eq!(fences.raise(ONE, Epoch(5), id(9), 0), Ok(id(0)), "the next owner hears of it");
        assert_eq!(fences.raise(TWO, Epoch(5), id(9), 0), Ok(id(7)), "it was about one partition");
        fences.forget_joined();
        assert_eq!(fences.raise(ONE, Epoch(5), id(9), 0), Ok(id(9)), "it lacks something again");
        fences.check_invariants();
    }

    #[test]
    fn memory_of_which_something_is_missing_joins_anew() {
        for epoch in [Epoch(3), Epoch(4)] {
            let mut fences = Fences::default();
            assert_eq!(fences.raise(ONE, Epoch(3), id(7), 0), Ok(id(7)));
            fences.forget_joined();
            let mut fences = Fences::from_bytes(&fences.to_bytes(), 0).expect("our own");
            fences.check_invariants();
            assert_eq!(fences.raise(ONE, epoch, id(9), 0), Ok(id(9)));
            assert_eq!(fences.raise(ONE, epoch, id(11), 0), Ok(id(9)));
            assert_eq!(fences.raise(ONE, Epoch(5), id(12), 0), Ok(id(9)));
            assert_eq!(fences.raise(TWO, Epoch(5), id(13), 0), Ok(id(13)));
            fences.check_invariants();
        }
    }

    #[test]
    fn a_promise_keeps_a_higher_epoch_out_until_it_ends() {
        let mut fences = promised();
        let end_us = 100 + u64::from(LEASE_US);
        assert_eq!(fences.raise(ONE, Epoch(4), id(5), end_us - 7), Err(Barred::Leased { left_us: 7 }));
        assert_eq!(fences.check(ONE, Epoch(3)), Ok(()), "the older owner goes on");
        assert_eq!(fences.raise(ONE, Epoch(3), id(5), 200), Ok(id(1)), "and may greet again");
        assert_eq!(fences.raise(PartitionId(9), Epoch(4), id(5), 200), Ok(id(5)), "of others nothing was promised");
        assert_eq!(fences.raise(ONE, Epoch(4), id(5), end_us), Ok(id(1)));
        assert_eq!(fences.check(ONE, Epoch(3)), fenced_by(4));
        fences.check_invariants();
    }

    #[test]
    fn an_owner_that_gave_way_for_one_partition_is_promised_nothing_any_more() {
        let mut fences = promised();
        let end_us = 100 + u64::from(LEASE_US);
        assert!(fences.raise(ONE, Epoch(4), id(5), end_us).is_ok());
        assert_eq!(fences.renew(Epoch(3), LEASE_US, &[ONE, TWO], end_us), fenced_by(4));
        assert!(fences.raise(TWO, Epoch(4), id(5), end_us).is_ok());
        assert_eq!(fences.renew(Epoch(3), LEASE_US, &[ONE, TWO], end_us), fenced_by(4), "nothing is left of it");
        fences.check_invariants();
    }

    #[test]
    fn a_promise_runs_out_once_a_higher_epoch_waits() {
        let mut fences = promised();
        assert!(fences.raise(ONE, Epoch(5), id(5), 200).is_err());
        assert_eq!(fences.renew(Epoch(3), LEASE_US, &[ONE, TWO], 300), fenced_by(5));
        assert!(fences.raise(ONE, Epoch(5), id(5), 100 + u64::from(LEASE_US)).is_ok());
    }

    #[test]
    fn what_was_released_is_fenced_at_once_and_the_rest_is_not() {
        let mut fences = promised();
        assert_eq!(fences.release(ONE, Epoch(2)), fenced_by(3));
        assert_eq!(fences.release(ONE, Epoch(3)), Ok(()));
        assert_eq!(fences.raise(ONE, Epoch(4), id(5), 200), Ok(id(1)));
        assert!(fences.renew(Epoch(3), LEASE_US, &[TWO], 300).is_ok(), "its other partition is its own");
        assert_eq!(fences.renew(Epoch(3), LEASE_US, &[ONE, TWO], 300), fenced_by(4));
        assert!(matches!(fences.raise(TWO, Epoch(4), id(5), 400), Err(Barred::Leased { .. })));
        assert_eq!(fences.release(ONE, Epoch(3)), fenced_by(4));
        fences.check_invariants();
    }

    /// The first partitions that it fenced were another's before it fenced the last: nothing was left that remembered.
    #[test]
    fn an_owner_that_gave_way_before_it_fenced_everything_is_promised_nothing() {
        let mut fences = Fences::default();
        assert!(fences.raise(TWO, Epoch(2), id(1), 0).is_ok());
        assert!(fences.renew(Epoch(2), LEASE_US, &[TWO], 0).is_ok());
        assert!(fences.raise(ONE, Epoch(3), id(1), 100).is_ok());
        assert!(matches!(fences.raise(TWO, Epoch(3), id(1), 100), Err(Barred::Leased { .. })));
        assert!(fences.raise(ONE, Epoch(4), id(1), 200).is_ok());
        let end_us = u64::from(LEASE_US);
        assert!(fences.raise(TWO, Epoch(3), id(1), end_us).is_ok());
        assert_eq!(fences.renew(Epoch(3), LEASE_US, &[ONE, TWO], end_us), fenced_by(4));
        fences.check_invariants();
    }

    #[test]
    fn no_promise_is_longer_than_the_longest() {
        let mut fences = promised();
        assert!(fences.renew(Epoch(3), u32::MAX, &[ONE, TWO], 0).is_ok());
        assert!(fences.raise(ONE, Epoch(4), id(5), LEASE_US_MAX).is_ok());
    }
}
