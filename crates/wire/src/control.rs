//! The control protocol: what members (nodes and gateways) and the coordinator say to each other.
//!
//! Every message is a frame with checksums and a postcard body. A member opens the connection and
//! registers with its first message; it then sends its status twice a second, which is also its heartbeat. The
//! coordinator answers the registration and sends a [`View`] whenever the membership changes.
//!
//! ```text
//! member                          coordinator
//!   |-- RegisterNode / RegisterGateway -->|
//!   |<-- Node / Gateway welcome, View ----|   or Refused
//!   |-- NodeStatus / GatewayStatus ------>|   every 500 ms
//!   |<-- View ----------------------------|   when something changed
//!   |<-- Terms ---------------------------|   of the tenures of a gateway, when they changed
//!   |<-- Served --------------------------|   to gateways: which tenures are, when that changed
//!   |<-- Beat ----------------------------|   every 500 ms, while the coordinator leads
//!   |<-- Order ---------------------------|   to be faulty on purpose (nodes), another policy (gateways)
//!   |-- Obeyed -------------------------->|   or why not
//! ```
//!
//! Nothing here is on the data path: a node whose connection is lost serves on. What a gateway owns whose connection is
//! lost is dealt to others.
//!
//! Must not know: sockets, or what the coordinator decides.

mod frame;
pub mod fuzz;
mod ids;
mod latency;
mod member;
mod order;
mod stage;
mod status;
mod tenure;
mod terms;
#[cfg(test)]
mod tests;
mod told;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use frame::{
    CONTROL_BODY_BYTES_MAX, CONTROL_HEADER_BYTES, ControlFrameError, next_message, next_request, put_message,
};
pub use ids::code_shape;
pub use latency::{LATENCY_BOUNDS_US, LATENCY_CLASS_COUNT_MAX, LatencyHistogram};
pub use member::{
    GatewayRegistration, GatewaySession, GatewayWelcome, NodeRegistration, NodeSession, NodeWelcome, Refusal,
};
pub use order::{Order, PolicyOrder};
pub use stage::NodeStage;
pub use status::{
    ChaosStatus, ClusterStatus, CoordinatorStatus, DrainStatus, GatewayStatus, GatewayStatusEntry, HURRIED_MS,
    MoveStatus, NodeSeen, NodeStatus, NodeStatusEntry, PolicySpan, RepairStatus, StoreTotals, TenureStatusEntry,
};
pub use tenure::{GatewayEntry, Standing, TenureEntry, TenureState, Terms, Voter};
pub use told::{counted, counted_are, ranges};

use shorttail_units::{Incarnation, NodeId};

/// Version of this protocol. Members and a coordinator that differ refuse each other.
pub const CONTROL_PROTOCOL_VERSION: u16 = 18;

/// Milliseconds between two status messages of a member, and between two beats of the coordinator.
pub const HEARTBEAT_MS: u64 = 500;

/// What a member, or a command that asks, sends. The registrations stay the first two.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ToCoordinator {
    RegisterNode(NodeRegistration),
    RegisterGateway(GatewayRegistration),
    NodeStatus(NodeStatus),
    GatewayStatus(GatewayStatus),
    /// Asks for a [`FromCoordinator::Status`]; needs no registration.
    ReadStatus,
    /// What became of the order of this number: what was done, or why it was not, for people.
    Obeyed {
        number: u64,
        outcome: Result<String, String>,
        /// The faults of the node now; a gateway has none.
        chaos: ChaosStatus,
    },
}

/// What the coordinator sends. `Refused` stays the third.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum FromCoordinator {
    NodeRegistered(NodeWelcome),
    GatewayRegistered(GatewayWelcome),
    Refused(Refusal),
    View(Arc<View>),
    /// All tenures of this gateway, with what it must go by.
    Terms(#[serde(with = "terms")] Vec<Terms>),
    Status(Box<ClusterStatus>),
    /// The coordinator still leads: sent every [`HEARTBEAT_MS`]. A member that misses it looks for another one.
    Beat,
    /// Answered by [`ToCoordinator::Obeyed`].
    Order {
        number: u64,
        order: Box<Order>,
    },
    /// To gateways: the epochs of all tenures whose owners reported, in order, and whether they are served. Who owns
    /// what is in the view.
    Served(Vec<(u32, bool)>),
}

/// All members that the coordinator knows, as it sees them, and who should own what.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct View {
    /// Grows with each change while one coordinator runs.
    pub number: u64,
    /// Nodes that the cluster is meant to have.
    pub node_count_expected: u16,
    /// In order of id.
    pub nodes: Vec<NodeEntry>,
    /// In order of id.
    pub gateways: Vec<GatewayEntry>,
    /// In order of epoch; no partition is in two.
    pub tenures: Vec<TenureEntry>,
}

/// One node of a view.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeEntry {
    #[serde(with = "ids::node_id")]
    pub id: NodeId,
    /// 0: one that was taken out so long ago that only its number is known.
    #[serde(with = "ids::incarnation")]
    pub incarnation: Incarnation,
    /// `host:port` or `unix:/path`.
    pub address: String,
    /// What it fails together with; empty: it fails alone.
    pub domain: String,
    pub state: NodeState,
    /// It is to get no new chunks, and what it holds goes elsewhere.
    pub draining: bool,
    /// It is no part of the cluster any more: retired, and nobody waits for it.
    pub removed: bool,
}

/// What the coordinator makes of a node, from its heartbeats alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Heartbeats arrive.
    #[default]
    Normal,
    /// Heartbeats are late; the node may be slow, hung or cut off.
    Suspect,
    /// The connection closed, or heartbeats stayed away for long. The memory may still be there.
    Dead,
    /// This incarnation will never be let in again; its chunks are lost for good.
    Retired,
}

impl NodeState {
    pub const ALL: [NodeState; 4] = [NodeState::Normal, NodeState::Suspect, NodeState::Dead, NodeState::Retired];

    /// Its word counts, and its memory.
    pub fn is_alive(self) -> bool {
        matches!(self, NodeState::Normal | NodeState::Suspect)
    }

    pub fn name(self) -> &'static str {
        match self {
            NodeState::Normal => "normal",
            NodeState::Suspect => "suspect",
            NodeState::Dead => "dead",
            NodeState::Retired => "retired",
        }
    }
}
