//! The node that tests begin with.

#[allow(dead_code, reason = "not in every test")]
pub mod cluster;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use shorttail_node::{Node, NodeConfig};
use shorttail_store::{NearReader, NearWriter};
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

/// A node's memory, as it is read beside the core.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "not in every test")]
pub struct Memory(Arc<File>);

#[allow(dead_code, reason = "not in every test")]
impl Memory {
    pub fn of(node: &Node) -> Self {
        Memory(Arc::clone(node.memory().expect("it is shared")))
    }
}

impl NearReader for Memory {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        self.0.read_at(into, position).unwrap_or_default()
    }
}

impl NearWriter for Memory {
    fn write(&self, position: u64, _room_bytes: usize, bytes: &[u8]) -> bool {
        self.0.write_all_at(bytes, position).is_ok()
    }
}
