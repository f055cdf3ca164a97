//! One scenario per rule of the store, each with the line that makes it hold; without that line it fails.

mod r10_committed_replies;
mod r1_fold_confirmed_prefix;
mod r2_clocks;
mod r2_one_owner;
mod r3_nothing_returns;
mod r4_close_before_serving;
mod r5_reads_are_exact;
mod r6_folding_survives_a_crash;
mod r7_no_gaps;
mod r8_manifest_makes_striped;
mod r9_versions_grow;

use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer, Value};
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Op, Outcome, World};

/// A serving cluster, RS(4,2) on eight nodes.
fn cluster(seed: u64) -> World {
    cluster_of(SimConfig::scripted(), seed)
}

/// Writes until some stripes are full and sealed.
fn fill(world: &mut World, first: u64, count: u64) {
    for name in first..first + count {
        set(world, &format!("fill{name}"), &value(name, 120));
    }
}

/// A write whose operation reaches one node alone; its client does not hear of it.
fn send_to_one(world: &mut World, node: usize, key: &str, value: &Value) {
    (0..8).filter(|&other| other != node).for_each(|other| world.cut_requests_to(other, 10_000_000));
    world.request(0, key, Action::Set(value.clone()));
    // Longer than a message takes, shorter than until it is late.
    pass(world, 3_000);
}

/// The second value of `key` is held by one member of the open stripe alone, and nobody was told; which one.
fn second_value_at_one(world: &mut World, seed: u64) -> usize {
    set(world, "key", &value(1, 60));
    let holders = world.holders_of_open();
    let alone = holders[seed as usize % holders.len()];
    // Every member knows that the first one is stable.
    pass(world, 100_000);
    send_to_one(world, alone, "key", &value(2, 60));
    alone
}

/// The owner dies, and what was cut off is there again when the next one asks.
fn take_over_mended(world: &mut World) {
    world.crash_gateway(5_000);
    pass(world, 3_000);
    world.mend_all();
    pass(world, 5_000);
    world.await_serving();
}
