//! Where a role listens or is reached: TCP or a Unix socket.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use super::limits::COORDINATOR_COUNT_MAX;

/// Longest path of a Unix socket in bytes: `sun_path` of Linux without its final zero.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// `127.0.0.1:7001`, `host:7001`, `unix:/run/n0.sock` or `/run/n0.sock`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Why a text is not an address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AddressError {
    #[error("{0:?} is not an address: write host:port or unix:/path")]
    Malformed(String),
    #[error("{0:?} is not a TCP address: write host:port")]
    NotTcp(String),
    #[error("{0:?} is not a TCP address: write host:port, or off")]
    NotTcpOrOff(String),
    #[error("{0:?} cannot be resolved: {1}")]
    Unresolved(String, String),
    #[error("{0} addresses are more than {COORDINATOR_COUNT_MAX}")]
    TooMany(usize),
    #[error("the socket path {0:?} is longer than {SOCKET_PATH_BYTES_MAX} bytes, which the system does not take")]
    PathTooLong(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let path = text.strip_prefix("unix:").or_else(|| text.starts_with('/').then_some(text));
        match path {
            Some("") => Err(AddressError::Malformed(text.to_owned())),
            Some(path) if path.len() > SOCKET_PATH_BYTES_MAX => Err(AddressError::PathTooLong(path.to_owned())),
            Some(path) => Ok(Address::Unix(PathBuf::from(path))),
            None => parse_tcp_address(text).map(Address::Tcp).map_err(|error| match error {
                AddressError::NotTcp(text) => AddressError::Malformed(text),
                error => error,
            }),
        }
    }
}

/// A TCP address; host names are resolved, IPv4 answers first.
///
/// # Errors
/// When the text has no port or the host is unknown.
pub fn parse_tcp_address(text: &str) -> Result<SocketAddr, AddressError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !host.contains(':') && port.parse::<u16>().is_ok() => {}
        _ => return Err(AddressError::NotTcp(text.to_owned())),
    }
    let unresolved = |why: String| AddressError::Unresolved(text.to_owned(), why);
    let answers = look_up(text).map_err(|error| unresolved(error.to_string()))?;
    answers.first().copied().ok_or_else(|| unresolved("the host has no address".to_owned()))
}

/// Says which addresses `host:port` has.
type Resolver = fn(&str) -> io::Result<Vec<SocketAddr>>;

thread_local! {
    static RESOLVER: Cell<Resolver> = const { Cell::new(ask_system) };
}

fn ask_system(text: &str) -> io::Result<Vec<SocketAddr>> {
    Ok(text.to_socket_addrs()?.collect())
}

/// IPv4 answers first.
fn look_up(text: &str) -> io::Result<Vec<SocketAddr>> {
    let mut answers = RESOLVER.get()(text)?;
    answers.sort_by_key(SocketAddr::is_ipv6);
    Ok(answers)
}

/// Runs `body` on this thread with every host name unknown: any text may be parsed without asking a resolver.
pub fn with_names_unknown<T>(body: impl FnOnce() -> T) -> T {
    with_resolver(|_| Err(io::Error::new(io::ErrorKind::NotFound, "names are not looked up")), body)
}

/// Runs `body` on this thread with this instead of the system's resolver.
pub fn with_resolver<T>(resolver: Resolver, body: impl FnOnce() -> T) -> T {
    let before = RESOLVER.replace(resolver);
    let result = body();
    RESOLVER.set(before);
    result
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Where somebody is reached who may move: a name stays what was said, and its address is what it was last.
#[derive(Clone, Eq, Debug)]
pub struct Place {
    /// The host's name and the port, if it was said so.
    name: Option<String>,
    pub address: Address,
}

impl Place {
    /// All addresses that the name has now. While nobody knows it, the one that it had.
    pub fn look_up(&self) -> Vec<Address> {
        let answers = self.name.as_deref().and_then(|name| look_up(name).ok()).filter(|answers| !answers.is_empty());
        answers.map_or_else(|| vec![self.address.clone()], |answers| answers.into_iter().map(Address::Tcp).collect())
    }
}

/// What was said is the same, wherever it is by now.
impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && (self.name.is_some() || self.address == other.address)
    }
}

impl From<Address> for Place {
    fn from(address: Address) -> Self {
        Place { name: None, address }
    }
}

impl FromStr for Place {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let address: Address = text.parse()?;
        let is_name = matches!(address, Address::Tcp(_)) && text.parse::<SocketAddr>().is_err();
        Ok(Place { name: is_name.then(|| text.to_owned()), address })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} ({})", self.address),
            None => self.address.fmt(f),
        }
    }
}

/// Where one of several that do the same is reached: `ADDR,ADDR...`, at least one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Addresses(pub Vec<Place>);

impl FromStr for Addresses {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let addresses = text.split(',').map(str::parse).collect::<Result<Vec<_>, _>>()?;
        match addresses.len() {
            count if count > COORDINATOR_COUNT_MAX => Err(AddressError::TooMany(count)),
            _ => Ok(Addresses(addresses)),
        }
    }
}

