//! Which nodes hold what, by every rule of placement: domains and coding sets are kept to, through deaths and repair.
//!
//! RS(4,2): two chunks may be lost.

use shorttail_placement::Placement;
use shorttail_sim::config::SimConfig;
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
