//! Where Redis clients of this gateway are told that a gateway is.
//!
//! ```text
//! listens on, or advertises      told
//! one host                       this one
//! 127.0.0.1                      this one, of a gateway on this machine
//! anywhere                       the host under which other gateways reach it; of one on this machine that others reach
//!                                without a host of its own (Unix socket, 127.0.0.1), the host by which the client came
//! ```
//!
//! Of what no client could reach, or only one of another machine, no place is told: this gateway passes requests on.
//!
//! Must not know: who owns what, what clients ask.

use std::net::{IpAddr, SocketAddr};

use shorttail_gateway::topology::ClientAddress;
use shorttail_wire::control::GatewayEntry;

use crate::config::Address;

/// Under which host other gateways reach one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reach {
    /// Only those on its machine do.
    Machine,
    Host(IpAddr),
}

/// `None`: nobody reaches it.
fn reach_of(gateway: &GatewayEntry) -> Option<Reach> {
    match gateway.forward.as_ref()?.parse().ok()? {
        Address::Tcp(address) if address.ip().is_unspecified() => None,
        Address::Tcp(address) if !address.ip().to_canonical().is_loopback() => Some(Reach::Host(address.ip())),
        Address::Tcp(_) | Address::Unix(_) => Some(Reach::Machine),
    }
}

/// Where clients of the gateway `here` find `gateway`; `None`: nowhere.
pub fn place_of(here: &GatewayEntry, gateway: &GatewayEntry) -> Option<ClientAddress> {
    let address: SocketAddr = gateway.redis.as_ref()?.parse().ok()?;
    let (ip, reach) = (address.ip(), reach_of(gateway));
    let is_here = gateway.id == here.id || reach.is_some() && reach == reach_of(here);
    let host = match reach {
        _ if ip.is_unspecified() && gateway.id == here.id => String::new(),
        Some(Reach::Host(host)) if ip.is_unspecified() => host.to_string(),
        Some(Reach::Machine) if ip.is_unspecified() && is_here => String::new(),
        _ if ip.is_unspecified() || ip.is_loopback() && !is_here => return None,
        _ => ip.to_string(),
    };
    Some(ClientAddress { host, port: address.port() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(id: u16, forward: &str, redis: &str) -> GatewayEntry {
        let told = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        GatewayEntry { id, is_alive: true, forward: told(forward), redis: told(redis), ..GatewayEntry::default() }
    }

    /// What clients of a gateway that is reached so are told of another one.
    fn told(here: &str, forward: &str, redis: &str) -> Option<String> {
        let place = place_of(&gateway(1, here, "0.0.0.0:6379"), &gateway(2, forward, redis))?;
        Some(format!("{}:{}", place.host, place.port))
    }

    #[test]
    fn one_that_listens_anywhere_is_told_where_other_gateways_reach_it() {
        let here = "10.0.0.7:7200";
        for redis in ["0.0.0.0:6380", "[::]:6380"] {
            assert_eq!(told(here, "10.0.0.8:7200", redis).as_deref(), Some("10.0.0.8:6380"));
            assert_eq!(told(here, "10.0.0.7:7201", redis).as_deref(), Some("10.0.0.7:6380"), "also on this machine");
            for nowhere in ["127.0.0.1:7200", "unix:/run/g2", "0.0.0.0:7200", ""] {
                assert_eq!(told(here, nowhere, redis), None, "{nowhere:?} is another machine's, or nowhere");
            }
        }
        assert_eq!(told(here, "10.0.0.8:7200", "10.1.0.8:6380").as_deref(), Some("10.1.0.8:6380"), "as it says");
        assert_eq!(told(here, "", "10.1.0.8:6380").as_deref(), Some("10.1.0.8:6380"));
        assert_eq!(told(here, "10.0.0.8:7200", ""), None);
    }

    #[test]
    fn what_only_its_own_machine_reaches_is_told_to_clients_of_that_machine() {
        for (here, forward) in [("unix:/run/g1", "unix:/run/g2"), ("127.0.0.1:7200", "[::1]:7201")] {
            assert_eq!(told(here, forward, "0.0.0.0:6380").as_deref(), Some(":6380"), "the host by which they came");
            assert_eq!(told(here, forward, "127.0.0.1:6380").as_deref(), Some("127.0.0.1:6380"));
        }
        assert_eq!(told("10.0.0.7:7200", "10.0.0.7:7201", "127.0.0.1:6380").as_deref(), Some("127.0.0.1:6380"));
        assert_eq!(told("10.0.0.7:7200", "10.0.0.8:7200", "127.0.0.1:6380"), None);
    }

    #[test]
    fn of_itself_a_gateway_tells_what_it_says_or_the_host_by_which_the_client_came() {
        for forward in ["", "unix:/run/g1", "10.0.0.7:7200"] {
            for (redis, host) in
                [("0.0.0.0:6379", ""), ("127.0.0.1:6379", "127.0.0.1"), ("192.0.2.1:6379", "192.0.2.1")]
            {
                let me = gateway(1, forward, redis);
                assert_eq!(
                    place_of(&me, &me),
                    Some(ClientAddress { host: host.into(), port: 6379 }),
                    "{forward} {redis}"
                );
            }
        }
    }
}
