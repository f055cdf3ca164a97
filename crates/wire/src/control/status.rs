//! What members report, and the picture of the whole cluster made of it.
//!
//! [`ClusterStatus`] serialises to the JSON that `shorttail status --json` prints: its field names are a contract.

use serde::{Deserialize, Serialize};

use super::NodeState;

/// A node's heartbeat.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeStatus {
    pub memory_used_bytes: u64,
    pub chunks_open: u64,
    pub chunks_sealed: u64,
}

/// A gateway's heartbeat.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct GatewayStatus {
    /// Whether clients are served: the gateway owns its partitions and reached enough nodes.
    pub serving: bool,
    pub totals: StoreTotals,
    /// Its own view of the nodes.
    pub nodes: Vec<NodeSeen>,
}

/// Counters of a gateway's engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StoreTotals {
    pub objects: u64,
    pub bytes_stored: u64,
    pub bytes_used: u64,
    pub bytes_limit: u64,
    pub stored_total: u64,
    pub evicted_total: u64,
    pub expired_total: u64,
    pub degraded_reads_total: u64,
}

/// A node as one gateway sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeSeen {
    pub id: u16,
    pub connected: bool,
    pub requests_in_flight: u32,
    /// Average latency of recent requests; 0: none.
    pub latency_us: u32,
}

/// The whole cluster.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClusterStatus {
    pub cluster_id: String,
    pub code: String,
    pub partitions: u16,
    /// The last epoch that was handed out.
    pub epoch: u32,
    pub objects: u64,
    pub bytes_stored: u64,
    pub bytes_used: u64,
    pub bytes_limit: u64,
    pub evicted_total: u64,
    pub expired_total: u64,
    pub degraded_reads_total: u64,
    pub nodes_expected: u16,
    pub nodes: Vec<NodeStatusEntry>,
    pub gateways: Vec<GatewayStatusEntry>,
}

/// A node in the status.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeStatusEntry {
    pub id: u16,
    pub pid: u32,
    pub address: String,
    pub state: NodeState,
    pub memory_used_bytes: u64,
    pub memory_limit_bytes: u64,
    pub cores: u16,
    pub chunks_open: u64,
    pub chunks_sealed: u64,
}

/// A gateway in the status.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GatewayStatusEntry {
    pub id: u16,
    pub pid: u32,
    pub epoch: u32,
    pub state: NodeState,
    pub serving: bool,
    pub memcached: Option<String>,
    pub redis: Option<String>,
    pub unix_socket: Option<String>,
    pub admin: Option<String>,
    pub nodes: Vec<NodeSeen>,
}
