//! Gives chunks to other nodes that rebuild, beside the core: the core says where a chunk lies when it has nothing
//! better to do, all else is done here, where it may wait.
//!
//! ```text
//! other node                        giver                         core
//!   |--Peer, Inspect, ReadRange------>|--wanted: where is it?------>|
//!   |                    read, check: |<--found: there--------------|
//!   |<--replies, made in what was read|
//!   |                   does not hold:|--wanted: a copy------------>|
//!   |--Locate------------------------>|--wanted: where is it?------>|
//! ```
//! It answers as the core itself does ([`crate::Node`]) to a session that greets as another node. A node on the same
//! machine only asks where chunks lie, and reads them itself. Where memory is the process's alone, the core copies.
//!
//! A chunk is looked at once for an inspection and the reading that follows it.
//!
//! Must not know: sockets, threads, what the chunks are wanted for.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use shorttail_store::limits::{BLOCK_BYTES, HEADER_BYTES};
use shorttail_store::{ChunkStore, ChunkView, NearReader, read_sealed};
use shorttail_units::{OpNumber, StripeId};
use shorttail_wire::node::{
    FRAME_HEADER_BYTES, Frame, HelloReply, InspectReport, NearMemory, NodeReply, NodeRequest, Refusal, next_frame,
};

use crate::background::FromBackground;
use crate::config::NodeConfig;
use crate::limits::{GIVE_COPIES_MAX, GIVE_SESSIONS_MAX, GIVE_UNSENT_BYTES_MAX, GIVE_WAITING_MAX};
use crate::session::SessionError;

/// A chunk that the core is asked about.
#[derive(Debug)]
pub struct Wanted {
    ticket: u64,
    stripe: StripeId,
    /// Empty, for a copy. `None`: where it lies is all that is wanted.
    buffer: Option<Vec<u8>>,
}

/// What the core says of it.
#[derive(Debug)]
pub struct Found {
    ticket: u64,
    outcome: Result<Chunk, Refusal>,
}

#[derive(Debug)]
enum Chunk {
    /// Where its payload begins.
    At(u64),
    Copy(Vec<u8>),
}

impl Wanted {
    pub fn is_copy(&self) -> bool {
        self.buffer.is_some()
    }

    /// The core's part.
    pub(crate) fn find(self, store: &ChunkStore) -> Found {
        let outcome = match self.buffer {
            None => store.position(self.stripe).map(Chunk::At),
            Some(mut buffer) => store.copy_sealed(self.stripe, &mut buffer).map(|()| Chunk::Copy(buffer)),
        };
        Found { ticket: self.ticket, outcome }
    }
}

/// Requests about one chunk that are answered together.
#[derive(Debug)]
struct Asked {
    stripe: StripeId,
    /// Tags.
    locate: Option<u64>,
    inspect: Option<u64>,
    read: Option<Read>,
    /// What was read did not hold: what does the core say?
    needs_copy: bool,
}

impl Asked {
    fn new(stripe: StripeId) -> Self {
        Asked { stripe, locate: None, inspect: None, read: None, needs_copy: false }
    }

    fn tags(&self) -> impl Iterator<Item = u64> {
        [self.locate, self.inspect, self.read.map(|read| read.tag)].into_iter().flatten()
    }
}

#[derive(Clone, Copy, Debug)]
struct Read {
    tag: u64,
    offset: u32,
    length: u32,
    op: OpNumber,
}

/// Frames, from a byte of the buffer on.
#[derive(Debug)]
struct Segment {
    bytes: Vec<u8>,
    from: usize,
}

/// A session of another node's core.
#[derive(Debug, Default)]
struct Session {
    is_greeted: bool,
    asked: VecDeque<Asked>,
    output: VecDeque<Segment>,
    unsent_bytes: usize,
}

