//! Fences: which epoch may change the chunks of a partition.
//!
//! Per partition the highest epoch that fenced it counts; [`ALL_PARTITIONS`] fences every one. Before any fence
//! nothing may be changed: a joining node is fenced before use.

use shorttail_units::{Epoch, PartitionId};
use shorttail_wire::node::ALL_PARTITIONS;

/// A request of an epoch below the fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fenced {
    /// The epoch that fenced; 0: none did yet.
    pub by: Epoch,
}

#[derive(Debug, Default)]
pub(crate) struct Fences {
    all: Epoch,
    /// By partition number, as far as any was fenced by itself.
    partitions: Vec<Epoch>,
}

impl Fences {
    /// Raises a fence; the same epoch again is fine.
    pub fn raise(&mut self, partition: u16, epoch: Epoch) -> Result<(), Fenced> {
        if partition == ALL_PARTITIONS {
            let highest = self.partitions.iter().copied().fold(self.all, Epoch::max);
            if epoch < highest {
                return Err(Fenced { by: highest });
            }
            self.all = epoch;
            return Ok(());
        }
        let by = self.epoch(PartitionId(partition));
        if epoch < by {
            return Err(Fenced { by });
        }
        let place = usize::from(partition);
        if self.partitions.len() <= place {
            self.partitions.resize(place + 1, Epoch(0));
        }
        self.partitions[place] = epoch;
        Ok(())
    }

    /// May an owner of `epoch` change chunks of this partition?
    pub fn check(&self, partition: PartitionId, epoch: Epoch) -> Result<(), Fenced> {
        let by = self.epoch(partition);
        if by == Epoch(0) || epoch < by { Err(Fenced { by }) } else { Ok(()) }
    }

    fn epoch(&self, partition: PartitionId) -> Epoch {
        self.partitions.get(usize::from(partition.0)).copied().unwrap_or_default().max(self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PartitionId = PartitionId(1);

    #[test]
    fn nothing_may_be_changed_before_a_fence() {
        assert_eq!(Fences::default().check(ONE, Epoch(9)), Err(Fenced { by: Epoch(0) }));
    }

    #[test]
    fn the_highest_epoch_counts_per_partition() {
        let mut fences = Fences::default();
        assert_eq!(fences.raise(1, Epoch(3)), Ok(()));
        assert_eq!(fences.raise(1, Epoch(3)), Ok(()));
        assert_eq!(fences.raise(1, Epoch(2)), Err(Fenced { by: Epoch(3) }));
        assert_eq!(fences.check(ONE, Epoch(2)), Err(Fenced { by: Epoch(3) }));
        assert_eq!((fences.check(ONE, Epoch(3)), fences.check(ONE, Epoch(4))), (Ok(()), Ok(())));
        assert_eq!(fences.check(PartitionId(0), Epoch(4)), Err(Fenced { by: Epoch(0) }));
    }

    #[test]
    fn a_fence_of_all_partitions_holds_for_each_and_is_not_below_any() {
        let mut fences = Fences::default();
        assert_eq!(fences.raise(ALL_PARTITIONS, Epoch(3)), Ok(()));
        assert_eq!(fences.raise(1, Epoch(2)), Err(Fenced { by: Epoch(3) }));
        assert_eq!(fences.raise(1, Epoch(5)), Ok(()));
        assert_eq!(fences.raise(ALL_PARTITIONS, Epoch(4)), Err(Fenced { by: Epoch(5) }));
        assert_eq!(fences.check(PartitionId(7), Epoch(3)), Ok(()));
    }
}
