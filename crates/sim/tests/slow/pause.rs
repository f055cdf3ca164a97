//! The gateway itself pauses, as one without CPU does: nobody else is late for that.

use shorttail_sim::config::SimConfig;
use shorttail_sim::model::{Action, Answer, Value};
use shorttail_sim::world::{Outcome, World};

/// Far beyond the deadline of a request.
const PAUSE_US: u64 = 400_000;

#[test]
fn nodes_are_not_blamed_for_the_gateways_own_pauses() {
    for seed in 0..20 {
        let mut world = World::with_config(SimConfig::scripted(), seed);
        world.await_serving();
        for round in 0..40u64 {
            let key = format!("key {round}");
            let value = Value::bytes(key.as_bytes());
            let set = world.request(0, &key, Action::Set(value.clone()));
            // From "the request is on its way to the gateway" to "the nodes' answers are on their way back".
            world.run_until(world.now_us() + 50 + round * 20);
            world.stall_gateway(0, PAUSE_US);
            assert_eq!(world.await_op(set), Outcome::Answered(Answer::Done), "seed {seed}, round {round}");
            assert_eq!(world.ask(&key, Action::Get), Outcome::Answered(Answer::Found(Some(value))));
        }
        let stats = world.engine_stats();
        let sidestepped =
            (stats.totals.hedges_sent_total, stats.totals.degraded_reads_total, stats.totals.redirected_writes_total);
        assert_eq!(sidestepped, (0, 0, 0), "seed {seed}: hedges, degraded reads, redirected writes");
        assert!(world.verdicts().is_empty(), "seed {seed}: {:?}", world.verdicts());
        world.conclude().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
}
