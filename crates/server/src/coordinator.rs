//! Runs the coordinator: one epoll loop for all members, the metadata store and HTTP on threads of their own.
//!
//! The loop does what the machine says, in the machine's order: a `Persist` is in the store before the next message
//! leaves. There is a machine while this coordinator leads, and until it hears that another one does: then it sends
//! members to the leader, and its status names none.
//!
//! Must not know: what the machine decides, or what is stored in the cluster.

mod chronicle;
mod connection;
mod desk;
mod frames;
mod metadata;
mod reign;
mod seen_from;
mod stopper;

#[cfg(test)]
pub(crate) mod tests;
mod turned_away;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::Context;
use mio::{Events, Interest, Poll, Token, Waker};
use shorttail_coordinator::limits::{GATEWAY_COUNT_MAX, NODE_COUNT_MAX, UNITE_AFTER_MS};
use shorttail_coordinator::{ConnectionId, Coordinator, Input, Output, Seat, Settings};
use shorttail_units::Now;
use shorttail_wire::control::{
    CONTROL_PROTOCOL_VERSION, ClusterStatus, ControlFrameError, CoordinatorStatus, FromCoordinator, HEARTBEAT_MS,
    Refusal, ToCoordinator,
};
use signal_hook::flag::register_conditional_shutdown;

use crate::admin;
use crate::clock::Clock;
use crate::config::CoordinatorConfig;
use crate::net::{self, Accepting, Listener, OtherEnd};
use chronicle::Chronicle;
use connection::{Connection, FIRST_BYTES_MAX, WhyClosed};
use desk::Question;
pub use desk::{Desk, Outcome};
use frames::Frames;
pub use metadata::METADATA_FORMAT;
use metadata::keeper::Keeper;
use seen_from::Hidden;
use stopper::Stopper;
use turned_away::TurnedAway;

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
const CONNECTION_FIRST: usize = 2;
/// Connections at once: every possible node and gateway, and some that only ask.
const CONNECTION_COUNT_MAX: usize = NODE_COUNT_MAX + GATEWAY_COUNT_MAX + 64;
/// Members say at once who they are; a connection that brings nothing for so long is closed.
const UNHEARD_MAX: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });
/// Between two beats.
const BEAT: Duration = Duration::from_millis(HEARTBEAT_MS);

/// Runs the coordinator until the process is told to end. `is_watched`: whoever started it tells people what becomes of
/// members. `listens_to_signals` is called when SIGTERM and SIGINT are heard here.
///
/// # Errors
/// When an address cannot be listened on or the metadata store can never be used.
pub fn run(config: CoordinatorConfig, is_watched: bool, listens_to_signals: impl FnOnce()) -> anyhow::Result<()> {
    crate::panics::end_the_process();
    // Until there is something to stop; the first process of a container would not end by the signals alone.
    let is_starting = Arc::new(AtomicBool::new(true));
    for signal in stopper::SIGNALS {
        register_conditional_shutdown(signal, 0, Arc::clone(&is_starting)).context("cannot watch for signals")?;
    }
    let mut server = Server::bind(&config)?;
    server.is_watched = is_watched;
    server.stopper().stop_at_signals().context("cannot watch for signals")?;
    is_starting.store(false, Ordering::Relaxed);
    listens_to_signals();
    server.run()
}

/// The coordinator with its sockets, bound and not yet running.
pub struct Server {
    keeper: Keeper,
    seat: Seat,
    /// What is told of this coordinator; `leading` is asked of the seat.
    about: CoordinatorStatus,
    poll: Poll,
    listener: Accepting<Listener>,
    stopper: Stopper,
    questions: Receiver<Question>,
    /// Who waits for the answer to an order, and under which place, by ticket.
    ordered: HashMap<u64, (SyncSender<(usize, Outcome)>, usize)>,
    ticket_next: u64,
    connections: HashMap<usize, Connection>,
    /// Connections of which more may have arrived than one turn takes.
    unread: BTreeSet<usize>,
    /// Connections that brought nothing when they were made, the oldest first, and since when.
    unheard: VecDeque<(usize, Instant)>,
    /// Connections that are gone, which the machine is to hear.
    broken: Vec<usize>,
    token_next: usize,
    turned_away: TurnedAway,
    frames: Frames,
    hidden: Hidden,
    /// Of the reign that lasts.
    chronicle: Option<Chronicle>,
    is_watched: bool,
    beat_at: Instant,
    admin: Option<std::net::SocketAddr>,
    clock: Clock,
}

impl Server {
    /// Listens on all addresses of the configuration.
    ///
    /// # Errors
    /// When one is not to be had or the metadata store can never be used.
    pub fn bind(config: &CoordinatorConfig) -> anyhow::Result<Self> {
        let about = about(config);
        let clock = Clock::start();
        let store = metadata::open(&config.metadata, &about.name, clock)?;
        Server::bind_with(config, about, clock, store)
    }

