//! The node that tests begin with.

use shorttail_node::NodeConfig;
use shorttail_units::{ClusterId, Incarnation, NodeId};

pub const CLUSTER: ClusterId = ClusterId(9);

/// The only core of a node with 1 MiB, whose owners prove themselves, and which neither repairs nor scrubs by itself.
pub fn config(node: u16) -> NodeConfig {
    NodeConfig {
        node: NodeId(node),
        cluster: CLUSTER,
        incarnation: Incarnation(1),
        core: 0,
        core_count: 1,
        memory_bytes: 1 << 20,
        auth: b"secret".to_vec(),
        repair_bytes_per_s: 1,
        scrub_bytes_per_s: 0,
    }
}
