//! How fast something goes that comes and goes: over the last seconds, from its beginning on.
//!
//! A mean that began at 0 would tell too little at first, and one that fades would go on telling of what has ended.
//!
//! Must not know: what goes on.

use std::collections::VecDeque;

use crate::engine::limits::{RATE_LOOK_US, RATE_LOOKS};

#[derive(Debug, Default)]
pub struct Rate {
    /// When it was looked, and how many bytes had been done by then, the oldest first; empty: nothing goes on.
    looks: VecDeque<(u64, u64)>,
    bytes_per_s: u64,
}

impl Rate {
    /// Looks, if it is time to.
    pub fn take(&mut self, now_us: u64, bytes: u64, goes_on: bool) {
        if !goes_on {
            *self = Rate::default();
            return;
        }
        if self.looks.back().is_some_and(|&(last_us, _)| now_us < last_us + RATE_LOOK_US) {
            return;
        }
        if let Some(&(first_us, first_bytes)) = self.looks.front() {
            self.bytes_per_s = (bytes - first_bytes) * 1_000_000 / (now_us - first_us);
        }
        self.looks.push_back((now_us, bytes));
        if self.looks.len() > RATE_LOOKS {
            self.looks.pop_front();
        }
    }

    /// 0: nothing goes on, or not for long enough to tell.
    pub fn bytes_per_s(&self) -> u64 {
        self.bytes_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn the_first_look_is_not_halved_by_a_time_before_the_beginning() {
        let mut rate = Rate::default();
        rate.take(17 * SECOND, 9_000, false);
        rate.take(17 * SECOND + 5, 9_000, true);
        rate.take(18 * SECOND, 9_900, true);
        assert_eq!(rate.bytes_per_s(), 0, "not for a second yet");
        rate.take(18 * SECOND + 5, 10_000, true);
        assert_eq!(rate.bytes_per_s(), 1_000);
        rate.take(19 * SECOND + 5, 13_000, true);
        assert_eq!(rate.bytes_per_s(), 2_000);
    }

    #[test]
    fn what_ended_or_stands_still_has_no_rate() {
        let mut rate = Rate::default();
        (0..20).for_each(|second| rate.take(second * SECOND, second * 500, true));
        assert_eq!(rate.bytes_per_s(), 500);
        (20..20 + RATE_LOOKS as u64).for_each(|second| rate.take(second * SECOND, 9_500, true));
        assert_eq!(rate.bytes_per_s(), 0, "it stands still");
        (40..50).for_each(|second| rate.take(second * SECOND, second * 500, true));
        assert_eq!(rate.bytes_per_s(), 500);
        rate.take(50 * SECOND, 25_000, false);
        assert_eq!(rate.bytes_per_s(), 0, "it ended");
    }
}
