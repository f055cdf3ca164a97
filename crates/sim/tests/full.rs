//! What a store that may evict gives up, and when it does not.

use shorttail_gateway::engine::WhenFull;
use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer};
use shorttail_sim::scenario::*;
use shorttail_sim::world::{Outcome, World};

/// More writes at once than stripes can be sealed for: they wait, and nothing is evicted while most of
/// the memory is free.
#[test]
fn a_burst_evicts_nothing() {
    for seed in 0..4 {
        let mut world = cluster_of(SimConfig { when_full: WhenFull::Evict, ..SimConfig::scripted() }, seed);
        fill(&mut world, 2_000..2_200);
        // Seals wait for this one.
        world.cut_replies_of(seed as usize, 200_000);
        let ops: Vec<_> =
            (0..1_500).map(|name| world.request(0, &format!("key{name}"), Action::Set(value(name, 120)))).collect();
        for op in ops {
            assert_eq!(world.await_op(op), Outcome::Answered(Answer::Done), "seed {seed}\n{}", world.trace());
        }
        let stats = &world.all_stats()[0];
        assert!(stats.bytes_used < stats.bytes_limit / 2, "{stats:?}");
        assert_eq!(stats.totals.evicted_total, 0, "seed {seed}: {stats:?}");
    }
}

/// A cache that is full goes on, also where many write at once and few of their values fit into a chunk: with memory
/// short, what is left of it must not lie on nodes too few for a stripe.
#[test]
fn a_full_cache_takes_whatever_comes() {
    for seed in 0..4 {
        let config = SimConfig {
            when_full: WhenFull::Evict,
            partition_count: 4,
            chunk_bytes: 4000,
            block_bytes: 512,
            audit_events: 5_000,
            ..SimConfig::scripted()
        };
        let mut world = cluster_of(config, seed);
        for burst in 0..90 {
            let names = burst * 128..(burst + 1) * 128;
            let ops: Vec<_> =
                names.map(|name| world.request(0, &format!("key{name}"), Action::Set(value(name, 900)))).collect();
            for op in ops {
                assert_eq!(world.await_op(op), Outcome::Answered(Answer::Done), "seed {seed}, burst {burst}");
            }
        }
        let stats = &world.all_stats()[0];
        assert!(
            stats.totals.evicted_total > 0 && stats.bytes_used > stats.bytes_limit * 3 / 4,
            "seed {seed}: {stats:?}"
        );
        concludes(world);
    }
}

/// Repair leaves no more on each node than eviction makes room for.
#[test]
fn a_full_cache_of_many_nodes_is_repaired() {
    for (seed, partition_count) in [(0, 4), (1, 8)] {
        let config = SimConfig {
            when_full: WhenFull::Evict,
            node_memory_bytes: 1 << 18,
            partition_count,
            audit_events: 50_000,
            ..nodes_of("rs:2+1", 12)
        };
        let mut world = cluster_of(config, seed);
        for first in (0..).step_by(32) {
            let set = |name| world.request(0, &format!("key{name}"), Action::Set(value(name, STRIPED_BYTES)));
            let ops: Vec<_> = (first..first + 32).map(set).collect();
            for op in ops {
                let what = format!("seed {seed}, from {first}: {:?}", world.all_stats());
                assert_eq!(world.await_op(op), Outcome::Answered(Answer::Done), "{what}");
            }
            if world.all_stats()[0].totals.evicted_total > 100 {
                break;
            }
        }
        kill(&mut world, &[seed as usize]);
        await_whole(&mut world);
        assert!(world.counts().rebuilds > 0);
        concludes(world);
    }
}

