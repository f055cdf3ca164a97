//! Flushes that find no place, and what is under way when everything before it is gone.

mod late;
mod orders;
mod without_room;

use shorttail_store::record::records;
use shorttail_units::{CodeShape, Epoch, NodeId, Now, OpNumber, StripeId};

use super::*;
use crate::engine::state::index::{Location, StripeSlot};
use crate::engine::state::testing::{ask, confirm_all, engine_of_ready_nodes, keys_in, leave_no_room, replies_of};
use crate::engine::write::lock::{Move, Old};
use crate::engine::write::manifest::Manifest;
use crate::request::{GroupPut, KeyspaceRequest, Request, RequestId};

/// No record finds a place in this partition for now.
fn engine_without_room(full: PartitionId) -> Engine {
    let shape = CodeShape::reed_solomon(1, 1).expect("a code");
    let mut engine = engine_of_ready_nodes(shape, 2);
    leave_no_room(&mut engine, full);
    engine
}

/// A flush that finds no place, given back as its owner lets go.
fn given_back(is_begun: bool) -> StoreError {
    let mut engine = engine_without_room(PartitionId(1));
    let now = engine.now;
    let token = Token { connection: 1, id: RequestId { seq: 1, part: 0 } };
    engine.take_request(now, token, Request::Keyspace(KeyspaceRequest::flush(None)));
    assert!(engine.poll_reply(now).is_none(), "it waits");
    engine.flushes.postponed[0].is_begun |= is_begun;
    engine.let_go(now);
    match engine.poll_reply(now) {
        Some((_, Reply::Keyspace(Err(error)))) => error,
        other => panic!("{other:?}"),
    }
}

const PARTITION: PartitionId = PartitionId(0);

/// The one open stripe of the partition, if there is one.
fn open_of(engine: &Engine) -> Option<StripeSlot> {
    let open = &engine.logs[&PARTITION].open;
    assert!(open.len() <= 1);
    open.first().copied()
}

/// The control records in a stripe that its owner has the bytes of.
fn controls_in(engine: &Engine, slot: StripeSlot) -> Vec<Control> {
    let stripe = engine.stripes.at(slot);
    let bytes = stripe.bytes().chunk(0);
    records(bytes, stripe.id).filter_map(|(_, record, _)| Control::parse(record.value)).collect()
}

fn pass(engine: &mut Engine) {
    let mono_us = engine.now.mono_us + 10_000;
    engine.end_turn(Now { mono_us, ..engine.now });
}

fn order(engine: &mut Engine, at: UnixMs) {
    let token = Token { connection: 1, id: RequestId { seq: 1, part: 0 } };
    engine.take_request(engine.now, token, Request::Keyspace(KeyspaceRequest::flush(Some(at))));
    pass(engine);
}

#[test]
fn a_flush_that_reached_a_partition_is_not_given_back_as_if_it_had_not_begun() {
    assert_eq!(given_back(true), StoreError::OutcomeUnknown);
    assert_eq!(given_back(false), StoreError::NotOwner);
}

/// Each would be kept for as long as there is anything older.
#[test]
fn a_flush_that_finds_no_place_leaves_no_floors_behind() {
    let mut engine = engine_without_room(PartitionId(1));
    let version = engine.take_version();
    for partition in engine.all_partitions() {
        engine.inherit_flush_due(partition, version, UnixMs(5_000));
    }
    engine.now.unix_ms = UnixMs(6_000);
    let token = Token { connection: 1, id: RequestId { seq: 1, part: 0 } };
    engine.take_request(engine.now, token, Request::Keyspace(KeyspaceRequest::flush(None)));
    (0..100).for_each(|_| pass(&mut engine));
    let written: usize = open_of(&engine).map_or(0, |slot| controls_in(&engine, slot).len());
    assert!(written <= 1, "{written} floors");
}

fn key_in(engine: &Engine, partition: PartitionId) -> String {
    keys_in(engine, partition).next().expect("a key")
}

