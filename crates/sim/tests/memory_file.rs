//! Nodes whose memory outlives their processes: restarted one after the other, with the gateway, and with memory that
//! was lost all the same.

use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer};
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Outcome, World};

const KEYS: u64 = 60;

fn cluster(seed: u64, node_core_count: u16) -> World {
    let config = SimConfig { keeps_memory: true, hurts_kept_memory: true, node_core_count, ..SimConfig::scripted() };
    cluster_of(config, seed)
}

#[test]
fn a_rolling_restart_misses_nothing_and_rebuilds_nothing() {
    for (seed, cores) in [(0, 1), (1, 1), (2, 2), (3, 3)] {
        let mut world = cluster(seed, cores);
        fill(&mut world, 0..KEYS);
        for node in 0..8 {
            world.restart_process(node, 30_000);
            for name in 0..KEYS {
                match (name + node as u64) % 4 {
                    0 if name < KEYS / 2 => fill(&mut world, [name]),
                    _ => holds(&mut world, [name]),
                }
            }
            pass(&mut world, 100_000);
            await_whole(&mut world);
        }
        holds(&mut world, 0..KEYS);
        assert_eq!(world.counts().rebuilds, 0);
        assert_eq!(world.counts().restarts, 8);
        concludes(world);
    }
}

/// As many nodes as may be lost, and the owner of what they had open: what was acknowledged is there.
#[test]
fn nodes_and_their_owner_restart_together() {
    for seed in 0..8 {
        let mut world = cluster(seed, 1);
        fill(&mut world, 0..KEYS);
        let first = seed as usize;
        for node in [first % 8, (first + 3) % 8] {
            world.restart_process(node, 5_000 * seed);
        }
        take_over(&mut world, 10_000);
        holds(&mut world, 0..KEYS);
        await_whole(&mut world);
        fill_round(&mut world, 0..KEYS, 1);
        holds_round(&mut world, 0..KEYS, 1);
        concludes(world);
    }
}

/// The power of the processes fails, not that of the memory: more nodes than may be lost, all of them, and the owner,
/// in the middle of writes.
#[test]
fn everything_restarts_and_nothing_acknowledged_is_lost() {
    for seed in 0..12 {
        let mut world = cluster(seed, 1 + (seed % 2) as u16);
        fill(&mut world, 0..KEYS);
        let late: Vec<_> =
            (0..5).map(|name| world.request(1, &format!("late{name}"), Action::Set(value(name, 7)))).collect();
        pass(&mut world, 100 * seed);
        for node in 0..8 {
            world.restart_process(node, 5_000 + 1_000 * node as u64);
        }
        take_over(&mut world, 10_000);
        holds(&mut world, 0..KEYS);
        for (name, op) in (0..).zip(late) {
            if world.await_op(op) == Outcome::Answered(Answer::Done) {
                let found = world.ask(&format!("late{name}"), Action::Get);
                assert_eq!(found, Outcome::Answered(Answer::Found(Some(value(name, 7)))), "late key {name}");
            }
        }
        assert_eq!(world.counts().rebuilds, 0);
        fill_round(&mut world, 0..KEYS, 1);
        await_whole(&mut world);
        concludes(world);
    }
}

/// The process died while it wrote which chunk something is: the next one drops it, and its owner misses it.
#[test]
fn what_a_restarted_node_does_not_show_is_rebuilt_and_nothing_else() {
    for seed in 0..4 {
        let mut world = cluster(seed, 1);
        fill(&mut world, 0..KEYS);
        pass(&mut world, 100_000);
        let torn = world.tear_descriptions(2, 3);
        world.restart_process(2, 10_000);
        pass(&mut world, 200_000);
        await_whole(&mut world);
        let rebuilds = world.counts().rebuilds;
        assert!((1..=u64::from(torn)).contains(&rebuilds), "{rebuilds} rebuilt, {torn} were torn");
        crash_for_good(&mut world, &[0, 1]);
        holds(&mut world, 0..KEYS);
        concludes(world);
    }
}

/// As before, and its owner dies with it: the new one takes what is missing for lost, not for never given. Nobody can
/// tell which chunks they were, or that there were any.
#[test]
fn what_a_restarted_node_does_not_show_a_new_owner_takes_for_lost() {
    for (seed, is_told) in (0..8).flat_map(|seed| [(seed, true), (seed, false)]) {
        let mut world = cluster(seed, 1 + (seed % 2) as u16);
        fill(&mut world, 0..KEYS);
        fill_round(&mut world, 0..KEYS, 1);
        pass(&mut world, 100_000);
        assert!(!is_told || world.tear_descriptions(2, 1000) > 0);
        world.restart_process(2, 10_000);
        assert!(is_told || world.spoil_entries(2, 1000) > 0);
        world.crash_gateway(20_000);
        pass(&mut world, 30_000);
        world.await_serving();
        holds_round(&mut world, 0..KEYS, 1);
        await_whole(&mut world);
        assert!(world.counts().rebuilds > 0);
        world.restart_process(2, 10_000);
        crash_for_good(&mut world, &[0, 1]);
        pass(&mut world, 50_000);
        holds_round(&mut world, 0..KEYS, 1);
        concludes(world);
    }
}

/// A node showed its chunks to a new owner that waits for others, and is back with some of them only: the owner goes by
/// what it shows now.
#[test]
fn what_a_node_does_not_show_any_more_is_rebuilt_after_the_take_over() {
    for seed in 0..4 {
        let mut world = cluster(seed, 1 + (seed % 2) as u16);
        fill(&mut world, 0..KEYS);
        pass(&mut world, 100_000);
        for node in [5, 6, 7] {
            world.restart_process(node, 5_000_000);
        }
        world.crash_gateway(10_000);
        pass(&mut world, 4_000_000);
        assert!(world.tear_descriptions(2, 1000) > 0);
        world.restart_process(2, 10_000);
        world.await_serving();
        await_whole(&mut world);
        crash_for_good(&mut world, &[0, 1]);
        holds(&mut world, 0..KEYS);
        concludes(world);
    }
}

/// What is freed while a node is down is freed when it is back, and what it lost meanwhile is rebuilt.
#[test]
fn a_node_learns_what_it_missed() {
    for seed in 0..4 {
        let mut world = cluster(seed, 1);
        fill(&mut world, 0..KEYS);
        world.restart_process(2, 2_000_000);
        fill_round(&mut world, 0..KEYS, 1);
        fill_round(&mut world, 0..KEYS, 2);
        pass(&mut world, 3_000_000);
        await_whole(&mut world);
        holds_round(&mut world, 0..KEYS, 2);
        world.crash_node(5, 10_000);
        pass(&mut world, 100_000);
        await_whole(&mut world);
        assert!(world.counts().rebuilds > 0, "that memory was gone");
        crash_for_good(&mut world, &[0, 1]);
        holds_round(&mut world, 0..KEYS, 2);
        concludes(world);
    }
}
