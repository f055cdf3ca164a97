//! What a node is told at its start.

use shorttail_units::{ClusterId, NodeId};

use super::address::Address;
use super::size::Size;

/// Configuration of one node, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeConfig {
    /// Where owners connect. TCP port 0: any free port.
    pub listen: Address,
    /// What owners are told to connect to, when it is not what `listen` says (0.0.0.0, NAT).
    pub advertise: Option<Address>,
    pub membership: NodeMembership,
    /// Budget of chunk memory in bytes, reserved at the start.
    pub memory_bytes: u64,
    pub threads: usize,
}

/// How a node learns which cluster it belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeMembership {
    /// Ask the coordinator, for this number if one is wanted.
    Coordinator { address: Address, wanted_id: Option<NodeId> },
    /// Without a coordinator.
    Static { cluster_id: ClusterId, node_id: NodeId },
}

/// Memory of a node when nothing is said.
pub const NODE_MEMORY_DEFAULT: Size = Size::mib(256);
