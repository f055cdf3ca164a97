//! R4: a new owner closes every inherited unsealed stripe before it serves, and never appends to one.
//!
//! Holds by `synchronise` (gateway/src/engine/takeover/synchronise.rs), which names the last operation to all members
//! and takes what a member says of an earlier close for the end, and by `end_gathering_when_done`
//! (takeover/recovery.rs): serving waits for the closes. Without the closes, a member that was away at the first
//! take-over adds its operation to the picture of the second one. A stripe of which one member alone knows is not
//! completed either: `synchronise` ends it empty.

use super::*;

#[test]
fn what_one_owner_answered_the_next_one_answers_too() {
    for seed in 0..24 {
        let mut world = cluster(seed);
        set(&mut world, "key", &value(1, 60));
        let away = (seed % 8) as usize;
        // One member holds operations that the first new owner cannot see.
        world.cut_replies_of(away, 900_000);
        let ops: Vec<_> = (2..6).map(|name| world.request(0, "key", Action::Set(value(name, 60)))).collect();
        pass(&mut world, 300 * (seed % 5));
        world.crash_gateway(5_000);
        pass(&mut world, 10_000);
        ops.into_iter().for_each(|op| _ = world.await_op(op));
        world.await_serving();
        let seen = get(&mut world, "key");
        pass(&mut world, 1_000_000);
        take_over(&mut world, 5_000);
        assert_eq!(get(&mut world, "key"), seen, "seed {seed}");
        concludes(world);
    }
}

/// All that others hold is stable, so the first new owner serves at once; one member, away, holds an operation more. It
/// is back before the stripe is emptied, at a second take-over.
#[test]
fn an_operation_beyond_a_close_never_shows() {
    let mut held_alone = 0;
    for seed in 0..12 {
        let mut world = cluster(seed);
        let alone = second_value_at_one(&mut world, seed);
        world.stall_node(alone, 10_000_000);
        take_over_mended(&mut world);
        let seen = get(&mut world, "key");
        held_alone += u32::from(seen == Some(value(1, 60)));
        world.crash_gateway(5_000);
        world.resume_node(alone);
        pass(&mut world, 10_000);
        world.await_serving();
        assert_eq!(get(&mut world, "key"), seen, "seed {seed}");
        concludes(world);
    }
    assert!(held_alone >= 10, "the first new owner knows the second value in all but {held_alone} runs");
}

/// One node alone has a stripe, with what was added to values and nobody was told of, and is away at the first
/// take-over. The values are deleted, and all that this owner knows to be older is cleaned away. The node is back for
/// the second one.
#[test]
fn what_lies_in_a_stripe_that_one_owner_never_heard_of_does_not_show_to_the_next() {
    let mut held_alone = 0;
    for seed in 0..8 {
        let mut world = cluster(seed);
        let keys: Vec<String> = (0..8).map(|name| format!("key{name}")).collect();
        keys.iter().for_each(|key| set(&mut world, key, &value(1, 60)));
        let alone = (seed % 8) as usize;
        pass(&mut world, 100_000);
        (0..8).filter(|&other| other != alone).for_each(|other| world.cut_requests_to(other, 10_000_000));
        // The first of these still go to the stripe that all know of.
        for name in 0..40 {
            world.request(0, &format!("fill{name}"), Action::Set(value(name, 120)));
        }
        for key in &keys {
            pass(&mut world, 200);
            world.request(0, key, Action::Append(value(2, 10)));
        }
        pass(&mut world, 1_500);
        held_alone += u32::from(world.holders_of_open() == [alone]);
        world.stall_node(alone, FOR_GOOD_US);
        take_over_mended(&mut world);
        for key in &keys {
            assert_eq!(world.ask(key, Action::Delete), Outcome::Answered(Answer::Existed(true)), "seed {seed}");
        }
        for _ in 0..6 {
            fill(&mut world, 0, 60);
        }
        world.crash_gateway(5_000);
        world.resume_node(alone);
        pass(&mut world, 10_000);
        world.await_serving();
        keys.iter().for_each(|key| assert_eq!(get(&mut world, key), None, "seed {seed}"));
        concludes(world);
    }
    assert!(held_alone >= 4, "one node alone has a stripe in {held_alone} runs");
}

/// Two data nodes alone hold operations, in turn, and no parity does. One of the two is away at the first take-over,
/// which can write nothing anew without it, and is back at the second.
#[test]
fn an_operation_that_nobody_told_of_never_shows() {
    let (keys, mut answered) = (["a", "b", "c", "d", "e", "f"], 0);
    for seed in 0..12 {
        let mut world = cluster_of(SimConfig { node_count: 6, ..SimConfig::scripted() }, seed);
        keys.iter().for_each(|key| set(&mut world, key, &value(1, 60)));
        pass(&mut world, 100_000);
        let holders = world.holders_of_open();
        let (away, here) = (holders[seed as usize % 4], holders[(seed as usize + 1 + seed as usize / 4) % 4]);
        let others = (0..6).filter(|&other| other != away && other != here);
        others.for_each(|other| world.cut_requests_to(other, 10_000_000));
        for key in keys {
            world.request(0, key, Action::Set(value(2, 60)));
            pass(&mut world, 500);
        }
        world.stall_node(away, 10_000_000);
        take_over_mended(&mut world);
        let seen = keys.map(|key| world.ask(key, Action::Get));
        world.crash_gateway(5_000);
        world.resume_node(away);
        pass(&mut world, 10_000);
        world.await_serving();
        for (key, seen) in keys.iter().zip(seen).filter(|(_, seen)| matches!(seen, Outcome::Answered(_))) {
            answered += 1;
            assert_eq!(world.ask(key, Action::Get), seen, "seed {seed}, {key}");
        }
        concludes(world);
    }
    assert!(answered >= 12, "the first new owner answers {answered} times");
}
