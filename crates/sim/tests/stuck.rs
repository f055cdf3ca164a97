//! What cannot be repaired, or not from here, holds up nothing that can be done.

use shorttail_gateway::engine::LeaseConfig;
use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer};
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Outcome, World};

/// Some dozen chunks move in far less.
const MOVES_US: u64 = 60_000_000;

/// Stores these values, many at a time.
fn store(world: &mut World, names: std::ops::Range<u64>, length: usize) {
    for first in names.clone().step_by(64) {
        let some = first..names.end.min(first + 64);
        let ops: Vec<_> =
            some.map(|name| world.request(0, &format!("key{name}"), Action::Set(value(name, length)))).collect();
        for op in ops {
            assert_eq!(world.await_op(op), Outcome::Answered(Answer::Done), "from {first}: {:?}", world.all_stats());
        }
    }
}

/// More died at once than the code survives: a fifth of the stripes cannot be repaired, far more than one look takes
/// up. Others are, and a node is emptied all the same.
#[test]
fn a_node_is_drained_while_many_stripes_are_stuck() {
    let config = SimConfig { node_memory_bytes: 8 << 20, audit_events: 100_000, ..nodes_of("rs:2+1", 6) };
    let mut world = cluster_of(config, 1);
    store(&mut world, 0..4_000, STRIPED_BYTES);
    kill(&mut world, &[0, 1]);
    await_within(&mut world, REPAIR_US, "repaired", |world| missing(world) > 1_000 && to_rebuild(world) == 0);
    let stuck = missing(&world);
    assert!(stuck > 1_300, "chunks of more stripes than are looked at while one rests");
    world.drain_node(3, true);
    await_within(&mut world, MOVES_US, "drained", |world| world.is_drained(3));
    assert_eq!(missing(&world), stuck);
}

/// A later owner learns by them what is lost: they do not move, and whoever empties the node is told what to do.
#[test]
fn chunks_of_lost_stripes_that_keep_a_node_from_being_drained_are_told() {
    let mut config = SimConfig { node_memory_bytes: 8 << 20, audit_events: 100_000, ..nodes_of("rs:2+1", 6) };
    config.share(1);
    (config.coordinated, config.lease) = (true, Some(LeaseConfig::USUAL));
    let mut world = cluster_of(config, 2);
    store(&mut world, 0..3_000, SMALL_BYTES);
    crash_for_good(&mut world, &[0, 1]);
    // The second one is waited for, as stripes may lack a chunk of the first.
    repeat_until(&mut world, |world| {
        world.order_removal(0, true);
        world.order_removal(1, true);
        world.counts().removals == 2
    });
    world.crash_gateway_number(0, 500_000);
    pass(&mut world, 1_000_000);
    await_within(&mut world, REPAIR_US, "served", |world| world.serves("key0"));
    world.order_drain(3, false);
    repeat_until(&mut world, |world| {
        let problem = world.drain_problem(3);
        problem.is_some_and(|problem| problem.contains("stripes that are lost"))
    });
    assert!(!world.is_drained(3));
    repeat_until(&mut world, |world| {
        world.order_removal(3, true);
        world.is_removed(3)
    });
    assert!(world.serves("key0"));
}

/// Looks once a second.
fn repeat_until(world: &mut World, mut is_so: impl FnMut(&mut World) -> bool) {
    for _ in 0..MOVES_US / 1_000_000 {
        pass(world, 1_000_000);
        if is_so(world) {
            return;
        }
    }
    panic!("{:?} {:?} {:?}\n{}", world.counts(), world.all_stats(), world.problems(), world.trace());
}

fn to_rebuild(world: &World) -> u64 {
    world.all_stats().iter().map(|stats| stats.totals.chunks_to_rebuild).sum()
}

/// More died at once than the code survives, and some stripes with much garbage cannot be read any more. Others are
/// cleaned all the same, so that what is written over and over finds room.
#[test]
fn cleaning_goes_on_beside_stripes_that_cannot_be_read() {
    for seed in 0..4 {
        let (chunk_bytes, partition_count) = (4000, if seed % 2 == 0 { 1 } else { 4 });
        let config = SimConfig { chunk_bytes, partition_count, audit_events: 100_000, ..nodes_of("rs:4+2", 10) };
        let mut world = cluster_of(config, seed);
        store(&mut world, 0..1_400, 900);
        (0..1_400).step_by(64).for_each(|first| store(&mut world, first..first + 30, 900));
        kill(&mut world, &[0, 1, 2]);
        await_within(&mut world, REPAIR_US, "repaired", |world| missing(world) > 20 && to_rebuild(world) == 0);
        (0..12).for_each(|_| store(&mut world, 10_000..10_700, 900));
    }
}

