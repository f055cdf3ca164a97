//! Who is read next: in the order in which they had something to say, each once in a turn, and for a bounded time in
//! all. Who was not read is first in the next turn.
//!
//! Must not know: who they are, what they say.

use std::collections::VecDeque;

/// Microseconds of a turn in which clients are read, and the one that is being read then. With what follows from that a
/// turn stays far shorter than what nodes promise lasts, and much is read in it.
const READING_US_MAX: u64 = 10_000;

#[derive(Debug, Default)]
pub struct ReadQueue {
    waiting: VecDeque<u64>,
    /// Of those, so many had something to say when the turn began.
    left: usize,
    until_us: u64,
}

impl ReadQueue {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// One that is not among them already.
    pub fn push(&mut self, number: u64) {
        self.waiting.push_back(number);
    }

    pub fn begin_turn(&mut self, now_us: u64) {
        (self.left, self.until_us) = (self.waiting.len(), now_us + READING_US_MAX);
    }

    /// The next one to be read in this turn.
    pub fn next(&mut self, now_us: u64) -> Option<u64> {
        self.left = if now_us < self.until_us { self.left.checked_sub(1)? } else { return None };
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reading each takes a millisecond, and all have more to say at once.
    #[test]
    fn many_that_say_much_take_turns() {
        let mut queue = ReadQueue::default();
        (0..1_000).for_each(|number| queue.push(number));
        let (mut now_us, mut read) = (0, Vec::new());
        for _ in 0..200 {
            let before = read.len();
            queue.begin_turn(now_us);
            while let Some(number) = queue.next(now_us) {
                read.push(number);
                queue.push(number);
                now_us += 1_000;
            }
            assert_eq!(read.len() - before, 10);
        }
        assert!(read.iter().copied().eq((0..1_000).cycle().take(2_000)), "in turn");
    }

    #[test]
    fn one_alone_is_read_once_in_a_turn() {
        let mut queue = ReadQueue::default();
        queue.push(7);
        queue.begin_turn(5);
        assert_eq!(queue.next(5), Some(7));
        queue.push(7);
        assert!(queue.next(6).is_none() && !queue.is_empty());
        queue.begin_turn(10);
        assert_eq!(queue.next(10), Some(7));
        assert!(queue.next(10).is_none() && queue.is_empty());
    }
}
