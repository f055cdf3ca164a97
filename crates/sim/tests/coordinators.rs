//! Several coordinators over one metadata store: one leads, whoever dies, stands still or is cut off; nodes join and go.

use shorttail_gateway::engine::LeaseConfig;
use shorttail_sim::config::SimConfig;
use shorttail_sim::scenario::*;
use shorttail_sim::world::World;

/// Whatever happened, everything is served again within this.
const SERVED_US: u64 = 15_000_000;
/// A drained node is empty within this, and told that it is taken out.
const DRAINED_US: u64 = 30_000_000;
/// Until a leader that the store does not hear of leads no more, and another one was found by all.
const LED_US: u64 = 10_000_000;

/// Eight nodes, two gateways, four partitions, so many coordinators.
fn config(coordinator_count: usize) -> SimConfig {
    let mut config = SimConfig { partition_count: 4, coordinator_count, ..SimConfig::scripted() };
    config.share(2);
    config.coordinated = true;
    config.lease = Some(LeaseConfig { lease_us: 1_000_000, margin_us: 100_000 });
    config.leader_lease_s = 2;
    config.audit_events = 1_000;
    config
}

fn await_served(world: &mut World) {
    await_within(world, SERVED_US, "served", |world| (0..20).all(|name| world.serves(&format!("key{name}"))));
}

/// Waits until another coordinator than this one leads.
fn await_another(world: &mut World, than: Option<usize>) {
    await_within(world, LED_US, "led", |world| world.leader().is_some() && world.leader() != than);
}

#[test]
fn another_coordinator_leads_when_one_dies() {
    for (count, seed) in [(2, 1), (3, 2)] {
        let mut world = cluster_of(config(count), seed);
        fill(&mut world, 0..20);
        for _ in 1..count {
            let first = world.leader();
            world.crash_coordinator(FOR_GOOD_US);
            world.crash_gateway_number((seed % 2) as usize, 30_000);
            await_another(&mut world, first);
            await_served(&mut world);
            holds(&mut world, 0..20);
        }
        assert!(world.counts().reigns >= count as u64, "{:?}", world.counts());
        concludes(world);
    }
}

/// Nobody leads while none reaches the store, data flows, and who is back goes on from the same state.
#[test]
fn coordinators_that_are_cut_off_from_their_store_lead_on_later() {
    let mut world = cluster_of(config(2), 4);
    fill(&mut world, 0..20);
    world.lose_store(8_000_000);
    pass(&mut world, 4_000_000);
    assert_eq!(world.leader(), None);
    holds(&mut world, 0..20);
    fill_round(&mut world, 0..20, 1);
    await_another(&mut world, None);
    pass(&mut world, 3_000_000);
    assert_eq!(world.counts().tenures_taken_over, 0, "{:?}", world.counts());
    concludes(world);
}

/// A node joins and takes its share, another one is emptied and taken out, while leaders change.
#[test]
fn nodes_join_and_go_while_leaders_change() {
    for seed in 0..3 {
        let config = SimConfig { node_count: 10, late_node_count: 1, ..config(2) };
        let mut world = cluster_of(config, seed);
        fill(&mut world, 0..200);
        world.join_node(9);
        world.order_drain(3, false);
        world.crash_coordinator(500_000);
        await_within(&mut world, LED_US, "led", |world| world.leader().is_some());
        pass(&mut world, 3_000_000);
        // The order may have been lost with the one that it was given to.
        world.order_drain(3, false);
        let mut waited_us = 0;
        while !world.is_removed(3) {
            pass(&mut world, 500_000);
            waited_us += 500_000;
            assert!(waited_us < DRAINED_US, "{}", world.trace());
            world.order_removal(3, false);
        }
        assert!(world.counts().rebuilds > 0 && world.counts().removals == 1, "{:?}", world.counts());
        kill(&mut world, &[0, 1]);
        holds(&mut world, 0..200);
        concludes(world);
    }
}
