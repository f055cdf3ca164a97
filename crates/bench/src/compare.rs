//! `bench compare`: memcached, Redis with two replicas and ours, on one machine in one run.
//!
//! Every round starts each system afresh on free ports, loads the keys, measures reads and writes at each number of
//! connections, and stops it: no system ever runs beside another. Rounds interleave the systems, so that a slow minute
//! of the machine hits all of them; medians over the rounds are compared.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use serde::Serialize;

use crate::limits::ROUNDS_MAX;
use crate::load::{self, KeyChoiceName, LoadOptions};
use crate::median::median;
use crate::output::{GoalOptions, write_results};
use crate::peers::{ClusterOptions, Running, System};
use crate::process::CpuSeconds;
use crate::report::{LoadReport, VerificationReport};
use crate::sizes::SizeDistribution;
use crate::workload::Workload;

mod goals;
mod table;

use goals::{Goal, goals};
use table::table;

/// Compares memcached -t 1, Redis with replicas and WAIT, and ShortTail side by side.
#[derive(Clone, Debug, clap::Args)]
pub struct CompareOptions {
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    #[arg(long, value_enum, value_delimiter = ',', default_value = "memcached,redis,shorttail")]
    pub systems: Vec<System>,
    /// Numbers of connections.
    #[arg(long, short = 'c', value_delimiter = ',', default_value = "64,16,1")]
    pub connections: Vec<usize>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Seconds of load before each measurement.
    #[arg(long, default_value_t = 1.0)]
    pub warm_up: f64,
    /// Keys loaded before; few of them would all lie in the open stripes, which gateways answer without a node.
    #[arg(long, default_value_t = 1_000_000)]
    pub keys: u32,
    #[arg(long, default_value_t = 24)]
    pub key_size: usize,
    #[arg(long, default_value_t = 100)]
    pub value_size: usize,
    #[arg(long, value_enum, default_value = "uniform")]
    pub key_choice: KeyChoiceName,
    /// Replicas of Redis; each write waits for all of them.
    #[arg(long, default_value_t = 2)]
    pub replicas: u32,
    #[command(flatten)]
    pub cluster: ClusterOptions,
    #[command(flatten)]
    pub goals: GoalOptions,
}

/// What was measured: one system, one operation, one number of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Cell {
    system: &'static str,
    operation: &'static str,
    connections: usize,
}

/// Of a cell: of one round, or medians over the rounds.
#[derive(Clone, Debug, Serialize)]
struct Figures {
    #[serde(flatten)]
    cell: Cell,
    throughput_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    p99_9_us: f64,
    cpu_us_per_operation: f64,
    /// CPU microseconds per operation, by role.
    roles: BTreeMap<&'static str, CpuSeconds>,
}

/// One measurement.
#[derive(Clone, Debug, Serialize)]
struct Sample {
    round: usize,
    #[serde(flatten)]
    figures: Figures,
    client_cpu_us_per_operation: f64,
    errors: u64,
    verification: VerificationReport,
}

