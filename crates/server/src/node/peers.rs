//! A core's connections to other nodes: what it fetches there to rebuild chunks.
//!
//! Connections are made when the machine wants them. One that fails is reported and forgotten: the machine wants it again
//! if an owner orders again.
//!
//! Must not know: what the messages mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use mio::{Registry, Token};
use shorttail_node::{Node, PeerId};
use shorttail_units::{NodeId, Now};

use crate::config::Address;
use crate::net::{Link, ReadEnd, Stream};

/// Where nodes listen.
pub type Addresses = Arc<BTreeMap<NodeId, Address>>;

/// Tokens of connections to other nodes begin here; those of sessions lie below.
const PEER_TOKENS: usize = 1 << 48;

fn token_of(peer: PeerId) -> Token {
    Token(PEER_TOKENS + usize::from(peer.node.0) * (1 << 16) + usize::from(peer.core))
}

pub fn peer_of(token: Token) -> Option<PeerId> {
    let number = token.0.checked_sub(PEER_TOKENS)?;
    Some(PeerId { node: NodeId((number >> 16) as u16), core: number as u16 })
}

#[derive(Debug, Default)]
pub struct Peers {
    pub addresses: Addresses,
    links: HashMap<PeerId, Link>,
}

impl Peers {
    /// Takes what another node sent.
    pub fn read(&mut self, now: Now, peer: PeerId, node: &mut Node, scratch: &mut [u8], registry: &Registry) {
        loop {
            let Some(link) = self.links.get_mut(&peer) else { return };
            let mut failure = None;
            let end = link.read(scratch, |input| {
                node.handle_peer_input(now, peer, input).unwrap_or_else(|error| {
                    failure = Some(error);
                    input.len()
                })
            });
            match (failure, end) {
                (None, ReadEnd::Drained) => return,
                (None, ReadEnd::Paused) => {}
                (failure, _) => {
                    tracing::debug!(node = peer.node.0, ?failure, "a connection to another node ended");
                    return self.close(peer, node, registry);
                }
            }
        }
    }

    /// Connects what the machine wants and sends what it has to say.
    pub fn write(&mut self, node: &mut Node, registry: &Registry) {
        for peer in node.wanted_peers().collect::<Vec<_>>() {
            let is_there = self.links.contains_key(&peer) || self.connect(peer, registry);
            let link = self.links.get_mut(&peer).filter(|_| is_there);
            let output = node.poll_peer_output(peer);
            let is_sent = link.is_some_and(|link| output.is_none_or(|output| link.write(output, registry).is_ok()));
            if !is_sent {
                self.close(peer, node, registry);
            }
        }
    }

    fn connect(&mut self, peer: PeerId, registry: &Registry) -> bool {
        let Some(address) = self.addresses.get(&peer.node) else { return false };
        match Stream::connect(address).and_then(|stream| Link::new(stream, token_of(peer), registry)) {
            Ok(link) => {
                self.links.insert(peer, link);
                true
            }
            Err(error) => {
                tracing::debug!(node = peer.node.0, %error, "cannot connect to another node");
                false
            }
        }
    }

    fn close(&mut self, peer: PeerId, node: &mut Node, registry: &Registry) {
        if let Some(mut link) = self.links.remove(&peer) {
            link.close(registry);
        }
        node.handle_peer_closed(peer);
    }
}
