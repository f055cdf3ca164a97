//! Latencies as a gateway reports them: how many requests of a node fell into each class.
//!
//! The classes are the same everywhere and for ever, so that reports of gateways add up, and so that what was counted
//! between two reports is their difference. Only classes that counted something are listed.

use serde::{Deserialize, Serialize};

/// Upper bounds of the classes in microseconds, ascending: six a decade from 10 us to 10 s, at most a factor of 1.7
/// apart. What took longer is in one more class, whose bound is [`u64::MAX`].
pub const LATENCY_BOUNDS_US: [u64; 37] = [
    10, 14, 20, 30, 50, 70, 100, 140, 200, 300, 500, 700, 1_000, 1_400, 2_000, 3_000, 5_000, 7_000, 10_000, 14_000,
    20_000, 30_000, 50_000, 70_000, 100_000, 140_000, 200_000, 300_000, 500_000, 700_000, 1_000_000, 1_400_000,
    2_000_000, 3_000_000, 5_000_000, 7_000_000, 10_000_000,
];

/// Classes that a histogram may list.
pub const LATENCY_CLASS_COUNT_MAX: usize = LATENCY_BOUNDS_US.len() + 1;

/// Requests counted by latency, since the start of whoever counts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct LatencyHistogram {
    /// Upper bound in microseconds and requests, ascending by bound; classes without requests are left out.
    pub classes: Vec<(u64, u64)>,
    /// Of all requests together, in microseconds.
    pub sum_us: u64,
}

impl LatencyHistogram {
    /// Counts `count` requests that took `latency_us` each, or no more than that.
    pub fn add(&mut self, latency_us: u64, count: u64) {
        if count == 0 {
            return;
        }
        let place = LATENCY_BOUNDS_US.partition_point(|&bound| bound < latency_us);
        let bound = LATENCY_BOUNDS_US.get(place).copied().unwrap_or(u64::MAX);
        self.add_class(bound, count);
        self.sum_us = self.sum_us.saturating_add(latency_us.saturating_mul(count));
    }

    /// Requests of both.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        other.classes.iter().for_each(|&(bound, count)| self.add_class(bound, count));
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        self
    }

    /// Requests counted since `earlier`, a report of the same counter. If that was one's former life, all of them.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut left = self.clone();
        for &(bound, count) in &earlier.classes {
            let Ok(place) = left.place_of(bound) else { return self.clone() };
            let Some(rest) = left.classes[place].1.checked_sub(count) else { return self.clone() };
            left.classes[place].1 = rest;
        }
        left.classes.retain(|&(_, count)| count > 0);
        left.sum_us = self.sum_us.saturating_sub(earlier.sum_us);
        left
    }

    pub fn count(&self) -> u64 {
        self.classes.iter().fold(0, |sum, &(_, count)| sum.saturating_add(count))
    }

    /// Requests that took no longer than `bound_us`, one of [`LATENCY_BOUNDS_US`].
    pub fn count_within(&self, bound_us: u64) -> u64 {
        let within = self.classes.iter().take_while(|&&(bound, _)| bound <= bound_us);
        within.fold(0, |sum, &(_, count)| sum.saturating_add(count))
    }

    /// The latency that `share_ppm` of a million requests did not exceed, straight between the bounds of its class;
    /// `None` when nothing was counted.
    pub fn percentile_us(&self, share_ppm: u32) -> Option<u64> {
        let total = u128::from(self.count());
        if total == 0 {
            return None;
        }
        let wanted = (total * u128::from(share_ppm)).div_ceil(1_000_000).max(1);
        let mut below = 0;
        for &(bound, count) in &self.classes {
            let count = u128::from(count);
            if below + count >= wanted {
                let place = LATENCY_BOUNDS_US.partition_point(|&other| other < bound);
                let floor = if place == 0 { 0 } else { LATENCY_BOUNDS_US[place - 1] };
                // Beyond the last bound nothing is known but that it was exceeded.
                let width = u128::from(if bound == u64::MAX { 0 } else { bound - floor });
                return Some(floor + u64::try_from(width * (wanted - below) / count).unwrap_or(u64::MAX));
            }
            below += count;
        }
        None
    }

    /// Whether it came from one that counts as this one does: known bounds in order.
    pub fn is_well_formed(&self) -> bool {
        let is_known = |bound: u64| bound == u64::MAX || LATENCY_BOUNDS_US.binary_search(&bound).is_ok();
        self.classes.len() <= LATENCY_CLASS_COUNT_MAX
            && self.classes.iter().all(|&(bound, _)| is_known(bound))
            && self.classes.is_sorted_by(|one, other| one.0 < other.0)
    }

    fn add_class(&mut self, bound: u64, count: u64) {
        match self.place_of(bound) {
            Ok(place) => self.classes[place].1 = self.classes[place].1.saturating_add(count),
            Err(place) => self.classes.insert(place, (bound, count)),
        }
    }

    fn place_of(&self, bound: u64) -> Result<usize, usize> {
        self.classes.binary_search_by_key(&bound, |&(bound, _)| bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(latencies_us: &[u64]) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::default();
        latencies_us.iter().for_each(|&latency_us| histogram.add(latency_us, 1));
        assert!(histogram.is_well_formed());
        histogram
    }

    #[test]
    fn a_latency_is_in_the_class_that_ends_with_it_or_just_above() {
        let histogram = counted(&[0, 10, 11, 50, 10_000_000, 10_000_001]);
        assert_eq!(histogram.classes, [(10, 2), (14, 1), (50, 1), (10_000_000, 1), (u64::MAX, 1)]);
        assert_eq!((histogram.count(), histogram.count_within(14), histogram.count_within(7)), (6, 3, 0));
        assert_eq!(histogram.sum_us, 20_000_072);
    }

    #[test]
    fn percentiles_lie_within_their_class() {
        assert_eq!(LatencyHistogram::default().percentile_us(500_000), None);
        let mut histogram = LatencyHistogram::default();
        histogram.add(100, 98);
        histogram.add(50_000, 2);
        assert_eq!(histogram.percentile_us(500_000), Some(70 + 30 * 49 / 98));
        assert_eq!(histogram.percentile_us(980_000), Some(100));
        assert_eq!(histogram.percentile_us(990_000), Some(40_000));
        assert_eq!(histogram.percentile_us(1_000_000), Some(50_000));
        assert_eq!(counted(&[20_000_000]).percentile_us(500_000), Some(10_000_000));
    }

    #[test]
    fn reports_add_up_and_take_apart() {
        let (early, late) = (counted(&[5, 90, 90]), counted(&[5, 90, 90, 90, 4_000]));
        assert_eq!(late.since(&early), counted(&[90, 4_000]));
        assert_eq!(early.clone().plus(&counted(&[90, 4_000])), late);
        assert_eq!(early.since(&late), early, "a counter that began anew");
        assert_eq!(late.since(&LatencyHistogram::default()), late);
    }

    #[test]
    fn what_no_one_of_us_sent_is_told_apart() {
        for classes in [vec![(11, 1)], vec![(14, 1), (10, 1)], vec![(10, 1), (10, 1)]] {
            assert!(!LatencyHistogram { classes, sum_us: 0 }.is_well_formed());
        }
        let every = LATENCY_BOUNDS_US.iter().chain(&[u64::MAX]).map(|&bound| (bound, 1)).collect();
        assert!(LatencyHistogram { classes: every, sum_us: 0 }.is_well_formed());
    }
}
