//! The member's end of the control connection: one plain thread with a small stack that registers, sends heartbeats
//! and takes views, and reconnects for ever.
//!
//! Nodes and gateways run it beside their loops. It never blocks them: they publish a status when they like and poll
//! for events when woken. While the coordinator is away nothing changes for the member. Of several coordinators one
//! leads: they are tried in turn, and when the one at hand falls silent the others are asked beside it.
//!
//! Must not know: what a member does with a view.

mod at_hand;
pub(crate) mod backoff;
mod client;
mod lives;
mod look_up;
mod role;
mod search;
mod silence;
mod stream;
#[cfg(test)]
pub(crate) mod tests;

use shorttail_units::{Epoch, Incarnation, NodeId};
use shorttail_wire::control::{
    CONTROL_PROTOCOL_VERSION, ClusterStatus, FromCoordinator, GatewayRegistration, GatewaySession, GatewayWelcome,
    NodeEntry, NodeRegistration, NodeSession, NodeState, NodeWelcome, Refusal, TenureEntry, Terms, ToCoordinator, View,
};

pub(crate) use client::STACK_BYTES;
pub use client::{ControlClient, ControlError, ControlEvent, Obey, Obeyed, Wake};
pub use lives::{fresh_incarnation, fresh_life};
pub use role::{GatewayRole, NodeRole, Role};

use crate::config::{Address, GatewayConfig, GatewayMembership, NodeConfig, NodeMembership, StaticCluster};
use stream::ControlStream;

/// The control client of a node.
pub type NodeControl = ControlClient<NodeRole>;
/// The control client of a gateway.
pub type GatewayControl = ControlClient<GatewayRole>;

/// Says in the log why a member is not let in at present, and what to do.
pub fn log_not_let_in(refusal: &Refusal) {
    let what_to_do = match refusal {
        Refusal::ProtocolVersion(_) => "; start this process, or the coordinator, with the version of the other",
        Refusal::OtherCluster(_) => {
            "; start the coordinator with the metadata of this cluster, or stop this process to give up what it holds"
        }
        Refusal::NodeIdTaken(_) => "; stop one of the two",
        _ => "",
    };
    tracing::error!("the coordinator does not let this process in ({refusal}): it goes on, and asks again{what_to_do}");
}

/// Begins a node's membership. `listening` is the address it really listens on; `session`: what its memory says it is.
pub fn start_node(
    config: &NodeConfig,
    listening: &Address,
    incarnation: Incarnation,
    session: Option<NodeSession>,
    wake: Wake,
    obey: Obey,
) -> NodeControl {
    let (addresses, wanted_id) = match &config.membership {
        NodeMembership::Static { cluster_id, node_id } => {
            let session = NodeSession { cluster_id: *cluster_id, node_id: *node_id };
            return ControlClient::fixed(NodeWelcome { session }, []);
        }
        NodeMembership::Coordinator { addresses, wanted_id } => (addresses.clone(), wanted_id.map(|NodeId(id)| id)),
    };
    let registration = NodeRegistration {
        protocol_version: CONTROL_PROTOCOL_VERSION,
        address: config.advertise.as_ref().unwrap_or(listening).to_string(),
        incarnation,
        pid: std::process::id(),
        memory_limit_bytes: config.memory_bytes,
        core_count: u16::try_from(config.threads).unwrap_or(u16::MAX),
        wanted_id,
        domain: config.domain.clone(),
        allows_chaos: config.allow_chaos,
        session,
    };
    ControlClient::start(addresses, registration, wake, obey)
}

/// Where a gateway really listens, once it does.
#[derive(Clone, Debug, Default)]
pub struct GatewayAddresses {
    pub memcached: Option<String>,
    pub redis: Option<String>,
    pub unix_socket: Option<String>,
    pub admin: Option<String>,
    pub forward: Option<String>,
}

