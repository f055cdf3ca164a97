//! A core's connections to other nodes: what it fetches there to rebuild chunks.
//!
//! Connections are made when the machine wants them. One that fails is reported and forgotten: the machine wants it
//! again if an owner orders again.
//!
//! Must not know: what the messages mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use mio::event::Event;
use mio::{Registry, Token};
use shorttail_node::{PeerId, Rebuilds};
use shorttail_units::NodeId;

use crate::config::Address;
use crate::net::{Intake, Link, ReadEnd, Stream};

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
    links: HashMap<PeerId, (Link, Intake)>,
}

impl Peers {
    /// Takes what another node sent.
    pub fn read(&mut self, peer: PeerId, event: &Event, rebuilds: &mut Rebuilds, registry: &Registry) {
        if let Some((link, _)) = self.links.get_mut(&peer) {
            link.note(event);
        }
        loop {
            let Some((link, intake)) = self.links.get_mut(&peer) else { return };
            let mut failure = None;
            let end = link.read_large(intake, |input| {
                rebuilds.handle_input(peer, input).unwrap_or_else(|error| {
                    failure = Some(error);
                    input.len()
                })
            });
            match (failure, end) {
                (None, ReadEnd::Drained) => return,
                (None, ReadEnd::Paused) => {}
                (failure, _) => {
                    tracing::debug!(node = peer.node.0, ?failure, "a connection to another node ended");
                    return self.close(peer, rebuilds, registry);
                }
            }
        }
    }

    /// Connects what is wanted, closes what is not, and sends what there is to say.
    pub fn write(&mut self, rebuilds: &mut Rebuilds, registry: &Registry) {
        let wanted: Vec<PeerId> = rebuilds.peers().collect();
        for (_, (mut link, _)) in self.links.extract_if(|peer, _| wanted.binary_search(peer).is_err()) {
            link.close(registry);
        }
        for peer in wanted {
            let is_there = self.links.contains_key(&peer) || self.connect(peer, registry);
            let link = self.links.get_mut(&peer).filter(|_| is_there);
            let output = rebuilds.output(peer);
            let is_sent =
                link.is_some_and(|(link, _)| output.is_none_or(|output| link.write(output, registry).is_ok()));
            if !is_sent {
                self.close(peer, rebuilds, registry);
            }
        }
        if rebuilds.is_idle() {
            self.links.values_mut().for_each(|(_, intake)| intake.trim());
        }
    }

    /// Is it reached in a way that only leads to this machine?
    pub fn is_near(&self, peer: PeerId) -> bool {
        matches!(self.addresses.get(&peer.node), Some(Address::Unix(_)))
    }

    fn connect(&mut self, peer: PeerId, registry: &Registry) -> bool {
        let Some(address) = self.addresses.get(&peer.node) else { return false };
        match Stream::connect(address).and_then(|stream| Link::new(stream, token_of(peer), registry)) {
            Ok(link) => {
                self.links.insert(peer, (link, Intake::default()));
                true
            }
            Err(error) => {
                tracing::debug!(node = peer.node.0, %error, "cannot connect to another node");
                false
            }
        }
    }

    fn close(&mut self, peer: PeerId, rebuilds: &mut Rebuilds, registry: &Registry) {
        if let Some((mut link, _)) = self.links.remove(&peer) {
            link.close(registry);
        }
        rebuilds.handle_closed(peer);
    }
}
