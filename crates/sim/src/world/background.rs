//! What is beside each core of a node: who rebuilds chunks there, and gives the core's to other nodes that rebuild.
//!
//! ```text
//! core --orders, places--> inbox --turn--> background <--sessions over the network--> those of other nodes
//!      <--turn-- inbox <--chunks, questions--'
//! ```
//! As in the server: a background has turns of its own, when there is time for it, also while its core stands still.
//! What one says to the other waits there until the other is woken and its turn comes. What is rebuilt is gathered, and
//! the core finds what other nodes want last in its turn.
//!
//! Must not know: what the messages mean. Deviations from the server: another node's session reaches the background
//! without passing through cores, and whatever a background sends leaves at once.

use std::collections::VecDeque;

use shorttail_node::limits::REBUILT_GATHER_US;
use shorttail_node::{
    Found, FromRebuilds, Giver, Node, PeerId, Rebuilds, Rebuilt, SessionError, ToRebuilds, Wanted, WantedChunks,
};
use shorttail_units::StripeId;

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

#[derive(Debug)]
enum ToBackground {
    Rebuilds(ToRebuilds),
    Found(Found),
}

#[derive(Debug)]
enum FromBackground {
    Rebuilds(FromRebuilds),
    Wanted(Wanted),
    Damaged(StripeId),
    MessagesDamaged(u64),
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

/// Beside one core; what lies between the two is here as well.
#[derive(Debug)]
pub(super) struct Background {
    rebuilds: Rebuilds,
    giver: Giver,
    inbox: Inbox<ToBackground>,
    of_core: Inbox<FromBackground>,
    /// The core's part.
    wanted: WantedChunks,
    /// The core is to be woken at once, or for chunks that are rebuilt, by the process's clock.
    has_said: bool,
    rebuilt_due_us: Option<u64>,
    messages_damaged: u64,
    /// Sessions that ended since the last turn, and with what they sent before it.
    ended: Vec<SessionId>,
    turn_is_due: bool,
    deadline_us: Option<u64>,
}

impl Background {
    pub fn begin(machine: &mut Node, means: Means) -> Self {
        let (mut rebuilds, mut giver) = (machine.rebuilds(), machine.giver());
        let memory = machine.memory().map(OwnMemory::of);
        if let Some(memory) = &memory {
            giver = giver.with_memory(Box::new(memory.clone()));
        }
        match memory.filter(|_| means != Means::Read) {
            Some(memory) => rebuilds = rebuilds.with_memory(Box::new(memory)),
            None => machine.give_no_room(),
        }
        Background {
            rebuilds,
            giver,
            inbox: Inbox::new(),
            of_core: Inbox::new(),
            wanted: WantedChunks::default(),
            has_said: false,
            rebuilt_due_us: None,
            messages_damaged: 0,
            ended: Vec::new(),
            turn_is_due: false,
            deadline_us: None,
        }
    }

    pub fn handle_session_opened(&mut self, session: SessionId) {
        self.giver.handle_session_opened(session.number());
    }

    /// In its next turn.
    pub fn note_ended(&mut self, session: SessionId) {
        self.ended.push(session);
    }

    fn end(&mut self, session: SessionId, end: LinkEnd, now_us: u64) {
        match end {
            LinkEnd::Core => {}
            LinkEnd::Giver => self.giver.handle_session_closed(session.number()),
            LinkEnd::Peer(peer) => {
                let ended = self.rebuilds.handle_closed(peer);
                self.tell_rebuilt(ended, now_us);
            }
        }
    }

    fn tell(&mut self, message: FromBackground) {
        self.of_core.messages.push_back(message);
        self.has_said = true;
    }

    fn tell_rebuilt(&mut self, ended: Vec<Rebuilt>, now_us: u64) {
        for rebuilt in ended {
            self.of_core.messages.push_back(FromBackground::Rebuilds(FromRebuilds::Rebuilt(rebuilt)));
            self.rebuilt_due_us.get_or_insert(now_us + REBUILT_GATHER_US);
        }
    }

