//! Gives chunks to other nodes that rebuild, beside the core: the core copies a chunk when it has nothing better to do,
//! all else is done here, where it may wait.
//!
//! ```text
//! other node                       giver                                        core
//!   |--Peer, Inspect, ReadRange----->|--wanted: a chunk, an empty buffer--------->|
//!   |<--replies, made in the copy----|<--copied: header and payload---------------|
//! ```
//! It answers as the core itself does ([`crate::Node`]) to a session that greets as another node. A copy is looked at
//! once for an inspection and the reading that follows it.
//!
//! Must not know: sockets, threads, what the chunks are wanted for.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use shorttail_store::ChunkView;
use shorttail_store::limits::HEADER_BYTES;
use shorttail_units::{OpNumber, StripeId};
use shorttail_wire::node::{
    FRAME_HEADER_BYTES, Frame, HelloReply, NodeReply, NodeRequest, PROTOCOL_VERSION, Refusal, next_frame,
};

use crate::config::NodeConfig;
use crate::limits::{GIVE_COPIES_MAX, GIVE_SESSIONS_MAX, GIVE_UNSENT_BYTES_MAX, GIVE_WAITING_MAX};
use crate::session::SessionError;

/// A copy of a chunk that the core is asked for.
#[derive(Debug)]
pub struct Wanted {
    ticket: u64,
    pub stripe: StripeId,
    /// Empty.
    pub buffer: Vec<u8>,
}

/// What the core made of it.
#[derive(Debug)]
pub struct Copied {
    ticket: u64,
    buffer: Vec<u8>,
    outcome: Result<(), Refusal>,
}

impl Wanted {
    /// The core filled the buffer, or says why not.
    pub fn copied(self, outcome: Result<(), Refusal>) -> Copied {
        Copied { ticket: self.ticket, buffer: self.buffer, outcome }
    }
}

/// Requests that one copy answers.
#[derive(Debug)]
struct Asked {
    stripe: StripeId,
    /// Tag.
    inspect: Option<u64>,
    read: Option<Read>,
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
    sessions: BTreeMap<u64, Session>,
    /// By ticket: what copies are made for, and for whom.
    copying: BTreeMap<u64, (u64, Asked)>,
    ticket_next: u64,
    /// The session that a copy was made for last: others come first.
    served: u64,
    spare: Vec<Vec<u8>>,
    damaged: Vec<StripeId>,
}

