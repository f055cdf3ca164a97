//! Messages from one thread to one other, neither of which ever waits for the other.
//!
//! Of a usual queue one thread takes blocks from the heap and the other gives them back, so that both may want one lock
//! of the heap; and who takes a message that is half put in spins until it is whole. Among equals that is nothing. But
//! a thread of the lowest class may be kept from the processor just there, for as long as anybody else wants it, and
//! whoever waits for it as well.
//!
//! So there is a ring that is laid out once, where a message that is not wholly there is not there yet. What finds no
//! room stays with its sender until there is some.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use mio::{Poll, Token, Waker};
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use super::Outlet;

/// Messages on their way. More may be sent: they wait.
const FEED_LENGTH: usize = 1024;

/// The end of the thread that takes.
#[derive(Debug)]
pub struct Feed<T> {
    ring: Consumer<T>,
}

/// The end of the thread that sends.
#[derive(Debug)]
pub struct Feeder<T> {
    ring: Producer<T>,
    /// What found no room, in order.
    waiting: VecDeque<T>,
    waker: Arc<Waker>,
}

impl<T> Feed<T> {
    /// To the loop that waits with this.
    ///
    /// # Errors
    /// When the system gives no event descriptor.
    pub fn new(poll: &Poll, token: Token) -> io::Result<(Self, Feeder<T>)> {
        Ok(Self::waking(Arc::new(Waker::new(poll.registry(), token)?)))
    }

    /// To a loop that has an inbox, too, and is woken as for that.
    pub fn beside<M>(outlet: &Outlet<M>) -> (Self, Feeder<T>) {
        Self::waking(outlet.waker())
    }

    fn waking(waker: Arc<Waker>) -> (Self, Feeder<T>) {
        let (producer, consumer) = RingBuffer::new(FEED_LENGTH);
        (Feed { ring: consumer }, Feeder { ring: producer, waiting: VecDeque::new(), waker })
    }

    pub fn take(&mut self) -> Option<T> {
        self.ring.pop().ok()
    }
}

impl<T> Feeder<T> {
    /// Sends without waking: several messages of a turn share one [`Feeder::wake`].
    pub fn put(&mut self, message: T) {
        // A loop that has ended takes no more messages; its process is ending too.
        if self.ring.is_abandoned() {
            return self.waiting.clear();
        }
        self.catch_up();
        match self.waiting.is_empty() {
            true => self.put_or_keep(message),
            false => self.waiting.push_back(message),
        }
    }

    pub fn wake(&self) {
        // A wake-up that fails means that the loop is gone.
        let _ = self.waker.wake();
    }

    pub fn send(&mut self, message: T) {
        self.put(message);
        self.wake();
    }

    /// Does something wait for room? Then the sender is to have another turn soon.
    pub fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sends what waits, as far as there is room; wakes who takes it.
    pub fn catch_up(&mut self) {
        let before = self.waiting.len();
        while !self.ring.is_full()
            && let Some(message) = self.waiting.pop_front()
        {
            self.put_or_keep(message);
        }
        if self.waiting.len() < before {
            self.wake();
        }
    }

    fn put_or_keep(&mut self, message: T) {
        if let Err(PushError::Full(message)) = self.ring.push(message) {
            self.waiting.push_front(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_follows_in_order() {
        let poll = Poll::new().expect("polling");
        let (mut feed, mut feeder) = Feed::new(&poll, Token(0)).expect("an event descriptor");
        let all = 3 * FEED_LENGTH;
        (0..all).for_each(|number| feeder.put(number));
        assert!(feeder.is_behind());
        let mut taken = Vec::new();
        while taken.len() < all {
            taken.extend(std::iter::from_fn(|| feed.take()));
            feeder.catch_up();
        }
        assert!(taken.into_iter().eq(0..all));
        assert!(!feeder.is_behind() && feed.take().is_none());
    }

    #[test]
    fn nothing_is_kept_for_one_that_is_gone() {
        let poll = Poll::new().expect("polling");
        let (feed, mut feeder) = Feed::new(&poll, Token(0)).expect("an event descriptor");
        (0..2 * FEED_LENGTH).for_each(|number| feeder.put(number));
        drop(feed);
        feeder.put(0);
        assert!(!feeder.is_behind());
    }

    #[test]
    fn two_threads_pass_on_what_is_sent() {
        let poll = Poll::new().expect("polling");
        let (mut feed, mut feeder) = Feed::new(&poll, Token(0)).expect("an event descriptor");
        let all = 20 * FEED_LENGTH;
        let sender = std::thread::spawn(move || {
            (0..all).for_each(|number| feeder.put(vec![number]));
            while feeder.is_behind() {
                feeder.catch_up();
                std::thread::yield_now();
            }
        });
        let mut expected = 0;
        while expected < all {
            match feed.take() {
                Some(message) => {
                    assert_eq!(message, [expected]);
                    expected += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        sender.join().expect("it ends");
    }
}
