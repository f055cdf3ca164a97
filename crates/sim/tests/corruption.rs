//! Memory that decays: bits of nodes turn over while clients are at work. Nothing wrong is ever served, the scrubbers
//! find what no client reads, and all of it is mended in place.
//!
//! RS(4,2).

use shorttail_chaos::{Corrupt, Fault, FaultKind};
use shorttail_sim::config::SimConfig;
use shorttail_sim::model::Action;
use shorttail_sim::scenario::*;
use shorttail_sim::world::World;

/// Two passes of a scrubber, and the repair.
const MENDED_US: u64 = 40_000_000;
const KEYS: u64 = 60;

fn await_mended(world: &mut World) {
    let is_mended =
        |world: &World| world.counts().corruptions_repaired > 0 && world.damaged_chunks() == 0 && world.is_whole();
    await_within(world, MENDED_US, "mended", is_mended);
}

fn scrubbing() -> SimConfig {
    SimConfig { scrub_bytes_per_s: 50_000_000, ..SimConfig::scripted() }
}

/// Nobody reads; only the scrubber can find it. Afterwards two other nodes die for good: what was mended is needed.
#[test]
fn what_nobody_reads_is_found_and_mended() {
    for seed in 0..6 {
        let mut world = cluster_of(scrubbing(), seed);
        fill(&mut world, 0..KEYS);
        for node in [1, 6] {
            assert!(world.flip_bits_by(node, 12, seed + 9) > 0, "something is sealed");
        }
        await_mended(&mut world);
        for node in [2, 3] {
            world.crash_node(node, FOR_GOOD_US);
        }
        holds(&mut world, 0..KEYS);
        concludes(world);
    }
}

/// Every bit of a sealed chunk's header, one chunk a bit: whatever the chunk cannot tell of itself any more, it is
/// found, mended and counted, and stands in for two others afterwards.
#[test]
fn every_bit_of_a_header_that_turns_over_is_mended() {
    const BITS: usize = 256 * 8;
    let mut world = cluster_of(scrubbing(), 5);
    fill(&mut world, 0..KEYS);
    pass(&mut world, 100_000);
    let mut flipped = 0;
    for round in 0.. {
        let count = world.flip_header_bits(round % 8, flipped);
        assert!(count > 0, "something is sealed");
        flipped += count;
        await_within(&mut world, MENDED_US, "all that was flipped is mended", |world| {
            let counts = world.counts();
            let is_mended = world.damaged_chunks() == 0 && world.is_whole();
            is_mended && (counts.corruptions_found, counts.corruptions_repaired) == (flipped as u64, flipped as u64)
        });
        if flipped >= BITS {
            break;
        }
    }
    kill(&mut world, &[2, 3]);
    holds(&mut world, 0..KEYS);
    concludes(world);
}

/// Two nodes at once, so that what is left of a stripe is just enough to mend one chunk with.
#[test]
fn headers_that_decay_on_as_many_nodes_as_may_be_lost_are_mended() {
    for first in (64..72).chain([32, 160, 290, 2000]) {
        let mut world = cluster_of(SimConfig { node_count: 6, ..scrubbing() }, first as u64);
        fill(&mut world, 0..KEYS);
        pass(&mut world, 100_000);
        let flipped: usize = [1, 4].map(|node| world.flip_header_bits(node, first)).iter().sum();
        await_within(&mut world, MENDED_US, "mended", |world| {
            world.counts().corruptions_repaired == flipped as u64 && world.damaged_chunks() == 0 && world.is_whole()
        });
        kill(&mut world, &[0, 5]);
        holds(&mut world, 0..KEYS);
        concludes(world);
    }
}

/// While keys are read, overwritten and their stripes cleaned.
#[test]
fn bits_turn_over_under_load_and_nothing_wrong_is_served() {
    for seed in 0..6 {
        let mut world = cluster_of(scrubbing(), seed);
        fill(&mut world, 0..KEYS);
        for round in 1..6 {
            // Of one node: a read decodes a damaged range from one combination of the others only.
            let node = (seed + 3 * round) as usize % 8;
            world.flip_bits_by(node, 4, seed * 100 + round);
            for name in 0..KEYS {
                match name % 3 {
                    0 => fill_round(&mut world, [name], round),
                    _ => holds(&mut world, [name]),
                }
            }
            // Until every chunk was looked at again.
            pass(&mut world, 11_000_000);
            await_mended(&mut world);
        }
        assert!(world.counts().corruptions_repaired > 3, "{:?}", world.counts());
        concludes(world);
    }
}

/// Without a scrubber a read finds it, and orders the repair too.
#[test]
fn a_read_that_finds_damage_has_it_mended() {
    let mut world = cluster_of(SimConfig::scripted(), 3);
    fill(&mut world, 0..KEYS);
    world.flip_bits_by(4, 400, 8);
    holds(&mut world, 0..KEYS);
    await_mended(&mut world);
    holds(&mut world, 0..KEYS);
    concludes(world);
}

