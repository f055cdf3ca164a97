//! What more failures than the code tolerates took away, and what may still be said of the rest.
//!
//! An owner that lives knows which keys lay in a stripe that cannot be read: their reads are errors. A new owner does
//! not: any key may have had its newest record there. It trusts what owners of later epochs than the stripe's wrote,
//! and of every other key of that partition it says that it cannot know. A write makes a key known again; a flush ends
//! the loss as a whole.
//!
//! A lost stripe's remaining chunks stay where they are: they are how a later owner learns of the loss. As that one may
//! be able to read them, what ends records in there, tombstones and floors, is kept as long (rule R3): until a durable
//! record says that the stripe is void. Then all are told to free it that had some of it, members or not, or may have
//! it: who was away when the picture was made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shorttail_codes::{ChunkSet, Code};
use shorttail_units::{NodeId, PartitionId, Slot, StripeId, Version};

use crate::engine::Engine;
use crate::engine::state::index::StripeSlot;

#[derive(Debug)]
struct LostStripe {
    partition: PartitionId,
    /// Who has some of it, or may have.
    holders: Arc<[NodeId]>,
    /// All that it may have held was flushed. It exists until it is void.
    is_flushed: bool,
}

#[derive(Debug, Default)]
pub struct Losses {
    stripes: BTreeMap<StripeId, LostStripe>,
}

impl Engine {
    pub(super) fn note_loss(&mut self, id: StripeId, partition: PartitionId, holders: Arc<[NodeId]>) {
        self.losses.stripes.insert(id, LostStripe { partition, holders, is_flushed: false });
    }

    /// Most chunks that one stripe lost: of one that cannot be read, as many as the code does not survive. What is not
    /// marked yet proves no stripe to be beyond that.
    pub(in crate::engine) fn lost_of_stripe_max(&self) -> u64 {
        let tolerance = self.config.tolerance() as u64;
        let marked = self.repair.lost_of_stripe_max().max(if self.has_losses() { tolerance + 1 } else { 0 });
        marked.max((marked + self.repair.losing.count()).min(tolerance))
    }

    /// The same, of stripes that can be read, or some lost data of them; no more than the code survives in any case.
    /// What a node had that was given up, and is not marked yet, may be of any stripe: too many are told for some
    /// seconds, never too few.
    pub(in crate::engine) fn lost_of_readable_max(&self) -> u64 {
        let tolerance = self.config.tolerance();
        // Asked many times a second: the owner's own code remembers its plans.
        let code = |shape| if shape == self.config.shape { self.config.code.clone() } else { Code::new(shape) };
        let lost = match self.repair.patterns_beyond().any(|(shape, lost)| is_readable(&code(shape), lost)) {
            true => tolerance as u64,
            false => self.repair.lost_of_stripe_max_through(tolerance),
        };
        lost + self.repair.losing.count()
    }

    /// Was the stripe lost, and is not void yet?
    pub(in crate::engine) fn is_lost(&self, id: StripeId) -> bool {
        self.losses.stripes.contains_key(&id)
    }

    /// May a key that is not found have been in a stripe that was lost?
    pub(in crate::engine) fn has_losses(&self) -> bool {
        self.losses.stripes.values().any(|lost| !lost.is_flushed)
    }

    /// May a lost stripe have held something newer of a key of this slot than a record of this version, or than its
    /// absence (`None`)? What is appended to a stripe is of the stripe's epoch at most.
    pub(in crate::engine) fn is_overshadowed(&self, slot: Slot, found: Option<Version>) -> bool {
        if !self.has_losses() {
            return false;
        }
        let partition = self.config.partition_of(slot);
        // Of as late an epoch: most of what is found is newer than any stripe that was lost.
        let first = found.map_or(StripeId::default(), |version| StripeId::new(version.epoch(), 0));
        let mut lost = self.losses.stripes.range(first..).map(|(_, lost)| lost);
        lost.any(|lost| lost.partition == partition && !lost.is_flushed)
    }

    /// The oldest stripe of a partition beside one, also if it was lost: a later owner may read more of it.
    pub(in crate::engine) fn oldest_beside(&self, partition: PartitionId, own: StripeId) -> Option<StripeId> {
        let held = self.stripes.by_age(partition).map(|(id, _)| id).find(|&id| id != own);
        let lost = self.losses.stripes.iter().find(|(_, lost)| lost.partition == partition).map(|(&id, _)| id);
        held.into_iter().chain(lost).min()
    }

