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
    pub(in crate::engine) fn note_unsettled(&mut self, hash: u64, slot: Slot) {
        let left = self.left_now(slot);
        self.unsettled.changes.insert(hash, left);
    }

    /// The manifest of a value was sent, and failed: its pieces are kept.
    pub(in crate::engine) fn note_unsettled_value(&mut self, hash: u64, slot: Slot, manifest: Manifest) {
        let left = self.left_now(slot);
        self.unsettled.values.entry(hash).or_default().push((left, manifest));
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
mod tests {
    use shorttail_units::{CodeShape, NodeId, Version};

    use super::*;
    use crate::command::{NewObject, StoreError};
    use crate::engine::reclaim::doomed::Doomed;
    use crate::engine::state::stripes::Stripe;
    use crate::engine::state::testing::{ask, engine_of_ready_nodes, leave_stripe, replies_of};
    use crate::engine::write::lock::{End, FinishedCommands, LockPhase, Object, ObjectData, Old, OldRecord, Round};
    use crate::engine::write::striped::StripedObject;
    use crate::engine::{NodePhase, Token};
    use crate::request::{GroupPut, Reply, Request, RequestId};

    const KEY: &[u8] = b"key";

    /// The owner of a striped value whose round fails; its manifest may have been sent. Are there pieces in the end?
    fn has_pieces(was_sent: bool, ends: &str) -> bool {
        let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
        let left = leave_stripe(&mut engine, KEY);
        let (shape, first) = (engine.config.shape, engine.take_stripe_ids(1));
        let members = (0..engine.config.member_count() as u16).map(NodeId).collect();
        let manifest = Manifest { value_bytes: 9, first, stripe_count: 1, piece_bytes: 13, shape, members };
        let partition = engine.config.partition_of(engine.key_ref(KEY).slot);
        engine.striped.insert(StripedObject::new(KEY.to_vec(), partition, manifest.clone()));
        let version = engine.take_version();
        let data = ObjectData::Striped { manifest, value: None };
        let end = End::Store(Object { data, ..Object::new(NewObject::default(), version) });
        let round = Round { was_sent, ..Round::new(FinishedCommands::new(), end, Version::default(), Old::Unverified) };
        let lock = engine.locks.insert(engine.key_ref(KEY), LockPhase::Writing(Box::new(round)));
        engine.fail_round(lock, StoreError::OutOfMemory);
        match ends {
            "a later write" => engine.settle(engine.key_ref(KEY).hash),
            "a flush" => {
                let floor = engine.take_version();
                engine.apply_floor(floor);
            }
            "void" => {
                let slot = engine.stripes.slot_of(left).expect("a stripe");
                drop(engine.stripes.remove(slot));
            }
            _ => {}
        }
        engine.forget_settled();
        assert!(ends.is_empty() || engine.unsettled.is_empty(), "{ends}");
        engine.striped.contains_key(&first)
    }

    /// A value was touched, nobody knows whether, and is over by what is known: the stripe of its manifest is void.
    #[test]
    fn pieces_are_kept_while_a_later_owner_may_find_that_they_were_touched() {
        for is_touched in [false, true] {
            let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
            let left = leave_stripe(&mut engine, KEY);
            let (slot, tag, hash) = (engine.key_ref(KEY).slot, engine.key_ref(KEY).tag(), engine.key_ref(KEY).hash);
            let (shape, first, id) = (engine.config.shape, engine.take_stripe_ids(1), engine.take_stripe_ids(1));
            let members: std::sync::Arc<[NodeId]> = (0..engine.config.member_count() as u16).map(NodeId).collect();
            let partition = engine.config.partition_of(slot);
            let held_in = Stripe::inherited(id, partition, members.clone(), Box::from([100, 0, 0, 0]));
            let held_in = engine.stripes.insert(held_in);
            let location = engine.stripes.location(held_in, 0, 0);
            let manifest = Manifest { value_bytes: 9, first, stripe_count: 1, piece_bytes: 13, shape, members };
            engine.striped.insert(StripedObject::new(KEY.to_vec(), partition, manifest.clone()));
            engine.index.insert(slot, tag, location);
            engine.count_stored(location, 100, 109, None);
            let version = Version::default();
            let old = OldRecord { location, version, record_bytes: 100, object_bytes: 109, manifest: Some(manifest) };
            if is_touched {
                engine.note_unsettled(hash, slot);
            }
            let held = engine.drop_doomed(vec![Doomed { key: KEY.to_vec(), old, is_expired: true }]);
            assert!(held.is_empty() && !engine.index.contains(slot, tag, location));
            assert_eq!(engine.striped.contains_key(&first), is_touched);
            let left = engine.stripes.slot_of(left).expect("a stripe");
            drop(engine.stripes.remove(left));
            engine.forget_settled();
            assert!(!engine.striped.contains_key(&first));
        }
    }

    /// Were one of its keys said to be absent after another one was written, it would have happened at no moment.
    #[test]
    fn nothing_is_said_of_keys_that_may_be_stored_together_until_it_is_known() {
        for only_if_absent in [true, false] {
            let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
            let keys = ["{a}b", "{a}c"];
            let pairs = keys.map(|key| (key.as_bytes().to_vec(), b"1".to_vec())).to_vec();
            let group = Request::Group(GroupPut { pairs, only_if_absent });
            engine.take_request(engine.now, Token { connection: 2, id: RequestId { seq: 1, part: 0 } }, group);
            engine.flush_logs();
            let stripe = engine.stripes.unsealed()[0];
            engine.nodes.iter_mut().for_each(|node| node.phase = NodePhase::Away);
            engine.abandon(stripe);
            assert_eq!(told(&mut engine), [Reply::Group(Err(StoreError::OutcomeUnknown))]);
            let mut is_absent = |key: &str| {
                ask(&mut engine, format!("get {key}\r\n").as_bytes());
                let replies = told(&mut engine);
                let [Reply::Bytes(bytes)] = &replies[..] else { panic!("{replies:?}") };
                bytes.starts_with(b"END")
            };
            assert_eq!(keys.map(&mut is_absent), [!only_if_absent; 2]);
            let written = engine.key_ref(keys[0].as_bytes()).hash;
            engine.settle(written);
            let is_known = keys.map(|key| !engine.is_unsettled(engine.key_ref(key.as_bytes()).hash));
            assert_eq!(is_known, [true, !only_if_absent]);
            drop(engine.stripes.remove(stripe));
            engine.forget_settled();
            assert!(engine.unsettled.is_empty());
        }
    }

    fn told(engine: &mut Engine) -> Vec<Reply> {
        engine.run_work();
        replies_of(engine)
    }

    #[test]
    fn pieces_are_kept_while_a_later_owner_may_find_their_manifest() {
        assert!(!has_pieces(false, ""), "nobody was told of it");
        assert!(has_pieces(true, ""));
        for ends in ["a later write", "a flush", "void"] {
            assert!(!has_pieces(true, ends), "{ends}");
        }
    }
}
