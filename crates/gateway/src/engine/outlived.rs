//! Records that are lost for good, and beside which a key was written that may be theirs.
//!
//! ```text
//! the index names it, it cannot be read --a write of a key with its tag is durable--> outlived --its stripe is gone, or a flush--
//! ```
//! What was written is newer than whatever a lost stripe holds of its key. So that key is known again, also when it is
//! deleted later, and nobody looks for the record any more. It may be another key's all the same, as a tag is but some
//! bits of a hash: of every other key with this tag absence stays doubtful until it is written.
//!
//! Must not know: why the record cannot be read.

use std::collections::{BTreeSet, HashSet};

use shorttail_units::{Slot, StripeId};
use smallvec::SmallVec;

use super::index::Location;
use super::{Engine, Tag};
use crate::command::Command;

#[derive(Debug, Default)]
pub(super) struct Outlived {
    records: BTreeSet<(Slot, Tag, StripeId)>,
    /// In which they lay.
    stripes: BTreeSet<StripeId>,
    /// Keys' hashes, and the stripes in which nothing counts that is of that key.
    keys: HashSet<(u64, StripeId)>,
}

impl Outlived {
    fn of(&self, slot: Slot, tag: Tag) -> impl Iterator<Item = StripeId> {
        let all = (slot, tag, StripeId::default())..=(slot, tag, StripeId::from_raw(u64::MAX));
        self.records.range(all).map(|&(.., stripe)| stripe)
    }
}

impl<C: Command> Engine<C> {
    /// Is a record in a chunk that is gone and cannot be decoded, whoever comes back?
    pub(super) fn is_lost_for_good(&self, location: Location) -> bool {
        let (slot, data_index) = self.stripes.place_of(location);
        // Of some the owner has the bytes.
        let stripe = self.stripes.get(slot).filter(|it| it.open.is_none() && it.manifests.get(location).is_none());
        let Some(lost) = stripe.and_then(|stripe| self.repair.get(stripe.id)) else { return false };
        // What is damaged may be right where it is read; who had a chunk before it moved may still have it.
        let gone = lost.chunks & !lost.damaged;
        let is_there = |chunk: usize| gone & 1 << chunk == 0;
        let may_return =
            |&(_, node): &(u8, Option<_>)| node.is_none_or(|node| !self.is_gone(node) && !self.nodes.is_ready(node));
        !is_there(data_index)
            && self.config.code.read_plan(data_index, &is_there).is_err()
            && !lost.had_by.iter().any(may_return)
    }

    /// A write of a key is durable: nothing older of it counts.
    pub(super) fn outlive_lost(&mut self, slot: Slot, tag: Tag, hash: u64) {
        if self.outlived.records.is_empty() && self.repair.lost_of_stripe_max() <= self.config.tolerance() as u64 {
            return;
        }
        let candidates = self.index.candidates(slot, tag);
        let lost: SmallVec<[Location; 2]> = candidates.filter(|&location| self.is_lost_for_good(location)).collect();
        for location in lost {
            self.index.remove(slot, tag, location);
            let (held_in, _) = self.stripes.place_of(location);
            let stripe = self.stripes.at_mut(held_in);
            // How long it was is lost, too.
            stripe.live_count -= 1;
            self.outlived.records.insert((slot, tag, stripe.id));
            self.outlived.stripes.insert(stripe.id);
        }
        let stripes: SmallVec<[StripeId; 2]> = self.outlived.of(slot, tag).collect();
        self.outlived.keys.extend(stripes.into_iter().map(|stripe| (hash, stripe)));
    }

    /// May a record that the index does not name any more be of this key?
    pub(super) fn may_be_outlived(&self, slot: Slot, tag: Tag, hash: u64) -> bool {
        let exists = |&stripe: &StripeId| self.stripes.slot_of(stripe).is_some();
        let mut stripes = self.outlived.of(slot, tag).filter(exists);
        stripes.any(|stripe| !self.outlived.keys.contains(&(hash, stripe)))
    }

    /// Forgets what lay in stripes that are gone.
    pub(super) fn forget_outlived(&mut self) {
        let count = self.outlived.stripes.len();
        self.outlived.stripes.retain(|&stripe| self.stripes.slot_of(stripe).is_some());
        if self.outlived.stripes.len() < count {
            self.outlived.records.retain(|(.., stripe)| self.outlived.stripes.contains(stripe));
            self.outlived.keys.retain(|(_, stripe)| self.outlived.stripes.contains(stripe));
        }
    }
}
