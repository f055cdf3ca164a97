//! Large values that are over or were not read, and what waits for their memory.

use shorttail_store::record::{Record, RecordKind};
use shorttail_units::{CodeShape, Epoch, NodeId, Now, PartitionId, UnixMs, Version};

use super::*;
use crate::engine::limits::{TICK_US, UNSEALED_MAX};
use crate::engine::sessions::nodes::NodePhase;
use crate::engine::state::index::StripeSlot;
use crate::engine::state::stripes::{Stripe, StripePhase};
use crate::engine::state::testing::{confirm_all, engine_of_ready_nodes, keys_in, leave_room, turn_after};
use crate::engine::write::log::PlaceError;
use crate::engine::write::manifest::Manifest;
use crate::engine::write::open_stripe::OpenStripe;
use crate::engine::write::stalled::{Kind, Lane, StalledWrite};
use crate::engine::write::striped_objects::StripedObject;

const OVER: UnixMs = UnixMs(1_000);

fn shape() -> CodeShape {
    CodeShape::reed_solomon(1, 1).expect("a code")
}

fn members() -> std::sync::Arc<[NodeId]> {
    std::sync::Arc::from([NodeId(0), NodeId(1)])
}

/// Large values, older than the packed stripes that hold their manifests, which the owner has at hand.
fn engine_of_large(count: u64, expiry: Option<UnixMs>) -> Engine {
    let names = (0..count).map(|number| format!("key{number}").into_bytes());
    engine_of_values(names.collect(), expiry)
}

/// The same, whose keys are all of the first partition.
fn engine_of_first(count: usize, expiry: Option<UnixMs>) -> Engine {
    let engine = engine_of_ready_nodes(shape(), 2);
    let names = keys_in(&engine, PartitionId(0)).map(String::into_bytes);
    engine_of_values(names.take(count).collect(), expiry)
}

fn engine_of_values(names: Vec<Vec<u8>>, expiry: Option<UnixMs>) -> Engine {
    let mut engine = engine_of_ready_nodes(shape(), 2);
    let mut held_in = None;
    for (number, bytes) in (0..).zip(names) {
        let place = number % 500;
        if place == 0 {
            let id = StripeId::new(Epoch(1), 2 << 20 | number);
            let stripe = Stripe::inherited(id, PartitionId(0), members(), Box::from([60_000]));
            held_in = Some((engine.stripes.insert(stripe), id));
        }
        let (slot, id) = held_in.expect("a stripe");
        let location = engine.stripes.location(slot, 0, place as usize * 120);
        let first = StripeId::new(Epoch(1), 1 << 20 | number);
        let manifest =
            Manifest { value_bytes: 0, first, stripe_count: 1, piece_bytes: 64, shape: shape(), members: members() };
        let value = manifest.encode();
        let object = Record::object(&bytes, &value, Version::new(Epoch(1), number + 1));
        let record = Record { kind: RecordKind::Manifest, expiry, ..object };
        let mut encoded = vec![0; record.encoded_bytes(Epoch(1))];
        record.encode(id, &mut encoded);
        let key = engine.key_ref(&bytes);
        let (key_slot, tag, partition) = (key.slot, key.tag(), engine.config.partition_of(key.slot));
        engine.index.insert(key_slot, tag, location);
        engine.stripes.at_mut(slot).manifests.keep(location, &encoded);
        engine.count_stored(location, encoded.len(), encoded.len() as u64, expiry);
        let mut object = StripedObject::new(bytes, partition, manifest);
        object.expiry = expiry;
        engine.striped.insert(object);
    }
    engine
}

/// So many stripes of each partition wait for their seals that nothing can be written.
fn hold_seals(engine: &mut Engine, partitions: &[u16]) -> Vec<StripeSlot> {
    let mut held = Vec::new();
    for partition in partitions.iter().copied().map(PartitionId) {
        for _ in 0..UNSEALED_MAX {
            let id = engine.take_stripe_ids(1);
            let open = OpenStripe::new(engine.config.shape, engine.config.chunk_bytes);
            let slot = engine.stripes.insert(Stripe::new(id, partition, members(), open));
            engine.stripes.at_mut(slot).become_phase(StripePhase::Sealing);
            held.push(slot);
        }
    }
    held
}

