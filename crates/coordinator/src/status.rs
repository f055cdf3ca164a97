//! The picture of the cluster for people and scripts.

use std::collections::BTreeMap;

use shorttail_wire::control::{
    ClusterStatus, CoordinatorStatus, GatewayStatus, GatewayStatusEntry, MoveStatus, NodeSeen, NodeState,
    NodeStatusEntry, RepairStatus, StoreTotals, TenureState, TenureStatusEntry,
};

use crate::coordinator::Coordinator;
use crate::gone::{self, NodeCounted};
use crate::members::{GatewayMember, NodeMember};
use crate::recent::Rebuilt;
use crate::told::ToldOfNodes;

/// Shares of a million.
const MEDIAN_PPM: u32 = 500_000;
const P99_PPM: u32 = 990_000;

impl Coordinator {
    /// What members last reported, summed up; of the coordinator itself only its driver can tell.
    pub fn status(&self) -> ClusterStatus {
        let totals = self.totals();
        let nodes_alive = || self.nodes.values().filter(|node| node.presence.is_alive());
        ClusterStatus {
            cluster_id: format!("{:016x}", self.durable.cluster_id),
            code: self.settings.code.to_string(),
            partitions: self.settings.partition_count,
            partitions_served: self.partitions_served(),
            partitions_lossy: self.lossy_count(),
            epoch: self.durable.epoch,
            tenures_handed_over_total: self.tenures.handed_over_total,
            tenures_lost_total: self.tenures.lost_total,
            objects: totals.objects,
            bytes_stored: totals.bytes_stored,
            bytes_used: nodes_alive().map(|node| node.status.memory_used_bytes).sum(),
            bytes_limit: nodes_alive().map(|node| node.memory_limit_bytes).sum(),
            stores_refused_total: totals.stores_refused_total,
            evicted_total: totals.evicted_total,
            expired_total: totals.expired_total,
            degraded_reads_total: totals.degraded_reads_total,
            nodes_expected: self.node_count_expected(),
            repair: RepairStatus {
                chunks_missing: totals.chunks_missing,
                stripes_stranded: totals.stripes_stranded,
                chunks_rebuilt_total: totals.chunks_rebuilt_total,
                bytes_rebuilt_total: totals.bytes_rebuilt_total,
                bytes_per_s: totals.repair_bytes_per_s,
                seconds_left: self.repair_seconds_left(&totals),
                lacking_of_stripe_max: self.lacking().count() as u16,
                nodes_alive: nodes_alive().count() as u16,
                nodes_needed: self.settings.code.chunk_count() as u16,
            },
            moves: MoveStatus {
                chunks_moved_total: totals.chunks_moved_total,
                bytes_moved_total: totals.bytes_moved_total,
                bytes_per_s: totals.move_bytes_per_s,
                chunks_stranded: totals.moves_stranded,
            },
            problems: self.problems().into_iter().map(|problem| problem.text).collect(),
            chaos_allowed: self.settings.allow_chaos,
            coordinator: CoordinatorStatus::default(),
            nodes: self.node_entries(),
            gateways: self.gateways.iter().map(|(&id, gateway)| self.gateway_entry(id, gateway)).collect(),
        }
    }

    /// Tenures that ended without being handed over.
    pub fn tenures_lost_total(&self) -> u64 {
        self.tenures.lost_total
    }

    /// How often several tenures of a gateway became one, since this coordinator leads.
    pub fn tenures_united_total(&self) -> u64 {
        self.tenures.united_total
    }

    /// What all gateways counted, also those that are gone; of what is so at present only the living tell: a new owner
    /// reports the same objects again.
    fn totals(&self) -> StoreTotals {
        let told = |gateway: &GatewayMember| match gateway.presence.is_alive() {
            true => gateway.status.totals,
            false => gateway.status.totals.counters(),
        };
        self.gateways.values().map(told).fold(self.gone.counted(), StoreTotals::plus)
    }

    /// How long what can be rebuilt takes at this rate, its chunks as long as those that were rebuilt of late: pieces
    /// of large values may be far shorter than other chunks.
    fn repair_seconds_left(&self, totals: &StoreTotals) -> Option<u64> {
        let all = Rebuilt { chunks: totals.chunks_rebuilt_total, bytes: totals.bytes_rebuilt_total };
        let recent = self.living().map(|gateway| gateway.recent.rebuilt(&gateway.status.totals));
        let recent = recent.fold(Rebuilt::default(), |sum, one| Rebuilt {
            chunks: sum.chunks + one.chunks,
            bytes: sum.bytes + one.bytes,
        });
        let Rebuilt { chunks, bytes } = if recent.chunks > 0 { recent } else { all };
        let left = u128::from(totals.chunks_to_rebuild) * u128::from(bytes);
        let seconds = left.checked_div(u128::from(chunks) * u128::from(totals.repair_bytes_per_s));
        seconds.filter(|_| left > 0).map(|seconds| u64::try_from(seconds).unwrap_or(u64::MAX))
    }

    /// What every living gateway reported last, by its number.
    pub fn gateway_reports(&self) -> Vec<(u16, GatewayStatus)> {
        let alive = self.gateways.iter().filter(|(_, gateway)| gateway.presence.is_alive());
        alive.map(|(&id, gateway)| (id, gateway.status.clone())).collect()
    }

