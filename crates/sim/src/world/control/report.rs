//! What a gateway tells the coordinator of itself, and how soon again.

use std::collections::BTreeMap;

use shorttail_gateway::terms::{state_at_end, state_of};
use shorttail_units::Epoch;
use shorttail_wire::control::{GatewayStatus, HEARTBEAT_MS, NodeSeen, Standing, StoreTotals, TenureState};

use super::World;

/// Microseconds between two statuses: usually; while something lacks; while somebody waits for the next one.
pub(super) const AT_EASE_US: u64 = HEARTBEAT_MS * 1_000;
const WATCHED_US: u64 = 25_000;
pub(super) const HURRIED_US: u64 = 5_000;

/// The next status is sent within so long.
pub(super) fn status_within_us(status: &GatewayStatus) -> u64 {
    let waits = |state| !matches!(state, TenureState::Serving | TenureState::Preparing | TenureState::Prepared);
    let is_unproven = |standing: &Standing| standing.state == TenureState::Serving && standing.proven_by == 0;
    match () {
        () if status.standings.iter().any(|standing| waits(standing.state)) => HURRIED_US,
        () if status.totals.chunks_missing > 0 || status.standings.iter().any(is_unproven) => WATCHED_US,
        () => AT_EASE_US,
    }
}

impl World {
    pub(super) fn status_of_gateway(&self, gateway: usize) -> GatewayStatus {
        let (now, host) = (self.now_of_gateway(gateway), &self.gateways[gateway]);
        let running = host.tenures.iter().map(|(&epoch, hosted)| Standing {
            epoch: Epoch(epoch),
            proven_by: hosted.terms.proven_by(&hosted.engine, now),
            state: state_of(hosted.engine.standing()),
        });
        let ended = host.ended.iter().map(|(&epoch, (standing, _))| Standing {
            epoch: Epoch(epoch),
            proven_by: 0,
            state: state_at_end(*standing),
        });
        let mut totals = StoreTotals::default();
        let mut nodes: BTreeMap<u16, NodeSeen> = BTreeMap::new();
        for engine in host.engines() {
            let stats = engine.stats();
            totals.chunks_missing += stats.chunks_missing;
            totals.lost_of_stripe_max = totals.lost_of_stripe_max.max(stats.lost_of_stripe_max);
            for id in engine.wanted_sessions().into_iter().map(|session| session.node) {
                let seen = nodes.entry(id.0).or_insert_with(|| NodeSeen { id: id.0, ..NodeSeen::default() });
                seen.connected |= engine.reaches(id);
            }
        }
        GatewayStatus {
            serving: host.is_serving(),
            standings: running.chain(ended).collect(),
            totals,
            nodes: nodes.into_values().collect(),
            policies: Vec::new(),
        }
    }
}
