//! A core with clients at real sockets, and nobody who owns anything.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Poll, Token as MioToken};
use shorttail_gateway::engine::EngineConfig;
use shorttail_gateway::session::Settings;
use shorttail_units::{ClusterId, CodeShape, Epoch};

use super::*;
use crate::clock::Clock;
use crate::config::Address;
use crate::gateway::Listeners;
use crate::gateway::core::CoreSetup;
use crate::gateway::input_room::{InputRoom, LATE_US, LITTLE_BYTES, READ_BYTES};
use crate::gateway::neighbours::Identity;
use crate::gateway::tallies::{Tallies, Teller};
use crate::net::{Inbox, Listener};

const VALUE_BYTES: usize = 1 << 20;
const ROOM_BYTES: usize = VALUE_BYTES / 2;
const TURNS_MAX: usize = 100_000;

struct World {
    core: Core,
    far: Vec<Far>,
}

/// A client: its socket, what it is still to send, and what it heard.
struct Far {
    number: u64,
    stream: UnixStream,
    /// So often it reads.
    reads_left: usize,
    to_send: Vec<u8>,
    heard: Vec<u8>,
}

impl World {
    /// `room_bytes`: what clients may hold beyond the little that each may.
    fn new(room_bytes: usize) -> Self {
        World::with(room_bytes, Settings::default(), Listeners::default())
    }

    fn with(room_bytes: usize, settings: Settings, listeners: Listeners) -> Self {
        let poll = Poll::new().expect("an epoll instance");
        let (inbox, outlet) = Inbox::new(&poll, MioToken(0)).expect("an event descriptor");
        let shape = CodeShape::reed_solomon(1, 1).expect("a code");
        let setup = CoreSetup {
            poll,
            inbox,
            clock: Clock::start(),
            engine: EngineConfig::new(shape, Epoch(0), ClusterId(7), 2),
            core: 0,
            identity: Identity { cluster: ClusterId(7), gateway: 0 },
            settings: Settings { value_bytes_max: VALUE_BYTES, ..settings },
            roster: Arc::default(),
            cores: vec![outlet],
            listeners,
            gauges: Arc::default(),
            totals: Arc::default(),
            teller: Teller::new(Arc::new(Tallies::new(1)), 0),
        };
        let mut core = Core::new(setup).expect("a core");
        core.input_room = InputRoom::new(room_bytes);
        World { core, far: Vec::new() }
    }

    fn connect(&mut self, protocol: ClientProtocol) -> usize {
        let (near, stream) = UnixStream::pair().expect("a pair of sockets");
        for end in [&near, &stream] {
            end.set_nonblocking(true).expect("a socket");
        }
        let number = self.core.next_client;
        self.core.serve(Stream::Unix(mio::net::UnixStream::from_std(near)), protocol);
        self.far.push(Far { number, stream, reads_left: usize::MAX, to_send: Vec::new(), heard: Vec::new() });
        self.far.len() - 1
    }

    fn send(&mut self, far: usize, bytes: &[u8]) {
        self.far[far].to_send.extend_from_slice(bytes);
    }

