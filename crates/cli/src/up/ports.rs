//! Is every port to be had? Asked before anything starts.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use anyhow::anyhow;
use shorttail_server::config::UpConfig;

use crate::exit::Failure;

/// # Errors
/// Names the flag, the address and the reason of each port that cannot be listened on.
pub fn check(config: &UpConfig) -> Result<(), Failure> {
    let of_gateway = |place| {
        let (memcached, redis) = config.client_addresses(place);
        [("--memcached", place, memcached), ("--redis", place, redis)]
    };
    let services = (0..config.gateway_count).flat_map(of_gateway).chain([("--admin", 0, config.admin)]);
    let asked = services.filter_map(|(flag, place, address)| Some((flag, place, address?)));
    let problems: Vec<String> = asked.filter_map(|(flag, place, address)| problem(flag, place, address)).collect();
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(anyhow!("{}\nnothing was started", problems.join("\n"))))
}

/// `place`: of the gateway.
fn problem(flag: &str, place: usize, address: SocketAddr) -> Option<String> {
    let error = TcpListener::bind(address).err()?;
    let whose = if place == 0 { "" } else { " (--gateways: each takes the next port)" };
    let why = match error.kind() {
        ErrorKind::AddrInUse => {
            let free = SocketAddr::new(address.ip(), 0);
            format!("the port is taken by another program ({flag} {free} takes any free port, {flag} off none)")
        }
        ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        ErrorKind::PermissionDenied => "the system does not let this user listen there".to_owned(),
        _ => error.to_string(),
    };
    Some(format!("{flag} {address}{whose}: {why}"))
}
