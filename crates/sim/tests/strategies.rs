//! How objects are stored: copies, padded stripes, overwriting in place, and changing one's mind.
//!
//! RS(4,2) on eight nodes with blocks of 128 bytes: two blocks are the threshold, and two losses may be survived.

use std::collections::BTreeSet;

use shorttail_policy::{Policy, SmallWrite, Update};
use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer};
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Outcome, StripeSeen, World};
use shorttail_units::NodeId;

const BLOCK_BYTES: u32 = 128;
const CHECKSUM_BYTES: u32 = 4;

fn cluster(small_write: SmallWrite, update: Update) -> World {
    cluster_of_seed(small_write, update, 1)
}

fn cluster_of_seed(small_write: SmallWrite, update: Update, seed: u64) -> World {
    let policy = Policy { small_write, update, ..Policy::default() };
    cluster_of(SimConfig { policy, ..SimConfig::scripted() }, seed)
}

/// The one stripe of a striped object that there is, once what was overwritten is freed.
fn sole_stripe(world: &mut World) -> StripeSeen {
    pass(world, 20_000);
    let mut seen = world.striped_seen();
    assert_eq!(seen.len(), 1, "{seen:?}");
    seen.pop_first().expect("one").1
}

#[test]
fn a_small_object_is_copied_once_more_than_may_be_lost() {
    let mut world = cluster(SmallWrite::Replicate, Update::Log);
    for length in [0, 1, 256] {
        set(&mut world, "small", &value(7, length));
        let stripe = sole_stripe(&mut world);
        assert_eq!((stripe.shape.to_string().as_str(), stripe.chunk_count), ("rs:1+2", 3));
        assert_eq!(stripe.chunk_bytes, length.max(1) as u32 + CHECKSUM_BYTES);
        assert_eq!(get(&mut world, "small"), Some(value(7, length)));
    }
    let stripe = sole_stripe(&mut world);
    for node in &stripe.members[..2] {
        world.crash_node(usize::from(node.0), 300_000);
    }
    assert_eq!(get(&mut world, "small"), Some(value(7, 256)), "from the copy that is left");
    concludes(world);
}

#[test]
fn beyond_the_threshold_it_is_coded() {
    let mut world = cluster(SmallWrite::Replicate, Update::Log);
    set(&mut world, "large", &value(1, 257));
    let stripe = sole_stripe(&mut world);
    assert_eq!((stripe.shape.to_string().as_str(), stripe.chunk_bytes), ("rs:4+2", BLOCK_BYTES + CHECKSUM_BYTES));
    assert_eq!(get(&mut world, "large"), Some(value(1, 257)));
    concludes(world);
}

#[test]
fn a_padded_object_takes_a_whole_stripe_however_small() {
    let mut world = cluster(SmallWrite::Pad, Update::Log);
    for length in [0, 1, 200, 512] {
        set(&mut world, "small", &value(3, length));
        let stripe = sole_stripe(&mut world);
        assert_eq!((stripe.shape.to_string().as_str(), stripe.chunk_count), ("rs:4+2", 6));
        assert_eq!(stripe.chunk_bytes, BLOCK_BYTES + CHECKSUM_BYTES, "{length}");
        assert_eq!(get(&mut world, "small"), Some(value(3, length)));
    }
    set(&mut world, "small", &value(3, 513));
    assert!(sole_stripe(&mut world).chunk_bytes > BLOCK_BYTES + CHECKSUM_BYTES);
    concludes(world);
}

#[test]
fn in_place_an_overwrite_keeps_to_its_nodes_and_otherwise_it_does_not() {
    for (update, stays) in [(Update::InPlace, true), (Update::Log, false)] {
        let mut world = cluster(SmallWrite::Pad, update);
        let mut members = BTreeSet::new();
        for name in 0..8 {
            set(&mut world, "key", &value(name, 100 + 60 * name as usize));
            members.insert(sole_stripe(&mut world).members);
        }
        assert_eq!(members.len() == 1, stays, "{members:?}");
        assert_eq!(get(&mut world, "key"), Some(value(7, 520)));
        concludes(world);
    }
}