    /// Does another stripe exist that may hold something older than what this one holds (rule R3)?
    pub(in crate::engine) fn may_hold_older(&self, slot: StripeSlot) -> bool {
        let stripe = self.stripes.at(slot);
        self.oldest_beside(stripe.partition, stripe.id).is_some_and(|oldest| oldest <= stripe.reach)
    }

    /// A flush ended whatever was lost: the remains are declared void.
    pub(in crate::engine) fn end_losses(&mut self, partitions: &BTreeSet<PartitionId>) {
        self.end_losses_that(|_, lost| partitions.contains(&lost.partition));
    }

    /// As many were ended by an earlier owner's flush, which may not have come to say so: all that such a stripe held
    /// is of its epoch at most.
    pub(super) fn end_losses_below_floors(&mut self) {
        let floors: BTreeMap<PartitionId, Version> =
            self.losses.stripes.values().map(|lost| (lost.partition, self.floor_of(lost.partition))).collect();
        self.end_losses_that(|id, lost| id.epoch() < floors[&lost.partition].epoch());
    }

    fn end_losses_that(&mut self, is_ended: impl Fn(StripeId, &LostStripe) -> bool) {
        let lost = self.losses.stripes.iter_mut().filter(|(id, lost)| !lost.is_flushed && is_ended(**id, lost));
        let ended = lost.map(|(&id, lost)| {
            lost.is_flushed = true;
            (id, lost.partition, lost.holders.clone())
        });
        for (id, partition, holders) in ended.collect::<Vec<_>>() {
            self.declare_void_of(id, partition, holders);
        }
    }

    /// A node that nobody knew when the picture was made, or did not hear then, holds a chunk of it.
    pub(in crate::engine) fn note_holder(&mut self, id: StripeId, node: NodeId) {
        let Some(lost) = self.losses.stripes.get_mut(&id).filter(|lost| !lost.holders.contains(&node)) else { return };
        lost.holders = lost.holders.iter().copied().chain([node]).collect();
        if lost.is_flushed {
            self.voids.set_members(id, lost.holders.clone());
        }
    }

    /// The stripe is void.
    pub(in crate::engine) fn forget_loss(&mut self, id: StripeId) {
        self.losses.stripes.remove(&id);
    }
}

/// Is all data there, or can some that is lost be decoded? With local groups more may be lost than may be lost
/// whichever it is.
fn is_readable(code: &Code, lost: ChunkSet) -> bool {
    let lost_data = lost & ChunkSet::first(code.data_count());
    let is_decodable = |chunk: usize| code.read_plan(chunk, &|other| !lost.contains(other)).is_ok();
    lost_data.is_empty() || lost_data.iter().any(is_decodable)
}

#[cfg(test)]
mod tests {
    use shorttail_store::record::Record;
    use shorttail_units::{CodeShape, Epoch};

    use super::*;
    use crate::engine::reclaim::freeing::VoidRecord;
    use crate::engine::state::stripes::Stripe;
    use crate::engine::state::testing::engine_of_ready_nodes;

