//! Experiments with the request monitor: synthetic requests, model nodes, the real monitor, virtual time.
//!
//! ```text
//!   catalogue -> experiment -> stream: requests -> machine -> answers -> monitor -> verdicts
//!                                              table: detectors side by side
//! ```
//!
//! Must not know: how verdicts are reached.

pub mod catalogue;
pub mod fault;
pub mod machine;
pub mod stream;
pub mod table;

use std::io::Write;

use anyhow::{Context, bail};
use shorttail_monitor::{Detector, MonitorConfig};

/// Flags of `shorttail sim detect`.
#[derive(Clone, Debug, clap::Args)]
pub struct DetectOptions {
    /// Seeds of each experiment.
    #[arg(long, default_value_t = 5)]
    pub seeds: u64,
    /// Only experiments whose name contains this.
    #[arg(long)]
    pub only: Option<String>,
    /// Only this detector: adaptive, fixed, ages.
    #[arg(long)]
    pub detector: Option<String>,
}

const DETECTORS: [Detector; 3] =
    [Detector::Fixed { by_age: false }, Detector::Fixed { by_age: true }, Detector::Adaptive];

/// Runs the command.
///
/// # Errors
/// When no experiment or detector has such a name.
pub fn run(options: &DetectOptions) -> anyhow::Result<()> {
    let wanted = |name: &str| options.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let detectors: Vec<_> = DETECTORS
        .into_iter()
        .filter(|&detector| options.detector.as_ref().is_none_or(|it| stream::name_of(detector).ends_with(it.as_str())))
        .collect();
    let [slow, innocent] = [catalogue::slow(), catalogue::innocent()]
        .map(|entries| entries.into_iter().filter(|entry| wanted(entry.name)).collect::<Vec<_>>());
    if detectors.is_empty() || slow.len() + innocent.len() == 0 {
        bail!("there is no such experiment, or no such detector");
    }
    let mut out = std::io::stdout().lock();
    for (entries, is_fault) in [(slow, true), (innocent, false)] {
        if !entries.is_empty() {
            let text = table::table(&entries, &detectors, MonitorConfig::default(), 1..1 + options.seeds, is_fault);
            writeln!(out, "{text}").context("cannot print")?;
        }
    }
    Ok(())
}
