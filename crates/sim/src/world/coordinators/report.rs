//! What members tell the coordinator of themselves.

use std::collections::{BTreeMap, BTreeSet};

use shorttail_gateway::terms::{state_at_end, state_of};
use shorttail_units::{Epoch, NodeId};
use shorttail_wire::control::{GatewayStatus, NodeSeen, NodeStatus, Standing, StoreTotals};

use super::World;

impl World {
    pub(super) fn status_of_node(&self, node: usize) -> NodeStatus {
        let host = &self.nodes[node];
        NodeStatus { memory_used_bytes: host.used_bytes(), chunks_sealed: host.chunk_count(), ..NodeStatus::default() }
    }

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
            totals.chunks_missing += stats.totals.chunks_missing;
            totals.lost_of_stripe_max = totals.lost_of_stripe_max.max(stats.totals.lost_of_stripe_max);
            totals.lost_of_readable_max = totals.lost_of_readable_max.max(stats.totals.lost_of_readable_max);
            let ids: BTreeSet<NodeId> = engine.wanted_sessions().into_iter().map(|session| session.node).collect();
            for id in ids {
                let (connected, chunks_left) = (engine.hears(id), engine.chunks_left(id));
                let seen =
                    NodeSeen { id: id.0, connected, stage: engine.stage(id), chunks_left, ..NodeSeen::default() };
                let sum = nodes.remove(&id.0).map_or(seen.clone(), |known| known.plus(&seen));
                nodes.insert(id.0, sum);
            }
        }
        GatewayStatus {
            serving: host.is_serving(),
            standings: running.chain(ended).collect(),
            totals,
            nodes: nodes.into_values().collect(),
            policies: Vec::new(),
            coding_set_nodes: None,
            leaves: false,
        }
    }
}
