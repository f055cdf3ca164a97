//! Neighbours that answer oddly, late or not at all, by a clock that the test turns.

use std::io::{Read, Write};

use mio::net::UnixStream;
use mio::{Events, Poll};
use shorttail_gateway::any::AnyCommand;
use shorttail_gateway::engine::Token;
use shorttail_gateway::forward::{Ask, put_reply};
use shorttail_gateway::memcached::MemcachedSession;
use shorttail_gateway::request::{KeyspaceReply, KeyspaceRequest, Request, RequestId};
use shorttail_gateway::session::{Session, Settings, Shared};
use shorttail_units::Now;

use super::*;
use crate::gateway::waiting::WAIT_US_MAX;

fn waiter(request: KeyspaceRequest, deadline_us: u64) -> Waiter {
    waiter_of(Request::Keyspace(request), deadline_us)
}

fn waiter_of(request: Request<AnyCommand>, deadline_us: u64) -> Waiter {
    let token = Token { connection: 1, id: RequestId { seq: 0, part: 0 } };
    let ask = Ask { partition: 0, epoch: 1, request };
    Waiter { token, ask, number: 1, deadline_us, asked: None, rests_until_us: 0, may_travel: true }
}

impl Neighbour {
    fn put_asked(&mut self, tag: u64, waiter: Waiter) {
        self.asked_bytes += 1;
        let lane = Lane::of(&waiter.ask);
        self.paces.entry(lane).or_default().ask(1);
        let until_us = waiter.deadline_us;
        self.asked.insert(tag, Asked { waiter: Some(waiter), until_us, lane, weight: 1, at: 0, bytes: 1 });
    }
}

const HUNG: u16 = 3;
const VALUE_BYTES: usize = 256 << 10;

/// A write with a value.
fn write(deadline_us: u64) -> Waiter {
    write_of(VALUE_BYTES, deadline_us)
}

fn write_of(value_bytes: usize, deadline_us: u64) -> Waiter {
    let mut asked = Vec::new();
    let line = [format!("set key 0 0 {value_bytes}\r\n").as_bytes(), &vec![b'x'; value_bytes], b"\r\n"].concat();
    let mut sink = |_, request: Request<_>| asked.push(request.map(AnyCommand::Memcached));
    let mut session = MemcachedSession::default();
    session.handle_input(Now::default(), &mut Shared::new(Settings::default()), &line, &mut sink);
    let waiter = waiter_of(asked.pop().expect("one request"), deadline_us);
    assert!(waiter.ask.bytes() > value_bytes && waiter.ask.is_write());
    waiter
}

/// Some neighbours, of which one greeted and reads nothing, and its end of the connection.
fn hung(poll: &Poll) -> (Neighbours, UnixStream) {
    let (near, far) = UnixStream::pair().expect("a pair of sockets");
    let link = Link::new(Stream::Unix(near), token_of(HUNG), poll.registry()).expect("registered");
    let mut neighbours = Neighbours::new(Identity { cluster: ClusterId(1), gateway: 0 });
    neighbours.neighbours.insert(HUNG, Neighbour { link: Some(link), is_open: true, ..neighbour() });
    (neighbours, far)
}

/// It may be asked for much at once.
fn answered_much(neighbours: &mut Neighbours) {
    let hung = neighbours.neighbours.get_mut(&HUNG).expect("it is there");
    let pace = hung.paces.entry(Lane::of(&write(0).ask)).or_default();
    pace.ask(1 << 20);
    pace.take(1 << 20, true);
}

/// The answer to a write.
fn stored(tag: u64) -> Vec<u8> {
    let mut answer = Vec::new();
    put_reply(&mut answer, tag, &Reply::Bytes(b"STORED\r\n".to_vec()));
    answer
}

