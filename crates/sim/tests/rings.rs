//! Rings: an owner puts appends into memory that it shares with a node, and counts them as held. They are, whatever
//! becomes of the owner, of other nodes, and of the node until it looks.
//!
//! RS(4,2) on eight nodes.

use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer};
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Outcome, World};

/// Small values: those that are striped wait for nodes.
fn names() -> impl Iterator<Item = u64> {
    (0..40).filter(|name| name % 5 != 0)
}

fn near() -> SimConfig {
    SimConfig { shares_memory: true, node_memory_bytes: 4 << 20, ..SimConfig::scripted() }
}

/// As [`near`], with nobody who has nodes look into their rings.
fn unwatched() -> SimConfig {
    SimConfig { audit_events: u64::MAX, audits_acknowledgements: false, ..near() }
}

/// A cluster whose owner has open stripes that all their nodes know of.
fn written(config: SimConfig, seed: u64) -> World {
    let mut world = cluster_of(config, seed);
    fill(&mut world, names());
    pass(&mut world, 10_000);
    world
}

fn put_count(world: &World) -> u64 {
    world.engine_stats().totals.appends_put_total
}

/// Stores the values of a round while all nodes stand still; those that were stored.
fn store_without_nodes(world: &mut World, round: u64, stall_us: u64) -> Vec<u64> {
    (0..8).for_each(|node| world.stall_node(node, stall_us));
    let ops: Vec<_> = names()
        .map(|name| {
            let op = world.request(name as u32, &format!("key{name}"), Action::Set(value_of(name, round)));
            pass(world, 200);
            (name, op)
        })
        .collect();
    let is_stored = |world: &World, op| match world.outcome(op) {
        Some(Outcome::Answered(Answer::Done)) => true,
        None => false,
        other => panic!("{other:?}"),
    };
    ops.into_iter().filter(|(_, op)| is_stored(world, *op)).map(|(name, _)| name).collect()
}

#[test]
fn a_write_needs_no_answer_of_a_node() {
    for node_core_count in [1, 3] {
        let mut world = written(SimConfig { node_core_count, ..unwatched() }, 1);
        let before = put_count(&world);
        let stored = store_without_nodes(&mut world, 1, 1_000_000);
        assert!(stored.len() > 15 && put_count(&world) >= before + 3, "{} values were stored", stored.len());
        holds_round(&mut world, stored, 1);
        pass(&mut world, 3_000_000);
        concludes(world);
    }
}

#[test]
fn what_nodes_did_not_look_at_survives_the_owner() {
    for seed in 0..6 {
        let mut world = written(unwatched(), seed);
        let stored = store_without_nodes(&mut world, 1, 300_000);
        assert!(!stored.is_empty());
        take_over(&mut world, 400_000);
        holds_round(&mut world, stored, 1);
        concludes(world);
    }
}

#[test]
fn what_nodes_did_not_look_at_survives_the_owner_and_two_of_them() {
    for seed in 0..8 {
        let mut world = written(unwatched(), seed);
        let stored = store_without_nodes(&mut world, 1, 300_000);
        assert!(!stored.is_empty());
        crash_for_good(&mut world, &[seed as usize, (seed as usize + 3) % 8]);
        take_over(&mut world, 400_000);
        holds_round(&mut world, stored, 1);
        concludes(world);
    }
}

#[test]
fn what_two_nodes_did_not_look_at_goes_with_them_and_is_stored_elsewhere() {
    for seed in 0..8 {
        let mut world = written(unwatched(), seed);
        for round in 1..6 {
            let nodes = [seed as usize, (seed as usize + 5) % 8];
            nodes.iter().for_each(|&node| world.stall_node(node, 10_000_000));
            fill_round(&mut world, names(), round);
            nodes.iter().for_each(|&node| world.crash_node(node, 20_000));
            holds_round(&mut world, names(), round);
            pass(&mut world, 200_000);
            await_whole(&mut world);
            holds_round(&mut world, names(), round);
        }
        concludes(world);
    }
}

/// Its ring runs full: what comes then is sent and waits for it, and what is put when it goes on comes after that.
#[test]
fn a_node_that_stands_still_gets_what_was_put_and_what_was_sent_in_order() {
    for seed in 0..12 {
        let mut world = written(SimConfig { node_memory_bytes: 1 << 20, client_count: 64, ..near() }, seed);
        for round in 1..4 {
            world.stall_node((seed as usize + round as usize) % 8, 15_000);
            let mut ops = Vec::new();
            for _ in 0..6 {
                for name in names() {
                    let action = Action::Set(value_of(name, round));
                    ops.push(world.request(ops.len() as u32 % 64, &format!("key{name}"), action));
                    pass(&mut world, 100);
                }
            }
            for op in ops {
                assert_eq!(world.await_op(op), Outcome::Answered(Answer::Done));
            }
            assert!(put_count(&world) > 0);
            take_over(&mut world, 1_000);
            holds_round(&mut world, names(), round);
        }
        concludes(world);
    }
}

/// In memory that outlives its process there are none: rings do not outlive it.
#[test]
fn nodes_whose_memory_is_kept_have_no_rings() {
    let mut world = written(SimConfig { keeps_memory: true, ..near() }, 1);
    fill_round(&mut world, names(), 1);
    assert_eq!(put_count(&world), 0);
    concludes(world);
}
