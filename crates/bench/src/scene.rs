//! One run with a fault in the middle: the load, the fault at its time, and what the cluster says of
//! its nodes meanwhile.
//!
//! ```text
//! seconds   0 ............ healthy | healthy + 1 ............. healthy + faulty
//!           healthy               | onset   | detected
//!                                 fault begins
//! ```
//!
//! The load is one phase and knows nothing of this; it is cut afterwards. Nothing is excused: `detected` begins one
//! second after the fault, whether the cluster noticed by then or not.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;

use crate::admin::Status;
use crate::beside::{Beside, LoadEnd};
use crate::faults::{Fault, Site, Victim};
use crate::load::{self, LoadOptions};
use crate::metrics::Metrics;
use crate::report::LoadReport;
use crate::samples::Sample;
use crate::window::Window;

/// How often the cluster is asked for its status.
const LOOK: Duration = Duration::from_millis(100);

/// Counters reach the coordinator by heartbeats: they may be so old.
pub const COUNTERS_LAG: Duration = Duration::from_millis(1_500);

/// How long a gateway may be missing in the counters.
const COUNTERS_WAIT_MAX: Duration = Duration::from_secs(10);

/// Left out of the healthy window, seconds before the fault: operations that began then may have met it.
const MARGIN_S: f64 = 0.2;

/// Length of the onset, seconds.
pub const ONSET_S: f64 = 1.0;

/// What is done, and when.
pub struct Scene {
    pub site: Site,
    pub fault: Option<(Fault, Victim)>,
    pub healthy_s: f64,
    pub faulty_s: f64,
}

/// What was seen.
pub struct Seen {
    pub report: LoadReport,
    pub samples: Vec<Sample>,
    pub fault_at_s: f64,
    pub watch: Watch,
    pub before: Metrics,
    pub after: Metrics,
}

/// What the status said while the load ran.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Watch {
    /// Nodes that were called fail-slow before the fault, and after it began.
    pub flagged_before: BTreeSet<u64>,
    pub flagged_after: BTreeSet<u64>,
    /// Seconds from the fault until the status named a node. Heartbeats carry it: it is later than the
    /// gateway's verdict.
    pub named_after_s: Option<f64>,
    pub redirect_count: u64,
    /// Looks that failed: a starved machine answers late.
    pub looks_failed: u64,
}

/// The stretches of a run with a fault.
#[derive(Clone, Debug, Serialize)]
pub struct Stretches {
    pub healthy: Window,
    pub onset: Window,
    pub detected: Window,
}

impl Scene {
    /// Runs the load with the fault in it. `load` says everything but its length.
    ///
    /// # Errors
    /// The load or the fault cannot begin, or an answer broke a promise.
    pub fn play(self, load: &LoadOptions) -> anyhow::Result<Seen> {
        let mut load = load.clone();
        // A run by count is long and is not cut.
        (load.seconds, load.keep_samples) = (self.healthy_s + self.faulty_s, load.operations.is_none());
        let admin = self.site.admin.clone();
        let asked = admin.clone();
        let mut beside = Beside::new(move |end| {
            // Counters may be waited for: the time of the fault counts from the phase's start, as those of samples do.
            let started = Instant::now();
            Ok((counters(&asked)?, self.accompany(started, end)?))
        });
        let (report, samples) = load::execute_with_samples(&load, &mut beside)?;
        let beside = beside.finish();
        // First of all, since whoever leaves out what could not be measured must not leave out this.
        load::check(&report)?;
        let (before, (fault_at_s, watch)) = beside?.context("the load had no measured phase")?;
        std::thread::sleep(COUNTERS_LAG);
        let after = counters(&admin)?;
        Ok(Seen { report, samples, fault_at_s, watch, before, after })
    }

    /// Beside the load: begins the fault at its time and takes it back when the load has ended.
    fn accompany(self, started: Instant, end: &LoadEnd) -> anyhow::Result<(f64, Watch)> {
        let mut watch = Watch::default();
        let healthy = Duration::from_secs_f64(self.healthy_s);
        while let Some(rest) = healthy.checked_sub(started.elapsed()).filter(|rest| !rest.is_zero()) {
            if end.within(rest.min(LOOK)) {
                return Ok((started.elapsed().as_secs_f64(), watch));
            }
            watch.look(&self.site.admin, None);
        }
        let fault_at = Instant::now();
        let guard = self.fault.as_ref().map(|(fault, victim)| fault.begin(&self.site, victim)).transpose()?;
        while !end.within(LOOK) {
            watch.look(&self.site.admin, Some(fault_at));
        }
        drop(guard);
        Ok((fault_at.duration_since(started).as_secs_f64(), watch))
    }
}

/// The cluster's counters. A gateway whose heartbeats were late on a busy machine is missing in them for a moment: then
/// they are asked for again, since without it nothing could be compared.
fn counters(admin: &str) -> anyhow::Result<Metrics> {
    let began = Instant::now();
    loop {
        let metrics = Metrics::get(admin)?;
        if metrics.value("shorttail_gateway_serving").is_some() || began.elapsed() > COUNTERS_WAIT_MAX {
            return Ok(metrics);
        }
        std::thread::sleep(LOOK);
    }
}

impl Watch {
    fn look(&mut self, admin: &str, fault_at: Option<Instant>) {
        let Ok(status) = Status::get(admin) else {
            self.looks_failed += 1;
            return;
        };
        self.redirect_count = status.nodes.iter().map(|node| node.redirect_count).sum();
        let flagged = status.fail_slow();
        match fault_at {
            None => self.flagged_before.extend(flagged),
            Some(fault_at) => {
                if !flagged.is_empty() && self.named_after_s.is_none() {
                    self.named_after_s = Some(fault_at.elapsed().as_secs_f64());
                }
                self.flagged_after.extend(flagged);
            }
        }
    }
}

impl Seen {
    /// The run cut at the fault.
    pub fn stretches(&self, scene_s: f64) -> Stretches {
        let at = self.fault_at_s;
        let window = |from_s: f64, to_s: f64| Window::of(&self.samples, from_s, to_s);
        Stretches {
            healthy: window(0.0, (at - MARGIN_S).max(0.0)),
            onset: window(at, at + ONSET_S),
            detected: window(at + ONSET_S, scene_s),
        }
    }

    /// How much a counter grew over the run; none if the cluster has no such counter.
    pub fn grown(&self, name: &str) -> Option<f64> {
        self.after.since(&self.before, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Phase;
    use crate::load::Observer;

    #[test]
    fn the_time_of_the_fault_counts_from_the_start_also_if_counters_were_waited_for() {
        let nobody = Site { program: "/bin/false".into(), admin: "127.0.0.1:1".to_owned() };
        let scene = Scene { site: nobody, fault: None, healthy_s: 0.5, faulty_s: 1.0 };
        let waited = Duration::from_secs(20);
        let mut beside = Beside::new(move |end| {
            let started = Instant::now().checked_sub(waited).context("the machine runs for as long")?;
            scene.accompany(started, end)
        });
        beside.phase_starts(Phase::Measure);
        let (fault_at_s, _) = beside.finish().expect("nothing fails").expect("it started");
        assert!(fault_at_s >= waited.as_secs_f64(), "{fault_at_s}");
    }
}
