//! R3: what was deleted stays deleted, across cleaning, a returning node and a new owner.
//!
//! Holds by `carry` and `is_needed` (gateway/src/engine/cleaner.rs): a tombstone moves on while a stripe older than its
//! horizon exists. With `is_needed` answering false for tombstones, a new owner finds the deleted record alone.

use super::*;

#[test]
fn a_deleted_key_stays_deleted_across_cleaning_and_a_new_owner() {
    for seed in 0..12 {
        let mut world = cluster(seed);
        set(&mut world, "gone", &value(1, 100));
        fill(&mut world, 0, 40);
        assert_eq!(world.ask("gone", Action::Delete), Outcome::Answered(Answer::Existed(true)));
        // The tombstone's stripe empties long before that of the record it ended.
        for round in 0..6 {
            fill(&mut world, 40, 60 + round);
        }
        world.crash_gateway(10_000);
        world.run_until(world.now_us() + 20_000);
        world.await_serving();
        assert_eq!(get(&mut world, "gone"), None, "seed {seed}");
        concludes(world);
    }
}

#[test]
fn a_node_that_was_away_brings_nothing_back() {
    for seed in 0..6 {
        for node in 0..8 {
            let mut world = cluster(100 + seed);
            set(&mut world, "gone", &value(1, 100));
            fill(&mut world, 0, 40);
            world.stall_node(node, 2_000_000);
            assert_eq!(world.ask("gone", Action::Delete), Outcome::Answered(Answer::Existed(true)));
            fill(&mut world, 0, 120);
            world.crash_gateway(10_000);
            world.run_until(world.now_us() + 20_000);
            world.await_serving();
            assert_eq!(get(&mut world, "gone"), None, "seed {seed}, node {node} away");
            world.run_until(world.now_us() + 2_500_000);
            assert_eq!(get(&mut world, "gone"), None, "seed {seed}, node {node} back");
            concludes(world);
        }
    }
}

/// Tombstones whose objects' stripes are all gone are garbage themselves: `choose_worn` (gateway/src/engine/cleaner.rs).
#[test]
fn a_store_whose_keys_are_all_deleted_gives_its_memory_back() {
    let mut world = cluster(1);
    fill(&mut world, 0, 300);
    concludes(world);
}
