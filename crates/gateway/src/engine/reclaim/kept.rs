//! What a stripe holds that is neither alive nor free to go: tombstones, floors, other control records.
//!
//! A tombstone or floor is needed while the partition has a stripe below its horizon, other than the one it lies in
//! (rule R3). Of those in a stripe only the highest horizon is known here, so that the estimate errs to the safe side:
//! what is thought to be needed may not be, never the other way round.
//!
//! An earlier owner may have given up a floor, served on, and moved what it ends to stripes at or above its horizon.
//! Whoever finds the floor applies it: from then on all that it ends is in stripes of earlier owners, wherever these
//! lie.
//!
//! So he may have given up a delete, and moved on the object that was to end. Its tombstone lies in a stripe that was
//! never sealed then, as a seal waits until everything is confirmed; and it counts once an owner found it there. That
//! one takes it in the same way, and carries it with the horizon that follows.
//!
//! Must not know: which stripes exist.

use shorttail_store::record::{Control, Record, RecordKind};
use shorttail_units::{Epoch, StripeId, Version};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Tombstones and floors.
    ending_bytes: u64,
    /// The highest of their horizons.
    horizon: StripeId,
    /// The highest order of a flush for later, and its bytes: it counts while its partition has one to come that is no
    /// later.
    order: Option<(Version, u64)>,
    /// Voids that still count, and what nobody knows.
    control_bytes: u64,
}

impl Kept {
    /// Counts a record of `bytes` bytes, if it is of a kind that is kept. `epoch`: of the owner. `is_settled`: it does
    /// not lie in a stripe that an earlier owner left unsealed.
    pub fn add(&mut self, record: &Record<'_>, bytes: usize, epoch: Epoch, is_settled: bool) {
        let Some(horizon) = horizon_of(record, epoch, is_settled) else {
            return match (record.kind, Control::parse(record.value)) {
                (RecordKind::Control, Some(Control::FlushDue(_))) => {
                    self.order = self.order.max(Some((record.version, bytes as u64)));
                }
                (RecordKind::Control, _) => self.control_bytes += bytes as u64,
                _ => {}
            };
        };
        self.ending_bytes += bytes as u64;
        self.horizon = self.horizon.max(horizon);
    }

    /// A void record of `bytes` bytes has done its duty.
    pub fn drop_void(&mut self, bytes: usize) {
        self.control_bytes = self.control_bytes.saturating_sub(bytes as u64);
    }

    /// Bytes that a job would have to carry, when the oldest other stripe of the partition is this one, and the first
    /// flush for later that is to come in it was ordered by this version.
    pub fn needed_bytes(&self, oldest_other: Option<StripeId>, first_order: Option<Version>) -> u64 {
        let order = self.order.filter(|&(order, _)| first_order.is_some_and(|first| first <= order));
        self.control_bytes + order.map_or(0, |(_, bytes)| bytes) + self.ending_bytes(oldest_other)
    }

    /// Of these, the tombstones and floors.
    pub fn ending_bytes(&self, oldest_other: Option<StripeId>) -> u64 {
        let is_needed = oldest_other.is_some_and(|oldest| oldest < self.horizon);
        if is_needed { self.ending_bytes } else { 0 }
    }
}

/// Below which stripe lies what a tombstone or floor ended, for an owner of this epoch (see [`Kept::add`]); `None`: the
/// record is neither.
pub fn horizon_of(record: &Record<'_>, epoch: Epoch, is_settled: bool) -> Option<StripeId> {
    let own = StripeId::new(epoch, 0);
    match record.kind {
        RecordKind::Tombstone => {
            // One that cannot be read is kept for ever.
            let raw = record.value.try_into().map_or(u64::MAX, u64::from_le_bytes);
            Some(StripeId::from_raw(raw).max(if is_settled { StripeId::default() } else { own }))
        }
        RecordKind::Control => match Control::parse(record.value) {
            Some(Control::Floor { horizon, .. }) => Some(horizon.max(own)),
            _ => None,
        },
        RecordKind::Object | RecordKind::Manifest => None,
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::UnixMs;

    use super::*;

    fn id(counter: u64) -> StripeId {
        StripeId::new(Epoch(1), counter)
    }

    fn tombstone(horizon: StripeId, kept: &mut Kept) {
        let value = horizon.raw().to_le_bytes();
        kept.add(&Record::tombstone(b"key", &value, Version::new(Epoch(1), 1)), 30, Epoch(1), true);
    }

    #[test]
    fn a_tombstone_counts_while_something_older_than_its_horizon_exists() {
        let mut kept = Kept::default();
        tombstone(id(5), &mut kept);
        tombstone(id(7), &mut kept);
        assert_eq!(kept.needed_bytes(Some(id(6)), None), 60, "of two only the higher horizon is known");
        assert_eq!(kept.needed_bytes(Some(id(7)), None), 0);
        assert_eq!(kept.needed_bytes(None, None), 0);
    }

    #[test]
    fn a_tombstone_that_was_left_unsealed_counts_while_anything_inherited_exists() {
        let horizon = id(5).raw().to_le_bytes();
        let record = Record::tombstone(b"key", &horizon, Version::default());
        let (mut sealed, mut left) = (Kept::default(), Kept::default());
        sealed.add(&record, 30, Epoch(2), true);
        left.add(&record, 30, Epoch(2), false);
        assert_eq!((sealed.needed_bytes(Some(id(9)), None), left.needed_bytes(Some(id(9)), None)), (0, 30));
        assert_eq!(left.needed_bytes(Some(StripeId::new(Epoch(2), 1)), None), 0);
    }

    #[test]
    fn a_void_record_counts_until_it_is_dropped_and_an_object_never() {
        let mut kept = Kept::default();
        let void = Control::Void(id(3)).encode();
        let version = Version::new(Epoch(1), 1);
        kept.add(&Record::object(b"", &void, version), 40, Epoch(1), true);
        kept.add(&Record::control(&void, version), 40, Epoch(1), true);
        assert_eq!(kept.needed_bytes(None, None), 40);
        kept.drop_void(40);
        assert_eq!(kept.needed_bytes(Some(id(1)), None), 0);
    }

    #[test]
    fn a_floor_counts_while_anything_exists_that_its_owner_inherited() {
        let floor = Control::Floor { floor: Version::new(Epoch(1), 5), horizon: id(6) }.encode();
        let record = Record::control(&floor, Version::new(Epoch(1), 5));
        let (mut own, mut inherited) = (Kept::default(), Kept::default());
        own.add(&record, 40, Epoch(1), true);
        inherited.add(&record, 40, Epoch(2), true);
        assert_eq!((own.needed_bytes(Some(id(9)), None), inherited.needed_bytes(Some(id(9)), None)), (0, 40));
        assert_eq!(inherited.needed_bytes(Some(StripeId::new(Epoch(2), 1)), None), 0);
    }

    #[test]
    fn of_flushes_for_later_the_last_counts_while_one_is_to_come() {
        let mut kept = Kept::default();
        let version = |counter| Version::new(Epoch(1), counter);
        for counter in [3, 7, 5] {
            let order = Control::FlushDue(UnixMs(1_000 * counter)).encode();
            let record = Record::control(&order, version(counter));
            kept.add(&record, 20, Epoch(1), true);
        }
        assert_eq!([3, 7, 8].map(|first| kept.needed_bytes(None, Some(version(first)))), [20, 20, 0]);
        assert_eq!(kept.needed_bytes(None, None), 0);
    }
}
