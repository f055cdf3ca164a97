//! What a store that may evict gives up, and when it does not.

use shorttail_gateway::engine::WhenFull;
use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer};
use shorttail_sim::scenario::*;
use shorttail_sim::world::Outcome;

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
        assert_eq!(stats.evicted_total, 0, "seed {seed}: {stats:?}");
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
        assert!(stats.evicted_total > 0 && stats.bytes_used > stats.bytes_limit * 3 / 4, "seed {seed}: {stats:?}");
        concludes(world);
    }
}
