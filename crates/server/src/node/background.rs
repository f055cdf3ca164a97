//! Beside a core of a node: an epoll loop around a [`Background`].
//!
//! It has a thread while there is something to do, in the lowest scheduling class: it runs when nothing else wants the
//! processor, and gives way to whatever does (see `class` and `near`). A core's own part is to say where a chunk lies
//! that another node wants, and to install one.
//!
//! At other times there is no such thread. A process that is killed ends with its last thread, and others hear of it
//! then: one of the lowest class may keep them waiting where processors are busy.
//!
//! Must not know: what the messages mean.

mod class;

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use hashbrown::HashMap;
use mio::{Events, Poll, Token};
use shorttail_node::{Background, FromBackground, ToBackground};

use super::peers::{Addresses, Peers, peer_of};
use crate::clock::Clock;
use crate::near;
use crate::net::{self, Feed, Feeder, Link, ReadEnd, Stream};
pub use class::Returned;
use class::Watch;

/// Finds out whether the thread starves.
pub type Watcher = class::Watcher<BackgroundLoop>;

pub const INBOX: Token = Token(0);
const FIRST_SESSION: usize = 1;

/// Bytes read from a session at once: the requests for many chunks.
const SCRATCH_BYTES: usize = 4 << 10;

/// Longest wait for events; nothing to do for so long ends the thread.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// While messages wait until those before them are taken.
pub const CATCH_UP_EVERY: Duration = Duration::from_millis(1);

/// A message from the core's thread.
#[derive(Debug)]
pub enum ToLoop {
    Core(ToBackground),
    /// Another node greeted, and sent so much so far.
    Connection {
        stream: Stream,
        bytes: Vec<u8>,
    },
    /// Where other nodes listen, from now on.
    Addresses(Addresses),
}

pub struct BackgroundLoop {
    watch: Watch<BackgroundLoop>,
    poll: Poll,
    inbox: Feed<ToLoop>,
    core: Feeder<FromBackground>,
    clock: Clock,
    background: Background,
    peers: Peers,
    sessions: HashMap<usize, Link>,
    next_session: usize,
    /// Sessions to which something may be sent.
    touched: Vec<usize>,
    scratch: Vec<u8>,
    events: Events,
}

impl AsRawFd for BackgroundLoop {
    /// Readable when there is something to do.
    fn as_raw_fd(&self) -> RawFd {
        self.poll.as_raw_fd()
    }
}

