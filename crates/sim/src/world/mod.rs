//! One simulated cluster: the real machines of gateways and nodes, clients, and what befalls them.
//!
//! ```text
//! clients --Request--> gateway's engines --sessions over the network--> nodes
//!    ^------Reply-------'                                                 |
//!    '- history            audit: what nodes and owners hold together <---'
//! ```
//! A host (a gateway, a node) takes its inputs in turns, as the event loops of the server do: what arrived until the
//! turn is handled, the turn ends, and what that caused leaves. Everything happens in virtual time and in the order
//! that the seed decides.
//!
//! Must not know: sockets, clocks, threads. Deviations from the server: a client is an event source, not a session
//! (protocols are tested elsewhere). Unless a run is *coordinated* ([`coordinators`]), a scripted stand-in for the
//! coordinator deals tenures and retires incarnations at once.

mod audit;
mod background;
mod clients;
mod clock;
mod coordinators;
mod counts;
mod ends;
mod event;
mod faults;
mod gateway;
mod life;
mod members;
mod near;
mod nodes;
mod policy;
mod routing;
mod service;
mod slow;
mod stand_in;
mod transitions;
mod troubles;
mod violation;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use shorttail_codes::CodeCache;
use shorttail_gateway::engine::{EngineConfig, WhenFull};
use shorttail_units::{ClusterId, Epoch};

use crate::config::{Profile, SimConfig};
use crate::history::History;
use crate::network::{Endpoint, Network, Notice, SessionId, Settings};
use crate::rng::Rng;
use crate::schedule::Schedule;
use crate::trace::Trace;
use crate::workload::{Workload, alike_keys};
use clients::Clients;
use coordinators::Coordinators;
use event::Event;
use gateway::GatewayHost;
use nodes::NodeHost;
use routing::HOP_US;
use stand_in::StandIn;

pub use clients::{Op, Outcome};
pub use counts::Counts;
pub use policy::StripeSeen;
pub use slow::Sample;
pub use violation::Violation;

const CLUSTER: ClusterId = ClusterId(0x51);
/// Messages between a client and the gateway take this long on average.
const CLIENT_DELAY_US: u64 = 100;
/// Events after an audit for each stripe that it looked at, before the next: audits do not take most of a run's time.
const AUDIT_REST_PER_STRIPE: u64 = 4;

/// Endpoints of further gateways begin here; that of the first is 0, those of nodes lie between.
const GATEWAYS_FIRST: u32 = 10_000;

fn endpoint_of(node: usize) -> Endpoint {
    Endpoint(1 + node as u32)
}

fn endpoint_of_gateway(gateway: usize) -> Endpoint {
    Endpoint(if gateway == 0 { 0 } else { GATEWAYS_FIRST + gateway as u32 })
}

/// Which gateway an endpoint is, if it is one.
fn gateway_at(endpoint: Endpoint) -> Option<usize> {
    match endpoint.0 {
        0 => Some(0),
        number => number.checked_sub(GATEWAYS_FIRST).map(|gateway| gateway as usize),
    }
}

pub struct World {
    config: SimConfig,
    schedule: Schedule<Event>,
    network: Network,
    trace: Trace,
    history: History,
    gateways: Vec<GatewayHost>,
    stand_in: StandIn,
    coordinators: Coordinators,
    nodes: Vec<NodeHost>,
    rings: near::Rings,
    membership: members::Membership,
    transitions: transitions::Transitions,
    troubles: troubles::Troubles,
    service: service::Service,
    codes: CodeCache,
    clients: Clients,
    /// Nodes that may lose their memory: as many as may fail.
    victims: BTreeSet<usize>,
    /// A scenario spoilt chunks, and nobody need have noticed.
    is_spoilt: bool,
    /// Which core of a node a session is for.
    core_of_session: BTreeMap<u64, u16>,
    incarnation_next: u64,
    is_active: bool,
    rng: Rng,
    /// Of its own, so that runs with clocks that run rightly are the runs that they were.
    clock_rng: Rng,
    /// So are runs in which nothing is rebuilt.
    background_rng: Rng,
    event_count: u64,
    /// After so many events.
    audit_due: u64,
    counts: Counts,
    samples: Vec<Sample>,
    verdicts: Vec<(u64, shorttail_monitor::Verdict)>,
    failure: Option<Violation>,
}

fn alike_keys_of(config: &SimConfig, pair_count: usize) -> Vec<[String; 2]> {
    let owner = EngineConfig::new(config.code, Epoch(1), CLUSTER, config.node_count);
    alike_keys(pair_count, |key| owner.tag_of(key))
}

impl World {
    /// The world of a profile and a seed, before anything happened.
    pub fn new(profile: Profile, seed: u64) -> Self {
        Self::with_config(SimConfig::draw(profile, seed), seed)
    }

