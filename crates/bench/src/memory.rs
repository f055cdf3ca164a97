//! `bench memory`: bytes of memory per object, all processes of each system counted as the kernel counts them.
//!
//! Every system is loaded with the same objects, and all of them are read back before its memory is taken, so that a
//! store that evicts cannot look small.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Serialize;

use crate::admin::code_redundancy;
use crate::load;
use crate::output::{GoalOptions, write_results};
use crate::peers::{ClusterOptions, Running, System};
use crate::process::{self, Memory};
use crate::sizes::SizeDistribution;

/// Memory per object of memcached, Redis and ShortTail, by summed RSS.
#[derive(Clone, Debug, clap::Args)]
pub struct MemoryOptions {
    #[arg(long, default_value_t = 3_000_000)]
    pub objects: u32,
    #[arg(long, default_value_t = 24)]
    pub key_size: usize,
    #[arg(long, value_delimiter = ',', default_value = "32,100,1000")]
    pub value_sizes: Vec<usize>,
    #[arg(long, value_enum, value_delimiter = ',', default_value = "memcached,redis,shorttail")]
    pub systems: Vec<System>,
    /// Seconds between the last write and the count, for work that is done behind.
    #[arg(long, default_value_t = 2)]
    pub settle: u64,
    #[command(flatten)]
    pub cluster: ClusterOptions,
    #[command(flatten)]
    pub goals: GoalOptions,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    system: &'static str,
    value_bytes: usize,
    objects: u32,
    /// Before the first object.
    empty: Memory,
    loaded: Memory,
    /// RSS at the end, all of it, divided by the objects.
    rss_per_object: f64,
    pss_per_object: f64,
    /// RSS by role, bytes.
    roles: BTreeMap<&'static str, u64>,
    /// Of the first system at this value size.
    ratio: Option<f64>,
    goal: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct Results {
    machine: String,
    key_bytes: usize,
    rows: Vec<Row>,
}

/// Node count and code that promises about memory are made for.
const SHAPE: (u32, &str) = (10, "rs:8+2");

/// Loads every system with every value size, prints and writes what they hold.
///
/// # Errors
/// A server is not installed or does not start, or does not hold all objects; with `--enforce` also a missed goal.
pub fn run(options: MemoryOptions) -> anyhow::Result<()> {
    let mut rows: Vec<Row> = Vec::new();
    for &value_bytes in &options.value_sizes {
        for &system in &options.systems {
            eprintln!("{} objects with values of {value_bytes} B in {}", options.objects, system.name());
            let mut row = measure(&options, system, value_bytes)?;
            let first = rows.iter().find(|row| row.value_bytes == value_bytes).unwrap_or(&row);
            let beside_memcached = first.system == System::Memcached.name() && system == System::Shorttail;
            row.ratio = Some(row.rss_per_object / first.rss_per_object);
            row.goal = if beside_memcached { goal(value_bytes) } else { None };
            rows.push(row);
        }
    }
    let results = Results { machine: process::machine(), key_bytes: options.key_size, rows };
    write_results(options.goals.json.as_deref(), &results, || table(&results))?;
    let missed = results.rows.iter().filter(|row| is_missed(row)).count();
    ensure!(!options.goals.enforce || missed == 0, "{missed} goals missed");
    Ok(())
}

/// Largest ratio to one copy in memcached that is promised at this size.
fn goal(value_bytes: usize) -> Option<f64> {
    match value_bytes {
        32 | 100 => Some(1.0),
        1000 => Some(1.15),
        _ => None,
    }
}

fn is_missed(row: &Row) -> bool {
    matches!((row.ratio, row.goal), (Some(ratio), Some(goal)) if ratio > goal)
}

fn measure(options: &MemoryOptions, system: System, value_bytes: usize) -> anyhow::Result<Row> {
    let running = start(options, system, value_bytes)?;
    let (empty, _) = sum(&running)?;
    let mut load = running.load();
    load.keys = options.objects;
    load.key_size = Some(SizeDistribution::Fixed(options.key_size));
    load.value_size = Some(SizeDistribution::Fixed(value_bytes));
    load.connections = 16;
    load.pipeline = 16;
    load.operations = Some(0);
    (load.preload, load.verify_all, load.expect_all) = (true, true, true);
    let report = load::execute(&load, &mut ())?;
    load::check(&report).with_context(|| format!("{} does not hold all objects", system.name()))?;
    ensure!(report.error_count == 0, "{} failed {} operations: {:?}", system.name(), report.error_count, report.errors);
    std::thread::sleep(Duration::from_secs(options.settle));
    let (loaded, roles) = sum(&running)?;
    let objects = f64::from(options.objects.max(1));
    Ok(Row {
        system: system.name(),
        value_bytes,
        objects: options.objects,
        empty,
        loaded,
        rss_per_object: loaded.rss_bytes as f64 / objects,
        pss_per_object: loaded.pss_bytes as f64 / objects,
        roles,
        ratio: None,
        goal: None,
    })
}

fn start(options: &MemoryOptions, system: System, value_bytes: usize) -> anyhow::Result<Running> {
    // Enough that nothing is evicted: 128 bytes of overhead an object and a quarter on top.
    let object_bytes = (options.key_size + value_bytes + 128) as f64;
    let data_mib = f64::from(options.objects) * object_bytes * 1.25 / f64::from(1 << 20);
    match system {
        System::Memcached => Running::memcached(data_mib as u64 + 1024),
        System::Redis => Running::redis(0),
        System::Shorttail => {
            let code = options.cluster.code.as_deref().unwrap_or(SHAPE.1);
            let nodes = options.cluster.nodes.unwrap_or(SHAPE.0);
            let node_mib = data_mib * code_redundancy(code)? / f64::from(nodes);
            Running::shorttail(&options.cluster, SHAPE, node_mib as u64 + 128)
        }
    }
}

/// Memory of all processes together, and RSS by role.
fn sum(running: &Running) -> anyhow::Result<(Memory, BTreeMap<&'static str, u64>)> {
    let mut all = Memory::default();
    let mut roles = BTreeMap::new();
    for one in &running.pids {
        let held = process::memory(one.pid)?;
        all.rss_bytes += held.rss_bytes;
        all.pss_bytes += held.pss_bytes;
        *roles.entry(one.role).or_default() += held.rss_bytes;
    }
    Ok((all, roles))
}

fn table(results: &Results) -> String {
    let mut out = format!("{}\n{} B keys; bytes of memory per object\n\n", results.machine, results.key_bytes);
    let _ = writeln!(
        out,
        "{:<10}{:>8}{:>10}{:>12}{:>12}{:>8}   RSS by role, MiB",
        "", "value", "objects", "RSS/object", "PSS/object", "ratio"
    );
    for row in &results.rows {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let roles: Vec<String> = row.roles.iter().map(|(role, rss)| format!("{role} {:.0}", mib(*rss))).collect();
        let verdict = match row.goal {
            Some(goal) if is_missed(row) => format!("   MISSED: at most {goal}"),
            Some(goal) => format!("   met: at most {goal}"),
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "{:<10}{:>8}{:>10}{:>12.1}{:>12.1}{:>8.2}   {} (empty: {:.0}){verdict}",
            row.system,
            row.value_bytes,
            row.objects,
            row.rss_per_object,
            row.pss_per_object,
            row.ratio.unwrap_or(1.0),
            roles.join(", "),
            mib(row.empty.rss_bytes),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_missed_only_above_its_bound() {
        let row = |ratio: f64, goal: Option<f64>| Row {
            system: "shorttail",
            value_bytes: 100,
            objects: 1,
            empty: Memory::default(),
            loaded: Memory::default(),
            rss_per_object: 1.0,
            pss_per_object: 1.0,
            roles: BTreeMap::new(),
            ratio: Some(ratio),
            goal,
        };
        assert!(is_missed(&row(1.01, goal(100))));
        assert!(!is_missed(&row(1.0, goal(32))));
        assert!(!is_missed(&row(1.15, goal(1000))));
        assert!(!is_missed(&row(9.0, goal(7))));
    }
}
