//! Registration of members, and the answers.

use serde::{Deserialize, Serialize};
use shorttail_units::{ClusterId, CodeShape, Incarnation, NodeId};

use super::{CONTROL_PROTOCOL_VERSION, ids};

/// What a node says of itself when it connects.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeRegistration {
    /// Stays the first field.
    pub protocol_version: u16,
    /// Where owners connect: `host:port` or `unix:/path`.
    pub address: String,
    #[serde(with = "ids::incarnation")]
    pub incarnation: Incarnation,
    pub pid: u32,
    pub memory_limit_bytes: u64,
    pub core_count: u16,
    /// The number the operator wants for it; none: any free one.
    pub wanted_id: Option<u16>,
    /// What it fails together with, a rack for example; empty: it fails alone.
    pub domain: String,
    /// Whether it obeys orders to be faulty.
    pub allows_chaos: bool,
    /// What it was told before, when it comes back on a new connection.
    pub session: Option<NodeSession>,
}

/// A node's place in its cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeSession {
    #[serde(with = "ids::cluster_id")]
    pub cluster_id: ClusterId,
    #[serde(with = "ids::node_id")]
    pub node_id: NodeId,
}

/// The answer to a node's registration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeWelcome {
    pub session: NodeSession,
}

/// What a gateway says of itself when it connects.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GatewayRegistration {
    /// Stays the first field.
    pub protocol_version: u16,
    pub pid: u32,
    /// A random number, drawn when the process began: two processes differ.
    pub life: u64,
    /// Where other gateways connect: `host:port` or `unix:/path`. A host that is anywhere becomes the one that the
    /// coordinator sees.
    pub forward: Option<String>,
    /// Where memcached clients connect, as it really listens.
    pub memcached: Option<String>,
    /// Where Redis clients connect, as it really listens.
    pub redis: Option<String>,
    /// Where Redis clients are told to connect instead.
    pub redis_advertise: Option<String>,
    pub unix_socket: Option<String>,
    /// Its own admin address, if it has one.
    pub admin: Option<String>,
    /// What it was told before, when it comes back on a new connection: it keeps its tenures unless
    /// others have them now.
    pub session: Option<GatewaySession>,
}

impl GatewayRegistration {
    /// Where Redis clients are told to connect.
    pub fn redis_told(&self) -> Option<&String> {
        self.redis_advertise.as_ref().or(self.redis.as_ref())
    }
}

/// A gateway's place in its cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GatewaySession {
    #[serde(with = "ids::cluster_id")]
    pub cluster_id: ClusterId,
    pub gateway_id: u16,
}

/// The answer to a gateway's registration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GatewayWelcome {
    pub session: GatewaySession,
    pub partition_count: u16,
    #[serde(with = "ids::code_shape")]
    pub code: CodeShape,
    /// Nodes that the cluster is meant to have.
    pub node_count_expected: u16,
}

/// Why the coordinator does not take a member.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The coordinator's. Stays the first variant.
    #[error(
        "the coordinator speaks version {0} of the control protocol, and this process version {own}",
        own = CONTROL_PROTOCOL_VERSION
    )]
    ProtocolVersion(u16),
    #[error("the coordinator is of cluster {0:016x}, another one")]
    OtherCluster(u64),
    /// Another coordinator leads, or nobody can at present: try the others, and again.
    #[error("not leading: {0}")]
    NotLeading(String),
    /// It may become free: try again.
    #[error("node {0} is alive elsewhere")]
    NodeIdTaken(u16),
    /// The node must wipe its memory and come back with an incarnation above this one.
    #[error("this incarnation was given up for good; wipe, and come back with one above {retired_through}")]
    Retired { retired_through: u64 },
    /// It was taken out of the cluster by the operator.
    #[error("node {0} was removed from the cluster; to join as a new node, start without this number")]
    Removed(u16),
    /// The process was away for so long that its number was given to another.
    #[error("gateway {0} is another process now")]
    Superseded(u16),
    #[error("the cluster has no room for another {0}")]
    Full(String),
    #[error("{0}")]
    Malformed(String),
}

impl Refusal {
    /// Whether the same registration may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Refusal::NodeIdTaken(_) | Refusal::Full(_) | Refusal::NotLeading(_))
    }

    /// Is a member that was let in once over for good? Whatever else it hears may be a coordinator of another version
    /// or with other metadata: no reason to end what serves without any.
    pub fn is_final(&self) -> bool {
        matches!(self, Refusal::Retired { .. } | Refusal::Removed(_) | Refusal::Superseded(_))
    }
}
