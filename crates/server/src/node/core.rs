//! One core of a node: an epoll loop around a [`Node`] machine.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hashbrown::HashMap;
use mio::{Events, Interest, Poll, Token};
use shorttail_node::{FromBackground, Node, Pace, SessionError};
use shorttail_units::Now;
use shorttail_wire::node::{NodeRequest, next_frame};

use super::CoreGauges;
use super::background::{CATCH_UP_EVERY, ToLoop};
use super::chaos::{CoreChaos, CoreOrder};
use super::peers::Addresses;
use crate::clock::Clock;
use crate::net::{self, Accepting, Feed, Feeder, Inbox, Link, Listener, OtherEnd, Outlet, ReadEnd, Saying, Stream};
use crate::scheduling;

pub const INBOX: Token = Token(0);
const LISTENER: Token = Token(1);
const FIRST_SESSION: usize = 2;

/// Bytes read from a session at once: a batch of an owner.
const SCRATCH_BYTES: usize = 64 << 10;

/// Longest wait for events: gauges are published at least this often.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// A greeting is some fifty bytes; one that is longer than this is none.
const GREETING_BYTES_MAX: usize = 4096;

/// Microseconds within which one that connected has sent its greeting: much longer than that takes.
const GREETING_US_MAX: u64 = 5_000_000;

/// Microseconds between two lines that say that the file system is full.
const FULL_TOLD_US: u64 = 600_000_000;

/// A message to a core.
#[derive(Debug)]
pub enum ToNodeCore {
    /// A connection whose greeting named this core, and what it sent so far.
    Connection { stream: Stream, bytes: Vec<u8> },
    /// What an operator orders, on purpose.
    Order(CoreOrder),
    /// Where other nodes listen, from now on.
    Addresses(Addresses),
    /// How fast to do what nobody waits for, from now on.
    Pace(Pace),
    /// End at once, connections and memory with it.
    Stop,
}

/// How a core and what works beside it reach each other.
pub struct BackgroundEnds {
    pub hears: Feeder<ToLoop>,
    pub says: Feed<FromBackground>,
}

pub struct Core {
    poll: Poll,
    node: Node,
    clock: Clock,
    inbox: Inbox<ToNodeCore>,
    cores: Vec<Outlet<ToNodeCore>>,
    listener: Option<Accepting<Listener>>,
    gauges: Arc<CoreGauges>,
    /// Connections whose greeting has not arrived, and since when they are there, in microseconds (core 0 only).
    greeting: HashMap<usize, (Link, u64)>,
    /// Greetings that were hurt on their way.
    greetings_damaged: u64,
    sessions: HashMap<usize, Link>,
    /// Who rebuilds for this core, and gives its chunks to other nodes; nobody: the core gives them, as far as it is
    /// asked.
    background: Option<BackgroundEnds>,
    next_session: usize,
    /// Sessions with input left in the socket.
    unread: BTreeSet<usize>,
    touched: Vec<usize>,
    scratch: Vec<u8>,
    /// That the file system is full.
    full_saying: Saying,
    /// Only in nodes that obey orders to be faulty.
    chaos: Option<CoreChaos>,
    is_stopped: bool,
}

/// What a core begins with.
pub struct CoreSetup {
    pub poll: Poll,
    pub node: Node,
    pub inbox: Inbox<ToNodeCore>,
    /// The inboxes of all cores of the node, this one's among them.
    pub cores: Vec<Outlet<ToNodeCore>>,
    /// Of core 0.
    pub listener: Option<Listener>,
    pub gauges: Arc<CoreGauges>,
}

