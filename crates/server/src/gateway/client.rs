//! A client connection: its socket and the session of its protocol.

use std::io::{self, Write};

use mio::Registry;
use shorttail_gateway::any::AnyCommand;
use shorttail_gateway::memcached::MemcachedSession;
use shorttail_gateway::redis::RedisSession;
use shorttail_gateway::request::{Reply, Request, RequestId};
use shorttail_gateway::session::{Session, Shared};
use shorttail_units::Now;

use super::backlog::{Backlog, BacklogRoom};
use crate::net::{Link, Stream, drop_sent};

/// The client is told why it is not served, if it listens, and let go.
pub fn let_go(mut stream: Stream, why: &str) {
    // Best effort: the connection is closed either way.
    let _ = stream.write(format!("{why}\r\n").as_bytes());
}

pub struct Client {
    pub link: Link,
    pub session: ClientSession,
    /// Bytes at the front of the session's output that have left.
    pub sent: usize,
    /// Replies that left the session and did not leave yet.
    pub backlog: Backlog,
    /// Monotonic time at which it last sent something, or took something that it was sent, in microseconds.
    pub heard_us: u64,
    /// Parts of requests that are not answered.
    pub in_flight: usize,
    /// More input may be in the socket.
    pub has_unread: bool,
    /// It is among those that are read next, or that wait for room.
    pub is_queued: bool,
    /// Since it was read last, something came that its session may have waited for.
    pub may_go_on: bool,
    /// The other end sends no more: closed once everything is answered.
    pub is_half_closed: bool,
    /// It is among those that are looked at when the turn ends.
    pub is_dirty: bool,
}

pub enum ClientSession {
    Memcached(Box<MemcachedSession>),
    Redis(Box<RedisSession>),
}

impl Client {
    /// Bytes of what it sent that nobody was asked for.
    pub fn held_bytes(&self) -> usize {
        self.link.input.len() + self.session.kept_bytes()
    }

    /// Bytes of replies that wait for its socket.
    pub fn output_bytes(&mut self) -> usize {
        self.backlog.bytes() + self.session.output().len() - self.sent
    }

    /// Has nothing been heard of it since then, although it waits for nothing?
    pub fn is_idle(&self, since_us: u64) -> bool {
        self.waits_for_nothing() && self.heard_us < since_us
    }

    /// Neither for a reply, nor for its turn to be read.
    pub fn waits_for_nothing(&self) -> bool {
        self.in_flight == 0 && !self.is_queued
    }

    /// Would reading it bring anything on?
    pub fn wants_turn(&self) -> bool {
        let has_input = !self.link.input.is_empty() && !self.session.wants_input();
        self.may_go_on && (self.has_unread || has_input || self.session.has_more())
    }

    /// Sends what the socket takes.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&mut self, now_us: u64, room: &mut BacklogRoom, registry: &Registry) -> io::Result<()> {
        let before = self.output_bytes();
        let result = self.send_some(room, registry);
        if self.output_bytes() < before {
            self.heard_us = now_us;
        }
        result
    }

    fn send_some(&mut self, room: &mut BacklogRoom, registry: &Registry) -> io::Result<()> {
        let link = &mut self.link;
        self.backlog.send(room, |piece| link.send(piece, registry))?;
        let output = self.session.output();
        if self.backlog.bytes() == 0 && !output.is_empty() {
            self.sent += link.send(&output[self.sent..], registry)?;
            drop_sent(output, &mut self.sent);
        }
        Ok(())
    }

    /// What the socket did not take is put aside, if there is room: the session goes on then.
    ///
    /// A client of memcached waits until it is read, as in memcached, which reads nothing while it has something to
    /// send. `number`: by which it is known where there is no room.
    pub fn put_aside(&mut self, number: u64, room: &mut BacklogRoom) -> bool {
        if matches!(self.session, ClientSession::Memcached(_)) || self.session.output().len() == self.sent {
            return false;
        }
        if !self.backlog.take(self.session.output(), self.sent, room) {
            room.wait(number);
            return false;
        }
        self.sent = 0;
        true
    }
}

