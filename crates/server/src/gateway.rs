//! Runs a gateway: one loop per core, each with the engines of its partitions, its client connections, its sessions
//! with the nodes and its connections with other gateways.
//!
//! Core 0 accepts client connections and deals them out. A request whose key belongs to another core goes
//! there as a message, and its reply comes back as one; one whose key belongs to another gateway goes there
//! over the gateway protocol.
//!
//! Must not know: what clients ask, or what the engine tells the nodes.

mod backlog;
mod client;
mod core;
mod counted;
mod departure;
mod exchange;
mod followers;
mod guests;
mod input_room;
mod limits;
mod neighbours;
mod peer_error;
mod peers;
mod places;
mod policies;
mod seen;
mod served;
mod shares;
mod stillness;
mod stranger;
mod table;
mod tallies;
mod tenures;
#[cfg(test)]
mod tests;
mod waiting;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use shorttail_gateway::engine::{EngineConfig, LeaseConfig, WhenFull};
use shorttail_gateway::request::StoreStats;
use shorttail_gateway::roster::{ClientProtocol, Roster};
use shorttail_gateway::session::{Counters, Settings};
use shorttail_units::{Epoch, NodeId};
use shorttail_wire::control::{
    ChaosStatus, GatewayStatus, GatewayWelcome, NodeEntry, NodeSeen, NodeState, Order, TenureState, Terms, View,
};

use crate::admin;
use crate::clock::Clock;
use crate::config::{Address, GatewayConfig, GatewayMembership, warn_of_fixed};
use crate::control::{
    ControlEvent, GatewayAddresses, GatewayControl, Obey, Obeyed, fresh_life, log_not_let_in, start_gateway,
};
use crate::locks::lock;
use crate::near::{LettingGo, Views};
use crate::net::{self, Listener, Outlet};
pub(crate) use core::ToCore;
use core::{Core, CoreSetup, Live};
use departure::{Departure, Facts, Step};
pub(crate) use neighbours::Identity;
pub(crate) use policies::PolicyDesk;
use served::Served;
use shares::{Share, standings};
use stillness::Stillness;
pub use stranger::Window;
use stranger::await_welcome;
use tallies::{Tallies, Teller};
use waiting::WaitingTotal;

/// Between two looks at what the cores publish; while a tenure is on its way, when clients may wait for the coordinator
/// to hear of it, and for so long after it was told of one.
const PUBLISH_EVERY: Duration = Duration::from_millis(25);
const PUBLISH_HURRIED: Duration = Duration::from_millis(2);
const HURRIED: Duration = Duration::from_millis(200);

/// What a core publishes for others to read.
#[derive(Debug, Default)]
pub struct CoreGauges {
    pub published: Mutex<CoreReport>,
    pub is_serving: AtomicBool,
    pub views: Views,
}

/// What a core last said of its engines.
#[derive(Debug, Default)]
pub struct CoreReport {
    /// `None`: it never had an engine.
    pub stats: Option<StoreStats>,
    pub nodes: Vec<NodeSeen>,
    pub shares: Vec<Share>,
    /// Messages of other gateways that were hurt on their way.
    pub hurt_total: u64,
    /// When it said so, in monotonic microseconds of the gateway.
    pub at_us: u64,
}

impl CoreReport {
    /// Does it stand still?
    fn is_silent(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.at_us) > limits::REPORT_US_MAX
    }

    /// Its shares, as far as they still hold: a core that stands still is not proven any more.
    fn shares_at(&self, now_us: u64) -> impl Iterator<Item = Share> + '_ {
        let is_silent = self.is_silent(now_us);
        self.shares.iter().map(move |share| Share { proven_by: if is_silent { 0 } else { share.proven_by }, ..*share })
    }
}

