//! A core that asks another gateway, or waits until it can.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use mio::Events;
use shorttail_gateway::forward::put_reply;
use shorttail_wire::gateway::{Kind, Welcome, begin_frame, next_frame, put_frame};

use super::*;
use crate::gateway::limits::NEIGHBOUR_OUTBOX_BYTES_MAX;
use crate::gateway::neighbours::gateway_of;

const CORE_COUNT: usize = 64;
/// Requests of one connection; fewer than a session asks for at once.
const PIPELINED: u64 = 200;

/// Core 0 of a gateway of many, which owns nothing.
struct Asker {
    poll: Poll,
    exchange: Exchange,
    now: Now,
}

impl Asker {
    fn new() -> Self {
        Asker::among(Arc::default())
    }

    /// `waiting`: what waits in its gateway.
    fn among(waiting: Arc<WaitingTotal>) -> Self {
        let poll = Poll::new().expect("an epoll instance");
        let (_, outlet) = Inbox::new(&poll, MioToken(0)).expect("an event descriptor");
        let shape = CodeShape::reed_solomon(1, 1).expect("a code");
        let mut config = EngineConfig::new(shape, Epoch(0), CLUSTER, NODE_COUNT);
        config.partition_count = 1;
        let own = CoreIdentity { identity: Identity { cluster: CLUSTER, gateway: 0 }, core: 0 };
        let exchange = Exchange::new(own, vec![outlet; CORE_COUNT], config, waiting);
        Asker { poll, exchange, now: Now { mono_us: 1, unix_ms: UnixMs(1_700_000_000_000) } }
    }

    fn set(&mut self, seq: u64) {
        self.set_key(seq, "key", 1);
    }

    fn set_key(&mut self, seq: u64, key: &str, value_bytes: usize) {
        let request = self.set_request(key, value_bytes);
        let id = RequestId { seq, part: 0 };
        self.exchange.ask(self.now, Token { connection: 1, id }, request);
    }

    fn set_request(&self, key: &str, value_bytes: usize) -> Request<AnyCommand> {
        let line = [format!("set {key} 0 0 {value_bytes}\r\n").as_bytes(), &vec![b'1'; value_bytes], b"\r\n"].concat();
        self.request(&line)
    }

    fn request(&self, line: &[u8]) -> Request<AnyCommand> {
        let mut asked = Vec::new();
        let mut session = MemcachedSession::default();
        let mut sink = |_, request: Request<_>| asked.push(request.map(AnyCommand::Memcached));
        session.handle_input(self.now, &mut Shared::new(Settings::default()), line, &mut sink);
        asked.pop().expect("one request")
    }

    fn get_key(&mut self, seq: u64, key: &str) {
        let request = self.request(format!("get {key}\r\n").as_bytes());
        let id = RequestId { seq, part: 0 };
        self.exchange.ask(self.now, Token { connection: 1, id }, request);
    }

    fn answers(&mut self) -> Vec<(u64, Vec<u8>)> {
        self.exchange.begin_pass(self.now);
        let answers = std::iter::from_fn(|| self.exchange.poll_answer(self.now));
        let bytes = |(token, answer): (Token, Answer)| match answer {
            Some(Reply::Bytes(bytes)) => (token.id.seq, bytes),
            other => panic!("{other:?}"),
        };
        answers.map(bytes).collect()
    }

    /// A turn in which nothing arrives.
    fn step(&mut self) {
        self.exchange.end_turn(self.now);
        self.exchange.write_neighbours(self.now, self.poll.registry());
    }

    /// Takes what another gateway has sent.
    fn read(&mut self) {
        let mut events = Events::with_capacity(8);
        self.poll.poll(&mut events, Some(Duration::from_secs(10))).expect("events");
        for event in &events {
            if let Some(gateway) = gateway_of(event.token()) {
                self.exchange.read_neighbour(self.now, gateway, event, &mut [0; 4096], self.poll.registry());
            }
        }
    }
}

/// The gateway that owns everything: its end of the connection.
struct Owner {
    stream: UnixStream,
    input: Vec<u8>,
}

impl Owner {
    /// It has let this one in.
    fn of(asker: &mut Asker) -> Self {
        Owner::with_epoch(asker, 1)
    }

