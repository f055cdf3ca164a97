//! Which stripe is emptied next, and whether any is worth it.
//!
//! ```text
//! one that cannot be repaired -> the emptiest, if there is garbage -> the oldest, if tombstones take much of the memory
//!   -> memory is short: the oldest, to be evicted
//! ```
//! Only such are chosen that can be read (see `unreadable`). Why choosing comes to an end:
//! `docs/decisions/0012-cleaning-ends.md`.
//!
//! Must not know: how a stripe is emptied.

use shorttail_units::{PartitionId, StripeId};
use smallvec::SmallVec;

use super::cleaner::Mode;
use super::headroom::Headroom;
use super::unreadable::Sight;
use crate::engine::limits::{
    CLEAN_KEPT_PART, CLEAN_LIVE_SHARE_MAX, CLEAN_LIVE_SHARE_MAX_OF_DELETES, HOPELESS_LOOKS_MAX, SHARE_LOOKS_MAX,
    TOMBSTONE_LOOK_US,
};
use crate::engine::state::index::StripeSlot;
use crate::engine::state::stripes::{Stripe, StripePhase};
use crate::engine::write::log::Purpose;
use crate::engine::write::stalled::Kind;
use crate::engine::{Engine, WhenFull};

impl Engine {
    /// The oldest stripe of a partition that has a stripe for its void record, if there is such a one; rather one of
    /// small values than one with the manifests of large ones, and one that needs no tombstones.
    pub(super) fn choose_relief(&mut self) -> Option<StripeSlot> {
        let sight = self.sight();
        let logs: Vec<_> = self.logs.iter().map(|(&partition, log)| (partition, log.open.is_empty())).collect();
        let oldest = logs.into_iter().filter_map(|(partition, is_closed)| {
            let (id, slot) = self.oldest_to_evict(&sight, partition)?;
            let has_manifests = self.stripes.at(slot).manifests.is_expected;
            Some(((is_closed, self.may_hold_older(slot), has_manifests, id), slot))
        });
        oldest.min_by_key(|&(rank, _)| rank).map(|(_, slot)| slot)
    }

    /// The sealed stripe with least to keep, and its share; see `emptiest`.
    fn choose_emptiest(&mut self) -> Option<(StripeSlot, f64)> {
        let sight = self.sight();
        let headroom = Headroom::of(&self.rooms_to_come(), self.config.member_count());
        for slot in self.emptiest.turn(self.stripes.slot_count(), SHARE_LOOKS_MAX) {
            self.file_share(&sight, &headroom, slot);
        }
        while let Some(slot) = self.emptiest.first() {
            if let Some(share) = self.file_share(&sight, &headroom, slot) {
                return Some((slot, share));
            }
        }
        None
    }

    /// The share of a sealed stripe, if it is what it was filed under.
    fn file_share(&mut self, sight: &Sight, headroom: &Headroom, slot: StripeSlot) -> Option<f64> {
        let stripe = self.stripes.get(slot).filter(|stripe| stripe.phase() == StripePhase::Sealed);
        let stripe = stripe.filter(|stripe| !self.is_held_back(stripe.id) && self.can_be_emptied(sight, stripe));
        let share = stripe.map(|stripe| self.share_of(headroom, stripe));
        let is_new = self.emptiest.file(slot, share);
        share.filter(|_| !is_new)
    }

    /// See `docs/decisions/0012-cleaning-ends.md` for why this comes to an end.
    pub(super) fn choose_victim(&mut self) -> Option<(StripeSlot, Mode)> {
        let victim = self.find_victim();
        if victim.is_some() {
            self.emptiest.note_found();
        }
        victim
    }

    fn find_victim(&mut self) -> Option<(StripeSlot, Mode)> {
        let is_short = self.is_short_of_memory();
        if let Some(slot) = self.choose_hopeless() {
            return Some((slot, Mode::Move));
        }
        if !is_short && let Some(slot) = self.choose_stranded() {
            return Some((slot, Mode::Move));
        }
        if !is_short && !self.has_much_garbage() {
            return None;
        }
        let (emptiest, share) = self.choose_emptiest()?;
        if share <= self.live_share_max() {
            return Some((emptiest, Mode::Move));
        }
        if let Some(slot) = self.choose_to_end_tombstones() {
            return Some((slot, Mode::Move));
        }
        if !is_short || self.config.when_full == WhenFull::Error || self.jobs_at_work() > 1 {
            return None;
        }
        // In an outage nothing would be won.
        self.too_few_nodes().ok()?;
        let (sight, partitions) = (self.sight(), self.logs.keys().copied().collect::<Vec<_>>());
        let oldest = partitions.into_iter().filter_map(|partition| self.oldest_to_evict(&sight, partition));
        let oldest = oldest.min_by_key(|&(id, _)| id).filter(|&(id, _)| !self.goes_before(id));
        oldest.map(|(_, slot)| (slot, Mode::Evict))
    }

