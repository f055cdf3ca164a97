//! Client connections of a core: accepted and dealt out, read while their sessions keep up, written once a turn.
//!
//! ```text
//! accept --> serve --> read_client --> session --> exchange
//!              ^              ^           |           |
//!   dealt out by core 0        |  write_clients <--- handle_reply
//!   who sent something --------'-------'
//! ```
//!
//! Those that have something to say are read one after the other, in each turn for a bounded time (see `reading`). So
//! no turn gets long because many clients send much, and what was asked is answered in between. What is long waits
//! while clients store too much together, in the order in which it came. Who holds much of a request is read on while
//! there is room for it (see `input_room`).
//!
//! A session that leaves input, because it waits for a reply or too much is in flight, is shown it again when one of
//! its replies came or the client took some of its output, or some was put aside (see `backlog`). Where it leaves the
//! beginning of a request, it is given more.
//!
//! Must not know: what clients ask, who owns it, nodes, other gateways.

use std::sync::atomic::Ordering;

use mio::Token as MioToken;
use shorttail_gateway::engine::Token;
use shorttail_gateway::memcached::MemcachedSession;
use shorttail_gateway::redis::RedisSession;
use shorttail_gateway::request::Reply;
use shorttail_gateway::roster::ClientProtocol;
use shorttail_units::Now;

use super::reading::ReadQueue;
use super::{Core, ToCore};
use crate::gateway::backlog::Backlog;
use crate::gateway::client::{Client, ClientSession, let_go};
use crate::gateway::limits::ACCEPTED_PER_TURN;
use crate::net::{Link, OtherEnd, ReadEnd, Stream};

/// Input that a client may have waiting while its session wants none.
const INPUT_BYTES_MAX: usize = 512 << 10;

