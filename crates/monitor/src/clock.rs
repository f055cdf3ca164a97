//! The time that nodes are held to account for: real time without what the gateway's own loop lost.
//!
//! While the loop does not run no answer is taken, so every request then under way looks slower than its node was.
//!
//! Must not know: requests.

/// A loop that comes this much too late to a deadline of the monitor was kept from running.
const LATE_US: u64 = 10_000;

/// Nobody was asked to come.
const NEVER: u64 = u64::MAX;

/// Converts the caller's time, which only grows, to time in which the loop ran.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Latest time seen, in which the loop ran.
    now_us: u64,
    /// Time in which it did not, added up.
    lag_us: u64,
    /// When the caller was asked to come.
    asked_us: u64,
}

impl Clock {
    pub fn new(now_us: u64) -> Self {
        Clock { now_us, lag_us: 0, asked_us: NEVER }
    }

    /// The caller's time in time in which the loop ran. Never goes back.
    #[inline]
    pub fn at(&mut self, now_us: u64) -> u64 {
        let us = now_us.saturating_sub(self.lag_us);
        if us > self.asked_us.saturating_add(LATE_US) {
            self.lost(us - self.asked_us);
        }
        self.now_us = now_us.saturating_sub(self.lag_us).max(self.now_us);
        self.now_us
    }

    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    pub fn lag_us(&self) -> u64 {
        self.lag_us
    }

    /// The loop did not run for `lag_us`, which ended now.
    fn lost(&mut self, lag_us: u64) {
        self.lag_us += lag_us;
        self.asked_us = NEVER;
    }

    /// The caller is asked to come at `us`, in time in which the loop ran.
    pub fn ask(&mut self, us: u64) {
        self.asked_us = us;
    }

    /// There is nothing to come for: however long that lasts, no time is lost.
    pub fn ask_nobody(&mut self) {
        self.asked_us = NEVER;
    }

    #[inline]
    pub fn is_asked(&self) -> bool {
        self.asked_us != NEVER
    }

    /// The inverse of [`Self::at`].
    pub fn real_us(&self, us: u64) -> u64 {
        us.saturating_add(self.lag_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_time_is_left_out() {
        let mut clock = Clock::new(1000);
        assert_eq!(clock.at(3000), 3000);
        clock.lost(30_000);
        assert_eq!(clock.at(34_000), 4000);
        assert_eq!((clock.real_us(5000), clock.lag_us()), (35_000, 30_000));
    }

    #[test]
    fn a_loop_that_comes_much_too_late_lost_time() {
        let mut clock = Clock::new(0);
        clock.ask(5000);
        assert_eq!(clock.at(5000 + LATE_US), 5000 + LATE_US);
        assert_eq!(clock.at(5001 + LATE_US), 5000 + LATE_US, "time does not go back");
        assert_eq!((clock.lag_us(), clock.is_asked()), (LATE_US + 1, false));
        assert_eq!(clock.at(90_000), 90_000 - LATE_US - 1, "not asked, not late");
    }
}
