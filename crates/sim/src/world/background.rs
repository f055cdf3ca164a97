//! What is beside each core of a node: a [`Background`], and what lies between it and its core.
//!
//! ```text
//! core --orders, places--> inbox --turn--> background <--sessions over the network--> those of other nodes
//!      <--turn-- inbox <--chunks, questions--'
//! ```
//! As in the server: a background has turns of its own, when there is time for it, also while its core stands still.
//! What one says to the other waits there until the other is woken and its turn comes.
//!
//! Must not know: what the messages mean. Deviations from the server: another node's session reaches the background
//! without passing through cores, and whatever a background sends leaves at once.

use std::collections::VecDeque;

use shorttail_node::{Background, FromBackground, Node, PeerId, ToBackground};
use shorttail_store::{NearReader, NearWriter};

use super::near::{self, OwnMemory};
use super::nodes::{Link, LinkEnd, NodeHost};
use super::{Counts, Event, World, endpoint_of};
use crate::network::{SendError, SessionId};
use crate::rng::Rng;

/// Between a background's waking and its turn, in microseconds: it runs when nothing else does.
const TURN_US_MEAN: u64 = 100;
const TURN_US_MAX: u64 = 10_000;
/// How often the processors have no time for it, and for how long at most: then it gets another class.
const STARVES_PPM: u32 = 200;
const STARVES_US_MAX: u64 = 1_000_000;

/// What a node's process can do beside its cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Means {
    /// Read and write the cores' memory.
    Write,
    /// Read it, as where it is a file on a disk.
    Read,
    /// Neither, unless its memory outlives it or others read it, too: the memory is the process's alone.
    Neither,
    /// Faults are ordered there: the cores themselves give their chunks.
    FaultyCores,
}

impl Means {
    pub fn draw(rng: &mut Rng) -> Self {
        match rng.below(8) {
            0 => Means::FaultyCores,
            1 => Means::Neither,
            2 => Means::Read,
            _ => Means::Write,
        }
    }
}

/// What was said to somebody who has not looked yet.
#[derive(Debug)]
struct Inbox<M> {
    messages: VecDeque<M>,
    /// It looks in its next turn.
    is_woken: bool,
}

impl<M> Inbox<M> {
    fn new() -> Self {
        Inbox { messages: VecDeque::new(), is_woken: false }
    }

    fn take(&mut self) -> VecDeque<M> {
        if std::mem::take(&mut self.is_woken) { std::mem::take(&mut self.messages) } else { VecDeque::new() }
    }
}

#[derive(Debug)]
pub(super) struct BackgroundHost {
    pub machine: Background,
    inbox: Inbox<ToBackground>,
    of_core: Inbox<FromBackground>,
    /// Sessions that ended since the last turn, and with what they sent before it.
    ended: Vec<SessionId>,
    turn_is_due: bool,
    deadline_us: Option<u64>,
}

impl BackgroundHost {
    pub fn begin(core: &mut Node, means: Means) -> Self {
        let memory = core.memory().map(OwnMemory::of);
        let reader = memory.clone().map(|memory| Box::new(memory) as Box<dyn NearReader>);
        let writer = memory.filter(|_| means != Means::Read).map(|memory| Box::new(memory) as Box<dyn NearWriter>);
        BackgroundHost {
            machine: core.background(reader, writer),
            inbox: Inbox::new(),
            of_core: Inbox::new(),
            ended: Vec::new(),
            turn_is_due: false,
            deadline_us: None,
        }
    }

    /// In its next turn.
    pub fn note_ended(&mut self, session: SessionId) {
        self.ended.push(session);
    }

    fn end(&mut self, session: SessionId, end: LinkEnd) {
        match end {
            LinkEnd::Core => {}
            LinkEnd::Giver => self.machine.giver.handle_session_closed(session.number()),
            LinkEnd::Peer(peer) => self.machine.rebuilds.handle_closed(peer),
        }
    }

    /// Takes what came over a session; returns how much of it, unless it makes no sense.
    fn read(&mut self, session: SessionId, link: &Link) -> Option<usize> {
        match link.end {
            LinkEnd::Core => Some(0),
            LinkEnd::Giver => self.machine.giver.handle_input(session.number(), &link.input).ok(),
            LinkEnd::Peer(peer) => self.machine.rebuilds.handle_input(peer, &link.input).ok(),
        }
    }