    #[test]
    fn what_ends_something_in_a_lost_stripe_is_kept() {
        let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
        let [lost, own] = [1, 2].map(|number| StripeId::new(Epoch(1), number));
        let members: Arc<[NodeId]> = (0..6).map(NodeId).collect();
        let held = Stripe::inherited(own, PartitionId(3), members.clone(), Box::from([0; 4]));
        let slot = engine.stripes.insert(held);
        let horizon = StripeId::new(Epoch(1), 3).raw().to_le_bytes();
        let version = Version::new(Epoch(1), 1);
        let tombstone = Record::tombstone(b"key", &horizon, version);
        let is_kept = |engine: &Engine| {
            let is_needed = engine.is_needed(PartitionId(3), own, &tombstone);
            (is_needed, engine.may_hold_older(slot), engine.oldest_beside(PartitionId(3), own))
        };
        assert_eq!(is_kept(&engine), (false, false, None));
        engine.note_loss(lost, PartitionId(2), members.clone());
        assert_eq!(is_kept(&engine), (false, false, None), "of another partition");
        // A chunk of it moved away from node 7.
        engine.note_loss(lost, PartitionId(3), members.iter().copied().chain([NodeId(7)]).collect());
        engine.note_loss(StripeId::new(Epoch(1), 9), PartitionId(2), members);
        assert_eq!(is_kept(&engine), (true, true, Some(lost)));
        // A flush ends the loss; until that is durable the stripe may be found by the next owner.
        engine.end_losses(&BTreeSet::from([PartitionId(3)]));
        let slot_in = |engine: &Engine, partition| {
            let slots = (0..).filter_map(Slot::new);
            slots.into_iter().find(|&slot| engine.config.partition_of(slot) == partition).expect("each has slots")
        };
        let is_overshadowed = [3, 2].map(|it| engine.is_overshadowed(slot_in(&engine, PartitionId(it)), None));
        assert_eq!(is_overshadowed, [false, true]);
        let next = engine.next_version;
        engine.end_losses(&BTreeSet::from([PartitionId(3)]));
        assert_eq!(engine.next_version, next, "one record says so");
        assert_eq!(is_kept(&engine), (true, true, Some(lost)));
        assert!(engine.is_to_keep(NodeId(6), lost));
        engine.note_holder(lost, NodeId(6));
        assert_eq!(engine.pending_frees().count(), 0);
        engine.void_confirmed(lost, VoidRecord { at: own, bytes: 30 });
        // The void record lies in a younger one.
        let young = engine.stripes.by_age(PartitionId(3)).map(|(id, _)| id).find(|&id| id != own);
        assert_eq!(is_kept(&engine), (false, false, young));
        let told: Vec<_> = engine.pending_frees().collect();
        assert_eq!(told, (0..8).map(|node| (NodeId(node), lost)).collect::<Vec<_>>());
    }

    /// Its owner answered the flush, and died before the remains were void.
    #[test]
    fn a_loss_is_over_for_a_new_owner_that_finds_a_later_floor() {
        let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
        let [before, beside] = [1, 2].map(|epoch| StripeId::new(Epoch(epoch), 1));
        let other = StripeId::new(Epoch(1), 2);
        let holders: Arc<[NodeId]> = [NodeId(0)].into();
        engine.note_loss(before, PartitionId(3), holders.clone());
        // That owner may have written more there after the flush.
        engine.note_loss(beside, PartitionId(3), holders.clone());
        engine.note_loss(other, PartitionId(1), holders);
        engine.inherit_floor(PartitionId(3), Version::new(Epoch(2), 9));
        engine.end_losses_below_floors();
        assert_eq!(engine.voids.emptied().collect::<Vec<_>>(), [before]);
        let counts = |id| engine.losses.stripes.get(&id).is_some_and(|lost| !lost.is_flushed);
        assert_eq!([before, beside, other].map(counts), [false, true, true]);
    }

    /// The coordinator gives up one more as long as fewer are lost than the code survives.
    #[test]
    fn a_stripe_that_groups_still_decode_is_not_lost() {
        let shape: CodeShape = "lrc:4+2+2".parse().expect("a shape");
        let mut engine = engine_of_ready_nodes(shape, 8);
        let [whole, lost] = [1, 2].map(|number| StripeId::new(Epoch(1), number));
        let told = |engine: &Engine| engine.stats().totals.lost_of_readable_max;
        (0..4).for_each(|chunk| engine.repair.mark(lost, chunk, shape));
        engine.repair.mark(lost, 6, shape);
        assert_eq!(told(&engine), 0, "one global parity is left of four chunks of data");
        // One of each group, and a parity of each kind.
        [0, 2, 4, 6].into_iter().for_each(|chunk| engine.repair.mark(whole, chunk, shape));
        assert_eq!(told(&engine), 3, "the next one may be one too many");
        engine.repair.check_invariants();
        engine.repair.clear(whole, 0);
        assert_eq!(told(&engine), 3);
        engine.repair.clear(whole, 2);
        assert_eq!(told(&engine), 2);
        (4..8).for_each(|chunk| engine.repair.mark(whole, chunk, shape));
        engine.repair.clear(whole, 0);
        engine.repair.forget(lost);
        assert_eq!(told(&engine), 3, "all parities are lost");
        engine.repair.check_invariants();
        engine.repair.forget(whole);
        assert_eq!(told(&engine), 0);
    }
}
