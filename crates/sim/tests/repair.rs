//! Lost chunks are rebuilt by nodes: deaths may follow each other as long as repair is done in between.

use shorttail_chaos::{Fault, FaultKind, Slow};
use shorttail_sim::cli::run_seed;
use shorttail_sim::config::{Profile, SimConfig};
use shorttail_sim::model::Action;
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Counts, World};

/// Without repair the third and fourth death would take most stripes below `k` chunks.
#[test]
fn twice_as_many_nodes_die_as_the_code_tolerates() {
    for (code, node_count, victims) in [
        ("rs:4+2", 10, vec![[0, 1], [2, 3]]),
        ("rs:4+2", 12, vec![[9, 4], [1, 7], [11, 0]]),
        ("rs:2+2", 8, vec![[6, 2], [3, 0]]),
        ("lrc:4+2+1", 11, vec![[0, 5], [7, 2]]),
        ("rs:1+2", 7, vec![[0, 1], [2, 3]]),
    ] {
        let mut world = cluster_of(nodes_of(code, node_count), 1);
        fill(&mut world, 0..60);
        for pair in victims {
            kill(&mut world, &pair);
            await_whole(&mut world);
        }
        assert!(world.counts().rebuilds > 0, "{code}: nothing was rebuilt");
        holds(&mut world, 0..60);
        concludes(world);
    }
}

/// What was rebuilt counts for a new owner as well: it finds who holds it.
#[test]
fn a_new_owner_finds_what_was_rebuilt() {
    for seed in 0..4 {
        let mut world = cluster_of(nodes_of("rs:4+2", 10), seed);
        fill(&mut world, 0..60);
        for pair in [[0, 1], [2, 3]] {
            kill(&mut world, &pair);
            await_whole(&mut world);
            take_over(&mut world, 10_000);
        }
        holds(&mut world, 0..60);
        concludes(world);
    }
}

/// Whoever dies in the middle, nothing is lost, and repair comes to its end: `break_us` after it began the node that
/// rebuilds, one that it reads from, or the owner dies.
#[test]
fn deaths_in_the_middle_of_repair() {
    for (seed, break_us) in [0u64, 300, 1_000, 2_000, 4_000, 8_000].into_iter().enumerate() {
        for dies in ["target", "owner", "returning"] {
            // So slow that the death falls into it.
            let slow = SimConfig { repair_bytes_per_s: 2_000_000, ..nodes_of("rs:4+2", 10) };
            let mut world = cluster_of(slow, seed as u64);
            fill(&mut world, 0..60);
            kill(&mut world, &[4]);
            pass(&mut world, break_us);
            match dies {
                // Any node is a target of some stripes and a source of others.
                "target" => kill(&mut world, &[7]),
                "owner" => {
                    take_over(&mut world, 5_000);
                }
                _ => {
                    world.crash_node(7, 3_000);
                    pass(&mut world, 50_000);
                }
            }
            await_whole(&mut world);
            holds(&mut world, 0..60);
            kill(&mut world, &[1, 2]);
            holds(&mut world, 0..60);
            concludes(world);
        }
    }
}

/// A dead node is rebuilt when what it had is on other nodes, not when others are to have it; nor does an owner say so
/// that takes over in between, and knows less.
#[test]
fn no_node_is_rebuilt_while_chunks_are_missing() {
    for (seed, gateway_count, takes_over) in [(0, 1, false), (1, 1, true), (2, 2, true)] {
        let mut slow = SimConfig { repair_bytes_per_s: 1_000, ..nodes_of("rs:4+2", 9) };
        if gateway_count > 1 {
            slow.share(gateway_count);
        }
        let mut world = cluster_of(slow, seed);
        fill(&mut world, 0..240);
        kill(&mut world, &[0]);
        if takes_over {
            pass(&mut world, 700_000 * seed);
            assert!(missing(&world) > 0, "the owner is to die before all is rebuilt");
            take_over(&mut world, 5_000);
        }
        await_within(&mut world, 20 * REPAIR_US, "rebuilt", |world| {
            let is_rebuilt = world.is_rebuilt(0);
            assert!(!is_rebuilt || missing(world) == 0, "{} are missing\n{}", missing(world), world.trace());
            is_rebuilt
        });
        holds(&mut world, 0..240);
        concludes(world);
    }
}

