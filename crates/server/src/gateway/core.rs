//! One core of a gateway: an epoll loop around engines, client sessions, node sessions and other gateways.
//!
//! A turn: take what arrived, of clients and of other cores for a bounded time each, let the engines handle it, hand
//! out a bounded number of replies, then one write per connection.
//!
//! ```text
//! clients.rs ----.                     .---- sessions.rs <--> nodes
//! guests.rs  ----+----> Exchange <-----'
//! incoming   ----'      housekeeping.rs: now and then, between turns
//! ```
//!
//! Must not know: what clients ask, what the engines tell the nodes, whose partition a request is about.

mod awaiting;
mod clients;
mod guests;
mod housekeeping;
mod incoming;
mod message;
mod reading;
mod sessions;
mod work;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use mio::event::Event;
use mio::{Events, Interest, Poll, Token as MioToken};
use shorttail_gateway::engine::{EngineConfig, Token, WhenFull};
use shorttail_gateway::roster::{ClientProtocol, Roster};
use shorttail_gateway::session::{Settings, Shared};
use shorttail_units::Now;
use shorttail_wire::control::{GatewayEntry, View};

use super::backlog::BacklogRoom;
use super::client::Client;
use super::exchange::{Answer, CoreIdentity, Exchange, asks_stats, is_stats};
use super::guests::Guest;
use super::input_room::{InputRoom, READ_BYTES};
use super::neighbours::{Identity, gateway_of};
use super::peers::session_of;
use super::policies::NewPolicies;
use super::tallies::Teller;
use super::{CoreGauges, Listeners, Totals};
use crate::clock::{Clock, thread_time_us};
use crate::config::limits::LISTENER_COUNT_MAX;
use crate::net::{Accepting, Inbox, Listener, Outlet, Patience};
use crate::scheduling;
use incoming::Incoming;
pub use message::{Live, ToCore};
use reading::ReadQueue;
use sessions::Until;
use work::Work;

pub const INBOX: MioToken = MioToken(0);
const FIRST_LISTENER: usize = 1;
/// Those for clients, and the one for other gateways.
const LISTENERS_MAX: usize = LISTENER_COUNT_MAX + 1;
const FORWARD_LISTENER: MioToken = MioToken(FIRST_LISTENER + LISTENERS_MAX - 1);
const FIRST_CLIENT: u64 = (FIRST_LISTENER + LISTENERS_MAX) as u64;

/// Bytes read from a connection at once.
const SCRATCH_BYTES: usize = READ_BYTES;

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
    pub roster: Arc<Roster>,
    pub cores: Vec<Outlet<ToCore>>,
    pub listeners: Listeners,
    pub gauges: Arc<CoreGauges>,
    pub totals: Arc<Totals>,
    pub teller: Teller,
}

pub struct Core {
    poll: Poll,
    incoming: Incoming<ToCore>,
    clock: Clock,
    patience: Patience,
    now: Now,
    identity: Identity,
    core: usize,
    exchange: Exchange,
    /// Epochs of all tenures of the cluster that are served.
    served: Arc<BTreeSet<u32>>,
    shared: Shared,
    teller: Teller,
    listeners: Vec<(Accepting<Listener>, ClientProtocol)>,
    /// Where other gateways connect.
    forward: Option<Accepting<Listener>>,
    gauges: Arc<CoreGauges>,
    totals: Arc<Totals>,
    clients: HashMap<u64, Client>,
    /// For what clients sent and nobody was asked for.
    input_room: InputRoom,
    /// For replies that clients do not read.
    backlog_room: BacklogRoom,
    next_client: u64,
    /// Connections of other gateways; numbered as clients are.
    guests: HashMap<u64, Guest>,
    /// Messages of theirs that were hurt on their way.
    hurt_by_guests: u64,
    /// Clients with output, or that may have become closable.
    dirty: Vec<u64>,
    /// Clients and other gateways that sent something, or may go on with what they sent.
    unread: ReadQueue,
    /// Clients that want to store what there is no room for.
    without_room: ReadQueue,
    scratch: Vec<u8>,
    work: Work,
    housekeeping_us: u64,
    /// No limit was asked for: what clients are told is what the nodes have.
    reports_node_memory: bool,
}

fn alone(settings: &Settings, identity: Identity) -> GatewayEntry {
    let listening = (settings.redis_port != 0).then(|| SocketAddr::from(([0, 0, 0, 0], settings.redis_port)));
    let redis = settings.redis_advertise.or(listening).map(|address| address.to_string());
    GatewayEntry { id: identity.gateway, is_alive: true, redis, ..GatewayEntry::default() }
}

impl Core {
    pub fn new(setup: CoreSetup) -> io::Result<Self> {
        let now = setup.clock.now();
        let mut settings = setup.settings;
        settings.started_us = now.mono_us;
        let reports_node_memory = settings.memory_limit_bytes == 0;
        let own = CoreIdentity { identity: setup.identity, core: setup.core };
        let core_count = setup.cores.len();
        let mut exchange = Exchange::new(own, setup.cores, setup.engine, Arc::clone(&setup.totals.waiting));
        exchange.sends_redis_clients = settings.redis_cluster.sends_clients();
        exchange.table.begin_alone(alone(&settings, setup.identity));
        let served = Arc::default();
        let topology = exchange.tell(&served);
        let shared = Shared { topology, roster: setup.roster, ..Shared::new(settings) };
        let sockets = setup.listeners.sockets.into_iter();
        Ok(Core {
            poll: setup.poll,
            incoming: Incoming::new(setup.inbox),
            clock: setup.clock,
            patience: Patience::default(),
            now,
            identity: setup.identity,
            core: setup.core,
            exchange,
            served,
            shared,
            teller: setup.teller,
            listeners: sockets.map(|(listener, protocol)| (Accepting::new(listener, "a client"), protocol)).collect(),
            forward: setup.listeners.forward.map(|listener| Accepting::new(listener, "another gateway")),
            gauges: setup.gauges,
            totals: setup.totals,
            clients: HashMap::new(),
            input_room: InputRoom::of_core(core_count),
            backlog_room: BacklogRoom::of_core(core_count),
            // Numbers are unique over all cores: other cores answer requests by them.
            next_client: FIRST_CLIENT + ((setup.core as u64) << 40),
            guests: HashMap::new(),
            hurt_by_guests: 0,
            dirty: Vec::new(),
            unread: ReadQueue::default(),
            without_room: ReadQueue::default(),
            scratch: vec![0; SCRATCH_BYTES],
            work: Work::default(),
            housekeeping_us: 0,
            reports_node_memory,
        })
    }

