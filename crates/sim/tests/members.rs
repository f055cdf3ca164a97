//! Nodes join, are emptied and taken out while everything is served: what must move moves, and nothing else.

use shorttail_placement::Placement;
use shorttail_sim::cli::run_seed;
use shorttail_sim::config::{Profile, SimConfig};
use shorttail_sim::model::{Action, Answer};
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Outcome, World};

/// How long who takes over waits for nodes that are away (see `gather_us` of the world's gateways).
const GATHER_US: u64 = 500_000;
/// Some thousand chunks move in far less, with the looks between.
const MOVES_US: u64 = 60_000_000;

fn config(code: &str, node_count: u16, late_node_count: u16) -> SimConfig {
    SimConfig { late_node_count, ..nodes_of(code, node_count) }
}

fn await_that(world: &mut World, what: &str, holds: impl FnMut(&World) -> bool) {
    await_within(world, MOVES_US, what, holds);
}

/// How far the node that is furthest from the mean is off, in percent of the mean.
fn unevenness(world: &World) -> u64 {
    let loads = world.loads();
    let mean = loads.iter().sum::<u64>() / loads.len() as u64;
    loads.iter().map(|load| load.abs_diff(mean) * 100 / mean).max().expect("nodes")
}

/// Nothing moves any more, and for long.
fn rests(world: &mut World) {
    let mut moved = world.counts().rebuilds;
    loop {
        pass(world, 15_000_000);
        if world.counts().rebuilds == moved {
            return;
        }
        moved = world.counts().rebuilds;
    }
}

#[test]
fn two_nodes_join_and_what_must_move_moves() {
    for (code, before, gateway_count, seed) in
        [("rs:4+2", 8, 1, 1), ("rs:4+2", 8, 3, 2), ("lrc:4+2+1", 9, 1, 3), ("rs:1+2", 5, 2, 4)]
    {
        let mut config = SimConfig { partition_count: 4, ..config(code, before + 2, 2) };
        if gateway_count > 1 {
            config.share(gateway_count);
        }
        let mut world = cluster_of(config, seed);
        fill(&mut world, 0..600);
        let chunks = world.chunk_count();
        (before..before + 2).for_each(|node| world.join_node(usize::from(node)));
        await_that(&mut world, "level", |world| unevenness(world) < 8);
        rests(&mut world);
        assert!(unevenness(&world) < 10, "{code}: {:?}", world.loads());
        // All nodes alike: the new ones' share must move.
        let least = chunks * 2 / u64::from(before + 2);
        let moved = world.counts().rebuilds;
        assert!(
            moved <= least * 5 / 4 && moved > least / 2,
            "{code}: {moved} chunks moved, {least} of {chunks} had to"
        );
        assert!(world.is_whole());
        holds(&mut world, 0..600);
        kill(&mut world, &[0, usize::from(before)]);
        holds(&mut world, 0..600);
        concludes(world);
    }
}

/// A few keys written over and over: what open stripes take is here now and there then, and nobody joined. With some
/// thirty chunks on each node that may look like too much of a difference, but seldom.
#[test]
fn writes_alone_hardly_ever_move_anything() {
    let mut moved = Vec::new();
    for seed in 1..=12 {
        let mut world = cluster_of(SimConfig { partition_count: 4, ..config("rs:4+2", 9, 0) }, seed);
        for round in 0..60 {
            fill(&mut world, 0..20 + 10 * (round % 7));
            pass(&mut world, 400_000);
        }
        moved.extend((world.counts().rebuilds > 0).then_some(seed));
        concludes(world);
    }
    assert!(moved.len() <= 3, "seeds {moved:?}");
}

