//! What operations took before a node dies, and in each phase after.

use std::ops::Range;

use anyhow::Context;
use serde::Serialize;

use super::{Course, SETTLING_S};
use crate::samples::Sample;

/// So many of the slowest operations are told.
const SLOWEST: usize = 32;

/// What operations took in each phase.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Phases {
    pub healthy: Latencies,
    pub counting: Latencies,
    pub beside: Latencies,
    pub degraded: Latencies,
    pub repairing: Latencies,
}

/// Percentiles, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Latencies {
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub longest_us: f64,
}

/// Nanoseconds of each operation, by the phase in which it was meant to start.
#[derive(Default)]
pub struct PhaseSamples {
    pub healthy: Vec<u64>,
    pub counting: Vec<u64>,
    pub beside: Vec<u64>,
    pub degraded: Vec<u64>,
    pub repairing: Vec<u64>,
}

impl PhaseSamples {
    pub fn of(samples: &[Sample], course: &Course) -> Self {
        let of = |span| within(samples, span).map(|sample| sample.latency_ns).collect();
        PhaseSamples {
            healthy: of(0.0..course.counting_from_s),
            counting: of(course.counting_from_s..course.counting_to_s),
            beside: of(course.beside_from_s..course.beside_to_s),
            degraded: of(course.killed_s + SETTLING_S..course.given_up_s),
            repairing: of(course.given_up_s..course.whole_s),
        }
    }

    pub fn extend(&mut self, other: PhaseSamples) {
        self.healthy.extend(other.healthy);
        self.counting.extend(other.counting);
        self.beside.extend(other.beside);
        self.degraded.extend(other.degraded);
        self.repairing.extend(other.repairing);
    }

    /// # Errors
    /// A phase has no operations.
    pub fn phases(&self) -> anyhow::Result<Phases> {
        Ok(Phases {
            healthy: latencies(&self.healthy).context("no operations before the kill")?,
            counting: latencies(&self.counting).context("no operations while half of the processors count")?,
            beside: latencies(&self.beside).context("no operations beside the estimate's work")?,
            degraded: latencies(&self.degraded).context("no operations before the repair: raise --rate")?,
            repairing: latencies(&self.repairing).context("no operations during repair: raise --rate")?,
        })
    }
}

/// The slowest operations that were meant to start in the span, in their order: seconds since it began, microseconds.
pub fn slowest(samples: &[Sample], span: Range<f64>) -> Vec<(f64, f64)> {
    let from_s = span.start;
    let mut operations: Vec<&Sample> = within(samples, span).collect();
    operations.sort_unstable_by_key(|sample| std::cmp::Reverse(sample.latency_ns));
    operations.truncate(SLOWEST);
    operations.sort_unstable_by_key(|sample| sample.intended_ns);
    let told = |sample: &Sample| (sample.intended_ns as f64 / 1e9 - from_s, sample.latency_ns as f64 / 1e3);
    operations.into_iter().map(told).collect()
}

fn within(samples: &[Sample], span: Range<f64>) -> impl Iterator<Item = &Sample> {
    samples.iter().filter(move |sample| span.contains(&(sample.intended_ns as f64 / 1e9)))
}

/// `None`: there is none.
fn latencies(nanoseconds: &[u64]) -> Option<Latencies> {
    let mut sorted = nanoseconds.to_vec();
    sorted.sort_unstable();
    let us = |ns: u64| ns as f64 / 1e3;
    let longest_us = us(*sorted.last()?);
    let at = |per_mille: usize| us(sorted[(sorted.len() * per_mille).div_ceil(1000) - 1]);
    let [p50_us, p90_us, p99_us, p999_us] = [500, 900, 990, 999].map(at);
    Some(Latencies { p50_us, p90_us, p99_us, p999_us, longest_us })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::OperationClass;

    fn samples() -> Vec<Sample> {
        let sample = |ms: u64, us: u64| Sample {
            intended_ns: ms * 1_000_000,
            latency_ns: us * 1_000,
            class: OperationClass::Get,
            is_failed: false,
        };
        (0..200).map(|at| sample(at, if at < 100 { at + 1 } else { 5_000 })).collect()
    }

    #[test]
    fn percentiles_are_of_the_operations_meant_to_start_in_the_span() {
        let of = |span| latencies(&within(&samples(), span).map(|sample| sample.latency_ns).collect::<Vec<_>>());
        let first = Latencies { p50_us: 50.0, p90_us: 90.0, p99_us: 99.0, p999_us: 100.0, longest_us: 100.0 };
        assert_eq!(of(0.0..0.1), Some(first));
        assert_eq!(of(0.1..0.2).map(|second| second.p50_us), Some(5_000.0));
        assert_eq!(of(1.0..2.0), None);
    }

    #[test]
    fn the_slowest_of_a_span_are_told_in_their_order() {
        let told = slowest(&samples(), 0.0..0.1);
        assert_eq!(told.len(), SLOWEST);
        assert!(told.is_sorted_by(|one, other| one.0 < other.0) && told[0].1 == 69.0, "{told:?}");
        assert_eq!(told.last().map(|last| last.1), Some(100.0));
    }
}