    fn gateway_entry(&self, id: u16, gateway: &GatewayMember) -> GatewayStatusEntry {
        let registration = &gateway.registration;
        let tenures = self.tenures_of(id);
        GatewayStatusEntry {
            id,
            pid: registration.pid,
            epoch: tenures.last().map_or(0, |tenure| tenure.epoch),
            state: gateway.presence.state,
            serving: gateway.status.serving && gateway.presence.state == NodeState::Normal,
            memcached: registration.memcached.clone(),
            redis: registration.redis.clone(),
            unix_socket: registration.unix_socket.clone(),
            admin: registration.admin.clone(),
            forward: registration.forward.clone(),
            tenures,
            draining: self.durable.draining.contains(&id),
            nodes_fail_slow: nodes_where(gateway, |node| node.fail_slow),
            nodes_unreached: nodes_where(gateway, |node| !node.connected),
            policies: gateway.status.policies.clone(),
        }
    }

    fn tenures_of(&self, id: u16) -> Vec<TenureStatusEntry> {
        let own = self.durable.tenures.iter().filter(|(_, tenure)| tenure.gateway == id);
        let entries = own.map(|(&epoch, tenure)| {
            let standing = self.standing_of(epoch);
            TenureStatusEntry {
                epoch,
                partitions: tenure.partitions.clone(),
                state: standing.map_or(TenureState::TakingOver, |standing| standing.state),
                proven: standing.is_some_and(|standing| standing.proven_by != 0),
            }
        });
        entries.collect()
    }

    /// What gateways tell is summed up once for all nodes: each tells of every node.
    fn node_entries(&self) -> Vec<NodeStatusEntry> {
        let (told, mut seen, counted) = (self.told_of_nodes(), self.seen_recently(), self.counted_of_nodes());
        let entry = |(&id, node): (&u16, &NodeMember)| {
            let (seen, counted) = (seen.remove(&id), counted.get(&id).copied().unwrap_or_default());
            // Owners need not agree: what the last of them has left is over.
            let stage = seen.as_ref().and_then(|seen| seen.stage);
            let entry = self.node_entry(id, node, &told, &seen.unwrap_or_default(), counted);
            NodeStatusEntry { stage, ..entry }
        };
        self.nodes_kept().map(entry).collect()
    }

    fn node_entry(
        &self,
        id: u16,
        node: &NodeMember,
        told: &ToldOfNodes,
        seen: &NodeSeen,
        counted: NodeCounted,
    ) -> NodeStatusEntry {
        let all = seen.read_latency.clone().plus(&seen.write_latency);
        NodeStatusEntry {
            id,
            pid: node.pid,
            address: node.address.clone(),
            domain: self.durable.nodes[&id].domain.clone(),
            state: node.presence.state,
            stage: None,
            rebuilt: !node.presence.is_alive() && self.is_empty_as(told, id),
            drain: self.drain_status(id, told),
            memory_used_bytes: node.status.memory_used_bytes,
            memory_limit_bytes: node.memory_limit_bytes,
            cores: node.core_count,
            chunks_open: node.status.chunks_open,
            chunks_sealed: node.status.chunks_sealed,
            chunks_damaged: node.status.chunks_damaged,
            scrubbed_bytes_total: node.status.scrubbed_bytes_total,
            corruptions_found_total: node.status.corruptions_found_total,
            corruptions_repaired_total: node.status.corruptions_repaired_total,
            messages_damaged_total: node.status.messages_damaged_total,
            fail_slow: seen.fail_slow,
            latency_us_p50: all.percentile_us(MEDIAN_PPM),
            latency_us_p99: all.percentile_us(P99_PPM),
            read_latency_us_p50: seen.read_latency.percentile_us(MEDIAN_PPM),
            read_latency_us_p99: seen.read_latency.percentile_us(P99_PPM),
            write_latency_us_p50: seen.write_latency.percentile_us(MEDIAN_PPM),
            write_latency_us_p99: seen.write_latency.percentile_us(P99_PPM),
            redirect_count: counted.redirect_count,
            flagged_us: counted.flagged_us,
            chaos_allowed: node.allows_chaos,
            chaos: node.status.chaos.clone(),
        }
    }

    /// What all gateways counted of each node, also those that are gone.
    fn counted_of_nodes(&self) -> BTreeMap<u16, NodeCounted> {
        let mut sums = self.gone.counted_of_nodes();
        gone::add(&mut sums, self.gateways.values().flat_map(GatewayMember::counted));
        sums
    }

    /// Each node in the eyes of all live gateways together, with the latencies of the last seconds.
    fn seen_recently(&self) -> BTreeMap<u16, NodeSeen> {
        let mut sums: BTreeMap<u16, NodeSeen> = BTreeMap::new();
        for seen in self.living().flat_map(|gateway| gateway.recent.of(&gateway.status.nodes)) {
            let sum = sums.entry(seen.id).or_insert_with(|| NodeSeen { id: seen.id, ..NodeSeen::default() });
            *sum = std::mem::take(sum).plus(&seen);
        }
        sums
    }
}

fn nodes_where(gateway: &GatewayMember, holds: impl Fn(&NodeSeen) -> bool) -> Vec<u16> {
    gateway.status.nodes.iter().filter(|node| holds(node)).map(|node| node.id).collect()
}