#[test]
fn in_place_a_slow_node_is_waited_for() {
    const STALL_US: u64 = 400_000;
    let mut world = cluster(SmallWrite::Pad, Update::InPlace);
    set(&mut world, "key", &value(1, 100));
    let before = sole_stripe(&mut world).members;
    for place in 0..before.len() {
        let began_us = world.now_us();
        world.stall_node(usize::from(before[place].0), STALL_US);
        set(&mut world, "key", &value(2 + place as u64, 100));
        assert!(world.now_us() >= began_us + STALL_US, "member {place} was not waited for");
        assert_eq!(sole_stripe(&mut world).members, before);
    }
    concludes(world);
}

#[test]
fn in_place_a_dead_node_is_replaced_and_no_other() {
    let mut world = cluster(SmallWrite::Pad, Update::InPlace);
    set(&mut world, "key", &value(1, 100));
    let before = sole_stripe(&mut world).members;
    world.crash_node(usize::from(before[2].0), 2_000_000);
    set(&mut world, "key", &value(2, 100));
    let after = sole_stripe(&mut world).members;
    let changed: Vec<usize> = (0..before.len()).filter(|&place| before[place] != after[place]).collect();
    assert_eq!(changed, [2]);
    assert_eq!(after.iter().collect::<BTreeSet<&NodeId>>().len(), after.len());
    concludes(world);
}

#[test]
fn in_place_a_crash_leaves_the_old_value_or_the_new_one() {
    for seed in 0..16 {
        let mut world = cluster_of_seed(SmallWrite::Pad, Update::InPlace, seed);
        set(&mut world, "key", &value(1, 500));
        let op = world.request(0, "key", Action::Set(value(2, 500)));
        pass(&mut world, 60 * seed);
        world.crash_gateway(5_000);
        pass(&mut world, 10_000);
        _ = world.await_op(op);
        world.await_serving();
        let found = get(&mut world, "key");
        assert!(found == Some(value(1, 500)) || found == Some(value(2, 500)), "seed {seed}: {found:?}");
        concludes(world);
    }
}

/// A write that starts again is stored as it began, whatever was said meanwhile.
#[test]
fn a_change_of_mind_does_not_cut_small_objects() {
    let mut world = cluster(SmallWrite::Replicate, Update::Log);
    let op = world.request(0, "key", Action::Set(value(1, 90)));
    let first = loop {
        pass(&mut world, 1);
        if let Some((id, stripe)) = world.striped_seen().pop_first() {
            break (id, stripe);
        }
    };
    world.set_small_write(SmallWrite::Packed);
    assert_eq!(first.1.chunk_count, 1, "the first of three copies just arrived");
    for node in &first.1.members[1..] {
        world.break_session_of(usize::from(node.0));
    }
    assert_eq!(world.await_op(op), Outcome::Answered(Answer::Done));
    pass(&mut world, 20_000);
    let (id, stripe) = world.striped_seen().pop_first().expect("its copies");
    assert_ne!(id, first.0, "it started again");
    assert_eq!((stripe.shape.to_string().as_str(), stripe.chunk_count), ("rs:1+2", 3));
    concludes(world);
}

#[test]
fn objects_stay_as_they_were_stored_when_minds_change() {
    let mut world = cluster(SmallWrite::Packed, Update::Log);
    let strategies = [SmallWrite::Packed, SmallWrite::Replicate, SmallWrite::Pad];
    for (name, small_write) in strategies.into_iter().enumerate() {
        world.set_small_write(small_write);
        set(&mut world, &format!("key{name}"), &value(name as u64, 90));
    }
    let stripes = |world: &mut World| -> Vec<String> {
        pass(world, 20_000);
        world.striped_seen().values().map(|stripe| stripe.shape.to_string()).collect()
    };
    assert_eq!(stripes(&mut world), ["rs:1+2", "rs:4+2"]);
    take_over(&mut world, 5_000);
    for name in 0..3 {
        assert_eq!(get(&mut world, &format!("key{name}")), Some(value(name, 90)));
    }
    world.set_update(Update::InPlace);
    for (name, small_write) in strategies.into_iter().rev().enumerate() {
        world.set_small_write(small_write);
        set(&mut world, &format!("key{name}"), &value(10 + name as u64, 90));
    }
    assert_eq!(stripes(&mut world), ["rs:4+2", "rs:1+2"], "each as its last write found it");
    concludes(world);
}