    /// The gateway with the number of its epoch.
    fn with_epoch(asker: &mut Asker, number: u16) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("forward");
        let listener = UnixListener::bind(&path).expect("a socket");
        let forward = Some(format!("unix:{}", path.display()));
        let gateways = vec![GatewayEntry { id: number, is_alive: true, forward, ..GatewayEntry::default() }];
        let tenures = vec![TenureEntry { epoch: Epoch(number.into()), gateway: number, partitions: vec![0] }];
        let view = View { number: 1, gateways, tenures, ..View::default() };
        asker.exchange.take_view(asker.now, &view, asker.poll.registry());
        let (stream, _) = listener.accept().expect("it connects");
        stream.set_nonblocking(true).expect("a socket");
        let mut owner = Owner { stream, input: Vec::new() };
        asker.exchange.write_neighbours(asker.now, asker.poll.registry());
        assert_eq!(owner.take(), [(Kind::Hello, 0)]);
        let mut welcome = Vec::new();
        put_frame(&mut welcome, Kind::Welcome, 0, &Welcome { gateway: number });
        owner.stream.write_all(&welcome).expect("sent");
        asker.read();
        owner
    }

    /// Does what it was asked.
    fn answer(&mut self, asker: &mut Asker, tags: impl IntoIterator<Item = u64>) {
        self.answer_with(asker, tags, b"STORED\r\n");
    }

    fn answer_with(&mut self, asker: &mut Asker, tags: impl IntoIterator<Item = u64>, answer: &[u8]) {
        let mut answers = Vec::new();
        tags.into_iter().for_each(|tag| put_reply(&mut answers, tag, &Reply::Bytes(answer.to_vec())));
        self.stream.write_all(&answers).expect("sent");
        asker.read();
    }

    /// Says that it is not the owner.
    fn refuse(&mut self, tag: u64) {
        let mut refused = Vec::new();
        begin_frame(&mut refused, Kind::NotOwner, tag, |_| {});
        self.stream.write_all(&refused).expect("sent");
    }

    /// It was asked more and more, and answered all of it: it may be asked so much at once.
    fn answer_much(&mut self, asker: &mut Asker, count: u64) {
        let mut answered = 0;
        while answered < count {
            asker.set_key(0, &format!("once{answered}"), 1);
            asker.exchange.write_neighbours(asker.now, asker.poll.registry());
            let asked: Vec<u64> = self.take().into_iter().map(|(_, tag)| tag).collect();
            answered += asked.len() as u64;
            self.answer(asker, asked);
            asker.answers();
        }
    }

    /// Kinds and tags of what has come.
    fn take(&mut self) -> Vec<(Kind, u64)> {
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = self.stream.read(&mut piece) {
            self.input.extend_from_slice(&piece[..count]);
        }
        let (mut taken, mut frames) = (0, Vec::new());
        while let Some((frame, bytes)) = next_frame(&self.input[taken..]).expect("frames") {
            frames.push((frame.kind, frame.tag));
            taken += bytes;
        }
        self.input.drain(..taken);
        frames
    }
}

#[test]
fn writes_of_one_key_that_another_gateway_owns_wait_for_each_other_and_are_not_refused() {
    let mut asker = Asker::new();
    let mut owner = Owner::of(&mut asker);
    (0..PIPELINED).for_each(|seq| asker.set(seq));
    assert_eq!(asker.answers(), [], "none is refused");
    for seq in 0..PIPELINED {
        asker.exchange.write_neighbours(asker.now, asker.poll.registry());
        let [(Kind::Ask, tag)] = owner.take()[..] else { panic!("one after the other") };
        owner.answer(&mut asker, [tag]);
        assert_eq!(asker.answers(), [(seq, b"STORED\r\n".to_vec())]);
    }
}

#[test]
fn one_core_of_many_may_have_all_that_waits_for_an_owner() {
    let mut asker = Asker::new();
    let count = 8 * CORE_COUNT as u64;
    (0..count).for_each(|seq| asker.set(seq));
    assert_eq!(asker.answers(), [], "none is refused");
}