    fn take_messages(&mut self) {
        for message in self.inbox.take() {
            self.machine.handle(message);
        }
    }

    fn output(&mut self, session: SessionId, end: LinkEnd) -> Vec<u8> {
        let Background { rebuilds, giver, .. } = &mut self.machine;
        let mut bytes = Vec::new();
        match end {
            LinkEnd::Core => {}
            LinkEnd::Peer(peer) => bytes = rebuilds.output(peer).map(std::mem::take).unwrap_or_default(),
            LinkEnd::Giver => {
                while let Some(part) = giver.poll_output(session.number()) {
                    let length = part.len();
                    bytes.extend_from_slice(part);
                    giver.handle_sent(session.number(), length);
                }
            }
        }
        bytes
    }

    /// Last in a turn; is the core woken?
    fn end_turn(&mut self, now_us: u64) -> bool {
        let is_woken = self.machine.end_turn(now_us, |said| self.of_core.messages.push_back(said));
        self.of_core.is_woken |= is_woken;
        is_woken
    }

    /// Among what the core does in its turn.
    pub fn heard_by(&mut self, core: &mut Node, counts: &mut Counts) {
        for said in self.of_core.take() {
            if let FromBackground::Wanted(wanted) = &said {
                *if wanted.is_copy() { &mut counts.copies_made } else { &mut counts.places_told } += 1;
            }
            core.handle_background(said);
        }
    }

    /// Last in the core's turn; is this one woken?
    pub fn served_by(&mut self, core: &mut Node, counts: &mut Counts) -> bool {
        let is_woken = core.serve_background(|said| {
            counts.rooms_left += u64::from(matches!(said, ToBackground::Order { room: Some(_), .. }));
            self.inbox.messages.push_back(said);
        });
        self.inbox.is_woken |= is_woken;
        is_woken
    }
}

impl World {
    pub(super) fn demand_background_turn(&mut self, node: usize, core: usize) {
        let backgrounds = &mut self.nodes[node].backgrounds;
        let Some(host) = backgrounds.get_mut(core).filter(|host| !host.turn_is_due) else { return };
        host.turn_is_due = true;
        let rng = &mut self.background_rng;
        let delay_us = match rng.chance_ppm(STARVES_PPM) {
            true => rng.below(STARVES_US_MAX),
            false => rng.exponential_us(TURN_US_MEAN, TURN_US_MAX),
        };
        self.schedule.after(delay_us, Event::BackgroundTurn { node, core });
    }

    pub(super) fn background_turn(&mut self, node: usize, core: usize) {
        let is_stalled = self.network.is_stalled(endpoint_of(node));
        let now_us = self.now_by(self.nodes[node].clock).mono_us;
        let Some(host) = self.nodes[node].backgrounds.get_mut(core) else { return };
        if !std::mem::take(&mut host.turn_is_due) || is_stalled {
            return;
        }
        let NodeHost { backgrounds, links, .. } = &mut self.nodes[node];
        let host = &mut backgrounds[core];
        let (mut closed, mut unheard) = (Vec::new(), Vec::new());
        for (&session, link) in links.iter_mut().filter(|(_, link)| link.core == core && !link.input.is_empty()) {
            match (host.read(session, link), link.end) {
                (Some(consumed), _) => _ = link.input.drain(..consumed),
                (None, LinkEnd::Peer(_)) => unheard.push(session),
                // What it is told last still leaves.
                (None, _) => closed.push(session),
            }
        }
        for session in std::mem::take(&mut host.ended) {
            if let Some(link) = links.remove(&session) {
                host.end(session, link.end);
            }
        }
        host.take_messages();
        self.close_beside(node, core, unheard);
        self.open_memories(node, core);
        self.nodes[node].backgrounds[core].machine.rebuilds.advance(now_us);
        self.keep_peers(node, core);
        self.send_beside(node, core);
        self.close_beside(node, core, closed);
        if self.nodes[node].backgrounds[core].end_turn(now_us) {
            self.demand_node_turn(node);
        }
        self.await_background_deadline(node, core);
    }