    /// Takes what came over a session; answers how much of it, unless it makes no sense.
    fn read(&mut self, session: SessionId, link: &Link, now_us: u64) -> Option<usize> {
        match link.end {
            LinkEnd::Core => Some(0),
            LinkEnd::Giver => {
                let outcome = self.giver.handle_input(session.number(), &link.input);
                self.messages_damaged += u64::from(matches!(outcome, Err(SessionError::Frame(_))));
                outcome.ok()
            }
            LinkEnd::Peer(peer) => {
                let mut ended = Vec::new();
                let outcome = self.rebuilds.handle_input(peer, &link.input, &mut ended);
                self.messages_damaged += u64::from(outcome.is_err());
                self.tell_rebuilt(ended, now_us);
                outcome.ok()
            }
        }
    }

    fn take_messages(&mut self) {
        for message in self.inbox.take() {
            match message {
                ToBackground::Rebuilds(said) => {
                    if let Some(said) = self.rebuilds.handle(said) {
                        self.tell(FromBackground::Rebuilds(said));
                    }
                }
                ToBackground::Found(found) => _ = self.giver.handle_found(found),
            }
        }
    }

    fn output(&mut self, session: SessionId, end: LinkEnd) -> Vec<u8> {
        let mut bytes = Vec::new();
        match end {
            LinkEnd::Core => {}
            LinkEnd::Peer(peer) => bytes = self.rebuilds.output(peer).map(std::mem::take).unwrap_or_default(),
            LinkEnd::Giver => {
                while let Some(part) = self.giver.poll_output(session.number()) {
                    let length = part.len();
                    bytes.extend_from_slice(part);
                    self.giver.handle_sent(session.number(), length);
                }
            }
        }
        bytes
    }

    /// Last in a turn; is the core woken?
    fn tell_core(&mut self, now_us: u64) -> bool {
        let hurt = std::mem::take(&mut self.messages_damaged);
        if hurt > 0 {
            self.tell(FromBackground::MessagesDamaged(hurt));
        }
        while let Some(stripe) = self.giver.poll_damaged() {
            self.tell(FromBackground::Damaged(stripe));
        }
        while let Some(wanted) = self.giver.poll_wanted() {
            self.tell(FromBackground::Wanted(wanted));
        }
        let is_due = self.rebuilt_due_us.is_some_and(|due_us| due_us <= now_us);
        let is_woken = std::mem::take(&mut self.has_said) || is_due;
        if is_woken {
            self.rebuilt_due_us = None;
            self.of_core.is_woken = true;
        }
        is_woken
    }

    /// Among what the core does in its turn.
    pub fn heard_by(&mut self, core: &mut Node, counts: &mut Counts) {
        for said in self.of_core.take() {
            match said {
                FromBackground::Rebuilds(said) => core.handle_rebuilds(said),
                FromBackground::Wanted(wanted) => {
                    let count = if wanted.is_copy() { &mut counts.copies_made } else { &mut counts.places_told };
                    *count += 1;
                    self.wanted.push(wanted);
                }
                FromBackground::Damaged(stripe) => core.look_at(stripe),
                FromBackground::MessagesDamaged(count) => core.note_damaged_messages(count),
            }
        }
    }

    /// Last in the core's turn; is this one woken?
    pub fn served_by(&mut self, core: &mut Node, counts: &mut Counts) -> bool {
        let mut is_woken = false;
        while let Some(said) = core.poll_to_rebuilds() {
            counts.rooms_left += u64::from(matches!(said, ToRebuilds::Order { room: Some(_), .. }));
            self.inbox.messages.push_back(ToBackground::Rebuilds(said));
            is_woken = true;
        }
        let found = &mut self.inbox.messages;
        is_woken |= self.wanted.find(core, |one| found.push_back(ToBackground::Found(one)));
        self.inbox.is_woken |= is_woken;
        is_woken
    }

    /// Does its core have its next turn at once?
    pub fn keeps_core_busy(&self) -> bool {
        !self.wanted.is_empty()
    }

