//! R6: a chunk that is found in the middle of a fold is an erasure, and folds are idempotent by operation number.
//!
//! Holds by `ChunkMut::fold` (store/src/chunk.rs): the mark before, the folded number after, the raw bytes dropped
//! last; and by `intact_state`, which takes a chunk with the mark for damaged. Without the mark, or with the mark
//! ignored, a new owner decodes with a parity chunk that holds more than it says.

use super::*;

#[test]
fn a_parity_that_died_in_a_fold_is_not_decoded_with() {
    let mut interrupted = 0;
    for seed in 0..12 {
        let mut world = cluster(seed);
        for name in 0..12 {
            set(&mut world, &format!("key{name}"), &value(name, 60));
        }
        let holders = world.holders_of_open();
        // All of these are confirmed: a fold of them is allowed, and dies half-way. A data chunk is gone for good.
        interrupted += world.crash_folding(holders[4 + seed as usize % 2]);
        world.crash_gateway(5_000);
        world.crash_node(holders[seed as usize % 4], FOR_GOOD_US);
        pass(&mut world, 10_000);
        world.await_serving();
        for name in 0..12 {
            assert_eq!(get(&mut world, &format!("key{name}")), Some(value(name, 60)), "seed {seed}, key{name}");
        }
        concludes(world);
    }
    assert!(interrupted >= 10, "{interrupted} folds were interrupted");
}

/// The owner lives: it leaves the stripe, and has the bytes.
#[test]
fn an_owner_leaves_a_stripe_whose_fold_was_cut_short() {
    for seed in 0..6 {
        let mut world = cluster(seed);
        for name in 0..12 {
            set(&mut world, &format!("key{name}"), &value(name, 60));
        }
        let holders = world.holders_of_open();
        world.crash_folding(holders[4 + seed as usize % 2]);
        fill(&mut world, 0, 60);
        world.crash_node(holders[0], FOR_GOOD_US);
        world.crash_node(holders[1], FOR_GOOD_US);
        for name in 0..12 {
            assert_eq!(get(&mut world, &format!("key{name}")), Some(value(name, 60)), "seed {seed}, key{name}");
        }
        concludes(world);
    }
}