/// What all cores of a gateway share.
#[derive(Debug, Default)]
pub struct Totals {
    pub connections: AtomicUsize,
    pub connections_total: AtomicU64,
    pub connections_rejected: AtomicU64,
    /// Connections of other gateways.
    pub guests_total: AtomicU64,
    /// Requests that wait for an owner.
    pub waiting: Arc<WaitingTotal>,
    /// Of the nodes, as a core that owns something knows it last; 0: none did.
    pub memory_limit_bytes: AtomicU64,
    /// What the engines of each core measured of the nodes' speed.
    pub opinions: Mutex<Vec<Vec<shorttail_monitor::Opinions>>>,
}

/// Listening sockets of a gateway.
#[derive(Debug, Default)]
pub struct Listeners {
    pub sockets: Vec<(Listener, ClientProtocol)>,
    /// For other gateways.
    pub forward: Option<Listener>,
}

impl Listeners {
    /// # Errors
    /// Names the address that is not to be had.
    pub fn bind(config: &GatewayConfig) -> anyhow::Result<Self> {
        let mut listeners = Listeners::default();
        let tcp = [(config.memcached, ClientProtocol::Memcached), (config.redis, ClientProtocol::Redis)];
        for (address, protocol) in tcp.into_iter().filter_map(|(address, protocol)| Some((address?, protocol))) {
            let listener = Listener::bind(&Address::Tcp(address))
                .with_context(|| format!("cannot listen on {address} for {protocol} clients"))?;
            listeners.sockets.push((listener, protocol));
        }
        if let Some(unix) = &config.unix_socket {
            let listener = Listener::bind(&Address::Unix(unix.path.clone()))
                .with_context(|| format!("cannot listen on {}", unix.path.display()))?;
            listener.set_mode(unix.mode)?;
            listeners.sockets.push((listener, ClientProtocol::Memcached));
        }
        if let Some(address) = &config.forward {
            let listener = Listener::bind(address)
                .with_context(|| format!("cannot listen on {address} for other gateways (--forward)"))?;
            listeners.forward = Some(listener);
        }
        Ok(listeners)
    }

    fn address_of(&self, wanted: ClientProtocol) -> Option<SocketAddr> {
        let of_protocol = self.sockets.iter().filter(|(_, protocol)| *protocol == wanted);
        of_protocol.filter_map(|(listener, _)| listener.socket_address()).next()
    }
}

