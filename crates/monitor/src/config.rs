//! What an operator or an experiment may set.

use crate::limits::{HEDGE_US_MAX, HEDGE_US_MIN};

/// The rule that turns latencies into verdicts.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Detector {
    /// Nodes are compared with their peers, over slices and over a horizon. See `adaptive.rs`.
    #[default]
    Adaptive,
    /// One slice whose mean exceeds `x` is a verdict. See `fixed.rs`.
    Fixed {
        /// Also judge a slice by the age of what is outstanding; otherwise only when all its requests have ended.
        by_age: bool,
    },
    /// Latencies are kept, nobody is judged.
    Off,
}

/// Settings of a [`crate::Monitor`]; all of them may change while it runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MonitorConfig {
    pub detector: Detector,
    /// Length `t` of a slice. `None`: follows the rate of requests.
    pub slice_us: Option<u64>,
    /// Threshold `x`: no slice with a lower mean is slow. `None`: follows the latency of the normal nodes.
    pub threshold_us: Option<u64>,
    /// Requests of one node and class that a slice of the fixed rule should have: `t` is chosen for it.
    pub slice_samples: u32,
    /// How many nodes [`crate::Monitor::avoided`] names at most: parity chunks of a stripe.
    pub avoid_max: usize,
    /// Least time between two probes of a fail-slow node.
    pub probe_interval_us: u64,
    /// Bounds of the hedge delay.
    pub hedge_us_min: u64,
    pub hedge_us_max: u64,
    pub adaptive: AdaptiveConfig,
}

/// Settings of the adaptive detector. How each was chosen: decision 0008.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdaptiveConfig {
    /// Requests of one node and class that a slice should have.
    pub slice_samples: u32,
    /// A slice is slow when its mean exceeds what the peers would have taken by this much ...
    pub floor_us: u64,
    /// ... and is more than so many times as long.
    pub ratio: u64,
    /// Slow slices, less good ones, must add up to this and two slices before they are a verdict: a hiccup is shorter.
    pub patience_us: u64,
    /// Over a window of the horizon, less than the floor of a slice is enough ...
    pub window_floor_us: u64,
    /// ... if so many windows in a row agree.
    pub windows: u32,
    pub window_us: u64,
    /// How long a fail-slow node must be good again, the first time. Doubles each time it relapses.
    pub clear_us: u64,
    pub clear_us_max: u64,
    /// Good answers that are needed to be normal again.
    pub clear_samples: u32,
}

impl Default for AdaptiveConfig {
    fn default() -> Self {
        AdaptiveConfig {
            slice_samples: 4,
            floor_us: 2_000,
            ratio: 3,
            patience_us: 60_000,
            window_floor_us: 1_000,
            windows: 3,
            window_us: 1_000_000,
            clear_us: 500_000,
            clear_us_max: 30_000_000,
            clear_samples: 5,
        }
    }
}

impl Default for MonitorConfig {
    fn default() -> Self {
        MonitorConfig {
            detector: Detector::Adaptive,
            slice_us: None,
            threshold_us: None,
            slice_samples: 16,
            avoid_max: 2,
            probe_interval_us: 50_000,
            hedge_us_min: HEDGE_US_MIN,
            hedge_us_max: HEDGE_US_MAX,
            adaptive: AdaptiveConfig::default(),
        }
    }
}
