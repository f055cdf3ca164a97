//! Where a gateway is that listens anywhere: the coordinator sees whence it comes.
//!
//! Must not know: what the machine does with it.

use std::net::{IpAddr, SocketAddr};

use shorttail_wire::control::GatewayRegistration;

/// Puts the host that the coordinator sees into the address for other gateways, should that say "anywhere". A gateway
/// that comes by an address of a family in which it does not listen cannot be told of.
pub fn locate(registration: &mut GatewayRegistration, seen: IpAddr) {
    let forward = registration.forward.as_ref().and_then(|address| address.parse::<SocketAddr>().ok());
    let Some(forward) = forward.filter(|address| address.ip().is_unspecified()) else { return };
    let seen = seen.to_canonical();
    let is_heard = forward.is_ipv6() || seen.is_ipv4();
    if !is_heard {
        tracing::warn!(%forward, %seen, "other gateways cannot connect to one that is there: give it --forward-advertise");
    }
    registration.forward = is_heard.then(|| SocketAddr::new(seen, forward.port()).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(forward: &str, seen: &str) -> Option<String> {
        let mut registration = GatewayRegistration {
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
        locate(&mut registration, seen.parse().expect("an address"));
        assert_eq!(registration.redis.as_deref(), Some("0.0.0.0:6379"), "where it listens");
        registration.forward
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
