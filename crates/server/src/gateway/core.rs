//! One core of a gateway: an epoll loop around an engine, client sessions and node sessions.
//!
//! A turn: take all that arrived, let the engine handle it, then one write per node and per client.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use mio::event::Event;
use mio::{Events, Interest, Poll, Token as MioToken};
use shorttail_gateway::any::AnyCommand;
use shorttail_gateway::engine::{Engine, EngineConfig, SessionId, Token, WhenFull};
use shorttail_gateway::memcached::MemcachedSession;
use shorttail_gateway::redis::RedisSession;
use shorttail_gateway::request::{KeyspaceReply, KeyspaceRequest, Reply, Request, RequestId};
use shorttail_gateway::session::{Settings, Shared};
use shorttail_gateway::topology::{Place, Topology};
use shorttail_units::Now;
use shorttail_wire::control::{NodeSeen, NodeState, View};

use super::client::{Client, ClientSession, Protocol};
use super::gather::{Asked, Gather};
use super::peers::{Peers, session_of};
use super::policies::NewPolicies;
use super::tallies::Teller;
use super::{CoreGauges, Listeners, Totals};
use crate::clock::Clock;
use crate::config::SidestepConfig;
use crate::net::{ASK_US_MAX, Inbox, Link, Listener, Outlet, Patience, ReadEnd, Stream};

pub const INBOX: MioToken = MioToken(0);
const FIRST_LISTENER: usize = 1;
const LISTENERS_MAX: usize = 64;
const FIRST_CLIENT: u64 = (FIRST_LISTENER + LISTENERS_MAX) as u64;

/// Bytes read from a connection at once.
const SCRATCH_BYTES: usize = 256 << 10;

/// Input that a client may have waiting beyond the request at hand.
const INPUT_BYTES_MAX: usize = 512 << 10;

/// Microseconds between two looks at housekeeping: gauges, idle clients, lost nodes.
const HOUSEKEEPING_US: u64 = 50_000;

/// A message to a core.
#[derive(Debug)]
pub enum ToCore {
    Client { stream: Stream, protocol: Protocol },
    Request { from: usize, token: Token, request: Request<AnyCommand> },
    Reply { token: Token, reply: Reply },
    View(Arc<View>),
    Change(Live),
    Policies(NewPolicies),
}

/// What may change while a gateway runs.
#[derive(Clone, Debug)]
pub struct Live {
    pub connection_count_max: usize,
    pub idle_timeout_s: u64,
    pub when_full: WhenFull,
    /// None: as it is.
    pub sidestep: Option<SidestepConfig>,
}

/// Everything that a core is made of.
pub struct CoreSetup {
    pub poll: Poll,
    pub inbox: Inbox<ToCore>,
    pub clock: Clock,
    pub engine: EngineConfig,
    pub settings: Settings,
    pub cores: Vec<Outlet<ToCore>>,
    pub listeners: Listeners,
    pub gauges: Arc<CoreGauges>,
    pub totals: Arc<Totals>,
    pub teller: Teller,
}

pub struct Core {
    poll: Poll,
    inbox: Inbox<ToCore>,
    clock: Clock,
    patience: Patience,
    now: Now,
    engine: Engine<AnyCommand>,
    router: Router,
    shared: Shared,
    teller: Teller,
    listeners: Vec<(Listener, Protocol)>,
    is_listening: bool,
    gauges: Arc<CoreGauges>,
    totals: Arc<Totals>,
    clients: HashMap<u64, Client>,
    next_client: u64,
    peers: Peers,
    /// Clients with output, or that may have become closable.
    dirty: HashSet<u64>,
    /// Clients with input left in their socket or buffer.
    unread: Vec<u64>,
    scratch: Vec<u8>,
    housekeeping_us: u64,
    /// No limit was asked for: what clients are told is what the nodes have.
    reports_node_memory: bool,
}

/// Where requests go: to this core's engine or to another core.
struct Router {
    core: usize,
    cores: Vec<Outlet<ToCore>>,
    config: EngineConfig,
    gather: Gather,
    /// Tokens that other cores asked this one with.
    foreign: HashMap<Token, usize>,
    to_wake: HashSet<usize>,
}

