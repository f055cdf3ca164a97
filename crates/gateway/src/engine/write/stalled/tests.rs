//! Who waits for memory or for seals: what it hears, who is tried, and what reads beside it see.

use shorttail_units::{CodeShape, Epoch, NodeId, Now, StripeId, UnixMs, Version};
use shorttail_wire::node::{NodeReply, next_frame};

use super::*;
use crate::engine::SessionId;
use crate::engine::WhenFull;
use crate::engine::limits::{DELETE_STALL_US_MAX, FREES_ASKED_MAX, LET_GO_STALL_US_MAX, STALL_US_MAX};
use crate::engine::reclaim::reserve::Urgency;
use crate::engine::state::index::StripeSlot;
use crate::engine::state::testing::{
    ask, ask_as, confirm_all, confirm_seals, engine_of_ready_nodes, leave_no_room, replies_of,
};
use crate::engine::write::lock::{LockPhase, Old};
use crate::engine::write::object::OldRecord;
use crate::engine::write::round::Round;
use crate::request::Reply;

const OVER: UnixMs = UnixMs(10_000);

/// A delete that waits for memory, and a stripe of the key's partition that takes no appends.
fn engine_with_stalled_delete() -> (Engine, StripeSlot) {
    let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
    ask(&mut engine, b"set a 0 10 1\r\n1\r\n");
    let slot = engine.stripes.unsealed()[0];
    confirm_all(&mut engine, slot);
    let partition = engine.stripes.at(slot).partition;
    leave_no_room(&mut engine, partition);
    engine.stalled.hope_until_us = u64::MAX;
    assert_eq!(told(&mut engine), ["STORED"]);
    ask(&mut engine, b"delete a\r\n");
    assert!(told(&mut engine).is_empty() && engine.stalled.has_deletes());
    let other = *engine.stripes.unsealed().iter().find(|&&other| other != slot).expect("they keep it from memory");
    (engine, other)
}

/// The first words of the answers.
fn told(engine: &mut Engine) -> Vec<String> {
    engine.run_work();
    engine.flush_logs();
    let replies = replies_of(engine).into_iter().map(|reply| match reply {
        Reply::Bytes(bytes) => String::from_utf8_lossy(&bytes).split_whitespace().next().unwrap_or("").to_owned(),
        other => panic!("{other:?}"),
    });
    replies.collect()
}

fn get(engine: &mut Engine, connection: u64) -> Vec<String> {
    ask_as(engine, connection, b"get a\r\n");
    told(engine)
}

/// Nobody knows of it yet: whoever reads beside it is before it. Who asked for it is not.
#[test]
fn reads_do_not_wait_for_a_delete_that_waits_for_memory() {
    let (mut engine, _) = engine_with_stalled_delete();
    assert_eq!(get(&mut engine, 2), ["VALUE"]);
    assert!(get(&mut engine, 1).is_empty(), "its own connection's are after it");
    assert!(get(&mut engine, 2).is_empty(), "and what comes after them is, too");
}

#[test]
fn reads_wait_for_a_delete_that_found_memory() {
    let (mut engine, slot) = engine_with_stalled_delete();
    engine.abandon(slot);
    engine.run_work();
    assert!(!engine.stalled.has_deletes());
    assert!(get(&mut engine, 2).is_empty());
    for slot in engine.stripes.unsealed().to_vec() {
        confirm_all(&mut engine, slot);
    }
    assert_eq!(told(&mut engine), ["DELETED", "END"]);
}

/// It may have to be written elsewhere later, and wait for memory there as long as any other.
#[test]
fn who_found_memory_once_does_not_wait_any_more() {
    let (mut engine, slot) = engine_with_stalled_delete();
    let lock = engine.locks.find(engine.key_ref(b"a")).expect("a round");
    assert!(engine.round_mut(lock).expect("a round").stalled_us.is_some());
    engine.abandon(slot);
    engine.run_work();
    let round = engine.round_mut(lock).expect("it is under way");
    assert_eq!((round.is_sent, round.stalled_us), (true, None));
}

/// A node may hold its tombstone.
#[test]
fn reads_wait_for_a_delete_that_was_sent_once() {
    let (mut engine, _) = engine_with_stalled_delete();
    let lock = engine.locks.find(engine.key_ref(b"a")).expect("a round");
    engine.round_mut(lock).expect("a round").was_sent = true;
    assert!(get(&mut engine, 2).is_empty());
}

