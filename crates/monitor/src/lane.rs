//! What all nodes share in one class: the slices, what sizes usually take, and the calibration of `t` and `x`.
//!
//! Must not know: single nodes, verdicts.

use crate::config::MonitorConfig;
use crate::limits::{SLICE_US_MAX, SLICE_US_MIN};
use crate::size::SizeModel;

/// Length of a slice until `t` is calibrated.
const FIRST_SLICE_US: u64 = 20_000;
/// Calibration takes at least so long, and so many requests of a node on average.
const CALIBRATION_US: u64 = 500_000;
const CALIBRATION_SAMPLES: u64 = 32;
/// `t` follows the rate of requests this often ...
const TEMPO_US: u64 = 1_000_000;
/// ... if it would change by more than a quarter.
const TEMPO_CHANGE: u64 = 4;
/// `x` is so many times the mean of the normal nodes (ShortTail 3.1).
const THRESHOLD_RATIO: u64 = 3;
/// The mean of the normal nodes moves by 1/8 with each slice; kept in units of 1/16 us.
const MEAN_GAIN: u64 = 8;
const MEAN_UNIT: u64 = 16;

/// Slices of one class and what is learnt over all nodes.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Number of the slice that runs now, from 1.
    slice: u32,
    start_us: u64,
    end_us: u64,
    length_us: u64,
    /// The slice that ran when nodes were judged last, and when that was.
    judged_slice: u32,
    judged_us: u64,
    pub sizes: SizeModel,
    /// A latency counts at most this much in the mean of a slice.
    pub clip_us: u64,
    /// Since when requests are counted for the rate.
    tempo_us: Option<u64>,
    starts: u64,
    is_calibrated: bool,
    /// Mean of the normal nodes.
    mean: Option<u64>,
}

/// A stretch of time after which nodes are judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Period {
    /// The slice that runs now; those before it are over.
    pub slice: u32,
    pub now_us: u64,
    /// Since the last judgement, at most two slices: nobody looked in between.
    pub length_us: u64,
}

impl Lane {
    pub fn new(config: &MonitorConfig, now_us: u64) -> Self {
        let length_us = config.slice_us.unwrap_or(FIRST_SLICE_US).max(1);
        Lane {
            slice: 1,
            start_us: now_us,
            end_us: now_us + length_us,
            length_us,
            judged_slice: 1,
            judged_us: now_us,
            sizes: SizeModel::default(),
            clip_us: u64::MAX,
            tempo_us: None,
            starts: 0,
            is_calibrated: false,
            mean: None,
        }
    }

    /// The slice at this time.
    #[inline]
    pub fn slice_at(&mut self, now_us: u64) -> u32 {
        if now_us >= self.end_us {
            self.roll(now_us);
        }
        self.slice
    }

    #[cold]
    fn roll(&mut self, now_us: u64) {
        // Slices in which nobody looked need no number: nothing started in them.
        let passed = (now_us - self.start_us) / self.length_us;
        self.start_us += passed * self.length_us;
        self.end_us = self.start_us + self.length_us;
        self.slice += 1;
    }

    /// A request of this class starts.
    #[inline]
    pub fn count(&mut self) {
        self.starts += 1;
    }

    /// When nodes are to be judged next: at the end of the slice that runs, or now if one ended since.
    pub fn due_us(&self) -> u64 {
        if self.slice == self.judged_slice { self.end_us } else { self.start_us }
    }

    pub fn slice_us(&self) -> u64 {
        self.length_us
    }

    pub fn is_calibrated(&self) -> bool {
        self.is_calibrated
    }

    /// The period that is over, if a slice ended since the last one.
    pub fn period(&mut self, now_us: u64) -> Option<Period> {
        let slice = self.slice_at(now_us);
        if slice == self.judged_slice {
            return None;
        }
        let length_us = (now_us - self.judged_us).min(2 * self.length_us);
        self.judged_slice = slice;
        self.judged_us = now_us;
        Some(Period { slice, now_us, length_us })
    }

