//! `bench tail`: what one slow node does to everybody's latencies, and that nothing is done where nothing is wrong.
//!
//! | scenario | what happens |
//! |---|---|
//! | slow | one node of eight answers 50 ms later, by the cluster's own injection |
//! | stutter, quota, link | the same for real: SIGSTOP and SIGCONT, a CPU quota, a link of 1 Mbit/s |
//! | busy | nothing, at full load, for ten million operations |
//! | all-slow | every node 20 ms slower at once |
//! | starved | the gateway gets a share of a processor |
//! | overload | twice what the cluster can do, with hedges and without |
//! | binding | late binding beside hedging, at the same extra load |
//!
//! Every scenario has a cluster of its own. The rate is half of what that cluster does when it is healthy, which
//! is measured first.

use std::path::PathBuf;

use anyhow::ensure;
use serde::Serialize;

use crate::load::{self, KeyChoiceName, LoadOptions};
use crate::output::{GoalOptions, write_results};
use crate::peers::{ClusterOptions, Running};
use crate::sizes::SizeDistribution;
use crate::workload::Workload;

mod binding;
mod counters;
mod figure;
mod goals;
mod nobody;
mod one_slow;
mod overload;
mod table;

use binding::Binding;
use goals::Goal;
use nobody::Quiet;
use one_slow::OneSlow;
use overload::Overload;

/// Shows what one slow node does to everybody's latencies, in several scenarios.
#[derive(Clone, Debug, clap::Args)]
pub struct TailOptions {
    /// Which ones; all by default.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Scenario::ALL)]
    pub scenarios: Vec<Scenario>,
    /// Seconds before the fault.
    #[arg(long, default_value_t = 8.0)]
    pub healthy_seconds: f64,
    /// Seconds with the fault.
    #[arg(long, default_value_t = 12.0)]
    pub faulty_seconds: f64,
    /// Share of the healthy capacity at which clients ask.
    #[arg(long, default_value_t = 0.5)]
    pub rate_share: f64,
    /// Operations of the busy scenario.
    #[arg(long, default_value_t = 10_000_000)]
    pub busy_operations: u64,
    #[arg(long, default_value_t = 500_000)]
    pub keys: u32,
    #[arg(long, default_value = "100", value_name = "SIZE")]
    pub value_size: SizeDistribution,
    /// Connections of an open loop: so many that none waits behind a slow operation of its own.
    #[arg(long, short = 'c', default_value_t = 1_024)]
    pub connections: usize,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The node to make slow.
    #[arg(long, default_value_t = 3)]
    pub victim: u64,
    #[command(flatten)]
    pub cluster: ClusterOptions,
    #[command(flatten)]
    pub goals: GoalOptions,
    /// Draw latencies over time.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    Slow,
    Stutter,
    Quota,
    Link,
    Busy,
    AllSlow,
    Starved,
    Overload,
    Binding,
}

impl Scenario {
    pub const ALL: [Scenario; 9] = [
        Scenario::Slow,
        Scenario::Stutter,
        Scenario::Quota,
        Scenario::Link,
        Scenario::Busy,
        Scenario::AllSlow,
        Scenario::Starved,
        Scenario::Overload,
        Scenario::Binding,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Scenario::Slow => "slow",
            Scenario::Stutter => "stutter",
            Scenario::Quota => "quota",
            Scenario::Link => "link",
            Scenario::Busy => "busy",
            Scenario::AllSlow => "all-slow",
            Scenario::Starved => "starved",
            Scenario::Overload => "overload",
            Scenario::Binding => "binding",
        }
    }
}

