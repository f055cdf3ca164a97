//! What other threads tell a core is taken in its order, and for a bounded time of a turn: thousands of clients of
//! other cores may ask it much at once. What is left is taken in the next turn, which comes at once.
//!
//! Must not know: what is told, who tells it.

use crate::net::Inbox;

/// Microseconds of a turn in which messages are taken, and the one that is handled then: as long as clients are read.
const TAKING_US_MAX: u64 = 10_000;

#[derive(Debug)]
pub struct Incoming<T> {
    inbox: Inbox<T>,
    /// Something came, or may be left: no event tells of it again.
    has_some: bool,
    until_us: u64,
}

impl<T> Incoming<T> {
    pub fn new(inbox: Inbox<T>) -> Self {
        Incoming { inbox, has_some: false, until_us: 0 }
    }

    /// An event told that something came.
    pub fn come(&mut self) {
        self.has_some = true;
    }

    pub fn has_some(&self) -> bool {
        self.has_some
    }

    pub fn begin_turn(&mut self, now_us: u64) {
        self.until_us = now_us + TAKING_US_MAX;
    }

    /// The next one in this turn.
    pub fn next(&mut self, now_us: u64) -> Option<T> {
        if !self.has_some || now_us >= self.until_us {
            return None;
        }
        let message = self.inbox.take();
        self.has_some = message.is_some();
        message
    }
}

#[cfg(test)]
mod tests {
    use mio::{Poll, Token};

    use super::*;

    /// Handling each takes a millisecond.
    #[test]
    fn much_that_others_tell_is_taken_over_some_turns_in_its_order() {
        let poll = Poll::new().expect("an epoll instance");
        let (inbox, outlet) = Inbox::new(&poll, Token(0)).expect("an event descriptor");
        let mut incoming = Incoming::new(inbox);
        (0..25).for_each(|number| outlet.put(number));
        assert!(!incoming.has_some() && incoming.next(0).is_none(), "no event told of it");
        incoming.come();
        let (mut now_us, mut taken) = (0, Vec::new());
        for expected in [10, 20, 25] {
            assert!(incoming.has_some(), "the next turn is to come at once");
            incoming.begin_turn(now_us);
            while let Some(number) = incoming.next(now_us) {
                taken.push(number);
                now_us += 1_000;
            }
            assert_eq!(taken.len(), expected);
        }
        assert!(taken.into_iter().eq(0..25) && !incoming.has_some());
    }
}