/// Every read is answered while chunks move and two nodes die in the middle of it.
#[test]
fn reads_are_answered_while_chunks_move_and_nodes_die() {
    for seed in 1..=30 {
        let mut world = cluster_of(config("rs:4+2", 8, 0), seed);
        fill(&mut world, 0..150);
        world.drain_node(3, true);
        await_that(&mut world, "moving", |world| world.counts().rebuilds > seed % 8);
        for round in 0..4 {
            let ops: Vec<_> =
                (0..150).map(|name| (name, world.request(0, &format!("key{name}"), Action::Get))).collect();
            pass(&mut world, 300);
            if round < 2 {
                world.crash_node(round, FOR_GOOD_US);
            }
            for (name, op) in ops {
                let expected = Outcome::Answered(Answer::Found(Some(value_of(name, 0))));
                assert_eq!(world.await_op(op), expected, "seed {seed}: get of key {name}\n{}", world.trace());
            }
        }
    }
}

#[test]
fn a_drained_node_is_stopped_without_any_repair() {
    for (code, node_count, gateway_count, seed) in
        [("rs:4+2", 8, 1, 1), ("rs:4+2", 7, 2, 2), ("lrc:4+2+1", 9, 1, 3), ("rs:1+2", 5, 2, 4)]
    {
        let mut config = SimConfig { partition_count: 4, ..config(code, node_count, 0) };
        if gateway_count > 1 {
            config.share(gateway_count);
        }
        let mut world = cluster_of(config, seed);
        fill(&mut world, 0..200);
        world.drain_node(3, true);
        fill(&mut world, 150..200);
        holds(&mut world, 0..200);
        await_that(&mut world, "drained", |world| world.is_drained(3));
        fill(&mut world, 190..200);
        assert!(world.is_drained(3), "{code}: nothing new goes there");
        // The others may be uneven now.
        rests(&mut world);
        let moved = world.counts().rebuilds;
        world.remove_node(3);
        pass(&mut world, 5_000_000);
        holds(&mut world, 0..200);
        let repaired: u64 =
            world.all_stats().iter().map(|it| it.totals.chunks_rebuilt_total + it.totals.chunks_missing).sum();
        assert_eq!(repaired, 0, "{code}: nothing is to be repaired");
        assert_eq!(world.counts().rebuilds, moved, "{code}: nor moves anything on");
        assert!(world.is_whole());
        concludes(world);
    }
}

/// What leaves one of two nodes that drain does not go to the other one: each chunk moves once.
#[test]
fn two_nodes_drain_together() {
    let mut world = cluster_of(config("rs:4+2", 9, 0), 1);
    fill(&mut world, 0..200);
    let on_them: usize = world.stripe_nodes().iter().flatten().filter(|&&node| node == 2 || node == 5).count();
    world.drain_node(2, true);
    world.drain_node(5, true);
    await_that(&mut world, "drained", |world| world.is_drained(2) && world.is_drained(5));
    let moved = world.counts().rebuilds;
    assert!(moved > 0 && moved <= on_them as u64, "{moved} chunks moved, {on_them} had to");
    holds(&mut world, 0..200);
    concludes(world);
}

/// It may come back, so it is not given up.
#[test]
fn a_node_is_drained_beside_one_that_drains_and_is_away() {
    for (seed, away) in [(1, 2), (2, 5), (3, 8)] {
        let mut world = cluster_of(config("rs:4+2", 9, 0), seed);
        fill(&mut world, 0..200);
        world.cut_gateway_from(0, away, FOR_GOOD_US);
        pass(&mut world, 1_000_000);
        world.drain_node(away, true);
        world.drain_node(3, true);
        await_that(&mut world, "drained", |world| world.is_drained(3));
        holds(&mut world, 0..200);
    }
}

