//! Faults of one core of a node: its replies are held back, lost or hurt on their way out.
//!
//! ```text
//! requests --> node machine, at once, as always --> replies --> model --+--> ready --> socket
//!                                                                       '--> held until due --^
//! ```
//!
//! The machine sees every request in order and at once, so that what it holds is what its owners believe; only its
//! answers suffer. Nothing waits for what is held: the loop goes on.
//!
//! Must not know: sockets, the time beyond what it is told.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashMap;
use shorttail_chaos::{Class, Fate, Fault, FaultModel, Traffic};
use shorttail_wire::node::{FRAME_HEADER_BYTES, Frame, NodeReply, NodeRequest, next_frame, seal_frame};

/// Bytes of replies that one session may have waiting; beyond it the session ends, as that of an owner that does not
/// read.
const WAITING_BYTES_MAX: usize = 32 << 20;

/// What was done to replies so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Injected {
    pub delayed: u64,
    pub dropped: u64,
    pub corrupted: u64,
}

/// A session of which something must be remembered.
#[derive(Debug, Default)]
struct Tracked {
    /// Requests that await a reply, by tag.
    asked: HashMap<u64, (Class, u64)>,
    /// Bytes of appends that await their acknowledgement, by stripe.
    appended: HashMap<u64, u64>,
    /// Replies that may leave, in order, perhaps from the middle of one on.
    ready: Vec<u8>,
    held_bytes: usize,
}

/// A reply that leaves later.
#[derive(Debug)]
struct Held {
    at_us: u64,
    sequence: u64,
    session: usize,
    bytes: Vec<u8>,
}

/// The session is to be ended: its connection breaks, or too much waits for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

#[derive(Debug)]
pub struct Injector {
    model: FaultModel,
    tracked: HashMap<usize, Tracked>,
    held: BinaryHeap<Reverse<Held>>,
    sequence: u64,
    injected: Injected,
}

impl Injector {
    pub fn new(seed: u64) -> Self {
        Injector {
            model: FaultModel::new(seed),
            tracked: HashMap::new(),
            held: BinaryHeap::new(),
            sequence: 0,
            injected: Injected::default(),
        }
    }

    pub fn apply(&mut self, now_us: u64, fault: Fault) {
        self.model.apply(now_us, fault);
    }

    /// Ends all faults: what is held is due at once.
    pub fn clear(&mut self) {
        self.model.clear();
        for mut held in std::mem::take(&mut self.held).into_vec() {
            held.0.at_us = 0;
            self.held.push(held);
        }
    }

    pub fn faults(&mut self, now_us: u64) -> Vec<Fault> {
        self.model.faults(now_us)
    }

    pub fn injected(&self) -> Injected {
        self.injected
    }

    /// Do replies of this session pass through here, or may they take the direct way?
    pub fn concerns(&mut self, now_us: u64, session: usize) -> bool {
        let is_active = self.model.is_active(now_us);
        let Some(tracked) = self.tracked.get_mut(&session) else { return is_active };
        if is_active || !tracked.ready.is_empty() || tracked.held_bytes > 0 {
            return true;
        }
        self.tracked.remove(&session);
        false
    }

    /// Takes note of whole requests that the machine was given.
    pub fn note_requests(&mut self, now_us: u64, session: usize, mut input: &[u8]) {
        if !self.model.is_active(now_us) {
            return;
        }
        let tracked = self.tracked.entry(session).or_default();
        while let Ok(Some((frame, length))) = next_frame(input) {
            tracked.note_request(&frame, length as u64);
            input = &input[length..];
        }
    }

    /// Output that is written in part already: nothing can become of it any more.
    pub fn adopt(&mut self, session: usize, output: &mut Vec<u8>) {
        self.tracked.entry(session).or_default().ready.append(output);
    }

