//! One client connection that speaks the memcached text and meta protocols.
//!
//! Life of the input (the states are [`Phase`]):
//!
//! ```text
//! First --0x80--> Closed          Line --several keys--> Keys ------> Line
//!   | \--credentials needed-->Auth  |  \--storage line--> Value ----> Line
//!   |                          |    |  \--refused value-> Skip -----> Line
//!   +----------> Line <--------+    +--quit, line too long---------> Closed
//! ```
//!
//! Everything of one connection is bounded: replies that wait, output, the length of an unfinished line, and the value
//! being received.

use shorttail_units::Now;
use shorttail_wire::memcached::{Request as Line, parse_line};

use super::auth::{Auth, AuthStep};
use super::binary;
use super::command::MemcachedCommand;
use super::limits::{GET_LINE_BYTES_MAX, LINE_BYTES_MAX, OUTPUT_BYTES_MAX, REPLY_WAITING_MAX, VALUE_BYTES_WHOLE_MAX};
use super::reply;
use super::stats::{Next, Question};
use super::store::Store;
use super::tally::Tally;
use crate::command::{Access, StoreError};
use crate::in_flight::{Fingerprint, InFlight, Kind};
use crate::large::LargeValues;
use crate::limits::SMALL_REQUEST_BYTES;
use crate::reply_queue::ReplyQueue;
use crate::request::{KeyspaceRequest, Reply, Request, RequestId};
use crate::roster::{self, Seat};
use crate::session::{RequestSink, Session, Shared};

#[derive(Debug)]
pub struct MemcachedSession {
    pub(super) phase: Phase,
    pub(super) replies: ReplyQueue,
    pub(super) in_flight: InFlight,
    large: LargeValues,
    value_bytes_max: usize,
    /// Asked of the engine about all keys; nothing is read until it is answered.
    question: Option<Question>,
    /// Bytes of an unfinished line that are known to hold no line end.
    searched_bytes: usize,
    /// Numbers the request lines, for multi-key `get`.
    pub(super) line_number: u64,
    /// Request lines that are answered with an error: their number, and the place of the first reply behind the error.
    failed_lines: Vec<(u64, u64)>,
    /// Request lines that are to be issued again, as writes, and their places.
    again: Vec<(u64, Vec<u8>)>,
    /// `-C`, as the settings say.
    cas_disabled: bool,
    /// See [`Session::wants_input`].
    wants_input: bool,
    /// See [`Session::waits_for_room`].
    waits_for_room: bool,
    /// Where others are told of it.
    seat: Option<Seat>,
}

/// What the next input byte belongs to.
#[derive(Debug)]
pub(super) enum Phase {
    First,
    Auth(Auth),
    Line,
    /// The rest of a `get` line.
    Keys(KeysLeft),
    /// The value of a storage command, whose bytes so far are in the command.
    Value {
        store: Store,
        value_bytes: usize,
    },
    /// A value that nobody wants.
    Skip {
        bytes: usize,
    },
    Closed,
}

/// Keys of a `get` line that are still to be asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeysLeft {
    pub with_cas: bool,
    pub exptime: Option<i32>,
    /// Bytes of keys and spaces left, and of the rest of the line behind them.
    pub keys_bytes: usize,
    pub end_bytes: usize,
    /// A key behind them is too long: the line is answered already.
    pub is_cut: bool,
}

/// What one step of the session did with the front of the input.
pub(super) enum Step {
    Consumed(usize),
    /// More input is needed first.
    Short,
    /// An answer is needed first.
    Blocked,
}

/// A session that `stats conns` does not tell of.
impl Default for MemcachedSession {
    fn default() -> Self {
        Self::with(None)
    }
}

impl MemcachedSession {
    /// Addresses have memcached's form (`tcp:127.0.0.1:4711`, `unix:/path`).
    pub fn new(peer: String, local: String, now: Now, shared: &Shared) -> Self {
        Self::with(Some(shared.roster.enter(roster::ClientProtocol::Memcached, peer, local, now)))
    }

    fn with(seat: Option<Seat>) -> Self {
        MemcachedSession {
            phase: Phase::First,
            replies: ReplyQueue::default(),
            in_flight: InFlight::default(),
            large: LargeValues::default(),
            value_bytes_max: 0,
            question: None,
            searched_bytes: 0,
            line_number: 0,
            failed_lines: Vec::new(),
            again: Vec::new(),
            cas_disabled: false,
            wants_input: true,
            waits_for_room: false,
            seat,
        }
    }