#[test]
fn what_is_over_is_gone_whatever_a_delete_waits_for() {
    let (mut engine, _) = engine_with_stalled_delete();
    engine.now.unix_ms = OVER;
    assert_eq!(get(&mut engine, 2), ["END"]);
}

fn engine_without_memory() -> Engine {
    let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
    engine.nodes.iter_mut().for_each(|node| node.sessions[0].memory_bytes = 0);
    engine.look_at_room();
    engine.stalled.hope_until_us = u64::MAX;
    engine
}

/// A delete waits that has nothing left to take from cleaning.
fn stall_delete(engine: &mut Engine, key: &[u8]) {
    let round = Round::new(Default::default(), End::Delete, Default::default(), Old::Lost);
    let round = Round { helps_cleaning: true, ..round };
    let key = engine.key_ref(key);
    let delete = engine.locks.insert(key, LockPhase::Writing(Box::new(round)));
    engine.stall(delete);
}

/// However often it is tried meanwhile.
#[test]
fn a_large_value_waits_for_memory_no_longer_than_others() {
    let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
    engine.nodes.iter_mut().for_each(|node| node.sessions[0].used_bytes = node.sessions[0].memory_bytes);
    engine.look_at_room();
    engine.stalled.hope_until_us = u64::MAX;
    let value = vec![b'x'; 20_000];
    ask(&mut engine, &[&b"set key 0 0 20000\r\n"[..], &value, b"\r\n"].concat());
    assert_eq!((told(&mut engine), engine.stalled.count), (vec![], 1), "it waits");
    for mono_us in [STALL_US_MAX / 2, STALL_US_MAX] {
        engine.set_now(Now { mono_us, ..Now::default() });
        engine.stalled.press();
        engine.resume_stalled();
        assert!(told(&mut engine).is_empty() && engine.stalled.count == 1, "{mono_us}");
    }
    engine.set_now(Now { mono_us: STALL_US_MAX + 1, ..Now::default() });
    engine.stalled.press();
    engine.resume_stalled();
    assert_eq!((told(&mut engine), engine.stalled.count), (vec!["SERVER_ERROR".to_owned()], 0));
}

/// A client that tries again and again would keep the core from all others.
#[test]
fn in_a_full_store_a_victim_is_looked_for_once_until_something_ends() {
    let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
    engine.config.when_full = WhenFull::Error;
    ask(&mut engine, b"set old 0 0 1\r\nx\r\n");
    assert!(told(&mut engine).is_empty());
    let slot = engine.stripes.unsealed()[0];
    confirm_all(&mut engine, slot);
    assert_eq!(told(&mut engine), ["STORED"]);
    engine.nodes.iter_mut().for_each(|node| node.sessions[0].memory_bytes = 0);
    engine.look_at_room();
    let refused = |engine: &mut Engine| {
        for _ in 0..100 {
            ask(engine, b"set new 0 0 1\r\nx\r\n");
            assert_eq!(told(engine), ["SERVER_ERROR"]);
        }
        engine.stalled.looks
    };
    assert_eq!(refused(&mut engine), 1);
    // For these more is worth while.
    stall_delete(&mut engine, b"other");
    assert_eq!(refused(&mut engine), 2);
    let key = engine.key_ref(b"old").hashed;
    let location = engine.index.candidates(key.slot, key.tag()).next().expect("it is there");
    let version = Version::default();
    engine.drop_record(key, &OldRecord { location, version, record_bytes: 0, object_bytes: 0, manifest: None });
    assert_eq!(refused(&mut engine), 3);
    engine.stalled.press();
    assert_eq!(refused(&mut engine), 4);
}