    pub fn with_config(config: SimConfig, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let network = Network::new(Settings { flip_ppm: config.flip_ppm, ..Settings::default() }, rng.fork());
        let workload = Workload::new(
            rng.fork(),
            config.key_count,
            config.value_bytes_max,
            config.large_value_ppm,
            config.flush_ppm,
        );
        let workload = workload.with_lifetimes(Rng::new(seed ^ 0x11FE), config.lifetime_ppm, config.delayed_flush_ppm);
        let workload = match config.keys_are_alike {
            true => workload.with_keys(alike_keys_of(&config, config.key_count.div_ceil(2)).into_iter().flatten()),
            false => workload,
        };
        let mut numbers: Vec<usize> = (0..usize::from(config.node_count)).collect();
        rng.shuffle(&mut numbers);
        let victims = numbers.into_iter().take(config.code.tolerance()).collect();
        let history = History::of_store(config.when_full == WhenFull::Evict);
        let mut world = World {
            clients: Clients::new(workload, config.client_count),
            gateways: (0..config.gateway_count).map(|_| GatewayHost::default()).collect(),
            stand_in: StandIn::default(),
            coordinators: Coordinators::new(&config),
            nodes: (0..config.node_count).map(NodeHost::new).collect(),
            rings: near::Rings::default(),
            membership: members::Membership::default(),
            transitions: transitions::Transitions::default(),
            troubles: troubles::Troubles::default(),
            service: service::Service::default(),
            codes: CodeCache::default(),
            audit_due: config.audit_events,
            config,
            schedule: Schedule::default(),
            network,
            trace: Trace::default(),
            history,
            victims,
            is_spoilt: false,
            core_of_session: BTreeMap::new(),
            incarnation_next: 1,
            is_active: false,
            rng,
            clock_rng: Rng::new(seed ^ 0xC10C),
            background_rng: Rng::new(seed ^ 0xBAC6),
            event_count: 0,
            counts: Counts::default(),
            samples: Vec::new(),
            verdicts: Vec::new(),
            failure: None,
        };
        let first_late = world.nodes.len() - usize::from(world.config.late_node_count);
        world.membership.absent = (first_late..world.nodes.len()).collect();
        world.start_coordinators();
        (0..first_late).for_each(|node| world.start_node(node));
        for gateway in 0..world.gateways.len() {
            world.start_gateway(gateway);
        }
        world
    }

    /// Pairs of keys that owners tell apart by their records only.
    pub fn alike_keys(&self, pair_count: usize) -> Vec<[String; 2]> {
        alike_keys_of(&self.config, pair_count)
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
        self.gateways.iter().for_each(|host| counts.add(&host.counts()));
        self.nodes.iter().for_each(|node| node.count(&mut counts));
        counts.flips = self.network.flip_count();
        self.coordinators.count(&mut counts);
        counts
    }

    /// Virtual microseconds since the start.
    pub fn now_us(&self) -> u64 {
        self.schedule.now_us()
    }

    fn note(&mut self, event: fmt::Arguments<'_>) {
        self.trace.record(self.schedule.now_us(), event);
    }

    /// Lets events happen until this time, or until one shows a violation.
    pub fn run_until(&mut self, until_us: u64) {
        while self.failure.is_none() && self.step_until(until_us) {}
    }

    /// Lets events happen as long as `goes_on` holds. Returns whether that, or the run, ended before this time.
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
        let (is_of_troubles, is_fault) = (event.is_of_troubles(), event.is_fault());
        if is_of_troubles {
            self.look_before(is_fault);
        }
        self.handle(event);
        self.dispatch_notices();
        if is_of_troubles {
            self.watch_service();
        }
        if self.event_count >= self.audit_due {
            let stripe_count = self.audit() as u64;
            let rest = self.config.audit_events.max(AUDIT_REST_PER_STRIPE * stripe_count);
            self.audit_due = self.event_count + rest;
        }
        true
    }

    fn dispatch_notices(&mut self) {
        while let Some(notice) = self.network.poll_notice() {
            self.trace.record(self.schedule.now_us(), format_args!("{notice}"));
            let Notice { at, session, what } = notice;
            if self.coordinators.concerns(at, session) {
                self.control_notice(at, session, what);
                continue;
            }
            match gateway_at(at) {
                Some(gateway) => self.gateway_notice(gateway, session, what),
                None => self.node_notice(at.0 as usize - 1, session, what),
            }
        }
    }

    /// What came is no message, so it was hurt on its way: whoever received it ends the session.
    fn end_hurt(&mut self, at: Endpoint, session: SessionId, error: &dyn fmt::Display) {
        self.note(format_args!("session {session} at endpoint {}: {error}", at.0));
        assert!(self.network.flip_count() > 0, "everybody sends messages: {error}");
        self.counts.flips_noticed += 1;
        self.network.close(&mut self.schedule, at, session);
    }

    fn fail(&mut self, violation: Violation) {
        self.failure.get_or_insert(violation);
    }
}
