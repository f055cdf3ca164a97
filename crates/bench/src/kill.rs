//! `bench kill`: nodes are killed under load, and nobody may notice.
//!
//! An open loop runs while `kill -9` hits nodes at the given times, or SIGSTOP and later SIGCONT; then every key is
//! read back. Latencies count from the intended start, so an outage cannot hide behind requests that were not sent.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rand::SeedableRng;
use rand::seq::IteratorRandom;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use crate::admin::{NodeStatus, Status};
use crate::beside::{Beside, LoadEnd};
use crate::load::{self, KeyChoiceName};
use crate::output::{OutputOptions, write_results};
use crate::peers::{ClusterOptions, Running};
use crate::report::LoadReport;
use crate::sizes::SizeDistribution;
use crate::workload::Workload;

/// Kills nodes under load and checks that nothing acknowledged is lost, wrong or slow.
#[derive(Clone, Debug, clap::Args)]
pub struct KillOptions {
    /// When nodes are killed, seconds after the load starts.
    #[arg(long, value_delimiter = ',', default_value = "8,16", value_name = "SECONDS,...")]
    pub kill_at: Vec<f64>,
    /// Ids of the nodes to kill, one for each time [default: drawn by the seed].
    #[arg(long, value_delimiter = ',', value_name = "ID,...")]
    pub kill_nodes: Vec<u64>,
    /// Freeze each for so long (SIGSTOP, then SIGCONT) instead of killing it.
    #[arg(long, value_name = "SECONDS")]
    pub freeze: Option<f64>,
    #[arg(long, default_value_t = 30.0)]
    pub seconds: f64,
    /// Operations a second.
    #[arg(long, default_value_t = 10_000.0)]
    pub rate: f64,
    #[arg(long, value_enum, default_value = "a", ignore_case = true)]
    pub workload: Workload,
    /// Share of operations that delete a key.
    #[arg(long, default_value_t = 0.05, value_name = "SHARE")]
    pub deletes: f64,
    #[arg(long, default_value_t = 100_000)]
    pub keys: u32,
    #[arg(long, value_enum, default_value = "uniform")]
    pub key_choice: KeyChoiceName,
    #[arg(long, default_value = "100", value_name = "SIZE")]
    pub value_size: SizeDistribution,
    #[arg(long, short = 'c', default_value_t = 32)]
    pub connections: usize,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Longest operation that is allowed, milliseconds.
    #[arg(long, default_value_t = 20.0)]
    pub worst_ms: f64,
    /// Use the running cluster with this admin address instead of starting one. Its nodes are killed!
    #[arg(long, value_name = "HOST:PORT")]
    pub admin: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterOptions,
    #[command(flatten)]
    pub output: OutputOptions,
    /// Draw latency percentiles and throughput over time.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// A node that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Killed {
    node: u64,
    pid: u32,
    /// Seconds after the load started.
    at_s: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Results {
    machine: String,
    code: String,
    killed: Vec<Killed>,
    /// They were frozen for so long instead.
    freeze_s: Option<f64>,
    worst_ms: f64,
    worst_ms_bound: f64,
    /// Why the run failed; empty if it passed.
    failures: Vec<String>,
    load: LoadReport,
}

/// Runs the load with its kills, prints and writes the results.
///
/// # Errors
/// The cluster is not there, or anything was lost, stale, wrong, failed, or too slow.
pub fn run(options: KillOptions) -> anyhow::Result<()> {
    let running = match &options.admin {
        Some(admin) => Running::found(admin)?,
        None => {
            Running::shorttail(&options.cluster, (8, "rs:4+2"), options.value_size.objects_mib(options.keys) + 256)?
        }
    };
    let status = Status::get(running.admin.as_deref().context("the cluster has no admin address")?)?;
    let victims = victims(&options, &status.nodes)?;
    let mut load = running.load();
    load.workload = Some(options.workload);
    load.deletes = options.deletes;
    load.keys = options.keys;
    load.key_choice = Some(options.key_choice);
    load.value_size = Some(options.value_size.clone());
    load.connections = options.connections;
    load.rate = Some(options.rate);
    load.seconds = options.seconds;
    load.warm_up = 1.0;
    load.seed = options.seed;
    load.output.quiet = options.output.quiet;
    (load.preload, load.verify_all, load.expect_all) = (true, true, true);
    let freeze_s = options.freeze;
    let mut killer = Beside::new(move |load| hit_on_time(&victims, freeze_s, load));
    let report = load::execute(&load, &mut killer)?;
    let killed = killer.finish()?.unwrap_or_default();
    let results = results(&options, status.code, killed, report);
    write_results(options.output.json.as_deref(), &results, || table(&results))?;
    if let Some(path) = &options.svg {
        std::fs::write(path, crate::svg::load_plot(&results.load))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    ensure!(results.failures.is_empty(), "{}", results.failures.join("; "));
    Ok(())
}

/// Which node dies when, in the order of time.
fn victims(options: &KillOptions, nodes: &[NodeStatus]) -> anyhow::Result<Vec<Killed>> {
    let times = &options.kill_at;
    let within = |at: &f64| (0.0..options.seconds).contains(at);
    let ends = |at: &f64| at + options.freeze.unwrap_or(0.0);
    ensure!(options.freeze.is_none_or(|freeze| freeze >= 0.0), "--freeze must be a time");
    ensure!(
        times.iter().all(|at| within(at) && within(&ends(at))),
        "--kill-at must lie within the {} s of the load",
        options.seconds
    );
    ensure!(times.len() <= nodes.len(), "--kill-at names {} kills of {} nodes", times.len(), nodes.len());
    let chosen: Vec<&NodeStatus> = if options.kill_nodes.is_empty() {
        let mut rng = rand::rngs::SmallRng::seed_from_u64(options.seed);
        nodes.iter().choose_multiple(&mut rng, times.len())
    } else {
        let find = |id: &u64| {
            nodes.iter().find(|node| node.id == *id).with_context(|| format!("--kill-nodes: there is no node {id}"))
        };
        options.kill_nodes.iter().map(find).collect::<anyhow::Result<_>>()?
    };
    if chosen.len() != times.len() {
        bail!("--kill-nodes names {} nodes for {} times of --kill-at", chosen.len(), times.len());
    }
    let mut victims: Vec<Killed> =
        chosen.iter().zip(times).map(|(node, &at_s)| Killed { node: node.id, pid: node.pid, at_s }).collect();
    victims.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    Ok(victims)
}

fn results(options: &KillOptions, code: String, killed: Vec<Killed>, load: LoadReport) -> Results {
    let worst_ms = load.worst.as_ref().map_or(0.0, |worst| worst.latency_us / 1e3);
    let mut failures = Vec::new();
    if let Err(error) = load::check(&load) {
        failures.push(error.to_string());
    }
    if load.error_count > 0 {
        failures.push(format!("{} operations failed", load.error_count));
    }
    if killed.len() != options.kill_at.len() {
        failures.push(format!("only {} of {} kills took place", killed.len(), options.kill_at.len()));
    }
    if worst_ms > options.worst_ms {
        failures.push(format!("the worst operation took {worst_ms:.1} ms, more than {} ms", options.worst_ms));
    }
    let (machine, freeze_s) = (crate::process::machine(), options.freeze);
    Results { machine, code, killed, freeze_s, worst_ms, worst_ms_bound: options.worst_ms, failures, load }
}

fn table(results: &Results) -> String {
    let mut out = results.load.table();
    out.push('\n');
    for killed in &results.killed {
        let what = results.freeze_s.map_or("killed".to_owned(), |seconds| format!("froze for {seconds} s"));
        let _ = writeln!(out, "{what}: node {} (process {}) at {:.3} s", killed.node, killed.pid, killed.at_s);
    }
    let (worst, bound) = (results.worst_ms, results.worst_ms_bound);
    let _ = writeln!(out, "{}: worst operation {worst:.1} ms (at most {bound})", results.code);
    let verdict = if results.failures.is_empty() { "passed".to_owned() } else { results.failures.join("; ") };
    let _ = writeln!(out, "{verdict}");
    out
}

/// Kills each victim at its time, or freezes it, as long as the load runs and nothing fails. Who was frozen goes on all
/// the same.
fn hit_on_time(victims: &[Killed], freeze_s: Option<f64>, load: &LoadEnd) -> anyhow::Result<Vec<Killed>> {
    let signal = if freeze_s.is_some() { Signal::STOP } else { Signal::KILL };
    let ends = freeze_s
        .into_iter()
        .flat_map(|freeze_s| victims.iter().map(move |victim| (victim.at_s + freeze_s, Signal::CONT, victim)));
    let mut signals: Vec<_> = victims.iter().map(|victim| (victim.at_s, signal, victim)).chain(ends).collect();
    signals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (started, mut hit, mut failure) = (Instant::now(), Vec::new(), None);
    for (at_s, signal, victim) in signals {
        let wait = Duration::from_secs_f64(at_s).saturating_sub(started.elapsed());
        let is_over = failure.is_some() || load.within(wait);
        if is_over && signal != Signal::CONT {
            continue;
        }
        match send(signal, victim) {
            Ok(()) if signal != Signal::CONT => hit.push(Killed { at_s: started.elapsed().as_secs_f64(), ..*victim }),
            Ok(()) => {}
            // The first one tells what the others come from.
            Err(error) => _ = failure.get_or_insert(error),
        }
    }
    failure.map_or(Ok(hit), Err)
}

fn send(signal: Signal, victim: &Killed) -> anyhow::Result<()> {
    let pid = i32::try_from(victim.pid).ok().and_then(Pid::from_raw).context("a node's process id is no id")?;
    kill_process(pid, signal).with_context(|| format!("cannot send {signal:?} to node {}", victim.node))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        options: KillOptions,
    }

    fn options(arguments: &[&str]) -> KillOptions {
        Flags::parse_from([&["kill"], arguments].concat()).options
    }

    fn node(id: u64) -> NodeStatus {
        let (pid, state) = (100 + id as u32, "normal".to_owned());
        NodeStatus { id, pid, state, fail_slow: false, flagged_us: 0, redirect_count: 0 }
    }

    fn nodes() -> Vec<NodeStatus> {
        (1..=8).map(node).collect()
    }

    fn refusal(arguments: &[&str]) -> String {
        victims(&options(arguments), &nodes()).expect_err("refused").to_string()
    }

    #[test]
    fn victims_are_distinct_and_follow_from_the_seed() {
        let drawn = |seed: &str| victims(&options(&["--seed", seed]), &nodes()).expect("two of eight");
        assert_eq!(drawn("4"), drawn("4"));
        assert!((0..50).all(|seed| {
            let pair = drawn(&seed.to_string());
            pair.len() == 2 && pair[0].node != pair[1].node
        }));
        assert!((0..50).any(|seed| drawn(&seed.to_string())[0].node != drawn("4")[0].node));
    }

    #[test]
    fn named_victims_die_in_the_order_of_time() {
        let pair = victims(&options(&["--kill-at", "9,3", "--kill-nodes", "5,2"]), &nodes()).expect("good");
        let nodes: Vec<_> = pair.iter().map(|victim| (victim.node, victim.pid)).collect();
        assert_eq!(nodes, [(2, 102), (5, 105)]);
    }

    #[test]
    fn impossible_kills_are_refused() {
        assert!(refusal(&["--kill-nodes", "1,77"]).contains("no node 77"));
        assert!(refusal(&["--kill-nodes", "1"]).contains("1 nodes for 2 times"));
        assert!(refusal(&["--kill-at", "3,31"]).contains("within the 30 s"));
        assert!(refusal(&["--kill-at", "3,29", "--freeze", "2"]).contains("within the 30 s"));
        assert!(refusal(&["--freeze", "NaN"]).contains("must be a time"));
        assert!(refusal(&["--kill-at", "1,1,1,1,1,1,1,1,1"]).contains("9 kills of 8 nodes"));
    }

    #[test]
    fn a_killed_process_is_gone_at_its_time() {
        let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let victim = Killed { node: 1, pid: sleeper.id(), at_s: 0.0 };
        let mut killer = Beside::new(move |load| hit_on_time(&[victim], None, load));
        crate::load::Observer::phase_starts(&mut killer, crate::engine::Phase::Measure);
        assert!(!sleeper.wait().expect("our child").success());
        let killed = killer.finish().expect("killed").expect("started");
        assert_eq!((killed.len(), killed[0].node), (1, 1));
    }

    #[test]
    fn a_frozen_process_goes_on_also_when_the_load_ends_before_its_time() {
        let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let victim = Killed { node: 1, pid: sleeper.id(), at_s: 0.0 };
        let path = format!("/proc/{}/stat", sleeper.id());
        let is_frozen = move || std::fs::read_to_string(&path).expect("it is there").contains(") T ");
        let mut killer = Beside::new(move |load| hit_on_time(&[victim], Some(1e6), load));
        crate::load::Observer::phase_starts(&mut killer, crate::engine::Phase::Measure);
        while !is_frozen() {
            std::thread::yield_now();
        }
        let frozen = killer.finish().expect("frozen").expect("started");
        let still = is_frozen();
        sleeper.kill().and_then(|()| sleeper.wait()).expect("our child");
        assert_eq!((frozen.len(), frozen[0].node, still), (1, 1, false));
    }

    #[test]
    fn a_frozen_process_goes_on_also_when_the_next_one_cannot_be_frozen() {
        let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let victims = [sleeper.id(), u32::MAX].map(|pid| Killed { node: 1, pid, at_s: 0.0 });
        let (over, is_over) = std::sync::mpsc::channel();
        let mut killer = Beside::new(move |load| {
            let hit = hit_on_time(&victims, Some(1e6), load);
            over.send(()).expect("waited for");
            hit
        });
        crate::load::Observer::phase_starts(&mut killer, crate::engine::Phase::Measure);
        is_over.recv().expect("it tells");
        let failure = killer.finish().expect_err("there is no such process").to_string();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", sleeper.id())).expect("it is there");
        sleeper.kill().and_then(|()| sleeper.wait()).expect("our child");
        assert!(failure.contains("process id") && !stat.contains(") T "), "{failure}, {stat}");
    }
}