/// Whoever dies in the middle, nothing is lost and the node becomes empty: the one that drains, one
/// that takes, the owner.
#[test]
fn deaths_in_the_middle_of_a_drain() {
    for (seed, break_us) in [0u64, 500, 3_000, 10_000, 25_000, 60_000].into_iter().enumerate() {
        for dies in ["holder", "target", "owner", "returning", "owner and holder"] {
            // So slow that the death falls into it.
            let slow = SimConfig { repair_bytes_per_s: 300_000, ..config("rs:4+2", 10, 0) };
            let mut world = cluster_of(slow, seed as u64);
            fill(&mut world, 0..100);
            world.drain_node(4, true);
            pass(&mut world, break_us);
            match dies {
                "holder" => kill(&mut world, &[4]),
                "target" => kill(&mut world, &[7]),
                "returning" => world.crash_node(7, 3_000),
                _ => {
                    if dies == "owner and holder" {
                        kill(&mut world, &[4]);
                    }
                    take_over(&mut world, 5_000);
                }
            }
            await_that(&mut world, dies, |world| world.is_whole() && (world.is_drained(4) || dies.ends_with("holder")));
            holds(&mut world, 0..100);
            world.remove_node(4);
            kill(&mut world, &[1, 2]);
            holds(&mut world, 0..100);
            concludes(world);
        }
    }
}

/// In the middle of its move a chunk is in two places or about to be: a new owner counts on either, and can lose as
/// many nodes as the code tolerates.
#[test]
fn a_new_owner_with_two_nodes_away_in_the_middle_of_moves() {
    for seed in 0..8 {
        let slow = SimConfig { repair_bytes_per_s: 200_000, ..config("rs:4+2", 9, 0) };
        let mut world = cluster_of(slow, seed);
        fill(&mut world, 0..100);
        world.drain_node(0, true);
        pass(&mut world, 4_000 * seed);
        // The chunks that node 0 has not given away yet are needed.
        kill(&mut world, &[1 + seed as usize % 4, 5]);
        take_over(&mut world, 5_000);
        holds(&mut world, 0..100);
        concludes(world);
    }
}

/// Rule R11: keys are overwritten and stripes cleaned while their chunks move, owners come and go; nothing returns, and
/// all memory does.
#[test]
fn stripes_are_freed_while_their_chunks_move() {
    for seed in 0..6 {
        let slow = SimConfig { repair_bytes_per_s: 300_000, ..config("rs:4+2", 9, 0) };
        let mut world = cluster_of(slow, seed);
        fill(&mut world, 0..60);
        for round in 0..4 {
            world.drain_node(seed as usize, round % 2 == 0);
            fill(&mut world, 0..60);
            world.break_all_of((seed as usize + round) % 9);
        }
        world.drain_node(seed as usize, true);
        await_that(&mut world, "drained", |world| world.is_drained(seed as usize));
        holds(&mut world, 0..60);
        concludes(world);
    }
}

/// More nodes than the code tolerates are emptied and leave: nobody who takes over waits for them.
#[test]
fn take_overs_after_many_nodes_left() {
    let mut world = cluster_of(config("rs:4+2", 10, 0), 5);
    fill(&mut world, 0..100);
    for node in [0, 4, 9] {
        world.drain_node(node, true);
        await_that(&mut world, "drained", |world| world.is_drained(node));
        world.remove_node(node);
        // The one that takes over may have begun before the node left.
        world.crash_gateway(5_000);
        pass(&mut world, 10_000);
        let before_us = world.now_us();
        world.await_serving();
        assert!(world.now_us() - before_us < GATHER_US, "nobody is away, and somebody was waited for");
        holds(&mut world, 0..100);
    }
    world.crash_gateway(5_000);
    pass(&mut world, 5_500);
    world.drain_node(1, true);
    world.await_serving();
    holds(&mut world, 0..100);
    concludes(world);
}

/// Two drained nodes are to leave before their owner hears that the first is gone, and it dies: the one that takes over
/// waits for all but one of those that the owner was proven by.
#[test]
fn no_more_nodes_leave_at_once_than_the_next_owner_can_do_without() {
    for seed in 0..8 {
        let mut config = SimConfig { partition_count: 4, ..config("rs:2+1", 6, 0) };
        config.share(2);
        let mut world = cluster_of(config, seed);
        fill(&mut world, 0..40);
        for node in [0, 5] {
            world.drain_node(node, true);
            await_that(&mut world, "drained", |world| world.may_leave(node));
        }
        world.remove_node(0);
        world.cut_coordinator(0, 50_000);
        await_that(&mut world, "drained still", |world| world.is_drained(5));
        if world.may_leave(5) {
            world.remove_node(5);
        }
        take_over(&mut world, 300_000);
        await_that(&mut world, "confirmed", |world| world.may_leave(5));
        world.remove_node(5);
        holds(&mut world, 0..40);
        concludes(world);
    }
}