    fn poll_deadline(&self) -> Option<u64> {
        [self.rebuilds.deadline_us(), self.rebuilt_due_us].into_iter().flatten().min()
    }
}

impl World {
    pub(super) fn demand_background_turn(&mut self, node: usize, core: usize) {
        let backgrounds = &mut self.nodes[node].backgrounds;
        let Some(background) = backgrounds.get_mut(core).filter(|background| !background.turn_is_due) else { return };
        background.turn_is_due = true;
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
        let Some(background) = self.nodes[node].backgrounds.get_mut(core) else { return };
        if !std::mem::take(&mut background.turn_is_due) || is_stalled {
            return;
        }
        let NodeHost { backgrounds, links, .. } = &mut self.nodes[node];
        let background = &mut backgrounds[core];
        let (mut closed, mut unheard) = (Vec::new(), Vec::new());
        for (&session, link) in links.iter_mut().filter(|(_, link)| link.core == core && !link.input.is_empty()) {
            match (background.read(session, link, now_us), link.end) {
                (Some(consumed), _) => _ = link.input.drain(..consumed),
                (None, LinkEnd::Peer(_)) => unheard.push(session),
                // What it is told last still leaves.
                (None, _) => closed.push(session),
            }
        }
        for session in std::mem::take(&mut background.ended) {
            if let Some(link) = links.remove(&session) {
                background.end(session, link.end, now_us);
            }
        }
        background.take_messages();
        self.close_beside(node, core, unheard);
        self.open_memories(node, core);
        let background = &mut self.nodes[node].backgrounds[core];
        let ended = background.rebuilds.advance(now_us);
        background.tell_rebuilt(ended, now_us);
        self.keep_peers(node, core);
        self.send_beside(node, core);
        self.close_beside(node, core, closed);
        if self.nodes[node].backgrounds[core].tell_core(now_us) {
            self.demand_node_turn(node);
        }
        self.await_background_deadline(node, core);
    }

    /// What came over these sessions made no sense.
    fn close_beside(&mut self, node: usize, core: usize, sessions: Vec<SessionId>) {
        let now_us = self.now_by(self.nodes[node].clock).mono_us;
        for session in sessions {
            self.counts.flips_noticed += 1;
            let host = &mut self.nodes[node];
            if let Some(link) = host.links.remove(&session) {
                host.backgrounds[core].end(session, link.end, now_us);
                self.network.close(&mut self.schedule, endpoint_of(node), session);
            }
        }
    }

    /// Opens the memory of nodes that is offered: all are on one machine where it is.
    fn open_memories(&mut self, node: usize, core: usize) {
        let rebuilds = &mut self.nodes[node].backgrounds[core].rebuilds;
        for (peer, offer) in std::iter::from_fn(|| rebuilds.poll_offered()).collect::<Vec<_>>() {
            let memory = near::file_of(&self.nodes, peer.node, peer.core, &offer).cloned();
            if let Some(file) = memory {
                let memory = near::by_calls(file, self.config.near_shift_bytes);
                self.nodes[node].backgrounds[core].rebuilds.handle_memory(peer, memory);
                self.counts.memories_opened += 1;
            }
        }
    }

    /// Opens the sessions that are wanted and not there, and closes those that are there and not wanted.
    fn keep_peers(&mut self, node: usize, core: usize) {
        let NodeHost { backgrounds, links, .. } = &mut self.nodes[node];
        let wanted: Vec<PeerId> = backgrounds[core].rebuilds.peers().collect();
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
        let background = &mut backgrounds[core];
        let of_core = links.iter().filter(|(_, link)| link.core == core);
        let outputs = of_core.map(|(&session, link)| (session, link.end, background.output(session, link.end)));
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
        let background = &mut self.nodes[node].backgrounds[core];
        let Some(at_us) = background.poll_deadline() else { return };
        let at_us = clock.world_us(at_us).max(self.schedule.now_us() + 1);
        if background.deadline_us.is_none_or(|known| at_us < known) {
            background.deadline_us = Some(at_us);
            self.schedule.at(at_us, Event::BackgroundDeadline { node, core, at_us });
        }
    }

    pub(super) fn background_deadline(&mut self, node: usize, core: usize, at_us: u64) {
        let Some(background) = self.nodes[node].backgrounds.get_mut(core) else { return };
        if background.deadline_us == Some(at_us) {
            background.deadline_us = None;
            self.demand_background_turn(node, core);
        }
    }
}
