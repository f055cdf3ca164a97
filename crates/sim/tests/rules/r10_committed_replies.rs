//! R10: a reply that depends on an operation in flight waits for it, and a failure after sending is "unknown".
//!
//! Holds by `read` (gateway/src/engine/read/lookup.rs): a read of a key whose write is under way queues behind it. With
//! the read answered from the round in hand, it shows what dies with the owner. And by `end_completing_when_done`
//! (takeover/recovery.rs): what a new owner found on too few nodes is written anew before it is shown. With serving
//! before that, a client sees what dies with one node.

use super::*;

#[test]
fn a_read_beside_a_write_shows_nothing_that_a_new_owner_forgets() {
    for seed in 0..40 {
        let mut world = cluster(seed);
        set(&mut world, "key", &value(1, 60));
        // No node hears of the write; some read is asked while it waits.
        for node in 0..8 {
            world.cut_requests_to(node, 40_000);
        }
        let write = world.request(0, "key", Action::Set(value(2, 60)));
        let read = world.request(1, "key", Action::Get);
        let later = world.request(2, "key", Action::Add(value(3, 60)));
        pass(&mut world, 500 + 100 * seed);
        world.crash_gateway(45_000);
        pass(&mut world, 50_000);
        [write, read, later].into_iter().for_each(|op| _ = world.await_op(op));
        world.await_serving();
        _ = get(&mut world, "key");
        concludes(world);
    }
}

/// One node alone holds an operation, and dies right after a new owner showed it: the next one shows it too.
#[test]
fn what_one_node_held_is_safe_before_it_is_shown() {
    let mut shown = 0;
    for seed in 0..12 {
        let mut world = cluster(seed);
        let alone = second_value_at_one(&mut world, seed);
        take_over_mended(&mut world);
        let seen = get(&mut world, "key");
        shown += u32::from(seen == Some(value(2, 60)));
        world.crash_node(alone, FOR_GOOD_US);
        take_over(&mut world, 5_000);
        assert_eq!(get(&mut world, "key"), seen, "seed {seed}");
        concludes(world);
    }
    assert!(shown >= 4, "the second value was shown in {shown} runs");
}

/// One node alone holds an operation, and the next owner can write nothing anew, as another node is away. It answers
/// for the rest, and says that it cannot know this; then the node dies that held it, and nobody has seen what is gone.
#[test]
fn what_one_node_held_is_in_doubt_while_it_cannot_be_made_safe() {
    let mut doubted = 0;
    for seed in 0..12 {
        let mut world = cluster_of(nodes_of("rs:4+2", 6), seed);
        fill(&mut world, 0, 20);
        set(&mut world, "key", &value(1, 60));
        let holders = world.holders_of_open();
        let [alone, absent] = [0, 1].map(|place| holders[(seed as usize + place) % holders.len()]);
        pass(&mut world, 100_000);
        (0..6).filter(|&other| other != alone).for_each(|other| world.cut_requests_to(other, 10_000_000));
        world.request(0, "key", Action::Set(value(2, 60)));
        pass(&mut world, 3_000);
        world.crash_node(absent, FOR_GOOD_US);
        take_over_mended(&mut world);
        let seen = world.ask("key", Action::Get);
        // What changes nothing for it shows as much as a read.
        let added = world.ask("key", Action::Replace(value(3, 60)));
        doubted += u32::from(seen == Outcome::Refused && added == Outcome::Refused);
        for name in 0..20 {
            assert_eq!(get(&mut world, &format!("fill{name}")), Some(value(name, 120)), "seed {seed}");
        }
        world.crash_node(alone, FOR_GOOD_US);
        take_over(&mut world, 5_000);
        let later = world.ask("key", Action::Get);
        assert!(
            seen == Outcome::Refused || later == Outcome::Refused || later == seen,
            "seed {seed}: {seen:?}, {later:?}"
        );
        concludes(world);
    }
    assert!(doubted >= 4, "the second value was in doubt in {doubted} runs");
}

/// A stripe is opened while some members hear nothing: all participants of a write hold it, and nothing of the stripe
/// counts yet. The next owner hears nothing of those members either and can write nothing anew. The one after hears
/// that they never had their chunk.
#[test]
fn what_all_hold_in_a_stripe_that_may_not_count_is_not_shown() {
    for (code, node_count, deaf_count) in [("rs:4+2", 6, 2), ("rs:2+2", 4, 1), ("rs:2+1", 3, 1)] {
        let mut doubted = 0;
        for seed in 0..20 {
            let mut world = cluster_of(nodes_of(code, node_count), seed);
            let node_count = usize::from(node_count);
            set(&mut world, "key", &value(1, 60));
            pass(&mut world, 100_000);
            let first = seed as usize % node_count;
            let deaf: Vec<usize> = (0..deaf_count).map(|step| (first + step) % node_count).collect();
            deaf.iter().for_each(|&node| world.cut_requests_to(node, 60_000_000));
            // Until another stripe is opened.
            for name in 0..10 + 2 * seed {
                world.request(1, &format!("fill{name}"), Action::Set(value(name, 120)));
                pass(&mut world, 200);
            }
            world.request(0, "key", Action::Set(value(2, 60)));
            pass(&mut world, 3_000);
            take_over(&mut world, 5_000);
            let seen = world.ask("key", Action::Get);
            doubted += u32::from(seen == Outcome::Refused);
            take_over_mended(&mut world);
            let later = world.ask("key", Action::Get);
            assert!(seen == Outcome::Refused || later == seen, "{code}, seed {seed}: {seen:?}, {later:?}");
            concludes(world);
        }
        assert!(doubted >= 2, "{code}: the second value was in doubt in {doubted} runs");
    }
}

/// A write that was sent and then finds no place any more, as too few nodes are left: "unknown", and it may show.
#[test]
fn a_write_that_was_sent_is_never_refused_for_sure() {
    let mut unknown = 0;
    for seed in 0..12 {
        let mut world = cluster(seed);
        set(&mut world, "key", &value(1, 60));
        // All members hold the write, and nobody hears them.
        for node in 0..8 {
            world.cut_replies_of(node, 30_000);
        }
        let op = world.request(0, "key", Action::Set(value(2, 60)));
        pass(&mut world, 5_000);
        // Most of them do not come back.
        for node in 0..8 {
            world.break_all_of(node);
            world.cut_requests_to(node, if node < 5 { 60_000_000 } else { 1 });
        }
        unknown += u32::from(world.await_op(op) == Outcome::Unknown);
        take_over_mended(&mut world);
        _ = get(&mut world, "key");
        concludes(world);
    }
    assert!(unknown >= 6, "{unknown} outcomes are unknown");
}
