//! One simulated cluster: the real machines of a gateway and its nodes, clients, and what befalls them.
//!
//! ```text
//! clients --Request--> gateway's engine --sessions over the network--> nodes
//!    ^------Reply-------'                                                |
//!    '- history            audit: what nodes and owner hold together <---'
//! ```
//! A host (the gateway, a node) takes its inputs in turns, as the event loops of the server do: what arrived until the
//! turn is handled, the turn ends, and what that caused leaves. Everything happens in virtual time and in the order
//! that the seed decides.
//!
//! Must not know: sockets, clocks, threads. Deviations from the server: a client is an event source, not a session
//! (protocols are tested elsewhere), and the scripted stand-in for the coordinator hands out epochs and retires
//! incarnations at once.

mod audit;
mod clients;
mod ends;
mod faults;
mod gateway;
mod life;
mod nodes;
mod peers;
mod policy;
mod slow;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use shorttail_codes::CodeCache;
use shorttail_gateway::engine::WhenFull;
use shorttail_units::{ClusterId, Now, UnixMs};

use crate::command_of_model::UNIX_MS;
use crate::config::{Profile, SimConfig};
use crate::history::{Failure, History};
use crate::network::{Endpoint, Network, NetworkEvent, Notice, Settings};
use crate::rng::Rng;
use crate::schedule::Schedule;
use crate::trace::Trace;
use crate::workload::Workload;
use clients::Clients;
use gateway::GatewayHost;
use nodes::NodeHost;

pub use clients::{Op, Outcome};
pub use policy::StripeSeen;
pub use slow::Sample;

pub(crate) const GATEWAY: Endpoint = Endpoint(0);
const CLUSTER: ClusterId = ClusterId(0x51);
/// The monotonic clock when a run begins: not zero, as machines subtract from it.
const MONO_US: u64 = 1_000_000;
/// Messages between a client and the gateway take this long on average.
const CLIENT_DELAY_US: u64 = 100;

fn endpoint_of(node: usize) -> Endpoint {
    Endpoint(1 + node as u32)
}

#[derive(Debug)]
enum Event {
    Network(NetworkEvent),
    GatewayTurn {
        generation: u32,
    },
    GatewayDeadline {
        generation: u32,
        at_us: u64,
    },
    Connect {
        generation: u32,
        node: u16,
        core: u16,
    },
    NodeTurn {
        node: usize,
    },
    NodeDeadline {
        node: usize,
        at_us: u64,
    },
    Held {
        node: usize,
    },
    ClientTick {
        client: u32,
    },
    Request {
        op: u64,
    },
    Reply {
        op: u64,
        reply: clients::Received,
    },
    ConnectionLost {
        op: u64,
    },
    /// A lifetime of a key's value ends.
    Expire {
        key: Vec<u8>,
    },
    /// The flush that an operation asked for is due.
    FlushDue {
        op: u64,
    },
    Fault,
    Restart {
        node: usize,
    },
    Resume {
        node: usize,
    },
    FullSpeed {
        node: usize,
    },
    Mend {
        from: Endpoint,
        to: Endpoint,
    },
    GatewayRestart,
    GatewayResume,
}

impl From<NetworkEvent> for Event {
    fn from(event: NetworkEvent) -> Self {
        Event::Network(event)
    }
}

/// What a run shows to be wrong.
#[derive(Debug)]
pub enum Violation {
    History(Box<Failure>),
    /// An operation, or reclaiming, is not done long after healing.
    NoProgress(String),
    /// What nodes and owner hold together breaks a rule.
    Audit(String),
    /// A machine broke its own invariant.
    Panic(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::History(failure) => failure.fmt(f),
            Violation::NoProgress(text) => write!(f, "no progress: {text}"),
            Violation::Audit(text) => write!(f, "audit: {text}"),
            Violation::Panic(text) => write!(f, "panic: {text}"),
        }
    }
}

/// What happened in a run, as counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    pub operations: u64,
    pub answered: u64,
    pub refused: u64,
    pub unknown: u64,
    pub crashes: u64,
    pub stalls: u64,
    pub breaks: u64,
    pub slowdowns: u64,
    pub cuts: u64,
    pub takeovers: u64,
    /// Times that everything was whole and other nodes became those that may lose their memory.
    pub victim_changes: u64,
    pub degraded_reads: u64,
    pub frees: u64,
    pub seals: u64,
    pub folds: u64,
    pub installs: u64,
    pub rebuilds: u64,
    pub rebuild_failures: u64,
    pub stripes_audited: u64,
    pub acknowledgements_audited: u64,
}

impl Counts {
    pub fn faults(&self) -> u64 {
        self.crashes + self.stalls + self.breaks + self.slowdowns + self.cuts + self.takeovers
    }

    pub fn add(&mut self, other: &Counts) {
        self.operations += other.operations;
        self.answered += other.answered;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.crashes += other.crashes;
        self.stalls += other.stalls;
        self.breaks += other.breaks;
        self.slowdowns += other.slowdowns;
        self.cuts += other.cuts;
        self.takeovers += other.takeovers;
        self.victim_changes += other.victim_changes;
        self.degraded_reads += other.degraded_reads;
        self.frees += other.frees;
        self.seals += other.seals;
        self.folds += other.folds;
        self.installs += other.installs;
        self.rebuilds += other.rebuilds;
        self.rebuild_failures += other.rebuild_failures;
        self.stripes_audited += other.stripes_audited;
        self.acknowledgements_audited += other.acknowledgements_audited;
    }
}

