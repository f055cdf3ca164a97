//! What differs between the control connection of a node and that of a gateway.

use std::time::Duration;

use shorttail_wire::control::{
    FromCoordinator, GatewayRegistration, GatewayStatus, GatewayWelcome, HEARTBEAT_MS, HURRIED_MS, NodeRegistration,
    NodeStatus, NodeWelcome, ToCoordinator,
};

/// Between two statuses at first, while somebody waits for the next one.
pub const HURRIED: Duration = Duration::from_millis(HURRIED_MS);

/// A kind of member.
pub trait Role: 'static {
    type Registration: Clone + Send + 'static;
    type Welcome: Clone + PartialEq + Send + 'static;
    type Status: Clone + Default + Send + 'static;

    fn register(registration: Self::Registration) -> ToCoordinator;
    fn status(status: Self::Status) -> ToCoordinator;
    /// Until the next status is sent, if this one came so long after the last.
    fn next_within(status: &Self::Status, last: Duration) -> Duration;
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

    fn next_within(_: &NodeStatus, last: Duration) -> Duration {
        (2 * last).min(Duration::from_millis(HEARTBEAT_MS))
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

    fn next_within(status: &GatewayStatus, last: Duration) -> Duration {
        Duration::from_micros(status.next_within_us(last.as_micros() as u64))
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
