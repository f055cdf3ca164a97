//! What nodes that lost their memory, or came later, are good for at a take-over: for as much as any, once nothing is
//! missing, and for nothing before.

use shorttail_gateway::engine::LeaseConfig;
use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer};
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Outcome, World};

const SHORT_US: u64 = 5_000;
/// Nodes that nothing is missing of are told within a fraction of it.
const TOLD_US: u64 = 1_000_000;
const STALL_US: u64 = 5_000_000;
const NAMES: std::ops::Range<u64> = 0..120;

/// One node stands still, and the owner dies: does the next one serve before that node goes on?
fn serves_without(world: &mut World, node: usize) -> bool {
    let begun_us = world.now_us();
    world.stall_node(node, STALL_US);
    take_over(world, SHORT_US);
    world.now_us() < begun_us + STALL_US
}

/// With three copies each may be the only one, if two nodes lost theirs: here all did, one after the other.
#[test]
fn who_lost_its_memory_and_lacks_nothing_tells_of_all_that_there_is() {
    for seed in 0..3 {
        let mut world = cluster_of(nodes_of("rs:1+2", 5), seed);
        fill(&mut world, NAMES);
        for node in 0..5 {
            world.crash_node(node, SHORT_US);
            pass(&mut world, TOLD_US);
            await_whole(&mut world);
        }
        pass(&mut world, TOLD_US);
        assert!(serves_without(&mut world, seed as usize), "it waits for the last node");
        holds(&mut world, NAMES);
        concludes(world);
    }
}

/// Nor may those have lost anything that had nothing before.
#[test]
fn who_came_later_tells_of_all_that_there_is() {
    let mut world = cluster_of(SimConfig { late_node_count: 3, ..nodes_of("rs:1+2", 6) }, 1);
    (3..6).for_each(|node| world.join_node(node));
    fill(&mut world, NAMES);
    pass(&mut world, TOLD_US);
    await_whole(&mut world);
    pass(&mut world, TOLD_US);
    assert!(serves_without(&mut world, 0), "it waits for the last node");
    holds(&mut world, NAMES);
    concludes(world);
}

/// The last copy of a stripe is on the node that stands still.
#[test]
fn who_lacks_something_is_not_taken_at_its_word() {
    for seed in 0..3 {
        let slow = SimConfig { repair_bytes_per_s: 1_000, ..nodes_of("rs:1+2", 4) };
        let mut world = cluster_of(slow, seed);
        fill(&mut world, NAMES);
        [1, 2].into_iter().for_each(|node| world.crash_node(node, SHORT_US));
        pass(&mut world, TOLD_US);
        assert!(!world.is_whole(), "for this test repair is too fast");
        assert!(!serves_without(&mut world, 0), "keys may be missed");
        holds(&mut world, NAMES);
        concludes(world);
    }
}

/// Of a stripe that is lost nothing can be rebuilt, and it is not taken for one that a member was never given.
#[test]
fn who_held_a_lost_stripe_does_not_pass_for_one_that_never_did() {
    for seed in 0..3 {
        let mut world = cluster_of(nodes_of("rs:2+1", 4), seed);
        fill(&mut world, NAMES);
        [1, 2].into_iter().for_each(|node| world.crash_node(node, SHORT_US));
        for _ in 0..2 {
            pass(&mut world, 3 * TOLD_US);
            take_over(&mut world, SHORT_US);
        }
        let mut found = 0;
        for name in NAMES {
            match world.ask(&format!("key{name}"), Action::Get) {
                Outcome::Answered(Answer::Found(Some(value))) => {
                    assert_eq!(value, value_of(name, 0));
                    found += 1;
                }
                Outcome::Answered(answer) => panic!("key{name}: {answer:?}\n{}", world.trace()),
                _ => {}
            }
        }
        assert!(found < NAMES.end, "for this test too little is lost");
    }
}

/// A node lost its memory, and what it had was rebuilt on others; it lacks nothing by now. Of a chunk that went
/// elsewhere its new holder and another member know: the one stands still, the other one has just lost its memory.
#[test]
fn who_had_what_is_elsewhere_now_does_not_pass_for_one_that_never_did() {
    let mut waited = 0;
    for (seed, [forgets, late]) in [[2, 3], [3, 2], [0, 4], [4, 0], [2, 4], [3, 0]].into_iter().enumerate() {
        let mut world = cluster_of(nodes_of("rs:2+1", 5), seed as u64);
        fill(&mut world, NAMES);
        kill(&mut world, &[1]);
        await_whole(&mut world);
        world.restart_node(1);
        pass(&mut world, TOLD_US);
        await_whole(&mut world);
        pass(&mut world, TOLD_US);
        world.crash_node(forgets, SHORT_US);
        waited += u32::from(!serves_without(&mut world, late));
        holds(&mut world, NAMES);
        concludes(world);
    }
    assert!(waited > 0, "nobody was waited for");
}

/// An owner that is cut off from everybody is the first that a fresh memory hears of. What later owners had put on that
/// node is lost, and does not pass for what was never there: a value would be void for one piece that is gone.
#[test]
fn who_was_met_first_by_an_owner_of_before_does_not_pass_for_one_that_was_there() {
    /// When it reaches the fresh memory, and when the owner of now does.
    const OLD_US: u64 = 1_000_000;
    const NEW_US: u64 = 3_000_000;
    // Only the node itself can have its chunks again, and slowly.
    let mut config = SimConfig { partition_count: 4, repair_bytes_per_s: 100, ..nodes_of("rs:4+2", 6) };
    config.share(2);
    config.coordinated = true;
    config.lease = Some(LeaseConfig::USUAL);
    let mut world = cluster_of(config, 0);
    let keys: Vec<String> = NAMES.map(|name| format!("key{name}")).collect();
    let is_owned = |world: &World| keys.iter().all(|key| world.owner_of(key) == Some(0) && world.serves(key));
    world.divide(&[1], &[]);
    await_within(&mut world, 15_000_000, "taken over", is_owned);
    fill(&mut world, NAMES);
    let fresh = 2;
    world.cut_gateway_from(1, fresh, OLD_US);
    world.cut_gateway_from(0, fresh, NEW_US);
    world.crash_node(fresh, SHORT_US);
    pass(&mut world, NEW_US + TOLD_US);
    world.crash_gateway_number(0, SHORT_US);
    pass(&mut world, 2 * SHORT_US);
    await_within(&mut world, 15_000_000, "taken over again", is_owned);
    holds(&mut world, NAMES);
}
