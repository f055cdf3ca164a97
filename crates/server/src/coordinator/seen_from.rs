//! Where a member is that listens anywhere: the coordinator sees whence it comes.
//!
//! Must not know: what the machine does with it.

use std::net::{IpAddr, SocketAddr};

use shorttail_wire::control::ToCoordinator;

/// Puts the host that the coordinator sees into the address for others, should a registration say "anywhere". A member
/// that comes by an address of a family in which it does not listen cannot be told of.
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

/// The address of who listens at this one and comes from there; `None`: it says where it is.
fn located(address: &str, seen: IpAddr) -> Option<Result<String, NotHeard>> {
    let listening = address.parse::<SocketAddr>().ok().filter(|address| address.ip().is_unspecified())?;
    let seen = seen.to_canonical();
    let is_heard = listening.is_ipv6() || seen.is_ipv4();
    Some(if is_heard { Ok(SocketAddr::new(seen, listening.port()).to_string()) } else { Err(NotHeard) })
}

#[cfg(test)]
mod tests {
    use shorttail_wire::control::{GatewayRegistration, NodeRegistration};

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
