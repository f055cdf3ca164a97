//! One core of a gateway: an epoll loop around engines, client sessions, node sessions and other gateways.
//!
//! A turn: take all that arrived, let the engines handle it, then one write per connection.

use std::collections::BTreeMap;
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
use shorttail_gateway::request::{RequestId, StoreStats};
use shorttail_gateway::session::{Settings, Shared};
use shorttail_gateway::topology::{Place as ClientPlace, Topology};
use shorttail_units::Now;
use shorttail_wire::control::{NodeSeen, TenureState, Terms, View};

use super::client::{Client, ClientSession, Protocol};
use super::exchange::{Answer, Exchange, Passed, Place, asks_stats, is_stats};
use super::guests::Guest;
use super::limits::{GUEST_COUNT_MAX, GUEST_OUTBOX_BYTES_MAX};
use super::neighbours::{Identity, gateway_of};
use super::peers::{Peers, session_of};
use super::policies::NewPolicies;
use super::tallies::Teller;
use super::tenures::Tenure;
use super::{CoreGauges, CoreReport, Listeners, Totals};
use crate::clock::Clock;
use crate::config::SidestepConfig;
use crate::net::{ASK_US_MAX, Inbox, Link, Listener, Outlet, Patience, ReadEnd, Stream};

pub const INBOX: MioToken = MioToken(0);
const FIRST_LISTENER: usize = 1;
const LISTENERS_MAX: usize = 64;
const FORWARD_LISTENER: MioToken = MioToken(FIRST_LISTENER + LISTENERS_MAX - 1);
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
    Client {
        stream: Stream,
        protocol: Protocol,
    },
    /// Another gateway connected.
    Guest {
        stream: Stream,
    },
    Ask(Passed),
    Answer {
        token: Token,
        answer: Answer,
        /// Of the request.
        partition: u16,
    },
    View(Arc<View>),
    /// All tenures of this gateway.
    Terms(Arc<[Terms]>),
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
    /// What all engines have in common.
    pub engine: EngineConfig,
    pub core: usize,
    pub identity: Identity,
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
    identity: Identity,
    core: usize,
    exchange: Exchange,
    shared: Shared,
    teller: Teller,
    listeners: Vec<(Listener, Protocol)>,
    /// Where other gateways connect.
    forward: Option<Listener>,
    is_listening: bool,
    gauges: Arc<CoreGauges>,
    totals: Arc<Totals>,
    clients: HashMap<u64, Client>,
    next_client: u64,
    /// Connections of other gateways; numbered as clients are.
    guests: HashMap<u64, Guest>,
    /// Clients with output, or that may have become closable.
    dirty: HashSet<u64>,
    /// Clients with input left in their socket or buffer.
    unread: Vec<u64>,
    scratch: Vec<u8>,
    housekeeping_us: u64,
    /// No limit was asked for: what clients are told is what the nodes have.
    reports_node_memory: bool,
}

/// What sessions start with: a gateway that serves everything, until a view says otherwise.
fn shared(settings: Settings, identity: Identity) -> Shared {
    let redis = (settings.redis_port != 0).then(|| ClientPlace { host: String::new(), port: settings.redis_port });
    let topology = Topology::single(identity.cluster, identity.gateway, 0, redis);
    Shared { topology: Arc::new(topology), ..Shared::new(settings) }
}

