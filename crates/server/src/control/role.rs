//! What differs between the control connection of a node and that of a gateway.

use std::time::Duration;

use shorttail_wire::control::{
    FromCoordinator, GatewayRegistration, GatewayStatus, GatewayWelcome, HEARTBEAT_MS, NodeRegistration, NodeStatus,
    NodeWelcome, TenureState, ToCoordinator,
};

/// Between two statuses: usually; while people look on until all is whole or served; while somebody waits for the next
/// one.
const AT_EASE: Duration = Duration::from_millis(HEARTBEAT_MS);
const WATCHED: Duration = Duration::from_millis(25);
pub const HURRIED: Duration = Duration::from_millis(5);

/// Does the coordinator wait for the next one? A tenure that is on its way keeps clients waiting.
pub fn hurries(status: &GatewayStatus) -> bool {
    let waits = |state| !matches!(state, TenureState::Serving | TenureState::Preparing | TenureState::Prepared);
    status.standings.iter().any(|standing| waits(standing.state))
}

/// Is there a tenure of which nobody is sure?
fn is_unproven(status: &GatewayStatus) -> bool {
    status.standings.iter().any(|standing| standing.state == TenureState::Serving && standing.proven_by == 0)
}

/// A kind of member.
pub trait Role: 'static {
    type Registration: Clone + Send + 'static;
    type Welcome: Clone + PartialEq + Send + 'static;
    type Status: Clone + Default + Send + 'static;

    fn register(registration: Self::Registration) -> ToCoordinator;
    fn status(status: Self::Status) -> ToCoordinator;
    /// The next status is sent within so long.
    fn status_within(status: &Self::Status) -> Duration;
    /// The welcome, if the message is one.
    fn welcome(message: FromCoordinator) -> Result<Self::Welcome, FromCoordinator>;
    /// Puts what the welcome gave into the registration, for the next connection.
    fn remember(registration: &mut Self::Registration, welcome: &Self::Welcome);
}

pub enum NodeRole {}

impl Role for NodeRole {
    type Registration = NodeRegistration;
    type Welcome = NodeWelcome;
    type Status = NodeStatus;

    fn register(registration: NodeRegistration) -> ToCoordinator {
        ToCoordinator::RegisterNode(registration)
    }

    fn status(status: NodeStatus) -> ToCoordinator {
        ToCoordinator::NodeStatus(status)
    }

    fn status_within(_: &NodeStatus) -> Duration {
        AT_EASE
    }

    fn welcome(message: FromCoordinator) -> Result<NodeWelcome, FromCoordinator> {
        match message {
            FromCoordinator::NodeRegistered(welcome) => Ok(welcome),
            other => Err(other),
        }
    }

    fn remember(registration: &mut NodeRegistration, welcome: &NodeWelcome) {
        registration.session = Some(welcome.session);
    }
}

pub enum GatewayRole {}

impl Role for GatewayRole {
    type Registration = GatewayRegistration;
    type Welcome = GatewayWelcome;
    type Status = GatewayStatus;

    fn register(registration: GatewayRegistration) -> ToCoordinator {
        ToCoordinator::RegisterGateway(registration)
    }

    fn status(status: GatewayStatus) -> ToCoordinator {
        ToCoordinator::GatewayStatus(status)
    }

    fn status_within(status: &GatewayStatus) -> Duration {
        match () {
            () if hurries(status) => HURRIED,
            () if status.totals.chunks_missing > 0 || is_unproven(status) => WATCHED,
            () => AT_EASE,
        }
    }

    fn welcome(message: FromCoordinator) -> Result<GatewayWelcome, FromCoordinator> {
        match message {
            FromCoordinator::GatewayRegistered(welcome) => Ok(welcome),
            other => Err(other),
        }
    }

    fn remember(registration: &mut GatewayRegistration, welcome: &GatewayWelcome) {
        registration.session = Some(welcome.session);
    }
}