    /// Follows the rate of requests, `active` nodes being asked, so that a slice has so many samples of a node. The end
    /// of the first such period switches detection on.
    pub fn follow(&mut self, now_us: u64, active: usize, samples: u32, set_us: Option<u64>) {
        let Some(since_us) = self.tempo_us else {
            if self.starts > 0 {
                (self.tempo_us, self.starts) = (Some(now_us), 0);
            }
            return;
        };
        let elapsed_us = now_us - since_us;
        let active = active.max(1) as u64;
        let enough = if self.is_calibrated {
            elapsed_us >= TEMPO_US
        } else {
            elapsed_us >= CALIBRATION_US && self.starts >= CALIBRATION_SAMPLES * active
        };
        if !enough {
            return;
        }
        let wanted_us = match set_us {
            Some(us) => us.max(1),
            None => {
                let slice_us = u64::from(samples) * elapsed_us * active / self.starts.max(1);
                slice_us.clamp(SLICE_US_MIN, SLICE_US_MAX)
            }
        };
        if !self.is_calibrated || wanted_us.abs_diff(self.length_us) > self.length_us / TEMPO_CHANGE {
            self.length_us = wanted_us;
        }
        self.is_calibrated = true;
        (self.tempo_us, self.starts) = (Some(now_us), 0);
    }

    /// Latencies of the normal nodes in a slice.
    pub fn learn_mean(&mut self, sum_us: u64, samples: u64) {
        let Some(latest) = (sum_us * MEAN_UNIT).checked_div(samples) else { return };
        let mean = self.mean.get_or_insert(latest);
        *mean = (*mean * (MEAN_GAIN - 1) + latest) / MEAN_GAIN;
    }

    pub fn mean_us(&self) -> u64 {
        self.mean.unwrap_or(0) / MEAN_UNIT
    }

    /// `x`: as set, or three times the mean of the normal nodes.
    pub fn threshold_us(&self, config: &MonitorConfig) -> Option<u64> {
        config.threshold_us.or(self.mean.map(|mean| (mean * THRESHOLD_RATIO / MEAN_UNIT).max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_ends_once() {
        let config = MonitorConfig { slice_us: Some(100), ..MonitorConfig::default() };
        let mut lane = Lane::new(&config, 1000);
        assert_eq!((lane.slice_at(1099), lane.period(1099)), (1, None));
        assert_eq!((lane.due_us(), lane.slice_at(1100), lane.due_us()), (1100, 2, 1100));
        assert_eq!(lane.period(1110), Some(Period { slice: 2, now_us: 1110, length_us: 110 }));
        assert_eq!(lane.period(1199), None);
        assert_eq!(lane.period(2000), Some(Period { slice: 3, now_us: 2000, length_us: 200 }));
        assert_eq!(lane.due_us(), 2100);
    }

    #[test]
    fn slices_are_as_long_as_the_rate_of_requests_wants() {
        let config = MonitorConfig::default();
        let mut lane = Lane::new(&config, 0);
        let mut run = |from_us: u64, to_us: u64, step_us: usize| {
            for now_us in (from_us..to_us).step_by(step_us) {
                lane.count();
                lane.follow(now_us, 4, 16, None);
            }
            (lane.is_calibrated(), lane.slice_us())
        };
        // Four nodes share a request each 250 us: each node has one in a millisecond.
        assert!(!run(0, 400_000, 250).0);
        assert_eq!(run(400_000, 1_000_000, 250), (true, 16_000));
        assert_eq!(run(1_000_000, 4_000_000, 10_000), (true, SLICE_US_MAX));
        assert_eq!(run(4_000_000, 6_000_000, 10), (true, SLICE_US_MIN));
    }

    #[test]
    fn the_threshold_is_three_means_of_the_normal_nodes() {
        let config = MonitorConfig::default();
        let mut lane = Lane::new(&config, 0);
        assert_eq!(lane.threshold_us(&config), None);
        lane.learn_mean(4000, 10);
        assert_eq!(lane.threshold_us(&config), Some(1200));
        (0..100).for_each(|_| lane.learn_mean(8000, 10));
        assert!(lane.threshold_us(&config).expect("it is calibrated").abs_diff(2400) < 10);
        assert_eq!(lane.threshold_us(&MonitorConfig { threshold_us: Some(7), ..config }), Some(7));
    }
}
