//! Several coordinators over one metadata store: one leads, whoever dies, stands still or is cut off; nodes join and
//! go.

use shorttail_sim::config::SimConfig;
use shorttail_sim::scenario::*;
use shorttail_sim::world::World;

/// A drained node is empty within this, and told that it is taken out.
const DRAINED_US: u64 = 30_000_000;
/// How long a request waits for an owner.
const WAIT_US: u64 = 4_000_000;
/// Until a leader that the store does not hear of leads no more, and another one was found by all.
const LED_US: u64 = 10_000_000;

/// Waits until another coordinator than this one leads.
fn await_another(world: &mut World, than: Option<usize>) {
    await_within(world, LED_US, "led", |world| world.leader().is_some() && world.leader() != than);
}

#[test]
fn another_coordinator_leads_when_one_dies() {
    for (count, seed) in [(2, 1), (3, 2)] {
        let mut world = cluster_of(coordinated(count), seed);
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

/// The lease of the leader, then the time that gateways have to come back to the next one: no request waits in vain,
/// which it does for four seconds, but for as long as the store keeps the next one waiting.
#[test]
fn what_a_gateway_owned_that_died_with_the_leader_is_served_before_requests_are_refused() {
    let mut longest_us = 0;
    for seed in 0..16 {
        let mut config = coordinated(2 + seed as usize % 2);
        config.gateway_count = 3;
        let mut world = cluster_of(config, seed);
        fill(&mut world, 0..20);
        pass(&mut world, 100_000 * seed);
        let (began_us, slow_us) = (world.now_us(), world.counts().store_slow_us);
        world.crash_coordinator(FOR_GOOD_US);
        world.crash_gateway_number(1 + seed as usize % 2, FOR_GOOD_US);
        await_within(&mut world, 2 * WAIT_US, "served", |world| {
            (0..20).all(|name| world.serves(&format!("key{name}")))
        });
        let (took_us, slow_us) = (world.now_us() - began_us, world.counts().store_slow_us - slow_us);
        assert!(took_us < WAIT_US + slow_us, "seed {seed}: {took_us} us, the store {slow_us} us of it");
        longest_us = longest_us.max(took_us.saturating_sub(slow_us));
        assert!(world.counts().tenures_taken_over > 0, "{:?}", world.counts());
        holds(&mut world, 0..20);
        concludes(world);
    }
    assert!(longest_us > 2_000_000, "they never had to wait: {longest_us} us");
}

/// It wakes up when another one leads, and finds that its members left it.
#[test]
fn a_leader_that_stood_still_changes_nothing() {
    for seed in 0..12 {
        let mut world = cluster_of(coordinated(2), seed);
        fill(&mut world, 0..20);
        let first = world.leader();
        world.stall_coordinator(6_000_000);
        world.crash_gateway_number((seed % 2) as usize, 1_000);
        await_another(&mut world, first);
        await_served(&mut world);
        assert!(world.counts().changes_over > 0, "{:?}", world.counts());
        holds(&mut world, 0..20);
        pass(&mut world, 6_000_000);
        await_served(&mut world);
        holds(&mut world, 0..20);
        concludes(world);
    }
}

/// It was about to save whom it dealt what to, and does when another one has led for long: the store refuses that.
#[test]
fn a_leader_that_stood_still_before_it_saved_changes_nothing() {
    for seed in 0..12 {
        let mut world = cluster_of(coordinated(2), seed);
        fill(&mut world, 0..20);
        let first = world.leader();
        world.stall_coordinator_at_save(6_000_000);
        world.crash_gateway_number((seed % 2) as usize, 1_000);
        await_another(&mut world, first);
        await_served(&mut world);
        assert_eq!(world.counts().saves_refused, 0, "not yet");
        pass(&mut world, 6_000_000);
        assert_eq!(world.counts().saves_refused, 1, "{:?}", world.counts());
        await_served(&mut world);
        holds(&mut world, 0..20);
        concludes(world);
    }
}

/// Nobody leads while none reaches the store, data flows, and who is back goes on from the same state.
#[test]
fn coordinators_that_are_cut_off_from_their_store_lead_on_later() {
    let mut world = cluster_of(coordinated(2), 4);
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

/// A leader that only the store does not hear gives way, and so does one that does not hear the store, or neither.
#[test]
fn a_leader_that_the_store_does_not_hear_gives_way() {
    for seed in 0..12 {
        let mut world = cluster_of(coordinated(3), seed);
        fill(&mut world, 0..20);
        let first = world.leader();
        world.cut_from_store(first.expect("one leads"), 20_000_000);
        // Back before the end: some clients know of no other one.
        world.crash_gateway_number(0, 15_000_000);
        if seed % 2 == 0 {
            await_served(&mut world);
        }
        pass(&mut world, 20_000_000);
        await_served(&mut world);
        holds(&mut world, 0..20);
        concludes(world);
    }
}

/// What it asks of the store is done there: it prolongs no lease that it does not know to last.
#[test]
fn a_leader_that_does_not_hear_the_store_gives_way() {
    for seed in 0..6 {
        let mut world = cluster_of(coordinated(3), seed);
        fill(&mut world, 0..20);
        let first = world.leader();
        world.cut_answers_of_store(first.expect("one leads"), 20_000_000);
        await_another(&mut world, first);
        world.crash_gateway_number(0, 1_000);
        await_served(&mut world);
        pass(&mut world, 20_000_000);
        holds(&mut world, 0..20);
        concludes(world);
    }
}

/// Its lease is prolonged all the same, and would be for ever. Another one leads, who can save; alone it would lead
/// again once the store takes something of it.
#[test]
fn a_leader_that_may_not_save_gives_way() {
    for (seed, count) in [(0, 2), (1, 3), (2, 2), (3, 1)] {
        let mut world = cluster_of(coordinated(count), seed);
        fill(&mut world, 0..20);
        let first = world.leader();
        world.refuse_saves_of(first);
        pass(&mut world, 10_000_000);
        assert_eq!((world.leader(), world.counts().resignations), (first, 0), "nothing is to be saved");
        world.crash_gateway_number(1, FOR_GOOD_US);
        if count == 1 {
            pass(&mut world, 10_000_000);
            assert_eq!(world.counts().resignations, 0, "what prolongs nothing has no rival");
            world.refuse_saves_of(None);
        }
        await_served(&mut world);
        assert_eq!(world.counts().resignations, u64::from(count > 1), "{:?}", world.counts());
        assert_eq!(world.leader() == first, count == 1);
        holds(&mut world, 0..20);
        pass(&mut world, 20_000_000);
        assert_eq!(world.leader() == first, count == 1, "it does not come between");
        concludes(world);
    }
}

/// Nobody else may lead, and nobody saved anything meanwhile: it begins anew from the state that it knew.
#[test]
fn a_leader_that_resigned_leads_again_when_the_store_takes_something() {
    for seed in 0..4 {
        let mut world = cluster_of(coordinated(2), seed);
        fill(&mut world, 0..20);
        let first = world.leader().expect("one leads");
        world.cut_from_store(1 - first, 40_000_000);
        world.refuse_saves_of(Some(first));
        world.crash_gateway_number(1, FOR_GOOD_US);
        pass(&mut world, 6_000_000);
        world.refuse_saves_of(None);
        await_within(&mut world, 2 * LED_US, "led", |world| world.leader() == Some(first));
        assert_eq!(world.counts().resignations, 1, "{:?}", world.counts());
        await_served(&mut world);
        holds(&mut world, 0..20);
        concludes(world);
    }
}

/// A node joins and takes its share, another one is emptied and taken out, while leaders change.
#[test]
fn nodes_join_and_go_while_leaders_change() {
    for seed in 0..3 {
        let config = SimConfig { node_count: 10, late_node_count: 1, ..coordinated(2) };
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
