//! Late binding beside hedging, at the same extra load.
//!
//! Every node answers one reply in a hundred late, and nobody is slow for good: the case in which only a race helps.
//! Values are striped over `k` pieces, of which late binding asks one more and uses the first `k` (Hydra, 4.1.2). Reads
//! are few, so that neither the processors nor what an earlier read left behind on a node decides.
//!
//! ```text
//! each round:  off --> hedging --extra requests e--> late binding of the share e x k of the reads --> of all reads
//! ```
//! Every request moves one piece, so that equal requests are equal bytes.

use anyhow::ensure;
use serde::Serialize;

use super::counters::Counters;
use super::{SHAPE, TailOptions, node_memory_mib};
use crate::faults::{Fault, Victim};
use crate::load::{self, KeyChoiceName, LoadOptions, check};
use crate::median::median;
use crate::peers::Running;
use crate::scene::{COUNTERS_LAG, Scene};
use crate::sizes::SizeDistribution;
use crate::window::Window;
use crate::workload::Workload;

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Binding {
    pub fault: String,
    pub value_bytes: usize,
    pub rate_per_s: f64,
    /// Medians over the rounds.
    pub points: Vec<Point>,
    pub runs: Vec<Run>,
}

/// What is done about late answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    Off,
    Hedging,
    /// Late binding at the extra load of hedging.
    SomeBindLate,
    AllBindLate,
}

impl Way {
    const ALL: [Way; 4] = [Way::Off, Way::Hedging, Way::SomeBindLate, Way::AllBindLate];

