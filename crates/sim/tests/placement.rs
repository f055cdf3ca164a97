//! Which nodes hold what, by every rule of placement: domains and coding sets are kept to, through deaths and repair.
//!
//! RS(4,2): two chunks may be lost.

use shorttail_chaos::{Fault, FaultKind, Slow};
use shorttail_placement::Placement;
use shorttail_sim::config::SimConfig;
use shorttail_sim::model::Action;
use shorttail_sim::scenario::*;
use shorttail_sim::world::World;
use shorttail_units::NodeId;

const RULES: [Placement; 4] =
    [Placement::LeastLoaded, Placement::CodingSets { spare_count: 2 }, Placement::Random, Placement::TwoChoices];

fn cluster(placement: Placement, node_count: u16, domain_count: u16, seed: u64) -> World {
    let config = SimConfig { placement, node_count, domain_count, ..SimConfig::scripted() };
    cluster_of(config, seed)
}

/// Keys whose values are striped.
fn striped(numbers: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    numbers.map(|number| 5 * number)
}

fn kill_and_repair(world: &mut World, node: usize) {
    kill(world, &[node]);
    await_whole(world);
}

fn members(world: &mut World) -> Vec<Vec<NodeId>> {
    let seen = world.striped_seen();
    assert!(seen.len() >= 30, "{} stripes", seen.len());
    seen.into_values().map(|stripe| stripe.members).collect()
}

fn assert_domains(world: &mut World, domain_count: u16) {
    for members in members(world) {
        for domain in 0..domain_count {
            let here = members.iter().filter(|node| node.0 % domain_count == domain).count();
            assert!(here <= 2, "{here} chunks in domain {domain}: {members:?}");
        }
    }
}

#[test]
fn no_domain_holds_more_of_a_stripe_than_may_be_lost_even_after_repair() {
    for (seed, placement) in (0..).zip(RULES) {
        let mut world = cluster(placement, 16, 4, seed);
        fill(&mut world, striped(0..30));
        assert_domains(&mut world, 4);
        // Two of domain 1, one of domain 2.
        for node in [1, 5, 2] {
            kill_and_repair(&mut world, node);
            assert_domains(&mut world, 4);
        }
        holds(&mut world, striped(0..30));
        concludes(world);
    }
}

#[test]
fn stripes_stay_within_a_coding_set_even_after_repair() {
    for seed in 0..3 {
        let mut world = cluster(Placement::CodingSets { spare_count: 2 }, 16, 0, seed);
        fill(&mut world, striped(0..40));
        for node in [0, 11, 3] {
            let members = members(&mut world);
            let is_second = |node: &NodeId| node.0 >= 8;
            assert!(members.iter().all(|members| members.iter().all(is_second) || !members.iter().any(is_second)));
            assert!(members.iter().any(|members| is_second(&members[0])), "both sets are used");
            assert!(!members.iter().all(|members| is_second(&members[0])), "both sets are used");
            kill_and_repair(&mut world, node);
        }
        holds(&mut world, striped(0..40));
        concludes(world);
    }
}

/// Reads large values all the time, until this holds.
fn read_until(world: &mut World, us: u64, what: &str, holds: impl Fn(&World) -> bool) {
    let until_us = world.now_us() + us;
    for number in 0.. {
        if holds(world) {
            return;
        }
        assert!(world.now_us() < until_us, "never {what}: {:?}\n{}", world.all_stats(), world.trace());
        world.request(0, &format!("key{}", 5 * (number % 40)), Action::Get);
        pass(world, 2_000);
    }
}

/// Of a domain one node died, and the only other one that could have its chunks of some stripes is slow. A node is
/// drained all the same; and some seconds later these stripes have more chunks in a domain than may be lost, rather
/// than lack one.
#[test]
fn a_slow_node_holds_up_no_move_and_repair_for_some_seconds() {
    const SLOW: usize = 3;
    let mut world = cluster(Placement::LeastLoaded, 9, 3, 1);
    fill(&mut world, striped(0..40));
    read_until(&mut world, 2_000_000, "warm", |world| world.now_us() > 1_000_000);
    let kind = FaultKind::Slow(Slow { delay_us: 50_000, ..Slow::default() });
    world.apply_fault(SLOW, Fault { kind, for_us: None });
    let is_found = |world: &World| world.verdicts().iter().any(|(_, verdict)| usize::from(verdict.node.0) == SLOW);
    read_until(&mut world, 5_000_000, "found", is_found);
    world.crash_node(0, FOR_GOOD_US);
    world.drain_node(1, true);
    read_until(&mut world, 3_000_000, "drained", |world| world.is_drained(1));
    assert!(!world.is_whole(), "what only the slow one is to have waits for it");
    read_until(&mut world, 20_000_000, "whole", World::is_whole);
    holds(&mut world, striped(0..40));
    concludes(world);
}

/// With all but five nodes of each set gone, stripes go wherever there is room.
#[test]
fn a_store_without_a_whole_set_takes_writes() {
    let mut world = cluster(Placement::CodingSets { spare_count: 2 }, 16, 0, 1);
    fill(&mut world, striped(0..30));
    for node in [0, 8, 1, 9, 2, 10] {
        kill_and_repair(&mut world, node);
    }
    fill(&mut world, striped(30..40));
    holds(&mut world, striped(0..40));
    concludes(world);
}
