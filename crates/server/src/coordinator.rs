//! Runs the coordinator: one epoll loop for all members, files for what must survive, HTTP on a thread of its own.
//!
//! The loop does what the machine says, in the machine's order: a `Persist` is on disk before the next message leaves.
//!
//! Must not know: what the machine decides, or what is stored in the cluster.

mod connection;
mod disk;
mod listener;
mod stopper;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use mio::{Events, Interest, Poll, Token, Waker};
use shorttail_coordinator::limits::ORDER_WITHIN_MS;
use shorttail_coordinator::{ConnectionId, Coordinator, Input, Output, Settings};
use shorttail_units::{Now, UnixMs};
use shorttail_wire::control::{ClusterStatus, GatewayStatus, Order, ToCoordinator};

use crate::admin;
use crate::config::CoordinatorConfig;
use connection::Connection;
use disk::Disk;
use listener::Listener;
use stopper::Stopper;

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
const CONNECTION_FIRST: usize = 2;
/// Connections at once: every possible node and gateway, and some that only ask.
const CONNECTION_COUNT_MAX: usize = 4096 + 256 + 64;
/// Questions that may wait for the loop.
const QUESTION_COUNT_MAX: usize = 64;

/// Something that another thread asks of the loop.
enum Question {
    Status(SyncSender<ClusterStatus>),
    /// What every living gateway reported last.
    Reports(SyncSender<Vec<(u16, GatewayStatus)>>),
    /// That members do something; answered once for each, with its place among them.
    Order {
        members: Vec<u16>,
        order: Order,
        done: SyncSender<(usize, Outcome)>,
    },
}

/// What became of an order: what was done, or why it was not, for people.
pub type Outcome = Result<String, String>;

/// Asks the running loop.
#[derive(Clone)]
pub struct Desk {
    questions: SyncSender<Question>,
    waker: Arc<Waker>,
}

/// Until the loop must have answered; it has an end for every order itself.
const ANSWERED_WITHIN: Duration = Duration::from_millis(ORDER_WITHIN_MS + 1_000);

impl Desk {
    /// The status now; `None` when the coordinator ends or is overrun with questions.
    pub fn status(&self) -> Option<ClusterStatus> {
        self.ask(Question::Status)?.recv_timeout(ANSWERED_WITHIN).ok()
    }

    /// What every living gateway reported last, by its number; `None` as for the status.
    pub fn reports(&self) -> Option<Vec<(u16, GatewayStatus)>> {
        self.ask(Question::Reports)?.recv_timeout(ANSWERED_WITHIN).ok()
    }

    /// Orders each node (to be faulty) or gateway (another policy) to do it; what came of each, in the same order.
    pub fn order(&self, members: Vec<u16>, order: Order) -> Vec<Outcome> {
        let mut outcomes = vec![Err("the coordinator does not answer".to_owned()); members.len()];
        let (done, answers) = sync_channel(members.len());
        if self.questions.try_send(Question::Order { members, order, done }).is_ok() && self.waker.wake().is_ok() {
            // The channel ends when all are answered, or when the coordinator does.
            while let Ok((place, outcome)) = answers.recv_timeout(ANSWERED_WITHIN) {
                outcomes[place] = outcome;
            }
        }
        outcomes
    }

    fn ask<T>(&self, question: impl FnOnce(SyncSender<T>) -> Question) -> Option<Receiver<T>> {
        let (answer, answered) = sync_channel(1);
        self.questions.try_send(question(answer)).ok()?;
        self.waker.wake().ok()?;
        Some(answered)
    }
}

/// Runs the coordinator until the process is told to end.
///
/// # Errors
/// When an address cannot be listened on or the directory cannot be used.
pub fn run(config: CoordinatorConfig) -> anyhow::Result<()> {
    let mut server = Server::bind(&config)?;
    server.stopper().stop_at_signals().context("cannot watch for signals")?;
    server.run()
}

/// The coordinator with its sockets, bound and not yet running.
pub struct Server {
    machine: Coordinator,
    disk: Disk,
    poll: Poll,
    listener: Listener,
    stopper: Stopper,
    questions: Receiver<Question>,
    /// Who waits for the answer to an order, and under which place, by ticket.
    ordered: HashMap<u64, (SyncSender<(usize, Outcome)>, usize)>,
    ticket_next: u64,
    connections: HashMap<usize, Connection>,
    token_next: usize,
    admin: Option<std::net::SocketAddr>,
    started: Instant,
}