impl Core {
    pub fn new(setup: CoreSetup) -> io::Result<Self> {
        let CoreSetup { poll, node, inbox, cores, mut listener, gauges } = setup;
        if let Some(listener) = &mut listener {
            poll.registry().register(listener, LISTENER, Interest::READABLE)?;
        }
        Ok(Core {
            poll,
            node,
            clock: Clock::start(),
            inbox,
            cores,
            listener: listener.map(|listener| Accepting::new(listener, "a gateway or node")),
            gauges,
            greeting: HashMap::new(),
            greetings_damaged: 0,
            sessions: HashMap::new(),
            background: None,
            next_session: FIRST_SESSION,
            unread: BTreeSet::new(),
            touched: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES],
            full_saying: Saying::default(),
            chaos: None,
            is_stopped: false,
        })
    }

    /// From now on orders to be faulty are obeyed.
    ///
    /// # Errors
    /// When the system gives no timer.
    pub fn allow_chaos(mut self, seed: u64) -> io::Result<Self> {
        self.chaos = Some(CoreChaos::new(&self.poll, Arc::clone(&self.gauges), seed)?);
        Ok(self)
    }

    /// Orders to rebuild are carried out beside this core from now on.
    pub fn with_background(mut self, background: BackgroundEnds) -> Self {
        self.background = Some(background);
        self
    }

    /// # Errors
    /// When the system's polling fails: the core cannot go on.
    pub fn run(mut self) -> io::Result<()> {
        scheduling::shorten_slices();
        let mut events = Events::with_capacity(256);
        while !self.is_stopped {
            let wait = self.wait();
            net::poll(&mut self.poll, &mut events, Some(wait))?;
            for session in std::mem::take(&mut self.unread) {
                self.read(session);
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    INBOX => self.take_messages(),
                    Token(session) if self.greeting.contains_key(&session) => self.read_greeting(session),
                    Token(session) => {
                        if let Some(link) = self.sessions.get_mut(&session) {
                            link.note(event);
                        }
                        let is_news = event.is_readable() || event.is_read_closed() || event.is_error();
                        // Once in a turn: one whose owner sends without a pause is not to take it from others.
                        if is_news && !self.unread.contains(&session) {
                            self.read(session);
                        }
                        self.touched.push(session);
                    }
                }
            }
            self.end_turn();
        }
        Ok(())
    }

    fn wait(&self) -> Duration {
        if !self.unread.is_empty() || self.node.has_wanted() {
            return Duration::ZERO;
        }
        let accepting = self.listener.as_ref().and_then(Accepting::due_us);
        let is_behind = self.background.as_ref().is_some_and(|background| background.hears.is_behind());
        let longest = if is_behind { CATCH_UP_EVERY } else { WAIT_MAX };
        let Some(due_us) = self.node.poll_deadline().into_iter().chain(accepting).min() else { return longest };
        net::until(due_us, self.clock.now().mono_us).min(longest)
    }

    fn accept(&mut self) {
        let now_us = self.clock.now().mono_us;
        while let Some(accepting) = &mut self.listener {
            let stream = accepting.next(now_us, |listener| listener.accept(OtherEnd::Asker));
            let Some(stream) = stream else { return };
            let session = self.next_session;
            self.next_session += 1;
            match Link::new(stream, Token(session), self.poll.registry()) {
                Ok(link) => _ = self.greeting.insert(session, (link, now_us)),
                Err(error) => tracing::warn!(%error, "cannot serve a connection"),
            }
            self.read_greeting(session);
        }
    }

    /// Reads until the greeting is complete, then hands the connection to the core that it names.
    fn read_greeting(&mut self, session: usize) {
        let Some((link, _)) = self.greeting.get_mut(&session) else { return };
        let end = link.read(&mut self.scratch, |_| 0);
        let core = match next_frame(&link.input) {
            Ok(Some((frame, _))) => match NodeRequest::parse(&frame) {
                Ok(NodeRequest::Hello(hello) | NodeRequest::Peer(hello)) => Some(usize::from(hello.core)),
                _ => None,
            },
            Ok(None) if end != ReadEnd::Closed && link.input.len() < GREETING_BYTES_MAX => return,
            Ok(None) => None,
            Err(_) => {
                self.greetings_damaged += 1;
                None
            }
        };
        let Some((link, _)) = self.greeting.remove(&session) else { return };
        // Dropping the link closes a connection that is none of an owner's.
        let Some(outlet) = core.and_then(|core| self.cores.get(core)) else { return };
        if let Ok((stream, bytes)) = link.into_stream(self.poll.registry()) {
            outlet.send(ToNodeCore::Connection { stream, bytes });
        }
    }

    /// Closes connections that have been here for long without a greeting.
    fn drop_silent(&mut self, now_us: u64) {
        let is_silent = |since_us: u64| now_us >= since_us + GREETING_US_MAX;
        let silent = self.greeting.extract_if(|_, (_, since_us)| is_silent(*since_us));
        silent.for_each(|(_, (mut link, _))| link.close(self.poll.registry()));
    }

    fn take_messages(&mut self) {
        while let Some(said) = self.background.as_mut().and_then(|background| background.says.take()) {
            self.node.handle_background(said);
        }
        while let Some(message) = self.inbox.take() {
            match message {
                ToNodeCore::Connection { stream, bytes } => self.serve(stream, bytes),
                ToNodeCore::Order(order) => self.obey(order),
                ToNodeCore::Addresses(addresses) => self.tell_background(ToLoop::Addresses(addresses)),
                ToNodeCore::Pace(pace) => self.node.set_pace(pace),
                ToNodeCore::Stop => {
                    self.is_stopped = true;
                    return;
                }
            }
        }
    }

    /// A connection whose greeting names this core; `bytes`: what was read of it.
    fn serve(&mut self, stream: Stream, bytes: Vec<u8>) {
        // Faults on purpose befall what the core itself sends.
        if self.background.is_some() && self.chaos.is_none() && is_of_peer(&bytes) {
            return self.tell_background(ToLoop::Connection { stream, bytes });
        }
        let session = self.next_session;
        self.next_session += 1;
        let Ok(mut link) = Link::new(stream, Token(session), self.poll.registry()) else { return };
        self.node.handle_session_opened(session as u64);
        link.input = bytes;
        self.sessions.insert(session, link);
        self.handle_left_over(session);
        self.read(session);
        self.touched.push(session);
    }

    fn tell_background(&mut self, message: ToLoop) {
        if let Some(background) = &mut self.background {
            background.hears.send(message);
        }
    }

    fn tell_if_full(&mut self, now_us: u64) {
        if self.node.is_short_of_pages() && self.full_saying.is_due(now_us, FULL_TOLD_US) {
            let place =
                if self.node.outlives_process() { "the file system of --memory-file" } else { "the machine's memory" };
            tracing::warn!("{place} is full: no more chunks are taken than it has room for");
        }
    }

    fn obey(&mut self, order: CoreOrder) {
        let Some(chaos) = &mut self.chaos else { return };
        let now = self.clock.now();
        // What a full socket left of a reply has begun to leave: no fault can befall it any more.
        for (&session, _) in self.sessions.iter().filter(|(_, link)| link.is_full()) {
            if let Some(output) = self.node.poll_output(session as u64) {
                chaos.adopt(session, output);
            }
            self.touched.push(session);
        }
        chaos.obey(now, order, &mut self.node);
        self.touched.extend(self.sessions.keys());
    }

    fn handle_left_over(&mut self, session: usize) {
        let now = self.clock.now();
        let Some(link) = self.sessions.get_mut(&session) else { return };
        match take_input(&mut self.node, &mut self.chaos, now, session, &link.input) {
            Ok(consumed) => link.drop_consumed(consumed),
            Err(error) => self.end_session(session, &error.to_string()),
        }
    }

    fn read(&mut self, session: usize) {
        let Some(link) = self.sessions.get_mut(&session) else { return };
        let (node, chaos, clock) = (&mut self.node, &mut self.chaos, self.clock);
        let mut failure = None;
        let end = link.read(&mut self.scratch, |input| {
            // After the input: a promise to an owner must not begin before it was asked for, however long this process
            // stood still in between.
            take_input(node, chaos, clock.now(), session, input).unwrap_or_else(|error| {
                failure = Some(error.to_string());
                input.len()
            })
        });
        self.touched.push(session);
        match (failure, end) {
            (Some(reason), _) => self.end_session(session, &reason),
            (None, ReadEnd::Closed) => self.end_session(session, "closed by the owner"),
            (None, ReadEnd::Paused) => _ = self.unread.insert(session),
            (None, ReadEnd::Drained) => {}
        }
    }

    fn end_session(&mut self, session: usize, reason: &str) {
        let Some(mut link) = self.sessions.remove(&session) else { return };
        if let Some(output) = self.node.poll_output(session as u64) {
            // A last word (a refusal) is worth one attempt; the owner may be gone.
            let _ = link.write(output, self.poll.registry());
        }
        link.close(self.poll.registry());
        if let Some(chaos) = &mut self.chaos {
            chaos.forget(session);
        }
        self.node.handle_session_closed(session as u64);
        tracing::debug!(session, reason, "session ended");
    }

    fn end_turn(&mut self) {
        let now = self.clock.now();
        self.drop_silent(now.mono_us);
        if self.listener.as_ref().is_some_and(|accepting| accepting.is_due(now.mono_us)) {
            self.accept();
        }
        self.node.end_turn(now);
        let mut touched = std::mem::take(&mut self.touched);
        while let Some(session) = self.node.poll_written_session() {
            touched.push(session as usize);
        }
        if let Some(chaos) = &mut self.chaos {
            chaos.release(now, &mut touched);
        }
        touched.sort_unstable();
        touched.dedup();
        for session in touched.drain(..) {
            let Some(link) = self.sessions.get_mut(&session) else { continue };
            let replies = self.node.poll_output(session as u64);
            let output = match &mut self.chaos {
                None => Ok(replies),
                Some(chaos) => chaos.output(now, session, replies),
            };
            let Ok(output) = output else {
                self.end_session(session, "broken on purpose");
                continue;
            };
            let Some(output) = output.filter(|output| !output.is_empty()) else { continue };
            if link.write(output, self.poll.registry()).is_err() {
                self.end_session(session, "the connection broke");
            }
        }
        if let Some(chaos) = &mut self.chaos {
            chaos.end_turn(now);
        }
        self.touched = touched;
        while let Some(session) = self.node.poll_closed_session() {
            self.end_session(session as usize, "replaced by a newer session, or too far behind");
        }
        if let Some(BackgroundEnds { hears, .. }) = &mut self.background {
            hears.catch_up();
            if self.node.serve_background(|said| hears.put(ToLoop::Core(said))) {
                hears.wake();
            }
        }
        self.tell_if_full(now.mono_us);
        self.publish();
    }

    fn publish(&self) {
        let (gauges, stats) = (&self.gauges, self.node.stats());
        gauges.used_bytes.store(self.node.used_bytes(), Ordering::Relaxed);
        gauges.room_bytes.store(self.node.chunk_room_bytes(), Ordering::Relaxed);
        gauges.without_pages.store(self.node.is_short_of_pages().into(), Ordering::Relaxed);
        gauges.chunks_open.store(stats.chunks.saturating_sub(stats.sealed_chunks), Ordering::Relaxed);
        gauges.chunks_sealed.store(stats.sealed_chunks, Ordering::Relaxed);
        gauges.chunks_damaged.store(stats.damaged_chunks, Ordering::Relaxed);
        gauges.scrubbed_bytes.store(stats.scrubbed_bytes, Ordering::Relaxed);
        gauges.corruptions_found.store(stats.corruptions_found, Ordering::Relaxed);
        gauges.corruptions_repaired.store(stats.corruptions_repaired, Ordering::Relaxed);
        gauges.messages_damaged.store(stats.messages_damaged + self.greetings_damaged, Ordering::Relaxed);
    }
}

