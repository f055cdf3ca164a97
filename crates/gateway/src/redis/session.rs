//! One Redis connection: requests in, parts out to the engine, replies back in order.
//!
//! A command about all keys is a barrier: it is issued when everything before it is answered, and nothing after it
//! starts before it ends, so that a pipeline sees its own writes. A command on many keys issues its parts as room
//! allows and holds back what follows until all are issued. A write waits for reads of its key that came before it,
//! which may look again or be asked again (see [`crate::large`]), and what follows waits with it. Invariant:
//! `parts_in_flight` counts what was asked of the engine and not yet answered.
//!
//! Must not know: sockets, nodes; what commands do to keys.

use std::collections::VecDeque;

use shorttail_units::Now;
use shorttail_wire::resp::{Args, Parsed, Protocol, RequestLimits, RequestParser, encode};

use super::connection::Connection;
use super::error::{CommandError, retell_in_cluster, store_error, store_error_in_cluster};
use super::fanout::{EachKey, Gather, Unissued};
use super::handlers;
use super::key_command::{KeyCommand, Miss};
use super::keyspace::KeyspaceWork;
use super::limits;
use super::list_room::Piece;
use super::plan::Plan;
use super::replies::Replies;
use crate::command::{Access, Command, StoreError};
use crate::in_flight::{Fingerprint, InFlight, Kind};
use crate::large::LargeValues;
use crate::limits::SMALL_REQUEST_BYTES;
use crate::request::{GroupPut, KeyspaceReply, Reply, Request, RequestId};
use crate::roster;
use crate::session::{RequestSink, Session, Settings, Shared};

/// Part numbers carry what the reply needs to know where a request has one part only.
const PART_PLAIN: u32 = 0;
/// Hits and misses are counted of it; see [`Miss`].
const PART_MISS_TOLD: u32 = 1;
const PART_MISS_NOTHING: u32 = 2;
/// A group that answers with a count (MSETNX).
const PART_COUNTED: u32 = 3;

/// Session of one connection of a Redis client.
#[derive(Debug)]
pub struct RedisSession {
    connection: Connection,
    parser: RequestParser,
    replies: Replies,
    parts_in_flight: usize,
    large: LargeValues,
    /// Those that are not answered.
    reads: InFlight,
    /// A write before which such a one is still to see its key; nothing behind it is asked.
    held: Option<(RequestId, Request<KeyCommand>)>,
    value_bytes_max: usize,
    is_of_cluster: bool,
    unissued: Option<Unissued>,
    gathers: VecDeque<Gather>,
    barrier: Option<Barrier>,
    /// The last request was read; replies still go out.
    ending: bool,
    /// See [`Session::wants_input`].
    wants_input: bool,
    /// See [`Session::waits_for_room`].
    waits_for_room: bool,
    /// Where handlers write; empty between requests.
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Barrier {
    seq: u64,
    work: KeyspaceWork,
    protocol: Protocol,
    issued: bool,
    /// What is left of its reply: it leaves as the client takes it.
    rest: VecDeque<Piece>,
}

impl RedisSession {
    /// Addresses are `ip:port`, as CLIENT LIST shows them.
    pub fn new(peer: String, local: String, now: Now, shared: &Shared) -> Self {
        let seat = shared.roster.enter(roster::ClientProtocol::Redis, peer, local, now);
        RedisSession {
            connection: Connection::new(seat, &shared.settings),
            parser: RequestParser::default(),
            replies: Replies::default(),
            parts_in_flight: 0,
            large: LargeValues::default(),
            reads: InFlight::default(),
            held: None,
            value_bytes_max: shared.settings.value_bytes_max,
            is_of_cluster: shared.settings.redis_cluster.sends_clients(),
            unissued: None,
            gathers: VecDeque::new(),
            barrier: None,
            ending: false,
            wants_input: true,
            waits_for_room: false,
            scratch: Vec::new(),
        }
    }