    fn is_full(&mut self, shared: &Shared) -> bool {
        let waiting_max = shared.settings.pipeline_count_max.clamp(1, REPLY_WAITING_MAX);
        self.question.is_some()
            || self.replies.waiting_count() >= waiting_max
            || self.replies.held_bytes() > OUTPUT_BYTES_MAX
            || self.replies.output().len() > OUTPUT_BYTES_MAX
            || !self.large.has_room()
    }

    /// A request begins.
    pub(super) fn mark(&self, now: Now) {
        if let Some(seat) = &self.seat {
            seat.mark(now, 0);
        }
    }

    /// Its place in the list of connections, if it has one.
    pub(super) fn number(&self) -> Option<u64> {
        self.seat.as_ref().map(|seat| seat.id)
    }

    /// Closes the connection once everything before is answered.
    pub(super) fn close(&mut self) {
        self.phase = Phase::Closed;
    }

    fn step(
        &mut self,
        now: Now,
        shared: &mut Shared,
        input: &[u8],
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) -> Step {
        match &mut self.phase {
            Phase::First => self.first(shared, input),
            Phase::Auth(_) => self.authenticate(shared, input),
            Phase::Line => self.line(now, shared, input, sink),
            Phase::Keys(left) => {
                let left = *left;
                self.keys(shared, left, input, sink)
            }
            Phase::Value { .. } => self.value(shared, input, sink),
            Phase::Skip { bytes } => {
                let consumed = input.len().min(*bytes);
                *bytes -= consumed;
                if *bytes == 0 {
                    self.phase = Phase::Line;
                } else if consumed == 0 {
                    return Step::Short;
                }
                Step::Consumed(consumed)
            }
            Phase::Closed => Step::Consumed(input.len()),
        }
    }

    /// Decides the protocol by the connection's first byte, as memcached does.
    fn first(&mut self, shared: &Shared, input: &[u8]) -> Step {
        self.cas_disabled = shared.settings.cas_disabled;
        self.value_bytes_max = shared.settings.value_bytes_max;
        match input.first() {
            None => return Step::Short,
            Some(&binary::REQUEST_MAGIC) => {
                let Some(header) = input.first_chunk() else { return Step::Short };
                self.replies.push(&binary::refusal(header));
                self.phase = Phase::Closed;
            }
            Some(_) if shared.settings.credentials.is_empty() => self.phase = Phase::Line,
            Some(_) => self.phase = Phase::Auth(Auth::default()),
        }
        Step::Consumed(0)
    }

    fn authenticate(&mut self, shared: &mut Shared, input: &[u8]) -> Step {
        let Phase::Auth(auth) = &mut self.phase else { return Step::Blocked };
        match auth.step(input, shared) {
            AuthStep::Wait => Step::Short,
            AuthStep::Took { consumed, line } => {
                if let Some(line) = line {
                    self.say(line);
                }
                Step::Consumed(consumed)
            }
            AuthStep::Accepted { consumed } => {
                self.say("STORED");
                self.phase = Phase::Line;
                Step::Consumed(consumed)
            }
            AuthStep::Close => {
                self.phase = Phase::Closed;
                Step::Consumed(0)
            }
        }
    }

    fn line(
        &mut self,
        now: Now,
        shared: &mut Shared,
        input: &[u8],
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) -> Step {
        let Some(found) = memchr::memchr(b'\n', &input[self.searched_bytes..]) else {
            self.searched_bytes = input.len();
            if input.len() > unfinished_line_bytes_max(input) {
                self.phase = Phase::Closed;
                return Step::Consumed(0);
            }
            return Step::Short;
        };
        let line_bytes = self.searched_bytes + found + 1;
        let step = self.handle_line(now, shared, &input[..line_bytes], sink);
        // A line that must wait is found again from where its end is.
        self.searched_bytes = if matches!(step, Step::Blocked) { line_bytes - 1 } else { 0 };
        step
    }

