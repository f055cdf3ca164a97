//! A large write has a piece on most nodes. When one of them stops in the middle, the pieces are written again
//! elsewhere before anybody can be sure that it stopped; a single write shows it, where a 99th percentile would not.

use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer, Value};
use shorttail_sim::world::{Outcome, World};

/// Nobody answers a piece that early who stopped for so long.
const STOP_US: u64 = 1_000_000;
/// A verdict takes sixty milliseconds of slow slices, and more where there is one request only.
const BOUND_US: u64 = 30_000;
const STRIPED: usize = 2_000;

fn large(seed: u64) -> Value {
    Value::bytes(&vec![b'a' + (seed % 20) as u8; STRIPED])
}

fn set(world: &mut World, key: &str, value: Value) -> u64 {
    let from_us = world.now_us();
    assert_eq!(world.ask(key, Action::Set(value)), Outcome::Answered(Answer::Done));
    world.now_us() - from_us
}

#[test]
fn a_large_write_does_not_wait_for_a_node_that_stopped() {
    let mut raced = 0;
    for seed in 0..24 {
        let mut world = World::with_config(SimConfig::scripted(), seed);
        world.await_serving();
        // What is usual is learnt.
        for round in 0..200 {
            set(&mut world, &format!("warm {}", round % 10), large(round));
            world.run_until(world.now_us() + 2_000);
        }
        let before = world.engine_stats();
        world.stall_node(seed as usize % 8, STOP_US);
        let latency_us = set(&mut world, "key", large(seed));
        assert!(latency_us < BOUND_US, "seed {seed}: {latency_us} us");
        raced += u32::from(world.engine_stats().totals.hedges_won_total > before.totals.hedges_won_total);
        assert_eq!(world.ask("key", Action::Get), Outcome::Answered(Answer::Found(Some(large(seed)))), "seed {seed}");
        world.run_until(world.now_us() + 2 * STOP_US);
        world.conclude().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
    // Six of eight nodes hold a piece.
    assert!(raced > 6, "{raced} writes met the node that stopped");
}

#[test]
fn a_large_write_goes_round_one_stopped_node_after_the_other() {
    for (node_count, stopped) in [(8, 2), (9, 3)] {
        let mut met_all = 0;
        for seed in 0..24 {
            let mut world = World::with_config(SimConfig { node_count, ..SimConfig::scripted() }, seed);
            world.await_serving();
            for round in 0..200 {
                set(&mut world, &format!("warm {}", round % 10), large(round));
                world.run_until(world.now_us() + 2_000);
            }
            let before = world.engine_stats();
            let node = |one: usize| (seed as usize + 3 * one) % usize::from(node_count);
            (0..stopped).for_each(|one| world.stall_node(node(one), 3 * STOP_US));
            for key in ["key", "next"] {
                let latency_us = set(&mut world, key, large(seed));
                assert!(latency_us < BOUND_US, "seed {seed}, {stopped} stopped, {key}: {latency_us} us");
            }
            let hedges = world.engine_stats().totals.hedges_sent_total - before.totals.hedges_sent_total;
            met_all += u32::from(hedges >= stopped as u64);
            for key in ["key", "next"] {
                assert_eq!(world.ask(key, Action::Get), Outcome::Answered(Answer::Found(Some(large(seed)))));
            }
            // No piece of an attempt that was given up is left.
            world.run_until(world.now_us() + 4 * STOP_US);
            world.conclude().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        }
        assert!(met_all > 2, "{met_all} writes met all {stopped} that stopped");
    }
}
