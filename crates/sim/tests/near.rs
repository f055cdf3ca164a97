//! Near reads: a gateway reads sealed stripes from the nodes' memory without asking them. What it finds there is right
//! or not believed: chunks are moved, freed, overwritten, damaged, and their nodes die meanwhile.
//!
//! RS(4,2) on eight nodes.

use shorttail_chaos::{Class, Fault, FaultKind, Slow};
use shorttail_monitor::{Class as Watched, Verdict};
use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer};
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Outcome, World};

const KEYS: u64 = 60;

fn near() -> SimConfig {
    SimConfig { shares_memory: true, ..SimConfig::scripted() }
}

fn near_reads(world: &World) -> u64 {
    world.engine_stats().totals.near_reads_total
}

/// Reads all keys, until every chunk was read once and its place is known.
fn learn_places(world: &mut World) {
    for _ in 0..3 {
        holds(world, 0..KEYS);
        pass(world, 10_000);
    }
}

#[test]
fn a_record_whose_chunk_was_read_before_needs_no_node() {
    for node_core_count in [1, 3] {
        let mut world = cluster_of(SimConfig { node_core_count, ..near() }, 1);
        fill(&mut world, 0..KEYS);
        learn_places(&mut world);
        let before = near_reads(&world);
        assert!(before > 0, "some stripes are sealed");
        // Frozen nodes answer nothing, and nobody has noticed yet.
        (0..8).for_each(|node| world.stall_node(node, 1_000_000));
        let small = (0..KEYS).filter(|name| name % 5 != 0);
        let answered = small.filter(|&name| is_answered_at_once(&mut world, name)).count();
        assert!(answered > 10, "{answered} small values of sealed stripes are read all the same");
    }
}

fn is_answered_at_once(world: &mut World, name: u64) -> bool {
    // Answers to a client leave in the order of its requests.
    let op = world.request(name as u32, &format!("key{name}"), Action::Get);
    pass(world, 500);
    let outcome = world.outcome(op);
    let is_right = |found: &Answer| *found == Answer::Found(Some(value_of(name, 0)));
    assert!(outcome.is_none_or(|it| matches!(it, Outcome::Answered(found) if is_right(found))), "{outcome:?}");
    outcome.is_some()
}

/// What was on dead nodes is decoded from what is near, from its first reading on.
#[test]
fn a_record_of_a_dead_node_needs_no_node() {
    for seed in 0..4 {
        let mut world = cluster_of(SimConfig { node_memory_bytes: 4 << 20, repair_bytes_per_s: 1, ..near() }, seed);
        fill(&mut world, small(0..400));
        let near_of_round = |world: &mut World| {
            let before = world.engine_stats();
            holds(world, small(0..400));
            let after = world.engine_stats();
            let decoded = after.totals.degraded_reads_total - before.totals.degraded_reads_total;
            (after.totals.near_reads_total - before.totals.near_reads_total, decoded)
        };
        let (healthy, none) = near_of_round(&mut world);
        assert!(healthy > 100 && none == 0, "most are in sealed stripes");
        kill(&mut world, &[seed as usize, seed as usize + 3]);
        let (near, decoded) = near_of_round(&mut world);
        assert!(near > 100 && decoded > 10, "{near} near, {decoded} of them decoded");
        // What was in open stripes is in others now, some of which were sealed since.
        let (again, still) = near_of_round(&mut world);
        let moved = small(0..400).count() as u64 - healthy;
        assert!(still == decoded && (near..near + moved).contains(&again), "{again} near, {still} of them decoded");
    }
}

/// What was rebuilt is known to lie where it does, before anybody reads it.
#[test]
fn a_record_of_a_rebuilt_chunk_needs_no_node() {
    for node_core_count in [1, 3] {
        let config = SimConfig { node_core_count, node_memory_bytes: 4 << 20, ..near() };
        let mut world = cluster_of(config, 2);
        fill(&mut world, small(0..400));
        let near_of_round = |world: &mut World| {
            let before = near_reads(world);
            holds(world, small(0..400));
            near_reads(world) - before
        };
        let in_sealed = near_of_round(&mut world);
        crash_for_good(&mut world, &[1, 4]);
        await_whole(&mut world);
        assert!(near_of_round(&mut world) >= in_sealed && in_sealed > 100);
    }
}

/// Keys are overwritten and their stripes cleaned: memory that is known under one stripe holds another.
#[test]
fn what_lies_in_the_place_of_a_freed_chunk_is_not_believed() {
    for seed in 0..6 {
        let mut world = cluster_of(SimConfig { node_memory_bytes: 512 << 10, ..near() }, seed);
        fill(&mut world, 0..KEYS);
        for round in 1..12 {
            for name in 0..KEYS {
                match (name + round) % 3 {
                    0 => holds_round(&mut world, [name], round - 1),
                    _ => fill_round(&mut world, [name], round - 1),
                }
                fill_round(&mut world, [name], round);
            }
            holds_round(&mut world, 0..KEYS, round);
        }
        assert!(near_reads(&world) > 0);
        concludes(world);
    }
}

