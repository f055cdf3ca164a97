//! The large values of one connection: how many bytes of them are under way or wait for the client,
//! and which reads wait.
//!
//! What a request carries is charged when it is asked, as is the longest value where a write answers with one, or makes
//! one of another. How long the value of a read is only its owner knows. So a read is asked as one that takes no large
//! value; if it meets one it comes back with the length, and is asked again when there is room:
//!
//! ```text
//! read --small--> reply
//!   '--large--> waits for room --> charged, asked again --> reply --> in the reply queue until the client took it
//! ```
//! Reads wait in the order of their places. The first of all requests that are not answered goes whatever its length,
//! once the client took all that was for it: so whatever waits here waits for the engine, or for the client to read.
//!
//! Must not know: protocols, what is asked.

use std::collections::VecDeque;

use crate::limits::{LARGE_BYTES_MAX, LARGE_VALUE_BYTES};
use crate::reply_queue::ReplyQueue;
use crate::request::RequestId;

#[derive(Debug, Default)]
pub struct LargeValues {
    /// Asked and not answered, with what is charged for it.
    under_way: Vec<(RequestId, usize)>,
    bytes: usize,
    waiting: VecDeque<WaitingRead>,
}

#[derive(Debug)]
struct WaitingRead {
    id: RequestId,
    value_bytes: usize,
    command: Vec<u8>,
}

impl LargeValues {
    /// Does a read wait for room?
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// May another request be asked?
    pub fn has_room(&self) -> bool {
        self.bytes < LARGE_BYTES_MAX
    }

    /// A request is asked that may take so many bytes.
    pub fn charge(&mut self, id: RequestId, bytes: usize) {
        if bytes > LARGE_VALUE_BYTES {
            self.under_way.push((id, bytes));
            self.bytes += bytes;
        }
    }

    /// A request is answered.
    pub fn answered(&mut self, id: RequestId) {
        if let Some(place) = self.under_way.iter().position(|(asked, _)| *asked == id) {
            self.bytes -= self.under_way.swap_remove(place).1;
        }
    }

    /// A read met a value of this length: it waits for room.
    pub fn wait(&mut self, id: RequestId, value_bytes: usize, command: Vec<u8>) {
        let place = self.waiting.partition_point(|other| other.id < id);
        self.waiting.insert(place, WaitingRead { id, value_bytes, command });
    }

    /// The read that is to be asked again now; it is charged.
    pub fn next(&mut self, replies: &mut ReplyQueue) -> Option<(RequestId, Vec<u8>)> {
        let first = self.waiting.front()?;
        let output_bytes = replies.output().len();
        let fits = self.bytes + replies.held_bytes() + output_bytes + first.value_bytes <= LARGE_BYTES_MAX;
        let is_first = output_bytes == 0 && replies.is_first(first.id.seq);
        if !fits && !is_first {
            return None;
        }
        let WaitingRead { id, value_bytes, command } = self.waiting.pop_front()?;
        self.charge(id, value_bytes);
        Some((id, command))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: usize = LARGE_BYTES_MAX / 4;

    fn id(seq: u64) -> RequestId {
        RequestId { seq, part: 0 }
    }

    fn asked(large: &mut LargeValues, replies: &mut ReplyQueue) -> Vec<u64> {
        std::iter::from_fn(|| large.next(replies)).map(|(id, _)| id.seq).collect()
    }

    #[test]
    fn reads_go_in_their_order_as_far_as_there_is_room() {
        let (mut large, mut replies) = (LargeValues::default(), ReplyQueue::default());
        (0..8).for_each(|_| _ = replies.open());
        [3, 1, 0, 2, 5, 4].into_iter().for_each(|seq| large.wait(id(seq), PART, Vec::new()));
        assert_eq!(asked(&mut large, &mut replies), [0, 1, 2, 3]);
        assert!(!large.has_room());
        // A reply that is held, or that the client has not taken, still takes its room.
        for seq in [1, 0] {
            large.answered(id(seq));
            replies.fill(seq, vec![0; PART]);
            assert_eq!(asked(&mut large, &mut replies), []);
        }
        replies.output().drain(..PART);
        assert_eq!(asked(&mut large, &mut replies), [4]);
        replies.output().clear();
        assert_eq!(asked(&mut large, &mut replies), [5]);
    }

    #[test]
    fn the_first_goes_whatever_its_length_when_the_client_took_all_before() {
        let (mut large, mut replies) = (LargeValues::default(), ReplyQueue::default());
        (0..3).for_each(|_| _ = replies.open());
        replies.push(b"known");
        large.wait(id(1), PART, Vec::new());
        assert_eq!(asked(&mut large, &mut replies), [1], "it fits");
        large.answered(id(1));
        replies.fill(1, vec![0; PART]);
        large.wait(id(2), 2 * LARGE_BYTES_MAX, Vec::new());
        large.wait(id(0), LARGE_BYTES_MAX, Vec::new());
        assert_eq!(asked(&mut large, &mut replies), [0], "although one behind it is held");
        large.answered(id(0));
        replies.fill(0, vec![0; LARGE_BYTES_MAX]);
        assert_eq!(asked(&mut large, &mut replies), [], "the first now, but the client has to read");
        replies.output().clear();
        assert_eq!(asked(&mut large, &mut replies), [2]);
    }

    #[test]
    fn small_values_are_not_counted() {
        let mut large = LargeValues::default();
        (0..1000).for_each(|seq| large.charge(id(seq), LARGE_VALUE_BYTES));
        assert!(large.has_room());
        large.answered(id(5));
        large.charge(id(5), LARGE_BYTES_MAX);
        assert!(!large.has_room());
        large.answered(id(5));
        assert!(large.has_room());
    }
}
