//! The coordinator's own machine decides who owns what, dies, and begins anew with the records that it has.

use std::collections::BTreeSet;

use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer};
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Outcome, World};

/// How long a gateway is cut off from nodes; and within what time others have taken over: it is noticed after a lease,
/// believed two seconds later.
const CUT_OFF_US: u64 = 20_000_000;
const TAKEN_OVER_US: u64 = 4_000_000;

/// Nobody is told anything while the coordinator is away, and everything is served all the same.
#[test]
fn data_flows_without_coordinator_and_store() {
    let mut world = cluster_of(coordinated(1), 1);
    fill(&mut world, 0..20);
    world.crash_coordinator(FOR_GOOD_US);
    pass(&mut world, 20_000_000);
    holds(&mut world, 0..20);
    fill_round(&mut world, 0..20, 1);
    assert_eq!(world.counts().handovers, 0);
    concludes(world);
}

/// A gateway dies while there is no coordinator: the next one finds that out, and has the other take over.
#[test]
fn a_coordinator_that_begins_anew_finds_who_is_gone() {
    let mut world = cluster_of(coordinated(1), 2);
    fill(&mut world, 0..20);
    world.crash_coordinator(1_000_000);
    world.crash_gateway_number(1, FOR_GOOD_US);
    pass(&mut world, 1_000_000);
    await_served(&mut world);
    holds(&mut world, 0..20);
    assert!(world.counts().tenures_taken_over > 0, "{:?}", world.counts());
    concludes(world);
}

/// A gateway hands over everything, and nothing of it is taken over by force.
#[test]
fn a_drained_gateway_owns_nothing() {
    let mut world = cluster_of(coordinated(1), 3);
    fill(&mut world, 0..20);
    world.drain_gateway(0);
    await_within(&mut world, SERVED_US, "drained", |world| {
        (0..20).map(|name| format!("key{name}")).all(|key| world.owner_of(&key) == Some(1) && world.serves(&key))
    });
    holds(&mut world, 0..20);
    let counts = world.counts();
    assert!(counts.tenures_handed_over > 0 && counts.tenures_taken_over == 0, "{counts:?}");
    concludes(world);
}

/// The operator thinks better of it at any step of the hand-over.
#[test]
fn a_gateway_whose_drain_is_cancelled_owns_something_again() {
    let mut handed_over = BTreeSet::new();
    for seed in 0..12 {
        let mut world = cluster_of(coordinated(1), seed);
        fill(&mut world, 0..60);
        world.drain_gateway(0);
        pass(&mut world, 1_000 + 10_000 * seed);
        world.cancel_drain_of_gateway(0);
        // What was ordered before is carried out, and given back once everybody has rested.
        pass(&mut world, 3_000_000);
        await_within(&mut world, SERVED_US, "shared again", |world| {
            let keys: Vec<String> = (0..60).map(|name| format!("key{name}")).collect();
            let is_owner = |gateway| keys.iter().any(|key| world.owner_of(key) == Some(gateway));
            is_owner(0) && is_owner(1) && keys.iter().all(|key| world.serves(key))
        });
        holds(&mut world, 0..60);
        assert_eq!(world.counts().tenures_taken_over, 0, "seed {seed}");
        handed_over.insert(world.counts().tenures_handed_over > 0);
        concludes(world);
    }
    assert_eq!(handed_over.len(), 2, "some were in time, and some were not");
}

/// Versions of every epoch are used up: everything goes on under new ones, and what is written then is the newest.
#[test]
fn owners_whose_versions_are_used_up_go_on_under_new_epochs() {
    let mut world = cluster_of(coordinated(1), 4);
    fill(&mut world, 0..20);
    for turn in 1..4 {
        let before = world.counts().tenures_taken_over;
        world.use_up_versions();
        await_within(&mut world, SERVED_US, "followed", |world| world.counts().tenures_taken_over > before);
        await_served(&mut world);
        holds_round(&mut world, 0..20, turn - 1);
        fill_round(&mut world, 0..20, turn);
    }
    concludes(world);
}