/// Of what the other gateway does not take little has left, or could: whoever asked for the rest knows that nothing was
/// done.
#[test]
fn what_waits_for_a_gateway_that_stands_still_is_refused_for_sure() {
    const COUNT: u64 = 1_000;
    const VALUE_BYTES: usize = 8 << 10;
    const SOCKET_BYTES: usize = 1 << 20;
    let mut asker = Asker::new();
    let mut owner = Owner::of(&mut asker);
    owner.answer_much(&mut asker, COUNT);
    (0..COUNT).for_each(|seq| asker.set_key(seq, &format!("key{seq}"), VALUE_BYTES));
    asker.exchange.write_neighbours(asker.now, asker.poll.registry());
    assert!(asker.exchange.wants_turn(), "the socket took some");
    asker.exchange.end_turn(asker.now);
    asker.exchange.write_neighbours(asker.now, asker.poll.registry());
    assert!(!asker.exchange.wants_turn(), "it takes no more");
    // Once all has left no event tells of it.
    let mut taken = 0;
    while taken < COUNT / 2 {
        taken += owner.take().len() as u64;
        asker.exchange.write_neighbours(asker.now, asker.poll.registry());
        asker.exchange.end_turn(asker.now);
    }
    asker.now.mono_us += WAIT_US_MAX;
    asker.exchange.housekeep(asker.now, asker.poll.registry());
    let answers = asker.answers();
    let [unknown, refused] = ["SERVER_ERROR outcome unknown", "SERVER_ERROR"]
        .map(|words| answers.iter().filter(|(_, reply)| reply.starts_with(words.as_bytes())).count() as u64);
    assert_eq!((answers.len() as u64, refused), (COUNT, COUNT));
    let in_doubt_max = ((NEIGHBOUR_OUTBOX_BYTES_MAX + SOCKET_BYTES) / VALUE_BYTES) as u64;
    assert!((taken..taken + in_doubt_max).contains(&unknown), "{taken} were taken, {unknown} are in doubt");
}

/// Of three requests it does one. What it does is in time, and what it does not do is refused soon and for sure.
#[test]
fn an_owner_that_is_behind_answers_as_much_as_it_can() {
    const STEP_US: u64 = 10_000;
    const STEPS: u64 = 2_000;
    const DONE_IN_STEP: usize = 10;
    let mut asker = Asker::new();
    let mut owner = Owner::of(&mut asker);
    let (mut asked, mut began_us) = (VecDeque::new(), Vec::new());
    let [mut stored, mut overloaded] = [0; 2];
    for step in 0..STEPS {
        for _ in 0..3 * DONE_IN_STEP {
            asker.set_key(began_us.len() as u64, &format!("key{}", began_us.len()), 1);
            began_us.push(asker.now.mono_us);
        }
        asker.exchange.write_neighbours(asker.now, asker.poll.registry());
        asked.extend(owner.take().into_iter().map(|(_, tag)| tag));
        let done = asked.len().min(DONE_IN_STEP);
        owner.answer(&mut asker, asked.drain(..done));
        asker.exchange.housekeep(asker.now, asker.poll.registry());
        asker.exchange.end_turn(asker.now);
        for (seq, answer) in asker.answers() {
            let took_us = asker.now.mono_us - began_us[seq as usize];
            assert!(took_us <= WAIT_US_MAX / 2 + STEP_US, "{took_us} us, step {step}");
            match answer.starts_with(b"STORED") {
                true => stored += 1,
                false => {
                    assert!(answer.starts_with(b"SERVER_ERROR overloaded"), "{}", String::from_utf8_lossy(&answer));
                    overloaded += 1;
                }
            }
        }
        asker.now.mono_us += STEP_US;
    }
    assert_eq!(stored, STEPS * DONE_IN_STEP as u64);
    assert!(overloaded > stored);
}

/// The one before it was behind, and is gone.
#[test]
fn an_owner_that_is_new_is_not_behind_with_what_waited_for_another_one() {
    const COUNT: u64 = 300;
    let mut asker = Asker::new();
    let mut owner = Owner::of(&mut asker);
    owner.answer_much(&mut asker, 1);
    (0..COUNT).for_each(|seq| asker.set_key(seq, &format!("key{seq}"), 1));
    asker.exchange.write_neighbours(asker.now, asker.poll.registry());
    let asked = owner.take().len() as u64;
    asker.exchange.end_turn(asker.now);
    drop(owner);
    asker.now.mono_us += BEHIND_US_MAX / 2;
    asker.exchange.take_view(asker.now, &View { number: 2, ..View::default() }, asker.poll.registry());
    asker.exchange.end_turn(asker.now);
    assert_eq!(asker.answers().len() as u64, asked, "of unknown outcome; the others wait");

    asker.now.mono_us += 2 * BEHIND_US_MAX;
    let mut owner = Owner::with_epoch(&mut asker, 2);
    let mut stored = 0;
    for _ in 0..COUNT {
        asker.exchange.end_turn(asker.now);
        asker.exchange.write_neighbours(asker.now, asker.poll.registry());
        let asked: Vec<u64> = owner.take().into_iter().map(|(_, tag)| tag).collect();
        if asked.is_empty() {
            break;
        }
        // Not all at once: it may be asked no more meanwhile.
        for half in asked.chunks(asked.len().div_ceil(2)) {
            owner.answer(&mut asker, half.iter().copied());
            asker.exchange.end_turn(asker.now);
        }
        let answers = asker.answers();
        assert!(answers.iter().all(|(_, answer)| answer.starts_with(b"STORED")), "{answers:?}");
        stored += answers.len() as u64;
        asker.now.mono_us += 1_000;
    }
    assert_eq!(stored, COUNT - asked);
}

