//! One session with a core of a node: what waits to be sent, what is out, what is owed.
//!
//! ```text
//!            sent           handed out        queued
//! stream  -----------|---------------------|------------------|
//!                    '--------------- outbox ----------------'  end
//! ```
//! One batch is out at a time: what comes up meanwhile leaves together when the node answered, for one wake-up of it (a
//! busy node is not asked sooner by being asked more often). Clients do not wait for what repair says, though: it holds
//! up only what is of its kind, and is gathered for some milliseconds unless something else leaves anyway. What is
//! still queued can be withdrawn. A request is known by its place in the stream, counted in bytes since the session
//! began.
//!
//! Must not know: what requests mean, who waits for them.

use std::collections::VecDeque;

use shorttail_store::RingWriter;
use shorttail_units::{Incarnation, PartitionId, StripeId};
use shorttail_wire::node::{NodeRequest, next_frame};

use crate::engine::limits::BATCH_BYTES_MAX;
use crate::engine::read::near::Near;
use crate::engine::state::pool::PoolKey;

#[derive(Debug, Default)]
pub struct Session {
    /// Bytes for the server to send. It drains what it sent.
    pub outbox: Vec<u8>,
    pub connected: bool,
    /// Where the outbox ends in the stream, and up to where it was handed out.
    end: u64,
    handed: u64,
    /// Queued requests that are not to be sent.
    withdrawn: Vec<u64>,
    /// Queued requests that are answered, and those of them for which nobody waits.
    answered_queued: usize,
    unhurried_queued: usize,
    /// Something is queued that is not for later; what is may leave all the same.
    has_prompt: bool,
    is_gathered: bool,
    /// A batch was sent, and nothing came back since; one in which there was something that is waited for.
    is_batch_out: bool,
    is_hurried_out: bool,
    /// Whose memory it is, once the node answered Hello.
    pub incarnation: Option<Incarnation>,
    /// Partitions that are not fenced yet.
    pub unfenced: Vec<PartitionId>,
    /// Those that this memory joined late, as far as the node was not told that it lacks nothing (see `witness`).
    pub joined_late: Vec<PartitionId>,
    /// When fences are asked again that were refused because of a promise, or may not be asked yet.
    pub fence_due_us: Option<u64>,
    /// A renewal was asked and not answered.
    pub is_renewing: bool,
    pub scan: Option<ChunkScan>,
    /// How many of the core's changes the census knows: the next scan asks for what came after them. 0: it must ask for
    /// everything.
    pub changes_known: u64,
    /// Hello, fence and scan are done.
    pub greeted: bool,
    /// Of which memory the core told all that it holds, in this session or an earlier one.
    pub told: Option<Incarnation>,
    /// Tags in the order in which they were asked, with the time; answered ones are dropped lazily.
    pub asked: VecDeque<(u64, PoolKey)>,
    /// How many of `asked` were looked at for hedging already.
    pub looked_at: usize,
    /// The sign of life that it owes: its tag, and when it was asked for last.
    pub sign: Option<(PoolKey, u64)>,
    /// When anything arrived last, and when the latest thing was asked that is answered.
    pub heard_us: u64,
    pub reached_us: u64,
    pub memory_bytes: u64,
    pub used_bytes: u64,
    /// What chunks take of it.
    pub held_bytes: u64,
    /// The node's memory, if it can be read from here.
    pub near: Option<Near>,
    /// Where appends may be put instead of being sent.
    pub ring: Option<RingWriter>,
}

/// A scan under way.
#[derive(Debug)]
pub struct ChunkScan {
    /// Another one for each: answers to one that was given up may still come.
    pub number: u32,
    pub round: u32,
    /// What changed after so many changes is asked for; 0: everything.
    pub since: u64,
    /// How many it covers, once the first answer is there.
    pub change: u64,
    /// The census knew something of the core before.
    pub was_known: bool,
    /// Chunks that it showed so far, in ascending order.
    pub reported: Vec<StripeId>,
    /// Those that the core could not describe.
    pub undescribed: Vec<(StripeId, PartitionId)>,
    /// What it said of chunks before it was known which stripes exist.
    pub told_early: Vec<ToldEarly>,
}

/// What a core said of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct ToldEarly {
    pub stripe: StripeId,
    pub index: u8,
    pub is_sealed: bool,
    pub is_damaged: bool,
}

impl Session {
    /// Is the core fenced for all partitions of the owner?
    pub fn is_fenced(&self) -> bool {
        self.incarnation.is_some() && self.unfenced.is_empty()
    }

    /// Queues a request; its place in the stream.
    pub fn put(&mut self, request: &NodeRequest<'_>, tag: u64) -> u64 {
        self.put_as(request, tag, is_unhurried(request))
    }

