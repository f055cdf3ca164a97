//! `bench repair`: a node dies under light load; how fast its chunks are rebuilt, and what clients notice of it.
//!
//! ```text
//! fill, preload | healthy seconds | half count | estimate's work | kill -9, grace | repair ........... | rest | all is read back
//!               '-- p99 undisturbed '----- p99 beside each ------'-- p99 degraded '-- MB/s, p99 meanwhile
//! ```
//! Before the kill, two measures of what this machine allows: the p99 beside as many processors as nodes rebuild on
//! that do nothing but count (see `counting`), and beside the estimate's own work, at the rate that repair is to reach.
//! They tell what keeping as much busy costs by itself.
//!
//! Between the kill and the repair what was lost is decoded when it is read, and nothing is rebuilt: what repair itself
//! adds is the difference to that phase. Its first [`SETTLING_S`] are left out: the death is being noticed.
//!
//! Most of what nodes hold is stored before the load and not touched by it (see `filler`): larger values, many under
//! way at once. They are packed like those of the load.
//!
//! The rate counts from the moment in which the node's memory is given up until nothing is missing, in payload bytes of
//! rebuilt chunks. Beside it stands what this machine could do at best: the same bytes over loopback TCP, `k` for each
//! one, decoded and copied, measured before in the same run (see `loopback`), several times: the median counts. So does
//! what it could do if what is rebuilt takes new memory, as nodes have to; goals are for the former.

mod counting;
mod filler;
mod loopback;
mod phases;
mod theft;

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use shorttail_codes::Code;

use crate::admin::{Status, code_redundancy};
use crate::beside::{Beside, LoadEnd};
use crate::load::{self, LoadOptions};
use crate::median::median;
use crate::output::{OutputOptions, write_results};
use crate::peers::{ClusterOptions, Running};
use crate::sizes::SizeDistribution;
use crate::workload::Workload;
use filler::Filler;
use loopback::{Estimator, Loopback};
use phases::{PhaseSamples, Phases};
use theft::{Stolen, Theft};

/// Seconds after a kill until everybody has noticed.
const SETTLING_S: f64 = 0.25;

/// Of the estimate: what repair is to reach.
const GOAL_SHARE: f64 = 0.6;

/// Times that it is measured: what a machine that others use can do differs from second to second, and the median
/// counts.
const ESTIMATES: usize = 5;

/// Between two looks at the status.
const LOOK: Duration = Duration::from_millis(20);

/// Kills a node and measures how its chunks are rebuilt elsewhere.
#[derive(Clone, Debug, clap::Args)]
pub struct RepairOptions {
    /// MiB of chunks on each node, parities included.
    #[arg(long, default_value_t = 64)]
    pub chunk_mib: u64,
    /// Seconds before anything else happens.
    #[arg(long, default_value_t = 5.0)]
    pub healthy_seconds: f64,
    /// Seconds after that in which half of the processors do nothing but count, in the lowest class.
    #[arg(long, default_value_t = 3.0)]
    pub counting_seconds: f64,
    /// Seconds of the estimate's work beside the load, before the kill.
    #[arg(long, default_value_t = 3.0)]
    pub beside_seconds: f64,
    /// Seconds from the kill until the node is given up.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub grace_seconds: u64,
    /// Seconds of load after the kill; repair must end within them.
    #[arg(long, default_value_t = 20.0)]
    pub seconds: f64,
    /// Operations a second.
    #[arg(long, default_value_t = 1_000.0)]
    pub rate: f64,
    #[arg(long, value_enum, default_value = "b", ignore_case = true)]
    pub workload: Workload,
    /// Keys of the load; fewer if half of the chunks would not hold them.
    #[arg(long, default_value_t = 100_000)]
    pub keys: u32,
    #[arg(long, default_value = "1000", value_name = "SIZE")]
    pub value_size: SizeDistribution,
    /// Bytes of each value that the nodes are filled with beside them; up to two blocks it is packed.
    #[arg(long, default_value_t = 8_000, value_name = "BYTES")]
    pub filler_bytes: usize,
    #[arg(long, short = 'c', default_value_t = 32)]
    pub connections: usize,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The node to kill.
    #[arg(long, default_value_t = 3)]
    pub victim: u64,
    /// Times that all of it is done, each with a cluster of its own: medians are told, and percentiles of all runs
    /// together.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// What each node may fetch in a second, as `shorttail up` takes it.
    #[arg(long, default_value = "1GiB", value_name = "SIZE")]
    pub repair_bandwidth: String,
    /// How nodes talk, as `shorttail up` takes it; `tcp`: as those of several machines.
    #[arg(long, default_value = "tcp", value_name = "unix|tcp")]
    pub transport: String,
    #[command(flatten)]
    pub cluster: ClusterOptions,
    #[command(flatten)]
    pub output: OutputOptions,
    /// End with an error if less than 60 % of the estimate is reached, or the p99 grows by more than 1.3 times.
    #[arg(long)]
    pub enforce: bool,
}

