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

use shorttail_units::{NodeId, PartitionId, Slot, StripeId};
use smallvec::SmallVec;

use crate::engine::Engine;
use crate::engine::state::index::{HashedKey, Location, StripeSlot, Tag};
use crate::engine::write::lock::Lock;

#[derive(Debug, Default)]
pub(in crate::engine) struct Outlived {
    records: BTreeSet<(Slot, Tag, StripeId)>,
    /// In which they lay.
    stripes: BTreeSet<StripeId>,
    /// Keys' hashes, and the stripes in which nothing counts that is of that key.
    keys: HashSet<(u64, StripeId)>,
}

impl Outlived {
    fn of(&self, key: HashedKey) -> impl Iterator<Item = StripeId> {
        let (slot, tag) = (key.slot, key.tag());
        let all = (slot, tag, StripeId::default())..=(slot, tag, StripeId::from_raw(u64::MAX));
        self.records.range(all).map(|&(.., stripe)| stripe)
    }

    /// Does the stripe hold what the index does not name any more, and what may be the newest of some other key?
    pub fn holds(&self, stripe: StripeId) -> bool {
        self.stripes.contains(&stripe)
    }
}

impl Engine {
    /// Is a record in a chunk that is gone and cannot be decoded, whoever comes back?
    pub(in crate::engine) fn is_lost_for_good(&self, location: Location) -> bool {
        let (slot, data_index) = self.stripes.place_of(location);
        // Of some the owner has the bytes.
        let stripe = self.stripes.get(slot).filter(|it| it.open.is_none() && it.manifests.get(location).is_none());
        let Some((stripe, lost)) = stripe.and_then(|stripe| Some((stripe, self.repair.get(stripe.id)?))) else {
            return false;
        };
        // Of whom it is not known yet what it holds, it may hold the chunk.
        let has_shown = |node: NodeId| self.nodes.has_told_once(self.nodes.session_of(node, stripe.id));
        let is_gone = |chunk: usize| {
            let node = stripe.members[chunk];
            self.is_gone(node) || self.has_lost_memory(node) || has_shown(node)
        };
        // What is damaged may be right where it is read; who had a chunk before it moved may still have it.
        let gone = lost.chunks - lost.damaged;
        let is_there = |chunk: usize| !gone.contains(chunk) || !is_gone(chunk);
        let may_return =
            |&(_, node): &(u8, Option<_>)| node.is_none_or(|node| !self.is_gone(node) && !self.nodes.is_ready(node));
        !is_there(data_index)
            && self.config.code.read_plan(data_index, &is_there).is_err()
            && !lost.had_by.iter().any(may_return)
    }

    /// A write of a key is durable, at `own`: nothing older of it counts.
    pub(in crate::engine) fn outlive_lost(&mut self, key: HashedKey, own: Option<Location>) {
        if self.outlived.records.is_empty() && self.repair.lost_of_stripe_max() <= self.config.tolerance() as u64 {
            return;
        }
        let (slot, tag) = (key.slot, key.tag());
        // Of what is being moved a copy is on its way, which may be another key's.
        let is_moved = |from: Location| {
            // There may be very many locks; but only jobs move.
            let is_of = |lock: &Lock| lock.moved().is_some_and(|moved| moved.from == from);
            let (held_in, _) = self.stripes.place_of(from);
            self.stripes_emptied().any(|slot| slot == held_in) && self.locks.iter().any(|(_, lock)| is_of(lock))
        };
        let candidates = self.index.candidates(slot, tag).filter(|&location| Some(location) != own);
        let is_over = |&location: &Location| self.is_lost_for_good(location) && !is_moved(location);
        let lost: SmallVec<[Location; 2]> = candidates.filter(is_over).collect();
        for location in lost {
            self.index.remove(slot, tag, location);
            let (held_in, _) = self.stripes.place_of(location);
            let stripe = self.stripes.at_mut(held_in);
            // Not `drop_live`: how many bytes it had is not known (see `count_outlived`).
            stripe.live_count -= 1;
            self.outlived.records.insert((slot, tag, stripe.id));
            self.outlived.stripes.insert(stripe.id);
            self.count_outlived(held_in);
        }
        let stripes: SmallVec<[StripeId; 2]> = self.outlived.of(key).collect();
        self.outlived.keys.extend(stripes.into_iter().map(|stripe| (key.hash, stripe)));
    }