/// Each stripe has all its chunks, and no node holds another one.
fn nothing_lies_about(world: &mut World, what: u64) {
    let counts: Vec<usize> = world.stripe_nodes().iter().map(Vec::len).collect();
    assert!(counts.iter().all(|&count| count == 6), "{what}: {counts:?}\n{}", world.trace());
}

/// One of two sessions with the node that takes a chunk ends: it carries out what it was told with the other one, and
/// nobody counts on that. All of it is freed.
#[test]
fn a_lone_session_breaks_while_a_chunk_moves() {
    for seed in 0..30 {
        let slow = SimConfig { repair_bytes_per_s: 200_000, node_core_count: 2, ..config("rs:4+2", 8, 0) };
        let mut world = cluster_of(slow, seed);
        fill(&mut world, 0..60);
        world.drain_node(0, true);
        pass(&mut world, 5_000 + 430 * seed);
        (1..8).for_each(|node| world.break_session_of(node));
        world.drain_node(0, false);
        pass(&mut world, 2_000_000);
        nothing_lies_about(&mut world, seed);
        holds(&mut world, 0..60);
        concludes(world);
    }
}

/// A node is given up while its chunks move away: what is rebuilt counts where it was rebuilt.
#[test]
fn a_node_is_given_up_in_the_middle_of_its_moves() {
    for seed in 0..60 {
        let slow = SimConfig { repair_bytes_per_s: 300_000, ..config("rs:4+2", 8, 0) };
        let mut world = cluster_of(slow, seed);
        fill(&mut world, 0..40);
        world.drain_node(4, true);
        pass(&mut world, 1_000 + 170 * seed);
        // What these say is late: chunks that they took, when somebody else is to take them.
        (0..8).for_each(|node| world.cut_gateway_from(0, node, 30_000));
        pass(&mut world, 12_000);
        world.remove_node(4);
        await_that(&mut world, "rebuilt", World::is_whole);
        pass(&mut world, 1_000_000);
        nothing_lies_about(&mut world, seed);
        holds(&mut world, 0..40);
        concludes(world);
    }
}

#[test]
fn with_too_few_others_a_node_stays_in_use() {
    let mut world = cluster_of(config("rs:4+2", 6, 0), 3);
    fill(&mut world, 0..60);
    world.drain_node(2, true);
    fill(&mut world, 0..80);
    pass(&mut world, 5_000_000);
    assert!(!world.is_drained(2));
    world.drain_node(2, false);
    fill(&mut world, 60..80);
    holds(&mut world, 0..80);
    concludes(world);
}

/// A node whose drain is cancelled takes as much from the others as they have.
#[test]
fn after_a_cancelled_drain_a_node_is_filled_again() {
    let mut world = cluster_of(SimConfig { partition_count: 4, ..config("rs:4+2", 8, 0) }, 1);
    fill(&mut world, 0..300);
    rests(&mut world);
    let on_it = |world: &mut World| world.stripe_nodes().iter().filter(|members| members.contains(&3)).count();
    let before = on_it(&mut world);
    world.drain_node(3, true);
    await_that(&mut world, "drained", |world| world.is_drained(3));
    assert_eq!(on_it(&mut world), 0);
    world.drain_node(3, false);
    rests(&mut world);
    let came = on_it(&mut world);
    assert!(came * 10 >= before * 8, "{came} came, {before} had left");
    assert!(unevenness(&world) < 10, "{:?}", world.loads());
    fill_round(&mut world, 0..300, 1);
    rests(&mut world);
    assert!(unevenness(&world) < 10, "{:?}", world.loads());
    holds_round(&mut world, 0..300, 1);
    concludes(world);
}