/// How much of the input was taken.
fn take_input(
    node: &mut Node,
    chaos: &mut Option<CoreChaos>,
    now: Now,
    session: usize,
    input: &[u8],
) -> Result<usize, SessionError> {
    let taken = node.handle_input(now, session as u64, input)?;
    if let Some(chaos) = chaos {
        chaos.note_requests(now, session, &input[..taken]);
    }
    Ok(taken)
}

/// Does another node greet?
fn is_of_peer(bytes: &[u8]) -> bool {
    let frame = next_frame(bytes).ok().flatten();
    frame.is_some_and(|(frame, _)| matches!(NodeRequest::parse(&frame), Ok(NodeRequest::Peer(_))))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use shorttail_node::NodeConfig;
    use shorttail_units::{ClusterId, Incarnation, NodeId};

    use super::*;
    use crate::config::Address;

    /// A core, and a connection that it has taken.
    fn core_with_connection() -> (Core, Stream) {
        let directory = tempfile::tempdir().expect("a directory");
        let address = Address::Unix(directory.path().join("node"));
        let listener = Listener::bind(&address).expect("listens");
        let poll = Poll::new().expect("an epoll instance");
        let (inbox, outlet) = Inbox::new(&poll, INBOX).expect("an event descriptor");
        let config = NodeConfig {
            node: NodeId(0),
            cluster: ClusterId(7),
            incarnation: Incarnation(1),
            core: 0,
            core_count: 1,
            memory_bytes: 16 << 20,
            pace: Pace { repair_bytes_per_s: 0, scrub_bytes_per_s: 0 },
        };
        let node = Node::new(config).expect("memory");
        let gauges = Arc::new(CoreGauges::default());
        let setup = CoreSetup { poll, node, inbox, cores: vec![outlet], listener: Some(listener), gauges };
        let mut core = Core::new(setup).expect("a core");
        let stream = Stream::connect(&address).expect("connects");
        core.accept();
        assert_eq!(core.greeting.len(), 1);
        (core, stream)
    }

    #[test]
    fn whoever_connects_and_says_nothing_is_let_go() {
        let (mut core, mut silent) = core_with_connection();
        let (_, since_us) = core.greeting.values().next().expect("it is there");
        let since_us = *since_us;
        core.drop_silent(since_us + GREETING_US_MAX - 1);
        assert_eq!(core.greeting.len(), 1);
        assert_eq!(silent.read(&mut [0]).expect_err("open").kind(), io::ErrorKind::WouldBlock);
        core.drop_silent(since_us + GREETING_US_MAX);
        assert!(core.greeting.is_empty());
        assert_eq!(silent.read(&mut [0]).expect("closed"), 0);
    }

    #[test]
    fn a_greeting_that_was_hurt_is_counted() {
        let (mut core, mut stream) = core_with_connection();
        let mut ping = Vec::new();
        NodeRequest::Ping.encode(0, &mut ping);
        ping[2] ^= 1;
        stream.write_all(&ping).expect("sent");
        let session = *core.greeting.keys().next().expect("it is there");
        core.read_greeting(session);
        assert!(core.greeting.is_empty());
        core.publish();
        assert_eq!(core.gauges.messages_damaged.load(Ordering::Relaxed), 1);
    }
}
