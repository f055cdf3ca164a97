//! Writes of unknown outcome: what is kept, and what is not said, until they are settled.

use shorttail_units::{CodeShape, NodeId, Version};

use super::*;
use crate::command::{NewObject, StoreError};
use crate::engine::reclaim::doomed::{Doomed, Gone};
use crate::engine::state::stripes::Stripe;
use crate::engine::state::testing::{ask, engine_of_ready_nodes, leave_stripe, replies_of};
use crate::engine::write::lock::{LockPhase, Old};
use crate::engine::write::object::{Object, ObjectData, OldRecord};
use crate::engine::write::round::{End, FinishedCommands, Round};
use crate::engine::write::striped_objects::StripedObject;
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
        let key = engine.key_ref(KEY).hashed;
        let (slot, tag) = (key.slot, key.tag());
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
            engine.note_unsettled(key);
        }
        let held = engine.drop_doomed(vec![Doomed { key: KEY.to_vec(), old, gone: Gone::Expired }]);
        assert!(held.is_empty() && !engine.index.contains(slot, tag, location));
        assert_eq!(engine.striped.contains_key(&first), is_touched);
        let left = engine.stripes.slot_of(left).expect("a stripe");
        drop(engine.stripes.remove(left));
        engine.forget_settled();
        assert!(!engine.striped.contains_key(&first));
    }
}

/// A round loads a value that is over when it is there. A write of unknown outcome may have made its life longer.
#[test]
fn a_value_that_ends_while_a_round_loads_it_is_looked_for_anew() {
    let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
    let left = leave_stripe(&mut engine, KEY);
    let members: std::sync::Arc<[NodeId]> = (0..engine.config.member_count() as u16).map(NodeId).collect();
    let (shape, first, id) = (engine.config.shape, engine.take_stripe_ids(1), engine.take_stripe_ids(1));
    let key = engine.key_ref(KEY).hashed;
    let partition = engine.config.partition_of(key.slot);
    let held_in = Stripe::inherited(id, partition, members.clone(), Box::from([100, 0, 0, 0]));
    let held_in = engine.stripes.insert(held_in);
    let location = engine.stripes.location(held_in, 0, 0);
    engine.index.insert(key.slot, key.tag(), location);
    let manifest = Manifest { value_bytes: 9, first, stripe_count: 1, piece_bytes: 13, shape, members };
    ask(&mut engine, b"append key 0 0 1\r\nx\r\n");
    engine.run_work();
    let lock = engine.locks.find(engine.key_ref(KEY)).expect("its record is being read");
    engine.note_unsettled(key);
    let data = ObjectData::Striped { manifest: manifest.clone(), value: Some(vec![1; 9]) };
    let expiry = Some(engine.now.unix_ms);
    let object = Object { data, expiry, ..Object::new(NewObject::default(), Version::default()) };
    let version = Version::default();
    let old = OldRecord { location, version, record_bytes: 100, object_bytes: 109, manifest: Some(manifest) };
    engine.striped_loaded_for_round(lock, object, old);
    assert_eq!(told(&mut engine), [], "nobody is told that it is absent");
    assert!(matches!(engine.locks.get(lock).map(|lock| &lock.phase), Some(LockPhase::Looking)), "it is looked for");
    assert!(engine.stripes.slot_of(left).is_some());
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