    pub fn name(self) -> &'static str {
        match self {
            Way::Off => "neither",
            Way::Hedging => "hedging",
            Way::SomeBindLate => "late binding of some",
            Way::AllBindLate => "late binding of all",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Point {
    pub way: Way,
    /// Requests to nodes for each read beyond those without any race, in parts of `k`.
    pub extra_requests: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p99_9_us: f64,
}

/// One way in one round.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub round: usize,
    pub way: Way,
    pub flag: String,
    pub reads: u64,
    pub requests_per_read: f64,
    pub extra_requests: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p99_9_us: f64,
    pub counters: Counters,
}

/// Four pieces of a block each.
const VALUE_BYTES: usize = 16 * 1024;
const PIECES: f64 = 4.0;
const KEYS: u32 = 2_000;
const CONNECTIONS: usize = 64;
/// A late reply of 20 ms in each hundred, 150 requests a second and node: a node is behind for 3 % of the time.
const RATE_PER_S: f64 = 300.0;
const FAULT: [&str; 3] = ["slow", "--tail", "1%:20ms"];
const ROUNDS: usize = 3;
const SECONDS: f64 = 7.0;

/// # Errors
/// A cluster does not start, its counters are not to be had, or an answer broke a promise.
pub fn play(options: &TailOptions) -> anyhow::Result<Binding> {
    let mut runs: Vec<Run> = Vec::new();
    for round in 1..=ROUNDS {
        let (mut without, mut hedged) = (None, 0.0);
        for way in Way::ALL {
            let flag = match way {
                Way::Off => "off".to_owned(),
                Way::Hedging => "adaptive".to_owned(),
                Way::SomeBindLate => format!("late-binding:1:{:.1}%", share_percent(hedged)),
                Way::AllBindLate => "late-binding:1".to_owned(),
            };
            let mut run = measure(options, round, way, flag)?;
            run.extra_requests = (run.requests_per_read - *without.get_or_insert(run.requests_per_read)) / PIECES;
            if way == Way::Hedging {
                hedged = run.extra_requests;
            }
            eprintln!(
                "  round {round}, {}: {:.1} % extra requests, p99 {:.0} us",
                run.flag,
                100.0 * run.extra_requests,
                run.p99_us
            );
            runs.push(run);
        }
    }
    let (points, fault) = (points(&runs), fault().to_string());
    Ok(Binding { fault, value_bytes: VALUE_BYTES, rate_per_s: RATE_PER_S, points, runs })
}

fn fault() -> Fault {
    Fault::Chaos(FAULT.map(str::to_owned).to_vec())
}

/// Reads, of a hundred, that must ask for one piece more so that there are so many extra requests.
fn share_percent(extra_requests: f64) -> f64 {
    (100.0 * PIECES * extra_requests).clamp(0.0, 100.0)
}

fn measure(options: &TailOptions, round: usize, way: Way, flag: String) -> anyhow::Result<Run> {
    let flags = ["--allow-chaos", "--hedge", &flag].map(str::to_owned);
    let memory_mib = node_memory_mib(options) + u64::from(KEYS) * VALUE_BYTES as u64 / (1 << 20);
    let running = Running::shorttail(&options.cluster.with_up_args(flags), SHAPE, memory_mib)?;
    let reads = reads(options, &running);
    let preload = LoadOptions { preload: true, operations: Some(0), ..reads.clone() };
    load::check_stored(&load::execute(&preload, &mut ())?)?;
    let reads = LoadOptions { stored_before: true, expect_all: options.cluster.has_ample_memory(), ..reads };
    let warm = LoadOptions { rate: Some(RATE_PER_S), seconds: 1.5, warm_up: 0.0, ..reads.clone() };
    load::check(&load::execute(&warm, &mut ())?)?;
    // What was asked so far is no request of the reads that are counted.
    std::thread::sleep(COUNTERS_LAG);
    let everybody = Victim { nodes: "all".to_owned(), pid: 0, namespace: None };
    let scene = Scene { site: running.site()?, fault: Some((fault(), everybody)), healthy_s: 0.5, faulty_s: SECONDS };
    let seen = scene.play(&LoadOptions { rate: Some(RATE_PER_S), warm_up: 0.0, ..reads })?;
    check(&seen.report)?;
    ensure!(seen.report.operations > 0, "nothing was answered: {:?}", seen.report.errors);
    let counters = Counters::of(&seen);
    let requests = counters.node_requests.ok_or_else(|| anyhow::anyhow!("the cluster does not count requests"))?;
    let window = Window::of(&seen.samples, seen.fault_at_s + 0.5, seen.fault_at_s + SECONDS);
    let (p50_us, p99_us, p99_9_us) = (window.reads.p50_us, window.reads.p99_us, window.reads.p99_9_us);
    let requests_per_read = requests / seen.report.operations as f64;
    let reads = window.operations;
    Ok(Run { round, way, flag, reads, requests_per_read, extra_requests: 0.0, p50_us, p99_us, p99_9_us, counters })
}

fn points(runs: &[Run]) -> Vec<Point> {
    let point = |way: Way| {
        let of = |figure: &dyn Fn(&Run) -> f64| median(runs.iter().filter(|run| run.way == way).map(figure));
        Point {
            way,
            extra_requests: of(&|run| run.extra_requests),
            p50_us: of(&|run| run.p50_us),
            p99_us: of(&|run| run.p99_us),
            p99_9_us: of(&|run| run.p99_9_us),
        }
    };
    Way::ALL.map(point).to_vec()
}

fn reads(options: &TailOptions, running: &Running) -> LoadOptions {
    let mut load = running.load();
    load.workload = Some(Workload::C);
    (load.keys, load.key_choice) = (KEYS, Some(KeyChoiceName::Uniform));
    load.value_size = Some(SizeDistribution::Fixed(VALUE_BYTES));
    (load.connections, load.seed, load.output.quiet) = (CONNECTIONS, options.seed, true);
    load
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(round: usize, way: Way, p99_us: f64) -> Run {
        Run {
            round,
            way,
            flag: String::new(),
            reads: 1,
            requests_per_read: 4.0,
            extra_requests: p99_us / 1e6,
            p50_us: 1.0,
            p99_us,
            p99_9_us: 2.0 * p99_us,
            counters: Counters::default(),
        }
    }

    #[test]
    fn points_are_medians_of_each_way() {
        let runs: Vec<Run> = [(1, 30.0), (2, 10.0), (3, 20.0)]
            .iter()
            .flat_map(|&(round, p99)| [run(round, Way::Off, 9.0 * p99), run(round, Way::Hedging, p99)])
            .chain([run(1, Way::SomeBindLate, 5.0), run(1, Way::AllBindLate, 4.0)])
            .collect();
        let p99: Vec<f64> = points(&runs).iter().map(|point| point.p99_us).collect();
        assert_eq!(p99, [180.0, 20.0, 5.0, 4.0]);
    }

    #[test]
    fn the_share_that_binds_late_costs_what_hedges_cost() {
        // One piece more for 14 % of the reads is 0.14 of four requests: 3.5 %.
        assert!((share_percent(0.035) - 14.0).abs() < 1e-9);
        assert_eq!((share_percent(-0.01), share_percent(0.5)), (0.0, 100.0));
    }
}
