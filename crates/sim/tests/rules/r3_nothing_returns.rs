//! R3: what was deleted stays deleted, across cleaning, a returning node and a new owner.
//!
//! Holds by `carry` and `is_needed` (gateway/src/engine/reclaim/cleaner.rs): a tombstone moves on while a stripe older
//! than its horizon exists. With `is_needed` answering false for tombstones, a new owner finds the deleted record
//! alone. And a stripe exists until its members confirmed its free: its void record is carried on until then. With that
//! one dropped, a member that slept through all of it brings the record back.

use shorttail_gateway::engine::WhenFull;

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
        take_over(&mut world, 10_000);
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
            take_over(&mut world, 10_000);
            assert_eq!(get(&mut world, "gone"), None, "seed {seed}, node {node} away");
            pass(&mut world, 2_500_000);
            assert_eq!(get(&mut world, "gone"), None, "seed {seed}, node {node} back");
            concludes(world);
        }
    }
}

/// A node sleeps while the record is deleted, its stripe emptied and voided, the tombstone and the stripe with the void
/// record cleaned away. It wakes for a take-over.
#[test]
fn a_node_that_slept_for_long_brings_nothing_back() {
    for node in 0..8 {
        let mut world = cluster(200 + node as u64);
        set(&mut world, "gone", &value(1, 100));
        fill(&mut world, 0, 40);
        world.stall_node(node, FOR_GOOD_US);
        assert_eq!(world.ask("gone", Action::Delete), Outcome::Answered(Answer::Existed(true)));
        for _ in 0..6 {
            fill(&mut world, 0, 60);
        }
        pass(&mut world, 500_000);
        world.crash_gateway(5_000);
        world.resume_node(node);
        pass(&mut world, 10_000);
        world.await_serving();
        assert_eq!(get(&mut world, "gone"), None, "node {node}");
        concludes(world);
    }
}

/// Tombstones whose objects' stripes are all gone are garbage themselves: `choose_to_end_tombstones`
/// (gateway/src/engine/reclaim/choosing.rs).
#[test]
fn a_store_whose_keys_are_all_deleted_gives_its_memory_back() {
    let mut world = cluster(1);
    fill(&mut world, 0, 300);
    concludes(world);
}

/// A store that is full evicts; its owner dies at any time of that. What somebody missed, the next owner misses too.
#[test]
fn what_was_evicted_and_missed_does_not_return() {
    let mut missed_count = 0;
    for seed in 0..30 {
        let config = SimConfig {
            node_memory_bytes: 256 << 10,
            node_core_count: 1,
            chunk_bytes: 15 << 10,
            block_bytes: 2_048,
            partition_count: 1,
            when_full: WhenFull::Evict,
            ..nodes_of("rs:2+1", 4)
        };
        let mut world = cluster_of(config, seed);
        let names = || 0..500 + seed;
        names().for_each(|name| set(&mut world, &format!("key{name}"), &value(name, 1_500)));
        // Until the next eviction begins.
        let before = world.all_stats()[0].totals.evicted_total;
        for name in 1_000..2_000 {
            set(&mut world, &format!("key{name}"), &value(name, 1_500));
            if world.all_stats()[0].totals.evicted_total > before {
                break;
            }
        }
        // Nothing that is on its way becomes durable; what is not in the index is missed all the same.
        (0..4).for_each(|node| world.cut_requests_to(node, FOR_GOOD_US));
        let ops: Vec<_> = names().map(|name| world.request(0, &format!("key{name}"), Action::Get)).collect();
        pass(&mut world, 5_000);
        let is_missed = |op: &Op| world.outcome(*op) == Some(&Outcome::Answered(Answer::Found(None)));
        let missed: Vec<_> = names().zip(ops).filter(|(_, op)| is_missed(op)).map(|(name, _)| name).collect();
        missed_count += missed.len();
        take_over_mended(&mut world);
        for name in missed {
            assert_eq!(get(&mut world, &format!("key{name}")), None, "seed {seed}, key {name}\n{}", world.trace());
        }
        concludes(world);
    }
    assert!(missed_count > 0, "nothing was evicted");
}
