//! Where a role listens or is reached: TCP or a Unix socket.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use super::by_text;
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
    /// It may be known later: a name service can start after its clients.
    #[error("{0:?} cannot be resolved now: {1}")]
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
            None => parse_tcp_address(text).map(Address::Tcp).map_err(of_any_kind),
        }
    }
}

/// What is wrong where a path may be said as well.
fn of_any_kind(error: AddressError) -> AddressError {
    match error {
        AddressError::NotTcp(text) => AddressError::Malformed(text),
        error => error,
    }
}

/// A TCP address; host names are resolved, IPv4 answers first.
///
/// # Errors
/// When the text has no port or the host is unknown.
pub fn parse_tcp_address(text: &str) -> Result<SocketAddr, AddressError> {
    Ok(resolve(text)?[0])
}

/// Is it a TCP address, whether or not its host is known now?
///
/// # Errors
/// If not.
pub fn check_tcp_address(text: &str) -> Result<(), AddressError> {
    match text.rsplit_once(':') {
        _ if text.parse::<SocketAddr>().is_ok() => Ok(()),
        Some((host, port)) if !host.is_empty() && !host.contains(':') && port.parse::<u16>().is_ok() => Ok(()),
        _ => Err(AddressError::NotTcp(text.to_owned())),
    }
}

/// All addresses of a host, at least one; IPv4 first.
///
/// # Errors
/// As of [`parse_tcp_address`].
pub fn resolve(text: &str) -> Result<Vec<SocketAddr>, AddressError> {
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    check_tcp_address(text)?;
    let unresolved = |why: String| AddressError::Unresolved(text.to_owned(), why);
    let answers = look_up(text).map_err(|error| unresolved(error.to_string()))?;
    if answers.is_empty() { Err(unresolved("the host has no address".to_owned())) } else { Ok(answers) }
}

/// Says which addresses `host:port` has.
pub type Resolver = fn(&str) -> io::Result<Vec<SocketAddr>>;

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

/// The one of this thread.
pub fn resolver() -> Resolver {
    RESOLVER.get()
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

by_text!(Address);

/// Where somebody is reached who may move, or who is one of several: a name stays what was said, and its address is the
/// one that was used last.
#[derive(Clone, Eq, Debug)]
pub struct NamedAddress {
    /// The host's name and the port, if it was said so.
    name: Option<String>,
    pub address: Address,
    /// All addresses that the name had when it was known last.
    known: Vec<Address>,
}

impl NamedAddress {
    /// The other addresses of the name, beginning after the one that was used last.
    pub fn others(&self) -> Vec<Address> {
        let begin = self.known.iter().position(|address| *address == self.address).map_or(0, |at| at + 1);
        let all = self.known[begin..].iter().chain(&self.known[..begin]);
        all.filter(|address| **address != self.address).cloned().collect()
    }

    fn look_up(&mut self) {
        let answers = self.name.as_deref().and_then(|name| look_up(name).ok()).unwrap_or_default();
        if !answers.is_empty() {
            self.known = addresses_of(answers);
        }
    }
}

fn addresses_of(answers: Vec<SocketAddr>) -> Vec<Address> {
    answers.into_iter().map(Address::Tcp).take(COORDINATOR_COUNT_MAX).collect()
}

/// What was said is the same, wherever it is by now.
impl PartialEq for NamedAddress {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && (self.name.is_some() || self.address == other.address)
    }
}

impl From<Address> for NamedAddress {
    fn from(address: Address) -> Self {
        NamedAddress { name: None, address, known: Vec::new() }
    }
}

impl FromStr for NamedAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let is_path = text.starts_with("unix:") || text.starts_with('/');
        if is_path || text.parse::<SocketAddr>().is_ok() {
            return Ok(text.parse::<Address>()?.into());
        }
        let known = addresses_of(resolve(text).map_err(of_any_kind)?);
        Ok(NamedAddress { name: Some(text.to_owned()), address: known[0].clone(), known })
    }
}

