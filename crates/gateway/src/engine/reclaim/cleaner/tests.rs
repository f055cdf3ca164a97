//! Jobs that want the last memory, and what they do with keys that are locked for long.

use std::sync::Arc;

use shorttail_units::{CodeShape, Epoch, NodeId, Now, Version};

use super::*;
use crate::engine::limits::TICK_US;
use crate::engine::state::stripes::Stripe;
use crate::engine::state::testing::{
    ask, confirm_all, confirm_in_doubt, engine_of_ready_nodes, keys_in, leave_room, replies_of,
};
use crate::engine::write::lock::{Lock, Old};
use crate::engine::write::open_stripe::OpenStripe;
use crate::request::Reply;

fn members() -> Arc<[NodeId]> {
    Arc::from([NodeId(0), NodeId(1)])
}

fn job_of(engine: &mut Engine, partition: u16, live_bytes: u64) -> PoolKey {
    let (id, fills) = (engine.take_stripe_ids(1), Box::from([60_000]));
    let mut stripe = Stripe::inherited(id, PartitionId(partition), members(), fills);
    (stripe.live_bytes, stripe.live_count) = (live_bytes, 1);
    let slot = engine.stripes.insert(stripe);
    engine.begin_emptying(slot, Mode::Move);
    let (key, _) = engine.jobs.iter().find(|(_, job)| job.slot == slot).expect("just begun");
    key
}

/// Its partition has no open stripe, and none fits: the one with more to move goes on, whose partition has one.
#[test]
fn a_job_without_a_place_keeps_no_other_waiting() {
    let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
    let (id, open) = (engine.take_stripe_ids(1), OpenStripe::new(engine.config.shape, engine.config.chunk_bytes));
    let open = engine.stripes.insert(Stripe::new(id, PartitionId(1), members(), open));
    engine.logs.get_mut(&PartitionId(1)).expect("a log").open.push(open);
    let (short, long) = (job_of(&mut engine, 0, 100), job_of(&mut engine, 1, 200));
    leave_room(&mut engine, 0);
    assert_eq!([short, long].map(|job| engine.urgency_of_job(job)), [None, Some(Urgency::Freeing)]);
    leave_room(&mut engine, 1);
    assert_eq!([short, long].map(|job| engine.urgency_of_job(job)), [Some(Urgency::Freeing), None]);
}

/// What a job has much of to move leaves the last stripe to others.
#[test]
fn a_job_with_much_to_move_has_no_place_in_the_last_stripe() {
    let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
    let (id, open) = (engine.take_stripe_ids(1), OpenStripe::new(engine.config.shape, engine.config.chunk_bytes));
    let open = engine.stripes.insert(Stripe::new(id, PartitionId(1), members(), open));
    engine.logs.get_mut(&PartitionId(1)).expect("a log").open.push(open);
    let (much, more) = (job_of(&mut engine, 0, 60_000), job_of(&mut engine, 1, 61_000));
    leave_room(&mut engine, 1);
    assert_eq!([much, more].map(|job| engine.urgency_of_job(job)), [None, Some(Urgency::Cleaning)]);
}

/// A stripe that takes appends is no place for what does not fit into it.
#[test]
fn a_job_whose_record_fits_nowhere_keeps_no_other_waiting() {
    let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
    for (partition, left) in [(0, 20), (1, 1_000)] {
        let (id, mut open) =
            (engine.take_stripe_ids(1), OpenStripe::new(engine.config.shape, engine.config.chunk_bytes));
        open.append(0, engine.config.chunk_bytes - left, Purpose::Flushed);
        let slot = engine.stripes.insert(Stripe::new(id, PartitionId(partition), members(), open));
        engine.logs.get_mut(&PartitionId(partition)).expect("a log").open.push(slot);
    }
    let (short, long) = (job_of(&mut engine, 0, 100), job_of(&mut engine, 1, 200));
    leave_room(&mut engine, 0);
    let key = keys_in(&engine, PartitionId(0)).next().expect("a key").into_bytes();
    let job = engine.jobs.get_mut(short).expect("a job");
    let (slot, id) = (job.slot, job.id);
    let record = Record::object(&key, b"a value of some bytes", Version::default());
    let mut bytes = vec![0; record.encoded_bytes(id.epoch())];
    record.encode(id, &mut bytes);
    job.source = Source::Loaded { bytes, offset: 0, is_near: false };
    let (named, location) = (engine.key_ref(&key), engine.stripes.location(slot, 0, 0));
    let (key_slot, tag) = (named.slot, named.tag());
    engine.index.insert(key_slot, tag, location);
    assert_eq!(engine.urgency_of_job(long), None, "the first has less to move");
    engine.begin_walks();
    engine.advance_job(short);
    assert_eq!(engine.urgency_of_job(long), Some(Urgency::Freeing));
}