/// So many nodes are cut off that some records cannot be read, and nothing is given up. What was written over such ones
/// has doubtful locks, and its keys take nothing more; cleaning goes on, so that the others find room.
#[test]
fn cleaning_goes_on_beside_doubtful_locks() {
    for (seed, partition_count) in [(0, 1), (1, 4)] {
        let config = SimConfig { chunk_bytes: 4000, partition_count, audit_events: 100_000, ..nodes_of("rs:4+2", 10) };
        let mut world = cluster_of(config, seed);
        let names = 0..2_000;
        store(&mut world, names.clone(), 900);
        (0..3).for_each(|node| world.cut_gateway_from(0, node, 60_000_000));
        pass(&mut world, 5_000_000);
        let mut refused_count = 0;
        for (round, first) in (1..5).flat_map(|round| names.clone().step_by(64).map(move |first| (round, first))) {
            let some = first..names.end.min(first + 64);
            let set = |name| Action::Set(value(10_000 * round + name, 900));
            let ops: Vec<_> = some.map(|name| world.request(0, &format!("key{name}"), set(name))).collect();
            let ends = ops.into_iter().map(|op| world.await_op(op));
            refused_count += ends.filter(|end| *end == Outcome::Refused).count();
            let stats = &world.all_stats()[0];
            assert_eq!(stats.totals.stores_refused_total, 0, "seed {seed}, round {round}, from {first}: {stats:?}");
        }
        assert!(refused_count > 500, "seed {seed}: {refused_count} were refused");
        concludes(world);
    }
}

/// Two nodes do not reach each other, and everybody else reaches both: what one of them has moves to others.
#[test]
fn a_node_is_drained_that_does_not_reach_one_of_the_others() {
    for seed in 0..3 {
        let mut world = cluster_of(nodes_of("rs:2+1", 5), seed);
        store(&mut world, 0..200, STRIPED_BYTES);
        world.cut_nodes(0, 1, FOR_GOOD_US);
        world.drain_node(0, true);
        await_within(&mut world, MOVES_US, "drained", |world| world.is_drained(0));
        assert!(world.is_whole());
    }
}

/// All sources are needed, and one of those that take chunks does not reach one of them.
#[test]
fn chunks_are_rebuilt_by_nodes_that_reach_what_is_left() {
    for seed in 0..3 {
        let mut world = cluster_of(nodes_of("rs:4+2", 9), seed);
        store(&mut world, 0..200, STRIPED_BYTES);
        world.cut_nodes(2, 3, FOR_GOOD_US);
        kill(&mut world, &[0, 1]);
        await_within(&mut world, MOVES_US, "whole", World::is_whole);
    }
}

/// A node without a memory of its own to come back to dies again and again, before what it had is rebuilt there. It is
/// rebuilt elsewhere.
#[test]
fn what_an_unsteady_node_had_is_rebuilt_elsewhere() {
    let mut config = SimConfig { repair_bytes_per_s: 10_000, audit_events: 10_000, ..nodes_of("rs:4+2", 9) };
    config.share(1);
    (config.coordinated, config.lease) = (true, Some(LeaseConfig::USUAL));
    let mut world = cluster_of(config, 2);
    store(&mut world, 0..150, STRIPED_BYTES);
    let mut missed = Vec::new();
    for _ in 0..20 {
        world.crash_node(0, 1_000_000);
        pass(&mut world, 6_000_000);
        missed.push(missing(&world));
    }
    assert!(missed[0] > 20 && missed[3..].contains(&0), "{missed:?}");
    await_within(&mut world, MOVES_US, "whole", World::is_whole);
    holds_all(&mut world, 0..150);
    concludes(world);
}

fn holds_all(world: &mut World, names: std::ops::Range<u64>) {
    for name in names {
        assert_eq!(get(world, &format!("key{name}")), Some(value(name, STRIPED_BYTES)), "key{name}");
    }
}