/// Everybody else's requests wait for the next owner meanwhile.
#[test]
fn what_waits_for_memory_holds_up_a_hand_over_for_a_second() {
    let mut engine = engine_without_memory();
    ask(&mut engine, b"set key 0 0 1\r\nx\r\n");
    stall_delete(&mut engine, b"other");
    engine.let_go(Now::default());
    let mut waiting_at = |mono_us: u64| {
        engine.set_now(Now { mono_us, ..Now::default() });
        for lane in engine.stalled.lanes.keys().copied().collect::<Vec<_>>() {
            let entry = engine.stalled.take_first(lane).expect("one waits");
            let StalledWrite::Round(key) = entry.write else { panic!("{entry:?}") };
            engine.note_in_lane(entry.write, false);
            engine.stall(key);
        }
        (engine.stalled.count, engine.stalled.has_deletes())
    };
    assert_eq!(waiting_at(0), (2, true));
    assert_eq!(waiting_at(LET_GO_STALL_US_MAX - 1), (2, true));
    assert_eq!(waiting_at(LET_GO_STALL_US_MAX), (0, false));
    assert_eq!(let_wait(&mut engine, 1), Err(StoreError::NotOwner), "the next owner may have memory");
    assert_eq!(engine.outstanding_count(), 0);
}

/// While deletes are short of room one is tried at a time; who lets go waits for none of them.
#[test]
fn all_deletes_are_over_at_once_that_held_up_a_hand_over() {
    let mut engine = engine_without_memory();
    [&b"a"[..], b"b", b"c"].into_iter().for_each(|key| stall_delete(&mut engine, key));
    engine.let_go(Now::default());
    engine.set_now(Now { mono_us: LET_GO_STALL_US_MAX, ..Now::default() });
    engine.shortage.is_kept_from_deletes = true;
    engine.resume_stalled();
    assert!(!engine.stalled.has_deletes());
}

/// Each would hold up those behind it: thousands would hear one by one what was long certain.
#[test]
fn deletes_whose_time_is_over_hear_it_together() {
    let mut engine = engine_without_memory();
    [&b"a"[..], b"b", b"c"].into_iter().for_each(|key| stall_delete(&mut engine, key));
    engine.set_now(Now { mono_us: DELETE_STALL_US_MAX + 1, ..Now::default() });
    engine.stalled.hope_until_us = u64::MAX;
    stall_delete(&mut engine, b"d");
    stall_delete(&mut engine, b"e");
    engine.shortage.is_kept_from_deletes = true;
    let before = engine.stalled.tries;
    engine.resume_stalled();
    assert_eq!(engine.stalled.count, 2, "their time is not over");
    assert_eq!(engine.stalled.tries - before, 4, "one that waits on is the last");
}

/// A write of so many bytes wants to wait in the lane of the first partition.
fn let_wait(engine: &mut Engine, bytes: usize) -> Result<(), StoreError> {
    let lane = Lane { kind: Kind::Packed, partition: PartitionId(0) };
    engine.let_wait(StalledWrite::Round(PoolKey::from_raw(1 << 60)), lane, engine.now.mono_us, bytes, false)
}

fn full_of_unsealed() -> Engine {
    let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
    for partition in engine.logs.keys().copied().collect::<Vec<_>>() {
        leave_no_room(&mut engine, partition);
    }
    engine
}

/// Seals need every member: a burst, or a node that pauses, is enough to wait for them.
#[test]
fn writes_that_wait_for_seals_are_stored_however_many_they_are() {
    let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
    let value = "x".repeat(1024);
    for connection in 0..200 {
        let sets: String = (0..100).map(|key| format!("set {connection}-{key} 0 0 1024\r\n{value}\r\n")).collect();
        ask_as(&mut engine, connection, sets.as_bytes());
    }
    assert!(engine.stalled.count > 8192, "{} wait", engine.stalled.count);
    let mut stored = 0;
    for _ in 0..100 {
        confirm_seals(&mut engine);
        let told = told(&mut engine);
        assert!(told.iter().all(|word| word == "STORED"), "{told:?}");
        stored += told.len();
    }
    assert_eq!((stored, engine.stalled.count, engine.stalled.bytes), (20_000, 0, 0));
}

/// Nobody is told that there is no memory who waits for seals.
#[test]
fn who_waited_for_seals_in_vain_is_not_told_of_memory() {
    let mut engine = full_of_unsealed();
    ask(&mut engine, b"set a 0 0 1\r\n1\r\n");
    assert_eq!(engine.stalled.count, 1);
    engine.now.mono_us += STALL_US_MAX + 1;
    engine.resume_stalled();
    assert_eq!((engine.stalled.count, engine.stats.totals.stores_refused_total), (0, 0));
    assert_eq!(told(&mut engine), ["SERVER_ERROR"]);
}