impl Server {
    /// Listens on all addresses of the configuration.
    ///
    /// # Errors
    /// When one is not to be had or the directory cannot be used.
    pub fn bind(config: &CoordinatorConfig) -> anyhow::Result<Self> {
        let started = Instant::now();
        let disk = Disk::open(config.dir.as_deref())?;
        let durable = disk.load_or_create()?;
        let poll = Poll::new().context("cannot create an epoll instance")?;
        let mut listener =
            Listener::bind(&config.listen).with_context(|| format!("cannot listen on {}", config.listen))?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (asking, questions) = sync_channel(QUESTION_COUNT_MAX);
        let desk = Desk { questions: asking, waker: Arc::clone(&waker) };
        let admin = config.admin.map(admin::Bound::new).transpose()?;
        let admin_address = admin.as_ref().map(|admin| admin.address);
        if let Some(admin) = admin {
            admin.serve_coordinator(desk)?;
        }
        let machine = Coordinator::new(now_since(started), settings(config, admin_address), durable);
        Ok(Server {
            machine,
            disk,
            poll,
            listener,
            stopper: Stopper::new(waker),
            questions,
            ordered: HashMap::new(),
            ticket_next: 0,
            connections: HashMap::new(),
            token_next: CONNECTION_FIRST,
            admin: admin_address,
            started,
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
    /// When epoll or the disk fails: a coordinator that cannot persist must not go on.
    pub fn run(&mut self) -> anyhow::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut settling = crate::footprint::Settling::begin();
        while !self.stopper.is_stopping() {
            settling.check();
            let timeout = self.until_deadline();
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.context("epoll failed")?,
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    WAKER => {}
                    Token(token) => self.serve_connection(token, event.is_writable())?,
                }
            }
            if self.until_deadline() == Some(Duration::ZERO) {
                self.handle(Input::Deadline)?;
            }
            self.answer_questions()?;
        }
        self.listener.remove();
        Ok(())
    }

    fn now(&self) -> Now {
        now_since(self.started)
    }

    fn until_deadline(&self) -> Option<Duration> {
        let deadline_us = self.machine.poll_deadline()?;
        let left_us = deadline_us.saturating_sub(self.now().mono_us);
        Some(Duration::from_micros(left_us))
    }

    fn accept(&mut self) {
        loop {
            let mut socket = match self.listener.accept() {
                Ok(Some(socket)) => socket,
                Ok(None) => return,
                Err(error) => return tracing::warn!(%error, "cannot accept a control connection"),
            };
            if self.connections.len() >= CONNECTION_COUNT_MAX {
                tracing::warn!(limit = CONNECTION_COUNT_MAX, "too many control connections, one is turned away");
                continue;
            }
            let token = self.token_next;
            self.token_next += 1;
            let interest = Interest::READABLE | Interest::WRITABLE;
            match self.poll.registry().register(&mut socket, Token(token), interest) {
                Ok(()) => drop(self.connections.insert(token, Connection::new(socket))),
                Err(error) => tracing::warn!(%error, "cannot watch a control connection"),
            }
        }
    }

    fn serve_connection(&mut self, token: usize, writable: bool) -> anyhow::Result<()> {
        let Some(connection) = self.connections.get_mut(&token) else { return Ok(()) };
        let mut messages: Vec<ToCoordinator> = Vec::new();
        let ended = connection.read(&mut messages).is_err();
        let stuck = writable && connection.flush().is_err();
        for message in messages {
            self.handle(Input::Message { connection: ConnectionId(token as u64), message })?;
        }
        if ended || stuck {
            self.forget(token)?;
        }
        Ok(())
    }

    fn forget(&mut self, token: usize) -> anyhow::Result<()> {
        if self.connections.remove(&token).is_some() {
            self.handle(Input::Closed { connection: ConnectionId(token as u64) })?;
        }
        Ok(())
    }

    /// Gives the machine an input and does all that it says, in order.
    fn handle(&mut self, input: Input) -> anyhow::Result<()> {
        self.machine.handle(self.now(), input);
        let mut broken = Vec::new();
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Persist(durable) => self.disk.save(&durable)?,
                Output::Send { connection, message } => {
                    let token = connection.0 as usize;
                    let Some(to) = self.connections.get_mut(&token) else { continue };
                    if to.send(&message).is_err() {
                        broken.push(token);
                    }
                }
                Output::Close { connection } => {
                    self.connections.remove(&(connection.0 as usize));
                }
                Output::Answer { ticket, outcome } => {
                    if let Some((done, place)) = self.ordered.remove(&ticket) {
                        // Whoever ordered may have given up.
                        let _ = done.try_send((place, outcome));
                    }
                }
            }
        }
        broken.into_iter().try_for_each(|token| self.forget(token))
    }

    fn answer_questions(&mut self) -> anyhow::Result<()> {
        // Whoever asked may have given up waiting for what is sent here.
        loop {
            match self.questions.try_recv() {
                Ok(Question::Status(answer)) => drop(answer.try_send(self.machine.status())),
                Ok(Question::Reports(answer)) => drop(answer.try_send(self.machine.gateway_reports())),
                Ok(Question::Order { members, order, done }) => {
                    for (place, member) in members.into_iter().enumerate() {
                        let ticket = self.ticket_next;
                        self.ticket_next += 1;
                        self.ordered.insert(ticket, (done.clone(), place));
                        self.handle(Input::Order { ticket, member, order: order.clone() })?;
                    }
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }
}

fn settings(config: &CoordinatorConfig, admin: Option<std::net::SocketAddr>) -> Settings {
    Settings {
        code: config.code,
        partition_count: config.partition_count,
        node_count_expected: u16::try_from(config.node_count).unwrap_or(u16::MAX),
        retire_after_ms: config.retire_after_ms,
        admin: admin.map(|address| address.to_string()),
        allow_chaos: config.allow_chaos,
    }
}

fn now_since(started: Instant) -> Now {
    let mono_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { mono_us, unix_ms: UnixMs(u64::try_from(unix.as_millis()).unwrap_or(u64::MAX)) }
}