impl Core {
    fn accept(&mut self, listener: usize) {
        let now_us = self.now.mono_us;
        for _ in 0..ACCEPTED_PER_TURN {
            let (accepting, protocol) = &mut self.listeners[listener];
            let protocol = *protocol;
            let stream = accepting.next(now_us, |listener| listener.accept(OtherEnd::Client));
            let Some(stream) = stream else { return };
            if self.totals.connections.load(Ordering::Relaxed) >= self.shared.settings.connection_count_max {
                self.totals.connections_rejected.fetch_add(1, Ordering::Relaxed);
                let why = match protocol {
                    ClientProtocol::Memcached => "ERROR Too many open connections",
                    ClientProtocol::Redis => "-ERR max number of clients reached",
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

    /// Those who came, those whom the last turn left, and those whom the system refused: no event tells of these.
    pub(super) fn accept_due(&mut self) {
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

    pub(super) fn serve(&mut self, stream: Stream, protocol: ClientProtocol) {
        let number = self.next_client;
        self.next_client += 1;
        let (peer, local) = (stream.peer(), stream.local());
        let Ok(link) = Link::new(stream, MioToken(number as usize), self.poll.registry()) else {
            self.totals.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        };
        let session = match protocol {
            ClientProtocol::Memcached => {
                let family = if peer.starts_with("unix:") { "unix" } else { "tcp" };
                let local = format!("{family}:{local}");
                ClientSession::Memcached(Box::new(MemcachedSession::new(peer, local, self.now, &self.shared)))
            }
            ClientProtocol::Redis => {
                let peer = peer.trim_start_matches("tcp:").to_owned();
                ClientSession::Redis(Box::new(RedisSession::new(peer, local, self.now, &self.shared)))
            }
        };
        let mut client = Client {
            link,
            session,
            sent: 0,
            backlog: Backlog::default(),
            heard_us: self.now.mono_us,
            in_flight: 0,
            has_unread: false,
            is_queued: false,
            may_go_on: false,
            is_half_closed: false,
            is_dirty: false,
        };
        client.queue(number, &mut self.unread);
        self.clients.insert(number, client);
        // Who asks how many there are is one of them.
        self.count_connections();
    }

    /// Reads those for which there is room now, and those that have something to say, other gateways among them.
    pub(super) fn read_unread(&mut self) {
        let clock = self.clock;
        if !self.without_room.is_empty() {
            self.without_room.begin_turn(clock.now().mono_us);
            while self.exchange.has_room()
                && let Some(number) = self.without_room.next(clock.now().mono_us)
            {
                self.read_client(number, true);
            }
        }
        for number in self.input_room.take_next(self.now.mono_us) {
            if let Some(client) = self.clients.get_mut(&number) {
                client.queue(number, &mut self.unread);
            }
        }
        if self.unread.is_empty() {
            return;
        }
        self.unread.begin_turn(clock.now().mono_us);
        while let Some(number) = self.unread.next(clock.now().mono_us) {
            self.read_guest(number);
            let has_room = self.without_room.is_empty() && self.exchange.has_room();
            self.read_client(number, has_room);
        }
    }

    /// `has_room`: as [`Shared::has_room`](shorttail_gateway::session::Shared::has_room).
    fn read_client(&mut self, number: u64, has_room: bool) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        client.mark(number, &mut self.dirty);
        (client.is_queued, client.may_go_on) = (false, false);
        let now = self.now;
        client.heard_us = now.mono_us;
        let (shared, exchange) = (&mut self.shared, &mut self.exchange);
        shared.has_room = has_room;
        let in_flight = &mut client.in_flight;
        let mut sink = |id, request| {
            *in_flight += 1;
            exchange.ask(now, Token { connection: number, id }, request);
        };
        let (session, link) = (&mut client.session, &mut client.link);
        // What waited for the client, or for a reply, goes before what it says now.
        if session.has_more() {
            session.resume(&mut sink);
        }
        if !link.input.is_empty() {
            let input = std::mem::take(&mut link.input);
            let consumed = session.handle_all(now, shared, &input, &mut sink);
            link.input = input;
            link.drop_consumed(consumed);
        }
        client.has_unread = true;
        let held_bytes = link.input.len() + session.kept_bytes();
        self.input_room.hold(now.mono_us, number, held_bytes, session.wants_input());
        if session.waits_for_room() {
            client.is_queued = true;
            return self.without_room.push(number);
        }
        let bytes_left = self.input_room.bytes_left(now.mono_us, number, held_bytes);
        if bytes_left == 0 || is_overfull(&link.input, session) {
            return;
        }
        let mut bytes_read = 0;
        let waiting = link.input.len();
        let end = link.read(&mut self.scratch[..bytes_left], |input| {
            bytes_read = input.len() - waiting;
            session.handle_all(now, shared, input, &mut sink)
        });
        shared.counters.bytes_read += bytes_read as u64;
        client.has_unread = end == ReadEnd::Paused;
        client.is_half_closed |= end == ReadEnd::Closed;
        self.input_room.hold(now.mono_us, number, client.held_bytes(), client.session.wants_input());
        if client.session.waits_for_room() {
            client.is_queued = true;
            self.without_room.push(number);
        } else if client.has_unread {
            client.queue(number, &mut self.unread);
        }
    }

    /// The reply to a request of a client, which may have left. `now`: as it is handed out, not as the turn began.
    pub(super) fn take_reply(&mut self, now: Now, token: Token, reply: Reply) {
        let number = token.connection;
        let Some(client) = self.clients.get_mut(&number) else { return };
        client.mark(number, &mut self.dirty);
        client.may_go_on = true;
        let (shared, exchange) = (&mut self.shared, &mut self.exchange);
        let in_flight = &mut client.in_flight;
        *in_flight -= 1;
        client.session.handle_reply(now, shared, token.id, reply, |id, request| {
            *in_flight += 1;
            exchange.ask(self.now, Token { connection: number, id }, request);
        });
    }

    pub(super) fn write_clients(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        loop {
            dirty.drain(..).for_each(|number| self.write_client(number));
            dirty.extend(self.backlog_room.take_waiting());
            if dirty.is_empty() {
                break;
            }
        }
        self.dirty = dirty;
    }

    fn write_client(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        client.is_dirty = false;
        let before = client.output_bytes();
        let result = client.send(self.now.mono_us, &mut self.backlog_room, self.poll.registry());
        let left = client.output_bytes();
        self.shared.counters.bytes_written += (before - left) as u64;
        client.may_go_on |= client.put_aside(number, &mut self.backlog_room) || left < before;
        self.input_room.hold(self.now.mono_us, number, client.held_bytes(), client.session.wants_input());
        if left < before {
            self.input_room.took(self.now.mono_us, number);
        }
        if client.wants_turn() {
            client.queue(number, &mut self.unread);
        }
        let has_ended = client.is_half_closed && client.in_flight == 0 && !client.is_queued;
        let is_over = client.session.closing() || has_ended;
        if result.is_err() || is_over && client.output_bytes() == 0 {
            self.drop_client(number);
        }
    }

    fn drop_client(&mut self, number: u64) {
        if let Some(mut client) = self.clients.remove(&number) {
            client.link.close(self.poll.registry());
            client.backlog.clear(&mut self.backlog_room);
            self.input_room.leave(number);
            self.totals.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn drop_idle_clients(&mut self) {
        let timeout_us = self.shared.settings.idle_timeout_s * 1_000_000;
        if timeout_us == 0 {
            return;
        }
        let before_us = self.now.mono_us.saturating_sub(timeout_us);
        let is_idle = |number, client: &Client| client.is_idle(before_us) && !self.input_room.waits(number);
        let idle = self.clients.iter().filter(|&(&number, client)| is_idle(number, client));
        let idle: Vec<_> = idle.map(|(&number, _)| number).collect();
        self.shared.counters.idle_kicks += idle.len() as u64;
        idle.into_iter().for_each(|number| self.drop_client(number));
    }

    /// Those that keep others waiting for room, and wait for nothing themselves.
    pub(super) fn drop_late_clients(&mut self) {
        let mut late = self.input_room.late(self.now.mono_us);
        late.retain(|number| self.clients.get(number).is_some_and(Client::waits_for_nothing));
        if late.is_empty() {
            return;
        }
        tracing::warn!(
            clients = late.len(),
            "closed: they sent, or took of their replies, next to nothing for 10 s, and others waited for their room"
        );
        self.shared.counters.late_kicks += late.len() as u64;
        late.into_iter().for_each(|number| self.drop_client(number));
    }
}

impl Client {
    /// Its output is to be looked at when the turn ends.
    pub(super) fn mark(&mut self, number: u64, dirty: &mut Vec<u64>) {
        if !std::mem::replace(&mut self.is_dirty, true) {
            dirty.push(number);
        }
    }

    /// It is to be read, in its turn.
    pub(super) fn queue(&mut self, number: u64, unread: &mut ReadQueue) {
        if !std::mem::replace(&mut self.is_queued, true) {
            unread.push(number);
        }
    }
}

/// Too much is waiting: the client does not read its replies, or sends faster than is served.
fn is_overfull(input: &[u8], session: &ClientSession) -> bool {
    // A request that is not whole may go on: how long it may get is the session's to bound.
    input.len() >= INPUT_BYTES_MAX && !session.wants_input()
}

#[cfg(test)]
mod tests;