    /// Decides about whole replies, which are taken out of `output`.
    ///
    /// # Errors
    /// When the session is to be ended.
    pub fn judge(&mut self, now_us: u64, session: usize, output: &mut Vec<u8>) -> Result<(), Broken> {
        let tracked = self.tracked.entry(session).or_default();
        let mut rest = &mut output[..];
        let mut outcome = Ok(());
        while let Ok(Some((frame, length))) = next_frame(rest) {
            let traffic = tracked.traffic(&frame, length as u64);
            let is_read = matches!(NodeReply::parse(&frame), Ok(NodeReply::Bytes(_)));
            let (reply, later) = rest.split_at_mut(length);
            rest = later;
            match self.model.judge(now_us, traffic) {
                Fate::Vanish => self.injected.dropped += 1,
                Fate::Reset => {
                    self.injected.dropped += 1;
                    outcome = Err(Broken);
                    break;
                }
                Fate::Leave { at_us, flip } => {
                    if let Some(bit) = flip.filter(|_| is_read) {
                        // As a node does that reads its memory wrong: the frame about it is right.
                        self.injected.corrupted += u64::from(flip_bit(&mut reply[FRAME_HEADER_BYTES..], bit));
                        seal_frame(reply);
                    }
                    if at_us <= now_us {
                        tracked.ready.extend_from_slice(reply);
                        continue;
                    }
                    self.injected.delayed += 1;
                    tracked.held_bytes += length;
                    let held = Held { at_us, sequence: self.sequence, session, bytes: reply.to_vec() };
                    self.sequence += 1;
                    self.held.push(Reverse(held));
                }
            }
        }
        output.clear();
        if tracked.held_bytes + tracked.ready.len() > WAITING_BYTES_MAX {
            return Err(Broken);
        }
        outcome
    }

    /// Lets go what is due; names the sessions that it belongs to, some perhaps several times.
    pub fn release(&mut self, now_us: u64, sessions: &mut Vec<usize>) {
        while let Some(Reverse(held)) = self.held.peek()
            && held.at_us <= now_us
        {
            let Some(Reverse(held)) = self.held.pop() else { return };
            // Without a session there is nobody left to tell.
            let Some(tracked) = self.tracked.get_mut(&held.session) else { continue };
            tracked.held_bytes -= held.bytes.len();
            tracked.ready.extend_from_slice(&held.bytes);
            sessions.push(held.session);
        }
    }

    /// Bytes to send to a session now; the caller takes them from the front.
    pub fn ready(&mut self, session: usize) -> Option<&mut Vec<u8>> {
        self.tracked.get_mut(&session).map(|tracked| &mut tracked.ready)
    }

    /// When something held is due.
    pub fn due_us(&self) -> Option<u64> {
        self.held.peek().map(|held| held.0.at_us).filter(|&at_us| at_us < FaultModel::NEVER)
    }

    pub fn forget(&mut self, session: usize) {
        self.tracked.remove(&session);
        self.held.retain(|Reverse(held)| held.session != session);
    }
}

impl Tracked {
    fn note_request(&mut self, frame: &Frame<'_>, bytes: u64) {
        let class = match NodeRequest::parse(frame) {
            Ok(NodeRequest::Append { stripe, .. }) => {
                *self.appended.entry(stripe.raw()).or_default() += bytes;
                return;
            }
            // Never answered.
            Ok(NodeRequest::Stable { .. }) | Err(_) => return,
            Ok(NodeRequest::ReadRecord { .. } | NodeRequest::ReadRange { .. }) => Class::Read,
            Ok(
                NodeRequest::Open(_)
                | NodeRequest::Install { .. }
                | NodeRequest::Seal { .. }
                | NodeRequest::Close { .. }
                | NodeRequest::Free { .. }
                | NodeRequest::ProbeWrite,
            ) => Class::Write,
            Ok(_) => Class::Other,
        };
        self.asked.insert(frame.tag, (class, bytes));
    }

    /// What a reply answers; of requests from before the first fault only the reply itself is known.
    fn traffic(&mut self, frame: &Frame<'_>, reply_bytes: u64) -> Traffic {
        let (class, request_bytes) = match NodeReply::parse(frame) {
            Ok(NodeReply::Acked { stripe, .. }) => {
                (Class::Write, self.appended.remove(&stripe.raw()).unwrap_or_default())
            }
            Ok(NodeReply::Bytes(_)) => self.asked.remove(&frame.tag).unwrap_or((Class::Read, 0)),
            // An append that is refused is answered by a tag of its own.
            Ok(NodeReply::Refused { .. }) => self.asked.remove(&frame.tag).unwrap_or((Class::Write, 0)),
            _ => self.asked.remove(&frame.tag).unwrap_or((Class::Other, 0)),
        };
        Traffic { class, request_bytes, reply_bytes }
    }
}

/// Flips the bit that `number` names, counted around; whether there was one.
fn flip_bit(bytes: &mut [u8], number: u64) -> bool {
    let bit_count = bytes.len() as u64 * 8;
    if bit_count == 0 {
        return false;
    }
    let bit = number % bit_count;
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    true
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_us, self.sequence).cmp(&(other.at_us, other.sequence))
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Held {}

#[cfg(test)]
mod tests;