/// When what happened, seconds after the measured phase began.
#[derive(Clone, Debug, Serialize)]
struct Course {
    /// Half of the processors count.
    counting_from_s: f64,
    counting_to_s: f64,
    /// The estimate's work beside the load.
    beside_from_s: f64,
    beside_to_s: f64,
    beside_mb_per_s: f64,
    killed_s: f64,
    /// The node's memory was given up: repair may begin.
    given_up_s: f64,
    whole_s: f64,
    chunks: u64,
    bytes: u64,
    stolen: Stolen,
    /// Chunks that were rebuilt so far, at each look at the status; gateways tell it every 50 ms.
    progress: Vec<(f64, u64)>,
}

/// All runs.
#[derive(Clone, Debug, Serialize)]
struct Results {
    runs: Vec<Run>,
    median_share_of_estimate: f64,
    median_share_of_estimate_new: f64,
    median_p99_ratio: f64,
    median_p99_ratio_counting: f64,
    /// Of the operations of all runs.
    pooled: Phases,
    pooled_p99_ratio: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Run {
    machine: String,
    code: String,
    nodes: usize,
    repair_bandwidth: String,
    course: Course,
    rebuilt_mb_per_s: f64,
    /// The median of [`ESTIMATES`].
    estimate: Loopback,
    estimates_mb_per_s: Vec<f64>,
    share_of_estimate: f64,
    /// As above, into new memory.
    estimate_new: Loopback,
    estimates_new_mb_per_s: Vec<f64>,
    share_of_estimate_new: f64,
    p99_us_healthy: f64,
    /// Half of the processors count.
    p99_us_counting: f64,
    /// The estimate's work is done at [`GOAL_SHARE`] of its rate.
    p99_us_beside: f64,
    /// A node is dead and nothing is rebuilt yet.
    p99_us_degraded: f64,
    p99_us_repairing: f64,
    /// To the healthy one.
    p99_ratio_counting: f64,
    /// To the healthy one.
    p99_ratio_beside: f64,
    /// To the healthy one.
    p99_ratio_degraded: f64,
    /// To the healthy one.
    p99_ratio: f64,
    operations_degraded: usize,
    operations_repairing: usize,
    latencies: Phases,
    /// The operations during repair that took longest: seconds since it began, microseconds.
    slowest: Vec<(f64, f64)>,
    error_count: u64,
}

/// Runs it, prints and writes the results.
///
/// # Errors
/// The cluster does not start, repair does not end in time, anything is lost, stale or wrong, or a goal was to be
/// enforced and is missed.
pub fn run(options: RepairOptions) -> anyhow::Result<()> {
    let phases = [options.healthy_seconds, options.counting_seconds, options.beside_seconds];
    ensure!(phases.iter().all(|&seconds| seconds > 0.0), "each phase before the kill takes some time");
    let (mut runs, mut all) = (Vec::new(), PhaseSamples::default());
    for number in 1..=options.runs {
        if options.runs > 1 {
            options.output.tell(&format!("run {number} of {}", options.runs));
        }
        let (run, samples) = run_once(&options)?;
        runs.push(run);
        all.extend(samples);
    }
    let pooled = all.phases()?;
    let results = Results {
        median_share_of_estimate: median(runs.iter().map(|run| run.share_of_estimate)),
        median_share_of_estimate_new: median(runs.iter().map(|run| run.share_of_estimate_new)),
        median_p99_ratio: median(runs.iter().map(|run| run.p99_ratio)),
        median_p99_ratio_counting: median(runs.iter().map(|run| run.p99_ratio_counting)),
        pooled_p99_ratio: pooled.repairing.p99_us / pooled.healthy.p99_us,
        pooled,
        runs,
    };
    write_results(options.output.json.as_deref(), &results, || table(&results))?;
    let error_count: u64 = results.runs.iter().map(|run| run.error_count).sum();
    ensure!(error_count == 0, "{error_count} operations failed");
    if options.enforce {
        let (share, ratio) = (results.median_share_of_estimate, results.median_p99_ratio);
        ensure!(share >= GOAL_SHARE, "{share:.2} of the estimate, not 0.6");
        ensure!(ratio <= 1.3, "the p99 grew {ratio:.2} times, not 1.3 at most");
    }
    Ok(())
}

fn run_once(options: &RepairOptions) -> anyhow::Result<(Run, PhaseSamples)> {
    let name = options.cluster.code.as_deref().unwrap_or("rs:4+2");
    let code = Code::parse(name)?;
    options.output.tell("measuring what the loopback and decoding could do");
    let mut estimator = Estimator::new(&code, options.chunk_mib << 20)?;
    let bytes = options.chunk_mib << 20;
    let estimates = sorted(|| estimator.measure(bytes))?;
    let estimates_new = sorted(|| estimator.measure_into_new(bytes))?;
    let [estimate, estimate_new] = [&estimates, &estimates_new].map(|all| all[ESTIMATES / 2]);
    options.output.tell("starting the cluster");
    let grace_seconds = options.grace_seconds.to_string();
    let grace = [
        "--retire-after",
        &grace_seconds,
        "--repair-bandwidth",
        &options.repair_bandwidth,
        "--transport",
        &options.transport,
    ];
    // Nothing may be evicted, however fast nodes are filled: writes wait instead.
    let keeping = ["--when-full", "error"];
    let cluster = options.cluster.with_up_args(grace.into_iter().chain(keeping).map(str::to_owned));
    let running = Running::shorttail(&cluster, (9, "rs:4+2"), options.chunk_mib * 2 + 64)?;
    let admin = running.admin.clone().context("the cluster has no admin address")?;
    let status = Status::get(&admin)?;
    let shares = Shares::of(options, &status)?;
    let filling = load_of(options, &running, shares.filler_keys, SizeDistribution::Fixed(options.filler_bytes));
    let (count, bytes) = (shares.filler_keys, options.filler_bytes);
    options.output.tell(&format!("filling {} nodes with {count} values of {bytes} B", status.nodes.len()));
    let filler = Filler::store(LoadOptions { key_prefix: "filler".to_owned(), pipeline: FILL_PIPELINE, ..filling })?;
    let load = LoadOptions {
        workload: Some(options.workload),
        rate: Some(options.rate),
        seconds: options.healthy_seconds + options.counting_seconds + options.beside_seconds + options.seconds,
        preload: true,
        verify_all: true,
        expect_all: true,
        keep_samples: true,
        ..load_of(options, &running, shares.keys, options.value_size.clone())
    };
    let watched = options.clone();
    let goal_mb_per_s = estimate.mb_per_s * GOAL_SHARE;
    let mut beside = Beside::new(move |load| {
        let work_beside = || estimator.beside(goal_mb_per_s, watched.beside_seconds);
        kill_and_watch(&admin, &watched, load, work_beside)
    });
    let (report, samples) = load::execute_with_samples(&load, &mut beside)?;
    let course = beside.finish()?.context("the load never began")?;
    load::check(&report)?;
    options.output.tell("reading back what the nodes were filled with");
    let filler = filler.finish()?;
    let slowest = phases::slowest(&samples, course.given_up_s..course.whole_s);
    let samples = PhaseSamples::of(&samples, &course);
    let latencies = samples.phases()?;
    let ratio = |p99_us: f64| p99_us / latencies.healthy.p99_us;
    let rate = course.bytes as f64 / 1e6 / (course.whole_s - course.given_up_s).max(1e-3);
    let run = Run {
        machine: crate::process::machine(),
        code: status.code,
        nodes: status.nodes.len(),
        repair_bandwidth: options.repair_bandwidth.clone(),
        course,
        rebuilt_mb_per_s: rate,
        share_of_estimate: rate / estimate.mb_per_s,
        estimate,
        estimates_mb_per_s: mb_per_s(&estimates),
        share_of_estimate_new: rate / estimate_new.mb_per_s,
        estimate_new,
        estimates_new_mb_per_s: mb_per_s(&estimates_new),
        p99_us_healthy: latencies.healthy.p99_us,
        p99_us_counting: latencies.counting.p99_us,
        p99_us_beside: latencies.beside.p99_us,
        p99_us_degraded: latencies.degraded.p99_us,
        p99_us_repairing: latencies.repairing.p99_us,
        p99_ratio_counting: ratio(latencies.counting.p99_us),
        p99_ratio_beside: ratio(latencies.beside.p99_us),
        p99_ratio_degraded: ratio(latencies.degraded.p99_us),
        p99_ratio: ratio(latencies.repairing.p99_us),
        operations_degraded: samples.degraded.len(),
        operations_repairing: samples.repairing.len(),
        latencies,
        slowest,
        error_count: report.error_count + filler.error_count,
    };
    Ok((run, samples))
}

/// So many estimates, the slowest first.
fn sorted(mut measure: impl FnMut() -> anyhow::Result<Loopback>) -> anyhow::Result<Vec<Loopback>> {
    let mut estimates = (0..ESTIMATES).map(|_| measure()).collect::<Result<Vec<_>, _>>()?;
    estimates.sort_by(|one, other| one.mb_per_s.total_cmp(&other.mb_per_s));
    Ok(estimates)
}

fn mb_per_s(estimates: &[Loopback]) -> Vec<f64> {
    estimates.iter().map(|estimate| estimate.mb_per_s).collect()
}

/// Operations under way on each connection while nodes are filled: more would only wait for stripes to be sealed.
const FILL_PIPELINE: usize = 4;

/// Keys of the load, and of what the nodes are filled with beside.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Shares {
    keys: u32,
    filler_keys: u32,
}