/// It left for longer than a request waits, and so may the owner that follows.
#[test]
fn a_long_write_whose_time_is_over_is_not_asked_again() {
    const LONG_BYTES: usize = 1_000_000;
    const PIECE_BYTES: usize = 4096;
    let mut asker = Asker::new();
    let mut owner = Owner::of(&mut asker);
    asker.set_key(1, "key", LONG_BYTES);
    for _ in 0..50 {
        asker.exchange.write_neighbours(asker.now, asker.poll.registry());
        owner.stream.read_exact(&mut [0; PIECE_BYTES]).expect("it leaves");
        asker.now.mono_us += WAIT_US_MAX / 40;
        asker.exchange.housekeep(asker.now, asker.poll.registry());
    }
    assert_eq!(asker.answers(), []);
    drop(owner);
    asker.exchange.take_view(asker.now, &View { number: 2, ..View::default() }, asker.poll.registry());
    let answers = asker.answers();
    let is_sure = |reply: &[u8]| reply.starts_with(b"SERVER_ERROR") && !reply.starts_with(b"SERVER_ERROR outcome");
    assert!(matches!(&answers[..], [(1, reply)] if is_sure(reply)), "{answers:?}");
}

/// They wait for nodes that hang, or for memory.
#[test]
fn writes_that_an_owner_cannot_do_hold_up_no_reads() {
    let mut asker = Asker::new();
    let mut owner = Owner::of(&mut asker);
    (0..PIPELINED).for_each(|seq| asker.set_key(seq, &format!("key{seq}"), 1));
    asker.exchange.write_neighbours(asker.now, asker.poll.registry());
    assert!((owner.take().len() as u64) < PIPELINED, "it is asked no more");
    for seq in PIPELINED..2 * PIPELINED {
        asker.get_key(seq, "another");
        asker.exchange.write_neighbours(asker.now, asker.poll.registry());
        let [(Kind::Ask, tag)] = owner.take()[..] else { panic!("a read") };
        owner.answer_with(&mut asker, [tag], b"END\r\n");
        assert_eq!(asker.answers(), [(seq, b"END\r\n".to_vec())]);
    }
    // Those that wait are tried again, and what reads them is behind them.
    asker.get_key(2 * PIPELINED, "key0");
    asker.get_key(2 * PIPELINED, &format!("key{}", PIPELINED - 1));
    asker.exchange.end_turn(asker.now);
    asker.exchange.write_neighbours(asker.now, asker.poll.registry());
    assert_eq!(owner.take(), []);
}

#[test]
fn reads_that_wait_for_an_owner_stay_behind_their_own_writes_alone() {
    let mut asker = Asker::new();
    asker.get_key(0, "key");
    asker.set_key(1, "key", 1);
    asker.get_key(2, "key");
    asker.get_key(3, "another");
    let mut owner = Owner::of(&mut asker);
    let mut step = |asker: &mut Asker, answer: &[u8]| {
        asker.exchange.end_turn(asker.now);
        asker.exchange.write_neighbours(asker.now, asker.poll.registry());
        let asked: Vec<u64> = owner.take().into_iter().map(|(_, tag)| tag).collect();
        owner.answer_with(asker, asked, answer);
        let mut answered: Vec<u64> = asker.answers().into_iter().map(|(seq, _)| seq).collect();
        answered.sort_unstable();
        answered
    };
    assert_eq!(step(&mut asker, b"END\r\n"), [0, 3]);
    assert_eq!(step(&mut asker, b"STORED\r\n"), [1]);
    assert_eq!(step(&mut asker, b"END\r\n"), [2]);
}