/// Asks until its socket takes no more, and how many requests that were.
fn fill(neighbours: &mut Neighbours, now_us: u64, poll: &Poll) -> usize {
    answered_much(neighbours);
    for count in 1.. {
        assert!(neighbours.ask(0, HUNG, write(u64::MAX)).is_none(), "there is room");
        assert!(neighbours.write(now_us, poll.registry()).is_empty());
        if !neighbours.neighbours[&HUNG].outbox.is_empty() {
            return count;
        }
    }
    unreachable!("a socket takes little")
}

fn neighbour() -> Neighbour {
    Neighbour::new("127.0.0.1:1".parse().expect("an address"))
}

#[test]
fn what_is_late_is_not_asked_again() {
    let mut neighbours = Neighbours::new(Identity { cluster: ClusterId(1), gateway: 0 });
    let mut asked = neighbour();
    let flush = KeyspaceRequest::flush(None);
    for (tag, (request, deadline_us)) in
        [(KeyspaceRequest::Count, 7), (KeyspaceRequest::Count, 5), (flush, 6)].into_iter().enumerate()
    {
        asked.put_asked(tag as u64, waiter(request, deadline_us));
    }
    neighbours.neighbours.insert(3, asked);
    assert!(neighbours.take_expired(4).is_empty());
    let outcomes = neighbours.take_expired(6);
    assert!(matches!(outcomes[..], [Outcome::Late(_), Outcome::Unknown(_)]), "{outcomes:?}");
}

#[test]
fn an_answer_is_waited_for_while_it_arrives() {
    let mut answer = Vec::new();
    put_reply(&mut answer, 7, &Reply::Keyspace(Ok(KeyspaceReply::Count(3))));
    let mut neighbours = Neighbours::new(Identity { cluster: ClusterId(1), gateway: 0 });
    let mut asked = neighbour();
    (6..8).for_each(|tag| asked.put_asked(tag, waiter(KeyspaceRequest::Count, 5)));
    asked.await_rest(4, &answer[..10]);
    asked.await_rest(4, &answer[..answer.len() - 1]);
    neighbours.neighbours.insert(3, asked);
    assert_eq!(neighbours.take_expired(4 + WAIT_US_MAX - 1).len(), 1, "nothing came of the other one");
    assert_eq!(neighbours.take_expired(4 + WAIT_US_MAX).len(), 1, "the rest did not come");
}

#[test]
fn a_long_write_is_waited_for_while_it_leaves() {
    const LONG_BYTES: usize = 1_000_000;
    const PIECE_BYTES: usize = 8 << 10;
    let poll = Poll::new().expect("an epoll instance");
    let (mut neighbours, mut far) = hung(&poll);
    assert!(neighbours.ask(0, HUNG, write_of(LONG_BYTES, WAIT_US_MAX)).is_none(), "there is room");
    let mut now_us = 0;
    while !neighbours.neighbours[&HUNG].outbox.is_empty() {
        neighbours.write(now_us, poll.registry());
        assert!(neighbours.take_expired(now_us).is_empty(), "{now_us}");
        let mut taken_bytes = 0;
        while taken_bytes < PIECE_BYTES
            && let Ok(count) = far.read(&mut [0; 4096])
        {
            taken_bytes += count;
        }
        now_us += WAIT_US_MAX / 40;
    }
    assert!(now_us > WAIT_US_MAX + WAIT_US_MAX / 4, "{now_us}");
    assert!(neighbours.take_expired(now_us + WAIT_US_MAX / 2).is_empty(), "it has a while for the answer");
    let outcomes = neighbours.take_expired(now_us + WAIT_US_MAX);
    assert!(matches!(outcomes[..], [Outcome::Unknown(_)]), "{outcomes:?}");
}

