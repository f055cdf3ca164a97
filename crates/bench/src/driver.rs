//! The loop of one client thread: one epoll set, all its connections, one engine.
//!
//! Each turn fills every free slot that the schedule allows, writes once per connection, then reads all that is ready.
//! Clocks and sockets of the load generator are here and in `connection` only.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

use crate::codec::{Codec, Found};
use crate::connection::{Connection, Lost, State, Target};
use crate::engine::{Engine, Next, Phase};
use crate::limits::{RECONNECT_PAUSE_NS, RECONNECTS_MAX, TIMEOUT_SWEEP_NS};
use crate::load::wrong_protocol;
use crate::recorder::Recorder;

/// How far all threads have come in a phase.
#[derive(Default)]
pub struct Progress {
    pub operations: AtomicU64,
    pub errors: AtomicU64,
    /// No more is to be begun.
    pub is_over: Arc<AtomicBool>,
}

pub struct Driver {
    engine: Engine,
    codec: Codec,
    target: Target,
    clock: Instant,
    timeout_ns: u64,
    pipeline: usize,
    poll: Poll,
    events: Events,
    timer: OwnedFd,
    connections: Vec<Connection>,
    /// One entry per free slot of a connection, longest free first.
    free: VecDeque<usize>,
    in_flight: usize,
    /// Connections with something to write.
    dirty: Vec<usize>,
    found: Found,
    next_sweep_ns: u64,
    lost_in_a_row: u32,
    reported: (u64, u64),
}

const TIMER: Token = Token(usize::MAX);
const EVENTS: usize = 1024;

