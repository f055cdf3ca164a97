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