    /// Is everything that was read also answered?
    pub fn is_at_rest(&self) -> bool {
        self.parts_in_flight == 0
            && self.replies.queue.held_bytes() == 0
            && self.held.is_none()
            && self.replies.queue.waiting_count() == 0
            && self.unissued.is_none()
            && self.gathers.is_empty()
            && self.barrier.is_none()
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.replies.queue.held_bytes()
    }

    fn has_room(&mut self) -> bool {
        self.parts_in_flight < limits::REPLIES_WAITING_MAX
            && self.held.is_none()
            && self.large.has_room()
            && self.replies.has_room()
    }

    /// Goes on with what was begun; may the next request be read?
    fn advance(&mut self, sink: &mut impl RequestSink<KeyCommand>) -> bool {
        self.go_on(sink);
        while self.parts_in_flight == 0 && self.replies.let_first_go() {
            self.go_on(sink);
        }
        self.unissued.is_none() && self.barrier.is_none() && self.has_room()
    }

    fn go_on(&mut self, sink: &mut impl RequestSink<KeyCommand>) {
        while let Some((id, command)) = self.large.next(&mut self.replies.queue) {
            self.issue_again(id, &command, sink);
        }
        if let Some((id, request)) = self.held.take_if(|(_, request)| !is_blocked(&self.reads, request)) {
            self.send(id, request, sink);
        }
        while self.unissued.is_some() && self.has_room() {
            self.issue_next(sink);
        }
        if let Some(barrier) = &mut self.barrier
            && !barrier.issued
            && self.replies.queue.waiting_count() == 1
        {
            barrier.issued = true;
            let (seq, request) = (barrier.seq, barrier.work.request(self.is_of_cluster));
            self.issue(seq, PART_PLAIN, Request::Keyspace(request), sink);
        }
        self.tell_rest();
    }

    /// Goes on with a long reply as far as there is room for it.
    fn tell_rest(&mut self) {
        let Some(barrier) = &mut self.barrier else { return };
        while self.replies.queue.output().len() < limits::OUTPUT_BYTES_MAX
            && let Some(piece) = barrier.rest.pop_front()
        {
            self.replies.queue.output().extend_from_slice(&piece);
            if barrier.rest.is_empty() {
                self.barrier = None;
                return;
            }
        }
    }

    fn issue(&mut self, seq: u64, part: u32, request: Request<KeyCommand>, sink: &mut impl RequestSink<KeyCommand>) {
        let id = RequestId { seq, part };
        if is_blocked(&self.reads, &request) {
            self.held = Some((id, request));
        } else {
            self.send(id, request, sink);
        }
    }

    fn send(&mut self, id: RequestId, mut request: Request<KeyCommand>, sink: &mut impl RequestSink<KeyCommand>) {
        let bytes = match &mut request {
            Request::Key(command) if command.access() == Access::Read => {
                self.reads.add(id, Fingerprint::new(command.key(), Kind::Read), 0);
                // Alone it needs no leave.
                if self.replies.queue.waiting_count() == 1 && self.replies.queue.output().is_empty() {
                    command.take_large();
                }
                0
            }
            Request::Key(command) => command.bytes_charged(self.value_bytes_max),
            Request::Group(group) => group_bytes(group),
            Request::Keyspace(_) => 0,
        };
        self.large.charge(id, bytes);
        self.parts_in_flight += 1;
        sink.request(id, request);
    }

    /// There is room for the value of a read.
    fn issue_again(&mut self, id: RequestId, command: &[u8], sink: &mut impl RequestSink<KeyCommand>) {
        if let Some(command) = KeyCommand::again(command) {
            self.parts_in_flight += 1;
            return sink.request(id, Request::Key(command));
        }
        let mut reply = Vec::new();
        store_error(StoreError::Unreadable).encode(&mut reply);
        self.end_read(id);
        self.fill(id.seq, reply);
    }

    fn end_read(&mut self, id: RequestId) {
        self.large.answered(id);
        self.reads.answered_if_any(id);
    }

