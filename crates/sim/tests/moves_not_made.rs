//! Moves that come to nothing: their stripes survive as many losses as before, and the chunk that was to
//! move still counts.

use shorttail_sim::config::SimConfig;
use shorttail_sim::scenario::*;
use shorttail_sim::world::World;

const SHORT_US: u64 = 5_000;
const STALL_US: u64 = 3_000_000;
const LONG_US: u64 = 60_000_000;
/// Keys of large values.
const LARGE_COUNT: u64 = 12;

fn cluster(node_count: u16, repair_bytes_per_s: u64, seed: u64) -> World {
    cluster_of(SimConfig { repair_bytes_per_s, ..nodes_of("rs:4+2", node_count) }, seed)
}

/// Many small values, and a few large ones.
fn names() -> impl Iterator<Item = u64> {
    (0..300u64).filter(|name| !name.is_multiple_of(5) || *name < LARGE_COUNT * 5)
}

/// Node 6 gave all of its chunks away, and takes nothing of those stripes; the owner does not know.
fn one_that_refuses(seed: u64) -> World {
    let mut world = cluster(7, 1 << 30, seed);
    fill(&mut world, names());
    world.drain_node(6, true);
    await_within(&mut world, LONG_US, "drained", |world| world.is_drained(6));
    world.drain_node(6, false);
    world.refuse_all_there_is(6);
    take_over(&mut world, SHORT_US);
    world
}

/// In the middle of moves from node 0, sooner or later, it is away.
fn one_whose_source_is_away(repair_bytes_per_s: u64, seed: u64) -> World {
    let mut world = cluster(9, repair_bytes_per_s, seed);
    fill(&mut world, names());
    world.drain_node(0, true);
    pass(&mut world, 3_000 * seed);
    world.stall_node(0, STALL_US);
    world
}

fn ends_whole(mut world: World) {
    await_within(&mut world, LONG_US, "whole", World::is_whole);
    holds(&mut world, names());
    concludes(world);
}

/// When node 6 has refused a move, node 0 is the member that it always was: its chunk is not lost
/// while it is only away.
#[test]
fn a_refused_move_costs_no_spare_chunk() {
    for seed in 0..4 {
        let mut world = one_that_refuses(seed);
        world.drain_node(0, true);
        pass(&mut world, 1_000_000);
        world.stall_node(0, STALL_US);
        take_over(&mut world, SHORT_US);
        let lost = world.all_stats().iter().map(|stats| stats.totals.lost_of_stripe_max).max();
        assert_eq!(lost, Some(0), "{}", world.trace());
        world.drain_node(0, false);
        ends_whole(world);
    }
}

/// The owner dies in the middle of moves, their source is away, and two other nodes lose their memory: what the members
/// lack may be where it was, and the next owner waits for it.
#[test]
fn a_new_owner_waits_for_the_source_of_a_move() {
    for seed in 0..8 {
        let mut world = one_whose_source_is_away(100_000, seed);
        [1, 2].into_iter().for_each(|node| world.crash_node(node, SHORT_US));
        take_over(&mut world, SHORT_US);
        // Large values answer an error until then.
        pass(&mut world, STALL_US);
        holds(&mut world, names());
        world.drain_node(0, false);
        ends_whole(world);
    }
}

/// As before, but one node only lost its memory: the next owner serves without the source, and repairs. When the source
/// is back its chunks count again, and another node may be lost.
#[test]
fn the_source_of_a_move_that_was_not_made_is_a_member_again() {
    for seed in 0..8 {
        // Repairs take longer than all of this.
        let mut world = one_whose_source_is_away(200, seed);
        world.crash_node(1, SHORT_US);
        take_over(&mut world, SHORT_US);
        pass(&mut world, STALL_US + 500_000);
        world.crash_node(2, SHORT_US);
        pass(&mut world, 100_000);
        holds(&mut world, names());
        take_over(&mut world, SHORT_US);
        holds(&mut world, names());
    }
}

/// A chunk is lost that no node takes: what is in its stripe is stored anew. (Pieces of large values wait for a node.)
#[test]
fn a_packed_stripe_that_cannot_be_repaired_is_stored_anew() {
    for seed in 0..4 {
        let mut world = one_that_refuses(seed);
        world.crash_node(0, FOR_GOOD_US);
        world.remove_node(0);
        let missing = |world: &World| world.all_stats().iter().map(|stats| stats.totals.chunks_missing).sum::<u64>();
        await_within(&mut world, LONG_US, "stored anew", |world| missing(world) <= LARGE_COUNT);
        holds(&mut world, names());
    }
}

/// Sessions break in the middle of moves: some members heard of a new place, and the chunk is where it was. It is not
/// lost while its node is only away.
#[test]
fn a_move_that_breaks_off_costs_no_spare_chunk() {
    for seed in 0..8 {
        let mut world = cluster(8, 100_000, seed);
        fill(&mut world, names());
        world.drain_node(0, true);
        pass(&mut world, 500 + 3_000 * seed);
        (1..8).for_each(|node| world.break_all_of(node));
        world.drain_node(0, false);
        pass(&mut world, 1_000_000);
        world.stall_node(0, STALL_US);
        take_over(&mut world, SHORT_US);
        let lost = world.all_stats().iter().map(|stats| stats.totals.lost_of_stripe_max).max();
        assert_eq!(lost, Some(0), "{}", world.trace());
        ends_whole(world);
    }
}