    /// Until nothing moves any more.
    fn settle(&mut self) {
        let mut events = Events::with_capacity(64);
        for _ in 0..TURNS_MAX {
            let moved: usize = self.far.iter_mut().map(Far::go_on).sum();
            self.core.poll.poll(&mut events, Some(Duration::ZERO)).expect("events");
            events.iter().for_each(|event| self.core.handle_event(event).expect("it goes on"));
            let is_at_rest = self.core.unread.is_empty() && !self.core.input_room.has_next();
            self.core.read_unread();
            self.core.pass_replies();
            self.core.write_clients();
            if moved == 0 && is_at_rest {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    /// Nobody owns anything: what was asked is refused, part after part.
    fn refuse(&mut self, far: usize) {
        while self.far[far].heard.is_empty() {
            self.core.now.mono_us += LATE_US / 2;
            self.core.housekeep();
            self.settle();
        }
        assert_eq!(self.far[far].heard[0], b'-');
    }

    fn held_bytes(&self, far: usize) -> usize {
        self.core.clients.get(&self.far[far].number).map_or(0, Client::held_bytes)
    }

    fn is_connected(&self, far: usize) -> bool {
        self.core.clients.contains_key(&self.far[far].number)
    }
}

impl Far {
    /// Sends what the socket takes, and hears what there is.
    fn go_on(&mut self) -> usize {
        let sent = self.stream.write(&self.to_send).unwrap_or(0);
        self.to_send.drain(..sent);
        let mut piece = vec![0; READ_BYTES];
        let count = if self.reads_left > 0 { self.stream.read(&mut piece).unwrap_or(0) } else { 0 };
        self.reads_left -= usize::from(count > 0);
        self.heard.extend_from_slice(&piece[..count]);
        sent + count
    }
}

/// A request that is answered at once, and as long as its answer but for its name.
fn echo() -> Vec<u8> {
    let mut request = format!("*2\r\n$4\r\nECHO\r\n${VALUE_BYTES}\r\n").into_bytes();
    request.resize(request.len() + VALUE_BYTES, b'x');
    request.extend_from_slice(b"\r\n");
    request
}

/// A request that is asked part by part.
fn delete_many() -> Vec<u8> {
    let key = format!("$1000\r\n{}\r\n", "k".repeat(1_000));
    format!("*1001\r\n$3\r\nDEL\r\n{}", key.repeat(1_000)).into_bytes()
}

#[test]
fn many_that_send_a_part_hold_so_much_and_all_are_answered_in_the_end() {
    let mut world = World::new(ROOM_BYTES);
    let whole = echo();
    let (end, beginning) = (&whole[whole.len() - 1..], &whole[..whole.len() - 1]);
    let clients: Vec<_> = (0..8).map(|_| world.connect(ClientProtocol::Redis)).collect();
    clients.iter().for_each(|&far| world.send(far, beginning));
    world.settle();
    let held: Vec<_> = clients.iter().map(|&far| world.held_bytes(far)).collect();
    let beyond: usize = held.iter().map(|bytes| bytes.saturating_sub(LITTLE_BYTES)).sum();
    assert_eq!(world.core.input_room.bytes(), beyond, "{held:?}");
    assert!(beyond <= ROOM_BYTES + READ_BYTES + VALUE_BYTES, "{held:?}");
    assert_eq!(held.iter().filter(|&&bytes| bytes >= beginning.len()).count(), 1, "one goes on: {held:?}");
    let short = world.connect(ClientProtocol::Redis);
    world.send(short, b"PING\r\n");
    world.settle();
    assert_eq!(world.far[short].heard, b"+PONG\r\n", "what is short is not held up");

    // Nobody who waits for room is taken for idle.
    world.core.now.mono_us += 9_000_000;
    world.core.shared.settings.idle_timeout_s = 8;
    world.core.housekeep();
    let stay: Vec<_> = clients.iter().map(|&far| world.is_connected(far)).collect();
    assert_eq!(stay, held.iter().map(|&bytes| bytes < beginning.len()).collect::<Vec<_>>());
    world.core.shared.settings.idle_timeout_s = 0;

    clients.iter().for_each(|&far| world.send(far, end));
    world.settle();
    for far in clients.into_iter().zip(stay).filter_map(|(far, stays)| stays.then_some(far)) {
        assert_eq!(world.far[far].heard.len(), VALUE_BYTES + format!("${VALUE_BYTES}\r\n\r\n").len());
    }
    assert_eq!(world.core.input_room.bytes(), 0);
}

#[test]
fn who_stops_in_a_request_is_let_go_while_others_wait() {
    let mut world = World::new(ROOM_BYTES);
    let (memcached, redis, other) = (ClientProtocol::Memcached, ClientProtocol::Redis, ClientProtocol::Redis);
    let [stopped, busy, waiting] = [memcached, redis, other].map(|protocol| world.connect(protocol));
    // What the session has of a value counts as what is left of the input.
    let mut store = format!("set key 0 0 {}\r\n", VALUE_BYTES * 9 / 10).into_bytes();
    store.resize(VALUE_BYTES * 8 / 10, b'x');
    world.send(stopped, &store);
    world.settle();
    assert!(world.core.input_room.bytes() > ROOM_BYTES && world.held_bytes(stopped) > ROOM_BYTES);
    world.core.now.mono_us += LATE_US;
    world.core.housekeep();
    assert!(world.is_connected(stopped), "nobody wants its room");

    world.send(waiting, &echo());
    world.send(busy, b"PING\r\n");
    world.settle();
    assert!(world.core.input_room.waits(world.far[waiting].number));
    world.core.now.mono_us += 1_000_000;
    world.core.housekeep();
    world.settle();
    let connected = [stopped, busy, waiting].map(|far| world.is_connected(far));
    assert_eq!((connected, world.core.shared.counters.late_kicks), ([false, true, true], 1));
    assert!(world.far[waiting].heard.len() > VALUE_BYTES);
}

/// One is at a request that leaves in parts, another one takes no replies. A third one sends, and a fourth one waits.
#[test]
fn who_waits_for_replies_or_takes_some_is_not_let_go() {
    let mut world = World::new(2 * LITTLE_BYTES);
    let [parts, taking] = [ClientProtocol::Redis, ClientProtocol::Memcached].map(|protocol| world.connect(protocol));
    world.far[taking].reads_left = 0;
    world.send(taking, &b"mn\r\n".repeat(1 << 20));
    world.settle();
    world.send(parts, &delete_many());
    world.settle();
    let held = world.held_bytes(parts);
    assert!(held > 700_000 && !world.core.clients[&world.far[parts].number].session.wants_input());
    assert!(world.held_bytes(taking) > LITTLE_BYTES);

    let [sending, waiting] = [(); 2].map(|()| world.connect(ClientProtocol::Redis));
    let whole = echo();
    world.send(sending, &whole[..whole.len() / 2]);
    world.settle();
    world.send(waiting, &whole);
    world.settle();
    assert!(world.core.input_room.waits(world.far[waiting].number));
    for (takes, is_connected) in [(1, true), (0, false)] {
        world.core.now.mono_us += LATE_US;
        world.send(sending, &[b'x'; LITTLE_BYTES]);
        world.far[taking].reads_left = takes;
        world.settle();
        world.core.housekeep();
        let connected = [parts, taking, sending, waiting].map(|far| world.is_connected(far));
        assert_eq!(connected, [true, is_connected, true, true]);
    }
}

#[test]
fn what_was_asked_part_by_part_leaves_its_room() {
    let mut world = World::new(4 * ROOM_BYTES);
    let far = world.connect(ClientProtocol::Redis);
    world.send(far, &delete_many());
    world.settle();
    assert!(world.core.input_room.bytes() > ROOM_BYTES);
    world.refuse(far);
    assert_eq!(world.core.input_room.bytes(), 0);
}

/// What follows a question about all keys is looked at when that is answered. By then there is no room for its rest.
#[test]
fn who_waited_for_a_reply_waits_for_room_then() {
    let mut world = World::new(LITTLE_BYTES);
    let [asking, sending] = [(); 2].map(|()| world.connect(ClientProtocol::Redis));
    let whole = echo();
    let (beginning, rest) = whole.split_at(LITTLE_BYTES * 3 / 2);
    world.send(sending, beginning);
    world.settle();
    world.send(asking, &[b"*1\r\n$6\r\nDBSIZE\r\n", beginning].concat());
    world.settle();
    world.send(sending, &rest[..rest.len() - 1]);
    world.send(asking, rest);
    world.settle();
    let number = world.far[asking].number;
    assert!(world.held_bytes(asking) >= beginning.len() && !world.core.input_room.waits(number));
    world.refuse(asking);
    assert!(world.core.input_room.waits(number));
    world.send(sending, &rest[rest.len() - 1..]);
    world.settle();
    assert!(world.far[asking].heard.len() > VALUE_BYTES);
}

/// Those that are refused may come again at once, without end.
#[test]
fn many_that_come_at_once_are_taken_some_in_a_turn() {
    const COME: usize = 2 * ACCEPTED_PER_TURN + 1;
    for (connection_count_max, is_forward) in [(0, false), (COME, false), (COME, true)] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("here");
        let listener = Listener::bind(&Address::Unix(path.clone())).expect("a socket");
        let (mut listeners, settings) =
            (Listeners::default(), Settings { connection_count_max, ..Settings::default() });
        match is_forward {
            true => listeners.forward = Some(listener),
            false => listeners.sockets.push((listener, ClientProtocol::Redis)),
        }
        let mut core = World::with(ROOM_BYTES, settings, listeners).core;
        let come: Vec<_> = (0..COME).map(|_| UnixStream::connect(&path).expect("it listens")).collect();
        core.listen().expect("sockets");
        let mut events = Events::with_capacity(64);
        core.poll.poll(&mut events, Some(Duration::from_secs(10))).expect("events");
        events.iter().for_each(|event| core.handle_event(event).expect("it goes on"));
        let mut taken = Vec::new();
        while core.has_left() && taken.len() < COME {
            core.accept_due();
            core.read_unread();
            let refused = core.totals.connections_rejected.load(Ordering::Relaxed) as usize;
            taken.push(core.clients.len() + core.guests.len() + refused);
        }
        assert_eq!(taken, [ACCEPTED_PER_TURN, 2 * ACCEPTED_PER_TURN, come.len()]);
    }
}

#[test]
fn who_asks_how_many_are_connected_is_one_of_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("here");
    let listener = Listener::bind(&Address::Unix(path.clone())).expect("a socket");
    let listeners = Listeners { sockets: vec![(listener, ClientProtocol::Redis)], forward: None };
    let mut core = World::with(ROOM_BYTES, Settings::default(), listeners).core;
    let mut come = Vec::new();
    for count in 1..=2 {
        come.push(UnixStream::connect(&path).expect("it listens"));
        core.accept(0);
        let counters = &core.shared.counters;
        assert_eq!((counters.connections_current, counters.connections_total), (count, count));
    }
}