/// A large value that is read all the time becomes older than all that is small. It stays, and what is small goes.
#[test]
fn a_large_value_that_is_read_often_holds_up_no_eviction() {
    for (seed, partition_count) in [(0, 1), (1, 4)] {
        let config = SimConfig {
            when_full: WhenFull::Evict,
            node_memory_bytes: 1 << 18,
            partition_count,
            audit_events: 50_000,
            ..SimConfig::scripted()
        };
        let mut world = cluster_of(config, seed);
        let large = value(0, STRIPED_BYTES);
        set(&mut world, "large", &large);
        for first in (0..).step_by(32) {
            let ops: Vec<_> = (first..first + 32)
                .map(|name| world.request(0, &format!("key{name}"), Action::Set(value(name, SMALL_BYTES))))
                .collect();
            for op in ops {
                let what = format!("seed {seed}, from {first}: {:?}", world.all_stats());
                assert_eq!(world.await_op(op), Outcome::Answered(Answer::Done), "{what}");
            }
            assert_eq!(get(&mut world, "large"), Some(large.clone()), "seed {seed}, from {first}");
            let stats = &world.all_stats()[0];
            if stats.totals.evicted_total > 3 * stats.totals.objects {
                break;
            }
        }
        concludes(world);
    }
}

/// Where nothing may be evicted, deleting is what makes room: it is not refused for want of any. Neighbours in the log
/// are deleted far from each other, so that for long no stripe has much garbage; tombstones of the shortest values take
/// more than these did.
#[test]
fn a_full_store_deletes_whatever_it_holds() {
    for (seed, length, partition_count, gateway_count, node_memory_bytes) in
        [(0, 1, 1, 1, 1 << 18), (1, 1, 4, 2, 1 << 18), (2, 120, 1, 1, 1 << 19), (3, 900, 4, 1, 1 << 19)]
    {
        let config = SimConfig {
            node_memory_bytes,
            partition_count,
            gateway_count,
            chunk_bytes: 4000,
            audit_events: 50_000,
            ..SimConfig::scripted()
        };
        let mut world = cluster_of(config, seed);
        let mut names = fill_to_the_brim(&mut world, length);
        names.sort_by_key(|name| name.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for (window, names_of_it) in names.chunks(256).enumerate() {
            let delete = |name: &u64| world.request(0, &format!("key{name}"), Action::Delete);
            let ops: Vec<_> = names_of_it.iter().map(delete).collect();
            for op in ops {
                let what = format!("seed {seed}, window {window} of {} values of {length} bytes", names.len());
                let wanted = Outcome::Answered(Answer::Existed(true));
                assert_eq!(world.await_op(op), wanted, "{what}: {:?}", world.all_stats());
            }
        }
        concludes(world);
    }
}

/// What a planned hand-over may take; see `world/service.rs`.
const HAND_OVER_US_MAX: u64 = 100_000;

/// A cluster of two gateways, whose partition is one's.
fn shared_and_full(when_full: WhenFull, seed: u64) -> (World, usize) {
    let mut config = SimConfig {
        when_full,
        node_memory_bytes: 1 << 19,
        chunk_bytes: 4000,
        block_bytes: 512,
        client_count: 2,
        audit_events: 5_000,
        ..SimConfig::scripted()
    };
    config.share(2);
    let world = cluster_of(config, seed);
    let owner = world.owner_of("key0").expect("everything is dealt");
    (world, owner)
}

/// These requests are asked of the owner at once, and it is to let go: none is refused, and none waits for long.
fn are_done_while_it_lets_go(world: &mut World, owner: usize, requests: Vec<(String, Action, Answer)>, what: &str) {
    world.prepare_hand_over(owner, 1 - owner);
    pass(world, 150_000);
    world.go_on_with_hand_over();
    let asked_us = world.now_us();
    let ask = |(key, action, wanted): (String, _, _)| (world.request(owner as u32, &key, action), wanted);
    let ops: Vec<_> = requests.into_iter().map(ask).collect();
    pass(world, 10_000);
    // What comes later is the next owner's.
    let read = world.request(owner as u32, "key0", Action::Get);
    for (op, wanted) in ops {
        assert_eq!(world.await_op(op), Outcome::Answered(wanted), "{what}: {:?}", world.all_stats());
    }
    assert!(matches!(world.await_op(read), Outcome::Answered(_)), "{what}");
    let took_us = world.now_us() - asked_us;
    assert!(took_us < HAND_OVER_US_MAX, "{what}: {took_us} us");
    assert_eq!(world.owner_of("key0"), Some(1 - owner), "{what}");
}

/// Writes of a full cache wait for what is evicted, also while its owner lets go.
#[test]
fn a_full_cache_hands_over_without_refusing_a_write() {
    for seed in 0..4 {
        let (mut world, owner) = shared_and_full(WhenFull::Evict, seed);
        for burst in 0..30 {
            let names = burst * 128..(burst + 1) * 128;
            let ops: Vec<_> =
                names.map(|name| world.request(0, &format!("key{name}"), Action::Set(value(name, 900)))).collect();
            for op in ops {
                assert_eq!(world.await_op(op), Outcome::Answered(Answer::Done), "seed {seed}, burst {burst}");
            }
        }
        let set = |name| (format!("new{name}"), Action::Set(value(name, 900)), Answer::Done);
        are_done_while_it_lets_go(&mut world, owner, (0..256).map(set).collect(), &format!("seed {seed}"));
        concludes(world);
    }
}

/// Deletes of a full store wait for what cleaning gives back, also while its owner lets go.
#[test]
fn a_full_store_hands_over_without_refusing_a_delete() {
    for seed in 0..4 {
        let (mut world, owner) = shared_and_full(WhenFull::Error, seed);
        let mut names = fill_to_the_brim(&mut world, 120);
        names.sort_by_key(|name| name.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let delete = |name| (format!("key{name}"), Action::Delete, Answer::Existed(true));
        let deletes = names.into_iter().take(2_048).map(delete).collect();
        are_done_while_it_lets_go(&mut world, owner, deletes, &format!("seed {seed}"));
        concludes(world);
    }
}

/// A node with less memory than the others is full before them. What is left to deletes and to cleaning is there all
/// the same when one of the large ones dies for good.
#[test]
fn a_full_store_deletes_when_a_node_is_gone_and_another_one_was_full_before() {
    for (seed, partition_count) in [(0, 1), (1, 4), (2, 1)] {
        let config = SimConfig {
            node_count: 7,
            halved_node_count: 1,
            node_memory_bytes: 1 << 19,
            partition_count,
            // With its header it leaves nothing of a block unused.
            chunk_bytes: 4096 - 256,
            audit_events: 50_000,
            ..SimConfig::scripted()
        };
        let mut world = cluster_of(config, seed);
        let mut names = fill_to_the_brim(&mut world, SMALL_BYTES);
        names.sort_by_key(|name| name.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        kill(&mut world, &[seed as usize]);
        // What is deleted at once leaves little garbage in each stripe, and one in three lies where memory is short.
        for window in names.chunks(256).take(2) {
            let delete = |name: &u64| world.request(0, &format!("key{name}"), Action::Delete);
            let ops: Vec<_> = window.iter().map(delete).collect();
            for op in ops {
                let wanted = Outcome::Answered(Answer::Existed(true));
                assert_eq!(world.await_op(op), wanted, "seed {seed}: {:?}", world.all_stats());
            }
        }
    }
}

/// Stores values of this length until there is no room for any; their names.
fn fill_to_the_brim(world: &mut World, length: usize) -> Vec<u64> {
    let (mut names, mut refused_count) = (Vec::new(), 0);
    for first in (0..).step_by(64) {
        let ops: Vec<_> = (first..first + 64)
            .map(|name| (name, world.request(0, &format!("key{name}"), Action::Set(value(name, length)))))
            .collect();
        let stored = names.len();
        for (name, op) in ops {
            match world.await_op(op) {
                Outcome::Answered(Answer::Done) => names.push(name),
                Outcome::Refused => refused_count += 1,
                other => panic!("{other:?}"),
            }
        }
        if names.len() == stored {
            break;
        }
    }
    let told: u64 = world.all_stats().iter().map(|stats| stats.totals.stores_refused_total).sum();
    assert_eq!(told, refused_count, "what is refused for want of memory is told");
    names
}