impl std::fmt::Display for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A scenario without results, and why.
#[derive(Clone, Debug, Serialize)]
struct Unplayed {
    scenario: Scenario,
    why: String,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Results {
    machine: String,
    code: String,
    nodes: u32,
    keys: u32,
    value_bytes: String,
    one_slow: Vec<OneSlow>,
    quiet: Vec<Quiet>,
    overload: Option<Overload>,
    binding: Option<Binding>,
    /// It could not be played here.
    skipped: Vec<Unplayed>,
    /// An answer broke a promise.
    broken: Vec<Unplayed>,
    goals: Vec<Goal>,
}

const SHAPE: (u32, &str) = (8, "rs:4+2");

/// Plays the scenarios, prints and writes the results.
///
/// # Errors
/// A cluster does not start, or an answer broke a promise; with `--enforce` also a missed goal or a scenario that
/// could not be played.
pub fn run(options: TailOptions) -> anyhow::Result<()> {
    let mut results = Results {
        machine: crate::process::machine(),
        code: options.cluster.code.clone().unwrap_or(SHAPE.1.to_owned()),
        nodes: options.cluster.nodes.unwrap_or(SHAPE.0),
        keys: options.keys,
        value_bytes: options.value_size.to_string(),
        ..Results::default()
    };
    for &scenario in &options.scenarios {
        eprintln!("{scenario}");
        if let Err(error) = play(&options, scenario, &mut results) {
            eprintln!("  not played: {error:#}");
            note_unplayed(&mut results, scenario, &error);
        }
    }
    results.goals = goals::goals(&results);
    write_results(options.goals.json.as_deref(), &results, || table::table(&results))?;
    if let Some(path) = &options.svg {
        figure::write(path, &results.one_slow)?;
    }
    conclude(&results, options.goals.enforce)
}

fn note_unplayed(results: &mut Results, scenario: Scenario, error: &anyhow::Error) {
    let list = if error.is::<load::Broken>() { &mut results.broken } else { &mut results.skipped };
    list.push(Unplayed { scenario, why: format!("{error:#}") });
}

fn play(options: &TailOptions, scenario: Scenario, results: &mut Results) -> anyhow::Result<()> {
    match scenario {
        Scenario::Slow | Scenario::Stutter | Scenario::Quota | Scenario::Link => {
            results.one_slow.push(one_slow::play(options, scenario)?);
        }
        Scenario::Busy | Scenario::AllSlow | Scenario::Starved => results.quiet.push(nobody::play(options, scenario)?),
        Scenario::Overload => results.overload = Some(overload::play(options)?),
        Scenario::Binding => results.binding = Some(binding::play(options)?),
    }
    Ok(())
}

fn conclude(results: &Results, enforce: bool) -> anyhow::Result<()> {
    let shown = |unplayed: &Unplayed| format!("{}: {}", unplayed.scenario, unplayed.why);
    let broken: Vec<String> = results.broken.iter().map(shown).collect();
    ensure!(broken.is_empty(), "broken promises: {}", broken.join("; "));
    let missed = results.goals.iter().filter(|goal| !goal.met).map(|goal| goal.name.clone());
    let failures: Vec<String> = missed.chain(results.skipped.iter().map(shown)).collect();
    ensure!(!enforce || failures.is_empty(), "missed: {}", failures.join("; "));
    Ok(())
}

/// A cluster with its keys loaded. `flags` are further ones of `shorttail up`.
fn loaded(options: &TailOptions, flags: &[&str]) -> anyhow::Result<Running> {
    let flags = ["--allow-chaos"].iter().chain(flags).map(|&flag| flag.to_owned());
    let running = Running::shorttail(&options.cluster.with_up_args(flags), SHAPE, node_memory_mib(options))?;
    preload(options, &running)?;
    Ok(running)
}

fn node_memory_mib(options: &TailOptions) -> u64 {
    options.value_size.objects_mib(options.keys) + 256
}

fn preload(options: &TailOptions, running: &Running) -> anyhow::Result<()> {
    let mut load = base(options, running);
    (load.preload, load.operations, load.connections, load.pipeline) = (true, Some(0), 16, 16);
    load.stored_before = false;
    load::check_stored(&load::execute(&load, &mut ())?)
}

/// Half reads, half writes of keys that are all alike: most of them lie on nodes and not in open stripes.
fn base(options: &TailOptions, running: &Running) -> LoadOptions {
    let mut load = running.load();
    load.workload = Some(Workload::A);
    load.keys = options.keys;
    load.key_choice = Some(KeyChoiceName::Uniform);
    load.value_size = Some(options.value_size.clone());
    load.seed = options.seed;
    load.output.quiet = true;
    (load.stored_before, load.expect_all) = (true, options.cluster.has_ample_memory());
    load
}

/// Operations a second of a healthy cluster, in a closed loop of 64 connections.
fn capacity(options: &TailOptions, running: &Running) -> anyhow::Result<f64> {
    let load = LoadOptions { connections: 64, seconds: 4.0, warm_up: 2.0, ..base(options, running) };
    let report = load::execute(&load, &mut ())?;
    load::check(&report)?;
    ensure!(report.operations > 0, "a healthy cluster answers nothing: {:?}", report.errors);
    eprintln!("  healthy capacity {:.0} /s", report.throughput_per_s);
    Ok(report.throughput_per_s)
}

/// An open loop at `rate`, with connections enough that a slow operation delays no other.
fn open_loop(options: &TailOptions, running: &Running, rate: f64) -> LoadOptions {
    LoadOptions { rate: Some(rate), connections: options.connections, warm_up: 2.0, ..base(options, running) }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_broken_promise_is_an_error_and_what_cannot_be_played_only_if_enforced() {
        let verdicts = |error: anyhow::Error| {
            let mut results = Results::default();
            note_unplayed(&mut results, Scenario::Slow, &error);
            [false, true].map(|enforce| conclude(&results, enforce).map_err(|error| error.to_string()))
        };
        let [lax, strict] = verdicts(anyhow::anyhow!("no link"));
        assert!(lax.is_ok() && strict.expect_err("enforced").contains("slow: no link"));
        let mut report = load::tests::report();
        load::check(&report).expect("nothing is wrong");
        report.verification.stale = 1;
        let broken = load::check(&report).context("beside something else").expect_err("stale");
        assert!(verdicts(broken).iter().all(|verdict| verdict.clone().expect_err("broken").contains("1 stale")));
    }
}