/// Runs a gateway until it is told to leave (`leaves` is set), and others have what it owned.
///
/// Configurations that come meanwhile change what may change while it runs.
///
/// # Errors
/// When an address is taken, or the coordinator refuses the gateway for good.
pub fn run(mut config: GatewayConfig, changes: &Receiver<GatewayConfig>, leaves: &AtomicBool) -> anyhow::Result<()> {
    crate::panics::end_the_process();
    let listeners = Listeners::bind(&config)?;
    let admin = config.admin.map(admin::Bound::new).transpose()?;
    let addresses = GatewayAddresses {
        admin: admin.as_ref().map(|admin| admin.address.to_string()),
        memcached: listeners.address_of(ClientProtocol::Memcached).map(|address| address.to_string()),
        redis: listeners.address_of(ClientProtocol::Redis).map(|address| address.to_string()),
        unix_socket: config.unix_socket.as_ref().map(|unix| unix.path.display().to_string()),
        forward: forward_address(&config, &listeners)?,
    };
    let desk = PolicyDesk::default();
    let life = fresh_life().context("cannot draw a name for this process")?;
    let main = std::thread::current();
    let control = start_gateway(&config, addresses, life, Box::new(move || main.unpark()), obey_with(desk.clone()));
    let window = Window::default();
    if let Some(admin) = admin {
        admin.serve_gateway(window.clone())?;
    }
    let Some(welcome) = await_welcome(&control, &listeners, &window, leaves)? else { return end(control) };
    let engine = engine_config(&config, &welcome);
    warn_of_idle_threads(config.threads, welcome.partition_count);
    let settings = settings(&config, &engine, &listeners);
    let identity = Identity { cluster: welcome.session.cluster_id, gateway: welcome.session.gateway_id };
    let cores = start_cores(engine, identity, settings, listeners, config.threads, desk)?;
    window.open(GatewayReader { id: welcome.session.gateway_id, published: cores.published.clone() });
    tracing::info!(gateway = welcome.session.gateway_id, "started");
    let mut settling = crate::footprint::Settling::begin();
    let mut hurried_until = Instant::now();
    let mut letting_go = LettingGo::begin();
    let mut served = Served::default();
    let mut stillness = Stillness::default();
    let mut departure = Departure::default();
    // What the coordinator said last of this gateway's part.
    let mut facts = Facts::begin(cores.published.clock.now().mono_us);
    loop {
        settling.check();
        letting_go.check(cores.views());
        while let Some(event) = control.poll_event() {
            match event {
                ControlEvent::View(view) => {
                    served.forget_ended(&view);
                    facts.is_drained = is_to_leave(&view, identity.gateway);
                    facts.note_others(cores.published.clock.now().mono_us, has_others(&view, identity.gateway));
                    cores.published.is_draining.store(facts.is_drained, Ordering::Relaxed);
                    let view = Arc::new(view);
                    cores.outlets.iter().for_each(|outlet| outlet.send(ToCore::View(Arc::clone(&view))));
                }
                ControlEvent::Terms(_) if departure.lets_go() => {}
                ControlEvent::Terms(terms) => {
                    facts.owns = terms.iter().any(|terms| !terms.prepares);
                    hurried_until = Instant::now() + HURRIED;
                    cores.tell_terms(&terms.into());
                }
                ControlEvent::Served(told) => served.take(told),
                ControlEvent::Refused(refusal) => {
                    anyhow::bail!("the coordinator does not let this gateway in again: {refusal}");
                }
                ControlEvent::NotLetIn(refusal) => log_not_let_in(&refusal),
                ControlEvent::Connected => facts.turn(cores.published.clock.now().mono_us, true),
                ControlEvent::Disconnected => facts.turn(cores.published.clock.now().mono_us, false),
            }
        }
        while let Ok(wanted) = changes.try_recv() {
            change(&mut config, wanted, &cores);
        }
        if leaves.load(Ordering::Relaxed) {
            departure.begin(cores.published.clock.now().mono_us);
        }
        if let Some(core) = stillness.look(cores.published.clock.now().mono_us, &cores.published.are_silent()) {
            tracing::error!(core, "a core stands still; the gateway ends with it");
            std::process::exit(1);
        }
        let mut status = cores.published.status();
        facts.has_let_go = status.standings.iter().all(|standing| standing.state.is_over());
        match departure.look(cores.published.clock.now().mono_us, facts) {
            Step::Stay => {}
            Step::LetGo => cores.let_go(),
            Step::End => {
                tracing::info!(owns = facts.owns && !facts.has_let_go, "ends as it was told to");
                return end(control);
            }
        }
        status.leaves = departure.asks();
        if let Some(served) = served.news(&status.standings) {
            cores.outlets.iter().for_each(|outlet| outlet.send(ToCore::Served(Arc::clone(&served))));
        }
        let is_hurried = status.hurries() || Instant::now() < hurried_until;
        if !departure.lets_go() {
            control.publish(status);
        }
        // Events end it sooner.
        std::thread::park_timeout(if is_hurried { PUBLISH_HURRIED } else { PUBLISH_EVERY });
    }
}

/// Its process ends now: nobody waits until the coordinator is found, or not, by a thread that looks for it.
fn end(control: GatewayControl) -> anyhow::Result<()> {
    std::mem::forget(control);
    Ok(())
}

fn obey_with(desk: PolicyDesk) -> Obey {
    Box::new(move |order| {
        let outcome = match order {
            Order::Policy(order) => desk.obey(order),
            Order::Chaos(_) => Err("a gateway is never faulty on purpose".to_owned()),
        };
        Obeyed { outcome, chaos: ChaosStatus::default() }
    })
}

