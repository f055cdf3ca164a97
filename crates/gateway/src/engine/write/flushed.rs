//! Striped objects that a flush ended: their stripes are freed some objects a turn, as there may be a million.
//!
//! ```text
//! striped --flush--> flushed --some a turn, when the nodes answered the last ones--> freed
//! ```
//! The floor hides them from the first moment. Nobody waits for these frees, unless memory is short. What is left of
//! them when the owner changes the next one frees, as it does with all that lies below a floor.
//!
//! Must not know: floors.

use std::collections::{BTreeMap, VecDeque};

use shorttail_units::StripeId;

use super::striped_objects::StripedObject;
use crate::engine::Engine;
use crate::engine::limits::FLUSHED_FREES_MAX;

#[derive(Debug, Default)]
pub struct Flushed {
    /// Of each flush those that are left, by their first stripe.
    lists: VecDeque<BTreeMap<StripeId, StripedObject>>,
}

impl Flushed {
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    fn pop(&mut self) -> Option<StripedObject> {
        let list = self.lists.front_mut()?;
        let object = list.pop_first().map(|(_, object)| object);
        if list.is_empty() {
            self.lists.pop_front();
        }
        object
    }
}

impl Engine {
    /// These objects are over.
    pub(super) fn note_flushed(&mut self, objects: BTreeMap<StripeId, StripedObject>) {
        if objects.is_empty() {
            return;
        }
        let is_of_them = |stripe: &StripeId| {
            let last = objects.range(..=*stripe).next_back();
            last.is_some_and(|(first, object)| *stripe < first.plus(u64::from(object.manifest.stripe_count)))
        };
        // Nothing is repaired or moved any more.
        let concerned: Vec<_> = self.repair.stripes().chain(self.moves.stripes()).filter(is_of_them).collect();
        for stripe in concerned {
            self.repair.forget(stripe);
            self.forget_moves(stripe);
        }
        self.flushed.lists.push_back(objects);
    }

    /// Frees some of them.
    pub(in crate::engine) fn free_flushed(&mut self) {
        if self.flushed.is_empty() || !self.may_reclaim() || self.frees_under_way() >= FLUSHED_FREES_MAX {
            return;
        }
        self.voids.are_unhurried = !self.is_short_of_memory();
        for _ in 0..FLUSHED_FREES_MAX {
            let Some(object) = self.flushed.pop() else { break };
            self.free_pieces(&object);
        }
        self.voids.are_unhurried = false;
    }
}

#[cfg(test)]
mod tests;
