//! The nodes' processes: one machine per core, their sessions, their turns, what survives a crash (nothing, unless
//! their memory is kept).

use std::collections::BTreeMap;

use shorttail_node::{Node, NodeConfig, Pace, PeerId};
use shorttail_store::{MemoryFile, MemoryIdentity};
use shorttail_units::{Incarnation, NodeId};

use super::background::{BackgroundHost, Means};
use super::clock::Clock;
use super::coordinators::Who;
use super::slow::Slowness;
use super::{CLUSTER, Counts, Event, World, endpoint_of, gateway_at, near};
use crate::network::{SendError, SessionId, What};
use crate::rng::Rng;

/// Longest wait between an input and the turn that takes it.
const TURN_US_MAX: u64 = 30;
/// The machines' invariants look at every chunk: at this many for each turn.
const CHUNKS_PER_TURN: u64 = 8;

pub(super) struct Link {
    pub core: usize,
    pub input: Vec<u8>,
    pub end: LinkEnd,
}

/// Who has this end of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LinkEnd {
    Core,
    /// Beside the core: another node reads.
    Giver,
    /// Beside the core, which reads from a core of another node.
    Peer(PeerId),
}

pub(super) struct NodeHost {
    pub id: NodeId,
    /// Empty while the process is down.
    pub cores: Vec<Node>,
    pub backgrounds: Vec<BackgroundHost>,
    /// What its process can do beside its cores.
    means: Means,
    /// Of its process.
    pub clock: Clock,
    pub incarnation: Incarnation,
    /// Earlier lives of its memory.
    pub retired: Vec<Incarnation>,
    pub links: BTreeMap<SessionId, Link>,
    pub deadline_us: Option<u64>,
    /// Sessions that ended since the last turn, and with what they sent before it.
    ended: Vec<SessionId>,
    turn_is_due: bool,
    /// Turns since its invariants were looked at.
    turns_unchecked: u64,
    /// A core whose thread stands still; the others go on.
    pub stalled_core: Option<usize>,
    /// When one that a fault befell goes on.
    pub core_stalls_until_us: u64,
    pub slowness: Slowness,
    /// Bits of its memory turned over: what it shows may be anything.
    pub is_rotten: bool,
    /// Memory that outlives the process.
    memory: Option<MemoryFile>,
    earlier: Counts,
}

impl NodeHost {
    pub fn new(id: u16) -> Self {
        NodeHost {
            id: NodeId(id),
            cores: Vec::new(),
            backgrounds: Vec::new(),
            means: Means::Write,
            clock: Clock::default(),
            incarnation: Incarnation(0),
            retired: Vec::new(),
            links: BTreeMap::new(),
            deadline_us: None,
            ended: Vec::new(),
            turn_is_due: false,
            turns_unchecked: 0,
            stalled_core: None,
            core_stalls_until_us: 0,
            slowness: Slowness::new(u64::from(id) + 1),
            is_rotten: false,
            memory: None,
            earlier: Counts::default(),
        }
    }

    /// Forgets a session of a core; was it one?
    fn end_link(&mut self, session: SessionId) -> bool {
        let Some(link) = self.links.remove(&session) else { return false };
        self.cores[link.core].handle_session_closed(session.number());
        true
    }

    pub fn is_up(&self) -> bool {
        !self.cores.is_empty()
    }

    /// Down, and its memory will be there again?
    pub fn is_kept(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.identity().is_some())
    }

    /// May it have held, or hold, a chunk that nobody sees now?
    pub fn may_have_held(&self) -> bool {
        self.is_rotten || !self.retired.is_empty() || !self.is_up() && self.is_kept()
    }

    pub fn used_bytes(&self) -> u64 {
        self.cores.iter().map(Node::used_bytes).sum()
    }

    pub fn check_invariants(&mut self) {
        self.turns_unchecked = 0;
        self.cores.iter().for_each(Node::check_invariants);
    }

    pub fn chunk_count(&self) -> u64 {
        self.cores.iter().map(|core| core.stats().chunks).sum()
    }

    pub fn damaged_chunks(&self) -> u64 {
        self.cores.iter().map(|core| core.stats().damaged_chunks).sum()
    }

    pub fn count(&self, counts: &mut Counts) {
        counts.add(&self.earlier);
        for core in &self.cores {
            let stats = core.stats();
            counts.frees += stats.frees;
            counts.seals += stats.seals;
            counts.folds += stats.folds;
            counts.installs += stats.installs;
            counts.rebuilds += stats.rebuilds;
            counts.rebuild_failures += stats.rebuild_failures;
            counts.corruptions_found += stats.corruptions_found;
            counts.corruptions_repaired += stats.corruptions_repaired;
        }
    }
}

