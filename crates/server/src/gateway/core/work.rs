//! How much of the time between two turns a core worked. The rest it was asleep, or waited for a processor.
//!
//! Must not know: what it did.

/// Microseconds between two looks at the clock of the thread, which is a call of the system. What was worked since the
/// last look counts as work since the last turn: it is too much by less than this.
const LOOK_EVERY_US: u64 = 5_000;

#[derive(Debug, Default)]
pub struct Work {
    turn_us: u64,
    looked_us: u64,
    /// What the thread had worked then.
    worked_us: u64,
}

impl Work {
    /// A turn begins. `worked_us`: of the thread, since it began. What it worked since the turn before, at most; 0
    /// where that is too short to matter.
    pub fn since_last_turn(&mut self, now_us: u64, worked_us: impl FnOnce() -> u64) -> u64 {
        let turn_us = now_us.saturating_sub(std::mem::replace(&mut self.turn_us, now_us));
        if now_us < self.looked_us + LOOK_EVERY_US {
            return 0;
        }
        self.looked_us = now_us;
        let worked_us = worked_us();
        let before_us = std::mem::replace(&mut self.worked_us, worked_us);
        worked_us.saturating_sub(before_us).min(turn_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_turn_is_work_as_far_as_the_thread_ran() {
        let mut work = Work::default();
        work.since_last_turn(1_000_000, || 700_000);
        assert_eq!(work.since_last_turn(1_004_000, || panic!("too short to be looked at")), 0);
        assert_eq!(work.since_last_turn(1_054_000, || 751_000), 50_000, "it ran all the time");
        assert_eq!(work.since_last_turn(1_454_000, || 760_000), 9_000, "it was stopped");
        assert_eq!(work.since_last_turn(1_554_000, || 760_100), 100, "it slept");
    }
}
