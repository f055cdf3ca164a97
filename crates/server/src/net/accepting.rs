//! Takes in all who wait at a listening socket, also when the system refuses some for a while.
//!
//! An event tells of those who come, once. Who could not be taken in then, for want of a file say, is told of again
//! only when somebody else comes, which may be never. So it is looked again.
//!
//! Must not know: sockets, who comes.

use std::io::{self, ErrorKind};

use super::Saying;

/// Microseconds until it is looked again: hardly noticed by who waits, and few system calls.
const AGAIN_US: u64 = 100_000;

/// Microseconds between two complaints: where files are short, each one that is freed is followed by another failure.
const TELL_US: u64 = 60_000_000;

#[derive(Debug)]
pub struct Accepting<L> {
    pub listener: L,
    /// Who comes, for people.
    whom: &'static str,
    /// Some may wait of whom no event tells any more.
    due_us: Option<u64>,
    saying: Saying,
}

impl<L> Accepting<L> {
    pub fn new(listener: L, whom: &'static str) -> Self {
        Accepting { listener, whom, due_us: None, saying: Saying::default() }
    }

    /// The next who waits; `None`: nobody, or it is to be looked again.
    pub fn next<T>(&mut self, now_us: u64, mut accept: impl FnMut(&L) -> io::Result<T>) -> Option<T> {
        loop {
            match accept(&self.listener) {
                Ok(one) => return Some(one),
                Err(error) => match error.kind() {
                    // Who came has left, or a signal was in the way.
                    ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => {
                        self.due_us = None;
                        return None;
                    }
                    _ => {
                        self.due_us = Some(now_us + AGAIN_US);
                        self.tell(now_us, &error);
                        return None;
                    }
                },
            }
        }
    }

    /// Somebody came: it is to be looked at once, and as long as somebody may be left.
    pub fn come(&mut self, now_us: u64) {
        self.due_us = Some(now_us);
    }

    /// When it is to be looked again; `None`: events tell of all who come.
    pub fn due_us(&self) -> Option<u64> {
        self.due_us
    }

    pub fn is_due(&self, now_us: u64) -> bool {
        self.due_us.is_some_and(|due_us| due_us <= now_us)
    }

    /// It failed for a reason that lasts.
    pub fn tell(&mut self, now_us: u64, error: &io::Error) {
        if self.saying.is_due(now_us, TELL_US) {
            tracing::warn!(%error, whom = self.whom, "cannot accept a connection: who comes waits");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    type Script = RefCell<Vec<io::Result<u8>>>;

    fn next(accepting: &mut Accepting<Script>, now_us: u64) -> Option<u8> {
        accepting.next(now_us, |script| script.borrow_mut().remove(0))
    }

    fn failed(kind: ErrorKind) -> io::Result<u8> {
        Err(kind.into())
    }

    fn no_files() -> io::Result<u8> {
        Err(io::Error::from_raw_os_error(libc::EMFILE))
    }

    #[test]
    fn who_was_not_accepted_is_looked_for_again() {
        let script = vec![Ok(1), no_files(), no_files(), Ok(2), failed(ErrorKind::WouldBlock)];
        let mut accepting = Accepting::new(RefCell::new(script), "somebody");
        assert_eq!([next(&mut accepting, 5), next(&mut accepting, 5)], [Some(1), None]);
        let due_us = 5 + AGAIN_US;
        assert_eq!((accepting.due_us(), accepting.saying.said_us), (Some(due_us), Some(5)));
        assert!(!accepting.is_due(due_us - 1) && accepting.is_due(due_us));
        assert_eq!(next(&mut accepting, due_us), None);
        assert_eq!(accepting.due_us(), Some(due_us + AGAIN_US), "again and again");
        assert_eq!(accepting.saying.said_us, Some(5), "it is told once");
        assert_eq!([next(&mut accepting, 9_000_000), next(&mut accepting, 9_000_000)], [Some(2), None]);
        assert!(!accepting.is_due(u64::MAX), "nobody is left");
    }

    #[test]
    fn who_left_before_is_no_reason_to_keep_others_waiting() {
        let script = vec![failed(ErrorKind::ConnectionAborted), failed(ErrorKind::Interrupted), Ok(1)];
        let mut accepting = Accepting::new(RefCell::new(script), "somebody");
        assert_eq!((next(&mut accepting, 0), accepting.due_us()), (Some(1), None));
    }

    #[test]
    fn what_goes_on_is_told_now_and_then() {
        let mut accepting = Accepting::new(RefCell::new((0..3).map(|_| no_files()).collect()), "somebody");
        for (now_us, told_us) in [(7, 7), (6 + TELL_US, 7), (7 + TELL_US, 7 + TELL_US)] {
            assert_eq!((next(&mut accepting, now_us), accepting.saying.said_us), (None, Some(told_us)));
        }
    }
}