    fn issue_next(&mut self, sink: &mut impl RequestSink<KeyCommand>) {
        let Some(unissued) = &mut self.unissued else { return };
        let (each, seq) = (unissued.each, unissued.seq);
        match unissued.take(&self.connection) {
            Some((part, command)) => self.issue_part(each, seq, part, command, sink),
            None => self.unissued = None,
        }
    }

    fn issue_part(
        &mut self,
        each: EachKey,
        seq: u64,
        part: u32,
        command: KeyCommand,
        sink: &mut impl RequestSink<KeyCommand>,
    ) {
        let (seq, part) = if each == EachKey::Get { (self.replies.open(), PART_MISS_TOLD) } else { (seq, part) };
        self.issue(seq, part, Request::Key(command), sink);
    }

    fn push(&mut self, reply: &[u8]) {
        self.replies.push(reply);
    }

    /// A request is at hand: is its reply wanted?
    fn begin_request(&mut self) {
        self.connection.begin_request();
        self.replies.is_mute = self.connection.is_mute();
    }

    /// Carries out one request.
    fn handle_request(
        &mut self,
        now: Now,
        shared: &mut Shared,
        args: Args<'_>,
        sink: &mut impl RequestSink<KeyCommand>,
    ) {
        let mut out = std::mem::take(&mut self.scratch);
        let handled = handlers::handle(args, &mut self.connection, shared, now, &mut out);
        self.replies.is_mute = self.connection.is_mute();
        match handled {
            Ok(Plan::Answered) => {
                self.push(&out);
                self.connection.tell_others();
            }
            Ok(Plan::AnsweredLast) => {
                self.push(&out);
                self.ending = true;
            }
            Ok(Plan::Key(command)) => {
                let seq = self.replies.open_timed(command.access());
                let part = match command.miss() {
                    Miss::Uncounted => PART_PLAIN,
                    Miss::Told => PART_MISS_TOLD,
                    Miss::Nothing => PART_MISS_NOTHING,
                };
                self.issue(seq, part, Request::Key(command), sink);
            }
            Ok(Plan::EachKey(each)) => self.begin_each(each, args.skip(1), sink),
            Ok(Plan::Group(group)) => self.issue_group(group, sink),
            Ok(Plan::Keyspace(work)) => {
                let protocol = self.connection.protocol;
                self.barrier =
                    Some(Barrier { seq: self.replies.open(), work, protocol, issued: false, rest: VecDeque::new() });
            }
            Err(error) => {
                out.clear();
                error.encode(&mut out);
                self.push(&out);
            }
        }
        out.clear();
        out.shrink_to(limits::SCRATCH_BYTES_KEPT);
        self.scratch = out;
    }

    fn issue_group(&mut self, group: GroupPut, sink: &mut impl RequestSink<KeyCommand>) {
        let seq = self.replies.open_timed(Access::Write);
        let part = if group.only_if_absent { PART_COUNTED } else { PART_PLAIN };
        self.issue(seq, part, Request::Group(group), sink);
    }

    fn begin_each(&mut self, each: EachKey, args: Args<'_>, sink: &mut impl RequestSink<KeyCommand>) {
        let parts = args.len() / each.stride();
        let seq = if each == EachKey::Get {
            self.replies.open_array(parts);
            0
        } else {
            let access = if each == EachKey::Exists { Access::Read } else { Access::Write };
            let seq = self.replies.open_timed(access);
            self.gathers.push_back(Gather::new(each, seq, parts));
            seq
        };
        let mut next = 0;
        let mut part = 0;
        while next < args.len() && self.has_room() {
            let value = if each == EachKey::Store { &args[next + 1] } else { &[] };
            let command = each.command(&args[next], value, &self.connection);
            self.issue_part(each, seq, part, command, sink);
            next += each.stride();
            part += 1;
        }
        if next < args.len() {
            self.unissued = Some(Unissued::new(each, seq, part, args.skip(next)));
        }
    }