/// Gives chunks of one core to other nodes.
#[derive(Debug)]
pub struct Giver {
    config: NodeConfig,
    /// The core's memory, if it can be read beside the core, and where nodes on the same machine find it.
    memory: Option<Box<dyn NearReader>>,
    near: Option<NearMemory>,
    sessions: BTreeMap<u64, Session>,
    /// By ticket: what the core is asked for, and for whom.
    asking: BTreeMap<u64, (u64, Asked)>,
    ticket_next: u64,
    /// The session that the core was asked for last: others come first.
    served: u64,
    spare: Vec<Vec<u8>>,
    damaged: Vec<StripeId>,
    /// Messages that were hurt on their way, and not told of yet.
    pub(crate) messages_damaged: u64,
}

impl Giver {
    pub(crate) fn new(config: NodeConfig, near: Option<NearMemory>, memory: Option<Box<dyn NearReader>>) -> Self {
        Giver {
            config,
            memory,
            near,
            sessions: BTreeMap::new(),
            asking: BTreeMap::new(),
            ticket_next: 0,
            served: 0,
            spare: Vec::new(),
            damaged: Vec::new(),
            messages_damaged: 0,
        }
    }

    /// `session` is a number that no living session has. Beyond [`GIVE_SESSIONS_MAX`] its first input is an error.
    pub fn handle_session_opened(&mut self, session: u64) {
        if self.sessions.len() < GIVE_SESSIONS_MAX {
            self.sessions.insert(session, Session::default());
        }
    }

    pub fn handle_session_closed(&mut self, session: u64) {
        self.sessions.remove(&session);
    }

    /// Takes whole frames from the front of `input`; returns how many bytes they were.
    ///
    /// # Errors
    /// The caller sends the output that there is, closes the connection and says so.
    pub fn handle_input(&mut self, session: u64, input: &[u8]) -> Result<usize, SessionError> {
        let outcome = self.handle_frames(session, input);
        self.messages_damaged += u64::from(matches!(outcome, Err(SessionError::Frame(_))));
        outcome
    }

    fn handle_frames(&mut self, session: u64, input: &[u8]) -> Result<usize, SessionError> {
        let (config, near, spare) = (&self.config, &self.near, &mut self.spare);
        let held = self.sessions.get_mut(&session).ok_or(SessionError::Ended)?;
        let mut consumed = 0;
        while let Some((frame, length)) = next_frame(&input[consumed..])? {
            if held.is_greeted {
                held.ask(&frame, spare)?;
            } else {
                held.greet(&frame, config, near.as_ref())?;
            }
            consumed += length;
        }
        Ok(consumed)
    }

    /// What the core is told next: that a chunk is to be looked at, as its copy was damaged, or what is wanted.
    pub(crate) fn poll_said(&mut self) -> Option<FromBackground> {
        let damaged = self.damaged.pop().map(FromBackground::Damaged);
        damaged.or_else(|| self.poll_wanted().map(FromBackground::Wanted))
    }

    /// For each session in turn, while it takes what it asked for.
    fn poll_wanted(&mut self) -> Option<Wanted> {
        if self.asking.len() >= GIVE_COPIES_MAX {
            return None;
        }
        let later = self.sessions.range((Bound::Excluded(self.served), Bound::Unbounded));
        let mut all = later.chain(self.sessions.range(..=self.served));
        let takes = |session: &Session| !session.asked.is_empty() && session.unsent_bytes < GIVE_UNSENT_BYTES_MAX;
        let (&number, _) = all.find(|(_, session)| takes(session))?;
        let asked = self.sessions.get_mut(&number)?.asked.pop_front()?;
        let (ticket, stripe) = (self.ticket_next, asked.stripe);
        (self.served, self.ticket_next) = (number, ticket + 1);
        let is_read_here = self.memory.is_some() && !asked.needs_copy;
        let buffer = if asked.locate.is_some() || is_read_here { None } else { Some(take_spare(&mut self.spare)) };
        self.asking.insert(ticket, (number, asked));
        Some(Wanted { ticket, stripe, buffer })
    }

