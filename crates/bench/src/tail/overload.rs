//! Twice what the cluster can do, with hedges and without: they must stay within their budget and cost no throughput.

use serde::Serialize;

use super::counters::Counters;
use super::{TailOptions, capacity, loaded, open_loop};
use crate::load::check;
use crate::median::median;
use crate::scene::Scene;

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Overload {
    /// Operations a second of the healthy cluster, measured before each run; the rate is twice the first.
    pub rate_per_s: f64,
    /// Hedges on and off in turn, several times.
    pub runs: Vec<Run>,
    pub throughput_with: f64,
    pub throughput_without: f64,
    /// Hedges for each operation; none if the cluster does not count them.
    pub hedge_share: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub hedge: &'static str,
    pub operations: u64,
    pub throughput_per_s: f64,
    pub hedge_share: Option<f64>,
    pub counters: Counters,
    pub errors: u64,
}

/// Pairs of runs: the machine's noise is as large as what is looked for.
const PAIRS: usize = 3;
const SECONDS: f64 = 4.0;

/// # Errors
/// The cluster does not start, or an answer broke a promise.
pub fn play(options: &TailOptions) -> anyhow::Result<Overload> {
    let mut rate_per_s = None;
    let mut runs = Vec::new();
    for pair in 0..PAIRS {
        let order = if pair % 2 == 0 { ["adaptive", "off"] } else { ["off", "adaptive"] };
        for hedge in order {
            let running = loaded(options, &["--hedge", hedge])?;
            let rate = match rate_per_s {
                Some(rate) => rate,
                None => *rate_per_s.insert(2.0 * capacity(options, &running)?),
            };
            let mut load = open_loop(options, &running, rate);
            // Nobody waits for ever, but nobody gives up either: the queue is the point.
            load.timeout_ms = 120_000;
            let scene = Scene { site: running.site()?, fault: None, healthy_s: 0.0, faulty_s: SECONDS };
            let seen = scene.play(&load)?;
            check(&seen.report)?;
            let counters = Counters::of(&seen);
            let (operations, throughput_per_s) = (seen.report.operations, seen.report.throughput_per_s);
            eprintln!("  hedge {hedge}: {throughput_per_s:.0} /s");
            let hedge_share = counters.hedge_share(operations);
            let errors = seen.report.error_count;
            runs.push(Run { hedge, operations, throughput_per_s, hedge_share, counters, errors });
        }
    }
    let of =
        |hedge: &str, figure: &dyn Fn(&Run) -> f64| median(runs.iter().filter(|run| run.hedge == hedge).map(figure));
    let is_counted = runs.iter().all(|run| run.hedge_share.is_some());
    Ok(Overload {
        rate_per_s: rate_per_s.unwrap_or_default(),
        throughput_with: of("adaptive", &|run| run.throughput_per_s),
        throughput_without: of("off", &|run| run.throughput_per_s),
        hedge_share: is_counted.then(|| of("adaptive", &|run| run.hedge_share.unwrap_or_default())),
        runs,
    })
}