    /// Takes the reply of one part of a gathered command; `false` if it belongs to no such command.
    fn gather(&mut self, shared: &mut Shared, seq: u64, bytes: &mut Vec<u8>) -> bool {
        let Ok(index) = self.gathers.binary_search_by_key(&seq, |gather| gather.seq) else { return false };
        self.gathers[index].each.miss().count(bytes, &mut shared.counters);
        if let Some(whole) = self.gathers[index].take(std::mem::take(bytes)) {
            self.gathers.remove(index);
            self.fill(seq, whole);
        }
        true
    }

    fn fill(&mut self, seq: u64, bytes: Vec<u8>) {
        self.replies.fill(seq, bytes);
    }

    fn handle_key_reply(&mut self, shared: &mut Shared, id: RequestId, mut bytes: Vec<u8>) {
        if self.is_of_cluster {
            retell_in_cluster(&mut bytes);
        }
        if !self.gathers.is_empty() && self.gather(shared, id.seq, &mut bytes) {
            return;
        }
        let miss = match id.part {
            PART_MISS_TOLD => Miss::Told,
            PART_MISS_NOTHING => Miss::Nothing,
            _ => Miss::Uncounted,
        };
        miss.count(&bytes, &mut shared.counters);
        self.fill(id.seq, bytes);
    }

    fn handle_group_reply(&mut self, id: RequestId, result: Result<bool, StoreError>) {
        let mut out = Vec::new();
        match result {
            // Of the others each pair is stored by itself then.
            Err(StoreError::TooLarge) if id.part == PART_COUNTED => CommandError::TOO_LARGE_TOGETHER.encode(&mut out),
            Err(error) if self.is_of_cluster => store_error_in_cluster(error).encode(&mut out),
            Err(error) => store_error(error).encode(&mut out),
            Ok(stored) if id.part == PART_COUNTED => encode::integer(&mut out, i64::from(stored)),
            Ok(_) => out.extend_from_slice(encode::OK),
        }
        self.fill(id.seq, out);
    }

    fn handle_keyspace_reply(&mut self, now: Now, shared: &Shared, result: Result<KeyspaceReply, StoreError>) {
        let barrier = self.barrier.as_mut().expect("only a barrier asks about all keys");
        match barrier.work.handle(result, now, shared, barrier.protocol) {
            Some(reply) => {
                let seq = barrier.seq;
                barrier.rest = barrier.work.take_rest();
                if barrier.rest.is_empty() || !self.replies.is_wanted(seq) {
                    self.barrier = None;
                }
                self.fill(seq, reply);
            }
            None => barrier.issued = false,
        }
    }
}

fn group_bytes(group: &GroupPut) -> usize {
    group.pairs.iter().map(|(_, value)| value.len()).sum()
}

/// Is a read in flight that must not see what this writes? The engine runs reads beside writes.
fn is_blocked(reads: &InFlight, request: &Request<KeyCommand>) -> bool {
    let blocks = |key: &[u8]| reads.blocks(Fingerprint::new(key, Kind::Write));
    match request {
        _ if reads.is_empty() => false,
        Request::Key(command) => command.access() == Access::Write && blocks(command.key()),
        Request::Group(group) => group.pairs.iter().any(|(key, _)| blocks(key)),
        Request::Keyspace(_) => false,
    }
}

/// A line of an HTTP request: some page makes a browser send commands. As Redis does, nothing after it is obeyed.
fn is_of_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

fn request_limits(settings: &Settings, connection: &Connection) -> RequestLimits {
    RequestLimits {
        bulk_bytes_max: settings.value_bytes_max.max(settings.key_bytes_max).max(limits::ARGUMENT_BYTES_MIN),
        request_bytes_max: settings.value_bytes_max.saturating_add(limits::REQUEST_SLACK_BYTES),
        authenticated: connection.authenticated(),
    }
}

impl Session for RedisSession {
    type Command = KeyCommand;