impl Shares {
    /// So many that the nodes' chunks are filled as far as asked.
    fn of(options: &RepairOptions, status: &Status) -> anyhow::Result<Self> {
        let bytes = (options.chunk_mib << 20) as f64 * status.nodes.len() as f64 / code_redundancy(&status.code)?;
        let [object_bytes, filler_bytes] =
            [options.value_size.largest(), options.filler_bytes].map(|value_bytes| (value_bytes + RECORD_BYTES) as f64);
        let keys = f64::from(options.keys).min(bytes / 2.0 / object_bytes).max(1.0).floor();
        let filler_keys = ((bytes - keys * object_bytes) / filler_bytes).max(1.0);
        Ok(Shares { keys: keys as u32, filler_keys: filler_keys as u32 })
    }
}

/// What a record has beside its value: key and header.
const RECORD_BYTES: usize = 40;

fn load_of(options: &RepairOptions, running: &Running, keys: u32, value_size: SizeDistribution) -> LoadOptions {
    let mut load = running.load();
    load.keys = keys;
    load.value_size = Some(value_size);
    load.connections = options.connections;
    load.seed = options.seed;
    load.output.quiet = options.output.quiet;
    load
}

fn kill_and_watch(
    admin: &str,
    options: &RepairOptions,
    load: &LoadEnd,
    work_beside: impl FnOnce() -> anyhow::Result<Loopback>,
) -> anyhow::Result<Course> {
    let (victim, healthy_s) = (options.victim, options.healthy_seconds);
    let started = Instant::now();
    let elapsed = || started.elapsed().as_secs_f64();
    let mut theft = Theft::now()?;
    let mut stolen = Stolen::default();
    ensure!(!load.within(Duration::from_secs_f64(healthy_s)), "the load ended before the kill");
    let counting_from_s = elapsed();
    stolen.healthy_ms = theft.since()?;
    options.output.tell("counting on half of the processors");
    counting::count_on_half(options.counting_seconds)?;
    let counting_to_s = elapsed();
    stolen.counting_ms = theft.since()?;
    let beside_from_s = elapsed();
    options.output.tell("doing the estimate's work beside the load");
    let beside_mb_per_s = work_beside()?.mb_per_s;
    let beside_to_s = elapsed();
    stolen.beside_ms = theft.since()?;
    let before = Status::get(admin)?;
    let node = before.nodes.iter().find(|node| node.id == victim);
    let pid = node.with_context(|| format!("--victim: there is no node {victim}"))?.pid;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("a node's process id is no id")?;
    kill_process(pid, Signal::KILL).with_context(|| format!("cannot kill node {victim}"))?;
    let killed_s = elapsed();
    options.output.tell(&format!("node {victim} is killed"));
    let (mut given_up_s, mut progress) = (None, Vec::new());
    loop {
        let status = Status::get(admin)?;
        let is_given_up = status.nodes.iter().any(|node| node.id == victim && node.state == "retired");
        if is_given_up && given_up_s.is_none() {
            given_up_s = Some(elapsed());
            stolen.degraded_ms = theft.since()?;
            let missing = status.repair.chunks_missing;
            options.output.tell(&format!("its memory is given up: {missing} chunks are missing"));
        }
        let rebuilt = status.repair.chunks_rebuilt_total - before.repair.chunks_rebuilt_total;
        if given_up_s.is_some() {
            progress.push((elapsed(), rebuilt));
        }
        if let Some(given_up_s) = given_up_s.filter(|_| rebuilt > 0 && status.repair.chunks_missing == 0) {
            stolen.repairing_ms = theft.since()?;
            let bytes = status.repair.bytes_rebuilt_total - before.repair.bytes_rebuilt_total;
            options.output.tell(&format!("{rebuilt} chunks are rebuilt; the load goes on to its end"));
            return Ok(Course {
                counting_from_s,
                counting_to_s,
                beside_from_s,
                beside_to_s,
                beside_mb_per_s,
                killed_s,
                given_up_s,
                whole_s: elapsed(),
                chunks: rebuilt,
                bytes,
                stolen,
                progress,
            });
        }
        if load.within(LOOK) {
            bail!("{} chunks are still missing when the load ends", status.repair.chunks_missing);
        }
    }
}

