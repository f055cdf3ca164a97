//! A chunk is damaged, and another node of its stripe stands still: reads decode with a source more, and wait for
//! neither.

use shorttail_sim::config::SimConfig;
use shorttail_sim::model::Action;
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Op, World};

const KEYS: u64 = 60;
const STOP_US: u64 = 4_000_000;
/// Some hedge delays, as long as nothing is learnt.
const BOUND_US: u64 = 90_000;

/// Reads everything at once; how long that takes.
fn read_all(world: &mut World) -> u64 {
    let from_us = world.now_us();
    let ops: Vec<Op> = (0..KEYS).map(|name| world.request(0, &format!("key{name}"), Action::Get)).collect();
    world.run_while(from_us + STOP_US, |world| ops.iter().any(|&op| world.outcome(op).is_none()));
    world.now_us() - from_us
}

#[test]
fn a_damaged_source_does_not_make_a_read_wait_for_a_node_that_stopped() {
    let mut latest_us = Vec::new();
    for seed in 0..8 {
        let mut world = cluster_of(SimConfig::scripted(), seed);
        fill(&mut world, 0..KEYS);
        pass(&mut world, 1_000_000);
        let (damaged, stopped) = (seed as usize % 8, (seed as usize + 3) % 8);
        world.stall_node(stopped, STOP_US);
        // As it begins; when it is known to be late; and when it is gone round.
        for (round, us) in [0, 50_000, 300_000].into_iter().enumerate() {
            pass(&mut world, us);
            world.flip_bits_by(damaged, 4_000, seed + round as u64);
            latest_us.push(read_all(&mut world));
        }
        pass(&mut world, 2 * STOP_US);
        holds(&mut world, 0..KEYS);
        concludes(world);
    }
    assert!(latest_us.iter().all(|&us| us < BOUND_US), "{latest_us:?}");
}
