//! Whether one class of a node is fail-slow, and what has to happen until it is or is no longer.
//!
//! ```text
//!            bad time reaches the patience, or bad windows in a row
//!   normal ---------------------------------------------------------> fail-slow
//!     ^                                                                  |
//!     +------------------------------------------------------------------+
//!        good answers in a row for as long as the back-off, or not asked for longer than that
//! ```
//!
//! The back-off doubles when a node relapses soon after it was normal again.
//!
//! Must not know: latencies, peers.

use crate::config::AdaptiveConfig;
use crate::limits::BACKOFF_LEVEL_MAX;

/// A relapse within so many back-offs, and [`RELAPSE_US`], doubles the back-off.
const RELAPSE_BACKOFFS: u64 = 4;
const RELAPSE_US: u64 = 30_000_000;

/// Standing of one class of a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    is_slow: bool,
    changed_us: u64,
    /// Slow time less good time, while normal.
    bad_us: u64,
    /// Bad windows in a row.
    bad_windows: u32,
    /// Of the good answers in a row, while fail-slow.
    good_since_us: Option<u64>,
    good_samples: u32,
    /// How often the back-off was doubled.
    level: u32,
}

impl Standing {
    pub fn is_slow(&self) -> bool {
        self.is_slow
    }

    fn backoff_us(&self, config: &AdaptiveConfig) -> u64 {
        config.clear_us.saturating_mul(1 << self.level).min(config.clear_us_max)
    }

    /// Slow for `time_us`. True: that makes it fail-slow.
    pub fn bad(&mut self, time_us: u64, patience_us: u64) -> bool {
        if self.is_slow {
            self.good_since_us = None;
            self.good_samples = 0;
            return false;
        }
        self.bad_us += time_us;
        self.bad_us >= patience_us
    }

    /// Good for `time_us`, with so many answers. True: that makes it normal.
    pub fn good(&mut self, time_us: u64, samples: u32, now_us: u64, config: &AdaptiveConfig) -> bool {
        if !self.is_slow {
            self.bad_us = self.bad_us.saturating_sub(time_us);
            return false;
        }
        let since_us = *self.good_since_us.get_or_insert(now_us);
        self.good_samples = self.good_samples.saturating_add(samples);
        self.good_samples >= config.clear_samples && now_us - since_us >= self.backoff_us(config)
    }

    /// A window is over. True: that makes it fail-slow.
    pub fn window(&mut self, is_bad: bool, config: &AdaptiveConfig) -> bool {
        self.bad_windows = if is_bad && !self.is_slow { self.bad_windows + 1 } else { 0 };
        self.bad_windows >= config.windows
    }

    pub fn set_slow(&mut self, now_us: u64, config: &AdaptiveConfig) {
        let soon_us = RELAPSE_US.max(RELAPSE_BACKOFFS * self.backoff_us(config));
        let is_relapse = self.changed_us > 0 && now_us - self.changed_us < soon_us;
        let level = if is_relapse { (self.level + 1).min(BACKOFF_LEVEL_MAX) } else { 0 };
        *self = Standing { is_slow: true, changed_us: now_us, level, ..Standing::default() };
    }

    pub fn set_normal(&mut self, now_us: u64) {
        *self = Standing { is_slow: false, changed_us: now_us, level: self.level, ..Standing::default() };
    }

    /// Fail-slow for longer than the back-off.
    pub fn is_served(&self, now_us: u64, config: &AdaptiveConfig) -> bool {
        self.is_slow && now_us - self.changed_us >= self.backoff_us(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: AdaptiveConfig = AdaptiveConfig {
        slice_samples: 4,
        floor_us: 2000,
        ratio: 3,
        patience_us: 80,
        window_floor_us: 1000,
        windows: 3,
        window_us: 1000,
        clear_us: 500,
        clear_us_max: 3000,
        clear_samples: 5,
    };

    #[test]
    fn good_time_pays_for_slow_time() {
        let mut standing = Standing::default();
        assert!(!standing.bad(70, 80));
        assert!(!standing.good(30, 9, 0, &CONFIG));
        assert!(!standing.bad(39, 80));
        assert!(standing.bad(1, 80));
    }

    #[test]
    fn only_windows_in_a_row_count() {
        let mut standing = Standing::default();
        assert!([true, true, false, true, true].iter().all(|&bad| !standing.window(bad, &CONFIG)));
        assert!(standing.window(true, &CONFIG));
    }

    #[test]
    fn normal_again_after_the_back_off_and_enough_good_answers() {
        let mut standing = Standing::default();
        standing.set_slow(1000, &CONFIG);
        assert!(!standing.good(10, 4, 2000, &CONFIG));
        assert!(!standing.good(10, 4, 2499, &CONFIG), "too soon");
        assert!(!standing.bad(10, 80), "and it begins anew");
        assert!(!standing.good(10, 1, 3000, &CONFIG));
        assert!(!standing.good(10, 3, 3500, &CONFIG), "four answers");
        assert!(standing.good(10, 1, 3500, &CONFIG));
    }

    #[test]
    fn relapses_double_the_back_off_up_to_its_limit() {
        let mut standing = Standing::default();
        let mut now_us = 0;
        let mut seen = Vec::new();
        for _ in 0..5 {
            now_us += 100;
            standing.set_slow(now_us, &CONFIG);
            seen.push(standing.backoff_us(&CONFIG));
            now_us += 100;
            standing.set_normal(now_us);
        }
        assert_eq!(seen, [500, 1000, 2000, 3000, 3000]);
        standing.set_slow(now_us + RELAPSE_US, &CONFIG);
        assert_eq!(standing.backoff_us(&CONFIG), 500, "it was good for long");
    }
}