    /// The same. `is_unhurried`: no client waits for the answer.
    pub fn put_as(&mut self, request: &NodeRequest<'_>, tag: u64, is_unhurried: bool) -> u64 {
        let (at, before) = (self.end, self.outbox.len());
        request.encode(tag, &mut self.outbox);
        self.end += (self.outbox.len() - before) as u64;
        self.answered_queued += usize::from(is_answered(request));
        self.unhurried_queued += usize::from(is_unhurried);
        self.has_prompt |= !is_unhurried;
        at
    }

    /// Puts an append of a partition, as a frame, into the ring, if there is one with room. True: the node holds it, or
    /// is gone. `call`: what is sent, without an answer, when it is time that the node takes what lies there.
    pub fn put_into_ring(&mut self, partition: PartitionId, append: &[u8], call: &NodeRequest<'_>) -> bool {
        let Some(ring) = &mut self.ring else { return false };
        let is_held = ring.put(partition, append);
        if ring.wants_reader() {
            self.put(call, 0);
        }
        is_held
    }

    /// Takes back a request that is answered, if it is still queued.
    pub fn withdraw(&mut self, at: u64) -> bool {
        // Beyond the end: it was queued on an earlier connection, and went with it.
        if at < self.handed || at >= self.end {
            return false;
        }
        self.withdrawn.push(at);
        self.answered_queued -= 1;
        true
    }

    /// The outbox, if it is to be sent now. A batch that grows large leaves at once.
    pub fn batch(&mut self) -> Option<&mut Vec<u8>> {
        let is_out = if self.has_hurried() { self.is_hurried_out } else { self.is_batch_out };
        let is_held = is_out || !self.has_prompt && !self.is_gathered;
        if self.outbox.is_empty() || is_held && self.outbox.len() < BATCH_BYTES_MAX {
            return None;
        }
        self.drop_withdrawn();
        if self.outbox.is_empty() {
            return None;
        }
        Some(self.hand_out())
    }

    /// All that is to be sent, whatever is out: the socket was full, and its rest goes first.
    pub fn rest(&mut self) -> &mut Vec<u8> {
        self.drop_withdrawn();
        self.hand_out()
    }

    /// Is something queued that leaves when it was gathered?
    pub fn is_gathering(&self) -> bool {
        !self.outbox.is_empty() && !self.has_prompt && !self.is_gathered
    }

    /// What nobody waits for was gathered for long enough: it leaves as all else does.
    pub fn let_unhurried_go(&mut self) {
        self.is_gathered = !self.outbox.is_empty();
    }

    /// Is all that is queued for later?
    pub fn is_unhurried(&self) -> bool {
        !self.has_prompt
    }

    fn has_hurried(&self) -> bool {
        self.answered_queued > self.unhurried_queued
    }

    fn hand_out(&mut self) -> &mut Vec<u8> {
        self.is_batch_out |= self.answered_queued > 0;
        self.is_hurried_out |= self.has_hurried();
        (self.answered_queued, self.unhurried_queued) = (0, 0);
        (self.has_prompt, self.is_gathered) = (false, false);
        self.handed = self.end;
        &mut self.outbox
    }

    /// Closes the gaps that withdrawn requests leave.
    fn drop_withdrawn(&mut self) {
        if self.withdrawn.is_empty() {
            return;
        }
        self.withdrawn.sort_unstable();
        let start = self.end - self.outbox.len() as u64;
        let place = |at: u64| usize::try_from(at - start).expect("what is queued is in memory");
        let mut kept = place(self.withdrawn[0]);
        for (number, &at) in self.withdrawn.iter().enumerate() {
            let begin = place(at);
            let frame = next_frame(&self.outbox[begin..]).ok().flatten();
            let (_, length) = frame.expect("the engine's own frames are whole");
            let next = self.withdrawn.get(number + 1).map_or(self.outbox.len(), |&next| place(next));
            self.outbox.copy_within(begin + length..next, kept);
            kept += next - begin - length;
        }
        // Places count from the end of the outbox, which stays: all before it is handed out now.
        self.outbox.truncate(kept);
        self.withdrawn.clear();
    }

    /// Nothing holds up the next batch.
    pub fn answered(&mut self) {
        (self.is_batch_out, self.is_hurried_out) = (false, false);
    }

    /// Is what was sent then not merely behind what the core answers one by one? It answers in the order in which it
    /// was asked: what later ones overtook is not answered any more.
    pub fn is_stuck(&self, sent_us: u64, before_us: u64) -> bool {
        self.heard_us < before_us || sent_us < self.reached_us
    }

    /// Drops what is no longer owed from the front of the queue.
    pub fn forget_asked(&mut self, is_owed: impl Fn(PoolKey) -> bool) {
        while self.asked.front().is_some_and(|&(_, tag)| !is_owed(tag)) {
            self.asked.pop_front();
            self.looked_at = self.looked_at.saturating_sub(1);
        }
    }

