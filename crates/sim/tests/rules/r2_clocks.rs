//! R2: however far clocks run apart, as long as the lease's margin allows for it, one owner at most answers.
//!
//! Holds by the margin in `Lease::proven_until` (gateway/src/engine/takeover/lease.rs): without it an owner whose clock
//! loses goes on while the nodes' promises have ended by theirs. And by `Fences::from_bytes` (node/src/fences.rs),
//! which keeps what an earlier process of a node promised for a whole lease: without it nodes that restart let the next
//! owner in at once.

use shorttail_gateway::engine::LeaseConfig;

use super::r2_one_owner::owner_and_other;
use super::*;

const LEASE: LeaseConfig = LeaseConfig::USUAL;
/// Where all clocks are as wrong as the margin bears: 0.9 / (1 - 0.052) < 1 / (1 + 0.052).
const BORNE_PPM: i32 = 52_000;

fn shared(seed: u64, lease: LeaseConfig) -> World {
    let mut config = SimConfig { partition_count: 4, client_count: 2, keeps_memory: true, ..SimConfig::scripted() };
    config.share(2);
    config.lease = Some(lease);
    let mut world = cluster_of(config, seed);
    set(&mut world, "key", &value(1, 60));
    world
}

/// Only the coordinator loses sight of an owner whose clock loses so much, and another one takes over from nodes whose
/// clocks gain as much. What was wrong.
fn changes_owner(seed: u64, lease: LeaseConfig, gain_ppm: i32) -> Option<String> {
    let mut world = shared(seed, lease);
    let (owner, other) = owner_and_other(&world, "key");
    world.gain_of_gateway(owner, -gain_ppm);
    (0..8).for_each(|node| world.gain_of_node(node, gain_ppm));
    // Promises from now on are by these clocks.
    pass(&mut world, 2_000_000 + 20_000 * seed);
    world.cut_coordinator(owner, 3_000_000);
    let until_us = world.now_us() + 3_000_000;
    let changes = world.run_while(until_us, |world| world.owner_of("key") != Some(other) || !world.serves("key"));
    let wrong = world.conclude().err().map(|violation| violation.to_string());
    assert!(changes || wrong.is_some(), "seed {seed}: nobody took over");
    wrong
}

#[test]
fn clocks_may_run_apart_by_the_margin() {
    for seed in 0..12 {
        assert_eq!(changes_owner(seed, LEASE, BORNE_PPM), None, "seed {seed}");
        assert_eq!(changes_owner(seed, LEASE, -BORNE_PPM), None, "seed {seed}");
    }
}

/// That the scenario before this one can fail.
#[test]
fn clocks_that_run_apart_by_more_make_two_owners() {
    for seed in 0..6 {
        for (lease, gain_ppm) in [(LEASE, 2 * BORNE_PPM), (LeaseConfig { margin_us: 0, ..LEASE }, BORNE_PPM)] {
            let wrong = changes_owner(seed, lease, gain_ppm).unwrap_or_default();
            assert!(wrong.contains("both may answer"), "seed {seed}, {lease:?}, {gain_ppm}: {wrong}");
        }
    }
}

/// All nodes restart with their memory just when another owner wants to be let in: they keep what they promised, by
/// clocks that have nothing to do with those of their earlier processes.
#[test]
fn nodes_that_restart_keep_their_promises() {
    for seed in 0..12 {
        let mut world = shared(seed, LEASE);
        let (owner, other) = owner_and_other(&world, "key");
        world.cut_coordinator(owner, 3_000_000);
        pass(&mut world, 200_000);
        (0..8).for_each(|node| world.restart_process(node, 10_000));
        let until_us = world.now_us() + 500_000;
        assert!(!world.run_while(until_us, |world| !world.answers_for(other, "key")), "seed {seed}: let in");
        concludes(world);
    }
}
