//! Moves of which too few members hear (rule R11): a later owner that does not hear the node that took the chunk must
//! hear of it.
//!
//! ```text
//! RS(1,2)   node 0       1            2, 3         4
//!           gives        hears of     told         takes
//!                        nothing
//! ```

use shorttail_sim::config::SimConfig;
use shorttail_sim::scenario::*;
use shorttail_sim::world::World;

const SHORT_US: u64 = 5_000;
/// Far longer than until a node that does not answer is gone round.
const SILENCE_US: u64 = 1_000_000;
const MOVES_US: u64 = 3_000_000;
const FREEING_US: u64 = 3_000_000;
const NAMES: std::ops::Range<u64> = 0..60;

fn small_names() -> impl Iterator<Item = u64> {
    NAMES.filter(|name| !name.is_multiple_of(5))
}

fn large_names() -> impl Iterator<Item = u64> {
    NAMES.filter(|name| name.is_multiple_of(5))
}

/// The owner dies. The next one hears of the moves from nobody: node 1 was never told, node 3 was and lost its memory,
/// node 4 took chunks and is away. Had node 0 given one away, it would pass for a node that never had it, and the
/// stripe for one in which nothing was acknowledged.
fn a_new_owner_misses_nothing(mut world: World) {
    pass(&mut world, MOVES_US);
    world.crash_gateway(SHORT_US);
    world.mend_all();
    world.drain_node(0, false);
    world.crash_node(3, SHORT_US);
    world.stall_node(4, MOVES_US);
    pass(&mut world, 2 * SHORT_US);
    world.await_serving();
    holds(&mut world, small_names());
    concludes(world);
}

/// Node 1 answers nothing for so long before node 0 is to give its chunks away.
fn a_chunk_stays_after_silence_of(silence_us: u64) {
    for seed in 0..4 {
        let mut world = cluster_of(nodes_of("rs:1+2", 5), seed);
        fill(&mut world, small_names());
        world.cut_requests_to(1, FOR_GOOD_US);
        pass(&mut world, silence_us);
        world.drain_node(0, true);
        a_new_owner_misses_nothing(world);
    }
}

#[test]
fn a_chunk_stays_while_too_few_members_can_be_told_of_its_move() {
    a_chunk_stays_after_silence_of(3 * SILENCE_US);
}

#[test]
fn a_chunk_stays_when_a_member_does_not_confirm_that_it_was_told_of_its_move() {
    a_chunk_stays_after_silence_of(0);
}

/// Some members were told of a move that another one could not be told of. The chunk stays where it is, and is not lost
/// while its node is only away.
#[test]
fn a_move_that_a_member_was_not_told_of_costs_no_spare_chunk() {
    for seed in 0..4 {
        let mut world = cluster_of(nodes_of("rs:4+2", 8), seed);
        fill(&mut world, NAMES);
        world.cut_requests_to(1, FOR_GOOD_US);
        world.drain_node(0, true);
        pass(&mut world, SILENCE_US);
        world.drain_node(0, false);
        pass(&mut world, SILENCE_US);
        world.crash_gateway(SHORT_US);
        world.mend_all();
        world.stall_node(0, MOVES_US);
        pass(&mut world, 2 * SHORT_US);
        world.await_serving();
        let lost = world.all_stats().iter().map(|stats| stats.totals.lost_of_stripe_max).max();
        assert_eq!(lost, Some(0), "{}", world.trace());
        holds(&mut world, NAMES);
        concludes(world);
    }
}

/// Large values are deleted while their pieces move: whoever was to take one frees it.
#[test]
fn pieces_of_values_that_are_deleted_while_they_move_do_not_stay() {
    for seed in 0..4 {
        let slow = SimConfig { repair_bytes_per_s: 100_000, ..nodes_of("rs:4+2", 8) };
        let mut world = cluster_of(slow, seed);
        fill(&mut world, large_names());
        world.drain_node(0, true);
        pass(&mut world, 3_000 * (seed + 1));
        large_names().for_each(|name| delete(&mut world, &format!("key{name}")));
        world.drain_node(0, false);
        pass(&mut world, FREEING_US);
        let counts: Vec<usize> = world.stripe_nodes().iter().map(Vec::len).collect();
        assert!(counts.iter().all(|&count| count == 6), "{counts:?}\n{}", world.trace());
        concludes(world);
    }
}