    /// The core said what it knows: answers what was asked, and returns the number of the session that asked it.
    pub(crate) fn handle_found(&mut self, found: Found) -> Option<u64> {
        let (number, asked) = self.asking.remove(&found.ticket)?;
        let (session, spare) = (self.sessions.get_mut(&number)?, &mut self.spare);
        let (mut buffer, is_proven) = match found.outcome {
            Err(refusal) => {
                session.refuse(&asked, refusal, spare);
                return Some(number);
            }
            Ok(Chunk::At(position)) => {
                if let Some(tag) = asked.locate {
                    session.reply(tag, &NodeReply::Located { position }, spare);
                    return Some(number);
                }
                // What was in it before is overwritten, or not used.
                let mut buffer = spare.pop().unwrap_or_default();
                buffer.resize(BLOCK_BYTES, 0);
                let (header, payload) = buffer.split_at_mut(HEADER_BYTES);
                let memory = self.memory.as_deref();
                let Some(read) = memory.and_then(|memory| read_sealed(memory, position, asked.stripe, payload)) else {
                    keep_spare(spare, buffer);
                    session.asked.push_front(Asked { needs_copy: true, ..asked });
                    return Some(number);
                };
                header.copy_from_slice(&read);
                (buffer, true)
            }
            Ok(Chunk::Copy(buffer)) => (buffer, false),
        };
        if session.answer(&asked, &mut buffer, is_proven, spare) {
            self.damaged.push(asked.stripe);
        }
        keep_spare(spare, buffer);
        Some(number)
    }

    /// Bytes to send to a session next, if there are any.
    pub fn poll_output(&self, session: u64) -> Option<&[u8]> {
        let segment = self.sessions.get(&session)?.output.front()?;
        Some(&segment.bytes[segment.from..])
    }

    /// So many bytes of what was polled have left.
    pub fn handle_sent(&mut self, session: u64, count: usize) {
        let Some(held) = self.sessions.get_mut(&session) else { return };
        let Some(segment) = held.output.front_mut() else { return };
        segment.from += count;
        held.unsent_bytes -= count;
        if segment.from == segment.bytes.len()
            && let Some(segment) = held.output.pop_front()
        {
            keep_spare(&mut self.spare, segment.bytes);
        }
    }
}

/// An empty one.
fn take_spare(spare: &mut Vec<Vec<u8>>) -> Vec<u8> {
    let mut buffer = spare.pop().unwrap_or_default();
    buffer.clear();
    buffer
}

fn keep_spare(spare: &mut Vec<Vec<u8>>, buffer: Vec<u8>) {
    if buffer.capacity() > 0 && spare.len() < GIVE_COPIES_MAX {
        spare.push(buffer);
    }
}

impl Session {
    fn push(&mut self, bytes: Vec<u8>, from: usize) {
        self.unsent_bytes += bytes.len() - from;
        self.output.push_back(Segment { bytes, from });
    }

    fn reply(&mut self, tag: u64, reply: &NodeReply<'_>, spare: &mut Vec<Vec<u8>>) {
        let mut out = take_spare(spare);
        reply.encode(tag, &mut out);
        self.push(out, 0);
    }

    fn refuse(&mut self, asked: &Asked, refusal: Refusal, spare: &mut Vec<Vec<u8>>) {
        let mut out = take_spare(spare);
        asked.tags().for_each(|tag| NodeReply::Refused { refusal, detail: 0 }.encode(tag, &mut out));
        self.push(out, 0);
    }

    fn greet(&mut self, frame: &Frame<'_>, config: &NodeConfig, near: Option<&NearMemory>) -> Result<(), SessionError> {
        let NodeRequest::Peer(hello) = NodeRequest::parse(frame)? else { return Err(SessionError::Greeting) };
        if let Err((refusal, detail)) = config.check_hello(&hello) {
            self.reply(frame.tag, &NodeReply::Refused { refusal, detail }, &mut Vec::new());
            return Err(SessionError::Refused(refusal));
        }
        self.is_greeted = true;
        // How full this node is concerns owners only.
        let reply = HelloReply { near: near.cloned(), ..config.hello_reply() };
        self.reply(frame.tag, &NodeReply::Hello(reply), &mut Vec::new());
        Ok(())
    }

