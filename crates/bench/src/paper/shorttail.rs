//! `bench paper shorttail`: figures 6 to 9 of "ShortTail: taming tail latency for erasure-code-based in-memory systems"
//! (FITEE 2022), redrawn.
//!
//! | figure | workload | compared |
//! |---|---|---|
//! | 6 | YCSB | ECWide-H, LLF, ShortTail as in the paper, and ours |
//! | 7 | usr_1, made to its published statistics | the same |
//! | trace | a block trace given by `--trace` | the same |
//! | 8 | YCSB | ECWide-H, LLF, and one technique more at a time |
//! | 9 | YCSB | timeslice and threshold of the paper's detector |
//!
//! As in the paper: 24 node processes and one node slow, drawn anew for each repetition and the same for all that are
//! compared in it. The code is LRC(12, 2, 2): 16 chunks of 24 nodes leave eight for redirected writes, local groups of
//! six data chunks and a parity serve most degraded reads, and at most three chunks on each of six racks survive the
//! loss of a rack, which is how ECWide combines the two localities. The paper states neither its code, nor YCSB's mix
//! (workload A here: half reads, half updates, zipfian, records of 1000 B), nor how slow its slow node was
//! (`--delay-ms` here, on every reply), nor how its clients ask. Here they are an open loop at one rate for all that
//! are compared: three quarters of what the first of them carries in a closed loop with the node slow (`--rate-share`;
//! the median of three slow nodes).
//! In a closed loop what waits for the slow node would ask little, and what does not would ask as much as the machine
//! bears; their latencies would be those of an idle machine and of a full one (`--closed` shows it). The measured phase
//! begins when the node turns slow, so the time until it is detected counts.
//!
//! Every measurement has a fresh cluster. What is compared takes turns in each repetition, so that a slow minute of the
//! machine hits all; medians over the repetitions are shown.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use serde::Serialize;

use crate::limits::ROUNDS_MAX;
use crate::median::median;
use crate::output::write_results;
use crate::peers::ClusterOptions;
use crate::sizes::SizeDistribution;

mod figures;
mod measure;
mod plan;
mod published;
mod table;

use measure::Sample;
use plan::{Figure, Subject};
use published::Published;

/// Redraws figures 6 to 9 of the ShortTail paper.
#[derive(Clone, Debug, clap::Args)]
pub struct ShorttailOptions {
    /// Which figures; all by default.
    #[arg(long = "figure", value_enum, value_delimiter = ',', default_values_t = Figure::ALL)]
    pub figures: Vec<Figure>,
    /// How often each measurement is repeated, each time with another slow node.
    #[arg(long, default_value_t = 5)]
    pub repetitions: usize,
    /// Length of each measurement.
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Seconds of load before the node turns slow: detectors calibrate then.
    #[arg(long, default_value_t = 3.0)]
    pub warm_up: f64,
    /// Milliseconds by which each reply of the slow node is late; above every threshold of figure 9.
    #[arg(long, default_value_t = 100)]
    pub delay_ms: u64,
    /// A block trace, plain or gzip, as the third workload.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<String>,
    /// So many requests from the beginning of the trace.
    #[arg(long, default_value_t = 20_000, value_name = "COUNT")]
    pub trace_requests: usize,
    /// Records of YCSB.
    #[arg(long, default_value_t = 50_000)]
    pub keys: u32,
    /// Bytes of a record of YCSB.
    #[arg(long, default_value = "1000", value_name = "SIZE")]
    pub value_size: SizeDistribution,
    #[arg(long, short = 'c', default_value_t = 256)]
    pub connections: usize,
    /// Operations a second [default: a share of what the first that is compared carries]
    #[arg(long, conflicts_with = "closed")]
    pub rate: Option<f64>,
    /// Which share.
    #[arg(long, default_value_t = 0.75, conflicts_with_all = ["rate", "closed"])]
    pub rate_share: f64,
    /// A closed loop: each connection asks when it is answered.
    #[arg(long)]
    pub closed: bool,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Write one JSON file for each figure, every measurement in it, into this directory.
    #[arg(long, value_name = "DIR")]
    pub json: Option<PathBuf>,
    /// Draw each figure into this directory.
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
}

/// The nodes and the code of the experiments.
const SHAPE: (u32, &str) = (24, "lrc:12+2+2");

/// How often it is measured what the first subject carries, each time with another slow node: the median counts.
const CARRIED_LOOKS: usize = 3;

/// A figure with all that was measured for it.
#[derive(Clone, Debug, Serialize)]
struct Results {
    figure: Figure,
    workload: String,
    machine: String,
    nodes: u32,
    code: String,
    delay_ms: u64,
    connections: usize,
    /// None: a closed loop.
    rate_per_s: Option<f64>,
    repetitions: usize,
    seconds: f64,
    warm_up: f64,
    rows: Vec<Row>,
    samples: Vec<Sample>,
}