impl World {
    /// Memory of one of a node's cores, in bytes.
    pub(super) fn memory_of(&self, node: usize) -> usize {
        let first_halved = usize::from(self.config.node_count - self.config.halved_node_count);
        self.config.node_memory_bytes / if node < first_halved { 1 } else { 2 }
    }

    pub(super) fn start_node(&mut self, node: usize) {
        let core_count = self.config.node_core_count;
        let clock = self.new_clock();
        let now = self.now_by(clock);
        let (fresh, memory_bytes) = (Incarnation(self.incarnation_next), self.memory_of(node));
        let means = Means::draw(&mut self.background_rng);
        let host = &mut self.nodes[node];
        if self.config.keeps_memory && host.memory.is_none() {
            host.memory = Some(MemoryFile::without_name(core_count, memory_bytes).expect("memory"));
        }
        let kept = host.memory.as_ref().and_then(MemoryFile::identity);
        let incarnation = kept.map_or(fresh, |kept| kept.incarnation);
        if let Some(memory) = host.memory.as_mut().filter(|_| kept.is_none()) {
            memory.begin(MemoryIdentity { cluster: CLUSTER, node: host.id, incarnation }).expect("memory");
        }
        self.incarnation_next += 1;
        (host.incarnation, host.clock, host.means) = (incarnation, clock, means);
        let is_alone = means == Means::Neither && !self.config.shares_memory;
        host.cores = (0..core_count)
            .map(|core| {
                let config = NodeConfig {
                    node: host.id,
                    cluster: CLUSTER,
                    incarnation,
                    core,
                    core_count,
                    memory_bytes,
                    pace: Pace {
                        repair_bytes_per_s: self.config.repair_bytes_per_s,
                        scrub_bytes_per_s: self.config.scrub_bytes_per_s,
                    },
                };
                let mut machine = match &host.memory {
                    None if is_alone => Node::new(config),
                    None => Node::sharing(config),
                    Some(memory) => Node::in_memory(config, memory.core(core).expect("mapped"), now),
                }
                .expect("memory for a simulated node");
                if self.config.shares_memory {
                    machine.offer_memory(near::offer_of(incarnation));
                }
                super::audit::greet(&mut machine, core);
                if self.config.shares_memory && !machine.outlives_process() {
                    machine.offer_rings(Box::new(self.rings.clone()));
                }
                machine
            })
            .collect();
        host.backgrounds = host.cores.iter_mut().map(|machine| BackgroundHost::begin(machine, means)).collect();
        self.network.start(endpoint_of(node));
        self.note(format_args!("node {node} starts as incarnation {}", incarnation.0));
        self.member_starts(Who::Node(node));
        if kept.is_none() {
            self.renew_voters();
        }
        if !self.config.coordinated {
            let id = self.nodes[node].id;
            let engines = self.gateways.iter_mut().flat_map(super::GatewayHost::engines_mut);
            engines.for_each(|engine| engine.handle_life(id, incarnation));
        }
    }

    /// The process dies and its memory with it.
    pub(super) fn stop_node(&mut self, node: usize) {
        self.note(format_args!("node {node} crashes"));
        self.end_process(node);
        let host = &mut self.nodes[node];
        if let Some(memory) = &mut host.memory {
            memory.wipe().expect("memory");
        }
        let (id, incarnation) = (host.id, host.incarnation);
        host.retired.push(incarnation);
        self.coordinators.lost_us = self.schedule.now_us();
        if self.config.coordinated {
            // The coordinator gives it up when it is away for long, or comes back with another one.
            return;
        }
        for engine in self.gateways.iter_mut().flat_map(super::GatewayHost::engines_mut) {
            engine.handle_retired(id, incarnation);
        }
    }