macro_rules! either {
    ($self:ident, $session:ident => $call:expr) => {
        match $self {
            ClientSession::Memcached($session) => $call,
            ClientSession::Redis($session) => $call,
        }
    };
}

impl ClientSession {
    pub fn handle_input(
        &mut self,
        now: Now,
        shared: &mut Shared,
        input: &[u8],
        sink: &mut impl FnMut(RequestId, Request<AnyCommand>),
    ) -> usize {
        either!(self, session => {
            session.handle_input(now, shared, input, &mut |id, request: Request<_>| {
                sink(id, request.map(AnyCommand::from));
            })
        })
    }

    /// Lets the session consume all it can: it stops after one request that it must see the reply of, or when too much
    /// is in flight, and then consumes nothing.
    pub fn handle_all(
        &mut self,
        now: Now,
        shared: &mut Shared,
        input: &[u8],
        mut sink: impl FnMut(RequestId, Request<AnyCommand>),
    ) -> usize {
        let mut consumed = 0;
        loop {
            let step = self.handle_input(now, shared, &input[consumed..], &mut sink);
            consumed += step;
            if step == 0 || consumed == input.len() {
                return consumed;
            }
        }
    }

    pub fn handle_reply(
        &mut self,
        now: Now,
        shared: &mut Shared,
        id: RequestId,
        reply: Reply,
        mut sink: impl FnMut(RequestId, Request<AnyCommand>),
    ) {
        either!(self, session => {
            session.handle_reply(now, shared, id, reply, &mut |id, request: Request<_>| {
                sink(id, request.map(AnyCommand::from));
            });
        });
    }

    pub fn resume(&mut self, mut sink: impl FnMut(RequestId, Request<AnyCommand>)) -> bool {
        either!(self, session => {
            session.resume(&mut |id, request: Request<_>| {
                sink(id, request.map(AnyCommand::from));
            })
        })
    }

    pub fn output(&mut self) -> &mut Vec<u8> {
        either!(self, session => session.output())
    }

    pub fn closing(&self) -> bool {
        either!(self, session => session.closing())
    }

    pub fn waits_for_room(&self) -> bool {
        either!(self, session => session.waits_for_room())
    }

    pub fn has_more(&self) -> bool {
        either!(self, session => session.has_more())
    }

    pub fn wants_input(&self) -> bool {
        either!(self, session => session.wants_input())
    }

    pub fn kept_bytes(&self) -> usize {
        either!(self, session => session.kept_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use mio::net::UnixStream;
    use mio::{Poll, Token};
    use shorttail_gateway::session::Settings;

    use super::*;

    #[test]
    fn who_waits_for_a_reply_or_takes_one_is_not_idle() {
        let poll = Poll::new().expect("an epoll instance");
        let (near, mut far) = UnixStream::pair().expect("a pair of sockets");
        let link = Link::new(Stream::Unix(near), Token(0), poll.registry()).expect("registered");
        let shared = Shared::new(Settings::default());
        let session = RedisSession::new(String::new(), String::new(), Now::default(), &shared);
        let mut client = Client {
            link,
            session: ClientSession::Redis(Box::new(session)),
            sent: 0,
            backlog: Backlog::default(),
            heard_us: 5,
            in_flight: 1,
            has_unread: false,
            is_queued: false,
            may_go_on: false,
            is_half_closed: false,
            is_dirty: false,
        };
        assert!(!client.is_idle(6), "it waits for a reply");
        client.in_flight = 0;
        assert!(client.is_idle(6) && !client.is_idle(5));

        client.session.output().resize(8 << 20, 0);
        let mut room = BacklogRoom::of_core(1);
        let mut send = |client: &mut Client, now_us| {
            client.send(now_us, &mut room, poll.registry()).expect("it is there");
            client.heard_us
        };
        assert_eq!([send(&mut client, 10), send(&mut client, 20)], [10, 10], "its socket took some, and then nothing");
        far.read_exact(&mut vec![0; 64 << 10]).expect("what was sent");
        assert_eq!(send(&mut client, 30), 30);
        assert!(!client.is_idle(30) && client.is_idle(31));
    }
}