/// Cleaning reads whole chunks, past the nodes too.
#[test]
fn cleaning_needs_no_node_to_look_at_a_chunk() {
    for seed in 0..3 {
        let mut world = cluster_of(near(), seed);
        overwrite_until_cleaned(&mut world);
        let stats = world.engine_stats();
        assert!(stats.near_chunks_total > 20, "{} chunks", stats.near_chunks_total);
        concludes(world);
    }
}

/// What lies where a chunk was is neither moved nor taken for damage.
#[test]
fn cleaning_asks_the_node_for_what_does_not_prove_itself() {
    for seed in 0..3 {
        let near_shift_bytes = (near().chunk_bytes as u64 + 256).next_multiple_of(1024);
        let mut world = cluster_of(SimConfig { near_shift_bytes, ..near() }, seed);
        overwrite_until_cleaned(&mut world);
        assert_eq!(world.engine_stats().near_chunks_total, 0);
        assert_eq!(world.engine_stats().totals.bytes_rebuilt_total, 0, "nothing was damaged");
        concludes(world);
    }
}

/// Small values, so often that most of what was written first must have been cleaned.
fn overwrite_until_cleaned(world: &mut World) {
    for round in 0..12 {
        fill_round(world, small(0..KEYS), round);
        holds_round(world, small(0..KEYS), round);
    }
}

/// Everything lies elsewhere, and where it was lie other stripes' records of the same keys, at the same offsets.
#[test]
fn a_record_of_the_key_in_another_stripe_is_not_believed() {
    for chunks in 1..8 {
        let chunk_bytes = near().chunk_bytes as u64;
        let near_shift_bytes = chunks * (chunk_bytes + 256).next_multiple_of(1024);
        let mut world = cluster_of(SimConfig { near_shift_bytes, partition_count: 1, ..near() }, chunks);
        for round in 0..6 {
            // One after the other, so that each round lies as the one before.
            fill_round(&mut world, (0..KEYS).filter(|name| name % 5 != 0), round);
        }
        for _ in 0..3 {
            holds_round(&mut world, (0..KEYS).filter(|name| name % 5 != 0), 5);
        }
        assert_eq!(near_reads(&world), 0);
    }
}

/// A node turns slow in reading, which large values meet, and gets well. It is seen to be, although what is read by
/// then could all be read past it.
#[test]
fn a_node_that_was_slow_in_reading_is_used_again() {
    for seed in 0..3 {
        let config = SimConfig { node_memory_bytes: 4 << 20, audit_events: u64::MAX, ..near() };
        let mut world = cluster_of(config, seed);
        fill(&mut world, 0..300);
        (0..3).for_each(|_| holds(&mut world, small(0..300)));
        let slow = Slow { delay_us: 50_000, only: Some(Class::Read), ..Slow::default() };
        world.apply_fault(3, Fault { kind: FaultKind::Slow(slow), for_us: None });
        let large: Vec<u64> = (0..300).filter(|name| name % 5 == 0).collect();
        read_until(&mut world, &large, |world| read_verdict(world) == Some(true));
        world.clear_fault(3);
        let small: Vec<u64> = small(0..300).collect();
        read_until(&mut world, &small, |world| read_verdict(world) == Some(false));
        let before = near_reads(&world);
        read_until(&mut world, &small, |world| near_reads(world) > before + 100);
    }
}

fn read_verdict(world: &World) -> Option<bool> {
    let of_node = |it: &&(u64, Verdict)| usize::from(it.1.node.0) == 3 && it.1.class == Watched::Read;
    world.verdicts().iter().rfind(of_node).map(|(_, it)| it.fail_slow)
}

fn small(names: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    names.filter(|name| name % 5 != 0)
}

/// These are read, and nothing else, for at most ten seconds.
fn read_until(world: &mut World, names: &[u64], is_over: impl Fn(&World) -> bool) {
    let until_us = world.now_us() + 10_000_000;
    while !is_over(world) {
        assert!(world.now_us() < until_us, "{:?}\n{}", world.verdicts(), world.trace());
        holds(world, names.iter().copied());
    }
}

/// Bits turn over: what is read near does not prove itself, the node is asked, and it is mended.
#[test]
fn what_decayed_is_not_served() {
    for seed in 0..6 {
        let mut world = cluster_of(near(), seed);
        fill(&mut world, 0..KEYS);
        learn_places(&mut world);
        assert!(near_reads(&world) > 0);
        assert!(world.flip_bits_by(seed as usize, 400, seed + 3) > 0, "something is sealed");
        holds(&mut world, 0..KEYS);
        await_within(&mut world, REPAIR_US, "mended", |world| world.damaged_chunks() == 0 && world.is_whole());
        holds(&mut world, 0..KEYS);
        concludes(world);
    }
}

/// Nodes die, and others come in their place; chunks are rebuilt elsewhere. Places of the dead are worth nothing.
#[test]
fn places_end_with_their_session() {
    for seed in 0..6 {
        let mut world = cluster_of(near(), seed);
        fill(&mut world, 0..KEYS);
        learn_places(&mut world);
        for node in [seed as usize, (seed as usize + 3) % 8] {
            world.crash_node(node, 20_000);
            holds(&mut world, 0..KEYS);
            pass(&mut world, 200_000);
            await_whole(&mut world);
            learn_places(&mut world);
        }
        fill_round(&mut world, 0..KEYS, 1);
        holds_round(&mut world, 0..KEYS, 1);
        concludes(world);
    }
}
