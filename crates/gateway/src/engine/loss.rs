//! What more failures than the code tolerates took away, and what may still be said of the rest.
//!
//! An owner that lives knows which keys lay in a stripe that cannot be read: their reads are errors. A new owner does
//! not: any key may have had its newest record there. It trusts what owners of later epochs than the stripe's wrote,
//! and of every other key of that partition it says that it cannot know. A write makes a key known again; a flush ends
//! the loss as a whole.
//!
//! A lost stripe's remaining chunks stay where they are: they are how a later owner learns of the loss.

use std::collections::BTreeMap;
use std::sync::Arc;

use shorttail_units::{NodeId, PartitionId, Slot, StripeId, Version};

use super::Engine;
use crate::command::Command;

#[derive(Debug)]
struct LostStripe {
    partition: PartitionId,
    members: Arc<[NodeId]>,
}

#[derive(Debug, Default)]
pub struct Losses {
    stripes: BTreeMap<StripeId, LostStripe>,
}

impl<C: Command> Engine<C> {
    pub(super) fn note_loss(&mut self, id: StripeId, partition: PartitionId, members: Arc<[NodeId]>) {
        self.losses.stripes.insert(id, LostStripe { partition, members });
    }

    /// Most chunks that one stripe lost: of one that cannot be read, as many as the code does not survive.
    pub(super) fn lost_of_stripe_max(&self) -> u64 {
        let beyond = self.config.tolerance() as u64 + 1;
        self.repair.lost_of_stripe_max().max(if self.has_losses() { beyond } else { 0 })
    }

    pub(super) fn is_lost(&self, id: StripeId) -> bool {
        self.losses.stripes.contains_key(&id)
    }

    pub(super) fn has_losses(&self) -> bool {
        !self.losses.stripes.is_empty()
    }

    /// May a lost stripe have held something newer of a key of this slot than a record of this version, or than its
    /// absence (`None`)? What is appended to a stripe is of the stripe's epoch at most.
    pub(super) fn is_overshadowed(&self, slot: Slot, found: Option<Version>) -> bool {
        if !self.has_losses() {
            return false;
        }
        let partition = self.config.partition_of(slot);
        let mut lost = self.losses.stripes.iter().filter(|(_, lost)| lost.partition == partition);
        lost.any(|(id, _)| found.is_none_or(|version| version.epoch() <= id.epoch()))
    }

    /// A flush ended whatever was lost: the remains are declared void.
    pub(super) fn end_losses(&mut self) {
        for (id, lost) in std::mem::take(&mut self.losses.stripes) {
            self.declare_void_of(id, lost.partition, lost.members);
        }
    }
}