/// The coordinator dies at every step of a take-over, with its records half way to the store.
#[test]
fn a_coordinator_that_dies_while_it_saves_uses_no_epoch_twice() {
    for seed in 0..12 {
        let mut world = cluster_of(coordinated(1), seed);
        fill(&mut world, 0..20);
        world.crash_coordinator_at_save();
        world.crash_gateway_number((seed % 2) as usize, 500_000);
        pass(&mut world, 3_000_000);
        world.crash_coordinator_at_save();
        world.drain_gateway(((seed + 1) % 2) as usize);
        pass(&mut world, 3_000_000);
        await_served(&mut world);
        holds(&mut world, 0..20);
        concludes(world);
    }
}

/// It dies at every step of a hand-over, of which only the epochs are kept; the next one plans it anew.
#[test]
fn a_coordinator_that_dies_in_a_hand_over_uses_no_epoch_twice() {
    for seed in 0..12 {
        let mut world = cluster_of(coordinated(1), seed);
        fill(&mut world, 0..60);
        world.drain_gateway(0);
        pass(&mut world, 1_000 + 4_000 * seed);
        world.crash_coordinator(300_000);
        // Until one leads: the lease of its life before runs out first.
        pass(&mut world, 3_000_000);
        // The order may not have been saved.
        world.drain_gateway(0);
        await_within(&mut world, SERVED_US, "drained", |world| {
            (0..20).map(|name| format!("key{name}")).all(|key| world.owner_of(&key) == Some(1) && world.serves(&key))
        });
        holds(&mut world, 0..60);
        concludes(world);
    }
}

/// Where nodes that still prove an owner are given up, since only that owner reaches them, nobody follows it: neither
/// the next owner, nor one after that.
#[test]
fn nobody_follows_an_owner_that_nodes_out_of_sight_may_prove() {
    for seed in 0..4 {
        let mut config = SimConfig { code: "rs:2+1".parse().expect("a shape"), node_count: 5, ..coordinated(1) };
        config.gateway_count = 3;
        let mut world = cluster_of(config, seed);
        fill(&mut world, 0..20);
        let keys: Vec<String> = (0..20).map(|name| format!("key{name}")).collect();
        let keys: Vec<String> = keys.into_iter().filter(|key| world.owner_of(key) == Some(0)).collect();
        assert!(!keys.is_empty());
        world.divide(&[0], &[0, 1]);
        let await_other = |world: &mut World, what: &str, others: &[usize]| {
            await_within(world, SERVED_US, what, |world| {
                keys.iter().all(|key| world.owner_of(key).is_some_and(|owner| others.contains(&owner)))
            });
        };
        await_other(&mut world, "dealt", &[1, 2]);
        // Given up meanwhile, and the other gateways' tenures changed their voters.
        pass(&mut world, 20_000_000);
        for (gone, left) in [(1, 2), (2, 1)] {
            world.crash_gateway_number(gone, 3_000_000);
            await_other(&mut world, "dealt again", &[left]);
            pass(&mut world, 10_000_000);
            for key in &keys {
                assert!(world.answers_for(0, key), "{key} at its owner\n{}", world.trace());
                assert!(!world.answers_for(1, key) && !world.answers_for(2, key), "{key}\n{}", world.trace());
            }
        }
    }
}

/// Five nodes of which one may be missing, and three gateways.
fn config_of_three() -> SimConfig {
    let config = SimConfig { code: "rs:2+1".parse().expect("a shape"), node_count: 5, ..coordinated(1) };
    SimConfig { gateway_count: 3, partition_count: 6, ..config }
}

/// Keys that a gateway owns.
fn keys_of(world: &World, gateway: usize) -> Vec<String> {
    (0..20).map(|name| format!("key{name}")).filter(|key| world.owner_of(key) == Some(gateway)).collect()
}