impl Core {
    pub fn new(setup: CoreSetup) -> io::Result<Self> {
        let now = setup.clock.now();
        let mut settings = setup.settings;
        settings.started_us = now.mono_us;
        let reports_node_memory = settings.memory_limit_bytes == 0;
        let shared = shared(settings, setup.identity);
        let place = Place { identity: setup.identity, core: setup.core };
        Ok(Core {
            poll: setup.poll,
            inbox: setup.inbox,
            clock: setup.clock,
            patience: Patience::default(),
            now,
            identity: setup.identity,
            core: setup.core,
            exchange: Exchange::new(place, setup.cores, setup.engine),
            shared,
            teller: setup.teller,
            listeners: setup.listeners.sockets,
            forward: setup.listeners.forward,
            is_listening: false,
            gauges: setup.gauges,
            totals: setup.totals,
            clients: HashMap::new(),
            // Numbers are unique over all cores: other cores answer requests by them.
            next_client: FIRST_CLIENT + ((setup.core as u64) << 40),
            guests: HashMap::new(),
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
        if let Some(forward) = &mut self.forward {
            self.poll.registry().register(forward, FORWARD_LISTENER, Interest::READABLE)?;
        }
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
            self.exchange.end_turn(self.now);
            self.pass_replies();
            self.write_sessions();
            self.exchange.write_neighbours(self.now, self.poll.registry());
            self.write_guests();
            self.write_clients();
            self.housekeep()?;
            self.exchange.wake();
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
        let engines = self.exchange.tenures.iter().filter_map(|tenure| tenure.engine.poll_deadline());
        let due_us = engines.min().unwrap_or(u64::MAX).min(self.housekeeping_us);
        // One millisecond is the granularity of epoll; waiting a little too long is harmless, spinning is not.
        Duration::from_micros(due_us.saturating_sub(now_us).max(1000))
    }

    fn handle_event(&mut self, event: &Event) -> io::Result<()> {
        let token = event.token();
        if let Some((place, session)) = session_of(token) {
            self.read_session(place, session);
        } else if let Some(gateway) = gateway_of(token) {
            self.exchange.read_neighbour(self.now, gateway, &mut self.scratch, self.poll.registry());
        } else if token == INBOX {
            self.take_messages();
        } else if token == FORWARD_LISTENER {
            self.accept_guests();
        } else if self.guests.contains_key(&(token.0 as u64)) {
            self.read_guest(token.0 as u64);
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
                ToCore::Guest { stream } => self.serve_guest(stream),
                ToCore::Ask(passed) => {
                    if asks_stats(&passed.ask) {
                        self.tell_counters();
                    }
                    self.exchange.ask_as_core(self.now, passed);
                }
                ToCore::Answer { token, answer, partition } => self.exchange.answer_of_core(token, answer, partition),
                ToCore::View(view) => self.take_view(&view),
                ToCore::Terms(terms) => {
                    self.exchange.take_terms(self.now, &terms);
                    self.connect_peers();
                }
                ToCore::Change(live) => self.change(&live),
                ToCore::Policies(NewPolicies { changed, done }) => {
                    self.exchange.tenures.set_policies(&changed);
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
        let when_full = live.when_full;
        self.exchange.tenures.change(|config| config.when_full = when_full, |engine| engine.set_when_full(when_full));
        if let Some(sidestep) = &live.sidestep {
            let (monitor, budget) = (sidestep.monitor(), sidestep.hedge_budget_share());
            let of_config = |config: &mut EngineConfig| (config.monitor, config.hedge_budget) = (monitor, budget);
            self.exchange.tenures.change(of_config, |engine| {
                engine.set_monitor(monitor);
                engine.set_hedge_budget(budget);
            });
        }
    }

    fn take_view(&mut self, view: &View) {
        self.exchange.take_view(self.now, view, self.poll.registry());
        if !view.gateways.is_empty() {
            self.shared.topology = self.exchange.topology(view);
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
            let core = count % self.exchange.core_count();
            if core == self.core {
                self.serve(stream, protocol);
            } else {
                self.exchange.core(core).send(ToCore::Client { stream, protocol });
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
        let (shared, exchange) = (&mut self.shared, &mut self.exchange);
        let mut bytes_read = 0;
        let waiting = client.link.input.len();
        let end = client.link.read(&mut self.scratch, |input| {
            bytes_read = input.len() - waiting;
            session.handle_all(now, shared, input, |id, request| {
                *in_flight += 1;
                exchange.ask(now, Token { connection: number, id }, request);
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

    fn read_session(&mut self, place: u16, id: SessionId) {
        let Some(Tenure { engine, peers, .. }) = self.exchange.tenures.of_place(place) else { return };
        let Some(link) = peers.links.get_mut(&id) else { return };
        let now = self.now;
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
                        peers.note_alive(id);
                    }
                }
                ReadEnd::Closed | ReadEnd::Paused | ReadEnd::Drained => {
                    close_session(now, engine, peers, id, self.poll.registry())
                }
            }
            return;
        }
    }

    /// Hands replies to whom they belong, and what these ask in turn to its owners.
    fn pass_replies(&mut self) {
        // After all that arrived in the turn, not before it.
        let now = self.read_clock();
        while let Some((token, answer)) = self.exchange.poll_answer(now) {
            self.deliver(token, answer);
        }
    }

    fn deliver(&mut self, token: Token, answer: Answer) {
        if is_stats(&answer) {
            self.tell_counters();
        }
        if let Some(guest) = self.guests.get_mut(&token.connection) {
            return guest.answer(token.id.seq, &answer);
        }
        // A client's request is never given back: it finds its owner, or is refused.
        let Some(reply) = answer else { return };
        let number = token.connection;
        let Some(client) = self.clients.get_mut(&number) else { return };
        let (shared, exchange) = (&mut self.shared, &mut self.exchange);
        let in_flight = &mut client.in_flight;
        *in_flight -= 1;
        client.session.handle_reply(self.now, shared, token.id, reply, |id, request| {
            *in_flight += 1;
            exchange.ask(self.now, Token { connection: number, id }, request);
        });
        self.dirty.insert(number);
    }

    /// Input that a session left because too much was in flight is looked at again.
    fn resume_input(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        if !client.link.input.is_empty() {
            let (shared, exchange, now) = (&mut self.shared, &mut self.exchange, self.now);
            let (session, in_flight) = (&mut client.session, &mut client.in_flight);
            let input = std::mem::take(&mut client.link.input);
            let consumed = session.handle_all(now, shared, &input, |id, request| {
                *in_flight += 1;
                exchange.ask(now, Token { connection: number, id }, request);
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

    /// The client took some of its output: what waited for that goes on in the next turn.
    fn resume_client(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let (exchange, now, in_flight) = (&mut self.exchange, self.now, &mut client.in_flight);
        let has_asked = client.session.resume(|id, request| {
            *in_flight += 1;
            exchange.ask(now, Token { connection: number, id }, request);
        });
        if has_asked && !self.unread.contains(&number) {
            self.unread.push(number);
        } else if !client.link.input.is_empty() {
            self.resume_input(number);
        }
    }

    fn write_sessions(&mut self) {
        let registry = self.poll.registry();
        let mut broken = Vec::new();
        for Tenure { engine, peers, .. } in self.exchange.tenures.iter_mut() {
            for (&id, link) in &mut peers.links {
                let output = if link.is_full() { engine.session_rest(id) } else { engine.session_output(id) };
                let Some(output) = output.filter(|output| !output.is_empty()) else { continue };
                if let Err(error) = link.write(output, registry) {
                    // Connecting takes a moment over TCP: what was written waits in the outbox.
                    if error.kind() != io::ErrorKind::NotConnected {
                        broken.push(id);
                    }
                }
            }
            broken.drain(..).for_each(|id| close_session(self.now, engine, peers, id, registry));
        }
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
            if result.is_ok() && left < before {
                self.resume_client(number);
            }
            let Some(client) = self.clients.get_mut(&number) else { continue };
            let is_over = client.session.closing() || client.is_half_closed && client.in_flight == 0;
            if result.is_err() || is_over && client.session.output().is_empty() {
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
        for Tenure { engine, peers, .. } in self.exchange.tenures.iter_mut() {
            let wanted = engine.wanted_sessions();
            for id in peers.connect(self.now.mono_us, &wanted, self.poll.registry()) {
                engine.handle_session_opened(self.now, id);
            }
        }
    }

    fn housekeep(&mut self) -> io::Result<()> {
        // Others wait for what an engine has come to.
        let has_changed = self.exchange.tenures.has_changed();
        if self.now.mono_us < self.housekeeping_us && !has_changed {
            return Ok(());
        }
        self.housekeeping_us = self.now.mono_us + HOUSEKEEPING_US;
        let registry = self.poll.registry();
        for Tenure { engine, peers, .. } in self.exchange.tenures.iter_mut() {
            let hung = engine.hung_greetings();
            hung.into_iter().for_each(|id| close_session(self.now, engine, peers, id, registry));
        }
        self.exchange.housekeep(self.now, registry);
        self.connect_peers();
        self.write_sessions();
        self.drop_idle_clients();
        self.drop_silent_guests();
        self.share_opinions();
        self.log_verdicts();
        self.publish();
        // What is not served yet waits: clients may come as soon as it is known whose everything is.
        if !self.is_listening && self.exchange.table.is_complete() {
            self.is_listening = true;
            for (place, (listener, _)) in self.listeners.iter_mut().enumerate() {
                let token = MioToken(FIRST_LISTENER + place);
                self.poll.registry().register(listener, token, Interest::READABLE)?;
            }
        }
        Ok(())
    }

    /// Engines tell each other which nodes are slow: one that asks a node rarely need not find out by itself.
    fn share_opinions(&mut self) {
        let mut own: Vec<_> = self.exchange.tenures.iter().map(|tenure| tenure.engine.opinions()).collect();
        if self.exchange.core_count() == 1 && own.len() <= 1 {
            return;
        }
        let merged = {
            let mut opinions = self.totals.opinions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            opinions.resize_with(self.exchange.core_count(), Default::default);
            std::mem::swap(&mut opinions[self.core], &mut own);
            shorttail_monitor::merge(&opinions.concat())
        };
        for tenure in self.exchange.tenures.iter_mut() {
            tenure.engine.handle_opinions(self.now, &merged);
        }
    }

    fn log_verdicts(&mut self) {
        for tenure in self.exchange.tenures.iter_mut() {
            while let Some(verdict) = tenure.engine.poll_verdict() {
                // Whoever was told that it began is to be told that it is over.
                tracing::warn!("{verdict}");
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
        let mut sum: Option<StoreStats> = None;
        let mut seen: BTreeMap<u16, NodeSeen> = BTreeMap::new();
        for Tenure { engine, .. } in self.exchange.tenures.iter() {
            let stats = engine.stats();
            sum = Some(sum.map_or_else(|| stats.clone(), |sum| sum.plus(&stats)));
            for session in engine.wanted_sessions().into_iter().filter(|session| session.core == 0) {
                let of_engine = NodeSeen {
                    id: session.node.0,
                    connected: engine.reaches(session.node),
                    chunks_left: engine.chunks_left(session.node),
                    ..super::seen::node_seen(&engine.watched(session.node))
                };
                let known = seen.remove(&session.node.0);
                seen.insert(session.node.0, known.map_or_else(|| of_engine.clone(), |known| known.plus(&of_engine)));
            }
        }
        if let Some(stats) = sum.as_ref().filter(|_| self.reports_node_memory) {
            self.shared.settings.memory_limit_bytes = stats.bytes_limit;
        }
        let shares = self.exchange.tenures.shares(self.now);
        let is_to_come =
            |share: &super::tenures::Share| matches!(share.state, TenureState::Preparing | TenureState::Prepared);
        let mut present = shares.iter().filter(|share| !is_to_come(share));
        let serves = self.is_listening && present.all(|share| share.state == TenureState::Serving);
        self.gauges.is_serving.store(usize::from(serves), Ordering::Release);
        let mut published = self.gauges.published.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *published = CoreReport { stats: sum, nodes: seen.into_values().collect(), shares };
    }

    fn accept_guests(&mut self) {
        loop {
            let Some(forward) = &self.forward else { return };
            let stream = match forward.accept() {
                Ok(stream) => stream,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        tracing::warn!(%error, "cannot accept another gateway");
                    }
                    return;
                }
            };
            // As clients, in turn.
            let core = self.totals.guests_total.fetch_add(1, Ordering::Relaxed) as usize % self.exchange.core_count();
            if core == self.core {
                self.serve_guest(stream);
            } else {
                self.exchange.core(core).send(ToCore::Guest { stream });
            }
        }
    }

    fn serve_guest(&mut self, stream: Stream) {
        if self.guests.len() >= GUEST_COUNT_MAX {
            return tracing::warn!(limit = GUEST_COUNT_MAX, "too many connections of other gateways");
        }
        let number = self.next_client;
        self.next_client += 1;
        let Ok(link) = Link::new(stream, MioToken(number as usize), self.poll.registry()) else { return };
        self.guests.insert(number, Guest::new(link, self.now.mono_us));
        self.read_guest(number);
    }

    fn read_guest(&mut self, number: u64) {
        let Some(guest) = self.guests.get_mut(&number) else { return };
        let (link, outbox, is_greeted) = guest.parts();
        let (identity, exchange, now) = (self.identity, &mut self.exchange, self.now);
        let mut problem = None;
        let is_over = loop {
            let end = link.read(&mut self.scratch, |input| {
                let ask = |tag, ask| {
                    let token = Token { connection: number, id: RequestId { seq: tag, part: 0 } };
                    exchange.ask_as_guest(now, token, ask);
                };
                Guest::take_frames(is_greeted, identity, input, outbox, ask).unwrap_or_else(|found| {
                    problem = Some(found);
                    input.len()
                })
            });
            match end {
                ReadEnd::Paused if problem.is_none() => {}
                ReadEnd::Drained if problem.is_none() => break false,
                ReadEnd::Closed | ReadEnd::Paused | ReadEnd::Drained => break true,
            }
        };
        if let Some(problem) = problem {
            tracing::warn!(problem, "another gateway is not understood");
        }
        guest.is_over |= is_over;
    }

    fn drop_silent_guests(&mut self) {
        let (now_us, registry) = (self.now.mono_us, self.poll.registry());
        let silent = self.guests.extract_if(|_, guest| guest.is_silent(now_us));
        silent.for_each(|(_, mut guest)| guest.link.close(registry));
    }

    fn write_guests(&mut self) {
        let registry = self.poll.registry();
        self.guests.retain(|_, guest| {
            let is_broken = !guest.outbox.is_empty() && guest.link.write(&mut guest.outbox, registry).is_err();
            let is_over = guest.is_over || is_broken || guest.outbox.len() > GUEST_OUTBOX_BYTES_MAX;
            if is_over {
                guest.link.close(registry);
            }
            !is_over
        });
    }
}

fn close_session(
    now: Now,
    engine: &mut Engine<AnyCommand>,
    peers: &mut Peers,
    id: SessionId,
    registry: &mio::Registry,
) {
    peers.close(id, registry);
    engine.handle_session_closed(now, id);
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
