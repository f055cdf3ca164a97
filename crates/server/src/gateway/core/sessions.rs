//! Sessions of a core's engines with nodes: connected as engines want them, read, written once a turn, closed when a
//! node is gone, given up, hangs or sends nonsense.
//!
//! Must not know: what engines and nodes tell each other, clients, other gateways.

use std::io;

use mio::event::Event;
use shorttail_gateway::engine::{Engine, NearOffer, SessionId};
use shorttail_units::Now;

use super::Core;
use crate::gateway::peers::Peers;
use crate::gateway::tenures::Tenure;
use crate::near;
use crate::net::{ReadEnd, Shortage};

/// What is written to nodes before clients have their replies, and what afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Until {
    /// What clients wait for: nodes are to begin with it.
    Clients,
    /// The rest, too: a node that wakes for it may take the processor at once.
    End,
}

impl Core {
    pub(super) fn note_session_event(&mut self, place: u16, id: SessionId, event: &Event) {
        let tenure = self.exchange.tenures.of_place(place);
        if let Some(link) = tenure.and_then(|tenure| tenure.peers.links.get_mut(&id)) {
            link.note(event);
        }
    }

    pub(super) fn read_session(&mut self, place: u16, id: SessionId) {
        let Some(Tenure { engine, peers, .. }) = self.exchange.tenures.of_place(place) else { return };
        let is_local = peers.is_local(id.node);
        let Some(link) = peers.links.get_mut(&id) else { return };
        let now = self.now;
        let known = engine.session_count_of(id.node);
        let mut failure = None;
        loop {
            let mut has_read = false;
            let end = link.read(&mut self.scratch, |input| {
                has_read = true;
                match engine.handle_session_input(now, id, input) {
                    Ok(consumed) => consumed,
                    Err(error) => {
                        failure = Some(error);
                        input.len()
                    }
                }
            });
            if let Some(error) = failure {
                tracing::error!(node = id.node.0, %error, "a node sent nonsense");
            }
            open_near(now, engine, is_local, &self.gauges.views, &mut peers.shortage);
            match end {
                ReadEnd::Paused if failure.is_none() => continue,
                ReadEnd::Drained if failure.is_none() => {
                    if has_read {
                        peers.note_alive(id);
                    }
                }
                ReadEnd::Closed | ReadEnd::Paused | ReadEnd::Drained => {
                    close_session(now, engine, peers, id, self.poll.registry())
                }
            }
            break;
        }
        if engine.session_count_of(id.node) > known {
            // The node has told how many cores it has.
            self.connect_peers();
        }
    }

    pub(super) fn write_sessions(&mut self, until: Until) {
        let registry = self.poll.registry();
        let mut broken = Vec::new();
        for Tenure { engine, peers, .. } in self.exchange.tenures.iter_mut() {
            for (&id, link) in &mut peers.links {
                if until == Until::Clients && engine.is_unhurried(id) {
                    continue;
                }
                let output = if link.is_full() { engine.session_rest(id) } else { engine.session_output(id) };
                let Some(output) = output.filter(|output| !output.is_empty()) else { continue };
                if let Err(error) = link.write_large(output, registry) {
                    // Connecting takes a moment over TCP: what was written waits in the outbox.
                    if error.kind() != io::ErrorKind::NotConnected {
                        broken.push(id);
                    }
                }
            }
            broken.drain(..).for_each(|id| close_session(self.now, engine, peers, id, registry));
        }
    }

    pub(super) fn connect_peers(&mut self) {
        for Tenure { engine, peers, .. } in self.exchange.tenures.iter_mut() {
            let wanted = engine.wanted_sessions();
            for id in peers.connect(self.now.mono_us, &wanted, self.poll.registry()) {
                engine.handle_session_opened(self.now, id);
            }
        }
    }

    pub(super) fn close_hung_sessions(&mut self) {
        let registry = self.poll.registry();
        for Tenure { engine, peers, .. } in self.exchange.tenures.iter_mut() {
            let hung = engine.hung_greetings();
            hung.into_iter().for_each(|id| close_session(self.now, engine, peers, id, registry));
            peers.close_all_but(|id| engine.is_connected(id), registry);
        }
    }
}

fn close_session(now: Now, engine: &mut Engine, peers: &mut Peers, id: SessionId, registry: &mio::Registry) {
    peers.close(id, registry);
    engine.handle_session_closed(now, id);
}

/// Opens what nodes on this machine offered.
fn open_near(now: Now, engine: &mut Engine, is_local: bool, views: &near::Views, shortage: &mut Shortage) {
    while let Some((session, offer)) = engine.poll_near_offer() {
        if !is_local {
            continue;
        }
        let opened = match &offer {
            NearOffer::Memory(memory) => views.open(memory).map(|reader| engine.handle_near(session, reader)),
            NearOffer::Ring(ring) => near::open_ring(ring).map(|ring| engine.handle_ring(session, ring)),
        };
        if let Err(error) = opened {
            shortage.tell(now.mono_us, &error, format_args!("the memory of node {}", session.node.0));
        }
    }
}
