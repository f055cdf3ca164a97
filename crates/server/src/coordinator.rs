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
use shorttail_coordinator::{ConnectionId, Coordinator, Input, Output, Settings};
use shorttail_units::{Now, UnixMs};
use shorttail_wire::control::{ClusterStatus, ToCoordinator};

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
/// Status questions that may wait for the loop.
const QUESTION_COUNT_MAX: usize = 64;

/// Asks the running loop for the status.
#[derive(Clone)]
pub struct StatusReader {
    questions: SyncSender<SyncSender<ClusterStatus>>,
    waker: Arc<Waker>,
}

impl StatusReader {
    /// The status now; `None` when the coordinator ends or is overrun with questions.
    pub fn read(&self) -> Option<ClusterStatus> {
        let (answer, reading) = sync_channel(1);
        self.questions.try_send(answer).ok()?;
        self.waker.wake().ok()?;
        reading.recv_timeout(Duration::from_secs(2)).ok()
    }
}

/// Runs the coordinator until the process is told to end.
///
/// # Errors
/// When an address cannot be listened on or the directory cannot be used.
pub fn run(config: CoordinatorConfig) -> anyhow::Result<()> {
    let mut server = Server::bind(&config)?;
    server.stopper().stop_at_signals().context("cannot watch for signals")?;
    crate::footprint::drop_startup_pages();
    server.run()
}

/// The coordinator with its sockets, bound and not yet running.
pub struct Server {
    machine: Coordinator,
    disk: Disk,
    poll: Poll,
    listener: Listener,
    stopper: Stopper,
    questions: Receiver<SyncSender<ClusterStatus>>,
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
        let reader = StatusReader { questions: asking, waker: Arc::clone(&waker) };
        let admin = match config.admin {
            Some(address) => Some(admin::start(address, reader)?),
            None => None,
        };
        let machine = Coordinator::new(now_since(started), settings(config, admin), durable);
        Ok(Server {
            machine,
            disk,
            poll,
            listener,
            stopper: Stopper::new(waker),
            questions,
            connections: HashMap::new(),
            token_next: CONNECTION_FIRST,
            admin,
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
        while !self.stopper.is_stopping() {
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
            self.answer_questions();
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
            }
        }
        broken.into_iter().try_for_each(|token| self.forget(token))
    }

    fn answer_questions(&mut self) {
        loop {
            match self.questions.try_recv() {
                Ok(answer) => {
                    // Whoever asked may have given up.
                    let _ = answer.try_send(self.machine.status());
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
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
    }
}

fn now_since(started: Instant) -> Now {
    let mono_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { mono_us, unix_ms: UnixMs(u64::try_from(unix.as_millis()).unwrap_or(u64::MAX)) }
}