impl BackgroundLoop {
    pub fn new(
        poll: Poll,
        inbox: Feed<ToLoop>,
        core: Feeder<FromBackground>,
        background: Background,
    ) -> (Self, Watcher) {
        let (watch, watcher) = class::watch();
        let background_loop = BackgroundLoop {
            watch,
            poll,
            inbox,
            core,
            clock: Clock::start(),
            background,
            peers: Peers::default(),
            sessions: HashMap::new(),
            next_session: FIRST_SESSION,
            touched: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES],
            events: Events::with_capacity(64),
        };
        (background_loop, watcher)
    }

    /// Runs until there is nothing to do, or this thread is to return its work because it starves. `makes_up`: it goes
    /// on with the work of one that did.
    ///
    /// # Errors
    /// When the system's polling fails.
    pub fn run(mut self, makes_up: bool) -> io::Result<()> {
        self.watch.begin(makes_up);
        loop {
            let wait = self.wait();
            let is_over = !self.turn(wait)? && self.background.rebuilds.is_idle() && !self.core.is_behind();
            let starves = self.watch.is_to_return() && !makes_up;
            if is_over || starves {
                if self.background.wakes_core(u64::MAX) {
                    self.core.wake();
                }
                let watch = self.watch.clone();
                watch.return_work(self, starves);
                return Ok(());
            }
        }
    }

    /// Does what has arrived, or arrives in this time, and what is due; false: there was nothing, beside news of
    /// addresses.
    ///
    /// # Errors
    /// When the system's polling fails.
    pub fn turn(&mut self, wait: Duration) -> io::Result<bool> {
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        net::poll(&mut self.poll, &mut events, Some(wait))?;
        let mut has_worked = events.iter().any(|event| event.token() != INBOX);
        for event in &events {
            match (event.token(), peer_of(event.token())) {
                (INBOX, _) => has_worked |= self.take_messages(),
                (_, Some(peer)) => {
                    self.peers.read(peer, event, &mut self.background.rebuilds, self.poll.registry());
                    self.open_memories();
                }
                (Token(session), None) => {
                    self.touched.push(session);
                    if let Some(link) = self.sessions.get_mut(&session) {
                        link.note(event);
                    }
                    if event.is_readable() || event.is_read_closed() || event.is_error() {
                        self.read(session);
                    }
                }
            }
        }
        has_worked |= self.end_turn();
        self.events = events;
        Ok(has_worked)
    }

    fn wait(&self) -> Duration {
        if self.core.is_behind() {
            return CATCH_UP_EVERY;
        }
        let Some(due_us) = self.background.poll_deadline() else { return WAIT_MAX };
        match self.clock.now().mono_us {
            now_us if now_us >= due_us => Duration::ZERO,
            now_us => net::until(due_us, now_us).min(WAIT_MAX),
        }
    }

    /// Opens the memory of nodes on this machine.
    fn open_memories(&mut self) {
        let rebuilds = &mut self.background.rebuilds;
        while let Some((peer, offer)) = rebuilds.poll_offered() {
            if self.peers.is_near(peer)
                && let Ok(memory) = near::open(&offer)
            {
                rebuilds.handle_memory(peer, memory);
            }
        }
    }

    /// Was there more than addresses?
    fn take_messages(&mut self) -> bool {
        let mut has_work = false;
        while let Some(message) = self.inbox.take() {
            has_work |= !matches!(message, ToLoop::Addresses(_));
            match message {
                ToLoop::Core(message) => {
                    let session = self.background.handle(message);
                    self.touched.extend(session.and_then(|session| usize::try_from(session).ok()));
                }
                ToLoop::Addresses(addresses) => self.peers.addresses = addresses,
                ToLoop::Connection { stream, bytes } => self.open(stream, bytes),
            }
        }
        has_work
    }

    fn open(&mut self, stream: Stream, bytes: Vec<u8>) {
        let session = self.next_session;
        self.next_session += 1;
        let Ok(mut link) = Link::new(stream, Token(session), self.poll.registry()) else { return };
        self.background.giver.handle_session_opened(session as u64);
        let consumed = self.background.giver.handle_input(session as u64, &bytes);
        link.input = bytes;
        if let Ok(consumed) = consumed {
            link.drop_consumed(consumed);
        }
        self.sessions.insert(session, link);
        self.touched.push(session);
        match consumed {
            Ok(_) => self.read(session),
            Err(error) => self.end_session(session, &error.to_string()),
        }
    }

    fn read(&mut self, session: usize) {
        loop {
            let Some(link) = self.sessions.get_mut(&session) else { return };
            let (giver, mut failure) = (&mut self.background.giver, None);
            let end = link.read(&mut self.scratch, |input| {
                giver.handle_input(session as u64, input).unwrap_or_else(|error| {
                    failure = Some(error);
                    input.len()
                })
            });
            match (failure, end) {
                (Some(error), _) => return self.end_session(session, &error.to_string()),
                (None, ReadEnd::Closed) => return self.end_session(session, "closed by the other node"),
                (None, ReadEnd::Drained) => return,
                (None, ReadEnd::Paused) => {}
            }
        }
    }

    fn end_session(&mut self, session: usize, reason: &str) {
        self.write(session);
        if let Some(mut link) = self.sessions.remove(&session) {
            link.close(self.poll.registry());
            tracing::debug!(session, reason, "another node's session ended");
        }
        self.background.giver.handle_session_closed(session as u64);
    }

    /// Sends what the socket takes; false: the connection broke.
    fn write(&mut self, session: usize) -> bool {
        let Some(link) = self.sessions.get_mut(&session) else { return true };
        let giver = &mut self.background.giver;
        while let Some(output) = giver.poll_output(session as u64) {
            let length = output.len();
            let Ok(sent) = link.send(output, self.poll.registry()) else { return false };
            giver.handle_sent(session as u64, sent);
            if sent < length {
                break;
            }
        }
        true
    }

    /// Did an order end by itself, or was the core told something?
    fn end_turn(&mut self) -> bool {
        let has_ended = self.background.rebuilds.advance(self.clock.now().mono_us);
        self.peers.write(&mut self.background.rebuilds, self.poll.registry());
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for session in touched.drain(..) {
            if !self.write(session) {
                self.end_session(session, "the connection broke");
            }
        }
        self.touched = touched;
        self.core.catch_up();
        let is_told = self.background.end_turn(self.clock.now().mono_us, |said| self.core.put(said));
        if is_told {
            self.core.wake();
        }
        is_told || has_ended
    }
}