/// Tells the cores what is different now.
fn change(config: &mut GatewayConfig, wanted: GatewayConfig, cores: &Cores) {
    let sidestep_before = config.sidestep;
    warn_of_fixed(&config.take_live(wanted));
    let live = Live {
        connection_count_max: config.connection_count_max,
        idle_timeout_s: config.idle_timeout_s,
        when_full: config.when_full,
        sidestep: Some(config.sidestep).filter(|sidestep| *sidestep != sidestep_before),
    };
    // Partitions may have policies of their own: they keep them unless something was said anew.
    if config.sidestep.policy != sidestep_before.policy {
        cores.published.policies.replace(config.sidestep.policy);
    }
    cores.outlets.iter().for_each(|outlet| outlet.send(ToCore::Change(live.clone())));
}

/// Where other gateways are told to connect; `None`: they cannot. Of one that listens anywhere the coordinator tells
/// the host that it sees.
fn forward_address(config: &GatewayConfig, listeners: &Listeners) -> anyhow::Result<Option<String>> {
    let Some(listener) = &listeners.forward else { return Ok(None) };
    let address = match &config.forward_advertise {
        Some(address) => address.clone(),
        None => listener.address()?,
    };
    Ok(Some(address.to_string()))
}

/// A cluster has the partitions that it was made with.
fn warn_of_idle_threads(threads: usize, partitions: u16) {
    if threads > usize::from(partitions) {
        tracing::warn!(
            threads,
            partitions,
            "the cluster has fewer partitions than this gateway has threads: some own no key"
        );
    }
}

/// What all engines of the gateway have in common; whose partitions they have comes with their tenures.
fn engine_config(config: &GatewayConfig, welcome: &GatewayWelcome) -> EngineConfig {
    let cluster = welcome.session.cluster_id;
    let mut engine = EngineConfig::new(welcome.code, Epoch(0), cluster, welcome.node_count_expected);
    engine.partition_count = welcome.partition_count;
    engine.partitions = Vec::new();
    engine.lease = matches!(config.membership, GatewayMembership::Coordinator(_)).then_some(LeaseConfig::USUAL);
    engine.value_bytes_max = config.value_bytes_max;
    engine.block_bytes = config.block_bytes;
    engine.request_deadline_us = config.request_deadline_ms * 1000;
    engine.policy = config.sidestep.policy;
    engine.monitor = config.sidestep.monitor();
    engine.placement = config.placement;
    engine.hedge_budget = config.sidestep.hedge_budget_share();
    engine.when_full = config.when_full;
    engine
}

fn settings(config: &GatewayConfig, engine: &EngineConfig, listeners: &Listeners) -> Settings {
    let port = |protocol| listeners.address_of(protocol).map_or(0, |address| address.port());
    Settings {
        value_bytes_max: config.value_bytes_max,
        key_bytes_max: config.key_bytes_max,
        credentials: config.credentials.clone(),
        thread_count: config.threads,
        connection_count_max: config.connection_count_max,
        idle_timeout_s: config.idle_timeout_s,
        evict_when_full: config.when_full == WhenFull::Evict,
        process_id: std::process::id(),
        memcached_port: port(ClientProtocol::Memcached),
        redis_port: port(ClientProtocol::Redis),
        redis_advertise: config.redis_advertise,
        redis_cluster: config.redis_cluster,
        unix_socket: config.unix_socket.as_ref().map(|unix| unix.path.display().to_string()),
        memory_limit_bytes: 0,
        code: engine.shape,
        ..Settings::default()
    }
}

/// The running cores.
pub(crate) struct Cores {
    pub outlets: Vec<Outlet<ToCore>>,
    published: Published,
}