    fn handle_input(
        &mut self,
        now: Now,
        shared: &mut Shared,
        input: &[u8],
        sink: &mut impl RequestSink<KeyCommand>,
    ) -> usize {
        let mut consumed = 0;
        (self.wants_input, self.waits_for_room) = (false, false);
        self.replies.queue.set_now(now);
        // The parser is borrowed by the arguments while the rest of the session works.
        let mut parser = std::mem::take(&mut self.parser);
        while !self.ending && self.advance(sink) {
            let limits = request_limits(&shared.settings, &self.connection);
            match parser.parse(&input[consumed..], &limits) {
                Ok(Parsed::Request { consumed: bytes, .. }) if bytes > SMALL_REQUEST_BYTES && !shared.has_room => {
                    self.waits_for_room = true;
                    break;
                }
                Ok(Parsed::Request { args, consumed: bytes }) => {
                    consumed += bytes;
                    self.begin_request();
                    match args.get(0).is_some_and(is_of_http) {
                        true => self.ending = true,
                        false => self.handle_request(now, shared, args, sink),
                    }
                }
                Ok(Parsed::Empty { consumed: bytes }) => consumed += bytes,
                Ok(Parsed::Oversized { consumed: bytes }) => {
                    consumed += bytes;
                    shared.counters.store_too_large += 1;
                    self.begin_request();
                    let mut reply = Vec::new();
                    CommandError::TOO_LARGE.encode(&mut reply);
                    self.push(&reply);
                }
                Ok(Parsed::Incomplete { consumed: bytes }) => {
                    consumed += bytes;
                    self.wants_input = true;
                    break;
                }
                Err(error) => {
                    self.begin_request();
                    let mut reply = Vec::new();
                    error.encode(&mut reply);
                    self.push(&reply);
                    self.ending = true;
                }
            }
        }
        parser.rest();
        self.parser = parser;
        self.replies.queue.count_ended(&mut shared.counters.latencies);
        if self.ending { input.len() } else { consumed }
    }

    fn handle_reply(
        &mut self,
        now: Now,
        shared: &mut Shared,
        id: RequestId,
        reply: Reply,
        sink: &mut impl RequestSink<KeyCommand>,
    ) {
        self.parts_in_flight -= 1;
        self.replies.queue.set_now(now);
        if let Reply::Large { value_bytes, command } = reply {
            self.large.wait(id, value_bytes, command);
            self.advance(sink);
            return;
        }
        self.end_read(id);
        match reply {
            Reply::Large { .. } => unreachable!("it waits"),
            Reply::Bytes(bytes) => self.handle_key_reply(shared, id, bytes),
            Reply::Group(result) => self.handle_group_reply(id, result),
            Reply::Keyspace(result) => self.handle_keyspace_reply(now, shared, result),
        }
        self.advance(sink);
        self.replies.queue.count_ended(&mut shared.counters.latencies);
    }

    fn resume(&mut self, sink: &mut impl RequestSink<KeyCommand>) -> bool {
        let (before, output_bytes) = (self.parts_in_flight, self.output().len());
        self.advance(sink);
        // A header leaves before its elements, which wait for it: they are asked once it is sent.
        self.parts_in_flight > before || self.output().len() > output_bytes
    }

    fn output(&mut self) -> &mut Vec<u8> {
        self.replies.queue.output()
    }

    fn closing(&self) -> bool {
        self.ending && self.replies.queue.waiting_count() == 0
    }

    fn has_more(&self) -> bool {
        let has_rest = self.barrier.as_ref().is_some_and(|barrier| !barrier.rest.is_empty());
        let is_stuck = self.parts_in_flight == 0 && self.replies.has_arrays();
        has_rest || is_stuck || self.unissued.is_some() || self.large.has_waiting()
    }

    fn waits_for_room(&self) -> bool {
        self.waits_for_room
    }

    fn wants_input(&self) -> bool {
        self.wants_input
    }

    fn kept_bytes(&self) -> usize {
        let held_bytes = match &self.held {
            Some((_, Request::Key(command))) => command.bytes_charged(0),
            Some((_, Request::Group(group))) => group_bytes(group),
            _ => 0,
        };
        held_bytes + self.parser.kept_bytes() + self.unissued.as_ref().map_or(0, Unissued::bytes)
    }
}
