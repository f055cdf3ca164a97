//! The picture of its partitions becomes the new owner's own.

use std::collections::{BTreeSet, HashSet};

use shorttail_units::{NodeId, StripeId};
use shorttail_wire::node::ChunkKind;

use super::Engine;
use super::census::Census;
use super::picture::{Picture, StripedFound};
use super::striped::StripedObject;
use super::stripes::StripePhase;
use crate::command::Command;

impl<C: Command> Engine<C> {
    /// Makes the picture this owner's own; answers which stripes are void. `away`: nodes that may come back with more.
    pub(super) fn rebuild(
        &mut self,
        mut picture: Picture,
        census: &Census,
        away: &BTreeSet<NodeId>,
    ) -> BTreeSet<StripeId> {
        picture.settle();
        for (partition, floor) in picture.floors() {
            self.inherit_floor(partition, floor);
        }
        if let Some((version, at)) = picture.flush_due() {
            self.inherit_flush_due(version, at);
        }
        for (id, (partition, members)) in picture.take_losses() {
            self.note_loss(id, partition, members);
        }
        for found in picture.take_striped() {
            self.adopt_striped(found, census);
        }
        let voids = picture.take_voids();
        (self.index, self.stripes) = (picture.index, picture.stripes);
        self.stats.bytes_stored = picture.bytes_stored;
        self.note_inherited_losses(census);
        let void_ids: BTreeSet<StripeId> = voids.keys().copied().collect();
        for (void, record) in voids {
            self.inherit_void(void, record, away.iter().copied().chain(census.holders(void)).collect());
        }
        let leaving = self.stripes.iter().filter(|(_, stripe)| stripe.phase() == StripePhase::Leaving);
        for slot in leaving.map(|(slot, _)| slot).collect::<Vec<_>>() {
            self.start_leaving(slot, HashSet::new());
        }
        let (objects, stripes, read) = (self.index.object_count(), self.stripes.len(), self.inherited_read);
        tracing::info!(objects, stripes, read, "took over");
        void_ids
    }

    fn adopt_striped(&mut self, found: StripedFound, census: &Census) {
        let StripedFound { key, partition, manifest, expiry } = found;
        let mut object = StripedObject::new(key, partition, manifest);
        object.expiry = expiry;
        for stripe in object.stripes() {
            let moved = census.members_of(stripe).filter(|(configuration, _)| !configuration.is_first());
            if let Some((configuration, members)) = moved {
                object.move_to(stripe, configuration, members.into());
            }
        }
        self.striped.insert(object);
    }

    /// Chunks of void stripes, of members that are none any more, and pieces without a manifest are freed. Not so what is
    /// damaged: its place would look as if it had never held anything.
    pub(super) fn drop_leftovers(&mut self, census: &Census, voids: &BTreeSet<StripeId>) {
        for (stripe, node, report) in census.reports() {
            let partition = report.description.partition;
            let belongs = match report.description.kind {
                ChunkKind::Packed => {
                    let slot = self.stripes.slot_of(stripe);
                    let is_member = |slot| self.stripes.at(slot).member_of(node).is_some();
                    !voids.contains(&stripe) && slot.map_or_else(|| self.is_lost(stripe), is_member)
                }
                ChunkKind::Striped => {
                    self.striped_of(stripe).is_some_and(|(_, object)| object.members_of(stripe).1.contains(&node))
                }
            };
            if !belongs {
                self.free_on(node, stripe, partition);
            }
        }
    }
}