/// What the cores of a gateway publish.
#[derive(Clone, Debug)]
struct Published {
    /// That of the cores.
    clock: Clock,
    gauges: Vec<Arc<CoreGauges>>,
    /// What the cores were told last.
    terms: Arc<Mutex<Arc<[Terms]>>>,
    tallies: Arc<Tallies>,
    policies: PolicyDesk,
    coding_set_nodes: Option<u16>,
    /// It is to own nothing, and others are there.
    is_draining: Arc<AtomicBool>,
}

/// Tells of a running gateway: the status of the moment, and what its clients did.
#[derive(Clone, Debug)]
pub struct GatewayReader {
    pub id: u16,
    published: Published,
}

impl GatewayReader {
    pub fn status(&self) -> GatewayStatus {
        self.published.status()
    }

    /// Is it to hand over what it owns, as it may be stopped then? It serves clients until it is.
    pub fn is_draining(&self) -> bool {
        self.published.is_draining.load(Ordering::Relaxed)
    }

    pub fn counters(&self) -> Counters {
        self.published.tallies.sum()
    }
}

/// Starts a thread per core.
pub(crate) fn start_cores(
    engine: EngineConfig,
    identity: Identity,
    settings: Settings,
    listeners: Listeners,
    core_count: usize,
    policies: PolicyDesk,
) -> anyhow::Result<Cores> {
    let clock = Clock::start();
    let (waiting, outlets) = net::inboxes(core_count, core::INBOX)?;
    let totals = Arc::new(Totals::default());
    let tallies = Arc::new(Tallies::new(core_count));
    let roster = Arc::new(Roster::default());
    let mut gauges = Vec::new();
    let mut listeners = Some(listeners);
    for (core, (poll, inbox)) in waiting.into_iter().enumerate() {
        let core_gauges = Arc::new(CoreGauges::default());
        gauges.push(Arc::clone(&core_gauges));
        let setup = CoreSetup {
            poll,
            inbox,
            clock,
            engine: engine.clone(),
            core,
            identity,
            settings: settings.clone(),
            roster: Arc::clone(&roster),
            cores: outlets.clone(),
            listeners: listeners.take().unwrap_or_default(),
            gauges: core_gauges,
            totals: Arc::clone(&totals),
            teller: Teller::new(Arc::clone(&tallies), core),
        };
        let builder = std::thread::Builder::new().name(format!("core {core}"));
        builder.spawn(move || {
            if let Err(error) = Core::new(setup).and_then(Core::run) {
                tracing::error!(%error, core, "a core ended; the gateway ends with it");
                std::process::exit(1);
            }
        })?;
    }
    policies.open(engine.policy, engine.partition_count, outlets.clone());
    let coding_set_nodes = engine.placement.coding_set_nodes(engine.shape);
    let (terms, is_draining) = (Arc::default(), Arc::default());
    let published = Published { clock, gauges, terms, tallies, policies, coding_set_nodes, is_draining };
    Ok(Cores { outlets, published })
}

impl Cores {
    pub fn tell_terms(&self, terms: &Arc<[Terms]>) {
        // Known before any core can tell of a tenure: the others have their share in it, too.
        *lock(&self.published.terms) = Arc::clone(terms);
        self.outlets.iter().for_each(|outlet| outlet.send(ToCore::Terms(Arc::clone(terms))));
    }

    /// Of everything, whatever the coordinator says.
    fn let_go(&self) {
        let terms = Arc::clone(&lock(&self.published.terms));
        let owned = terms.iter().filter(|terms| !terms.prepares);
        let terms: Vec<Terms> = owned.map(|terms| Terms { lets_go: true, ..terms.clone() }).collect();
        self.outlets.iter().for_each(|outlet| outlet.send(ToCore::Leave));
        self.tell_terms(&terms.into());
    }

    pub fn views(&self) -> impl Iterator<Item = &Views> {
        self.published.gauges.iter().map(|gauges| &gauges.views)
    }

    pub fn is_serving(&self) -> bool {
        self.published.status().serving
    }
}

impl Published {
    /// A core that has not read what it was told to begin serves all that it has: nothing.
    fn does_each_serve(&self) -> bool {
        self.gauges.iter().all(|gauges| gauges.is_serving.load(Ordering::Acquire))
    }