#[test]
fn what_waits_for_one_that_stands_still_is_bounded() {
    let poll = Poll::new().expect("an epoll instance");
    let (mut neighbours, _far) = hung(&poll);
    answered_much(&mut neighbours);
    let bytes_max = NEIGHBOUR_OUTBOX_BYTES_MAX + 2 * VALUE_BYTES;
    while neighbours.ask(0, HUNG, write(WAIT_US_MAX)).is_none() {
        let waiting_bytes = neighbours.neighbours[&HUNG].unsent_bytes();
        assert!(waiting_bytes <= bytes_max, "{waiting_bytes} bytes wait");
    }
    let asked = neighbours.neighbours[&HUNG].asked.len();
    assert!(asked > 1);
    let over = neighbours.take_expired(WAIT_US_MAX);
    assert!(over.iter().all(|outcome| matches!(outcome, Outcome::Unknown(_))), "{over:?}");
    assert_eq!(over.len(), asked);
    assert!(neighbours.take_expired(WAIT_US_MAX).is_empty(), "once");
    // What was taken of it has room there, and is not done.
    neighbours.write(WAIT_US_MAX, poll.registry());
    assert!(matches!(neighbours.ask(WAIT_US_MAX, HUNG, write(u64::MAX)), Some(NotAsked::Away(_))), "it owes answers");
    let answers: Vec<u8> = (0..asked as u64).flat_map(stored).collect();
    let mut outcomes = Vec::new();
    let hung = neighbours.neighbours.get_mut(&HUNG).expect("it is there");
    hung.take_frames(WAIT_US_MAX, &answers, &mut outcomes).expect("answers");
    assert_eq!((outcomes.len(), hung.asked_bytes), (0, 0), "nobody waits for them");
    assert!(neighbours.ask(WAIT_US_MAX, HUNG, write(u64::MAX)).is_none());
}

#[test]
fn one_that_takes_nothing_for_long_is_broken_off() {
    let poll = Poll::new().expect("an epoll instance");
    let (mut neighbours, mut far) = hung(&poll);
    let began_count = fill(&mut neighbours, 5, &poll);
    assert!(neighbours.write(6, poll.registry()).is_empty());
    let last_us = 5 + STUCK_US_MAX - 1;
    assert!(neighbours.break_stuck(last_us, poll.registry()).is_empty());
    // It takes some, if little.
    let mut taken_bytes = 0;
    while taken_bytes < VALUE_BYTES / 4 {
        taken_bytes += far.read(&mut [0; 4096]).expect("it is full");
    }
    assert!(neighbours.write(last_us, poll.registry()).is_empty());
    assert!(neighbours.break_stuck(last_us + 1, poll.registry()).is_empty());
    assert!(neighbours.ask(0, HUNG, write(u64::MAX)).is_none(), "there is room");
    assert!(neighbours.ask(0, HUNG, waiter(KeyspaceRequest::Count, u64::MAX)).is_none());
    let mut outcomes = neighbours.break_stuck(last_us + STUCK_US_MAX, poll.registry());
    let rest = outcomes.split_off(began_count - 1);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Unknown(_))), "they have left: {outcomes:?}");
    assert!(matches!(rest[..], [Outcome::Again(_), Outcome::Again(_), Outcome::Again(_)]), "{rest:?}");
    let hung = &neighbours.neighbours[&HUNG];
    assert!(hung.link.is_none() && hung.outbox.is_empty() && !hung.is_open);
    assert!(neighbours.break_stuck(u64::MAX, poll.registry()).is_empty(), "once");
}

