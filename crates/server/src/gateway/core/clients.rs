//! Client connections of a core: accepted and dealt out, read while their sessions keep up, written once a turn.
//!
//! ```text
//! accept --> serve --> read_client --> session --> exchange
//!              ^                          |           |
//!   dealt out by core 0    write_clients <--- handle_reply
//! ```
//!
//! A session that leaves input, because it waits for a reply or too much is in flight, is shown it again when one of
//! its replies came or the client took some of its output, or some was put aside (see `backlog`). Where it leaves the beginning of a request, it is given more.
//!
//! Must not know: what clients ask, who owns it, nodes, other gateways.

use std::sync::atomic::Ordering;

use mio::Token as MioToken;
use shorttail_gateway::engine::Token;
use shorttail_gateway::memcached::MemcachedSession;
use shorttail_gateway::redis::RedisSession;
use shorttail_gateway::request::Reply;

use super::{Core, ToCore};
use crate::gateway::backlog::Backlog;
use crate::gateway::client::{Client, ClientSession, Protocol, let_go};
use crate::net::{Link, OtherEnd, ReadEnd, Stream};

/// Input that a client may have waiting while its session wants none.
const INPUT_BYTES_MAX: usize = 512 << 10;

impl Core {
    pub(super) fn accept(&mut self, listener: usize) {
        let now_us = self.now.mono_us;
        while let Some((accepting, protocol)) = self.listeners.get_mut(listener) {
            let protocol = *protocol;
            let stream = accepting.next(now_us, |listener| listener.accept(OtherEnd::Client));
            let Some(stream) = stream else { return };
            if self.totals.connections.load(Ordering::Relaxed) >= self.shared.settings.connection_count_max {
                self.totals.connections_rejected.fetch_add(1, Ordering::Relaxed);
                let why = match protocol {
                    Protocol::Memcached => "ERROR Too many open connections",
                    Protocol::Redis => "-ERR max number of clients reached",
                };
                let_go(stream, why);
                continue;
            }
            self.totals.connections.fetch_add(1, Ordering::Relaxed);
            let count = self.totals.connections_total.fetch_add(1, Ordering::Relaxed) as usize;
            let core = count % self.exchange.core_count();
            if core == self.core {
                self.serve(stream, protocol);
            } else {
                self.exchange.core(core).send(ToCore::Client { stream, protocol });
            }
        }
    }

    /// Those whom the system refused: no event tells of them any more.
    pub(super) fn accept_again(&mut self) {
        let now_us = self.now.mono_us;
        for place in 0..self.listeners.len() {
            if self.listeners[place].0.is_due(now_us) {
                self.accept(place);
            }
        }
        if self.forward.as_ref().is_some_and(|forward| forward.is_due(now_us)) {
            self.accept_guests();
        }
    }

    pub(super) fn serve(&mut self, stream: Stream, protocol: Protocol) {
        let number = self.next_client;
        self.next_client += 1;
        let (peer, local) = (stream.peer(), stream.local());
        let Ok(link) = Link::new(stream, MioToken(number as usize), self.poll.registry()) else {
            self.totals.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        };
        let session = match protocol {
            Protocol::Memcached => {
                let family = if peer.starts_with("unix:") { "unix" } else { "tcp" };
                let local = format!("{family}:{local}");
                ClientSession::Memcached(Box::new(MemcachedSession::new(peer, local, self.now, &self.shared)))
            }
            Protocol::Redis => {
                let peer = peer.trim_start_matches("tcp:").to_owned();
                ClientSession::Redis(Box::new(RedisSession::new(peer, local, self.now, &self.shared)))
            }
        };
        let client = Client {
            link,
            session,
            sent: 0,
            backlog: Backlog::default(),
            heard_us: self.now.mono_us,
            in_flight: 0,
            has_unread: false,
            is_half_closed: false,
            is_dirty: false,
        };
        self.clients.insert(number, client);
        self.read_client(number);
    }

    pub(super) fn read_client(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        client.mark(number, &mut self.dirty);
        let now = self.now;
        client.heard_us = now.mono_us;
        if client.is_overfull() {
            client.has_unread = true;
            return;
        }
        let (session, in_flight) = (&mut client.session, &mut client.in_flight);
        let (shared, exchange) = (&mut self.shared, &mut self.exchange);
        let mut bytes_read = 0;
        let waiting = client.link.input.len();
        let end = client.link.read(&mut self.scratch, |input| {
            bytes_read = input.len() - waiting;
            session.handle_all(now, shared, input, |id, request| {
                *in_flight += 1;
                exchange.ask(now, Token { connection: number, id }, request);
            })
        });
        self.shared.counters.bytes_read += bytes_read as u64;
        client.has_unread = end == ReadEnd::Paused;
        match end {
            ReadEnd::Closed => client.is_half_closed = true,
            ReadEnd::Paused => self.unread.push(number),
            ReadEnd::Drained => {}
        }
    }