    /// What came over these sessions made no sense.
    fn close_beside(&mut self, node: usize, core: usize, sessions: Vec<SessionId>) {
        for session in sessions {
            self.counts.flips_noticed += 1;
            let host = &mut self.nodes[node];
            if let Some(link) = host.links.remove(&session) {
                host.backgrounds[core].end(session, link.end);
                self.network.close(&mut self.schedule, endpoint_of(node), session);
            }
        }
    }

    /// Opens the memory of nodes that is offered: all are on one machine where it is.
    fn open_memories(&mut self, node: usize, core: usize) {
        let rebuilds = &mut self.nodes[node].backgrounds[core].machine.rebuilds;
        for (peer, offer) in std::iter::from_fn(|| rebuilds.poll_offered()).collect::<Vec<_>>() {
            let memory = near::file_of(&self.nodes, peer.node, peer.core, &offer).cloned();
            if let Some(file) = memory {
                let memory = near::by_calls(file, self.config.near_shift_bytes);
                self.nodes[node].backgrounds[core].machine.rebuilds.handle_memory(peer, memory);
                self.counts.memories_opened += 1;
            }
        }
    }

    /// Opens the sessions that are wanted and not there, and closes those that are there and not wanted.
    fn keep_peers(&mut self, node: usize, core: usize) {
        let NodeHost { backgrounds, links, .. } = &mut self.nodes[node];
        let wanted: Vec<PeerId> = backgrounds[core].machine.rebuilds.peers().collect();
        let peer_of = |link: &Link| match link.end {
            LinkEnd::Peer(peer) if link.core == core => Some(peer),
            _ => None,
        };
        let is_unwanted = |link: &Link| peer_of(link).is_some_and(|peer| !wanted.contains(&peer));
        let unwanted = links.extract_if(.., |_, link| is_unwanted(link)).map(|(session, _)| session);
        let unwanted: Vec<SessionId> = unwanted.collect();
        let there: Vec<PeerId> = links.values().filter_map(peer_of).collect();
        for session in unwanted {
            self.network.close(&mut self.schedule, endpoint_of(node), session);
        }
        for peer in wanted.into_iter().filter(|peer| !there.contains(peer)) {
            let source = endpoint_of(usize::from(peer.node.0));
            let session = self.network.open(&mut self.schedule, endpoint_of(node), source);
            let session = session.expect("a node that has turns is up and bounds its sessions");
            self.core_of_session.insert(session.number(), peer.core);
            self.nodes[node].links.insert(session, Link { core, input: Vec::new(), end: LinkEnd::Peer(peer) });
        }
    }

    fn send_beside(&mut self, node: usize, core: usize) {
        let NodeHost { backgrounds, links, .. } = &mut self.nodes[node];
        let host = &mut backgrounds[core];
        let of_core = links.iter().filter(|(_, link)| link.core == core);
        let outputs = of_core.map(|(&session, link)| (session, link.end, host.output(session, link.end)));
        for (session, end, bytes) in outputs.filter(|(_, _, bytes)| !bytes.is_empty()).collect::<Vec<_>>() {
            // What is slow about a node is its answers.
            let bytes = if end == LinkEnd::Giver { self.pass_slowness(node, session, bytes) } else { bytes };
            match self.network.send(&mut self.schedule, endpoint_of(node), session, bytes) {
                Ok(()) | Err(SendError::NotOpen) => {}
                Err(error @ SendError::Full) => panic!("a node does not bound what it sends: {error}"),
            }
        }
    }

    fn await_background_deadline(&mut self, node: usize, core: usize) {
        let clock = self.nodes[node].clock;
        let host = &mut self.nodes[node].backgrounds[core];
        let Some(at_us) = host.machine.poll_deadline() else { return };
        let at_us = clock.world_us(at_us).max(self.schedule.now_us() + 1);
        if host.deadline_us.is_none_or(|known| at_us < known) {
            host.deadline_us = Some(at_us);
            self.schedule.at(at_us, Event::BackgroundDeadline { node, core, at_us });
        }
    }

    pub(super) fn background_deadline(&mut self, node: usize, core: usize, at_us: u64) {
        let Some(host) = self.nodes[node].backgrounds.get_mut(core) else { return };
        if host.deadline_us == Some(at_us) {
            host.deadline_us = None;
            self.demand_background_turn(node, core);
        }
    }
}