/// The other gateway cannot have done it. What has left of it stays at the front of the outbox meanwhile.
#[test]
fn a_write_of_which_part_is_left_is_asked_again_and_one_that_has_left_is_not() {
    const LONG_BYTES: usize = 1_000_000;
    let poll = Poll::new().expect("an epoll instance");
    let (mut neighbours, _far) = hung(&poll);
    assert!(neighbours.ask(0, HUNG, write_of(1_000, WAIT_US_MAX)).is_none(), "there is room");
    assert!(neighbours.ask(0, HUNG, write_of(LONG_BYTES, WAIT_US_MAX)).is_none(), "there is room");
    assert!(neighbours.write(5, poll.registry()).is_empty());
    let hung = &neighbours.neighbours[&HUNG];
    assert!(hung.unsent_bytes() < hung.outbox.len(), "less than half of it has left");
    let outcomes = neighbours.break_stuck(5 + STUCK_US_MAX, poll.registry());
    let [Outcome::Unknown(_), Outcome::Again(again)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(again.ask.bytes() > LONG_BYTES, "all of it is asked again");
    assert_eq!(again.deadline_us, WAIT_US_MAX, "it waits since it came");
}

#[test]
fn a_write_has_left_with_its_last_byte() {
    let poll = Poll::new().expect("an epoll instance");
    for (left_bytes, is_done) in [(0, true), (1, false)] {
        let (mut neighbours, _far) = hung(&poll);
        assert!(neighbours.ask(0, HUNG, write_of(1_000, u64::MAX)).is_none(), "there is room");
        let hung = neighbours.neighbours.get_mut(&HUNG).expect("it is there");
        hung.outbox.drain(..hung.outbox.len() - left_bytes);
        let outcomes = neighbours.break_off(HUNG, poll.registry());
        let is_unknown = matches!(outcomes[..], [Outcome::Unknown(_)]);
        assert_eq!(is_unknown, is_done, "{outcomes:?}");
    }
}

#[test]
fn one_that_takes_all_is_not_broken_off() {
    let poll = Poll::new().expect("an epoll instance");
    let (mut neighbours, mut far) = hung(&poll);
    fill(&mut neighbours, 0, &poll);
    for now_us in 1.. {
        neighbours.write(now_us, poll.registry());
        if neighbours.neighbours[&HUNG].outbox.is_empty() {
            break;
        }
        while far.read(&mut [0; 4096]).is_ok() {}
    }
    assert!(neighbours.break_stuck(u64::MAX, poll.registry()).is_empty());
}

/// It is tried again every half second.
#[test]
fn that_another_gateway_refuses_this_one_is_said_once_in_a_while() {
    let mut neighbour = neighbour();
    let refusal = Refusal::OtherCluster(9);
    let told = [0, REFUSAL_TOLD_EVERY_US - 1, REFUSAL_TOLD_EVERY_US].map(|now_us| {
        neighbour.tell_refusal(now_us, 1, &refusal);
        neighbour.refusal_saying.said_us
    });
    assert_eq!(told, [0, 0, REFUSAL_TOLD_EVERY_US].map(Some));
}

#[test]
fn an_answer_that_was_hurt_on_its_way_ends_the_connection_and_is_counted() {
    let mut poll = Poll::new().expect("an epoll instance");
    let (mut neighbours, mut far) = hung(&poll);
    let mut answer = stored(7);
    *answer.last_mut().expect("a byte") ^= 4;
    far.write_all(&answer).expect("it takes a little");
    let mut events = Events::with_capacity(4);
    poll.poll(&mut events, None).expect("polled");
    let event = events.iter().next().expect("there is something to read");
    neighbours.read(0, HUNG, event, &mut [0; 4096], poll.registry());
    assert_eq!(neighbours.hurt_total, 1);
    assert_eq!(far.read(&mut [0; 16]).expect("closed"), 0);
}

#[test]
fn an_answer_to_something_else_ends_the_connection() {
    let mut neighbour = neighbour();
    neighbour.put_asked(7, waiter(KeyspaceRequest::Count, 5));
    let mut answered = |reply: Reply| {
        let (mut input, mut outcomes) = (Vec::new(), Vec::new());
        put_reply(&mut input, 7, &reply);
        neighbour.take_frames(0, &input, &mut outcomes).map(|_| outcomes.len())
    };
    let wrong = [
        Reply::Bytes(b"END".to_vec()),
        Reply::Group(Ok(true)),
        Reply::Keyspace(Ok(KeyspaceReply::Flushed)),
        Reply::Keyspace(Ok(KeyspaceReply::RandomKey(None))),
    ];
    for reply in wrong {
        assert_eq!(answered(reply), Err(Problem::Foreign(PeerError::OtherReply)));
    }
    assert_eq!(answered(Reply::Keyspace(Ok(KeyspaceReply::Count(3)))), Ok(1), "it was still asked");
    assert_eq!(answered(Reply::Group(Ok(true))), Ok(0), "nobody asked");
}