    /// Up to which share a stripe is worth cleaning. Deletes that wait have no other hope than what they left.
    fn live_share_max(&self) -> f64 {
        let is_last_hope = self.config.when_full == WhenFull::Error && self.stalled.has_deletes();
        if is_last_hope { CLEAN_LIVE_SHARE_MAX_OF_DELETES } else { CLEAN_LIVE_SHARE_MAX }
    }

    /// A stripe for which repair can do nothing now, and of which nothing is needed. If it cannot be read, a later
    /// owner has to take all that it held for lost as long as it is there.
    fn choose_hopeless(&self) -> Option<StripeSlot> {
        let stuck = self.repair.stuck().filter_map(|id| self.stripes.slot_of(id)).take(HOPELESS_LOOKS_MAX);
        let mut stuck = stuck.map(|slot| (slot, self.stripes.at(slot)));
        let is_over = |stripe: &Stripe<Purpose>| stripe.phase() == StripePhase::Sealed && self.is_void_anyway(stripe);
        let (slot, _) = stuck.find(|(_, stripe)| is_over(stripe) && !self.is_held_back(stripe.id))?;
        self.too_few_nodes().ok().map(|()| slot)
    }

    /// A stripe with a lost chunk that no node takes: what is in it is stored anew.
    fn choose_stranded(&mut self) -> Option<StripeSlot> {
        if self.repair.stranded.is_empty() {
            return None;
        }
        self.too_few_nodes().ok()?;
        let sight = self.sight();
        let mut stranded = self.repair.stranded.iter().filter_map(|&id| self.stripes.slot_of(id));
        stranded.find(|&slot| {
            let stripe = self.stripes.at(slot);
            let is_free = stripe.phase() == StripePhase::Sealed && !self.repair.orders.contains(stripe.id);
            is_free && self.can_be_emptied(&sight, stripe)
        })
    }

    /// The oldest stripe of a partition, if it can be emptied now.
    fn oldest_if_sealed(&mut self, partition: PartitionId) -> Option<(StripeId, StripeSlot)> {
        let oldest = self.stripes.by_age(partition).next()?;
        let sight = self.sight();
        self.oldest_to_evict(&sight, partition).filter(|&found| found == oldest)
    }

    /// Tombstones take much of a partition's memory because old stripes exist: the oldest goes, however
    /// much of it is alive.
    ///
    /// Where there are many stripes, partitions are looked at in turn, and not every time.
    fn choose_to_end_tombstones(&mut self) -> Option<StripeSlot> {
        if self.now.mono_us < self.tombstones_due_us {
            return None;
        }
        let partitions: Vec<_> = self.logs.keys().copied().collect();
        let first = partitions.iter().position(|&partition| partition >= self.tombstone_hand).unwrap_or(0);
        let mut looks = 0;
        for &partition in partitions[first..].iter().chain(&partitions[..first]) {
            if looks >= SHARE_LOOKS_MAX {
                self.tombstone_hand = partition;
                break;
            }
            let first: SmallVec<[StripeId; 2]> = self.stripes.by_age(partition).map(|(id, _)| id).take(2).collect();
            let (oldest, next) = (first.first().copied(), first.get(1).copied());
            let (mut kept, mut taken) = (0, 0);
            for (id, slot) in self.stripes.by_age(partition) {
                let beside = if Some(id) == oldest { next } else { oldest };
                kept += self.stripes.at(slot).kept.ending_bytes(beside);
                taken += self.stripe_data_bytes();
                looks += 1;
            }
            if kept > taken / CLEAN_KEPT_PART
                && let Some((_, slot)) = self.oldest_if_sealed(partition)
            {
                return Some(slot);
            }
        }
        if looks >= SHARE_LOOKS_MAX {
            self.tombstones_due_us = self.now.mono_us + TOMBSTONE_LOOK_US;
        }
        None
    }

