//! An engine's connections to the nodes: made when it wants them, made again when they break.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use mio::{Registry, Token};
use shorttail_gateway::engine::SessionId;
use shorttail_units::NodeId;

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

    pub fn set_addresses(&mut self, addresses: BTreeMap<NodeId, Address>) {
        for (node, address) in &addresses {
            if self.addresses.get(node) != Some(address) {
                // A new address deserves a fresh attempt.
                self.retries.retain(|session, _| session.node != *node);
            }
        }
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
    use super::*;

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
