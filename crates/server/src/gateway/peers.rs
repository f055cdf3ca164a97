//! An engine's connections to the nodes: made when it wants them, made again when they break.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use mio::{Registry, Token};
use shorttail_gateway::engine::SessionId;
use shorttail_units::NodeId;
use shorttail_wire::control::{NodeState, View};

use crate::config::Address;
use crate::net::{Link, Shortage, Stream};

/// Tokens of sessions begin here, and end there; those of clients lie below, those of other gateways above.
const SESSION_TOKENS: usize = 1 << 48;
pub const SESSION_TOKENS_END: usize = SESSION_TOKENS + (1 << 48);

/// Microseconds between two attempts to connect to a node: the first follows soon, later ones more slowly.
const RETRY_FIRST_US: u64 = 5_000;
const RETRY_MAX_US: u64 = 500_000;

/// `place`: which of the core's engines.
pub fn token_of(place: u16, session: SessionId) -> Token {
    let session_bits = usize::from(session.node.0) << 16 | usize::from(session.core);
    Token(SESSION_TOKENS + (usize::from(place) << 32 | session_bits))
}

pub fn session_of(token: Token) -> Option<(u16, SessionId)> {
    let number = token.0.checked_sub(SESSION_TOKENS).filter(|_| token.0 < SESSION_TOKENS_END)?;
    Some(((number >> 32) as u16, SessionId { node: NodeId((number >> 16) as u16), core: number as u16 }))
}

/// Nodes that have come, or come back, since the view before: attempts that failed while they were away say nothing.
pub fn nodes_back(before: &View, now: &View) -> BTreeSet<NodeId> {
    let there = |view: &View| -> BTreeSet<_> {
        let there = view.nodes.iter().filter(|node| node.state == NodeState::Normal);
        there.map(|node| (node.id, node.incarnation)).collect()
    };
    there(now).difference(&there(before)).map(|&(id, _)| id).collect()
}

#[derive(Debug, Default)]
pub struct Peers {
    place: u16,
    addresses: BTreeMap<NodeId, Address>,
    pub links: HashMap<SessionId, Link>,
    /// When to try again, and how long to wait after that.
    retries: HashMap<SessionId, (u64, u64)>,
    pub shortage: Shortage,
}

impl Peers {
    pub fn new(place: u16) -> Self {
        Peers { place, ..Peers::default() }
    }

    pub fn place(&self) -> u16 {
        self.place
    }

    /// `is_back`: has a node come, or come back?
    pub fn set_addresses(&mut self, addresses: BTreeMap<NodeId, Address>, is_back: impl Fn(NodeId) -> bool) {
        let known = &self.addresses;
        let is_fresh = |node: NodeId| is_back(node) || addresses.get(&node) != known.get(&node);
        self.retries.retain(|session, _| !is_fresh(session.node));
        self.addresses = addresses;
    }

    /// Connects those of `wanted` that are not connected and whose time has come.
    pub fn connect(&mut self, now_us: u64, wanted: &[SessionId], registry: &Registry) -> Vec<SessionId> {
        let mut connected = Vec::new();
        for &session in wanted {
            let Some(address) = self.addresses.get(&session.node) else { continue };
            let (due_us, wait_us) = self.retries.get(&session).copied().unwrap_or((0, RETRY_FIRST_US));
            if self.links.contains_key(&session) || due_us > now_us {
                continue;
            }
            self.retries.insert(session, (now_us + wait_us, (wait_us * 2).min(RETRY_MAX_US)));
            let link =
                Stream::connect(address).and_then(|stream| Link::new(stream, token_of(self.place, session), registry));
            match link {
                Ok(link) => {
                    self.links.insert(session, link);
                    connected.push(session);
                }
                Err(error) => self.shortage.tell(now_us, &error, format_args!("node {}", session.node.0)),
            }
        }
        connected
    }

    /// Is the node reached without a network?
    pub fn is_local(&self, node: NodeId) -> bool {
        matches!(self.addresses.get(&node), Some(Address::Unix(_)))
    }

    /// The session works: the next loss is met with a quick attempt again.
    pub fn note_alive(&mut self, session: SessionId) {
        if let Some(retry) = self.retries.get_mut(&session) {
            *retry = (0, RETRY_FIRST_US);
        }
    }

    pub fn close(&mut self, session: SessionId, registry: &Registry) {
        if let Some(mut link) = self.links.remove(&session) {
            link.close(registry);
        }
    }

    /// Closes the sessions that the engine has left.
    pub fn close_all_but(&mut self, counts: impl Fn(SessionId) -> bool, registry: &Registry) {
        self.links.extract_if(|&id, _| !counts(id)).for_each(|(_, mut link)| link.close(registry));
    }

    pub fn close_all(&mut self, registry: &Registry) {
        self.links.drain().for_each(|(_, mut link)| link.close(registry));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use mio::Poll;
    use shorttail_units::Incarnation;
    use shorttail_wire::control::NodeEntry;

    use super::*;

    fn view(nodes: &[(u64, NodeState)]) -> View {
        let entry = |(id, &(incarnation, state)): (usize, &(u64, NodeState))| NodeEntry {
            id: NodeId(id as u16),
            incarnation: Incarnation(incarnation),
            address: String::new(),
            domain: String::new(),
            state,
            draining: false,
            removed: false,
        };
        View { nodes: nodes.iter().enumerate().map(entry).collect(), ..View::default() }
    }

    #[test]
    fn who_was_away_or_has_another_memory_is_back() {
        let before =
            view(&[(1, NodeState::Normal), (1, NodeState::Dead), (1, NodeState::Normal), (1, NodeState::Normal)]);
        let now = view(&[(1, NodeState::Normal), (1, NodeState::Normal), (2, NodeState::Normal), (1, NodeState::Dead)]);
        assert_eq!(nodes_back(&before, &now), [NodeId(1), NodeId(2)].into());
        assert_eq!(nodes_back(&View::default(), &before), [NodeId(0), NodeId(2), NodeId(3)].into());
    }

    #[test]
    fn a_node_that_is_back_is_connected_to_at_once_however_long_it_was_away() {
        let poll = Poll::new().expect("an epoll instance");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("node");
        let address: Address = format!("unix:{}", path.display()).parse().expect("an address");
        let session = SessionId { node: NodeId(0), core: 0 };
        let mut peers = Peers::new(0);
        let addresses: BTreeMap<NodeId, Address> = [(session.node, address)].into();
        peers.set_addresses(addresses.clone(), |_| false);
        let mut now_us = 1;
        for _ in 0..10 {
            assert_eq!(peers.connect(now_us, &[session], poll.registry()), []);
            now_us += RETRY_MAX_US;
        }
        assert_eq!(peers.connect(now_us, &[session], poll.registry()), []);
        let _listener = UnixListener::bind(&path).expect("a socket");
        peers.set_addresses(addresses.clone(), |_| false);
        assert_eq!(peers.connect(now_us + 1, &[session], poll.registry()), [], "that was tried a moment ago");
        peers.set_addresses(addresses, |node| node == session.node);
        assert_eq!(peers.connect(now_us + 1, &[session], poll.registry()), [session]);
    }

    #[test]
    fn tokens_name_the_engine_and_its_session() {
        let session = SessionId { node: NodeId(u16::MAX), core: 9 };
        for place in [0, 1, u16::MAX] {
            assert_eq!(session_of(token_of(place, session)), Some((place, session)));
        }
        assert_eq!(session_of(Token(SESSION_TOKENS - 1)), None);
        assert_eq!(session_of(Token(SESSION_TOKENS_END)), None);
    }
}
