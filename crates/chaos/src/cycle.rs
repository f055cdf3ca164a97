//! Alternation: bad for a while, good for a while, beginning with bad.

use serde::{Deserialize, Serialize};

/// Phases in microseconds; neither is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cycle {
    pub bad_us: u64,
    pub good_us: u64,
}

impl Cycle {
    /// Is it bad `since_us` after the start?
    pub fn is_bad(self, since_us: u64) -> bool {
        since_us % self.period_us() < self.bad_us
    }

    /// From `since_us` after the start on, when it is good: then already, or at the end of the bad phase.
    pub fn good_from(self, since_us: u64) -> u64 {
        let phase_us = since_us % self.period_us();
        since_us + self.bad_us.saturating_sub(phase_us)
    }

    fn period_us(self) -> u64 {
        self.bad_us.saturating_add(self.good_us).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_bad_and_repeats() {
        let cycle = Cycle { bad_us: 50, good_us: 2 };
        let bad: Vec<u64> = (0..110).filter(|&at| !cycle.is_bad(at)).collect();
        assert_eq!(bad, [50, 51, 102, 103]);
        assert_eq!([0, 49, 50, 51, 52].map(|at| cycle.good_from(at)), [50, 50, 50, 51, 102]);
    }
}