/// Processes differ in what they can do beside their cores; all of it happens.
#[test]
fn chunks_are_rebuilt_and_given_beside_cores_in_every_way() {
    for shares_memory in [false, true] {
        let mut counts = Counts::default();
        for seed in 0..6 {
            let mut world = cluster_of(SimConfig { shares_memory, ..nodes_of("rs:4+2", 9) }, seed);
            fill(&mut world, 0..60);
            kill(&mut world, &[seed as usize, seed as usize + 3]);
            await_whole(&mut world);
            counts.add(&world.counts());
            kill(&mut world, &[seed as usize + 1]);
            holds(&mut world, 0..60);
            concludes(world);
        }
        let Counts { rebuilds, rooms_left, places_told, copies_made, memories_opened, .. } = counts;
        assert!(rooms_left > rebuilds / 3 && rooms_left < rebuilds, "room for {rooms_left} of {rebuilds}");
        assert!(places_told > rebuilds, "{places_told} found for {rebuilds}");
        assert_eq!((copies_made > 0, memories_opened > 0), (!shares_memory, shares_memory), "{counts:?}");
    }
}

/// What is beside a core goes on while that stands still. What was ordered before is carried out, and installed when
/// the core goes on.
#[test]
fn cores_that_stand_still_keep_what_was_rebuilt_beside_them_waiting() {
    for seed in 0..6 {
        let mut world = cluster_of(SimConfig { node_core_count: 2, ..nodes_of("rs:4+2", 9) }, seed);
        fill(&mut world, 0..60);
        kill(&mut world, &[0]);
        await_within(&mut world, REPAIR_US, "under way", |world| world.counts().places_told > 4 * seed);
        (1..4).for_each(|node| world.stall_core(node, seed as usize % 2));
        pass(&mut world, 700_000 * seed);
        (1..4).for_each(|node| world.core_goes_on(node));
        await_whole(&mut world);
        kill(&mut world, &[5, 6]);
        holds(&mut world, 0..60);
        concludes(world);
    }
}

/// Rule R11: keys are overwritten and stripes cleaned while their chunks are rebuilt; no late install brings one back,
/// and all memory returns.
#[test]
fn stripes_are_freed_while_their_chunks_are_rebuilt() {
    for seed in 0..6 {
        let slow = SimConfig { repair_bytes_per_s: 1_000_000, ..nodes_of("rs:4+2", 9) };
        let mut world = cluster_of(slow, seed);
        fill(&mut world, 0..60);
        kill(&mut world, &[seed as usize]);
        for _ in 0..3 {
            fill(&mut world, 0..60);
        }
        await_whole(&mut world);
        holds(&mut world, 0..60);
        concludes(world);
    }
}

/// With no node to spare nothing can be rebuilt, and that is said; a node that comes back empty gets its chunks again.
#[test]
fn without_a_spare_node_repair_waits_for_one() {
    let mut world = cluster_of(nodes_of("rs:4+2", 7), 3);
    fill(&mut world, 0..60);
    kill(&mut world, &[0, 1]);
    pass(&mut world, 3_000_000);
    let stats = world.engine_stats();
    assert!(stats.totals.stripes_stranded > 0 && stats.totals.chunks_missing > 0, "{stats:?}");
    assert!(!world.is_whole());
    world.restart_node(0);
    world.restart_node(1);
    await_whole(&mut world);
    kill(&mut world, &[2, 3]);
    holds(&mut world, 0..60);
    concludes(world);
}

/// A node was given up while reads of it were under way; what it owed was let go in a session that did not know it any
/// more.
#[test]
fn what_a_node_owes_when_it_is_given_up_fails_at_once() {
    let report = run_seed(Profile::Full, 200_197);
    assert!(report.failure.is_none(), "{}", report.explain(60));
}