    fn bind_with(
        config: &CoordinatorConfig,
        mut about: CoordinatorStatus,
        clock: Clock,
        store: Box<dyn metadata::Metadata>,
    ) -> anyhow::Result<Self> {
        let poll = Poll::new().context("cannot create an epoll instance")?;
        let mut listener =
            Listener::bind(&config.listen).with_context(|| format!("cannot listen on {}", config.listen))?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (desk, questions) = Desk::open(Arc::clone(&waker));
        let admin = config.admin.map(admin::Bound::new).transpose()?;
        let admin_address = admin.as_ref().map(|admin| admin.address);
        about.admin = admin_address.map(|address| address.to_string());
        if let Some(admin) = admin {
            admin.serve_coordinator(desk)?;
        }
        Ok(Server {
            keeper: Keeper::start(store, clock, Arc::clone(&waker)).context("cannot start a thread")?,
            seat: Seat::new(settings(config), config.partition_count),
            about,
            poll,
            listener: Accepting::new(listener, "a member"),
            stopper: Stopper::new(waker),
            questions,
            ordered: HashMap::new(),
            ticket_next: 0,
            connections: HashMap::new(),
            unread: BTreeSet::new(),
            unheard: VecDeque::new(),
            broken: Vec::new(),
            token_next: CONNECTION_FIRST,
            turned_away: TurnedAway::default(),
            frames: Frames::default(),
            hidden: Hidden::default(),
            chronicle: None,
            is_watched: false,
            beat_at: Instant::now(),
            admin: admin_address,
            clock,
        })
    }

    /// Where HTTP is really served.
    pub fn admin_address(&self) -> Option<std::net::SocketAddr> {
        self.admin
    }