pub struct World {
    config: SimConfig,
    schedule: Schedule<Event>,
    network: Network,
    trace: Trace,
    history: History,
    gateway: GatewayHost,
    nodes: Vec<NodeHost>,
    codes: CodeCache,
    clients: Clients,
    /// Nodes that may lose their memory: as many as may fail.
    victims: BTreeSet<usize>,
    /// Which core of a node a session is for.
    core_of_session: BTreeMap<u64, u16>,
    incarnation_next: u64,
    is_active: bool,
    rng: Rng,
    event_count: u64,
    counts: Counts,
    samples: Vec<Sample>,
    verdicts: Vec<(u64, shorttail_monitor::Verdict)>,
    failure: Option<Violation>,
}

impl World {
    /// The world of a profile and a seed, before anything happened.
    pub fn new(profile: Profile, seed: u64) -> Self {
        Self::with_config(SimConfig::draw(profile, seed), seed)
    }

    pub fn with_config(config: SimConfig, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let network = Network::new(Settings::default(), rng.fork());
        let workload = Workload::new(
            rng.fork(),
            config.key_count,
            config.value_bytes_max,
            config.large_value_ppm,
            config.flush_ppm,
        );
        let workload = workload.with_lifetimes(Rng::new(seed ^ 0x11FE), config.lifetime_ppm, config.delayed_flush_ppm);
        let mut numbers: Vec<usize> = (0..usize::from(config.node_count)).collect();
        rng.shuffle(&mut numbers);
        let victims = numbers.into_iter().take(config.code.tolerance()).collect();
        let history = History::of_store(config.when_full == WhenFull::Evict);
        let mut world = World {
            clients: Clients::new(workload, config.client_count),
            gateway: GatewayHost::default(),
            nodes: (0..config.node_count).map(NodeHost::new).collect(),
            codes: CodeCache::default(),
            config,
            schedule: Schedule::default(),
            network,
            trace: Trace::default(),
            history,
            victims,
            core_of_session: BTreeMap::new(),
            incarnation_next: 1,
            is_active: false,
            rng,
            event_count: 0,
            counts: Counts::default(),
            samples: Vec::new(),
            verdicts: Vec::new(),
            failure: None,
        };
        for node in 0..world.nodes.len() {
            world.start_node(node);
        }
        world.start_gateway();
        world
    }

    pub fn config(&self) -> &SimConfig {
        &self.config
    }

    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    pub fn history(&self) -> &History {
        &self.history
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts;
        counts.degraded_reads += self.gateway.degraded_reads();
        self.nodes.iter().for_each(|node| node.count(&mut counts));
        counts
    }

    /// Virtual microseconds since the start.
    pub fn now_us(&self) -> u64 {
        self.schedule.now_us()
    }

    fn now(&self) -> Now {
        let us = self.schedule.now_us();
        Now { mono_us: MONO_US + us, unix_ms: UnixMs(UNIX_MS + us / 1_000) }
    }

    fn note(&mut self, event: fmt::Arguments<'_>) {
        self.trace.record(self.schedule.now_us(), event);
    }

    /// Lets events happen until this time, or until one shows a violation.
    pub fn run_until(&mut self, until_us: u64) {
        while self.failure.is_none() && self.step_until(until_us) {}
    }

    /// Lets events happen until the condition holds. Answers whether it came to hold before this time.
    pub fn run_while(&mut self, until_us: u64, mut goes_on: impl FnMut(&World) -> bool) -> bool {
        while self.failure.is_none() && goes_on(self) {
            if !self.step_until(until_us) {
                return false;
            }
        }
        self.failure.is_none()
    }

    fn step_until(&mut self, until_us: u64) -> bool {
        let Some(event) = self.schedule.pop_until(until_us) else { return false };
        self.event_count += 1;
        self.handle(event);
        self.dispatch_notices();
        if self.event_count.is_multiple_of(self.config.audit_events) {
            self.audit();
        }
        true
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Network(event) => self.network.handle(&mut self.schedule, event),
            Event::GatewayTurn { generation } => self.gateway_turn(generation),
            Event::GatewayDeadline { generation, at_us } => self.gateway_deadline(generation, at_us),
            Event::Connect { generation, node, core } => self.connect(generation, node, core),
            Event::NodeTurn { node } => self.node_turn(node),
            Event::NodeDeadline { node, at_us } => self.node_deadline(node, at_us),
            Event::Held { node } => self.held_leaves(node),
            Event::ClientTick { client } => self.client_tick(client),
            Event::Request { op } => self.request_arrives(op),
            Event::Reply { op, reply } => self.reply_arrives(op, reply),
            Event::ConnectionLost { op } => self.connection_lost(op),
            Event::Expire { key } => self.lifetime_ends(&key),
            Event::FlushDue { op } => self.flush_is_due(op),
            Event::Fault => self.fault(),
            Event::Restart { node } => self.restart_node(node),
            Event::Resume { node } => self.resume_node(node),
            Event::FullSpeed { node } => self.network.slow_down(endpoint_of(node), 1),
            Event::Mend { from, to } => self.network.mend(&mut self.schedule, from, to),
            Event::GatewayRestart => self.restart_gateway(),
            Event::GatewayResume => self.resume_gateway(),
        }
    }

    fn dispatch_notices(&mut self) {
        while let Some(notice) = self.network.poll_notice() {
            self.trace.record(self.schedule.now_us(), format_args!("{notice}"));
            let Notice { at, session, what } = notice;
            if at == GATEWAY {
                self.gateway_notice(session, what);
            } else {
                self.node_notice(at.0 as usize - 1, session, what);
            }
        }
    }

    fn fail(&mut self, violation: Violation) {
        self.failure.get_or_insert(violation);
    }
}