/// A node falls silent while stripes are sealed to be handed over. It does not hear of that, and the next owner takes
/// the others' word: what the node has of these stripes is not what they hold.
#[test]
fn what_a_node_missed_of_a_hand_over_is_made_up_for() {
    for (step, node_count) in (0..10).flat_map(|step| [(step, 3), (step, 5)]) {
        let mut config = SimConfig { partition_count: 4, client_count: 2, ..nodes_of("rs:2+1", node_count) };
        config.share(2);
        let mut world = cluster_of(config, step);
        fill(&mut world, 0..80);
        let owner = world.owner_of("key0").expect("everything is dealt");
        world.prepare_hand_over(owner, 1 - owner);
        pass(&mut world, 500_000);
        world.go_on_with_hand_over();
        pass(&mut world, 150 * step);
        let silent = step as usize % usize::from(node_count);
        world.cut_gateway_from(owner, silent, 3_000_000);
        pass(&mut world, 4_000_000);
        await_whole(&mut world);
        kill(&mut world, &[(silent + 1) % usize::from(node_count)]);
        holds(&mut world, 0..80);
        concludes(world);
    }
}

/// Touches one large value without a pause, until this holds.
fn touch_until(world: &mut World, what: &str, holds: impl Fn(&World) -> bool) {
    let until_us = world.now_us() + 8_000_000;
    let mut touches = [None; 4];
    while !holds(world) {
        assert!(world.now_us() < until_us, "never {what}: {:?}\n{}", world.all_stats(), world.trace());
        for touch in &mut touches {
            if touch.is_none_or(|touch| world.outcome(touch).is_some()) {
                *touch = Some(world.request(0, "large", Action::Touch));
            }
            pass(world, 2_000);
        }
    }
}

/// A write of its key is always under way, which keeps its pieces as they are.
#[test]
fn a_value_that_is_touched_all_the_time_is_repaired_and_moved() {
    for seed in 0..3 {
        let mut world = cluster_of(nodes_of("rs:4+2", 8), seed);
        let large = value(0, STRIPED_BYTES);
        set(&mut world, "large", &large);
        pass(&mut world, 20_000);
        let members = world.striped_seen().pop_first().expect("its pieces").1.members;
        // A key's history has room for some thousand writes.
        let kind = FaultKind::Slow(Slow { delay_us: 20_000, ..Slow::default() });
        (0..8).for_each(|node| world.apply_fault(node, Fault { kind, for_us: None }));
        world.crash_node(usize::from(members[0].0), FOR_GOOD_US);
        let noticed_us = world.now_us() + NOTICED_US;
        touch_until(&mut world, "whole", |world| world.now_us() > noticed_us && world.is_whole());
        let drained = usize::from(members[1].0);
        world.drain_node(drained, true);
        touch_until(&mut world, "drained", |world| world.is_drained(drained));
        assert_eq!(get(&mut world, "large"), Some(large));
    }
}

/// Records that fill a chunk, to within a few bytes: owners to come write the whole version beside them.
#[test]
fn records_that_fill_a_chunk_are_moved_by_the_next_owner() {
    let mut world = cluster_of(nodes_of("rs:4+2", 8), 1);
    let chunk_bytes = world.config().chunk_bytes;
    let lengths: Vec<usize> = (chunk_bytes - 40..=chunk_bytes).collect();
    let value_of = |length: usize| value(length as u64, length);
    // Open stripes are what the next owner moves.
    for some in lengths.chunks(8) {
        some.iter().for_each(|&length| set(&mut world, &format!("key{length}"), &value_of(length)));
        take_over(&mut world, 5_000);
        await_whole(&mut world);
    }
    for &length in &lengths {
        assert_eq!(get(&mut world, &format!("key{length}")), Some(value_of(length)), "{length} B");
    }
    concludes(world);
}
