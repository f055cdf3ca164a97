//! Latencies over time with the moment of the fault: one panel for each scenario.

use std::path::Path;

use anyhow::Context;

use super::one_slow::OneSlow;
use crate::svg::{Axis, Draw, Panel, Series, document};

/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, runs: &[OneSlow]) -> anyhow::Result<()> {
    let panels: Vec<Panel> = runs.iter().map(panel).collect();
    let draws: Vec<&dyn Draw> = panels.iter().map(|panel| panel as &dyn Draw).collect();
    std::fs::write(path, document(&draws)).with_context(|| format!("cannot write {}", path.display()))
}

fn panel(run: &OneSlow) -> Panel {
    let points =
        |slices: &[(f64, f64, f64)]| slices.iter().map(|&(at_s, _, p99_us)| (at_s, p99_us.max(1.0).log10())).collect();
    let series = vec![
        Series { name: "reads".to_owned(), points: points(&run.reads_over_time) },
        Series { name: "writes".to_owned(), points: points(&run.writes_over_time) },
    ];
    let all = || series.iter().flat_map(|series: &Series| &series.points);
    let end_s = all().map(|point| point.0).fold(1.0, f64::max);
    let (low, high) = (1.0f64, all().map(|point| point.1).fold(2.0, f64::max).ceil());
    let mut x = Axis::linear("time, seconds", end_s, false);
    x.ticks.retain(|tick| (tick.0 - run.fault_at_s).abs() > end_s / 20.0);
    x.ticks.push((run.fault_at_s, "fault".to_owned()));
    let y = Axis::decades("p99 of 0.1 s, microseconds", low as i32, high as i32);
    Panel { title: format!("{}: {} on node {}", run.scenario, run.fault, run.victim), x, y, series }
}