    fn status(&self) -> GatewayStatus {
        self.status_at(self.clock.now().mono_us)
    }

    /// Each core: does it stand still?
    fn are_silent(&self) -> Vec<bool> {
        let now_us = self.clock.now().mono_us;
        let is_silent = |gauges: &Arc<CoreGauges>| lock(&gauges.published).is_silent(now_us);
        self.gauges.iter().map(is_silent).collect()
    }

    fn status_at(&self, now_us: u64) -> GatewayStatus {
        let mut sum: Option<StoreStats> = None;
        let mut seen: BTreeMap<u16, NodeSeen> = BTreeMap::new();
        let mut shares: Vec<Vec<Share>> = Vec::new();
        let (mut is_silent, mut hurt_total) = (false, 0);
        for gauges in &self.gauges {
            let published = lock(&gauges.published);
            let CoreReport { stats, nodes, .. } = &*published;
            if let Some(stats) = stats {
                sum = Some(sum.map_or(*stats, |sum| sum.plus(stats)));
            }
            for node in nodes {
                match seen.get_mut(&node.id) {
                    Some(known) => *known = std::mem::take(known).plus(node),
                    None => _ = seen.insert(node.id, node.clone()),
                }
            }
            shares.push(published.shares_at(now_us).collect());
            is_silent |= published.is_silent(now_us);
            hurt_total += published.hurt_total;
        }
        // Whatever others reach, what that core is to take over or to prepare for never comes to be; and what it said
        // of chunks may be so no more when it goes on.
        if is_silent {
            seen.values_mut().for_each(|node| (node.connected, node.chunks_left) = (false, None));
        }
        let terms = Arc::clone(&lock(&self.terms));
        let mut totals = sum.map(|sum| sum.totals).unwrap_or_default();
        totals.messages_damaged_total += hurt_total;
        let standings = standings(&terms, &shares);
        let has_begun = standings.iter().all(|standing| standing.state != TenureState::TakingOver);
        GatewayStatus {
            serving: self.does_each_serve() && has_begun,
            standings,
            totals,
            nodes: seen.into_values().collect(),
            policies: self.policies.spans(),
            coding_set_nodes: self.coding_set_nodes,
            leaves: false,
        }
    }
}

/// Is this gateway to own nothing, and is there another one for its clients?
fn is_to_leave(view: &View, id: u16) -> bool {
    view.gateways.iter().any(|gateway| gateway.id == id && gateway.draining) && has_others(view, id)
}

/// Is there another gateway that may own something? A coordinator that has just begun to lead names tenures of gateways
/// that it has not heard yet.
fn has_others(view: &View, id: u16) -> bool {
    let is_named = |id: u16| view.gateways.iter().any(|gateway| gateway.id == id);
    let may_own = view.gateways.iter().any(|gateway| gateway.id != id && gateway.is_alive && !gateway.draining);
    may_own || view.tenures.iter().any(|tenure| tenure.gateway != id && !is_named(tenure.gateway))
}

/// The nodes of a view that are worth a connection, with their addresses. Not one that is dead and in whose place
/// another one listens by now: that one would take its session for a newer one of its own, and end the other.
fn addresses(view: &View) -> BTreeMap<NodeId, Address> {
    let is_alive = |node: &&NodeEntry| matches!(node.state, NodeState::Normal | NodeState::Suspect);
    let taken: BTreeSet<&str> = view.nodes.iter().filter(is_alive).map(|node| &*node.address).collect();
    let is_worth_it = |node: &&NodeEntry| match node.state {
        NodeState::Retired => false,
        NodeState::Dead => !taken.contains(&*node.address),
        NodeState::Normal | NodeState::Suspect => true,
    };
    let nodes = view.nodes.iter().filter(is_worth_it);
    nodes.filter_map(|node| Some((node.id, node.address.parse().ok()?))).collect()
}