/// It becomes the owner between two reads of a key; by the time the first one is asked again somebody wrote.
#[test]
fn reads_that_an_owner_answers_in_another_order_are_asked_again() {
    let mut asker = Asker::new();
    let mut owner = Owner::of(&mut asker);
    (0..2).for_each(|seq| asker.get_key(seq, "key"));
    asker.get_key(2, "another");
    asker.step();
    let [(_, first), (_, second), (_, other)] = owner.take()[..] else { panic!("three reads") };
    owner.refuse(first);
    owner.answer_with(&mut asker, [second, other], b"older\r\n");
    assert_eq!(asker.answers(), [(2, b"older\r\n".to_vec())]);
    asker.now.mono_us += WAIT_US_MAX / 2;
    asker.step();
    let again: Vec<u64> = owner.take().into_iter().map(|(_, tag)| tag).collect();
    assert_eq!(again.len(), 2, "both");
    owner.answer_with(&mut asker, again, b"newer\r\n");
    assert_eq!(asker.answers(), [0, 1].map(|seq| (seq, b"newer\r\n".to_vec())));
}

/// Nothing else need happen: of one that all clients wait for nobody hears more.
#[test]
fn who_says_that_it_is_no_owner_is_asked_again_after_a_rest() {
    let mut asker = Asker::new();
    let mut owner = Owner::of(&mut asker);
    asker.set(1);
    for (waited_us, rest_us) in [(0, 5_000), (35_000, 10_000), (1_000_000, 50_000)] {
        asker.now.mono_us += waited_us;
        asker.step();
        let [(Kind::Ask, tag)] = owner.take()[..] else { panic!("it is asked") };
        owner.refuse(tag);
        asker.read();
        asker.step();
        let over_us = asker.now.mono_us + rest_us;
        asker.now.mono_us = over_us - 1;
        asker.step();
        assert_eq!((asker.exchange.poll_deadline(), owner.take()), (Some(over_us), vec![]));
        asker.now.mono_us = over_us;
    }
    asker.step();
    let [(Kind::Ask, tag)] = owner.take()[..] else { panic!("it is asked again") };
    assert_eq!(asker.exchange.poll_deadline(), None);
    owner.answer(&mut asker, [tag]);
    assert_eq!(asker.answers(), [(1, b"STORED\r\n".to_vec())]);
}

/// What the one before gave back rests for that one alone.
#[test]
fn another_owner_is_asked_at_once() {
    let mut asker = Asker::new();
    let mut owner = Owner::of(&mut asker);
    asker.set(1);
    asker.step();
    let [(Kind::Ask, tag)] = owner.take()[..] else { panic!("it is asked") };
    owner.refuse(tag);
    asker.read();
    asker.step();
    assert_eq!(owner.take(), []);
    let mut heir = Owner::with_epoch(&mut asker, 2);
    asker.step();
    let [(Kind::Ask, tag)] = heir.take()[..] else { panic!("it is asked, without a rest") };
    heir.answer(&mut asker, [tag]);
    assert_eq!(asker.answers(), [(1, b"STORED\r\n".to_vec())]);
}

/// It may be about to: it is taking over, or its machine stands still.
#[test]
fn an_owner_that_answers_nothing_is_waited_for() {
    const COUNT: u64 = 1_000;
    let mut asker = Asker::new();
    let mut owner = Owner::of(&mut asker);
    (0..COUNT).for_each(|seq| asker.set_key(seq, &format!("key{seq}"), 1));
    for _ in 0..40 {
        assert_eq!(asker.answers(), []);
        asker.exchange.write_neighbours(asker.now, asker.poll.registry());
        asker.exchange.end_turn(asker.now);
        asker.now.mono_us += WAIT_US_MAX / 40;
        asker.exchange.housekeep(Now { mono_us: asker.now.mono_us - 1, ..asker.now }, asker.poll.registry());
    }
    let asked = owner.take().len() as u64;
    asker.exchange.housekeep(asker.now, asker.poll.registry());
    let answers = asker.answers();
    let unknown = answers.iter().filter(|(_, answer)| answer.starts_with(b"SERVER_ERROR outcome unknown")).count();
    assert_eq!((answers.len() as u64, unknown as u64), (COUNT, asked), "the rest is not done for sure");
}

/// Its own gateway has room for it, perhaps, and a client that would wait.
#[test]
fn what_another_gateway_asks_is_given_back_where_too_much_waits() {
    let mut asker = Asker::among(WaitingTotal::full());
    let token = Token { connection: 1, id: RequestId { seq: 0, part: 0 } };
    let ask = Ask { partition: 0, epoch: 0, request: asker.set_request("key", 1) };
    asker.exchange.ask_as_guest(asker.now, token, ask);
    assert_eq!(asker.exchange.poll_answer(asker.now), Some((token, None)));
    asker.set(1);
    let answers = asker.answers();
    assert!(matches!(&answers[..], [(1, reply)] if reply.starts_with(b"SERVER_ERROR overloaded")), "{answers:?}");
}
