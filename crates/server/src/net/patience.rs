//! Whether a loop that finds nothing to do should ask again at once instead of going to sleep.
//!
//! Waking a sleeping loop costs a few microseconds of somebody's CPU and tens of microseconds of latency. Where events
//! follow each other closely it is cheaper to keep asking, and to let others run in between. Where they do not, asking
//! only burns a core. So a loop keeps asking for as long as a sleep would be short, and only while most of its recent
//! waits were.
//!
//! Must not know: clocks, sockets.

/// Longest time of asking, in microseconds: about what a request and its answer take on one machine.
pub const ASK_US_MAX: u64 = 60;

/// Recent short waits, less recent long ones (each counts as four), that make asking worthwhile, and the most that is
/// remembered.
const WORTHWHILE: u32 = 16;
const SCORE_MAX: u32 = 32;
const LONG_WAIT_COST: u32 = 4;

#[derive(Debug, Default)]
pub struct Patience {
    score: u32,
}

impl Patience {
    /// Should the loop ask for up to [`ASK_US_MAX`] before it sleeps?
    pub fn asks(&self) -> bool {
        self.score >= WORTHWHILE
    }

    /// Something came after a wait of this long, asleep or asking.
    pub fn waited(&mut self, wait_us: u64) {
        self.score = match wait_us <= ASK_US_MAX {
            true => (self.score + 1).min(SCORE_MAX),
            false => self.score.saturating_sub(LONG_WAIT_COST),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_asks_while_events_follow_each_other_closely() {
        let mut patience = Patience::default();
        assert!(!patience.asks());
        (0..WORTHWHILE).for_each(|_| patience.waited(20));
        assert!(patience.asks());
        (0..SCORE_MAX).for_each(|_| patience.waited(0));
        (0..4).for_each(|_| patience.waited(10_000));
        assert!(patience.asks());
        patience.waited(10_000);
        assert!(!patience.asks(), "long waits weigh more than short ones");
    }
}