fn turn(engine: &mut Engine) {
    let mut now = engine.now;
    (now.mono_us, now.unix_ms) = (now.mono_us + TICK_US, OVER);
    engine.end_turn(now);
    let open: Vec<_> = engine.logs.values().flat_map(|log| log.open.clone()).collect();
    open.into_iter().for_each(|slot| confirm_all(engine, slot));
}

/// Each that finds no place for its tombstone looks for memory, which is to begin with others.
#[test]
fn large_values_that_are_over_end_some_at_a_time() {
    let mut engine = engine_of_large(2_000, Some(OVER));
    let held = hold_seals(&mut engine, &[0, 1, 2, 3]);
    for _ in 0..3 {
        turn(&mut engine);
        assert!(engine.locks.iter().count() <= EVICTIONS_MAX, "{} at once", engine.locks.iter().count());
    }
    assert_eq!((engine.striped.len(), engine.stats.totals.expired_total), (2_000, 0));
    held.into_iter().for_each(|slot| drop(engine.stripes.remove(slot)));
    (0..20).for_each(|_| turn(&mut engine));
    assert!(engine.striped.len() <= 2_000 - 10 * EVICTIONS_MAX, "{} are left", engine.striped.len());
    assert_eq!(engine.stats.totals.expired_total, 2_000 - engine.striped.len() as u64, "each is counted once");
}

/// They stay for as long as their keys are locked.
#[test]
fn large_values_that_are_over_and_stay_hold_up_no_others() {
    let mut engine = engine_of_large(EXPIRY_LOOKS_MAX as u64, Some(OVER));
    for number in 0..EVICTIONS_MAX {
        let bytes = format!("key{number}").into_bytes();
        engine.locks.insert(engine.key_ref(&bytes), LockPhase::Held);
    }
    (0..20).for_each(|_| turn(&mut engine));
    assert_eq!(engine.striped.len(), EVICTIONS_MAX);
}

/// The key was written, and nobody could tell that it had a value.
#[test]
fn pieces_go_whose_record_was_lost_when_their_key_is_another_value() {
    let mut engine = engine_of_large(2, Some(OVER));
    let left_behind = StripeId::new(Epoch(1), 1 << 20);
    let slot = engine.stripes.slot_of(StripeId::new(Epoch(1), 2 << 20)).expect("a stripe");
    let key = engine.key_ref(b"key0");
    let (key_slot, tag) = (key.slot, key.tag());
    assert!(engine.index.remove(key_slot, tag, engine.stripes.location(slot, 0, 0)));
    let mut object = engine.striped.remove(left_behind).expect("an object");
    object.manifest.value_bytes = 100;
    engine.striped.insert(object);
    engine.stats.totals.bytes_stored += 100;
    let before = engine.stats.totals.bytes_stored;
    engine.locks.insert(engine.key_ref(b"key0"), LockPhase::Looking);
    let lock = engine.locks.find(engine.key_ref(b"key0")).expect("its lock");
    for (old, is_there) in [(Old::Unreadable, true), (Old::Lost, true), (Old::Absent, false)] {
        engine.evictions.looking += 1;
        engine.eviction_found(lock, left_behind, old);
        assert_eq!(engine.striped.contains_key(&left_behind), is_there);
    }
    assert_eq!(engine.stats.totals.bytes_stored, before - 100);
    assert_eq!(engine.striped.len(), 1);
}