    /// Receives a value. Each call looks only at new bytes.
    fn value(&mut self, shared: &mut Shared, input: &[u8], sink: &mut impl RequestSink<MemcachedCommand>) -> Step {
        let Phase::Value { store, value_bytes } = &mut self.phase else { return Step::Blocked };
        let missing = *value_bytes - store.value.len();
        if input.len() < missing + 2 {
            if *value_bytes <= VALUE_BYTES_WHOLE_MAX || missing == 0 {
                return Step::Short;
            }
            let taken = input.len().min(missing);
            store.value.extend_from_slice(&input[..taken]);
            return if taken == 0 { Step::Short } else { Step::Consumed(taken) };
        }
        let well_ended = input[missing..missing + 2] == *b"\r\n";
        if well_ended && self.in_flight.blocks(Fingerprint::new(store.key.bytes(), Kind::Write)) {
            return Step::Blocked;
        }
        if well_ended && *value_bytes > SMALL_REQUEST_BYTES && !shared.has_room {
            self.waits_for_room = true;
            return Step::Blocked;
        }
        let Phase::Value { mut store, .. } = std::mem::replace(&mut self.phase, Phase::Line) else {
            return Step::Blocked;
        };
        // As in memcached, a value that does not end where it should counts too.
        shared.counters.set_commands += 1;
        if well_ended {
            store.value.extend_from_slice(&input[..missing]);
            self.finish_store(shared, store, sink);
        } else if !super::command::Verb::noreply(&store) {
            self.say("CLIENT_ERROR bad data chunk");
        }
        Step::Consumed(missing + 2)
    }

    /// Gives a command to the engine.
    pub(super) fn issue(
        &mut self,
        command: MemcachedCommand,
        fingerprint: Fingerprint,
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) {
        let mut command = self.shaped(command);
        // Alone it needs no leave.
        if self.replies.waiting_count() == 0 && self.replies.output().is_empty() {
            command.take_large();
        }
        let seq = self.replies.open();
        self.replies.time(if fingerprint.kind() == Kind::Read { Access::Read } else { Access::Write });
        self.in_flight.add(whole(seq), fingerprint, self.line_number);
        self.send(seq, command, sink);
    }

    fn send(&mut self, seq: u64, command: MemcachedCommand, sink: &mut impl RequestSink<MemcachedCommand>) {
        let id = whole(seq);
        self.large.charge(id, command.bytes_charged(self.value_bytes_max));
        sink.request(id, Request::Key(command));
    }

    /// Issues the reads again for whose values there is room.
    fn issue_large(&mut self, sink: &mut impl RequestSink<MemcachedCommand>) -> bool {
        let mut has_issued = false;
        while let Some((id, command)) = self.large.next(&mut self.replies) {
            if let Some(command) = MemcachedCommand::again(&command) {
                has_issued = true;
                sink.request(id, Request::Key(command));
            } else {
                self.large.answered(id);
                self.give_up(id.seq);
                self.issue_again(sink);
            }
        }
        has_issued
    }

    fn shaped(&self, command: MemcachedCommand) -> MemcachedCommand {
        if self.cas_disabled { MemcachedCommand::WithoutCas(Box::new(command)) } else { command }
    }

    /// Asks about all keys, once everything before it is answered; nothing behind it is read before its answer.
    pub(super) fn ask(
        &mut self,
        question: Question,
        request: KeyspaceRequest,
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) -> bool {
        if self.replies.waiting_count() > 0 {
            return false;
        }
        let seq = self.replies.open();
        self.question = Some(question);
        sink.request(whole(seq), Request::Keyspace(request));
        true
    }

    /// Issues as writes the `mg` that were only read, each once nothing before it on its key is in flight.
    fn issue_again(&mut self, sink: &mut impl RequestSink<MemcachedCommand>) {
        while let Some(place) = self.again.iter().position(|(seq, _)| !self.in_flight.is_behind(whole(*seq))) {
            let (seq, line) = self.again.remove(place);
            match parse_line(&line) {
                Ok(Line::MetaGet { key, flags }) if flags.opaque_fits() => {
                    let command = self.shaped(super::lines::meta_get(&key, flags, true));
                    self.send(seq, command, sink);
                }
                _ => self.give_up(seq),
            }
        }
    }

    /// What was to be issued again cannot be read.
    fn give_up(&mut self, seq: u64) {
        let mut reply = Vec::new();
        reply::refusal(StoreError::Unreadable, &mut reply);
        self.take_answer(seq, reply, Tally::Refused);
    }

    /// Answers a line that is known already.
    pub(super) fn say(&mut self, line: &str) {
        let mut bytes = Vec::with_capacity(line.len() + 2);
        reply::line(line, &mut bytes);
        self.replies.push(&bytes);
    }

    /// Answers a request line whose commands are done all the same: what they answer is dropped.
    pub(super) fn say_instead(&mut self, refusal: &str, line: u64) {
        self.say(refusal);
        self.note_failed(line, 0);
    }

    /// Did a key of the current `get` line fail already?
    pub(super) fn current_get_failed(&self) -> bool {
        self.failed_lines.iter().any(|&(line, _)| line == self.line_number)
    }