    /// The reply to a request of a client, which may have left.
    pub(super) fn take_reply(&mut self, token: Token, reply: Reply) {
        let number = token.connection;
        let Some(client) = self.clients.get_mut(&number) else { return };
        client.mark(number, &mut self.dirty);
        let (shared, exchange) = (&mut self.shared, &mut self.exchange);
        let in_flight = &mut client.in_flight;
        *in_flight -= 1;
        client.session.handle_reply(self.now, shared, token.id, reply, |id, request| {
            *in_flight += 1;
            exchange.ask(self.now, Token { connection: number, id }, request);
        });
    }

    /// Input that a session left because too much was in flight is looked at again.
    fn resume_input(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        if !client.link.input.is_empty() {
            let (shared, exchange, now) = (&mut self.shared, &mut self.exchange, self.now);
            let (session, in_flight) = (&mut client.session, &mut client.in_flight);
            let input = std::mem::take(&mut client.link.input);
            let consumed = session.handle_all(now, shared, &input, |id, request| {
                *in_flight += 1;
                exchange.ask(now, Token { connection: number, id }, request);
            });
            client.link.input = input;
            client.link.drop_consumed(consumed);
            if consumed > 0 && !self.unread.contains(&number) {
                self.unread.push(number);
            }
        }
        if client.has_unread && !client.is_overfull() && !self.unread.contains(&number) {
            self.unread.push(number);
        }
    }

    /// The client took some of its output, or it was put aside: what waited for that goes on in the next turn.
    fn resume_client(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let (exchange, now, in_flight) = (&mut self.exchange, self.now, &mut client.in_flight);
        let has_asked = client.session.resume(|id, request| {
            *in_flight += 1;
            exchange.ask(now, Token { connection: number, id }, request);
        });
        if has_asked && !self.unread.contains(&number) {
            self.unread.push(number);
        } else if !client.link.input.is_empty() {
            self.resume_input(number);
        }
    }

    pub(super) fn write_clients(&mut self) {
        let count = self.dirty.len();
        for place in 0..count {
            let number = self.dirty[place];
            self.resume_input(number);
            let Some(client) = self.clients.get_mut(&number) else { continue };
            client.is_dirty = false;
            let before = client.output_bytes();
            let result = client.send(self.now.mono_us, &mut self.backlog_room, self.poll.registry());
            let left = client.output_bytes();
            self.shared.counters.bytes_written += (before - left) as u64;
            let is_put_aside = client.put_aside(&mut self.backlog_room);
            if result.is_ok() && (left < before || is_put_aside) {
                self.resume_client(number);
            }
            let Some(client) = self.clients.get_mut(&number) else { continue };
            let is_over = client.session.closing() || client.is_half_closed && client.in_flight == 0;
            if result.is_err() || is_over && client.output_bytes() == 0 {
                self.drop_client(number);
            }
        }
        self.dirty.drain(..count);
    }

    fn drop_client(&mut self, number: u64) {
        if let Some(mut client) = self.clients.remove(&number) {
            client.link.close(self.poll.registry());
            client.backlog.clear(&mut self.backlog_room);
            self.totals.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn drop_idle_clients(&mut self) {
        let timeout_us = self.shared.settings.idle_timeout_s * 1_000_000;
        if timeout_us == 0 {
            return;
        }
        let before_us = self.now.mono_us.saturating_sub(timeout_us);
        let idle: Vec<_> =
            self.clients.iter().filter(|(_, client)| client.is_idle(before_us)).map(|(&number, _)| number).collect();
        self.shared.counters.idle_kicks += idle.len() as u64;
        idle.into_iter().for_each(|number| self.drop_client(number));
    }
}

impl Client {
    /// Its output is to be looked at when the turn ends.
    pub(super) fn mark(&mut self, number: u64, dirty: &mut Vec<u64>) {
        if !std::mem::replace(&mut self.is_dirty, true) {
            dirty.push(number);
        }
    }

    /// Too much is waiting: the client does not read its replies, or sends faster than is served.
    fn is_overfull(&self) -> bool {
        // A request that is not whole may go on: how long it may get is the session's to bound.
        self.link.input.len() >= INPUT_BYTES_MAX && !self.session.wants_input()
    }
}
