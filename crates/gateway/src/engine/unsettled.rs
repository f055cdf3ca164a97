//! Keys of which a write failed after it was sent, so that nobody knows what becomes of it.
//!
//! ```text
//! sent, its stripe left, no other place for it --> unsettled --a later write of the key is durable--> settled
//!                                                           '--a flush, or the stripe is void-----'
//! ```
//! Until then a later owner may find its record and take it for the newest. That contradicts no answer that shows the
//! object which the write was to change: then the write came later. But it must not come back once that object was said
//! to be over, or gone: what a command made of an object cannot come after its end. So whoever finds nothing of such a
//! key is told that it cannot be read.
//!
//! A delete that failed so may count for the owner that finds its tombstone, wherever the object lies by then (see `kept`).
//!
//! Must not know: which command it was.

use std::collections::{BTreeMap, HashMap};

use shorttail_store::record::Record;
use shorttail_units::{PartitionId, Slot, StripeId};

use super::Engine;
use super::kept::horizon_of;
use super::stripes::StripePhase;
use crate::command::Command;

/// By the keys' hashes: the partition, and a stripe that is younger than all that hold the record.
#[derive(Debug, Default)]
pub(super) struct Unsettled(HashMap<u64, (PartitionId, StripeId)>);

impl<C: Command> Engine<C> {
    /// A write that changes an object was sent, and failed.
    pub(super) fn note_unsettled(&mut self, hash: u64, slot: Slot) {
        let horizon = self.take_stripe_ids(0);
        self.unsettled.0.insert(hash, (self.config.partition_of(slot), horizon));
    }

    /// A later write is durable: its version is higher.
    pub(super) fn settle(&mut self, hash: u64) {
        if !self.unsettled.0.is_empty() {
            self.unsettled.0.remove(&hash);
        }
    }

    /// A flush is durable: whatever was written before is gone.
    pub(super) fn settle_all(&mut self) {
        self.unsettled = Unsettled::default();
    }

    /// May a write come back that would have changed what is over, or gone?
    pub(super) fn is_unsettled(&self, hash: u64) -> bool {
        let concerned = self.unsettled.0.get(&hash);
        concerned.is_some_and(|&(partition, horizon)| self.oldest_left(partition).is_some_and(|left| left < horizon))
    }

    /// The oldest stripe that was left before it was sealed.
    fn oldest_left(&self, partition: PartitionId) -> Option<StripeId> {
        let is_left = |slot| {
            let stripe = self.stripes.at(slot);
            stripe.phase() == StripePhase::Leaving && !stripe.is_sealed()
        };
        self.stripes.by_age(partition).find(|&(_, slot)| is_left(slot)).map(|(id, _)| id)
    }

    /// Below which stripe lies what this record of a stripe ended, if it is a tombstone or floor.
    pub(super) fn horizon_in(&self, stripe: StripeId, record: &Record<'_>) -> Option<StripeId> {
        let is_left = self.stripes.slot_of(stripe).is_some_and(|slot| !self.stripes.at(slot).is_sealed());
        let is_settled = !is_left || stripe.epoch() == self.config.epoch;
        horizon_of(record, self.config.epoch, is_settled)
    }

    /// Forgets those whose stripes are void.
    pub(super) fn forget_settled(&mut self) {
        if self.unsettled.0.is_empty() {
            return;
        }
        let mut unsettled = std::mem::take(&mut self.unsettled);
        let mut oldest = BTreeMap::new();
        unsettled.0.retain(|_, &mut (partition, horizon)| {
            let left = *oldest.entry(partition).or_insert_with(|| self.oldest_left(partition));
            left.is_some_and(|left| left < horizon)
        });
        self.unsettled = unsettled;
    }
}