/// Medians over the rounds.
#[derive(Clone, Debug, Serialize)]
struct Median {
    #[serde(flatten)]
    figures: Figures,
    /// Each figure divided by that of the first system compared, if there is one.
    ratios: Option<Ratios>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Ratios {
    throughput: f64,
    p50: f64,
    p99: f64,
    p99_9: f64,
    cpu_per_operation: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Results {
    machine: String,
    rounds: usize,
    keys: u32,
    key_bytes: usize,
    value_bytes: usize,
    seconds_each: f64,
    medians: Vec<Median>,
    goals: Vec<Goal>,
    samples: Vec<Sample>,
}

/// Runs the comparison, prints and writes the results.
///
/// # Errors
/// A server is not installed, does not start or ends, a key is not there, or answers broke a promise; with `--enforce`
/// also a missed goal.
pub fn run(options: CompareOptions) -> anyhow::Result<()> {
    ensure!((1..=ROUNDS_MAX).contains(&options.rounds), "--rounds must be between 1 and {ROUNDS_MAX}");
    let mut samples = Vec::new();
    for round in 1..=options.rounds {
        for &system in &options.systems {
            eprintln!("round {round} of {}: {}", options.rounds, system.name());
            let running = start(&options, system)?;
            measure_system(&options, round, system, &running, &mut samples)?;
        }
    }
    let medians = medians(&samples);
    let goals = goals(&medians);
    let results = Results {
        machine: crate::process::machine(),
        rounds: options.rounds,
        keys: options.keys,
        key_bytes: options.key_size,
        value_bytes: options.value_size,
        seconds_each: options.seconds,
        medians,
        goals,
        samples,
    };
    write_results(options.goals.json.as_deref(), &results, || table(&results))?;
    conclude(&results, options.goals.enforce)
}

fn conclude(results: &Results, enforce: bool) -> anyhow::Result<()> {
    let faults: u64 = results.samples.iter().map(|sample| sample.verification.faults()).sum();
    ensure!(faults == 0, "{faults} answers were lost, stale or wrong: see `verification` of the samples");
    // Finding nothing is faster than finding something.
    let absent: u64 =
        results.samples.iter().map(|sample| sample.verification.absent + sample.verification.missed).sum();
    ensure!(absent == 0, "{absent} answers were that there is no such key");
    let errors: u64 = results.samples.iter().map(|sample| sample.errors).sum();
    ensure!(errors == 0, "{errors} operations failed");
    let missed: Vec<_> = results.goals.iter().filter(|goal| !goal.met).map(|goal| goal.name).collect();
    ensure!(!enforce || missed.is_empty(), "missed: {}", missed.join("; "));
    Ok(())
}

fn start(options: &CompareOptions, system: System) -> anyhow::Result<Running> {
    let object_bytes = (options.key_size + options.value_size + 256) as u64;
    // Four times the data: room for overwrites before anything has to be cleaned or evicted.
    let data_mib = 4 * u64::from(options.keys) * object_bytes / (1 << 20);
    match system {
        System::Memcached => Running::memcached(data_mib + 256),
        System::Redis => Running::redis(options.replicas),
        System::Shorttail => Running::shorttail(&options.cluster, (8, "rs:4+2"), data_mib / 4 + 256),
    }
}

fn measure_system(
    options: &CompareOptions,
    round: usize,
    system: System,
    running: &Running,
    samples: &mut Vec<Sample>,
) -> anyhow::Result<()> {
    let mut base = running.load();
    base.keys = options.keys;
    base.key_choice = Some(options.key_choice);
    base.key_size = Some(SizeDistribution::Fixed(options.key_size));
    base.value_size = Some(SizeDistribution::Fixed(options.value_size));
    base.output.quiet = true;
    let mut preload = LoadOptions { preload: true, operations: Some(0), ..base.clone() };
    preload.connections = 16;
    preload.pipeline = 16;
    load::check_stored(&load::execute(&preload, &mut ())?)?;
    (base.stored_before, base.expect_all) = (true, true);
    for &connections in &options.connections {
        for (operation, workload) in [("get", Workload::Get), ("set", Workload::Set)] {
            let measured = LoadOptions {
                workload: Some(workload),
                connections,
                seconds: options.seconds,
                warm_up: options.warm_up,
                seed: round as u64,
                ..base.clone()
            };
            let report = load::execute(&measured, &mut ())?;
            let cell = Cell { system: system.name(), operation, connections };
            eprintln!(
                "  {operation} x {connections}: {:.0} /s, p50 {:.1} us",
                report.throughput_per_s, report.latency.p50_us
            );
            samples.push(sample(round, cell, running, report)?);
        }
    }
    Ok(())
}

fn sample(round: usize, cell: Cell, running: &Running, report: LoadReport) -> anyhow::Result<Sample> {
    // The processor time of those that are left would be too low.
    let all_there = report.cpu.server_us_per_operation;
    all_there.with_context(|| format!("a server of {} ended, or nothing was answered", cell.system))?;
    let operations = report.operations.max(1) as f64;
    let per_operation =
        |cpu: CpuSeconds| CpuSeconds { user: cpu.user * 1e6 / operations, system: cpu.system * 1e6 / operations };
    let mut roles: BTreeMap<&'static str, CpuSeconds> = BTreeMap::new();
    for server in &report.cpu.servers {
        let role = roles.entry(running.role_of(server.pid)).or_default();
        *role = role.plus(per_operation(server.cpu));
    }
    let figures = Figures {
        cell,
        throughput_per_s: report.throughput_per_s,
        p50_us: report.latency.p50_us,
        p99_us: report.latency.p99_us,
        p99_9_us: report.latency.p99_9_us,
        cpu_us_per_operation: roles.values().map(|cpu| cpu.total()).sum(),
        roles,
    };
    Ok(Sample {
        round,
        figures,
        client_cpu_us_per_operation: per_operation(report.cpu.client).total(),
        errors: report.error_count,
        verification: report.verification,
    })
}

fn medians(samples: &[Sample]) -> Vec<Median> {
    let mut cells: Vec<Cell> = Vec::new();
    for sample in samples {
        let cell = sample.figures.cell;
        if !cells.contains(&cell) {
            cells.push(cell);
        }
    }
    let mut medians: Vec<Median> = cells.iter().map(|cell| median_of_cell(samples, *cell)).collect();
    for (index, cell) in cells.iter().enumerate() {
        let base = find(&medians, Cell { system: cells[0].system, ..*cell });
        medians[index].ratios = base.map(|base| medians[index].figures.divided_by(base));
    }
    medians
}

fn find(medians: &[Median], cell: Cell) -> Option<&Figures> {
    medians.iter().map(|median| &median.figures).find(|figures| figures.cell == cell)
}

fn median_of_cell(samples: &[Sample], cell: Cell) -> Median {
    let all = samples.iter().map(|sample| &sample.figures);
    let mine: Vec<&Figures> = all.filter(|figures| figures.cell == cell).collect();
    let over = |figure: &dyn Fn(&Figures) -> f64| median(mine.iter().map(|figures| figure(figures)));
    let role_names = mine.iter().flat_map(|figures| figures.roles.keys().copied());
    let role = |name: &'static str| {
        let used = |figures: &Figures| figures.roles.get(name).copied().unwrap_or_default();
        CpuSeconds { user: over(&|figures| used(figures).user), system: over(&|figures| used(figures).system) }
    };
    let figures = Figures {
        cell,
        throughput_per_s: over(&|figures| figures.throughput_per_s),
        p50_us: over(&|figures| figures.p50_us),
        p99_us: over(&|figures| figures.p99_us),
        p99_9_us: over(&|figures| figures.p99_9_us),
        cpu_us_per_operation: over(&|figures| figures.cpu_us_per_operation),
        roles: role_names.map(|name| (name, role(name))).collect(),
    };
    Median { figures, ratios: None }
}

impl Figures {
    fn divided_by(&self, base: &Figures) -> Ratios {
        Ratios {
            throughput: self.throughput_per_s / base.throughput_per_s,
            p50: self.p50_us / base.p50_us,
            p99: self.p99_us / base.p99_us,
            p99_9: self.p99_9_us / base.p99_9_us,
            cpu_per_operation: self.cpu_us_per_operation / base.cpu_us_per_operation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(system: &'static str, round: usize, throughput_per_s: f64, cpu: f64) -> Sample {
        let figures = Figures {
            cell: Cell { system, operation: "get", connections: 64 },
            throughput_per_s,
            p50_us: 10.0,
            p99_us: 20.0,
            p99_9_us: 30.0,
            cpu_us_per_operation: cpu,
            roles: BTreeMap::from([("server", CpuSeconds { user: cpu / 2.0, system: cpu / 2.0 })]),
        };
        let verification = VerificationReport::default();
        Sample { round, figures, client_cpu_us_per_operation: 1.0, errors: 0, verification }
    }

    #[test]
    fn medians_are_of_the_rounds_and_ratios_of_the_medians() {
        let samples = [
            sample("memcached", 1, 100.0, 4.0),
            sample("shorttail", 1, 80.0, 6.0),
            sample("memcached", 2, 90.0, 5.0),
            sample("shorttail", 2, 95.0, 7.0),
            sample("memcached", 3, 500.0, 1.0),
            sample("shorttail", 3, 1.0, 70.0),
        ];
        let medians = medians(&samples);
        assert_eq!((medians[0].figures.throughput_per_s, medians[1].figures.throughput_per_s), (100.0, 80.0));
        assert_eq!(medians[1].ratios.expect("the first system was measured").cpu_per_operation, 7.0 / 4.0);
        let goals = goals(&medians);
        let met: Vec<(f64, bool)> = goals.iter().map(|goal| (goal.ratio, goal.met)).collect();
        assert_eq!(met, [(1.75, false), (0.8, false)]);
    }

    #[test]
    fn answers_that_were_wrong_fail_the_comparison() {
        let bad = |change: fn(&mut Sample)| {
            let mut bad = sample("memcached", 1, 1.0, 1.0);
            change(&mut bad);
            vec![bad]
        };
        let results = |samples: Vec<Sample>, goals| Results {
            machine: String::new(),
            rounds: 1,
            keys: 1,
            key_bytes: 1,
            value_bytes: 1,
            seconds_each: 1.0,
            medians: vec![],
            goals,
            samples,
        };
        assert!(conclude(&results(bad(|_| ()), vec![]), false).is_ok());
        let changes: [fn(&mut Sample); 4] = [
            |sample| sample.verification.stale = 2,
            |sample| sample.verification.absent = 1,
            |sample| sample.verification.missed = 1,
            |sample| sample.errors = 1,
        ];
        for change in changes {
            assert!(conclude(&results(bad(change), vec![]), false).is_err());
        }
        let missed = vec![Goal { name: "speed", ratio: 2.0, bound: 1.0, met: false }];
        assert!(conclude(&results(vec![], missed.clone()), false).is_ok());
        assert!(conclude(&results(vec![], missed), true).expect_err("enforced").to_string().contains("speed"));
    }
}
