//! What survives a restart of the coordinator: who the cluster is, and what must never be handed out twice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// State that is on disk before any message that rests on it leaves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Durable {
    /// Version of this layout.
    pub format: u32,
    pub cluster_id: u64,
    /// The last epoch that was handed out.
    pub epoch: u32,
    /// The next gateway gets this number.
    pub gateway_id_next: u16,
    /// By node id.
    pub nodes: BTreeMap<u16, DurableNode>,
}

/// A node that has ever been a member. Its number is never given to another.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DurableNode {
    /// The incarnation that registered last.
    pub incarnation: u64,
    /// Incarnations up to this one were given up; 0: none.
    pub retired_through: u64,
    pub address: String,
    /// What it fails together with; empty: it fails alone.
    #[serde(default)]
    pub domain: String,
}

impl Durable {
    pub const FORMAT: u32 = 1;

    /// A new cluster.
    pub fn new(cluster_id: u64) -> Self {
        Durable { format: Self::FORMAT, cluster_id, epoch: 0, gateway_id_next: 0, nodes: BTreeMap::new() }
    }
}