/// Two chunks of a stripe are damaged where the same bytes are decoded, and nobody knows yet: whoever decodes with one
/// of them finds nonsense, and must find the set of sources that is right.
#[test]
fn what_is_decoded_with_a_damaged_source_is_decoded_with_others() {
    for seed in 0..8 {
        let mut world = cluster_of(SimConfig { node_count: 6, ..SimConfig::scripted() }, seed);
        fill(&mut world, 0..KEYS);
        // One after the other is gone, so that every chunk is decoded from what holds damaged ones.
        let damaged = seed as usize % 6;
        assert!(world.flip_bits_by(damaged, 600, seed) > 0, "something is sealed");
        let dead = (damaged + 1 + seed as usize / 6) % 6;
        world.crash_node(dead, FOR_GOOD_US);
        holds(&mut world, 0..KEYS);
        assert!(world.engine_stats().totals.degraded_reads_total > 0);
    }
}

/// A parity decays while its stripe is open, when nothing checks it. It is noticed at the seal: afterwards two other
/// nodes may die for good, and what is left is enough.
#[test]
fn a_parity_that_decays_before_its_seal_is_not_sealed() {
    let mut damaged = 0;
    for seed in 0..6 {
        // The simulator's own look would find it first.
        let mut world = cluster_of(SimConfig { node_count: 6, audit_events: u64::MAX, ..SimConfig::scripted() }, seed);
        fill(&mut world, [1]);
        pass(&mut world, 50_000);
        let node = world.holder_of_open(true).expect("a stripe is open");
        damaged += world.flip_open_parities(node);
        // Enough to fill the stripe.
        fill(&mut world, 1..KEYS);
        pass(&mut world, 500_000);
        for dead in [(node + 1) % 6, (node + 3) % 6] {
            world.crash_node(dead, FOR_GOOD_US);
        }
        holds(&mut world, 1..KEYS);
    }
    assert!(damaged >= 6, "{damaged}");
}

/// With no more nodes than a stripe needs there is no other place for a chunk.
#[test]
fn a_chunk_is_mended_where_it_is() {
    let mut world = cluster_of(SimConfig { node_count: 6, ..scrubbing() }, 1);
    fill(&mut world, 0..KEYS);
    assert!(world.flip_bits_by(5, 30, 2) > 0);
    await_mended(&mut world);
    concludes(world);
}

/// The owner dies with the damage unmended: the next one hears of it.
#[test]
fn a_new_owner_mends_what_it_inherits() {
    let mut world = cluster_of(scrubbing(), 2);
    fill(&mut world, 0..KEYS);
    assert!(world.flip_bits_by(0, 30, 4) > 0);
    take_over(&mut world, 10_000);
    await_mended(&mut world);
    holds(&mut world, 0..KEYS);
    concludes(world);
}

/// The heads of all chunks of a running node decay, and the owner dies before anybody looks at them. The next one does
/// not take that node for one that was never given them: what it was to read there is decoded, and all of it is mended.
#[test]
fn what_a_running_node_cannot_tell_of_is_not_taken_for_never_given() {
    for seed in 0..6 {
        let mut world = cluster_of(SimConfig::scripted(), seed);
        fill(&mut world, 0..KEYS);
        fill_round(&mut world, 0..KEYS, 1);
        pass(&mut world, 100_000);
        assert!(world.tear_descriptions(seed as usize, 1000) > 0, "something is sealed");
        take_over(&mut world, 10_000);
        holds_round(&mut world, 0..KEYS, 1);
        await_mended(&mut world);
        kill(&mut world, &[6, 7]);
        holds_round(&mut world, 0..KEYS, 1);
        concludes(world);
    }
}

/// A piece of an object that was never stored, on one node of all, which cannot tell what it is: whoever owns its
/// partition by then has heard of no such stripe, and frees it. With more of them it would wait for a memory that
/// nobody has.
#[test]
fn what_no_node_can_tell_of_and_no_owner_knows_is_freed() {
    for seed in 0..6 {
        let nodes = 0..6;
        let mut world = cluster_of(SimConfig { node_count: 6, ..SimConfig::scripted() }, seed);
        fill(&mut world, 0..6);
        let held = world.chunk_count();
        let node = seed as usize;
        nodes.filter(|&other| other != node).for_each(|other| world.cut_requests_to(other, 60_000));
        world.request(0, "never", Action::Set(value(7, STRIPED_BYTES)));
        pass(&mut world, 5_000);
        world.crash_gateway(100_000);
        pass(&mut world, 50_000);
        assert!(world.chunk_count() > held && world.tear_descriptions(node, 1000) > 0, "a piece is there");
        assert_ne!(world.damaged_text(), "");
        pass(&mut world, 100_000);
        world.await_serving();
        await_within(&mut world, NOTICED_US, "freed", |world| world.chunk_count() <= held);
        assert_eq!(world.damaged_text(), "");
        holds(&mut world, 0..6);
        concludes(world);
    }
}

/// A node that reads its memory wrong now and then is emptied: nothing but the chunk's own checksum tells of a parity
/// that is copied from there. All of it gets away in the end, and is what it was.
#[test]
fn what_moves_from_a_node_that_reads_its_memory_wrong_is_what_it_was() {
    for seed in 0..4 {
        let mut world = cluster_of(scrubbing(), seed);
        fill(&mut world, 0..KEYS);
        let half = FaultKind::Corrupt(Corrupt { share_ppm: 500_000 });
        world.apply_fault(3, Fault { kind: half, for_us: None });
        world.drain_node(3, true);
        await_within(&mut world, MENDED_US, "emptied", |world| world.is_drained(3));
        kill(&mut world, &[1, 6]);
        holds(&mut world, 0..KEYS);
        concludes(world);
    }
}