    /// Everything asked, which is no longer awaited here.
    pub fn take_asked(&mut self) -> impl Iterator<Item = PoolKey> {
        self.looked_at = 0;
        self.asked.drain(..).map(|(_, tag)| tag)
    }

    /// A new connection begins: nothing of the old one is left.
    pub fn restart(&mut self, connected: bool) {
        let asked = std::mem::take(&mut self.asked);
        *self = Session {
            connected,
            asked,
            told: self.told,
            memory_bytes: self.memory_bytes,
            used_bytes: self.used_bytes,
            held_bytes: self.held_bytes,
            ..Session::default()
        };
    }
}

/// Does a node answer it?
fn is_answered(request: &NodeRequest<'_>) -> bool {
    !matches!(request, NodeRequest::Stable { .. })
}

/// Is it answered, but no client waits for that, whatever it is about?
pub fn is_unhurried(request: &NodeRequest<'_>) -> bool {
    matches!(request, NodeRequest::Reconfigure { .. } | NodeRequest::Rebuild { .. } | NodeRequest::Locate { .. })
}

#[cfg(test)]
mod tests {
    use shorttail_units::{OpNumber, StripeId};

    use super::*;

    fn read(number: u64) -> NodeRequest<'static> {
        NodeRequest::ReadRecord { stripe: StripeId::from_raw(number), offset: 0 }
    }

    /// Tags of the frames that a server would send.
    fn tags(bytes: &[u8]) -> Vec<u64> {
        let (mut tags, mut at) = (Vec::new(), 0);
        while let Some((frame, length)) = next_frame(&bytes[at..]).expect("frames") {
            tags.push(frame.tag);
            at += length;
        }
        assert_eq!(at, bytes.len());
        tags
    }

    fn sent(session: &mut Session) -> Vec<u64> {
        session.batch().map_or(Vec::new(), |outbox| tags(&std::mem::take(outbox)))
    }

    #[test]
    fn what_waits_behind_a_batch_is_withdrawn_and_what_left_is_not() {
        let mut session = Session { connected: true, ..Session::default() };
        let first = session.put(&read(1), 1);
        assert_eq!(sent(&mut session), [1]);
        let places: Vec<u64> = (2..8).map(|tag| session.put(&read(tag), tag)).collect();
        assert!(!session.withdraw(first));
        for gone in [5, 0, 2, 3] {
            assert!(session.withdraw(places[gone]));
        }
        assert_eq!(sent(&mut session), [0; 0], "one batch is out");
        session.answered();
        assert_eq!(sent(&mut session), [3, 6]);
        assert!(!session.withdraw(places[1]));
        let later = session.put(&read(9), 9);
        session.put(&read(10), 10);
        assert!(!session.withdraw(places[4]), "gone for good, although gaps before it were closed");
        assert!(session.withdraw(later));
        session.answered();
        assert_eq!(sent(&mut session), [10]);
    }

    #[test]
    fn what_nobody_waits_for_holds_up_only_its_kind() {
        let locate = |number| NodeRequest::Locate { stripe: StripeId::from_raw(number) };
        let mut session = Session { connected: true, ..Session::default() };
        session.put(&locate(1), 1);
        assert_eq!(sent(&mut session), [0; 0], "it is gathered");
        session.let_unhurried_go();
        assert_eq!(sent(&mut session), [1]);
        session.put(&locate(2), 2);
        session.let_unhurried_go();
        assert_eq!(sent(&mut session), [0; 0]);
        session.put(&read(3), 3);
        assert_eq!(sent(&mut session), [2, 3]);
        session.put(&locate(4), 4);
        session.put(&read(5), 5);
        assert_eq!(sent(&mut session), [0; 0]);
        session.answered();
        assert_eq!(sent(&mut session), [4, 5]);
    }

    #[test]
    fn a_rest_that_the_socket_left_stays_whole() {
        let mut session = Session { connected: true, ..Session::default() };
        session.put(&read(1), 1);
        let outbox = session.batch().expect("a batch");
        let begun: Vec<u8> = outbox.drain(..7).collect();
        let second = session.put(&read(2), 2);
        session.put(&read(3), 3);
        assert!(session.withdraw(second));
        let rest = std::mem::take(session.rest());
        assert_eq!(tags(&[begun, rest].concat()), [1, 3]);
    }

    #[test]
    fn nothing_but_withdrawn_requests_is_no_batch() {
        let mut session = Session { connected: true, ..Session::default() };
        let only = session.put(&read(1), 1);
        assert!(session.withdraw(only));
        assert_eq!(session.batch(), None);
        session.put(&NodeRequest::Stable { stripe: StripeId::from_raw(1), stable: OpNumber(1) }, 0);
        assert_eq!(sent(&mut session), [0]);
        session.put(&read(2), 2);
        assert_eq!(sent(&mut session), [2], "a message that nobody answers does not count as out");
    }
}