    /// How long an outlived record was is lost, too: what all of a stripe took is taken off when the last record in it
    /// goes.
    pub(in crate::engine) fn count_outlived(&mut self, slot: StripeSlot) {
        let stripe = self.stripes.at_mut(slot);
        if stripe.live_count == 0 && self.outlived.holds(stripe.id) {
            self.stats.totals.bytes_stored -= std::mem::take(&mut stripe.live_bytes);
        }
    }

    /// May a record that the index does not name any more be of this key?
    pub(in crate::engine) fn may_be_outlived(&self, key: HashedKey) -> bool {
        let exists = |&stripe: &StripeId| self.stripes.slot_of(stripe).is_some();
        let mut stripes = self.outlived.of(key).filter(exists);
        stripes.any(|stripe| !self.outlived.keys.contains(&(key.hash, stripe)))
    }

    /// Forgets what lay in stripes that are gone.
    pub(in crate::engine) fn forget_outlived(&mut self) {
        self.end_outlived(&BTreeSet::new());
    }

    /// The same, and what lay in these partitions: it was flushed.
    pub(in crate::engine) fn end_outlived(&mut self, partitions: &BTreeSet<PartitionId>) {
        let count = self.outlived.stripes.len();
        let stays = |slot| !partitions.contains(&self.stripes.at(slot).partition);
        self.outlived.stripes.retain(|&stripe| self.stripes.slot_of(stripe).is_some_and(stays));
        if self.outlived.stripes.len() < count {
            self.outlived.records.retain(|(.., stripe)| self.outlived.stripes.contains(stripe));
            self.outlived.keys.retain(|(_, stripe)| self.outlived.stripes.contains(stripe));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shorttail_units::{CodeShape, Epoch, Incarnation, Version};

    use super::*;
    use crate::engine::state::stripes::Stripe;
    use crate::engine::state::testing::engine_of_ready_nodes;
    use crate::engine::write::lock::{LockPhase, Move};
    use crate::engine::write::object::OldRecord;
    use crate::engine::{NodePhase, SessionId};

    const KEY: &[u8] = b"key";
    const AT: Location = Location { chunk_number: 0, offset: 0 };

    /// An owner of one record, which is in a stripe that is lost for good.
    fn engine() -> (Engine, StripeId) {
        let shape = CodeShape::reed_solomon(1, 1).expect("a code");
        let mut engine = engine_of_ready_nodes(shape, 2);
        let (id, members) = (StripeId::new(Epoch(1), 1), Arc::from([NodeId(0), NodeId(1)]));
        let key = engine.key_ref(KEY);
        let partition = engine.config.partition_of(key.slot);
        let mut stripe = Stripe::inherited(id, partition, members, Box::from([100]));
        stripe.live_count = 1;
        engine.stripes.insert(stripe);
        engine.index.insert(key.slot, key.tag(), AT);
        [0, 1].into_iter().for_each(|chunk| engine.repair.mark(id, chunk, shape));
        [0, 1].into_iter().for_each(|node| tell(&mut engine, node));
        (engine, id)
    }

    /// A node told all that it holds of the memory that it has now.
    fn tell(engine: &mut Engine, node: u16) {
        let node = engine.nodes.get_mut(NodeId(node)).expect("a node");
        node.incarnation = Some(Incarnation(1));
        node.sessions[0].told = node.incarnation;
    }

    fn outlive(engine: &mut Engine, own: Option<Location>) -> usize {
        let key = engine.key_ref(KEY).hashed;
        engine.outlive_lost(key, own);
        engine.index.candidates(key.slot, key.tag()).count()
    }

    /// Another key of this tag may have its newest record there: who comes later is to know that it is lost.
    #[test]
    fn a_stripe_with_what_was_outlived_is_not_void() {
        let (mut engine, id) = engine();
        assert_eq!(outlive(&mut engine, None), 0);
        let stripe = engine.stripes.at(engine.stripes.slot_of(id).expect("it is there"));
        assert_eq!(stripe.live_count, 0);
        assert!(!engine.is_void_anyway(stripe));
        let key = engine.key_ref(KEY).hashed;
        assert!(!engine.may_be_outlived(key));
        assert!(engine.may_be_outlived(HashedKey { hash: key.hash + 1, ..key }));
    }

    /// The round waited for another record to be readable, and its own was lost meanwhile.
    #[test]
    fn what_was_written_does_not_outlive_itself() {
        assert_eq!(outlive(&mut engine().0, Some(AT)), 1);
    }

    /// A node is back that this owner never met: its chunks count as lost until it told what it has.
    #[test]
    fn what_is_not_told_yet_is_not_lost_for_good() {
        let (mut engine, _) = engine();
        let id = SessionId { node: NodeId(1), core: 0 };
        let session = |engine: &mut Engine| engine.nodes.session_mut(id).expect("a session").told.take();
        assert_eq!(session(&mut engine), Some(Incarnation(1)));
        assert_eq!(outlive(&mut engine, None), 1);
        tell(&mut engine, 1);
        engine.nodes.get_mut(NodeId(1)).expect("a node").incarnation = Some(Incarnation(2));
        assert_eq!(outlive(&mut engine, None), 1, "it told of another memory");
        engine.nodes.get_mut(NodeId(1)).expect("a node").phase = NodePhase::Away;
        engine.retired.insert(NodeId(1), Incarnation(2));
        assert_eq!(outlive(&mut engine, None), 0, "nobody will tell");
    }

    #[test]
    fn who_told_and_is_away_brings_nothing_back() {
        let (mut engine, _) = engine();
        let node = engine.nodes.get_mut(NodeId(1)).expect("a node");
        node.phase = NodePhase::Away;
        node.sessions[0].restart(false);
        assert_eq!(outlive(&mut engine, None), 0);
    }

    /// What nobody knows the length of counts no longer than the stripe has other records.
    #[test]
    fn what_was_outlived_takes_no_memory() {
        let (mut engine, id) = engine();
        let slot = engine.stripes.slot_of(id).expect("it is there");
        (engine.stripes.at_mut(slot).live_bytes, engine.stats.totals.bytes_stored) = (90, 100);
        assert_eq!(outlive(&mut engine, None), 0);
        assert_eq!((engine.stripes.at(slot).live_bytes, engine.stats.totals.bytes_stored), (0, 10));
    }

    /// The same where the other record goes last.
    #[test]
    fn what_was_outlived_takes_no_memory_once_the_last_record_goes() {
        let (mut engine, id) = engine();
        let slot = engine.stripes.slot_of(id).expect("it is there");
        let other = Location { offset: 500, ..AT };
        let key = engine.key_ref(b"another").hashed;
        engine.index.insert(key.slot, key.tag(), other);
        let stripe = engine.stripes.at_mut(slot);
        (stripe.live_count, stripe.live_bytes, engine.stats.totals.bytes_stored) = (2, 190, 200);
        assert_eq!(outlive(&mut engine, None), 0);
        assert_eq!(engine.stats.totals.bytes_stored, 200, "how much of it is not known");
        let old = OldRecord {
            location: other,
            version: Version::default(),
            record_bytes: 90,
            object_bytes: 90,
            manifest: None,
        };
        engine.drop_record(key, &old);
        assert_eq!((engine.stripes.at(slot).live_bytes, engine.stats.totals.bytes_stored), (0, 10));
    }

    #[test]
    fn what_is_being_moved_is_not_outlived() {
        let (mut engine, id) = engine();
        let moving = LockPhase::Moving(Move { from: AT, record_bytes: 100, expiry: None });
        let lock = engine.locks.insert(engine.key_ref(b"another"), moving);
        engine.start_leaving(engine.stripes.slot_of(id).expect("it is there"), HashSet::new());
        assert_eq!(outlive(&mut engine, None), 1);
        engine.locks.remove(lock);
        assert_eq!(outlive(&mut engine, None), 0);
    }
}