    /// # Errors
    /// When the system's polling fails: the core cannot go on.
    pub fn run(mut self) -> io::Result<()> {
        scheduling::shorten_slices();
        let mut events = Events::with_capacity(1024);
        self.listen()?;
        loop {
            self.await_events(&mut events)?;
            self.now = self.read_clock();
            self.tell_work();
            for event in &events {
                self.handle_event(event)?;
            }
            self.take_messages();
            self.accept_due();
            self.read_unread();
            self.pass_replies();
            self.exchange.end_turn(self.now);
            self.pass_replies();
            self.write_sessions(Until::Clients);
            self.exchange.write_neighbours(self.now, self.poll.registry());
            self.write_guests();
            self.write_clients();
            self.write_sessions(Until::End);
            self.housekeep();
            self.exchange.wake();
            if self.shared.counters.shutdown_asked {
                tracing::info!("a client asked for the end of the server");
                std::process::exit(0);
            }
        }
    }

    fn listen(&mut self) -> io::Result<()> {
        if let Some(forward) = &mut self.forward {
            self.poll.registry().register(&mut forward.listener, FORWARD_LISTENER, Interest::READABLE)?;
        }
        for (place, (accepting, _)) in self.listeners.iter_mut().enumerate() {
            let token = MioToken(FIRST_LISTENER + place);
            self.poll.registry().register(&mut accepting.listener, token, Interest::READABLE)?;
        }
        Ok(())
    }

    /// The clock, with the wall clock moved as a debugging client may have asked.
    fn read_clock(&self) -> Now {
        let mut now = self.clock.now();
        let moved_ms = self.shared.counters.debug_time_s.saturating_mul(1000);
        now.unix_ms.0 = now.unix_ms.0.saturating_add_signed(moved_ms);
        now
    }

    /// Engines do not take the work of a long turn for a pause.
    fn tell_work(&mut self) {
        let worked_us = self.work.since_last_turn(self.now.mono_us, thread_time_us);
        if worked_us > 0 {
            self.exchange.tenures.iter_mut().for_each(|tenure| tenure.engine.handle_work(worked_us));
        }
    }

    fn handle_event(&mut self, event: &Event) -> io::Result<()> {
        let token = event.token();
        if let Some((place, session)) = session_of(token) {
            self.note_session_event(place, session, event);
            self.read_session(place, session);
        } else if let Some(gateway) = gateway_of(token) {
            self.exchange.read_neighbour(self.now, gateway, event, &mut self.scratch, self.poll.registry());
        } else if token == INBOX {
            self.incoming.come();
        } else if token == FORWARD_LISTENER {
            self.forward.iter_mut().for_each(|forward| forward.come(self.now.mono_us));
        } else if let Some(guest) = self.guests.get_mut(&(token.0 as u64)) {
            guest.link.note(event);
            guest.queue(token.0 as u64, &mut self.unread);
        } else if token.0 < FIRST_CLIENT as usize {
            let listener = self.listeners.get_mut(token.0 - FIRST_LISTENER);
            listener.into_iter().for_each(|(accepting, _)| accepting.come(self.now.mono_us));
        } else {
            let number = token.0 as u64;
            let Some(client) = self.clients.get_mut(&number) else { return Ok(()) };
            client.link.note(event);
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                client.queue(number, &mut self.unread);
            }
            client.mark(number, &mut self.dirty);
        }
        Ok(())
    }

    fn take_messages(&mut self) {
        if !self.incoming.has_some() {
            return;
        }
        let clock = self.clock;
        self.incoming.begin_turn(clock.now().mono_us);
        while let Some(message) = self.incoming.next(clock.now().mono_us) {
            match message {
                ToCore::Client { stream, protocol } => self.serve(stream, protocol),
                ToCore::Guest { stream } => self.serve_guest(stream),
                ToCore::Ask(passed) => {
                    if asks_stats(&passed.ask.request) {
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
                ToCore::Leave => self.exchange.leave_all(),
                ToCore::Served(served) => {
                    self.served = served;
                    self.shared.topology = self.exchange.tell(&self.served);
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
        self.shared.topology = self.exchange.tell(&self.served);
        self.connect_peers();
    }

    /// Hands replies to whom they belong, and what these ask in turn to its owners.
    fn pass_replies(&mut self) {
        // After all that arrived in the turn, not before it.
        let now = self.read_clock();
        self.exchange.begin_pass(now);
        while let Some((token, answer)) = self.exchange.poll_answer(now) {
            self.deliver(now, token, answer);
        }
    }

    fn deliver(&mut self, now: Now, token: Token, answer: Answer) {
        if is_stats(&answer) {
            self.tell_counters();
        }
        if let Some(guest) = self.guests.get_mut(&token.connection) {
            return guest.answer(token.id.seq, &answer);
        }
        // A client's request is never given back: it finds its owner, or is refused.
        if let Some(reply) = answer {
            self.take_reply(now, token, reply);
        }
    }
}