    /// Ends [`Server::run`] from another thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// When epoll fails, or the metadata store for good: a coordinator that cannot persist must not go on.
    pub fn run(&mut self) -> anyhow::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut settling = crate::footprint::Settling::begin();
        while !self.stopper.is_stopping() {
            settling.check();
            let timeout = self.until_deadline();
            net::poll(&mut self.poll, &mut events, timeout).context("epoll failed")?;
            while let Some(news) = self.keeper.poll_news() {
                self.handle_news(news?)?;
            }
            for token in std::mem::take(&mut self.unread) {
                self.serve_connection(token, false);
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    WAKER => {}
                    Token(token) => self.serve_connection(token, event.is_writable()),
                }
            }
            if self.listener.is_due(self.now().mono_us) {
                self.accept();
            }
            self.forget_unheard();
            if self.until_machine_deadline() == Some(Duration::ZERO) {
                self.handle(Input::Deadline);
            }
            self.answer_questions();
            self.put_out();
            self.beat();
        }
        Ok(())
    }

    fn now(&self) -> Now {
        self.clock.now()
    }

    fn until_deadline(&self) -> Option<Duration> {
        if !self.unread.is_empty() {
            return Some(Duration::ZERO);
        }
        let beat = self.seat.machine().is_some().then(|| self.beat_at.saturating_duration_since(Instant::now()));
        let accepting = self.listener.due_us().map(|due_us| self.until(due_us));
        let unheard = self.unheard.front().map(|(_, since)| UNHEARD_MAX.saturating_sub(since.elapsed()));
        self.until_machine_deadline().into_iter().chain(beat).chain(accepting).chain(unheard).min()
    }

    fn until_machine_deadline(&self) -> Option<Duration> {
        Some(self.until(self.seat.poll_deadline()?))
    }

    fn until(&self, due_us: u64) -> Duration {
        Duration::from_micros(due_us.saturating_sub(self.now().mono_us))
    }

    fn accept(&mut self) {
        let now_us = self.now().mono_us;
        while let Some(mut socket) = self.listener.next(now_us, |listener| listener.accept(OtherEnd::Control)) {
            if self.connections.len() >= CONNECTION_COUNT_MAX {
                self.turned_away.tell_crowd(Instant::now(), CONNECTION_COUNT_MAX);
                continue;
            }
            let token = self.token_next;
            self.token_next += 1;
            let interest = Interest::READABLE | Interest::WRITABLE;
            match self.poll.registry().register(&mut socket, Token(token), interest) {
                Ok(()) => {
                    self.connections.insert(token, Connection::new(socket));
                    self.unheard.push_back((token, Instant::now()));
                }
                Err(error) => tracing::warn!(%error, "cannot watch a control connection"),
            }
        }
    }

    fn serve_connection(&mut self, token: usize, writable: bool) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let mut messages: Vec<ToCoordinator> = Vec::new();
        let read = connection.read(&mut messages);
        let stuck = writable && connection.flush().is_err();
        if read == Ok(true) {
            self.unread.insert(token);
        }
        if read.is_err() {
            // Who asked to be let in and left before it was heard counts on the connection that it has.
            messages.retain(|message| !asks_to_be_let_in(message));
        }
        let mut asks_status = false;
        for message in messages {
            // It was refused, or takes nothing: what else it said is not done.
            if !self.connections.contains_key(&token) {
                return;
            }
            match message {
                // Once in a turn: it is long, and asked for in few bytes.
                ToCoordinator::ReadStatus => asks_status = true,
                message => self.handle_message(token, message),
            }
        }
        if asks_status {
            let status = FromCoordinator::Status(Box::new(self.status()));
            self.send(token, &status);
        }
        match read {
            Err(WhyClosed::Foreign(error)) => self.turn_away(token, error),
            Err(WhyClosed::Talkative) => self.turn_away_talkative(token),
            Err(WhyClosed::Closed) | Ok(_) => {}
        }
        if read.is_err() || stuck {
            self.forget(token);
        }
    }

    /// What the connection brings is not of this version.
    fn turn_away(&mut self, token: usize, error: ControlFrameError) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        self.turned_away.tell(Instant::now(), &connection.from, &connection.member, &turned_away::why_foreign(error));
        if let ControlFrameError::Version(_) = error {
            let refused = FromCoordinator::Refused(Refusal::ProtocolVersion(CONTROL_PROTOCOL_VERSION));
            // Should it not arrive, the member asks again.
            let _ = self.frames.of(&refused).map(|frame| connection.send(frame));
        }
    }

    fn turn_away_talkative(&mut self, token: usize) {
        let Some(connection) = self.connections.get(&token) else { return };
        let why = format!("its first message is longer than {FIRST_BYTES_MAX} bytes");
        self.turned_away.tell(Instant::now(), &connection.from, &connection.member, &why);
    }

    fn handle_message(&mut self, token: usize, message: ToCoordinator) {
        if let (Some(name), Some(connection)) = (turned_away::name_of(&message), self.connections.get_mut(&token)) {
            connection.member = name;
        }
        match message {
            message if asks_to_be_let_in(&message) => self.let_in(token, message),
            message => self.handle(Input::Message { connection: ConnectionId(token as u64), message }),
        }
    }

    fn let_in(&mut self, token: usize, mut message: ToCoordinator) {
        let Some(connection) = self.connections.get(&token) else { return };
        seen_from::locate(&mut message, connection.host);
        let why = if !self.seat.takes_members(self.now().mono_us) {
            self.who_leads()
        } else if self.seat.is_to_ask_again(&message) {
            "the metadata store has yet to answer".to_owned()
        } else {
            return self.handle(Input::Message { connection: ConnectionId(token as u64), message });
        };
        self.send(token, &FromCoordinator::Refused(Refusal::NotLeading(why)));
        self.forget(token);
    }

    fn forget(&mut self, token: usize) {
        if self.connections.remove(&token).is_some() {
            self.handle(Input::Closed { connection: ConnectionId(token as u64) });
        }
    }

    /// Ends connections of those who do not say who they are: strangers would take the places of members.
    fn forget_unheard(&mut self) {
        while let Some(&(token, since)) = self.unheard.front()
            && since.elapsed() >= UNHEARD_MAX
        {
            self.unheard.pop_front();
            // What came while this process stood still counts.
            self.serve_connection(token, false);
            if self.connections.get(&token).is_some_and(|connection| !connection.is_heard) {
                self.forget(token);
            }
        }
    }

    /// If the connection is broken, the machine hears that later: it may be in the midst of what it says.
    fn send(&mut self, token: usize, message: &FromCoordinator) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if let FromCoordinator::Refused(refusal) = message
            && let Some(why) = turned_away::why_refused(refusal)
        {
            self.turned_away.tell(Instant::now(), &connection.from, &connection.member, &why);
            if let Refusal::OtherCluster(_) = refusal {
                self.turned_away.note_stranger(Instant::now(), &connection.member);
            }
        }
        connection.is_welcome |=
            matches!(message, FromCoordinator::NodeRegistered(_) | FromCoordinator::GatewayRegistered(_));
        match self.frames.of(message) {
            Ok(frame) if connection.send(frame).is_ok() => return,
            Ok(_) => {}
            Err(error) => {
                self.turned_away.tell_unsendable(Instant::now(), &connection.from, &connection.member, error);
            }
        }
        self.connections.remove(&token);
        self.broken.push(token);
    }

    /// Gives the machine an input. What it says is done at the end of the turn: once of many inputs.
    fn handle(&mut self, input: Input) {
        let now = self.now();
        self.seat.handle(now, input);
    }

    /// Does what the machine says, in order, as far as everything before it is saved. It may find that connections
    /// broke; what the machine says of one of them may find more.
    fn put_out(&mut self) {
        loop {
            self.put_out_once();
            if self.broken.is_empty() {
                return;
            }
            for token in std::mem::take(&mut self.broken) {
                self.handle(Input::Closed { connection: ConnectionId(token as u64) });
            }
        }
    }

    fn put_out_once(&mut self) {
        while let Some(output) = self.seat.poll_output(self.now().mono_us) {
            match output {
                Output::Persist(durable) => {
                    let reign = self.seat.reign_number().expect("its machine persists");
                    self.keeper.save(reign, durable);
                }
                Output::Send { connection, message } => self.send(connection.0 as usize, &message),
                Output::Close { connection } => drop(self.connections.remove(&(connection.0 as usize))),
                Output::Answer { ticket, outcome } => {
                    if let Some((done, place)) = self.ordered.remove(&ticket) {
                        // Whoever ordered may have given up.
                        let _ = done.try_send((place, outcome));
                    }
                }
            }
        }
    }

    /// Tells members that this coordinator leads, when that is due and so. Beats do not wait for the store; who is not
    /// let in yet expects nothing but the answer, which may.
    fn beat(&mut self) {
        let now = Instant::now();
        if self.seat.machine().is_none() || now < self.beat_at {
            return;
        }
        self.beat_at = now + BEAT;
        self.log_changes(now);
        if self.leads() {
            let members = self.connections.iter().filter(|(_, connection)| connection.is_welcome);
            let members: Vec<usize> = members.map(|(&token, _)| token).collect();
            members.into_iter().for_each(|token| self.send(token, &FromCoordinator::Beat));
        }
    }

    fn log_changes(&mut self, now: Instant) {
        if let (Some(machine), Some(chronicle)) = (self.seat.machine(), &mut self.chronicle) {
            let view = machine.view();
            let lines = chronicle.note(now, &view, machine.tenures_lost_total(), &machine.problems());
            lines.iter().for_each(|line| line.log(self.is_watched));
            self.hidden.warn_of(&view);
        }
    }

    fn status(&self) -> ClusterStatus {
        let settings = self.seat.settings();
        let mut status = match self.seat.machine() {
            Some(machine) => machine.status(),
            None => ClusterStatus {
                code: settings.code.to_string(),
                partitions: settings.partition_count,
                nodes_expected: settings.node_count_expected,
                ..ClusterStatus::default()
            },
        };
        let metadata_problem = self.store_problem();
        if let Some(why) = &metadata_problem {
            let problem = format!(
                "the metadata store cannot be used ({why}): what must be saved waits, as new members and owners do"
            );
            status.problems.insert(0, problem);
        }
        status.problems.extend(self.turned_away.strangers_problem(Instant::now()));
        let coordinator = CoordinatorStatus { leading: self.leads(), metadata_problem, ..self.about.clone() };
        ClusterStatus { coordinator, ..status }
    }

    fn answer_questions(&mut self) {
        // Whoever asked may have given up waiting for what is sent here.
        loop {
            match self.questions.try_recv() {
                Ok(Question::Status(answer)) => drop(answer.try_send(self.status())),
                Ok(Question::Reports(answer)) => {
                    let reports = self.seat.machine().map(Coordinator::gateway_reports);
                    drop(answer.try_send(reports.unwrap_or_default()));
                }
                Ok(Question::Order { members, wanted, done }) => {
                    for (place, member) in members.into_iter().enumerate() {
                        if let Some(why) = self.why_no_orders() {
                            let _ = done.try_send((place, Err(why)));
                            continue;
                        }
                        let ticket = self.ticket_next;
                        self.ticket_next += 1;
                        self.ordered.insert(ticket, (done.clone(), place));
                        self.handle(Input::Order { ticket, member, wanted: wanted.clone() });
                    }
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }
}

fn about(config: &CoordinatorConfig) -> CoordinatorStatus {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    CoordinatorStatus {
        name: format!("{} on {host}, process {}", config.listen, std::process::id()),
        metadata: config.metadata.to_string(),
        ..CoordinatorStatus::default()
    }
}

fn settings(config: &CoordinatorConfig) -> Settings {
    Settings {
        code: config.code,
        partition_count: config.partition_count.unwrap_or_else(|| config.partition_count_default()),
        node_count_expected: u16::try_from(config.node_count).unwrap_or(u16::MAX),
        gateway_count_expected: u16::try_from(config.gateway_count).unwrap_or(u16::MAX),
        retire_after_ms: config.retire_after_ms,
        unite_after_ms: UNITE_AFTER_MS,
        allow_chaos: config.allow_chaos,
    }
}

fn asks_to_be_let_in(message: &ToCoordinator) -> bool {
    matches!(message, ToCoordinator::RegisterNode(_) | ToCoordinator::RegisterGateway(_))
}
