//! The counters of gateways that say what was done about slow nodes.

use serde::Serialize;

use crate::scene::Seen;

/// How much each grew during a run; none where the cluster has no such counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counters {
    pub hedges_sent: Option<f64>,
    pub hedges_won: Option<f64>,
    pub hedge_budget_exhausted: Option<f64>,
    pub degraded_reads: Option<f64>,
    pub redirected_writes: Option<f64>,
    pub node_requests: Option<f64>,
}

impl Counters {
    pub fn of(seen: &Seen) -> Self {
        Counters {
            hedges_sent: seen.grown("shorttail_gateway_hedges_sent_total"),
            hedges_won: seen.grown("shorttail_gateway_hedges_won_total"),
            hedge_budget_exhausted: seen.grown("shorttail_gateway_hedge_budget_exhausted_total"),
            degraded_reads: seen.grown("shorttail_gateway_degraded_reads_total"),
            redirected_writes: seen.grown("shorttail_gateway_redirected_writes_total"),
            node_requests: seen.grown("shorttail_node_latency_seconds_count"),
        }
    }

    /// Hedges for each of so many operations.
    pub fn hedge_share(&self, operations: u64) -> Option<f64> {
        self.hedges_sent.map(|sent| sent / operations.max(1) as f64)
    }
}
