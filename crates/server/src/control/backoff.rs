//! How long to wait before the next attempt to connect.

use std::time::Duration;

/// First wait: a coordinator that is just starting is there in a moment.
const FIRST: Duration = Duration::from_millis(20);
/// Longest wait: also bounds how long a member is unknown to a coordinator that came back.
const LONGEST: Duration = Duration::from_millis(500);

/// Doubles from [`FIRST`] to [`LONGEST`].
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
}

impl Backoff {
    pub fn new() -> Self {
        Backoff { next: FIRST }
    }

    pub fn next_wait(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(LONGEST);
        wait
    }

    pub fn reset(&mut self) {
        self.next = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_begin_again() {
        let mut backoff = Backoff::new();
        assert_eq!((backoff.next_wait(), backoff.next_wait()), (FIRST, FIRST * 2));
        (0..20).for_each(|_| assert!(backoff.next_wait() <= LONGEST));
        assert_eq!(backoff.next_wait(), LONGEST);
        backoff.reset();
        assert_eq!(backoff.next_wait(), FIRST);
    }
}