    /// The process dies; its memory stays if it is kept.
    pub(super) fn end_process(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        let mut counts = Counts::default();
        host.count(&mut counts);
        host.earlier = counts;
        host.cores.clear();
        host.backgrounds.clear();
        host.links.clear();
        host.ended.clear();
        host.slowness.forget();
        host.turn_is_due = false;
        host.stalled_core = None;
        host.deadline_us = None;
        self.member_stops(Who::Node(node));
        self.network.crash(&mut self.schedule, endpoint_of(node));
    }

    /// Bits of all that is twice in the memory that a node's process left turn over.
    pub(super) fn hurt_kept_memory(&mut self, node: usize) {
        let mut rng = Rng::new(self.counts.restarts ^ (node as u64) << 32);
        if let Some(memory) = self.nodes[node].memory.as_ref().filter(|_| self.config.hurts_kept_memory) {
            memory.flip_what_is_there_twice(|| rng.next_u64()).expect("memory");
        }
    }

    /// Of so many chunks of each core nobody can tell any more that they are in the memory that a node's process left;
    /// of how many.
    pub fn spoil_entries(&mut self, node: usize, count: usize) -> usize {
        assert!(!self.nodes[node].is_up(), "no process uses it");
        self.nodes[node].memory.as_ref().map_or(0, |memory| memory.spoil_entries(count).expect("memory"))
    }

    /// A node that is down comes back now.
    pub fn restart_node(&mut self, node: usize) {
        if !self.nodes[node].is_up() && self.is_member(node) {
            self.start_node(node);
        }
    }

    /// A stalled node goes on now.
    pub fn resume_node(&mut self, node: usize) {
        if self.network.is_stalled(endpoint_of(node)) {
            self.note(format_args!("node {node} goes on"));
            self.network.resume(endpoint_of(node));
            self.demand_node_turn(node);
            (0..self.nodes[node].backgrounds.len()).for_each(|core| self.demand_background_turn(node, core));
        }
    }

    pub(super) fn node_notice(&mut self, node: usize, session: SessionId, what: What) {
        let host = &mut self.nodes[node];
        let known = host.links.get(&session);
        let beside = known.and_then(|link| (link.end != LinkEnd::Core).then_some(link.core));
        match what {
            What::Accepted { peer } => {
                let core = usize::from(self.core_of_session[&session.number()]);
                // A gateway may ask for more cores than a later life of the node has: then nobody is there.
                let Some(machine) = host.cores.get_mut(core) else { return };
                let is_read_beside = gateway_at(peer).is_none() && host.means != Means::FaultyCores;
                let end = if is_read_beside {
                    host.backgrounds[core].machine.giver.handle_session_opened(session.number());
                    LinkEnd::Giver
                } else {
                    machine.handle_session_opened(session.number());
                    LinkEnd::Core
                };
                host.links.insert(session, Link { core, input: Vec::new(), end });
            }
            What::Connected => {}
            What::Received(bytes) => {
                if let Some(link) = host.links.get_mut(&session) {
                    link.input.extend_from_slice(&bytes);
                }
            }
            What::Broken(_) => match beside {
                Some(core) => host.backgrounds[core].note_ended(session),
                None => host.ended.push(session),
            },
        }
        match beside {
            Some(core) => self.demand_background_turn(node, core),
            None => self.demand_node_turn(node),
        }
    }

    pub(super) fn demand_node_turn(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        if !host.is_up() || host.turn_is_due {
            return;
        }
        host.turn_is_due = true;
        let delay_us = self.rng.below(TURN_US_MAX);
        self.schedule.after(delay_us, Event::NodeTurn { node });
    }