impl fmt::Display for NamedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} ({})", self.address),
            None => self.address.fmt(f),
        }
    }
}

/// Where one of several that do the same is reached: `ADDR,ADDR...`, at least one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Addresses(pub Vec<NamedAddress>);

impl Addresses {
    pub fn have_names(&self) -> bool {
        self.0.iter().any(|place| place.name.is_some())
    }

    /// Looks all names up anew, however long that takes. One that nobody knows keeps the addresses that it had.
    pub fn look_up(&mut self) {
        self.0.iter_mut().for_each(NamedAddress::look_up);
    }

    /// Takes over what somebody else found who looked up the same.
    pub fn take_known(&mut self, found: Addresses) {
        self.0.iter_mut().zip(found.0).for_each(|(place, found)| place.known = found.known);
    }
}

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

by_text!(Addresses);

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

by_text!(OptionalAddress);

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
        let texts: Vec<String> = both.0.iter().map(NamedAddress::to_string).collect();
        assert_eq!(texts, ["127.0.0.1:7000", "unix:/run/c.sock"]);
        assert!("127.0.0.1:7000,".parse::<Addresses>().is_err());
        let many = vec!["/a"; COORDINATOR_COUNT_MAX + 1].join(",");
        assert_eq!(many.parse::<Addresses>(), Err(AddressError::TooMany(COORDINATOR_COUNT_MAX + 1)));
        assert!(vec!["/a"; COORDINATOR_COUNT_MAX].join(",").parse::<Addresses>().is_ok());
    }

    #[test]
    fn a_name_is_looked_up_anew_and_keeps_its_address_while_nobody_knows_it() {
        let at = |text: &str| Address::Tcp(text.parse().expect("literal"));
        let parse = || "coordinator:7000".parse::<NamedAddress>();
        let place = with_resolver(|_| Ok(vec![([10, 0, 0, 1], 7000).into()]), parse).expect("it is known");
        assert_eq!(place.to_string(), "coordinator:7000 (10.0.0.1:7000)");
        let elsewhere = with_resolver(|_| Ok(vec![([10, 0, 0, 9], 7000).into()]), parse).expect("it is known");
        assert_eq!(place, elsewhere, "the same was said");
        let moved = |_: &str| Ok(vec![([0, 0, 0, 0, 0, 0, 0, 2], 7000).into(), ([10, 0, 0, 2], 7000).into()]);
        let others = |resolver: Resolver, mut place: NamedAddress| {
            with_resolver(resolver, || place.look_up());
            place.others()
        };
        let moved_to = [at("10.0.0.2:7000"), at("[::2]:7000")];
        assert_eq!(others(moved, place.clone()), moved_to);
        let at_second = NamedAddress { address: moved_to[0].clone(), ..place.clone() };
        assert_eq!(others(moved, at_second), moved_to[1..]);
        assert_eq!(others(|_| Ok(Vec::new()), place.clone()), []);
        assert_eq!(with_names_unknown(|| others(resolver(), place)), []);
        let literal: NamedAddress = "127.0.0.1:7000".parse().expect("well-formed");
        assert_eq!(others(moved, literal), [], "nothing to look up");
    }

    #[test]
    fn all_addresses_of_a_name_have_their_turn() {
        let at = |host: u8| Address::Tcp(([10, 0, 0, host], 7000).into());
        let answers = |_: &str| Ok((0..100).map(|host| ([10, 0, 0, host], 7000).into()).collect());
        let mut place = with_resolver(answers, || "coordinator:7000".parse::<NamedAddress>()).expect("it is known");
        assert_eq!((place.others().len(), &place.others()[0]), (COORDINATOR_COUNT_MAX - 1, &at(1)));
        place.address = at(5);
        assert_eq!((&place.others()[0], place.others().last()), (&at(6), Some(&at(4))));
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