impl From<Address> for Addresses {
    fn from(address: Address) -> Self {
        Addresses(vec![address.into()])
    }
}

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A TCP address to serve, or `off`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionalAddress(pub Option<SocketAddr>);

impl OptionalAddress {
    pub fn loopback(port: u16) -> Self {
        OptionalAddress(Some(([127, 0, 0, 1], port).into()))
    }
}

impl FromStr for OptionalAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text == "off" {
            return Ok(OptionalAddress(None));
        }
        match parse_tcp_address(text) {
            Ok(address) => Ok(OptionalAddress(Some(address))),
            Err(AddressError::NotTcp(text)) => Err(AddressError::NotTcpOrOff(text)),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for OptionalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => address.fmt(f),
            None => f.write_str("off"),
        }
    }
}

impl<'de> Deserialize<'de> for OptionalAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_parses_and_prints_back() {
        for text in ["127.0.0.1:7001", "[::1]:7001", "unix:/run/n0.sock"] {
            assert_eq!(text.parse::<Address>().expect(text).to_string(), text);
        }
        assert_eq!("/run/n0.sock".parse(), Ok(Address::Unix(PathBuf::from("/run/n0.sock"))));
        assert_eq!("localhost:7001".parse(), Ok(Address::Tcp("127.0.0.1:7001".parse().expect("literal"))));
    }

    #[test]
    fn several_addresses_are_separated_by_commas() {
        let both: Addresses = "127.0.0.1:7000,unix:/run/c.sock".parse().expect("well-formed");
        let texts: Vec<String> = both.0.iter().map(Place::to_string).collect();
        assert_eq!(texts, ["127.0.0.1:7000", "unix:/run/c.sock"]);
        assert!("127.0.0.1:7000,".parse::<Addresses>().is_err());
        let many = vec!["/a"; COORDINATOR_COUNT_MAX + 1].join(",");
        assert_eq!(many.parse::<Addresses>(), Err(AddressError::TooMany(COORDINATOR_COUNT_MAX + 1)));
        assert!(vec!["/a"; COORDINATOR_COUNT_MAX].join(",").parse::<Addresses>().is_ok());
    }

    #[test]
    fn a_name_is_looked_up_anew_and_keeps_its_address_while_nobody_knows_it() {
        let at = |text: &str| Address::Tcp(text.parse().expect("literal"));
        let parse = || "coordinator:7000".parse::<Place>();
        let place = with_resolver(|_| Ok(vec![([10, 0, 0, 1], 7000).into()]), parse).expect("it is known");
        assert_eq!(place.to_string(), "coordinator:7000 (10.0.0.1:7000)");
        let elsewhere = with_resolver(|_| Ok(vec![([10, 0, 0, 9], 7000).into()]), parse).expect("it is known");
        assert_eq!(place, elsewhere, "the same was said");
        let moved = |_: &str| Ok(vec![([0, 0, 0, 0, 0, 0, 0, 2], 7000).into(), ([10, 0, 0, 2], 7000).into()]);
        assert_eq!(with_resolver(moved, || place.look_up()), [at("10.0.0.2:7000"), at("[::2]:7000")]);
        assert_eq!(with_names_unknown(|| place.look_up()), [at("10.0.0.1:7000")]);
        assert_eq!(with_resolver(|_| Ok(Vec::new()), || place.look_up()), [at("10.0.0.1:7000")]);
        let literal: Place = "127.0.0.1:7000".parse().expect("well-formed");
        assert_eq!(with_resolver(moved, || literal.look_up()), [at("127.0.0.1:7000")], "nothing to look up");
    }

    #[test]
    fn what_is_not_an_address_says_so() {
        for text in ["", "7001", "host", ":7001", "host:", "host:70000", "::1:x", "unix:"] {
            assert_eq!(text.parse::<Address>(), Err(AddressError::Malformed(text.into())), "{text}");
        }
    }

    #[test]
    fn a_service_can_be_off() {
        assert_eq!("off".parse(), Ok(OptionalAddress(None)));
        assert_eq!("127.0.0.1:0".parse(), Ok(OptionalAddress::loopback(0)));
        // What cannot be written there is not advised.
        for text in ["on", "unix:/run/m.sock", "11211"] {
            let error = text.parse::<OptionalAddress>().expect_err(text).to_string();
            assert!(error.ends_with("is not a TCP address: write host:port, or off"), "{error}");
        }
        assert_eq!(parse_tcp_address("8080"), Err(AddressError::NotTcp("8080".into())));
    }

    #[test]
    fn a_socket_path_has_the_systems_limit() {
        let longest = format!("/{}", "a".repeat(SOCKET_PATH_BYTES_MAX - 1));
        assert!(longest.parse::<Address>().is_ok());
        assert!(matches!(format!("{longest}a").parse::<Address>(), Err(AddressError::PathTooLong(_))));
    }
}