/// What sessions start with: a gateway that serves everything, until a view says otherwise.
fn shared(settings: Settings, engine: &EngineConfig) -> Shared {
    let redis = (settings.redis_port != 0).then(|| Place { host: String::new(), port: settings.redis_port });
    // An owner is named by its gateway and its core.
    let gateway = (engine.owner >> u16::BITS) as u16;
    let topology = Topology::single(engine.cluster, gateway, engine.epoch.0, redis);
    Shared { topology: Arc::new(topology), ..Shared::new(settings) }
}

impl Core {
    pub fn new(setup: CoreSetup) -> io::Result<Self> {
        let now = setup.clock.now();
        let mut settings = setup.settings;
        settings.started_us = now.mono_us;
        let core = usize::from(setup.engine.core);
        let reports_node_memory = settings.memory_limit_bytes == 0;
        let shared = shared(settings, &setup.engine);
        Ok(Core {
            poll: setup.poll,
            inbox: setup.inbox,
            clock: setup.clock,
            patience: Patience::default(),
            now,
            router: Router {
                core,
                cores: setup.cores,
                config: setup.engine.clone(),
                gather: Gather::default(),
                foreign: HashMap::new(),
                to_wake: HashSet::new(),
            },
            engine: Engine::new(setup.engine, now),
            shared,
            teller: setup.teller,
            listeners: setup.listeners.sockets,
            is_listening: false,
            gauges: setup.gauges,
            totals: setup.totals,
            clients: HashMap::new(),
            // Numbers are unique over all cores: other cores answer requests by them.
            next_client: FIRST_CLIENT + ((core as u64) << 40),
            peers: Peers::default(),
            dirty: HashSet::new(),
            unread: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES],
            housekeeping_us: 0,
            reports_node_memory,
        })
    }

    /// # Errors
    /// When the system's polling fails: the core cannot go on.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        loop {
            self.await_events(&mut events)?;
            self.now = self.read_clock();
            for client in std::mem::take(&mut self.unread) {
                self.read_client(client);
            }
            for event in &events {
                self.handle_event(event)?;
            }
            self.pass_replies();
            self.engine.end_turn(self.now);
            self.pass_replies();
            self.write_sessions();
            self.write_clients();
            self.housekeep()?;
            self.router.wake();
            if self.shared.counters.shutdown_asked {
                tracing::info!("a client asked for the end of the server");
                std::process::exit(0);
            }
        }
    }

    /// The clock, with the wall clock moved as a debugging client may have asked.
    fn read_clock(&self) -> Now {
        let mut now = self.clock.now();
        let moved_ms = self.shared.counters.debug_time_s.saturating_mul(1000);
        now.unix_ms.0 = now.unix_ms.0.saturating_add_signed(moved_ms);
        now
    }

    /// Waits until something arrived or is due, asleep or asking (see [`Patience`]).
    fn await_events(&mut self, events: &mut Events) -> io::Result<()> {
        if !self.unread.is_empty() {
            return poll(&mut self.poll, events, Duration::ZERO);
        }
        let began_us = self.clock.now().mono_us;
        let mut now_us = began_us;
        while self.patience.asks() && now_us - began_us <= ASK_US_MAX {
            // Whoever is to answer may need this very core; and what arrives together costs less.
            std::thread::yield_now();
            poll(&mut self.poll, events, Duration::ZERO)?;
            if !events.is_empty() {
                break;
            }
            now_us = self.clock.now().mono_us;
        }
        if events.is_empty() || !self.patience.asks() {
            let wait = self.wait(now_us);
            poll(&mut self.poll, events, wait)?;
        }
        self.patience.waited(self.clock.now().mono_us - began_us);
        Ok(())
    }

    fn wait(&self, now_us: u64) -> Duration {
        let due_us = self.engine.poll_deadline().unwrap_or(u64::MAX).min(self.housekeeping_us);
        // One millisecond is the granularity of epoll; waiting a little too long is harmless, spinning is not.
        Duration::from_micros(due_us.saturating_sub(now_us).max(1000))
    }

    fn handle_event(&mut self, event: &Event) -> io::Result<()> {
        let token = event.token();
        if let Some(session) = session_of(token) {
            self.read_session(session);
        } else if token == INBOX {
            self.take_messages();
        } else if token.0 < FIRST_CLIENT as usize {
            self.accept(token.0 - FIRST_LISTENER);
        } else {
            let client = token.0 as u64;
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                self.read_client(client);
            }
            self.dirty.insert(client);
        }
        Ok(())
    }

    fn take_messages(&mut self) {
        while let Some(message) = self.inbox.take() {
            match message {
                ToCore::Client { stream, protocol } => self.serve(stream, protocol),
                ToCore::Request { from, token, request } => {
                    if matches!(request, Request::Keyspace(KeyspaceRequest::Stats)) {
                        self.tell_counters();
                    }
                    self.router.foreign.insert(token, from);
                    self.engine.handle_request(self.now, token, request);
                }
                ToCore::Reply { token, reply } => self.deliver(token, reply),
                ToCore::View(view) => self.take_view(&view),
                ToCore::Change(live) => self.change(&live),
                ToCore::Policies(NewPolicies { changed, done }) => {
                    for &(partition, policy) in changed.iter() {
                        self.engine.set_policy(partition, policy);
                    }
                    // Who asked may have given up waiting.
                    let _ = done.send(());
                }
            }
        }
    }

    fn change(&mut self, live: &Live) {
        let settings = &mut self.shared.settings;
        settings.connection_count_max = live.connection_count_max;
        settings.idle_timeout_s = live.idle_timeout_s;
        settings.evict_when_full = live.when_full == WhenFull::Evict;
        self.engine.set_when_full(live.when_full);
        if let Some(sidestep) = &live.sidestep {
            self.engine.set_monitor(sidestep.monitor());
            self.engine.set_hedge_budget(sidestep.hedge_budget_share());
        }
    }

    fn take_view(&mut self, view: &View) {
        self.peers.set_addresses(super::addresses(view));
        let nodes: Vec<_> = view.nodes.iter().map(|node| node.id).collect();
        self.engine.handle_nodes(&nodes);
        view.nodes.iter().for_each(|node| self.engine.handle_domain(node.id, &node.domain));
        for node in view.nodes.iter().filter(|node| node.state == NodeState::Retired) {
            self.engine.handle_retired(node.id, node.incarnation);
        }
        self.connect_peers();
    }

    fn accept(&mut self, listener: usize) {
        loop {
            let Some((socket, protocol)) = self.listeners.get(listener) else { return };
            let stream = match socket.accept() {
                Ok(stream) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    return;
                }
            };
            let protocol = *protocol;
            if self.totals.connections.load(Ordering::Relaxed) >= self.shared.settings.connection_count_max {
                self.totals.connections_rejected.fetch_add(1, Ordering::Relaxed);
                refuse_connection(stream, protocol);
                continue;
            }
            self.totals.connections.fetch_add(1, Ordering::Relaxed);
            let count = self.totals.connections_total.fetch_add(1, Ordering::Relaxed) as usize;
            let core = count % self.router.cores.len();
            if core == self.router.core {
                self.serve(stream, protocol);
            } else {
                self.router.cores[core].send(ToCore::Client { stream, protocol });
            }
        }
    }

    fn serve(&mut self, stream: Stream, protocol: Protocol) {
        let number = self.next_client;
        self.next_client += 1;
        let (peer, local) = (stream.peer(), stream.local());
        let Ok(link) = Link::new(stream, MioToken(number as usize), self.poll.registry()) else { return };
        let session = match protocol {
            Protocol::Memcached => ClientSession::Memcached(Box::new(MemcachedSession::new(peer))),
            Protocol::Redis => {
                let peer = peer.trim_start_matches("tcp:").to_owned();
                ClientSession::Redis(Box::new(RedisSession::new(number, peer, local, self.now, &self.shared)))
            }
        };
        let client = Client {
            link,
            session,
            heard_us: self.now.mono_us,
            in_flight: 0,
            has_unread: false,
            is_half_closed: false,
        };
        self.clients.insert(number, client);
        self.read_client(number);
    }

    fn read_client(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        self.dirty.insert(number);
        let now = self.now;
        client.heard_us = now.mono_us;
        if client.is_overfull() {
            client.has_unread = true;
            return;
        }
        let (session, in_flight) = (&mut client.session, &mut client.in_flight);
        let (shared, engine, router) = (&mut self.shared, &mut self.engine, &mut self.router);
        let mut bytes_read = 0;
        let waiting = client.link.input.len();
        let end = client.link.read(&mut self.scratch, |input| {
            bytes_read = input.len() - waiting;
            handle_all(session, now, shared, input, |id, request| {
                *in_flight += 1;
                router.route(now, engine, Token { connection: number, id }, request);
            })
        });
        self.shared.counters.bytes_read += bytes_read as u64;
        client.has_unread = end == ReadEnd::Paused;
        match end {
            ReadEnd::Closed => client.is_half_closed = true,
            ReadEnd::Paused => self.unread.push(number),
            ReadEnd::Drained => {}
        }
    }

    fn read_session(&mut self, id: SessionId) {
        let Some(link) = self.peers.links.get_mut(&id) else { return };
        let (engine, now) = (&mut self.engine, self.now);
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
            match end {
                ReadEnd::Paused if failure.is_none() => continue,
                ReadEnd::Drained if failure.is_none() => {
                    if has_read {
                        self.peers.note_alive(id);
                    }
                }
                ReadEnd::Closed | ReadEnd::Paused | ReadEnd::Drained => self.close_session(id),
            }
            return;
        }
    }

    fn close_session(&mut self, id: SessionId) {
        self.peers.close(id, self.poll.registry());
        self.engine.handle_session_closed(self.now, id);
    }

    /// Hands the engine's replies to whom they belong, and what these ask in turn back to the engine.
    fn pass_replies(&mut self) {
        // After all that arrived in the turn, not before it.
        let now = self.read_clock();
        while let Some((token, reply)) = self.engine.poll_reply(now) {
            if let Some(core) = self.router.foreign.remove(&token) {
                self.router.cores[core].put(ToCore::Reply { token, reply });
                self.router.to_wake.insert(core);
            } else {
                self.deliver(token, reply);
            }
        }
    }

    fn deliver(&mut self, token: Token, reply: Reply) {
        let core_count = self.router.cores.len();
        let reply = match reply {
            Reply::Keyspace(reply) => match self.router.gather.add(token, reply, core_count) {
                Some(whole) => {
                    if matches!(whole, Ok(KeyspaceReply::Stats(_))) {
                        self.tell_counters();
                    }
                    Reply::Keyspace(whole)
                }
                None => return,
            },
            other => other,
        };
        let number = token.connection;
        let Some(client) = self.clients.get_mut(&number) else { return };
        let (shared, engine, router) = (&mut self.shared, &mut self.engine, &mut self.router);
        let in_flight = &mut client.in_flight;
        *in_flight -= 1;
        client.session.handle_reply(self.now, shared, token.id, reply, |id, request| {
            *in_flight += 1;
            router.route(self.now, engine, Token { connection: number, id }, request);
        });
        self.dirty.insert(number);
    }

    /// Input that a session left because too much was in flight is looked at again.
    fn resume_input(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        if !client.link.input.is_empty() {
            let (shared, engine, router, now) = (&mut self.shared, &mut self.engine, &mut self.router, self.now);
            let (session, in_flight) = (&mut client.session, &mut client.in_flight);
            let input = std::mem::take(&mut client.link.input);
            let consumed = handle_all(session, now, shared, &input, |id, request| {
                *in_flight += 1;
                router.route(now, engine, Token { connection: number, id }, request);
            });
            client.link.input = input;
            client.link.drop_consumed(consumed);
            if consumed > 0 && !self.unread.contains(&number) {
                self.unread.push(number);
            }
        }
        if client.has_unread && !client.is_overfull() && !self.unread.contains(&number) {
            self.unread.push(number);
        }
    }

    fn write_sessions(&mut self) {
        let mut broken = Vec::new();
        for (&id, link) in &mut self.peers.links {
            let output = if link.is_full() { self.engine.session_rest(id) } else { self.engine.session_output(id) };
            let Some(output) = output.filter(|output| !output.is_empty()) else { continue };
            if let Err(error) = link.write(output, self.poll.registry()) {
                // Connecting takes a moment over TCP: what was written waits in the outbox.
                if error.kind() != io::ErrorKind::NotConnected {
                    broken.push(id);
                }
            }
        }
        broken.into_iter().for_each(|id| self.close_session(id));
    }

    fn write_clients(&mut self) {
        for number in std::mem::take(&mut self.dirty) {
            self.resume_input(number);
            let Some(client) = self.clients.get_mut(&number) else { continue };
            let output = client.session.output();
            let before = output.len();
            let result = if before == 0 { Ok(()) } else { client.link.write(output, self.poll.registry()) };
            let left = client.session.output().len();
            self.shared.counters.bytes_written += (before - left) as u64;
            let is_over = client.session.closing() || client.is_half_closed && client.in_flight == 0;
            if result.is_err() || is_over && left == 0 {
                self.drop_client(number);
            }
        }
    }

    fn drop_client(&mut self, number: u64) {
        if let Some(mut client) = self.clients.remove(&number) {
            client.link.close(self.poll.registry());
            self.totals.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn connect_peers(&mut self) {
        let wanted = self.engine.wanted_sessions();
        for id in self.peers.connect(self.now.mono_us, &wanted, self.poll.registry()) {
            self.engine.handle_session_opened(self.now, id);
        }
    }

    fn housekeep(&mut self) -> io::Result<()> {
        if self.now.mono_us < self.housekeeping_us {
            return Ok(());
        }
        self.housekeeping_us = self.now.mono_us + HOUSEKEEPING_US;
        self.engine.hung_greetings().into_iter().for_each(|id| self.close_session(id));
        self.connect_peers();
        self.write_sessions();
        self.drop_idle_clients();
        self.share_opinions();
        self.log_verdicts();
        self.publish();
        if !self.is_listening && self.engine.is_serving() {
            self.is_listening = true;
            for (place, (listener, _)) in self.listeners.iter_mut().enumerate() {
                let token = MioToken(FIRST_LISTENER + place);
                self.poll.registry().register(listener, token, Interest::READABLE)?;
            }
            self.gauges.is_serving.store(1, Ordering::Release);
        }
        Ok(())
    }

    /// Cores tell each other which nodes are slow: one that asks a node rarely need not find out by itself.
    fn share_opinions(&mut self) {
        if self.router.cores.len() == 1 {
            return;
        }
        let merged = {
            let mut opinions = self.totals.opinions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            opinions.resize_with(self.router.cores.len(), Default::default);
            opinions[self.router.core] = self.engine.opinions();
            shorttail_monitor::merge(&opinions)
        };
        self.engine.handle_opinions(self.now, &merged);
    }

    fn log_verdicts(&mut self) {
        while let Some(verdict) = self.engine.poll_verdict() {
            if verdict.fail_slow {
                tracing::warn!("{verdict}");
            } else {
                tracing::info!("{verdict}");
            }
        }
    }

    fn drop_idle_clients(&mut self) {
        let timeout_us = self.shared.settings.idle_timeout_s * 1_000_000;
        if timeout_us == 0 {
            return;
        }
        let before_us = self.now.mono_us.saturating_sub(timeout_us);
        let idle: Vec<_> =
            self.clients.iter().filter(|(_, client)| client.heard_us < before_us).map(|(&number, _)| number).collect();
        self.shared.counters.idle_kicks += idle.len() as u64;
        idle.into_iter().for_each(|number| self.drop_client(number));
    }

    fn tell_counters(&mut self) {
        self.shared.elsewhere = self.teller.exchange(&mut self.shared.counters);
    }

    fn publish(&mut self) {
        let counters = &mut self.shared.counters;
        counters.connections_current = self.totals.connections.load(Ordering::Relaxed) as u64;
        counters.connections_total = self.totals.connections_total.load(Ordering::Relaxed);
        counters.connections_rejected = self.totals.connections_rejected.load(Ordering::Relaxed);
        if let Some((user_us, system_us)) = crate::clock::cpu_times_us() {
            counters.cpu_user_us = user_us;
            counters.cpu_system_us = system_us;
        }
        self.tell_counters();
        let stats = self.engine.stats();
        if self.reports_node_memory {
            self.shared.settings.memory_limit_bytes = stats.bytes_limit;
        }
        let seen = self.engine.wanted_sessions().into_iter().filter(|session| session.core == 0);
        let seen = seen.map(|session| NodeSeen {
            id: session.node.0,
            connected: self.engine.reaches(session.node),
            ..super::seen::node_seen(&self.engine.watched(session.node))
        });
        let seen = seen.collect();
        let mut published = self.gauges.stats.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *published = (stats, seen);
    }
}

impl Client {
    /// Too much is waiting: the client does not read its replies, or sends faster than is served.
    fn is_overfull(&self) -> bool {
        // A request that is not complete may go on: how long it may get is the session's to bound.
        self.link.input.len() >= INPUT_BYTES_MAX && self.session.input_hint_bytes() == 0
    }
}

/// A signal ends a wait like an event does.
fn poll(poll: &mut Poll, events: &mut Events, wait: Duration) -> io::Result<()> {
    match poll.poll(events, Some(wait)) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            events.clear();
            Ok(())
        }
        result => result,
    }
}