    pub(super) fn node_turn(&mut self, node: usize) {
        if self.network.is_stalled(endpoint_of(node)) || !self.nodes[node].turn_is_due {
            self.nodes[node].turn_is_due = false;
            return;
        }
        self.nodes[node].turn_is_due = false;
        let now = self.now_by(self.nodes[node].clock);
        let host = &mut self.nodes[node];
        let mut closed = Vec::new();
        let stalled_core = host.stalled_core;
        let is_read =
            |link: &Link| link.end == LinkEnd::Core && !link.input.is_empty() && Some(link.core) != stalled_core;
        for (&session, link) in host.links.iter_mut().filter(|(_, link)| is_read(link)) {
            let core = &mut host.cores[link.core];
            match core.handle_input(now, session.number(), &link.input) {
                Ok(consumed) => _ = link.input.drain(..consumed),
                Err(_) => closed.push(session),
            }
        }
        for session in std::mem::take(&mut host.ended) {
            host.end_link(session);
        }
        let beside = host.cores.iter_mut().zip(&mut host.backgrounds).enumerate();
        for (_, (core, host)) in beside.filter(|&(core, _)| Some(core) != stalled_core) {
            host.heard_by(core, &mut self.counts);
            core.end_turn(now);
        }
        self.send_from_node(node);
        self.await_node_deadline(node);
        let host = &mut self.nodes[node];
        self.counts.flips_noticed += closed.len() as u64;
        for core in &mut host.cores {
            while let Some(ended) = core.poll_closed_session() {
                closed.extend(host.links.keys().copied().find(|session| session.number() == ended));
            }
        }
        for session in closed {
            if host.end_link(session) {
                self.network.close(&mut self.schedule, endpoint_of(node), session);
            }
        }
        self.serve_backgrounds(node);
        let host = &mut self.nodes[node];
        host.turns_unchecked += 1;
        if host.turns_unchecked * CHUNKS_PER_TURN >= host.chunk_count() {
            host.check_invariants();
        }
    }

    /// Last in a turn: what other nodes want waits for whatever else there is.
    fn serve_backgrounds(&mut self, node: usize) {
        let NodeHost { cores, backgrounds, stalled_core, .. } = &mut self.nodes[node];
        let beside = cores.iter_mut().zip(backgrounds).enumerate().filter(|&(core, _)| Some(core) != *stalled_core);
        let (mut woken, mut is_busy) = (Vec::new(), false);
        for (place, (core, host)) in beside {
            woken.extend(host.served_by(core, &mut self.counts).then_some(place));
            is_busy |= core.has_wanted();
        }
        woken.into_iter().for_each(|core| self.demand_background_turn(node, core));
        if is_busy {
            self.demand_node_turn(node);
        }
    }

    fn await_node_deadline(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        let running = host.cores.iter().enumerate().filter(|&(core, _)| Some(core) != host.stalled_core);
        let Some(at_us) = running.filter_map(|(_, core)| core.poll_deadline()).min() else { return };
        let at_us = host.clock.world_us(at_us).max(self.schedule.now_us() + 1);
        if host.deadline_us.is_none_or(|known| at_us < known) {
            host.deadline_us = Some(at_us);
            self.schedule.at(at_us, Event::NodeDeadline { node, at_us });
        }
    }

    pub(super) fn node_deadline(&mut self, node: usize, at_us: u64) {
        if self.nodes[node].deadline_us == Some(at_us) {
            self.nodes[node].deadline_us = None;
            self.demand_node_turn(node);
        }
    }

    fn send_from_node(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        let mut outputs = Vec::new();
        for (&session, link) in host.links.iter().filter(|(_, link)| Some(link.core) != host.stalled_core) {
            let output = host.cores[link.core].poll_output(session.number()).filter(|_| link.end == LinkEnd::Core);
            outputs.extend(output.map(|output| (session, std::mem::take(output))));
        }
        for (session, bytes) in outputs {
            let bytes = self.pass_slowness(node, session, bytes);
            match self.network.send(&mut self.schedule, endpoint_of(node), session, bytes) {
                Ok(()) | Err(SendError::NotOpen) => {}
                Err(error @ SendError::Full) => panic!("a node does not bound what it sends: {error}"),
            }
        }
    }
}
