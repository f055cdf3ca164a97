//! A stretch of a run, cut out afterwards: before a fault, the second in which it happens, once it is known.
//!
//! An operation belongs to the stretch in which it was meant to start, however long it took.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::limits::LATENCY_NS_MAX;
use crate::report::LatencyReport;
use crate::samples::Sample;
use crate::workload::OperationClass;

/// What an operation is to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    Reads,
    Writes,
    All,
}

impl Side {
    fn has(self, class: OperationClass) -> bool {
        let reads = matches!(class, OperationClass::Get | OperationClass::MultiGet);
        match self {
            Side::Reads => reads,
            Side::Writes => !reads,
            Side::All => true,
        }
    }
}

/// A stretch of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Window {
    pub seconds: f64,
    /// Operations that were meant to start in it and were answered.
    pub operations: u64,
    pub failed: u64,
    pub throughput_per_s: f64,
    pub reads: LatencyReport,
    pub writes: LatencyReport,
    pub all: LatencyReport,
}

impl Window {
    /// The operations meant to start from `from_s` on and before `to_s`.
    pub fn of(samples: &[Sample], from_s: f64, to_s: f64) -> Self {
        let bound = |seconds: f64| (seconds * 1e9) as u64;
        let (from_ns, to_ns) = (bound(from_s), bound(to_s));
        let inside: Vec<&Sample> =
            samples.iter().filter(|sample| (from_ns..to_ns).contains(&sample.intended_ns)).collect();
        let failed = inside.iter().filter(|sample| sample.is_failed).count() as u64;
        let operations = inside.len() as u64 - failed;
        let seconds = to_s - from_s;
        Window {
            seconds,
            operations,
            failed,
            throughput_per_s: operations as f64 / seconds,
            reads: latencies(&inside, Side::Reads),
            writes: latencies(&inside, Side::Writes),
            all: latencies(&inside, Side::All),
        }
    }

    pub fn side(&self, side: Side) -> &LatencyReport {
        match side {
            Side::Reads => &self.reads,
            Side::Writes => &self.writes,
            Side::All => &self.all,
        }
    }
}

fn latencies(samples: &[&Sample], side: Side) -> LatencyReport {
    let mut histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("constant bounds are legal");
    for sample in samples.iter().filter(|sample| side.has(sample.class)) {
        histogram.saturating_record(sample.latency_ns);
    }
    LatencyReport::new(&histogram)
}

/// Operations answered in each `slice_s` from 0 on, and their p99 in microseconds; for a picture over time.
pub fn over_time(samples: &[Sample], slice_s: f64, side: Side) -> Vec<(f64, f64, f64)> {
    let end_s = samples.iter().map(|sample| sample.intended_ns).max().unwrap_or(0) as f64 / 1e9;
    let slices = (end_s / slice_s).ceil() as usize;
    let mut sorted: Vec<Vec<u64>> = vec![Vec::new(); slices + 1];
    for sample in samples.iter().filter(|sample| side.has(sample.class)) {
        sorted[(sample.intended_ns as f64 / 1e9 / slice_s) as usize].push(sample.latency_ns);
    }
    let slices = sorted.iter_mut().enumerate().filter(|(_, slice)| !slice.is_empty());
    slices
        .map(|(index, slice)| {
            slice.sort_unstable();
            let p99 = slice[(slice.len() - 1).min(slice.len() * 99 / 100)];
            (index as f64 * slice_s, slice.len() as f64 / slice_s, p99 as f64 / 1e3)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64, latency_ms: u64, class: OperationClass) -> Sample {
        Sample { intended_ns: at_ms * 1_000_000, latency_ns: latency_ms * 1_000_000, class, is_failed: false }
    }

    #[test]
    fn a_window_has_what_was_meant_to_start_in_it() {
        let (get, set) = (OperationClass::Get, OperationClass::Set);
        let mut samples = vec![
            sample(0, 1, get),
            sample(999, 3, set),
            sample(1000, 50, get),
            sample(1500, 2, OperationClass::Delete),
        ];
        samples.push(Sample { is_failed: true, ..sample(1999, 70, set) });
        let (first, second) = (Window::of(&samples, 0.0, 1.0), Window::of(&samples, 1.0, 2.0));
        assert_eq!((first.operations, first.reads.count, first.writes.count), (2, 1, 1));
        assert_eq!((second.operations, second.failed, second.writes.count, second.all.count), (2, 1, 2, 3));
        assert!(second.writes.max_us > 69_000.0, "a failure counts with its time");
        assert_eq!(first.throughput_per_s, 2.0);
    }

    #[test]
    fn slices_over_time_have_their_own_p99() {
        let samples = [sample(0, 1, OperationClass::Get), sample(250, 9, OperationClass::Get)];
        let slices = over_time(&samples, 0.1, Side::Reads);
        assert_eq!(slices, [(0.0, 10.0, 1_000.0), (0.2, 10.0, 9_000.0)]);
        assert_eq!(over_time(&samples, 0.1, Side::Writes), []);
    }
}