    /// The replies of a line from a place on are dropped.
    fn note_failed(&mut self, line: u64, from: u64) {
        let open_line = if matches!(self.phase, Phase::Keys(_)) { Some(self.line_number) } else { None };
        let goes_on = |line: u64| open_line == Some(line) || self.in_flight.has_line(line);
        self.failed_lines.retain(|&(failed, _)| failed != line && goes_on(failed));
        self.failed_lines.push((line, from));
    }

    /// Takes the reply of a command: drops it if it stands behind the error of its own line.
    fn take_answer(&mut self, seq: u64, mut bytes: Vec<u8>, tally: Tally) {
        if tally.is_refusal() {
            // Before they are forgotten with it.
            self.in_flight.answered_behind(whole(seq)).for_each(|later| self.replies.blank(later));
        }
        let line = self.in_flight.answered(whole(seq));
        if self.failed_lines.iter().any(|&(failed, from)| failed == line && from <= seq) {
            bytes.clear();
        } else if tally.is_refusal() {
            self.note_failed(line, seq + 1);
        }
        self.replies.fill(seq, bytes);
    }
}

/// The command in a place: none has several parts.
fn whole(seq: u64) -> RequestId {
    RequestId { seq, part: 0 }
}

/// How long a line may get before its end is in sight: long for those that may be a `get` of many keys.
fn unfinished_line_bytes_max(line: &[u8]) -> usize {
    let start = line.iter().position(|&byte| byte != b' ').unwrap_or(line.len());
    let is_get = start <= 100 && (line[start..].starts_with(b"get ") || line[start..].starts_with(b"gets "));
    if is_get { GET_LINE_BYTES_MAX } else { LINE_BYTES_MAX }
}

impl Session for MemcachedSession {
    type Command = MemcachedCommand;

    fn handle_input(
        &mut self,
        now: Now,
        shared: &mut Shared,
        input: &[u8],
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) -> usize {
        let mut consumed = 0;
        self.replies.set_now(now);
        (self.wants_input, self.waits_for_room) = (false, false);
        loop {
            if self.is_full(shared) {
                let yields = self.question.is_none() && consumed > 0 && consumed < input.len();
                shared.counters.connection_yields += u64::from(yields);
                break;
            }
            let ends = matches!(self.phase, Phase::Closed);
            match self.step(now, shared, &input[consumed..], sink) {
                Step::Consumed(bytes) => consumed += bytes,
                Step::Short => {
                    self.wants_input = true;
                    break;
                }
                Step::Blocked => break,
            }
            if ends {
                break;
            }
        }
        consumed
    }

    fn handle_reply(
        &mut self,
        now: Now,
        shared: &mut Shared,
        id: RequestId,
        reply: Reply,
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) {
        self.replies.set_now(now);
        let mut bytes = match reply {
            Reply::Large { value_bytes, command } => {
                self.large.wait(id, value_bytes, command);
                self.issue_large(sink);
                return;
            }
            Reply::Bytes(bytes) => bytes,
            Reply::Keyspace(answer) => {
                let question = self.question.take().expect("an answer to what was asked");
                return match question.take_answer(now, shared, answer) {
                    Next::Reply(bytes) => self.replies.fill(id.seq, bytes),
                    Next::Ask(question, request) => {
                        self.question = Some(question);
                        sink.request(id, Request::Keyspace(request));
                    }
                };
            }
            Reply::Group(_) => unreachable!("memcached clients store no groups"),
        };
        self.large.answered(id);
        let tally = Tally::take(&mut bytes);
        if tally == Tally::Again {
            self.again.push((id.seq, bytes));
            return self.issue_again(sink);
        }
        tally.count(&mut shared.counters);
        if shared.counters.prefixes.enabled {
            shared.counters.prefixes.count_hit(&bytes, shared.settings.prefix_delimiter);
        }
        self.take_answer(id.seq, bytes, tally);
        self.issue_again(sink);
        self.issue_large(sink);
        self.replies.count_ended(&mut shared.counters.latencies);
    }

    fn resume(&mut self, sink: &mut impl RequestSink<MemcachedCommand>) -> bool {
        self.issue_large(sink)
    }

    fn output(&mut self) -> &mut Vec<u8> {
        self.replies.output()
    }

    fn closing(&self) -> bool {
        matches!(self.phase, Phase::Closed) && self.replies.waiting_count() == 0
    }

    fn has_more(&self) -> bool {
        self.large.has_waiting()
    }

    fn waits_for_room(&self) -> bool {
        self.waits_for_room
    }

    fn wants_input(&self) -> bool {
        self.wants_input
    }

    fn kept_bytes(&self) -> usize {
        match &self.phase {
            Phase::Value { store, .. } => store.value.len(),
            _ => 0,
        }
    }
}