/// One bar or point: medians over the repetitions, milliseconds.
#[derive(Clone, Debug, Serialize)]
struct Row {
    subject: Subject,
    average_ms: f64,
    median_ms: f64,
    p99_ms: f64,
    reads_p99_ms: f64,
    writes_p99_ms: f64,
    throughput_per_s: f64,
    /// Each divided by that of the first row; what the paper says of the same.
    average_ratio: f64,
    median_ratio: f64,
    p99_ratio: f64,
    published: Option<Published>,
}

/// Measures the figures, prints tables and writes JSON and SVG.
///
/// # Errors
/// A cluster does not start, or an answer broke a promise.
pub fn run(options: ShorttailOptions) -> anyhow::Result<()> {
    ensure!(options.rate_share > 0.0 && options.rate_share.is_finite(), "--rate-share must be above 0");
    ensure!((1..=ROUNDS_MAX).contains(&options.repetitions), "--repetitions must be between 1 and {ROUNDS_MAX}");
    for directory in options.json.iter().chain(&options.svg) {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    }
    let wanted = options.figures.iter().filter(|figure| **figure != Figure::Trace || options.trace.is_some());
    for &figure in wanted {
        let results = figure_of(&options, figure)?;
        let json = options.json.as_ref().map(|directory| directory.join(format!("{}.json", figure.file_name())));
        write_results(json.as_deref(), &results, || table::table(&results))?;
        if let Some(directory) = &options.svg {
            let path = directory.join(format!("{}.svg", figure.file_name()));
            let drawn = figures::draw(&results);
            std::fs::write(&path, drawn).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

fn figure_of(options: &ShorttailOptions, figure: Figure) -> anyhow::Result<Results> {
    let subjects = plan::subjects(figure);
    let rate = rate_of(options, figure, &subjects)?;
    let mut samples = Vec::new();
    for repetition in 1..=options.repetitions {
        for subject in &subjects {
            eprintln!("{figure}, {repetition} of {}: {}", options.repetitions, subject.label);
            samples.push(measure::measure(options, figure, subject, repetition, rate)?);
        }
    }
    Ok(Results {
        figure,
        workload: measure::workload_name(options, figure),
        machine: crate::process::machine(),
        nodes: options.cluster.nodes.unwrap_or(SHAPE.0),
        code: options.cluster.code.clone().unwrap_or(SHAPE.1.to_owned()),
        delay_ms: options.delay_ms,
        connections: options.connections,
        rate_per_s: rate,
        repetitions: options.repetitions,
        seconds: options.seconds,
        warm_up: options.warm_up,
        rows: rows(figure, &subjects, &samples),
        samples,
    })
}

/// At which rate clients ask; none: a closed loop.
fn rate_of(options: &ShorttailOptions, figure: Figure, subjects: &[Subject]) -> anyhow::Result<Option<f64>> {
    if options.closed || options.rate.is_some() {
        return Ok(options.rate);
    }
    let first = subjects.first().context("nothing is compared")?;
    let carried = (1..=CARRIED_LOOKS).map(|repetition| {
        eprintln!("{figure}: how much {} carries, {repetition} of {CARRIED_LOOKS}", first.label);
        Ok(measure::measure(options, figure, first, repetition, None)?.throughput_per_s)
    });
    let carried = carried.collect::<anyhow::Result<Vec<f64>>>()?;
    Ok(Some(median(carried) * options.rate_share))
}

fn rows(figure: Figure, subjects: &[Subject], samples: &[Sample]) -> Vec<Row> {
    let medians = subjects.iter().map(|subject| {
        let mine: Vec<&Sample> = samples.iter().filter(|sample| sample.label == subject.label).collect();
        let over = |value: &dyn Fn(&Sample) -> f64| median(mine.iter().map(|sample| value(sample)));
        Row {
            subject: subject.clone(),
            average_ms: over(&|sample| sample.all.mean_us / 1e3),
            median_ms: over(&|sample| sample.all.p50_us / 1e3),
            p99_ms: over(&|sample| sample.all.p99_us / 1e3),
            reads_p99_ms: over(&|sample| sample.reads.p99_us / 1e3),
            writes_p99_ms: over(&|sample| sample.writes.p99_us / 1e3),
            throughput_per_s: over(&|sample| sample.throughput_per_s),
            average_ratio: 1.0,
            median_ratio: 1.0,
            p99_ratio: 1.0,
            published: published::of(figure, &subject.label),
        }
    });
    let mut rows: Vec<Row> = medians.collect();
    let Some((average_ms, median_ms, p99_ms)) = rows.first().map(|row| (row.average_ms, row.median_ms, row.p99_ms))
    else {
        return rows;
    };
    for row in &mut rows {
        row.average_ratio = row.average_ms / average_ms.max(f64::MIN_POSITIVE);
        row.median_ratio = row.median_ms / median_ms.max(f64::MIN_POSITIVE);
        row.p99_ratio = row.p99_ms / p99_ms.max(f64::MIN_POSITIVE);
    }
    rows
}

#[cfg(test)]
mod tests;