/// One node after the other is emptied, again and again, with two more than a stripe has members: chunks come back to
/// nodes that gave them away before, also when the owner that they freed them for is gone. At the end nothing that was
/// deleted is there, and no node holds more than it should.
#[test]
fn every_node_is_emptied_in_turn_again_and_again() {
    for (code, node_count, seed) in [("rs:4+2", 8, 1), ("rs:1+2", 4, 2)] {
        let mut world = cluster_of(config(code, node_count, 0), seed);
        fill(&mut world, 0..60);
        for node in (0..3).flat_map(|_| 0..usize::from(node_count)) {
            world.drain_node(node, true);
            await_that(&mut world, "drained", |world| world.is_drained(node));
            world.drain_node(node, false);
            if node == 2 {
                take_over(&mut world, 5_000);
            }
        }
        holds(&mut world, 0..60);
        pass(&mut world, 1_000_000);
        let member_count = world.config().code.chunk_count();
        assert!(world.stripe_nodes().iter().all(|members| members.len() == member_count), "{code}");
        assert!(world.is_whole());
        kill(&mut world, &[0, 1]);
        holds(&mut world, 0..60);
        concludes(world);
    }
}

/// With one node more than a stripe has members, chunks go where none of their stripe is; with failure domains no more
/// than may be lost come into one.
#[test]
fn moves_keep_to_the_rules_of_placement() {
    let spread = SimConfig { domain_count: 3, ..config("rs:4+2", 12, 3) };
    let sets = SimConfig { placement: Placement::CodingSets { spare_count: 0 }, ..config("rs:2+1", 9, 3) };
    for (seed, config) in [spread, sets].into_iter().enumerate() {
        let (count, is_domains) = (usize::from(config.node_count), config.domain_count > 0);
        let mut world = cluster_of(config, seed as u64);
        fill(&mut world, 0..300);
        (count - 3..count).for_each(|node| world.join_node(node));
        rests(&mut world);
        world.drain_node(1, true);
        await_that(&mut world, "drained", |world| world.is_drained(1));
        for members in world.stripe_nodes() {
            let mut distinct = members.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), members.len());
            if is_domains {
                let most = (0..3).map(|domain| members.iter().filter(|&&node| node % 3 == domain).count()).max();
                assert!(most <= Some(2), "{members:?}");
            }
        }
        holds(&mut world, 0..300);
        concludes(world);
    }
}

/// A node dies and is given up after it was planned what should move: what is rebuilt meanwhile changes the members of
/// stripes, and a move that was sensible before would bring too many of one into one domain.
#[test]
fn what_was_planned_before_a_repair_keeps_to_the_rules_after_it() {
    for seed in 3..6 {
        let slow = SimConfig { domain_count: 4, repair_bytes_per_s: 40_000, ..config("rs:4+2", 16, 4) };
        let mut world = cluster_of(slow, seed);
        fill(&mut world, 0..300);
        (12..16).for_each(|node| world.join_node(node));
        await_that(&mut world, "moving", |world| world.counts().rebuilds > 0);
        for node in [seed as usize, seed as usize + 1] {
            world.crash_node(node, FOR_GOOD_US);
            world.remove_node(node);
        }
        rests(&mut world);
        for members in world.stripe_nodes() {
            let most = (0..4).map(|domain| members.iter().filter(|&&node| node % 4 == domain).count()).max();
            assert!(most <= Some(2), "seed {seed}: {members:?}");
        }
        holds(&mut world, 0..300);
    }
}

/// Beside those of the usual run.
#[test]
fn seeds_of_the_profile() {
    for seed in 8..12 {
        let report = run_seed(Profile::Members, seed);
        assert!(report.failure.is_none(), "{}", report.explain(60));
    }
}
