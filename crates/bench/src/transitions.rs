//! `bench transitions`: how long nodes take from one state to the next when they fail and return, with and without
//! load.
//!
//! ```text
//! normal --kill -9--> intermediate --> degraded --new process--> coordinated --> normal
//!          |             |               |                         |               '- no chunk is missing
//!          |             |               |                         '- every owner uses the node again
//!          |             |               '- nothing under way or unsealed is left there
//!          |             '- every owner goes round: reads are decoded, nothing new goes there
//!          '- the clock starts here: detection counts
//! ```
//! The states are MemEC's (SYSTOR 2017), and so is the table: one and two nodes at once, with requests and without. A
//! node comes back with its memory, which was in a file, or with none. The moments are those of the gateway's log;
//! under load failures come at fixed times, and a slow return delays the next one.

mod cluster;
mod course;
mod table;

use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;

use crate::engine::Phase;
use crate::limits::ROUNDS_MAX;
use crate::load::{self, LoadOptions, Observer};
use crate::output::{OutputOptions, write_results};
use crate::peers::ClusterOptions;
use crate::samples::Sample;
use crate::sizes::SizeDistribution;
use crate::window::Window;
use crate::workload::Workload;
use cluster::{Cluster, Memory};
use course::Times;

/// Measures how long nodes take from one state to the next when they fail and return.
#[derive(Clone, Debug, clap::Args)]
pub struct TransitionsOptions {
    /// Failures of each kind.
    #[arg(long, default_value_t = 6)]
    pub repetitions: usize,
    /// Operations a second of the load, an open loop.
    #[arg(long, default_value_t = 5_000.0)]
    pub rate: f64,
    #[arg(long, value_enum, default_value = "a", ignore_case = true)]
    pub workload: Workload,
    #[arg(long, default_value_t = 100_000)]
    pub keys: u32,
    #[arg(long, default_value = "100", value_name = "SIZE")]
    pub value_size: SizeDistribution,
    #[arg(long, short = 'c', default_value_t = 32)]
    pub connections: usize,
    /// Under load a failure begins every so many seconds.
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    pub every: f64,
    /// Milliseconds for which nodes stay away once they are gone round.
    #[arg(long, default_value_t = 300)]
    pub away_ms: u64,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub cluster: ClusterOptions,
    #[command(flatten)]
    pub output: OutputOptions,
}

/// Pause before a failure without load, and before the first one with load.
const PAUSE: Duration = Duration::from_millis(300);

/// Distance of two nodes that fail together.
const APART: usize = 3;