/// Begins a gateway's membership, as this process.
pub fn start_gateway(
    config: &GatewayConfig,
    listening: GatewayAddresses,
    life: u64,
    wake: Wake,
    obey: Obey,
) -> GatewayControl {
    let addresses = match &config.membership {
        GatewayMembership::Static(cluster) => {
            // The incarnation is whatever the node's greeting says, hence 0 here.
            let nodes = cluster.nodes.iter().map(|node| (node.id, Incarnation(0), &node.address));
            let (view, terms) = fixed_view(nodes, cluster.epoch, cluster.partition_count);
            let events = [ControlEvent::View(view), ControlEvent::Terms(vec![terms])];
            return ControlClient::fixed(static_welcome(cluster), events);
        }
        GatewayMembership::Coordinator(addresses) => addresses.clone(),
    };
    let registration = GatewayRegistration {
        protocol_version: CONTROL_PROTOCOL_VERSION,
        pid: std::process::id(),
        life,
        forward: listening.forward,
        memcached: listening.memcached,
        redis: listening.redis,
        redis_advertise: config.redis_advertise.map(|address| address.to_string()),
        unix_socket: listening.unix_socket,
        admin: listening.admin,
        session: None,
    };
    ControlClient::start(addresses, registration, wake, obey)
}

fn static_welcome(cluster: &StaticCluster) -> GatewayWelcome {
    GatewayWelcome {
        session: GatewaySession { cluster_id: cluster.cluster_id, gateway_id: 0 },
        partition_count: cluster.partition_count,
        code: cluster.code,
        node_count_expected: u16::try_from(cluster.nodes.len()).unwrap_or(u16::MAX),
    }
}

/// All nodes as normal, and everything owned by gateway 0. Clients find it where they found it: the view says nothing
/// of its addresses.
pub(crate) fn fixed_view<'a>(
    nodes: impl Iterator<Item = (NodeId, Incarnation, &'a Address)>,
    epoch: Epoch,
    partition_count: u16,
) -> (View, Terms) {
    let entry = |(id, incarnation, address): (NodeId, Incarnation, &Address)| NodeEntry {
        id,
        incarnation,
        address: address.to_string(),
        domain: String::new(),
        state: NodeState::Normal,
        draining: false,
        removed: false,
    };
    let nodes: Vec<_> = nodes.map(entry).collect();
    let node_count_expected = u16::try_from(nodes.len()).unwrap_or(u16::MAX);
    let (tenure, terms) = single_tenure(epoch, partition_count);
    (View { number: 1, node_count_expected, nodes, gateways: Vec::new(), tenures: vec![tenure] }, terms)
}

/// Gateway 0 owns everything, with nothing to prove.
pub(crate) fn single_tenure(epoch: Epoch, partition_count: u16) -> (TenureEntry, Terms) {
    let partitions: Vec<u16> = (0..partition_count).collect();
    let tenure = TenureEntry { epoch, gateway: 0, partitions: partitions.clone() };
    let terms =
        Terms { epoch, number: 1, partitions, voters: [].into(), before: Vec::new(), lets_go: false, prepares: false };
    (tenure, terms)
}

/// A coordinator that begins or ceases to lead ends every connection, that of somebody who asks among them.
const STATUS_TRIES: usize = 3;

/// Asks a coordinator for the status of its cluster over the control protocol.
///
/// # Errors
/// When it cannot be reached or answers something else.
pub fn read_status(coordinator: &Address) -> std::io::Result<ClusterStatus> {
    let mut tries = 1;
    loop {
        match read_status_once(coordinator) {
            Err(error) if is_ended(&error) && tries < STATUS_TRIES => tries += 1,
            told => return told,
        }
    }
}

fn is_ended(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

fn read_status_once(coordinator: &Address) -> std::io::Result<ClusterStatus> {
    let mut stream = ControlStream::connect(coordinator)?;
    stream.send(&ToCoordinator::ReadStatus)?;
    match stream.receive()? {
        FromCoordinator::Status(status) => Ok(*status),
        _ => Err(std::io::Error::other("the coordinator answered something else")),
    }
}