/// The lock is kept for as long as what it replaced cannot be read.
#[test]
fn what_a_doubtful_lock_wrote_is_moved() {
    // What is found of that before the copy is there, and whether the copy is interrupted.
    for (found_early, is_interrupted) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 3);
        let unreadable = StripeId::new(Epoch(1), 1);
        let mut stripe = Stripe::inherited(unreadable, PartitionId(0), members(), Box::from([100]));
        (stripe.live_count, stripe.live_bytes) = (1, 100);
        let slot = engine.stripes.insert(stripe);
        let (old, key) = (engine.stripes.location(slot, 0, 0), engine.key_ref(b"a"));
        let (key_slot, tag) = (key.slot, key.tag());
        engine.index.insert(key_slot, tag, old);
        ask(&mut engine, b"set a 0 0 1\r\n1\r\n");
        let lock = engine.locks.find(engine.key_ref(b"a")).expect("a round");
        let first = confirm_in_doubt(&mut engine, lock);
        let version = engine.round_mut(lock).expect("it is in doubt").version;
        let at = |engine: &mut Engine| {
            let (at, _) = engine.round_mut(lock).and_then(|round| round.confirmed).expect("it is written");
            engine.stripes.at(engine.stripes.place_of(at).0).id
        };
        let before = at(&mut engine);
        engine.abandon(first);
        pass(&mut engine);
        let copy = engine.stripes.unsealed()[0];
        assert_eq!(at(&mut engine), before, "the copy is under way");
        if found_early {
            engine.round_verified(lock, version, Old::Absent);
            ask(&mut engine, b"set a 0 0 1\r\n2\r\n");
            assert_eq!(engine.stripes.unsealed(), [copy], "nothing overtakes the copy");
        }
        engine.check_invariants();
        match is_interrupted {
            true => engine.abandon(copy),
            false => confirm_all(&mut engine, copy),
        }
        (0..2).for_each(|_| pass(&mut engine));
        engine.check_invariants();
        if found_early {
            let round = engine.round_mut(lock).expect("the next one");
            assert!(round.version > version && round.confirmed.is_none());
            continue;
        }
        if is_interrupted {
            let again = engine.stripes.unsealed()[0];
            confirm_all(&mut engine, again);
        }
        assert!(at(&mut engine) > before && engine.voids.is_emptied(before));
        assert!(engine.locks.get(lock).is_some_and(Lock::is_doubtful));
        engine.round_verified(lock, version, Old::Absent);
        assert!(engine.locks.get(lock).is_none() && engine.index.candidates(key_slot, tag).count() == 2);
        engine.check_invariants();
    }
}

/// A sealed stripe of a key's partition that holds this key alone, and looks full.
fn stripe_of(engine: &mut Engine, key: &[u8]) -> StripeSlot {
    let partition = engine.config.partition_of(engine.key_ref(key).slot);
    let id = engine.take_stripe_ids(1);
    let record = Record::object(key, b"value", Version::default());
    let mut bytes = vec![0; record.encoded_bytes(id.epoch())];
    record.encode(id, &mut bytes);
    let mut stripe = Stripe::inherited(id, partition, members(), Box::from([bytes.len() as u32]));
    stripe.open = Some(Box::new(OpenStripe::from_chunks(engine.config.shape, &[bytes], engine.config.chunk_bytes)));
    (stripe.live_bytes, stripe.live_count) = (60_000, 1);
    let slot = engine.stripes.insert(stripe);
    let (named, location) = (engine.key_ref(key), engine.stripes.location(slot, 0, 0));
    engine.index.insert(named.slot, named.tag(), location);
    slot
}

/// Whoever holds the locks may be waiting for the memory that would be freed.
#[test]
fn what_is_locked_for_long_keeps_nothing_else_from_being_evicted() {
    let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
    engine.config.when_full = WhenFull::Evict;
    let of = |partition| keys_in(&engine, PartitionId(partition)).take(2).collect::<Vec<_>>();
    let (of_first, of_second) = (of(0), of(1));
    let [oldest, old, young] = [&of_first[0], &of_second[0], &of_first[1]].map(String::as_bytes);
    let stripes = [oldest, old, young].map(|key| stripe_of(&mut engine, key));
    let locks = [oldest, old].map(|key| engine.locks.insert(engine.key_ref(key), LockPhase::Looking));
    leave_room(&mut engine, 4);
    let goes = |engine: &Engine| {
        let is_sealed = |slot| engine.stripes.get(slot).is_some_and(|stripe| stripe.phase() == StripePhase::Sealed);
        stripes.map(|slot| !is_sealed(slot))
    };
    for _ in 0..VAIN_WALKS_MAX {
        pass(&mut engine);
        assert_eq!(goes(&engine), [true, true, false], "they may be released soon");
    }
    (0..2).for_each(|_| pass(&mut engine));
    assert_eq!(goes(&engine), [true; 3]);
    let sight = engine.sight();
    let [first, _] = [0, 1].map(|at| engine.oldest_in_sight(&sight, PartitionId(at)).map(|(_, slot)| slot));
    assert_eq!(first, Some(stripes[2]), "the older one is passed over");
    locks.into_iter().for_each(|lock| engine.locks.remove(lock));
    (0..2).for_each(|_| pass(&mut engine));
    let is_young = |(_, job): (PoolKey, &Job)| job.slot == stripes[2];
    assert!(engine.jobs.iter().all(is_young), "its tombstone is under way, and nothing waits for the locks");
}

/// There would be no room for it in an empty store.
#[test]
fn a_value_that_fits_nowhere_evicts_nothing() {
    let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
    let mut stripe = Stripe::inherited(engine.take_stripe_ids(1), PartitionId(0), members(), Box::from([60_000]));
    (stripe.live_bytes, stripe.live_count) = (60_000, 1);
    let slot = engine.stripes.insert(stripe);
    let bytes = 13 * engine.chunk_room_bytes(engine.config.chunk_bytes);
    engine.nodes.iter_mut().for_each(|node| node.sessions[0].memory_bytes = bytes);
    let length = 900_000;
    ask(&mut engine, format!("set a 0 0 {length}\r\n{}\r\n", "x".repeat(length)).as_bytes());
    pass(&mut engine);
    let told = replies_of(&mut engine);
    let is_refused = matches!(&told[..], [Reply::Bytes(line)] if line.starts_with(b"SERVER_ERROR object too large"));
    assert!(is_refused, "{told:?}");
    assert_eq!(engine.stripes.at(slot).phase(), StripePhase::Sealed);
}

fn pass(engine: &mut Engine) {
    let mono_us = engine.now.mono_us + 2 * TICK_US;
    engine.end_turn(Now { mono_us, ..engine.now });
}
