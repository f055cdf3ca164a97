//! Keeps the replies of one connection in the order of its requests, whatever order they complete in, and how long each
//! took until it could leave.

use std::collections::VecDeque;

use shorttail_units::Now;

use crate::command::Access;
use crate::latency::CommandLatencies;
use crate::limits::LARGE_VALUE_BYTES;

/// Bytes that a place takes beside those of its reply.
pub const PLACE_BYTES: usize = size_of::<Place>();

#[derive(Debug, Default)]
struct Place {
    reply: Option<Vec<u8>>,
    /// Of a command whose latency is counted: what it does, and when it was read.
    read: Option<(Access, u64)>,
}

/// Replies in order. A reply that is ready when everything before it is ready goes straight to the output.
#[derive(Debug, Default)]
pub struct ReplyQueue {
    /// Sequence number of the first waiting entry.
    first_seq: u64,
    waiting: VecDeque<Place>,
    /// Bytes of replies that wait behind others.
    held_bytes: usize,
    output: Vec<u8>,
    /// The time, as the session last said.
    now_us: u64,
    /// How long commands took that ended since they were last counted.
    ended: Vec<(Access, u64)>,
}

impl ReplyQueue {
    /// Reserves the next place and returns its number.
    pub fn open(&mut self) -> u64 {
        self.waiting.push_back(Place::default());
        self.first_seq + self.waiting.len() as u64 - 1
    }

    /// The latency of the command whose place was opened last is counted.
    pub fn time(&mut self, access: Access) {
        let now_us = self.now_us;
        self.waiting.back_mut().expect("a place was opened").read = Some((access, now_us));
    }

    /// What begins or ends from here on does so now.
    pub fn set_now(&mut self, now: Now) {
        self.now_us = now.mono_us;
    }

    /// Counts the commands that ended since the last call.
    pub fn count_ended(&mut self, latencies: &mut CommandLatencies) {
        for (access, latency_us) in self.ended.drain(..) {
            match access {
                Access::Read => latencies.reads.add(latency_us),
                Access::Write => latencies.writes.add(latency_us),
            }
        }
    }

    /// Fills the place `seq`; an empty reply (noreply, quiet) just releases it.
    ///
    /// # Panics
    /// If the place was never opened or is already filled.
    pub fn fill(&mut self, seq: u64, bytes: Vec<u8>) {
        if seq == self.first_seq && !self.waiting.is_empty() {
            self.put_out(bytes);
            self.end_first();
            self.release();
        } else {
            let index = usize::try_from(seq - self.first_seq).expect("a place that is waiting");
            let place = self.waiting.get_mut(index).expect("a place that was opened");
            self.held_bytes += bytes.len();
            assert!(place.reply.replace(bytes).is_none(), "reply {seq} filled twice");
        }
    }

    fn put_out(&mut self, bytes: Vec<u8>) {
        if self.output.is_empty() && bytes.len() > LARGE_VALUE_BYTES {
            // Copying it would take longer than making room for the small ones anew.
            self.output = bytes;
        } else {
            self.output.extend_from_slice(&bytes);
        }
    }

    /// Appends a reply that is already known, behind everything that waits.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.waiting.is_empty() {
            return self.output.extend_from_slice(bytes);
        }
        // A place of its own: the one before it may be emptied, and each counts among those that wait.
        self.held_bytes += bytes.len();
        self.waiting.push_back(Place { reply: Some(bytes.to_vec()), read: None });
    }

    /// Empties a reply that is filled but still waits for an earlier one.
    pub fn blank(&mut self, seq: u64) {
        let place = seq.checked_sub(self.first_seq).and_then(|index| usize::try_from(index).ok());
        if let Some(bytes) = place.and_then(|index| self.waiting.get_mut(index)?.reply.as_mut()) {
            self.held_bytes -= bytes.len();
            bytes.clear();
        }
    }

    fn release(&mut self) {
        while let Some(Place { reply: Some(bytes), .. }) = self.waiting.front() {
            self.held_bytes -= bytes.len();
            self.output.extend_from_slice(bytes);
            self.end_first();
        }
    }

    /// The first reply went to the output.
    fn end_first(&mut self) {
        let place = self.waiting.pop_front().expect("it was there");
        self.first_seq += 1;
        self.ended.extend(place.read.map(|(class, read_us)| (class, self.now_us.saturating_sub(read_us))));
    }

    /// Is nothing before this place still waiting?
    pub fn is_first(&self, seq: u64) -> bool {
        seq == self.first_seq
    }

    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Requests that still wait for their reply, or for an earlier one.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_leave_in_the_order_of_their_requests() {
        let mut queue = ReplyQueue::default();
        let first = queue.open();
        let second = queue.open();
        queue.push(b"3");
        queue.fill(second, b"2".to_vec());
        assert!(queue.output().is_empty());
        queue.fill(first, b"1".to_vec());
        assert_eq!(queue.output().as_slice(), b"123");
        assert_eq!(queue.waiting_count(), 0);
    }

    #[test]
    fn a_waiting_reply_can_be_emptied() {
        let mut queue = ReplyQueue::default();
        let (first, second, third) = (queue.open(), queue.open(), queue.open());
        queue.fill(second, b"2".to_vec());
        queue.fill(third, b"3".to_vec());
        queue.blank(second);
        queue.fill(first, b"1".to_vec());
        assert_eq!(queue.output().as_slice(), b"13");
    }

    #[test]
    fn a_known_reply_has_a_place_of_its_own() {
        let mut queue = ReplyQueue::default();
        let (first, second) = (queue.open(), queue.open());
        queue.fill(second, b"2".to_vec());
        queue.push(b"3");
        queue.push(b"4");
        assert_eq!((queue.waiting_count(), queue.held_bytes()), (4, 3));
        queue.blank(second);
        queue.fill(first, b"1".to_vec());
        assert_eq!(queue.output().as_slice(), b"134");
        assert_eq!((queue.waiting_count(), queue.held_bytes()), (0, 0));
    }

    #[test]
    fn latencies_are_counted_until_a_reply_can_leave() {
        let now = |mono_us| Now { mono_us, ..Now::default() };
        let (mut queue, mut latencies) = (ReplyQueue::default(), CommandLatencies::default());
        queue.set_now(now(1_000));
        let first = queue.open();
        queue.time(Access::Read);
        let second = queue.open();
        queue.time(Access::Write);
        let untimed = queue.open();
        queue.set_now(now(1_300));
        queue.fill(second, b"2".to_vec());
        queue.count_ended(&mut latencies);
        assert_eq!(latencies, CommandLatencies::default(), "it waits for the one before");
        queue.set_now(now(3_000));
        queue.fill(first, b"1".to_vec());
        queue.fill(untimed, b"3".to_vec());
        for _ in 0..2 {
            queue.count_ended(&mut latencies);
            assert_eq!((latencies.reads.count(), latencies.reads.sum_us), (1, 2_000));
            assert_eq!((latencies.writes.count(), latencies.writes.sum_us), (1, 2_000));
        }
    }

    #[test]
    fn a_known_reply_behind_nothing_leaves_at_once() {
        let mut queue = ReplyQueue::default();
        queue.push(b"a");
        let seq = queue.open();
        queue.fill(seq, b"b".to_vec());
        assert_eq!(queue.output().as_slice(), b"ab");
    }
}