/// Each was read since the hand passed it last.
#[test]
fn many_large_values_that_stay_hold_up_no_eviction() {
    let mut engine = engine_of_large(100, None);
    let (slot, _) = engine.stripes.iter().next().expect("a stripe");
    engine.stripes.at_mut(slot).live_bytes = 60_000;
    for number in 0..100 {
        let bytes = format!("key{number}").into_bytes();
        let key = engine.key_ref(&bytes);
        let (key_slot, tag) = (key.slot, key.tag());
        let location = engine.stripes.location(slot, 0, number * 120);
        engine.index.mark_read(key_slot, tag, location);
    }
    leave_room(&mut engine, 8);
    turn(&mut engine);
    assert_eq!(engine.stripes.at(slot).phase(), StripePhase::Leaving);
    assert_eq!(engine.striped.len(), 100);
}

/// A sealed stripe, full of what is alive.
fn full_stripe(engine: &mut Engine, counter: u64, partition: u16) -> StripeSlot {
    let id = StripeId::new(Epoch(1), counter);
    let mut stripe = Stripe::inherited(id, PartitionId(partition), members(), Box::from([60_000]));
    (stripe.live_bytes, stripe.live_count) = (60_000, 1);
    engine.stripes.insert(stripe)
}

/// Their tombstones wait for seals of the first partition. Others have something to give up, too.
#[test]
fn large_values_whose_tombstones_find_no_place_hold_up_no_eviction_elsewhere() {
    let mut engine = engine_of_first(EVICTIONS_MAX + 1, None);
    engine.stripes.at_mut(StripeSlot(0)).live_bytes = 60_000;
    hold_seals(&mut engine, &[0]);
    let slot = full_stripe(&mut engine, (1 << 20) + 1_000, 1);
    leave_room(&mut engine, 8);
    (0..2).for_each(|_| turn(&mut engine));
    assert_eq!(engine.striped.len(), EVICTIONS_MAX + 1);
    assert_eq!(engine.stripes.at(slot).phase(), StripePhase::Leaving);
}

/// What is packed is younger, and stays while older ones are about to go.
#[test]
fn large_values_that_are_about_to_go_do_so_before_what_is_packed() {
    let mut engine = engine_of_first(EVICTIONS_MAX + 1, None);
    engine.stripes.at_mut(StripeSlot(0)).live_bytes = 60_000;
    leave_room(&mut engine, 8);
    turn_after(&mut engine, TICK_US);
    assert_eq!(engine.evictions.ending, EVICTIONS_MAX);
    assert_eq!(engine.stripes.at(StripeSlot(0)).phase(), StripePhase::Sealed);
}

/// Memory is not what is missing.
#[test]
fn no_large_value_is_evicted_while_a_late_node_is_awaited() {
    let mut engine = engine_of_first(EVICTIONS_MAX + 1, None);
    leave_room(&mut engine, 8);
    let node_count = engine.nodes.count();
    for node in engine.nodes.iter_mut().skip(engine.config.member_count() - 1) {
        node.phase = if usize::from(node.id.0) + 1 == node_count { NodePhase::Suspect } else { NodePhase::Away };
    }
    assert_eq!(engine.too_few_nodes(), Err(PlaceError::Wait));
    turn_after(&mut engine, TICK_US);
    assert!(engine.is_short_of_memory());
    assert_eq!(engine.evictions.ending, 0);
}

/// Until their tombstones are durable nothing else shows that memory comes.
#[test]
fn a_write_waits_for_large_values_that_are_over() {
    let mut engine = engine_of_first(3, Some(OVER));
    engine.stripes.at_mut(StripeSlot(0)).live_bytes = 60_000;
    engine.set_when_full(WhenFull::Error);
    leave_room(&mut engine, 3);
    engine.end_turn(Now { mono_us: engine.now.mono_us + TICK_US, unix_ms: OVER });
    assert_eq!((engine.evictions.ending, engine.jobs_at_work()), (3, 0));
    let write = StalledWrite::Round(PoolKey::from_raw(1 << 60));
    let lane = Lane { kind: Kind::Packed, partition: PartitionId(0) };
    assert_eq!(engine.let_wait(write, lane, engine.now.mono_us, 1, false), Ok(()));
}