/// Others wait for seals meanwhile; only what is evicted helps it.
#[test]
fn a_long_value_waits_for_memory_whoever_waits_for_seals() {
    let mut engine = full_of_unsealed();
    ask(&mut engine, b"set a 0 0 1\r\n1\r\n");
    assert!(engine.stalled.count == 1 && !engine.is_short_of_memory());
    let partition = *engine.logs.keys().next().expect("a partition");
    let write = engine.stalled.lanes.values().next().expect("it waits")[0].write;
    engine.stalled.push(Lane { kind: Kind::Striped, partition }, write, 10_000_000);
    assert!(engine.is_short_of_memory());
}

#[test]
fn what_waits_is_bounded_by_bytes() {
    let mut engine = full_of_unsealed();
    engine.stalled.bytes = STALLED_BYTES_MAX - 1;
    assert_eq!(let_wait(&mut engine, 9), Ok(()));
    assert_eq!(let_wait(&mut engine, 9), Err(StoreError::Overloaded));
}

/// Each of them may free something.
#[test]
fn many_answers_at_once_try_the_first_of_those_that_wait_once() {
    let mut engine = full_of_unsealed();
    for connection in 0..64 {
        let sets: String = (0..64).map(|key| format!("set {connection}-{key} 0 0 1\r\n1\r\n")).collect();
        ask_as(&mut engine, connection, sets.as_bytes());
    }
    assert_eq!(engine.stalled.count, 4096);
    let session = SessionId { node: NodeId(0), core: 0 };
    std::mem::take(engine.nodes.session_mut(session).expect("a session").rest());
    let freed = 1..=FREES_ASKED_MAX as u64;
    freed.for_each(|number| engine.free_on(NodeId(0), StripeId::new(Epoch(1), number), PartitionId(0)));
    let asked = std::mem::take(engine.nodes.session_mut(session).expect("a session").rest());
    let (mut answers, mut at) = (Vec::new(), 0);
    while let Some((frame, length)) = next_frame(&asked[at..]).expect("frames") {
        NodeReply::Done { used_bytes: 0, held_bytes: 0 }.encode(frame.tag, &mut answers);
        at += length;
    }
    let lane_count = engine.stalled.lanes.len() as u64;
    let consumed = engine.handle_session_input(engine.now, session, &answers);
    assert_eq!(consumed.expect("frames"), answers.len());
    assert!(!engine.is_reclaiming(), "all are answered");
    assert!(engine.stalled.tries <= lane_count * STALLED_LOOKS_MAX as u64, "{} tries", engine.stalled.tries);
    assert_eq!(engine.stalled.count, 4096);
}

/// There is room for some values, and not for one that came before them.
#[test]
fn a_long_value_that_waits_for_memory_keeps_shorter_ones_from_nothing() {
    let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
    let leave = |engine: &mut Engine, stripe_count: u64| {
        let bytes = stripe_count * engine.chunk_room_bytes(engine.config.chunk_bytes);
        engine.nodes.iter_mut().for_each(|node| node.sessions[0].used_bytes = (1 << 30) - bytes);
        engine.look_at_room();
    };
    leave(&mut engine, 0);
    engine.stalled.hope_until_us = u64::MAX;
    for (key, length) in [("a", 1_000_000), ("b", 100_000), ("c", 1)] {
        ask(&mut engine, format!("set {key} 0 0 {length}\r\n{}\r\n", "x".repeat(length)).as_bytes());
    }
    let waiting = |engine: &Engine| {
        let kinds = engine.stalled.lanes.iter().map(|(lane, waiting)| (lane.kind, waiting.len()));
        kinds.fold([0; 2], |[packed, striped], (kind, count)| match kind {
            Kind::Striped => [packed, striped + count],
            _ => [packed + count, striped],
        })
    };
    assert_eq!(waiting(&engine), [1, 2]);
    let left = engine.stripes_left_by(Urgency::Client);
    leave(&mut engine, left + 10);
    engine.resume_stalled();
    assert_eq!(waiting(&engine), [0, 1], "the one that is too long");
    leave(&mut engine, left + 100);
    engine.resume_stalled();
    assert!(engine.stalled.is_empty());
}