    fn ask(&mut self, frame: &Frame<'_>, spare: &mut Vec<Vec<u8>>) -> Result<(), SessionError> {
        let tag = frame.tag;
        match NodeRequest::parse(frame)? {
            NodeRequest::Locate { stripe } => self.asked.push_back(Asked { locate: Some(tag), ..Asked::new(stripe) }),
            NodeRequest::Inspect { stripe } => self.asked.push_back(Asked { inspect: Some(tag), ..Asked::new(stripe) }),
            NodeRequest::ReadRange { stripe, offset, length, op } => {
                let read = Some(Read { tag, offset, length, op });
                let is_of_one =
                    |asked: &&mut Asked| asked.stripe == stripe && asked.read.is_none() && asked.locate.is_none();
                match self.asked.back_mut().filter(is_of_one) {
                    Some(asked) => asked.read = read,
                    None => self.asked.push_back(Asked { read, ..Asked::new(stripe) }),
                }
            }
            NodeRequest::Ping => self.reply(tag, &NodeReply::Done { used_bytes: 0, held_bytes: 0 }, spare),
            NodeRequest::Hello(_) | NodeRequest::Peer(_) => return Err(SessionError::Greeting),
            _ => self.reply(tag, &NodeReply::Refused { refusal: Refusal::Invalid, detail: 0 }, spare),
        }
        let is_too_much = self.asked.len() > GIVE_WAITING_MAX || self.output.len() > 4 * GIVE_WAITING_MAX;
        if is_too_much { Err(SessionError::OutputFull) } else { Ok(()) }
    }

    /// Answers from a copy, with its memory if it goes; is the chunk damaged? `is_proven`: it was looked at already.
    fn answer(&mut self, asked: &Asked, copy: &mut Vec<u8>, is_proven: bool, spare: &mut Vec<Vec<u8>>) -> bool {
        let mut out = take_spare(spare);
        let (range, is_damaged) = {
            let refused = |refusal| NodeReply::Refused { refusal, detail: 0 };
            let Some(view) = ChunkView::of_copy(copy) else { return false };
            let (mut is_intact, mut is_damaged) = (is_proven, false);
            if let Some(tag) = asked.inspect {
                let inspected = match is_proven {
                    true => {
                        view.report().map(|report| InspectReport { report, raw: Vec::new() }).ok_or(Refusal::Damaged)
                    }
                    false => view.inspect(),
                };
                match inspected {
                    Ok(inspected) => {
                        (is_intact, is_damaged) = (!inspected.report.damaged, inspected.report.damaged);
                        NodeReply::Inspected(inspected).encode(tag, &mut out);
                    }
                    Err(refusal) => {
                        is_damaged = refusal == Refusal::Damaged;
                        refused(refusal).encode(tag, &mut out);
                    }
                }
            }
            let read = |read: Read| {
                let Read { offset, length, op, .. } = read;
                let range = match is_intact {
                    true => view.read_range_of_intact(offset, length, op),
                    false => view.read_range(offset, length, op),
                };
                range.map(|range| (read.tag, HEADER_BYTES + offset as usize, range.held.len(), range.zero_count))
            };
            match asked.read.map(|one| (one.tag, read(one))) {
                None => (None, is_damaged),
                Some((_, Ok(range))) => (Some(range), is_damaged),
                Some((tag, Err(refusal))) => {
                    refused(refusal).encode(tag, &mut out);
                    (None, is_damaged || refusal == Refusal::Damaged)
                }
            }
        };
        let Some((tag, start, held, zeros)) = range else {
            self.push(out, 0);
            return is_damaged;
        };
        // The copy becomes the reply: the frame's header takes the place of what lay before.
        copy.truncate(start + held);
        copy.resize(start + held + zeros, 0);
        let from = start - FRAME_HEADER_BYTES;
        NodeReply::bytes_in_place(tag, &mut copy[from..]);
        if out.len() <= from {
            let before = from - out.len();
            copy[before..from].copy_from_slice(&out);
            keep_spare(spare, out);
            self.push(std::mem::take(copy), before);
        } else {
            self.push(out, 0);
            self.push(std::mem::take(copy), from);
        }
        is_damaged
    }
}
