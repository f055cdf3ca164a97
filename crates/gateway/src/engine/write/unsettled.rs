//! Keys of which a write failed after it was sent, so that nobody knows what becomes of it.
//!
//! ```text
//! sent, its stripe left, no other place for it --> unsettled --a later write of the key is durable--> settled
//!                                                           '--a flush, or the stripe is void-----'
//! ```
//! Until then a later owner may find its record and take it for the newest. That contradicts no answer that shows the
//! object which the write was to change: then the write came later. But it must not come back once that object was said
//! to be over, or gone: what a command made of an object cannot come after its end. So whoever finds nothing of such a
//! key is told that it cannot be read. The same of each key of a group that is only to be stored where nothing is: if
//! another of its keys was written since, the group came before that, and so before whoever finds nothing of this one.
//!
//! A delete that failed so may count for the owner that finds its tombstone, wherever the object lies by then (see
//! `kept`).
//!
//! The pieces of a striped value stay until then, too: for who finds the manifest they are a value, and a member that
//! freed its own would make that void for the owner after, with all that was made of it (rule R8). So do those of an
//! object that goes meanwhile, if the write was to keep its value. If this owner ends before, the next one has the
//! manifest, or pieces without one.
//!
//! Must not know: which command it was.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use shorttail_store::record::Record;
use shorttail_units::{PartitionId, Slot, StripeId};

use super::manifest::Manifest;
use crate::engine::Engine;
use crate::engine::reclaim::kept::horizon_of;
use crate::engine::state::index::HashedKey;

/// Of a record: its partition, and a stripe that is younger than all that hold it.
#[derive(Clone, Copy, Debug)]
struct Left {
    partition: PartitionId,
    horizon: StripeId,
}

/// By the keys' hashes.
#[derive(Debug, Default)]
pub(in crate::engine) struct Unsettled {
    /// Writes that were to change an object, or to store several together where nothing is.
    changes: HashMap<u64, Left>,
    /// Striped values, whatever they were to replace. Each takes more memory of the nodes than of this owner.
    values: HashMap<u64, Vec<(Left, Manifest)>>,
}

impl Unsettled {
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.values.is_empty()
    }
}

impl Engine {
    /// A write that changes an object, or stores several together where nothing is, was sent, and failed.
    pub(in crate::engine) fn note_unsettled(&mut self, key: HashedKey) {
        let left = self.left_now(key.slot);
        self.unsettled.changes.insert(key.hash, left);
    }

    /// The manifest of a value was sent, and failed: its pieces are kept.
    pub(in crate::engine) fn note_unsettled_value(&mut self, key: HashedKey, manifest: Manifest) {
        let left = self.left_now(key.slot);
        self.unsettled.values.entry(key.hash).or_default().push((left, manifest));
    }

    fn left_now(&self, slot: Slot) -> Left {
        Left { partition: self.config.partition_of(slot), horizon: self.next_stripe_id() }
    }

    /// A later write is durable: its version is higher.
    pub(in crate::engine) fn settle(&mut self, hash: u64) {
        if self.unsettled.is_empty() {
            return;
        }
        self.unsettled.changes.remove(&hash);
        for (_, manifest) in self.unsettled.values.remove(&hash).unwrap_or_default() {
            self.free_striped(manifest.first);
        }
    }

    /// A flush is durable: whatever was written before is gone, pieces too.
    pub(in crate::engine) fn settle_all_of(&mut self, partitions: &BTreeSet<PartitionId>) {
        let stays = |left: &Left| !partitions.contains(&left.partition);
        self.unsettled.changes.retain(|_, left| stays(left));
        self.unsettled.values.retain(|_, values| {
            values.retain(|(left, _)| stays(left));
            !values.is_empty()
        });
    }

    /// First stripes of values that count for nothing until it is known what became of them.
    pub(in crate::engine) fn unsettled_values(&self) -> BTreeSet<StripeId> {
        self.unsettled.values.values().flatten().map(|(_, manifest)| manifest.first).collect()
    }

    /// May a write come back that would have changed what is over, or gone?
    pub(in crate::engine) fn is_unsettled(&self, hash: u64) -> bool {
        let concerned = self.unsettled.changes.get(&hash);
        concerned
            .is_some_and(|left| self.stripes.oldest_left(left.partition).is_some_and(|oldest| oldest < left.horizon))
    }

    /// Below which stripe lies what this record of a stripe ended, if it is a tombstone or floor.
    pub(in crate::engine) fn horizon_in(&self, stripe: StripeId, record: &Record<'_>) -> Option<StripeId> {
        let is_left = self.stripes.slot_of(stripe).is_some_and(|slot| !self.stripes.at(slot).is_sealed());
        let is_settled = !is_left || stripe.epoch() == self.config.epoch;
        horizon_of(record, self.config.epoch, is_settled)
    }

    /// Forgets those whose stripes are void.
    pub(in crate::engine) fn forget_settled(&mut self) {
        if self.unsettled.is_empty() {
            return;
        }
        let mut unsettled = std::mem::take(&mut self.unsettled);
        let mut oldest = BTreeMap::new();
        let mut is_over = |left: Left| {
            let oldest = *oldest.entry(left.partition).or_insert_with(|| self.stripes.oldest_left(left.partition));
            oldest.is_none_or(|oldest| oldest >= left.horizon)
        };
        unsettled.changes.retain(|_, &mut left| !is_over(left));
        let mut over = Vec::new();
        unsettled.values.retain(|_, values| {
            over.extend(values.extract_if(.., |&mut (left, _)| is_over(left)));
            !values.is_empty()
        });
        self.unsettled = unsettled;
        for (_, manifest) in over {
            self.free_striped(manifest.first);
        }
    }
}

#[cfg(test)]
mod tests;