impl Giver {
    pub fn new(config: NodeConfig) -> Self {
        Giver {
            config,
            sessions: BTreeMap::new(),
            copying: BTreeMap::new(),
            ticket_next: 0,
            served: 0,
            spare: Vec::new(),
            damaged: Vec::new(),
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

    /// Takes whole frames from the front of `input`; answers how many bytes they were.
    ///
    /// # Errors
    /// The caller sends the output that there is, closes the connection and says so.
    pub fn handle_input(&mut self, session: u64, input: &[u8]) -> Result<usize, SessionError> {
        let (config, spare) = (&self.config, &mut self.spare);
        let held = self.sessions.get_mut(&session).ok_or(SessionError::Ended)?;
        let mut consumed = 0;
        while let Some((frame, length)) = next_frame(&input[consumed..])? {
            if held.is_greeted {
                held.ask(&frame, spare)?;
            } else {
                held.greet(&frame, config)?;
            }
            consumed += length;
        }
        Ok(consumed)
    }

    /// The next copy that the core is to make: of each session in turn, while it takes what it asked for.
    pub fn poll_wanted(&mut self) -> Option<Wanted> {
        if self.copying.len() >= GIVE_COPIES_MAX {
            return None;
        }
        let later = self.sessions.range((Bound::Excluded(self.served), Bound::Unbounded));
        let mut all = later.chain(self.sessions.range(..=self.served));
        let takes = |session: &Session| !session.asked.is_empty() && session.unsent_bytes < GIVE_UNSENT_BYTES_MAX;
        let (&number, _) = all.find(|(_, session)| takes(session))?;
        let asked = self.sessions.get_mut(&number)?.asked.pop_front()?;
        let (ticket, stripe) = (self.ticket_next, asked.stripe);
        (self.served, self.ticket_next) = (number, ticket + 1);
        self.copying.insert(ticket, (number, asked));
        Some(Wanted { ticket, stripe, buffer: self.spare.pop().unwrap_or_default() })
    }

    /// A copy is there, or is not to be had: answers what was asked, and the number of the session that asked it.
    pub fn handle_copied(&mut self, copied: Copied) -> Option<u64> {
        let Copied { ticket, mut buffer, outcome } = copied;
        let (number, asked) = self.copying.remove(&ticket)?;
        if let Some(session) = self.sessions.get_mut(&number) {
            match outcome {
                Ok(()) => {
                    if session.answer(&asked, &mut buffer, &mut self.spare) {
                        self.damaged.push(asked.stripe);
                    }
                }
                Err(refusal) => {
                    let mut out = take_spare(&mut self.spare);
                    let tags = asked.inspect.into_iter().chain(asked.read.map(|read| read.tag));
                    tags.for_each(|tag| NodeReply::Refused { refusal, detail: 0 }.encode(tag, &mut out));
                    session.push(out, 0);
                }
            }
        }
        keep_spare(&mut self.spare, buffer);
        Some(number)
    }

    /// A chunk whose copy was damaged: the core is to look at it.
    pub fn poll_damaged(&mut self) -> Option<StripeId> {
        self.damaged.pop()
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

fn take_spare(spare: &mut Vec<Vec<u8>>) -> Vec<u8> {
    spare.pop().unwrap_or_default()
}

fn keep_spare(spare: &mut Vec<Vec<u8>>, mut buffer: Vec<u8>) {
    buffer.clear();
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

    fn greet(&mut self, frame: &Frame<'_>, config: &NodeConfig) -> Result<(), SessionError> {
        let NodeRequest::Peer(hello) = NodeRequest::parse(frame)? else { return Err(SessionError::Greeting) };
        if let Err(refusal) = config.check_hello(&hello) {
            self.reply(frame.tag, &NodeReply::Refused { refusal, detail: 0 }, &mut Vec::new());
            return Err(SessionError::Refused(refusal));
        }
        self.is_greeted = true;
        // How full this node is concerns owners only.
        let reply = HelloReply {
            version: PROTOCOL_VERSION,
            cluster: config.cluster,
            node: config.node,
            incarnation: config.incarnation,
            core_count: config.core_count,
            memory_bytes: config.memory_bytes as u64,
            used_bytes: 0,
            held_bytes: 0,
            near: None,
        };
        self.reply(frame.tag, &NodeReply::Hello(reply), &mut Vec::new());
        Ok(())
    }

    fn ask(&mut self, frame: &Frame<'_>, spare: &mut Vec<Vec<u8>>) -> Result<(), SessionError> {
        let tag = frame.tag;
        match NodeRequest::parse(frame)? {
            NodeRequest::Inspect { stripe } => self.asked.push_back(Asked { stripe, inspect: Some(tag), read: None }),
            NodeRequest::ReadRange { stripe, offset, length, op } => {
                let read = Some(Read { tag, offset, length, op });
                match self.asked.back_mut().filter(|asked| asked.stripe == stripe && asked.read.is_none()) {
                    Some(asked) => asked.read = read,
                    None => self.asked.push_back(Asked { stripe, inspect: None, read }),
                }
            }
            NodeRequest::Ping => self.reply(tag, &NodeReply::Done { used_bytes: 0, held_bytes: 0 }, spare),
            NodeRequest::Hello(_) | NodeRequest::Peer(_) => return Err(SessionError::Greeting),
            _ => self.reply(tag, &NodeReply::Refused { refusal: Refusal::Invalid, detail: 0 }, spare),
        }
        let is_too_much = self.asked.len() > GIVE_WAITING_MAX || self.output.len() > 4 * GIVE_WAITING_MAX;
        if is_too_much { Err(SessionError::OutputFull) } else { Ok(()) }
    }

    /// Answers from a copy, with its memory if it goes; is the chunk damaged?
    fn answer(&mut self, asked: &Asked, copy: &mut Vec<u8>, spare: &mut Vec<Vec<u8>>) -> bool {
        let mut out = take_spare(spare);
        let (range, is_damaged) = {
            let refused = |refusal| NodeReply::Refused { refusal, detail: 0 };
            let Some(view) = ChunkView::of_copy(copy) else { return false };
            let (mut is_intact, mut is_damaged) = (false, false);
            if let Some(tag) = asked.inspect {
                match view.inspect() {
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