/// Lets a session consume all it can: it stops after one request that it must see the reply of, or when too much is in
/// flight, and then consumes nothing.
fn handle_all(
    session: &mut ClientSession,
    now: Now,
    shared: &mut Shared,
    input: &[u8],
    mut sink: impl FnMut(RequestId, Request<AnyCommand>),
) -> usize {
    let mut consumed = 0;
    loop {
        let step = session.handle_input(now, shared, &input[consumed..], &mut sink);
        consumed += step;
        if step == 0 || consumed == input.len() {
            return consumed;
        }
    }
}

impl Router {
    fn route(&mut self, now: Now, engine: &mut Engine<AnyCommand>, token: Token, request: Request<AnyCommand>) {
        use shorttail_gateway::command::Command;
        let core = match &request {
            _ if self.cores.len() == 1 && !matches!(request, Request::Keyspace(_)) => self.core,
            Request::Key(command) => self.core_of(command.key()),
            Request::Group(group) => group.pairs.first().map_or(self.core, |(key, _)| self.core_of(key)),
            Request::Keyspace(keyspace) => {
                let (asked, keyspace) = self.gather.begin(token, keyspace.clone(), self.cores.len());
                for core in (0..self.cores.len()).filter(|&core| asked == Asked::All || asked == Asked::One(core)) {
                    self.pass(now, engine, core, token, Request::Keyspace(keyspace.clone()));
                }
                return;
            }
        };
        self.pass(now, engine, core, token, request);
    }

    fn core_of(&self, key: &[u8]) -> usize {
        usize::from(Engine::<AnyCommand>::partition_of_key(&self.config, key).0) % self.cores.len()
    }

    fn pass(
        &mut self,
        now: Now,
        engine: &mut Engine<AnyCommand>,
        core: usize,
        token: Token,
        request: Request<AnyCommand>,
    ) {
        if core == self.core {
            return engine.handle_request(now, token, request);
        }
        self.cores[core].put(ToCore::Request { from: self.core, token, request });
        self.to_wake.insert(core);
    }

    fn wake(&mut self) {
        for core in self.to_wake.drain() {
            self.cores[core].wake();
        }
    }
}

/// One connection too many: the client is told, if it listens, and let go.
fn refuse_connection(mut stream: Stream, protocol: Protocol) {
    use std::io::Write;
    let message: &[u8] = match protocol {
        Protocol::Memcached => b"ERROR Too many open connections\r\n",
        Protocol::Redis => b"-ERR max number of clients reached\r\n",
    };
    // Best effort: the connection is closed either way.
    let _ = stream.write(message);
}
