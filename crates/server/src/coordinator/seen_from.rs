//! Where a member is that listens anywhere: the coordinator sees whence it comes.
//!
//! Must not know: what the machine does with it.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use shorttail_units::NodeId;
use shorttail_wire::control::{NodeState, ToCoordinator, View};

/// Nodes that are told to others as on the coordinator's machine although there are others elsewhere: it is said once
/// of each.
#[derive(Debug, Default)]
pub struct Hidden(BTreeSet<NodeId>);

impl Hidden {
    pub fn warn_of(&mut self, view: &View) {
        let hidden = hidden(view);
        for id in hidden.difference(&self.0) {
            tracing::warn!(
                node = id.0,
                "nodes and gateways elsewhere cannot connect to a node that is seen from the coordinator's own machine: give it --advertise"
            );
        }
        self.0 = hidden;
    }
}

fn hidden(view: &View) -> BTreeSet<NodeId> {
    let nodes = view.nodes.iter().filter(|node| node.state != NodeState::Retired);
    let places = nodes.filter_map(|node| Some((node.id, node.address.parse::<SocketAddr>().ok()?.ip())));
    let (here, elsewhere): (Vec<_>, Vec<_>) = places.partition(|(_, host)| host.is_loopback());
    if elsewhere.is_empty() { BTreeSet::new() } else { here.into_iter().map(|(id, _)| id).collect() }
}

/// Puts the host that the coordinator sees into the address for others, should a registration say "anywhere". What
/// comes from the coordinator's own machine goes on to say so: what is seen there is of no use elsewhere. A member that
/// comes by an address of a family in which it does not listen cannot be told of.
pub fn locate(message: &mut ToCoordinator, seen: IpAddr) {
    match message {
        ToCoordinator::RegisterNode(node) => match located(&node.address, seen) {
            Some(Ok(address)) => node.address = address,
            Some(Err(NotHeard)) => {
                tracing::warn!(address = node.address, %seen, "nobody can connect to a node that is there: give it --advertise");
            }
            None => {}
        },
        ToCoordinator::RegisterGateway(gateway) => {
            let Some(forward) = &gateway.forward else { return };
            match located(forward, seen) {
                Some(Ok(address)) => gateway.forward = Some(address),
                Some(Err(NotHeard)) => {
                    tracing::warn!(forward, %seen, "other gateways cannot connect to one that is there: give it --forward-advertise");
                    gateway.forward = None;
                }
                None => {}
            }
        }
        _ => {}
    }
}

/// It does not listen where it comes from.
struct NotHeard;

/// The address of who listens at this one and comes from there; `None`: it says where it is, or is on this machine.
fn located(address: &str, seen: IpAddr) -> Option<Result<String, NotHeard>> {
    let listening = address.parse::<SocketAddr>().ok().filter(|address| address.ip().is_unspecified())?;
    let seen = seen.to_canonical();
    if seen.is_loopback() {
        return None;
    }
    let is_heard = listening.is_ipv6() || seen.is_ipv4();
    Some(if is_heard { Ok(SocketAddr::new(seen, listening.port()).to_string()) } else { Err(NotHeard) })
}

#[cfg(test)]
mod tests {
    use shorttail_units::Incarnation;
    use shorttail_wire::control::{GatewayRegistration, NodeEntry, NodeRegistration};

    use super::*;
    use crate::control::tests::registration;

    fn told(forward: &str, seen: &str) -> Option<String> {
        let registration = GatewayRegistration {
            protocol_version: 0,
            pid: 1,
            life: 1,
            forward: Some(forward.into()),
            memcached: None,
            redis: Some("0.0.0.0:6379".into()),
            redis_advertise: None,
            unix_socket: None,
            admin: None,
            session: None,
        };
        let mut message = ToCoordinator::RegisterGateway(registration);
        locate(&mut message, seen.parse().expect("an address"));
        let ToCoordinator::RegisterGateway(registration) = message else { unreachable!("it is one") };
        assert_eq!(registration.redis.as_deref(), Some("0.0.0.0:6379"), "where it listens");
        registration.forward
    }

    fn node_told(address: &str, seen: &str) -> String {
        let mut message = ToCoordinator::RegisterNode(NodeRegistration { address: address.into(), ..registration(1) });
        locate(&mut message, seen.parse().expect("an address"));
        let ToCoordinator::RegisterNode(registration) = message else { unreachable!("it is one") };
        registration.address
    }

    #[test]
    fn a_node_that_listens_anywhere_is_where_it_comes_from() {
        assert_eq!(node_told("0.0.0.0:7001", "10.0.0.7"), "10.0.0.7:7001");
        assert_eq!(node_told("[::]:7001", "::ffff:10.0.0.7"), "10.0.0.7:7001");
        for address in ["10.0.0.8:7001", "unix:/run/n.sock", "127.0.0.1:7001"] {
            assert_eq!(node_told(address, "10.0.0.7"), address);
        }
    }

    #[test]
    fn what_comes_from_the_coordinators_machine_goes_on_to_say_that_it_listens_anywhere() {
        for seen in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(node_told("0.0.0.0:7001", seen), "0.0.0.0:7001");
            assert_eq!(told("[::]:7200", seen).as_deref(), Some("[::]:7200"));
        }
    }

    #[test]
    fn nodes_on_the_coordinators_machine_are_hidden_from_others_elsewhere() {
        let at = |id: u16, address: &str, state: NodeState| NodeEntry {
            id: NodeId(id),
            incarnation: Incarnation(1),
            address: address.into(),
            domain: String::new(),
            state,
            draining: false,
            removed: false,
        };
        let (here, path) = (at(0, "127.0.0.1:7001", NodeState::Normal), at(1, "unix:/run/n.sock", NodeState::Normal));
        let hidden = |third: NodeEntry| {
            let nodes = vec![here.clone(), path.clone(), third];
            hidden(&View { number: 1, node_count_expected: 3, nodes, gateways: Vec::new(), tenures: Vec::new() })
        };
        assert_eq!(hidden(at(2, "10.0.0.7:7001", NodeState::Normal)), [NodeId(0)].into());
        assert_eq!(hidden(at(2, "10.0.0.7:7001", NodeState::Retired)), [].into());
        assert_eq!(hidden(at(2, "[::1]:7001", NodeState::Normal)), [].into());
    }

    #[test]
    fn a_gateway_that_listens_anywhere_is_where_it_comes_from() {
        assert_eq!(told("0.0.0.0:7200", "10.0.0.7").as_deref(), Some("10.0.0.7:7200"));
        assert_eq!(told("0.0.0.0:7200", "::ffff:10.0.0.7").as_deref(), Some("10.0.0.7:7200"));
        assert_eq!(told("[::]:7200", "10.0.0.7").as_deref(), Some("10.0.0.7:7200"));
        assert_eq!(told("[::]:7200", "2001:db8::7").as_deref(), Some("[2001:db8::7]:7200"));
        assert_eq!(told("0.0.0.0:7200", "2001:db8::7"), None, "it does not listen there");
    }

    #[test]
    fn what_a_gateway_says_of_itself_stays() {
        for forward in ["10.0.0.8:7200", "unix:/run/g.sock", "127.0.0.1:7200"] {
            assert_eq!(told(forward, "10.0.0.7").as_deref(), Some(forward));
        }
    }
}