    pub(super) fn stripe_data_bytes(&self) -> u64 {
        (self.config.data_count() * self.config.chunk_bytes) as u64
    }

    /// Little is left, or somebody waits for memory. Who waits for a seal does not: nothing is given up for a burst.
    pub(in crate::engine) fn is_short_of_memory(&self) -> bool {
        self.stripes_for_clients() <= self.reserved_stripes() || self.has_writes_without_memory()
    }

    /// Does a write wait for memory, or for a late node?
    pub fn has_writes_without_memory(&self) -> bool {
        self.stalled.waits_in(|lane| lane.kind == Kind::Striped || !self.waits_for_seals(lane.partition))
    }

    /// What a stripe is filed under: what is to be kept, and what the freed chunks fail to add to the stripes that fit.
    /// With nothing to keep it is 0.
    fn share_of(&self, headroom: &Headroom, stripe: &Stripe<Purpose>) -> f64 {
        let share = self.live_share(stripe);
        if share == 0.0 { share } else { share + 1.0 - headroom.gain(&stripe.members) }
    }

    /// Share of a stripe that cleaning would have to keep. The unused tails of its chunks do not count as gain, as the
    /// same records would leave such tails again; but a stripe that was sealed early gains its room.
    fn live_share(&self, stripe: &Stripe<Purpose>) -> f64 {
        let used: u64 = stripe.fills.iter().map(|&fill| u64::from(fill)).sum();
        let used = used.max(self.stripe_data_bytes() * 3 / 4);
        let kept = self.needed_bytes(stripe);
        (stripe.live_estimate(self.now.unix_ms) + kept) as f64 / used as f64
    }

