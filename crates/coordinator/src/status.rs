//! The picture of the cluster for people and scripts.

use shorttail_wire::control::{ClusterStatus, GatewayStatusEntry, NodeState, NodeStatusEntry, StoreTotals};

use crate::coordinator::Coordinator;
use crate::members::{GatewayMember, NodeMember};

impl Coordinator {
    /// What members last reported, summed up. Counters of dead gateways do not count: a new owner reports the same
    /// objects again.
    pub fn status(&self) -> ClusterStatus {
        let alive = self.gateways.values().filter(|gateway| gateway.presence.is_alive());
        let totals = alive.fold(StoreTotals::default(), |sum, gateway| add(sum, gateway.status.totals));
        let nodes_alive = || self.nodes.values().filter(|node| node.presence.is_alive());
        let bytes_used_on_nodes = nodes_alive().map(|node| node.status.memory_used_bytes).sum();
        let code = self.settings.code;
        ClusterStatus {
            cluster_id: format!("{:016x}", self.durable.cluster_id),
            code: format!("rs:{}+{}", code.data_count, code.parity_count),
            partitions: self.settings.partition_count,
            epoch: self.durable.epoch,
            objects: totals.objects,
            bytes_stored: totals.bytes_stored,
            bytes_used: if totals.bytes_used > 0 { totals.bytes_used } else { bytes_used_on_nodes },
            bytes_limit: nodes_alive().map(|node| node.memory_limit_bytes).sum(),
            evicted_total: totals.evicted_total,
            expired_total: totals.expired_total,
            degraded_reads_total: totals.degraded_reads_total,
            nodes_expected: self.settings.node_count_expected,
            nodes: self.nodes.iter().map(|(&id, node)| node_entry(id, node)).collect(),
            gateways: self.gateways.iter().map(|(&id, gateway)| self.gateway_entry(id, gateway)).collect(),
        }
    }

    fn gateway_entry(&self, id: u16, gateway: &GatewayMember) -> GatewayStatusEntry {
        let registration = &gateway.registration;
        GatewayStatusEntry {
            id,
            pid: registration.pid,
            epoch: gateway.epoch.0,
            state: gateway.presence.state,
            serving: gateway.status.serving && gateway.presence.state == NodeState::Normal,
            memcached: registration.memcached.clone(),
            redis: registration.redis.clone(),
            unix_socket: registration.unix_socket.clone(),
            admin: registration.admin.clone().or_else(|| self.settings.admin.clone()),
            nodes: gateway.status.nodes.clone(),
        }
    }
}

fn add(sum: StoreTotals, other: StoreTotals) -> StoreTotals {
    StoreTotals {
        objects: sum.objects.saturating_add(other.objects),
        bytes_stored: sum.bytes_stored.saturating_add(other.bytes_stored),
        bytes_used: sum.bytes_used.saturating_add(other.bytes_used),
        bytes_limit: sum.bytes_limit.saturating_add(other.bytes_limit),
        stored_total: sum.stored_total.saturating_add(other.stored_total),
        evicted_total: sum.evicted_total.saturating_add(other.evicted_total),
        expired_total: sum.expired_total.saturating_add(other.expired_total),
        degraded_reads_total: sum.degraded_reads_total.saturating_add(other.degraded_reads_total),
    }
}

fn node_entry(id: u16, node: &NodeMember) -> NodeStatusEntry {
    NodeStatusEntry {
        id,
        pid: node.pid,
        address: node.address.clone(),
        state: node.presence.state,
        memory_used_bytes: node.status.memory_used_bytes,
        memory_limit_bytes: node.memory_limit_bytes,
        cores: node.core_count,
        chunks_open: node.status.chunks_open,
        chunks_sealed: node.status.chunks_sealed,
    }
}
