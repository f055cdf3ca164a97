//! Fences: which epoch may change the chunks of a partition, and since when this memory has been part of it.
//!
//! Per partition the highest epoch that fenced it counts; [`ALL_PARTITIONS`] fences every one. Before any fence
//! nothing may be changed: a joining node is fenced before use.
//!
//! The first fence of a partition also says which stripe would be opened next. That is what this memory *joined* at: of
//! older stripes it never held anything, whatever an earlier memory of the node did. A new owner asks for it, so that it
//! can tell a member that lost its chunk from one that was never given it.

use shorttail_units::{Epoch, PartitionId, StripeId};
use shorttail_wire::node::ALL_PARTITIONS;

/// A request of an epoch below the fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fenced {
    /// The epoch that fenced; 0: none did yet.
    pub by: Epoch,
}

/// Epoch 0: not fenced.
#[derive(Clone, Copy, Debug, Default)]
struct Fence {
    epoch: Epoch,
    joined: StripeId,
}

#[derive(Debug, Default)]
pub(crate) struct Fences {
    all: Fence,
    /// By partition number, as far as any was fenced by itself.
    partitions: Vec<Fence>,
}

impl Fences {
    /// Raises a fence; the same epoch again is fine. Answers what was joined at: of all partitions, the latest.
    pub fn raise(&mut self, partition: u16, epoch: Epoch, next: StripeId) -> Result<StripeId, Fenced> {
        if partition == ALL_PARTITIONS {
            let fenced = self.partitions.iter().filter(|fence| fence.epoch > Epoch(0));
            let (highest, joined) = fenced.fold((self.all.epoch, self.all.joined), |(epoch, joined), fence| {
                (epoch.max(fence.epoch), joined.max(fence.joined))
            });
            if epoch < highest {
                return Err(Fenced { by: highest });
            }
            self.all = Fence { epoch, joined: if highest == Epoch(0) { next } else { joined } };
            return Ok(self.all.joined);
        }
        let known = self.fence(PartitionId(partition));
        if epoch < known.epoch {
            return Err(Fenced { by: known.epoch });
        }
        let place = usize::from(partition);
        if self.partitions.len() <= place {
            self.partitions.resize(place + 1, Fence::default());
        }
        let joined = if known.epoch == Epoch(0) { next } else { known.joined };
        self.partitions[place] = Fence { epoch, joined };
        Ok(joined)
    }

    /// May an owner of `epoch` change chunks of this partition?
    pub fn check(&self, partition: PartitionId, epoch: Epoch) -> Result<(), Fenced> {
        let by = self.fence(partition).epoch;
        if by == Epoch(0) || epoch < by { Err(Fenced { by }) } else { Ok(()) }
    }

    fn fence(&self, partition: PartitionId) -> Fence {
        let own = self.partitions.get(usize::from(partition.0)).copied().unwrap_or_default();
        let joined = if own.epoch == Epoch(0) { self.all.joined } else { own.joined };
        Fence { epoch: own.epoch.max(self.all.epoch), joined }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: PartitionId = PartitionId(1);

    fn id(counter: u64) -> StripeId {
        StripeId::new(Epoch(2), counter)
    }

    #[test]
    fn nothing_may_be_changed_before_a_fence() {
        assert_eq!(Fences::default().check(ONE, Epoch(9)), Err(Fenced { by: Epoch(0) }));
    }

    #[test]
    fn the_highest_epoch_counts_per_partition() {
        let mut fences = Fences::default();
        assert!(fences.raise(1, Epoch(3), id(1)).is_ok());
        assert!(fences.raise(1, Epoch(3), id(1)).is_ok());
        assert_eq!(fences.raise(1, Epoch(2), id(1)), Err(Fenced { by: Epoch(3) }));
        assert_eq!(fences.check(ONE, Epoch(2)), Err(Fenced { by: Epoch(3) }));
        assert_eq!((fences.check(ONE, Epoch(3)), fences.check(ONE, Epoch(4))), (Ok(()), Ok(())));
        assert_eq!(fences.check(PartitionId(0), Epoch(4)), Err(Fenced { by: Epoch(0) }));
    }

    #[test]
    fn a_fence_of_all_partitions_holds_for_each_and_is_not_below_any() {
        let mut fences = Fences::default();
        assert!(fences.raise(ALL_PARTITIONS, Epoch(3), id(1)).is_ok());
        assert_eq!(fences.raise(1, Epoch(2), id(1)), Err(Fenced { by: Epoch(3) }));
        assert!(fences.raise(1, Epoch(5), id(1)).is_ok());
        assert_eq!(fences.raise(ALL_PARTITIONS, Epoch(4), id(1)), Err(Fenced { by: Epoch(5) }));
        assert_eq!(fences.check(PartitionId(7), Epoch(3)), Ok(()));
    }

    #[test]
    fn the_first_fence_of_a_partition_says_what_was_joined_at() {
        let mut fences = Fences::default();
        assert_eq!(fences.raise(1, Epoch(3), id(7)), Ok(id(7)));
        assert_eq!(fences.raise(1, Epoch(4), id(9)), Ok(id(7)));
        assert_eq!(fences.raise(2, Epoch(4), id(9)), Ok(id(9)));
        assert_eq!(fences.raise(ALL_PARTITIONS, Epoch(5), id(20)), Ok(id(9)), "the latest of them");
        assert_eq!(fences.raise(1, Epoch(6), id(30)), Ok(id(7)));
        assert_eq!(fences.raise(3, Epoch(6), id(30)), Ok(id(9)), "fenced with all of them");
    }
}