/// How many have an answer by now that had none before.
fn answered(engine: &mut Engine) -> usize {
    engine.run_work();
    let replies = replies_of(engine).into_iter();
    replies.filter(|reply| matches!(reply, Reply::Group(Ok(true))) || is_stored(reply)).count()
}

fn is_stored(reply: &Reply) -> bool {
    matches!(reply, Reply::Bytes(bytes) if bytes.starts_with(b"STORED"))
}

fn flush_at_once(engine: &mut Engine) {
    let floor = engine.take_version();
    engine.apply_floor(floor);
}

/// All members of the only stripe hold everything up to this operation.
fn acknowledge(engine: &mut Engine, op: u32) {
    let [slot] = engine.stripes.unsealed().to_vec()[..] else { panic!("one stripe") };
    let (id, members) = (engine.stripes.at(slot).id, engine.stripes.at(slot).members.clone());
    for &node in members.iter() {
        engine.stripe_opened(node, id);
        engine.acknowledged(node, id, OpNumber(op));
    }
}

#[test]
fn what_is_flushed_while_it_is_under_way_waits_for_no_node() {
    let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
    ask(&mut engine, b"set a 0 0 1\r\n1\r\nset a 0 0 1\r\n2\r\n");
    let pairs = vec![(b"{a}b".to_vec(), b"1".to_vec()), (b"{a}c".to_vec(), b"1".to_vec())];
    let group = Request::Group(GroupPut { pairs, only_if_absent: false });
    engine.take_request(engine.now, Token { connection: 2, id: RequestId { seq: 1, part: 0 } }, group);
    engine.flush_logs();
    assert_eq!(answered(&mut engine), 0);
    flush_at_once(&mut engine);
    assert_eq!(answered(&mut engine), 2, "a store, and the group");
    // The one that waited for the key has a round of its own by now, and is not held by what was before it.
    engine.flush_logs();
    let lock = engine.locks.find(engine.key_ref(b"a")).expect("a round");
    engine.round_verified(lock, Version::new(Epoch(2), 1), Old::Unreadable);
    acknowledge(&mut engine, 2);
    assert_eq!((answered(&mut engine), engine.index.object_count()), (0, 0));
    acknowledge(&mut engine, 3);
    assert_eq!((answered(&mut engine), engine.index.object_count()), (1, 1));
    assert!(engine.locks.find(engine.key_ref(b"a")).is_none(), "nor is what it replaces in doubt");
}

/// A raced write, a raced move, and a write: above the floor's horizon they would come back once the floor is gone.
#[test]
fn what_is_flushed_while_it_is_under_way_is_not_appended_again() {
    let mut engine = engine_of_ready_nodes(CodeShape::default(), 12);
    ask(&mut engine, b"set a 0 0 1\r\n1\r\n");
    let moved = Move { from: Location { chunk_number: 0, offset: 0 }, record_bytes: 9, expiry: None };
    let lock = engine.locks.insert(engine.key_ref(b"b"), LockPhase::Moving(moved));
    let purpose = Purpose::Move { lock, job: PoolKey::from_raw(0) };
    let record = Record::object(b"b", b"1", engine.take_version());
    engine.append_record(PartitionId(0), &record, purpose, Urgency::Cleaning).expect("room");
    engine.flush_logs();
    let late = |engine: &mut Engine| {
        engine.now.mono_us += 1_000_000;
        engine.hedge_late_writes();
        engine.run_work();
        engine.stats.totals.hedges_sent_total
    };
    let raced = late(&mut engine);
    assert_eq!(raced, 2, "both");
    ask(&mut engine, b"set c 0 0 1\r\n1\r\n");
    flush_at_once(&mut engine);
    assert_eq!(answered(&mut engine), 2);
    assert!(engine.locks.find(engine.key_ref(b"b")).is_none(), "it is not moved any more");
    assert_eq!(late(&mut engine), raced);
    for slot in engine.stripes.unsealed().to_vec() {
        engine.abandon(slot);
    }
    assert!(engine.stripes.unsealed().is_empty());
}
