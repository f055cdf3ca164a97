//! Keeps the replies of one connection in the order of its requests, whatever order they complete in.

use std::collections::VecDeque;

use crate::limits::LARGE_VALUE_BYTES;

/// Replies in order. A reply that is ready when everything before it is ready goes straight to the output.
#[derive(Debug, Default)]
pub struct ReplyQueue {
    /// Sequence number of the first waiting entry.
    first_seq: u64,
    waiting: VecDeque<Option<Vec<u8>>>,
    /// Bytes of replies that wait behind others.
    held_bytes: usize,
    output: Vec<u8>,
}

impl ReplyQueue {
    /// Reserves the next place and returns its number.
    pub fn open(&mut self) -> u64 {
        self.waiting.push_back(None);
        self.first_seq + self.waiting.len() as u64 - 1
    }

    /// Fills the place `seq`; an empty reply (noreply, quiet) just releases it.
    ///
    /// # Panics
    /// If the place was never opened or is already filled.
    pub fn fill(&mut self, seq: u64, bytes: Vec<u8>) {
        if seq == self.first_seq && !self.waiting.is_empty() {
            self.put_out(bytes);
            self.waiting.pop_front();
            self.first_seq += 1;
            self.release();
        } else {
            let index = usize::try_from(seq - self.first_seq).expect("a place that is waiting");
            let place = self.waiting.get_mut(index).expect("a place that was opened");
            self.held_bytes += bytes.len();
            assert!(place.replace(bytes).is_none(), "reply {seq} filled twice");
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
        self.waiting.push_back(Some(bytes.to_vec()));
    }

    /// Empties a reply that is filled but still waits for an earlier one.
    pub fn blank(&mut self, seq: u64) {
        let place = seq.checked_sub(self.first_seq).and_then(|index| usize::try_from(index).ok());
        if let Some(Some(bytes)) = place.and_then(|index| self.waiting.get_mut(index)) {
            self.held_bytes -= bytes.len();
            bytes.clear();
        }
    }

    fn release(&mut self) {
        while let Some(Some(bytes)) = self.waiting.front() {
            self.held_bytes -= bytes.len();
            self.output.extend_from_slice(bytes);
            self.waiting.pop_front();
            self.first_seq += 1;
        }
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
    fn a_known_reply_behind_nothing_leaves_at_once() {
        let mut queue = ReplyQueue::default();
        queue.push(b"a");
        let seq = queue.open();
        queue.fill(seq, b"b".to_vec());
        assert_eq!(queue.output().as_slice(), b"ab");
    }
}