/// The coordinator hears it all the time, and so do the other gateways.
#[test]
fn what_a_gateway_owns_that_loses_sight_of_the_nodes_is_served_by_others() {
    for seed in 0..6 {
        let mut world = cluster_of(config_of_three(), seed);
        fill(&mut world, 0..20);
        let keys = keys_of(&world, 2);
        assert!(!keys.is_empty());
        // Long enough to notice that it has gone on well.
        pass(&mut world, 3_000_000);
        let is_half = seed % 2 == 1;
        for node in 0..5 {
            match is_half {
                true => world.cut_replies_to(2, node, CUT_OFF_US),
                false => world.cut_gateway_from(2, node, CUT_OFF_US),
            }
        }
        await_within(&mut world, TAKEN_OVER_US, "taken over", |world| {
            keys.iter().all(|key| world.owner_of(key) != Some(2) && world.serves(key))
        });
        let taken_over = world.counts().tenures_taken_over;
        assert!(taken_over > 0, "{:?}", world.counts());
        pass(&mut world, CUT_OFF_US / 2);
        holds(&mut world, 0..20);
        fill_round(&mut world, 0..20, 1);
        assert!(keys_of(&world, 2).is_empty(), "it is dealt nothing as long as it is cut off");
        pass(&mut world, CUT_OFF_US / 2);
        await_within(&mut world, SERVED_US, "given a share", |world| {
            let keys = keys_of(world, 2);
            !keys.is_empty() && keys.iter().all(|key| world.serves(key))
        });
        assert_eq!(world.counts().tenures_taken_over, taken_over, "nothing else moved by force");
        concludes(world);
    }
}

/// Then nodes are away, and no other gateway would do better.
#[test]
fn nothing_moves_when_no_gateway_reaches_enough_nodes() {
    for seed in 0..3 {
        let mut world = cluster_of(config_of_three(), seed);
        fill(&mut world, 0..20);
        let owners: Vec<_> = (0..20).map(|name| world.owner_of(&format!("key{name}"))).collect();
        pass(&mut world, 3_000_000);
        for gateway in 0..3 {
            // The last one reaches as many as prove it, and too few to follow.
            (0..if gateway == 2 { 2 } else { 5 }).for_each(|node| world.cut_gateway_from(gateway, node, CUT_OFF_US));
        }
        pass(&mut world, CUT_OFF_US);
        await_served(&mut world);
        let now: Vec<_> = (0..20).map(|name| world.owner_of(&format!("key{name}"))).collect();
        assert_eq!((now, world.counts().tenures_taken_over), (owners, 0));
        concludes(world);
    }
}

/// A node comes back empty and dies again before any owner met it: what it held in the life before is missing, and is
/// rebuilt once it is given up, or taken out of the cluster.
#[test]
fn a_life_that_nobody_met_hides_no_loss() {
    for (seed, is_removed) in [(0, false), (1, true)] {
        let mut world = cluster_of(coordinated(1), seed);
        fill(&mut world, 0..60);
        (0..2).for_each(|gateway| world.cut_gateway_from(gateway, 3, 10_000_000));
        world.crash_node(3, 1_000_000);
        pass(&mut world, 2_000_000);
        world.crash_node(3, FOR_GOOD_US);
        pass(&mut world, 1_000_000);
        if is_removed {
            world.remove_node(3);
        }
        pass(&mut world, 1_000_000);
        await_within(&mut world, 60_000_000, "rebuilt", World::is_whole);
        for others in [4, 5] {
            world.crash_node(others, FOR_GOOD_US);
        }
        holds(&mut world, 0..60);
        concludes(world);
    }
}

/// Five nodes, of which one may be lost, three gateways.
fn frail(seed: u64) -> World {
    let mut config = SimConfig { code: "rs:2+1".parse().expect("a shape"), node_count: 5, ..coordinated(1) };
    config.gateway_count = 3;
    cluster_of(config, seed)
}

fn is_told(world: &World, words: &str) -> bool {
    world.problems().iter().any(|problem| problem.contains(words))
}

