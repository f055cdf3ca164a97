//! What the project promises about tails.

use serde::Serialize;

use super::one_slow::OneSlow;
use super::{Results, Scenario};

/// A promise, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Goal {
    pub name: String,
    pub value: f64,
    pub bound: f64,
    pub met: bool,
}

impl Goal {
    fn at_most(name: String, value: f64, bound: f64) -> Self {
        Goal { name, value, bound, met: value <= bound }
    }

    fn at_least(name: String, value: f64, bound: f64) -> Self {
        Goal { name, value, bound, met: value >= bound }
    }
}

/// p99 once detected, beside the healthy one: of a node that answers late, and of real ailments.
const DETECTED_SLOW: f64 = 1.2;
const DETECTED_REAL: f64 = 1.5;
/// p99 in the first second.
const ONSET: f64 = 2.0;
const THROUGHPUT: f64 = 0.95;
/// The default budget of hedges, for each operation.
const HEDGE_SHARE: f64 = 0.05;

/// The promises about what was measured.
pub fn goals(results: &Results) -> Vec<Goal> {
    let mut goals: Vec<Goal> = results.one_slow.iter().flat_map(one_slow).collect();
    for quiet in &results.quiet {
        let name = |what: &str| format!("{}: {what}", quiet.scenario);
        let flagged = quiet.watch.flagged_before.union(&quiet.watch.flagged_after).count() as f64;
        goals.push(Goal::at_most(name("nodes called fail-slow, at most"), flagged, 0.0));
        goals.push(Goal::at_most(name("milliseconds that nodes were called so, at most"), quiet.flagged_ms, 0.0));
        goals.push(Goal::at_most(name("operations failed, at most"), quiet.errors as f64, 0.0));
    }
    if let Some(overload) = &results.overload {
        // The noise of this machine between two equal runs is a few percent.
        let ratio = overload.throughput_with / overload.throughput_without.max(f64::MIN_POSITIVE);
        goals.push(Goal::at_least(
            "overload: throughput with hedges, of that without, at least".to_owned(),
            ratio,
            0.95,
        ));
        if let Some(share) = overload.hedge_share {
            goals.push(Goal::at_most("overload: hedges for each operation, at most".to_owned(), share, HEDGE_SHARE));
        }
    }
    goals
}

fn one_slow(run: &OneSlow) -> Vec<Goal> {
    let name = |what: &str| format!("{}: {what}", run.scenario);
    let detected = if run.scenario == Scenario::Slow { DETECTED_SLOW } else { DETECTED_REAL };
    let ratios = &run.ratios;
    vec![
        Goal::at_most(name("p99 of reads in the first second, of healthy, at most"), ratios.reads_p99_onset, ONSET),
        Goal::at_most(name("p99 of writes in the first second, of healthy, at most"), ratios.writes_p99_onset, ONSET),
        Goal::at_most(name("p99 of reads once detected, of healthy, at most"), ratios.reads_p99_detected, detected),
        Goal::at_most(name("p99 of writes once detected, of healthy, at most"), ratios.writes_p99_detected, detected),
        Goal::at_least(name("throughput, of healthy, at least"), ratios.throughput_detected, THROUGHPUT),
        Goal::at_most(name("operations failed, at most"), run.errors as f64, 0.0),
    ]
}
