//! The picture of its partitions becomes the new owner's own.

use std::collections::{BTreeSet, HashSet};

use shorttail_units::{NodeId, StripeId};
use shorttail_wire::node::ChunkKind;

use super::census::Census;
use super::picture::{Picture, StripedFound};
use crate::engine::Engine;
use crate::engine::repair::queue::{Reparable, StripeFacts};
use crate::engine::state::stripes::StripePhase;
use crate::engine::write::striped_objects::StripedObject;

impl Engine {
    /// Makes the picture this owner's own; returns which stripes are void. `away`: nodes that may come back with more.
    pub(super) fn adopt(
        &mut self,
        mut picture: Picture,
        census: &Census,
        away: &BTreeSet<NodeId>,
    ) -> BTreeSet<StripeId> {
        picture.settle();
        for (partition, floor) in picture.floors() {
            self.inherit_floor(partition, floor);
        }
        for (partition, version, at) in picture.flushes_due() {
            self.inherit_flush_due(partition, version, at);
        }
        for (id, partition) in picture.take_losses() {
            self.note_loss(id, partition, away.iter().copied().chain(census.holders(id)).collect());
        }
        for found in picture.take_striped() {
            self.adopt_striped(found);
        }
        let voids = picture.take_voids();
        self.used_up = picture.take_newest();
        (self.index, self.stripes) = (picture.index, picture.stripes);
        self.stats.totals.bytes_stored = picture.bytes_stored;
        self.settle_members(census);
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

    fn adopt_striped(&mut self, found: StripedFound) {
        let StripedFound { key, partition, manifest, expiry } = found;
        let mut object = StripedObject::new(key, partition, manifest);
        object.expiry = expiry;
        self.striped.insert(object);
    }

    /// The members of stripes whose chunks lie elsewhere than at first, as all nodes together told: some may have told
    /// after a stripe was read. Where the newest configuration is not what is, a newer one says so.
    fn settle_members(&mut self, census: &Census) {
        let packed = self.stripes.iter().map(|(_, stripe)| stripe.id);
        let striped = self.striped.values().flat_map(StripedObject::stripes);
        for stripe in packed.chain(striped).collect::<Vec<_>>() {
            let Some(newest) = census.newest(stripe).filter(|newest| !newest.configuration.is_first()) else {
                continue;
            };
            let Some((configuration, members)) = census.members_of(stripe) else { continue };
            let Reparable::Whole(facts) = self.reparable(stripe) else { continue };
            let is_told = members == newest.members.0;
            self.set_members(stripe, &StripeFacts { configuration, members: members.into(), ..facts });
            if !is_told {
                self.tell_members(stripe);
            }
        }
    }

    /// Chunks of void stripes, of members that are none any more, and pieces without a manifest are freed. Not so what
    /// is damaged: its place would look as if it had never held anything.
    pub(super) fn drop_leftovers(&mut self, census: &Census, voids: &BTreeSet<StripeId>) {
        let described = census.reports().map(|(stripe, node, report)| (stripe, node, &report.description));
        for (stripe, node, description) in described.chain(census.undescribed()) {
            let partition = description.partition;
            let belongs = match description.kind {
                ChunkKind::Packed => {
                    let slot = self.stripes.slot_of(stripe);
                    let is_member = |slot| self.stripes.at(slot).member_of(node).is_some();
                    !voids.contains(&stripe) && slot.map_or_else(|| self.is_lost(stripe), is_member)
                }
                ChunkKind::Striped => {
                    self.striped_of(stripe).is_some_and(|(_, object)| object.members_of(stripe).1.contains(&node))
                }
            };
            // One more than may be lost suffices: whoever is next hears one of them.
            let is_known = || census.knowing_count(stripe) > description.shape.tolerance();
            match belongs {
                true if is_known() => {}
                true => self.refresh_configuration(node, description),
                false => self.free_on(node, stripe, partition),
            }
        }
        // All that could tell of these did: what is of no stripe of this owner is left over.
        for (stripe, node, partition) in census.untold() {
            if !self.is_to_keep(node, stripe) {
                self.free_on(node, stripe, partition);
            }
        }
    }
}