fn table(results: &Results) -> String {
    let mut out = String::new();
    results.runs.iter().for_each(|run| run_table(&mut out, run));
    if results.runs.len() > 1 {
        let pooled = &results.pooled;
        let _ = writeln!(
            out,
            "{} runs: medians: share {:.2}, of what new memory allows {:.2}; p99 {:.2} times the undisturbed one, \
             {:.2} times while half of the processors count; all operations together: p99 {:.0} us undisturbed, {:.0} us \
             while they count, {:.0} us during repair: {:.2} times",
            results.runs.len(),
            results.median_share_of_estimate,
            results.median_share_of_estimate_new,
            results.median_p99_ratio,
            results.median_p99_ratio_counting,
            pooled.healthy.p99_us,
            pooled.counting.p99_us,
            pooled.repairing.p99_us,
            results.pooled_p99_ratio
        );
    }
    out
}

fn run_table(out: &mut String, run: &Run) {
    let Run { course, estimate, .. } = run;
    let _ = writeln!(out, "{}; {} nodes, {}", run.machine, run.nodes, run.code);
    let _ = writeln!(
        out,
        "killed at {:.2} s, given up at {:.2} s, whole at {:.2} s: {} chunks, {:.1} MB",
        course.killed_s,
        course.given_up_s,
        course.whole_s,
        course.chunks,
        course.bytes as f64 / 1e6
    );
    let _ = writeln!(
        out,
        "rebuilt {:.1} MB/s at a bandwidth of {} for each node; loopback, decoding and copying alone: \
         {:.1} MB/s (the median of {:.0?}); share {:.2}; into new memory: {:.1} MB/s (of {:.0?}); share {:.2}",
        run.rebuilt_mb_per_s,
        run.repair_bandwidth,
        estimate.mb_per_s,
        run.estimates_mb_per_s,
        run.share_of_estimate,
        run.estimate_new.mb_per_s,
        run.estimates_new_mb_per_s,
        run.share_of_estimate_new
    );
    let _ = writeln!(
        out,
        "p99 {:.0} us undisturbed; {:.0} us while half of the processors count: {:.2} times; \
         {:.0} us beside {:.1} MB/s of the estimate's work: {:.2} times; \
         {:.0} us degraded, nothing being rebuilt ({} operations): {:.2} times; \
         {:.0} us during repair ({} operations): {:.2} times",
        run.p99_us_healthy,
        run.p99_us_counting,
        run.p99_ratio_counting,
        run.p99_us_beside,
        course.beside_mb_per_s,
        run.p99_ratio_beside,
        run.p99_us_degraded,
        run.operations_degraded,
        run.p99_ratio_degraded,
        run.p99_us_repairing,
        run.operations_repairing,
        run.p99_ratio
    );
    let stolen = &course.stolen;
    let _ = writeln!(
        out,
        "processor time that the host gave to others: {} ms of {:.1} s undisturbed; {} ms of {:.1} s while half count; {} ms of \
         {:.1} s beside the estimate's work; {} ms of {:.1} s degraded; {} ms of {:.1} s during repair",
        stolen.healthy_ms,
        course.counting_from_s,
        stolen.counting_ms,
        course.counting_to_s - course.counting_from_s,
        stolen.beside_ms,
        course.beside_to_s - course.beside_from_s,
        stolen.degraded_ms,
        course.given_up_s - course.killed_s,
        stolen.repairing_ms,
        course.whole_s - course.given_up_s
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::NodeStatus;

    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        options: RepairOptions,
    }

    fn shares(arguments: &[&str]) -> Shares {
        let options = <Flags as clap::Parser>::parse_from([&["repair"], arguments].concat()).options;
        let node = |id| NodeStatus {
            id,
            pid: 1,
            state: "normal".to_owned(),
            fail_slow: false,
            flagged_us: 0,
            redirect_count: 0,
        };
        let (code, nodes) = ("rs:4+2".to_owned(), (0..9).map(node).collect());
        let status = Status {
            code,
            objects: 0,
            bytes_stored: 0,
            bytes_used: 0,
            nodes,
            gateways: Vec::new(),
            repair: Default::default(),
        };
        Shares::of(&options, &status).expect("a code with numbers")
    }

    #[test]
    fn keys_and_filler_together_fill_the_chunks() {
        let bytes = |shares: Shares| u64::from(shares.keys) * 1_040 + u64::from(shares.filler_keys) * 8_040;
        let full = shares(&["--chunk-mib", "1024"]);
        assert_eq!(full.keys, 100_000);
        assert!((6_442_440_000..=6_442_450_944).contains(&bytes(full)), "{full:?}");
        let small = shares(&["--chunk-mib", "16"]);
        assert!(small.keys < 100_000 && bytes(small) > 100_640_000, "half of 96 MiB each: {small:?}");
    }
}