impl Driver {
    /// Connects all connections.
    ///
    /// # Errors
    /// The server does not accept them, or the system lacks what an epoll loop needs.
    pub fn connect(engine: Engine, setup: &Setup, clock: Instant) -> anyhow::Result<Self> {
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)
            .context("cannot create a timer")?;
        let poll = Poll::new().context("cannot create an epoll set")?;
        poll.registry().register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)?;
        let mut driver = Driver {
            engine,
            codec: setup.codec,
            target: setup.target.clone(),
            clock,
            timeout_ns: setup.timeout_ns,
            pipeline: setup.pipeline,
            poll,
            events: Events::with_capacity(EVENTS),
            timer,
            connections: (0..setup.connections).map(|_| Connection::new(Arc::clone(&setup.greeting))).collect(),
            free: VecDeque::new(),
            in_flight: 0,
            dirty: Vec::new(),
            found: Found::default(),
            next_sweep_ns: 0,
            lost_in_a_row: 0,
            reported: (0, 0),
        };
        driver.connect_all()?;
        Ok(driver)
    }

    fn connect_all(&mut self) -> anyhow::Result<()> {
        let deadline = self.now_ns() + self.timeout_ns;
        for (index, connection) in self.connections.iter_mut().enumerate() {
            let connected = connection.connect(&self.target, self.poll.registry(), Token(index));
            connected.with_context(|| format!("cannot connect to {}", self.target))?;
        }
        while self.connections.iter().any(|connection| connection.state != State::Up) {
            if self.now_ns() > deadline {
                bail!("{} does not accept {} connections", self.target, self.connections.len());
            }
            self.wait(None)?;
            for index in ready(&self.events) {
                let begun = self.connections[index].begin();
                begun.with_context(|| format!("cannot connect to {}", self.target))?;
            }
        }
        // Slot by slot, so that the first requests go to different connections.
        for _ in 0..self.pipeline {
            self.free.extend(0..self.connections.len());
        }
        Ok(())
    }

    /// Runs one phase to its end, all answers included.
    ///
    /// # Errors
    /// The server can no longer be reached.
    pub fn run(&mut self, phase: Phase, progress: &Progress) -> anyhow::Result<Recorder> {
        self.engine.start(phase, self.now_ns());
        self.reported = (0, 0);
        loop {
            let now_ns = self.now_ns();
            let is_over = progress.is_over.load(Ordering::Relaxed);
            let next = if is_over { Fill::Finished } else { self.fill(now_ns) };
            self.flush(now_ns)?;
            self.report(progress);
            if phase == Phase::Preload {
                self.check_preload()?;
            }
            if matches!(next, Fill::Finished) && self.in_flight == 0 {
                return Ok(self.engine.take_recorder());
            }
            let wake_ns = if let Fill::WaitUntil(at_ns) = next { Some(at_ns) } else { None };
            self.wait(wake_ns)?;
            if let Some(wake_ns) = wake_ns {
                self.engine.woke_late(self.now_ns().saturating_sub(wake_ns));
            }
            let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
            let handled = ready(&events).try_for_each(|index| self.handle_event(index));
            self.events = events;
            handled?;
            self.sweep()?;
        }
    }

    /// When the first operation of every connection failed, so will the others.
    fn check_preload(&self) -> anyhow::Result<()> {
        let (done, failed) = self.engine.progress();
        if done > 0 || failed < self.connections.len() as u64 {
            return Ok(());
        }
        let why = self.engine.first_error().unwrap_or("for no known reason");
        let hint = wrong_protocol(self.codec.protocol, why).unwrap_or_default();
        bail!("no key can be stored at {}: {why}{hint}", self.target)
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_nanos()).expect("five hundred years")
    }

    fn report(&mut self, progress: &Progress) {
        let now = self.engine.progress();
        progress.operations.fetch_add(now.0 - self.reported.0, Ordering::Relaxed);
        progress.errors.fetch_add(now.1 - self.reported.1, Ordering::Relaxed);
        self.reported = now;
    }

    /// Starts operations until no slot is free or none is due.
    fn fill(&mut self, now_ns: u64) -> Fill {
        while let Some(&index) = self.free.front() {
            let connection = &mut self.connections[index];
            if connection.state != State::Up {
                self.free.pop_front();
                continue;
            }
            let was_empty = connection.output.is_empty();
            match self.engine.poll_request(now_ns, &mut connection.output) {
                Next::Finished => return Fill::Finished,
                Next::WaitUntil(at_ns) => return Fill::WaitUntil(at_ns),
                Next::Sent(pending) => {
                    connection.queue.push_back(pending);
                    self.free.pop_front();
                    self.in_flight += 1;
                    if was_empty {
                        self.dirty.push(index);
                    }
                }
            }
        }
        Fill::NoSlot
    }

    fn flush(&mut self, now_ns: u64) -> anyhow::Result<()> {
        while let Some(index) = self.dirty.pop() {
            if let Err(why) = self.connections[index].flush() {
                self.lose(index, now_ns, &why)?;
            }
        }
        Ok(())
    }

    /// Waits for sockets, at most until `wake_ns` or the next sweep; which have something is in `events`.
    fn wait(&mut self, wake_ns: Option<u64>) -> anyhow::Result<()> {
        let mut longest = Duration::from_nanos(TIMEOUT_SWEEP_NS);
        if let Some(wake_ns) = wake_ns {
            let gap_ns = wake_ns.saturating_sub(self.now_ns());
            if gap_ns == 0 {
                longest = Duration::ZERO;
            } else if gap_ns < TIMEOUT_SWEEP_NS {
                // epoll's own timeout counts milliseconds: too coarse for a schedule.
                self.arm(gap_ns)?;
            }
        }
        let polled = self.poll.poll(&mut self.events, Some(longest));
        if let Err(error) = polled
            && error.kind() != io::ErrorKind::Interrupted
        {
            return Err(error).context("epoll failed");
        }
        Ok(())
    }

    fn arm(&self, gap_ns: u64) -> anyhow::Result<()> {
        let it_value = Timespec { tv_sec: 0, tv_nsec: i64::try_from(gap_ns).expect("below a second") };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once).context("cannot set a timer")?;
        Ok(())
    }

    fn handle_event(&mut self, index: usize) -> anyhow::Result<()> {
        let now_ns = self.now_ns();
        let handled = match self.connections[index].state {
            State::Down { .. } => Ok(()),
            State::Connecting | State::Greeting => self.finish_reconnect(index),
            State::Up => self.receive(index, now_ns),
        };
        match handled {
            Ok(()) => Ok(()),
            Err(why) => self.lose(index, now_ns, &why),
        }
    }

    fn receive(&mut self, index: usize, now_ns: u64) -> Result<(), Lost> {
        loop {
            let more = self.connections[index].receive()?;
            self.take_replies(index, now_ns)?;
            if !more {
                break;
            }
        }
        self.connections[index].flush()
    }

    fn take_replies(&mut self, index: usize, now_ns: u64) -> Result<(), Lost> {
        let connection = &mut self.connections[index];
        while let Some(answer) = connection.next_reply(&self.codec, &mut self.found)? {
            self.lost_in_a_row = 0;
            let (bytes, output) = connection.bytes_and_output(answer.bytes);
            let next = self.engine.handle_reply(now_ns, answer.pending, answer.reply, &self.found, bytes, output);
            match next {
                Some(pending) => connection.queue.push_back(pending),
                None => {
                    self.in_flight -= 1;
                    self.free.push_back(index);
                }
            }
        }
        Ok(())
    }

    fn finish_reconnect(&mut self, index: usize) -> Result<(), Lost> {
        let begun = self.connections[index].begin();
        if begun.map_err(|error| format!("cannot reconnect: {error:#}"))? {
            self.free.retain(|&free| free != index);
            self.free.extend(std::iter::repeat_n(index, self.pipeline));
        }
        Ok(())
    }

    /// Fails all that waits on a connection and lets it rest.
    fn lose(&mut self, index: usize, now_ns: u64, why: &str) -> anyhow::Result<()> {
        self.lost_in_a_row += 1;
        let pause_ns = RECONNECT_PAUSE_NS;
        let pending = self.connections[index].close(now_ns + pause_ns);
        self.in_flight -= pending.len();
        for one in pending {
            self.engine.handle_failure(now_ns, one, why);
        }
        if self.lost_in_a_row as usize > RECONNECTS_MAX as usize * self.connections.len() {
            bail!("{} cannot be reached any more: {why}", self.target);
        }
        Ok(())
    }

    /// Every now and then: fails what waits too long, opens lost connections again.
    fn sweep(&mut self) -> anyhow::Result<()> {
        let now_ns = self.now_ns();
        if now_ns < self.next_sweep_ns {
            return Ok(());
        }
        self.next_sweep_ns = now_ns + TIMEOUT_SWEEP_NS / 2;
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            match connection.state {
                State::Down { retry_ns } if retry_ns <= now_ns => {
                    connection.began_ns = now_ns;
                    if let Err(error) = connection.connect(&self.target, self.poll.registry(), Token(index)) {
                        self.lose(index, now_ns, &format!("cannot reconnect: {error}"))?;
                    }
                }
                State::Up
                    if connection.queue.front().is_some_and(|oldest| oldest.sent_ns + self.timeout_ns < now_ns) =>
                {
                    self.lose(index, now_ns, &format!("no answer within {} ms", self.timeout_ns / 1_000_000))?;
                }
                State::Connecting | State::Greeting if connection.began_ns + self.timeout_ns < now_ns => {
                    self.lose(index, now_ns, &format!("no connection within {} ms", self.timeout_ns / 1_000_000))?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The connections that have something to read or to say.
fn ready(events: &Events) -> impl Iterator<Item = usize> {
    events.iter().map(|event| event.token()).filter(|&token| token != TIMER).map(|token| token.0)
}

enum Fill {
    NoSlot,
    WaitUntil(u64),
    Finished,
}

/// What a driver needs besides its engine.
#[derive(Clone)]
pub struct Setup {
    pub codec: Codec,
    pub target: Target,
    /// What each connection says first, and is welcomed for; empty: nothing.
    pub greeting: Arc<[u8]>,
    pub connections: usize,
    pub pipeline: usize,
    pub timeout_ns: u64,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Tcp(address) => write!(f, "{address}"),
            Target::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