    /// Do packed stripes take much more memory than what is stored in them and not over?
    fn has_much_garbage(&self) -> bool {
        let stripe_bytes = self.stripe_data_bytes() as f64;
        let slack = (self.stripes.unsealed().len() + self.jobs.len() + 1) as f64;
        let taken = (self.stripes.len() as f64 - slack) * stripe_bytes;
        let packed_bytes = self.stats.totals.bytes_stored.saturating_sub(self.striped.value_bytes());
        let alive_bytes = packed_bytes.saturating_sub(self.expired.bytes());
        taken > self.config.clean_above * alive_bytes as f64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shorttail_units::{CodeShape, Epoch, NodeId, UnixMs};

    use super::*;
    use crate::engine::sessions::nodes::NodePhase;
    use crate::engine::state::testing::engine_of_ready_nodes;

    /// Else it would be counted, and take memory, until that is short.
    #[test]
    fn what_is_over_is_garbage() {
        const COUNT: u64 = 10;
        let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
        let stripe_bytes = engine.stripe_data_bytes();
        let members: Arc<[NodeId]> = (0..6).map(NodeId).collect();
        let slots = (0..COUNT).map(|number| {
            let chunks = vec![engine.config.chunk_bytes as u32; engine.config.data_count()];
            let id = StripeId::new(Epoch(1), number + 1);
            let stripe = Stripe::inherited(id, PartitionId(0), members.clone(), chunks.into());
            let slot = engine.stripes.insert(stripe);
            engine.stripes.at_mut(slot).add_live(stripe_bytes as usize, Some(UnixMs(1_000 + number)));
            slot
        });
        let slots: Vec<_> = slots.collect();
        engine.stats.totals.bytes_stored = COUNT * stripe_bytes;
        let mut over_at = |at| {
            engine.now.unix_ms = UnixMs(at);
            // One ends the round that is under way.
            (0..2).for_each(|_| engine.look_for_expired());
            (engine.expired.bytes() / stripe_bytes, engine.has_much_garbage())
        };
        assert_eq!([over_at(999), over_at(1_001), over_at(1_005)], [(0, false), (2, false), (6, true)]);
        engine.begin_emptying(slots[0], Mode::Move);
        assert_eq!(engine.expired.bytes(), 5 * stripe_bytes);
    }

    /// However little garbage there is: a new owner would take all that was in it for lost, also if it was flushed
    /// since.
    #[test]
    fn a_stripe_that_cannot_be_rebuilt_and_holds_nothing_goes_first() {
        let shape = CodeShape::default();
        let mut engine = engine_of_ready_nodes(shape, 8);
        let id = StripeId::new(Epoch(1), 1);
        let members: Arc<[NodeId]> = (0..6).map(NodeId).collect();
        let slot = engine.stripes.insert(Stripe::inherited(id, PartitionId(0), members, Box::from([9; 4])));
        (0..3).for_each(|chunk| engine.repair.mark(id, chunk, shape));
        engine.give_orders();
        engine.stripes.at_mut(slot).live_count = 1;
        assert_eq!(engine.choose_victim(), None, "it is waited for who may bring it back");
        engine.stripes.at_mut(slot).live_count = 0;
        assert_eq!(engine.choose_victim(), Some((slot, Mode::Move)));
        engine.repair.clear(id, 0);
        assert_eq!(engine.choose_victim(), None, "it goes with the rest of the garbage");
    }

    /// With as many nodes left as a stripe has chunks, what is moved takes room on each of them.
    #[test]
    fn what_gives_nothing_back_where_it_is_short_is_left_alone() {
        let mut engine = engine_of_ready_nodes(CodeShape::default(), 7);
        let chunk_bytes = engine.chunk_room_bytes(engine.config.chunk_bytes);
        engine.nodes.get_mut(NodeId(6)).expect("a node").phase = NodePhase::Away;
        engine.nodes.get_mut(NodeId(0)).expect("a node").sessions[0].memory_bytes = 3 * chunk_bytes;
        assert!(engine.is_short_of_memory());
        let mut stripe_on = |sequence, members: std::ops::Range<u16>, live_bytes| {
            let members: Arc<[NodeId]> = members.map(NodeId).collect();
            let held = Stripe::inherited(StripeId::new(Epoch(1), sequence), PartitionId(0), members, Box::from([9; 4]));
            let slot = engine.stripes.insert(held);
            let stripe = engine.stripes.at_mut(slot);
            (stripe.live_count, stripe.live_bytes) = (1, live_bytes);
            slot
        };
        let (beside, on_it) = (stripe_on(1, 1..7, 10), stripe_on(2, 0..6, 1_000));
        assert_eq!(engine.choose_victim(), Some((on_it, Mode::Move)));
        engine.stripes.at_mut(beside).live_count = 0;
        engine.stripes.at_mut(beside).live_bytes = 0;
        assert_eq!(engine.choose_victim(), Some((beside, Mode::Move)), "nothing of it is to be moved");
    }

    /// What would be given up makes no stripe fit.
    #[test]
    fn with_too_few_nodes_nothing_is_evicted() {
        let mut engine = engine_of_ready_nodes(CodeShape::default(), 6);
        engine.config.when_full = WhenFull::Evict;
        let members: Arc<[NodeId]> = (0..6).map(NodeId).collect();
        let id = StripeId::new(Epoch(1), 1);
        let slot = engine.stripes.insert(Stripe::inherited(id, PartitionId(0), members, Box::from([9; 4])));
        let stripe = engine.stripes.at_mut(slot);
        (stripe.live_count, stripe.live_bytes) = (1, 1 << 30);
        engine.nodes.iter_mut().for_each(|node| node.sessions[0].memory_bytes = 0);
        assert_eq!(engine.choose_victim(), Some((slot, Mode::Evict)));
        engine.nodes.get_mut(NodeId(5)).expect("a node").phase = NodePhase::Away;
        assert_eq!(engine.choose_victim(), None);
    }

    /// Repair looks at so many at once, and again at all of them together.
    #[test]
    fn each_of_those_that_cannot_be_rebuilt_is_looked_at() {
        let shape = CodeShape::default();
        let mut engine = engine_of_ready_nodes(shape, 8);
        let members: Arc<[NodeId]> = (0..6).map(NodeId).collect();
        let mut last = None;
        for number in 1..=HOPELESS_LOOKS_MAX as u64 {
            let id = StripeId::new(Epoch(1), number);
            let held = Stripe::inherited(id, PartitionId(0), members.clone(), Box::from([9; 4]));
            let slot = engine.stripes.insert(held);
            engine.stripes.at_mut(slot).live_count = 1;
            (0..3).for_each(|chunk| engine.repair.mark(id, chunk, shape));
            last = Some(slot);
        }
        while engine.repair.stuck().count() < HOPELESS_LOOKS_MAX {
            engine.give_orders();
        }
        let last = last.expect("there are some");
        engine.stripes.at_mut(last).live_count = 0;
        assert_eq!(engine.choose_hopeless(), Some(last));
    }
}