/// One kind of failure.
#[derive(Clone, Debug, Serialize)]
struct Row {
    memory: Memory,
    nodes_failed: usize,
    with_load: bool,
    repetitions: Vec<Times>,
    /// Of the operations meant to start between the first of these failures and the end of the last.
    worst_operation_ms: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct Results {
    machine: String,
    nodes: usize,
    code: String,
    rate_per_s: f64,
    operations: u64,
    error_count: u64,
    rows: Vec<Row>,
}

/// Runs it, prints and writes the results.
///
/// # Errors
/// The cluster does not start, a step does not come, an operation failed, or anything is lost, stale or wrong.
pub fn run(options: TransitionsOptions) -> anyhow::Result<()> {
    ensure!((1..=ROUNDS_MAX).contains(&options.repetitions), "--repetitions must be between 1 and {ROUNDS_MAX}");
    ensure!((0.1..=60.0).contains(&options.every), "--every must be between 0.1 and 60");
    ensure!(options.cluster.up_args.is_empty(), "--up-arg: every role is started by itself here");
    let mut results = Results {
        machine: crate::process::machine(),
        nodes: 0,
        code: options.cluster.code.clone().unwrap_or("rs:4+2".to_owned()),
        rate_per_s: options.rate,
        operations: 0,
        error_count: 0,
        rows: Vec::new(),
    };
    for memory in [Memory::Kept, Memory::Lost] {
        let mut cluster = Cluster::start(&options.cluster, memory, options.value_size.objects_mib(options.keys) + 128)?;
        ensure!(cluster.node_count() > APART, "--nodes must be more than {APART}");
        results.nodes = cluster.node_count();
        with_load(&options, &mut cluster, memory, &mut results)?;
        for nodes_failed in [1, 2] {
            options.output.tell(&format!("memory {}, without load, {nodes_failed} node(s)", table::name(memory)));
            let fail = |repetition| {
                std::thread::sleep(PAUSE);
                cluster.fail_and_return(&victims(repetition, nodes_failed, results.nodes), away(&options))
            };
            let repetitions = (0..options.repetitions).map(fail).collect::<anyhow::Result<_>>()?;
            results.rows.push(Row { memory, nodes_failed, with_load: false, repetitions, worst_operation_ms: None });
        }
    }
    write_results(options.output.json.as_deref(), &results, || table::table(&results))?;
    ensure!(results.error_count == 0, "{} operations failed", results.error_count);
    Ok(())
}

fn away(options: &TransitionsOptions) -> Duration {
    Duration::from_millis(options.away_ms)
}

/// Each time others, so that no node is special.
fn victims(repetition: usize, nodes_failed: usize, node_count: usize) -> Vec<usize> {
    (0..nodes_failed).map(|number| (repetition + number * APART) % node_count).collect()
}

/// Says when the measured phase begins.
struct Starts(Sender<Instant>);

impl Observer for Starts {
    fn phase_starts(&mut self, phase: Phase) {
        if phase == Phase::Measure {
            // Nobody listens any more when what is beside the load failed.
            let _ = self.0.send(Instant::now());
        }
    }
}

/// The load on a thread of its own; nodes are started by this one, as they end with the thread that started them.
fn with_load(
    options: &TransitionsOptions,
    cluster: &mut Cluster,
    memory: Memory,
    results: &mut Results,
) -> anyhow::Result<()> {
    let load = load_of(options, cluster);
    let (starts, started) = channel();
    let load_thread = std::thread::spawn(move || load::execute_with_samples(&load, &mut Starts(starts)));
    let failed = started.recv().ok().map(|began| fail_on_time(options, cluster, memory, began));
    let (report, samples) = load_thread.join().expect("the load panicked")?;
    load::check(&report)?;
    let failed = failed.context("the load had no measured phase")??;
    results.operations += report.operations;
    results.error_count += report.error_count;
    let length_s = report.seconds;
    for (mut row, from_s, to_s) in failed {
        ensure!(to_s <= length_s, "a node was not back when the load ended: raise --every");
        row.worst_operation_ms = Some(worst_ms(&samples, from_s, to_s));
        results.rows.push(row);
    }
    Ok(())
}

/// Failures at their times, with the seconds between which those of a row took place.
fn fail_on_time(
    options: &TransitionsOptions,
    cluster: &mut Cluster,
    memory: Memory,
    began: Instant,
) -> anyhow::Result<Vec<(Row, f64, f64)>> {
    let mut rows = Vec::new();
    let mut due = PAUSE;
    for nodes_failed in [1, 2] {
        options.output.tell(&format!("memory {}, with load, {nodes_failed} node(s)", table::name(memory)));
        let (mut repetitions, from) = (Vec::new(), due);
        for repetition in 0..options.repetitions {
            std::thread::sleep(due.saturating_sub(began.elapsed()));
            let victims = victims(repetition, nodes_failed, cluster.node_count());
            repetitions.push(cluster.fail_and_return(&victims, away(options))?);
            due += Duration::from_secs_f64(options.every);
        }
        let row = Row { memory, nodes_failed, with_load: true, repetitions, worst_operation_ms: None };
        rows.push((row, from.as_secs_f64(), began.elapsed().as_secs_f64()));
    }
    Ok(rows)
}

fn load_of(options: &TransitionsOptions, cluster: &Cluster) -> LoadOptions {
    let mut load = cluster.running.load();
    // Processes that are killed would leave their part out.
    load.server_pids.clear();
    load.workload = Some(options.workload);
    load.keys = options.keys;
    load.value_size = Some(options.value_size.clone());
    load.connections = options.connections;
    load.rate = Some(options.rate);
    load.seconds = load_seconds(options);
    load.warm_up = 0.5;
    load.seed = options.seed;
    load.output.quiet = options.output.quiet;
    (load.preload, load.verify_all, load.expect_all, load.keep_samples) = (true, true, true, true);
    load
}

/// Two kinds of failures, each so often.
fn load_seconds(options: &TransitionsOptions) -> f64 {
    PAUSE.as_secs_f64() + 2.0 * options.repetitions as f64 * options.every
}

fn worst_ms(samples: &[Sample], from_s: f64, to_s: f64) -> f64 {
    Window::of(samples, from_s, to_s).all.max_us / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_fail_together_are_distinct_and_everybody_has_a_turn() {
        let pairs: Vec<Vec<usize>> = (0..8).map(|repetition| victims(repetition, 2, 8)).collect();
        assert!(pairs.iter().all(|pair| pair[0] != pair[1]));
        let first: std::collections::BTreeSet<usize> = pairs.iter().map(|pair| pair[0]).collect();
        assert_eq!(first.len(), 8);
        assert_eq!(victims(9, 1, 8), [1]);
    }
}
