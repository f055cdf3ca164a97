//! Where to listen: `-l` and `-p`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use shorttail_server::config::limits::LISTENER_COUNT_MAX;
use shorttail_server::config::parse_tcp_address;

use super::{EX_OSERR, EX_USAGE, Refusal};

/// Port of `-p`: 0 means no TCP at all, below 0 any free port.
pub fn addresses(lists: &[String], port: i64) -> Result<Vec<SocketAddr>, Refusal> {
    if port == 0 {
        return Ok(Vec::new());
    }
    if lists.is_empty() {
        return Ok(vec![SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), bindable(port)?)]);
    }
    let mut addresses = Vec::new();
    for entry in lists.iter().flat_map(|list| list.split([',', ';'])).filter(|entry| !entry.is_empty()) {
        let address = parse_entry(entry, port)?;
        // Given twice is given once, unless any port is meant.
        if address.port() == 0 || !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    match addresses.len() {
        ..=LISTENER_COUNT_MAX => Ok(addresses),
        count => Err(Refusal::new(EX_USAGE, format!("-l: {count} addresses, at most {LISTENER_COUNT_MAX} are served"))),
    }
}

/// `host`, `host:port`, `[v6]:port`, each perhaps behind `proto[ascii]:` and `tag[name]:`.
fn parse_entry(entry: &str, port: i64) -> Result<SocketAddr, Refusal> {
    for tls in ["notls", "btls", "mtls"] {
        if entry.starts_with(tls) {
            return Err(Refusal::new(EX_USAGE, format!("'{tls}' option is valid only when SSL is enabled")));
        }
    }
    let entry = strip_tag(strip_protocol(entry)?)?;
    let (host, own_port) = split_port(entry)?;
    let port = match own_port {
        Some(text) => text.parse().map_err(|_| Refusal::new(EX_USAGE, format!("Invalid port number: \"{text}\"")))?,
        None => port,
    };
    resolve(host, bindable(port)?)
}

fn strip_protocol(entry: &str) -> Result<&str, Refusal> {
    let Some((name, rest)) = bracketed(entry, "proto") else { return Ok(entry) };
    match name {
        "ascii" | "negotiating" => Ok(rest),
        _ => Err(Refusal::new(EX_USAGE, format!("Invalid protocol spec: \"{name}\": only ascii is served"))),
    }
}

fn strip_tag(entry: &str) -> Result<&str, Refusal> {
    let Some((tag, rest)) = bracketed(entry, "tag") else { return Ok(entry) };
    match tag.len() {
        1..=8 => Ok(rest),
        _ => Err(Refusal::new(EX_USAGE, format!("Listener tags must be between 1 and 8 characters: \"{tag}\""))),
    }
}

/// `word[name]:rest` or `word_name_:rest`.
fn bracketed<'a>(entry: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let rest = entry.strip_prefix(word)?;
    let (name, rest) = match rest.chars().next()? {
        '[' => rest[1..].split_once(']')?,
        '_' => rest[1..].split_once('_')?,
        _ => return None,
    };
    Some((name, rest.strip_prefix(':').unwrap_or(rest)))
}

fn split_port(entry: &str) -> Result<(&str, Option<&str>), Refusal> {
    if let Some(rest) = entry.strip_prefix('[') {
        let (host, after) =
            rest.split_once(']').ok_or_else(|| Refusal::new(EX_USAGE, format!("Invalid IPV6 address: \"{entry}\"")))?;
        return Ok((host, after.strip_prefix(':')));
    }
    match entry.split_once(':') {
        // More than one colon is an IPv6 address without a port.
        Some((host, port)) if !port.contains(':') => Ok((host, Some(port))),
        _ => Ok((entry, None)),
    }
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, Refusal> {
    if host == "*" || host.is_empty() {
        return Ok(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port));
    }
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    parse_tcp_address(&format!("{host}:{port}"))
        .map_err(|error| Refusal::new(EX_OSERR, format!("failed to listen on one of interface(s) {host}: {error}")))
}

/// Below 0 means any free port, which the system calls 0.
fn bindable(port: i64) -> Result<u16, Refusal> {
    let port = port.max(0);
    u16::try_from(port).map_err(|_| Refusal::new(EX_USAGE, format!("ERROR: Invalid port number {port}.")))
}
