//! A run as the engine sees it: the user's options, checked and completed.

use crate::choice::KeyChoice;
use crate::codec::Codec;
use crate::history::Absence;
use crate::names::Names;
use crate::pacer::{Arrivals, Limit};
use crate::workload::Mix;

/// Everything the threads of one run share.
#[derive(Clone, Debug)]
pub struct Plan {
    pub codec: Codec,
    pub names: Names,
    /// Keys at the start; inserts add to them.
    pub keys: u32,
    pub choice: KeyChoice,
    pub mix: Mix,
    /// Most keys of one multi-get, at least 1.
    pub multi_get_max: u32,
    /// Acknowledged keys must not be absent.
    pub expect_all: bool,
    /// An earlier run stored every key: they count as acknowledged.
    pub stored_before: bool,
    /// Operations a second of all threads; none is a closed loop.
    pub rate: Option<f64>,
    pub arrivals: Arrivals,
    pub warm_up_ns: u64,
    pub limit: Limit,
    /// Every operation of the measured phase is kept by itself.
    pub keep_samples: bool,
    pub seed: u64,
    /// Operations in flight per connection.
    pub pipeline: usize,
    /// Connections of all threads.
    pub connections: usize,
    pub threads: u32,
    /// Age at which an unanswered operation fails.
    pub timeout_ns: u64,
}

impl Plan {
    /// What it means that an acknowledged key is absent.
    pub fn absence(&self) -> Absence {
        match (&self.names.lifetimes, self.expect_all) {
            (Some(_), _) => Absence::Expired,
            (None, true) => Absence::Lost,
            (None, false) => Absence::Evicted,
        }
    }
}