/// Two gateways die together with the memory of three nodes or more. What is lost and leaves a trace is an error, what
/// leaves none is absent, and operators hear of either.
#[test]
fn what_is_lost_beyond_the_promise_is_told() {
    let (mut absent, mut refused) = (0, 0);
    for (seed, lost) in [(0, 3), (1, 3), (2, 3), (3, 4), (4, 4), (5, 5), (6, 5)] {
        let mut world = frail(seed);
        fill(&mut world, 0..60);
        (0..2).for_each(|gateway| world.crash_gateway_number(gateway, FOR_GOOD_US));
        (0..lost).for_each(|node| world.crash_node(node, 1_000_000));
        pass(&mut world, 2_000_000);
        await_within(&mut world, SERVED_US, "served", |world| {
            (0..60).all(|name| world.owner_of(&format!("key{name}")) == Some(2) && world.serves(&format!("key{name}")))
        });
        // Until the status is told.
        pass(&mut world, 1_000_000);
        let before = (absent, refused);
        for name in 0..60 {
            match world.ask(&format!("key{name}"), Action::Get) {
                Outcome::Answered(Answer::Found(None)) => absent += 1,
                Outcome::Answered(Answer::Found(found)) => assert_eq!(found, Some(value_of(name, 0)), "key{name}"),
                _ => refused += 1,
            }
        }
        let problems = world.problems();
        assert!(absent == before.0 || is_told(&world, "shorttail acknowledge"), "seed {seed}: {problems:?}");
        assert!(refused == before.1 || is_told(&world, "cannot be read any more"), "seed {seed}: {problems:?}");
    }
    assert!(absent > 0 && refused > 0, "{absent} absent, {refused} refused");
}

/// One node after the other loses its memory, each together with a gateway: all is rebuilt in between, and nothing is
/// lost.
#[test]
fn memory_that_was_rebuilt_is_not_missed() {
    for seed in 0..2 {
        let mut world = frail(seed);
        fill(&mut world, 0..40);
        for node in 0..5 {
            world.crash_node(node, 500_000);
            world.crash_gateway_number(node % 3, 500_000);
            pass(&mut world, 1_000_000);
            await_served(&mut world);
            await_within(&mut world, 60_000_000, "rebuilt", World::is_whole);
            pass(&mut world, 1_000_000);
            assert!(!is_told(&world, "shorttail acknowledge"), "seed {seed}, node {node}: {:?}", world.problems());
        }
        holds(&mut world, 0..40);
        concludes(world);
    }
}

/// Nobody could own what an owner lets go then: it goes on until the store is there again.
#[test]
fn what_is_to_be_handed_over_is_served_while_the_store_is_away() {
    for seed in 0..6 {
        let mut world = cluster_of(coordinated(1), seed);
        fill(&mut world, 0..20);
        world.drain_gateway(0);
        await_within(&mut world, SERVED_US, "prepared", |world| world.is_prepared(1));
        world.lose_store(20_000_000);
        for _ in 0..190 {
            pass(&mut world, 100_000);
            assert!((0..20).all(|name| world.serves(&format!("key{name}"))), "seed {seed}\n{}", world.trace());
        }
        holds(&mut world, 0..20);
        await_within(&mut world, SERVED_US, "drained", |world| {
            (0..20).map(|name| format!("key{name}")).all(|key| world.owner_of(&key) == Some(1) && world.serves(&key))
        });
        assert_eq!(world.counts().tenures_taken_over, 0, "{:?}", world.counts());
        concludes(world);
    }
}

/// What must be saved waits for the store; nobody is told of it before.
#[test]
fn no_tenure_begins_while_the_store_is_away() {
    let mut world = cluster_of(coordinated(1), 5);
    fill(&mut world, 0..20);
    world.lose_store(6_000_000);
    world.crash_gateway_number(1, FOR_GOOD_US);
    pass(&mut world, 5_500_000);
    assert!(!(0..20).all(|name| world.serves(&format!("key{name}"))), "somebody was told");
    await_served(&mut world);
    holds(&mut world, 0..20);
    concludes(world);
}
