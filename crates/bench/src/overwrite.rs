//! `bench overwrite`: keys that are written over and over must not cost more and more memory.
//!
//! While the keys are overwritten in random order, the cluster's status is asked again and again; what counts is the
//! largest `bytes_used / (bytes_stored x (k+m)/k)`. Asking starts when all keys are loaded: of an almost empty store
//! the open stripes are most.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;

use crate::admin::Status;
use crate::beside::{Beside, LoadEnd};
use crate::limits::STATUS_LAG_SECONDS;
use crate::load::{self, KeyChoiceName};
use crate::output::{OutputOptions, write_results};
use crate::peers::{ClusterOptions, Running};
use crate::report::LoadReport;
use crate::sizes::SizeDistribution;
use crate::workload::Workload;

/// Overwrites keys for ever and checks that memory stays bounded.
#[derive(Clone, Debug, clap::Args)]
pub struct OverwriteOptions {
    #[arg(long, default_value_t = 1_000_000)]
    pub keys: u32,
    /// How often each key is overwritten, on average.
    #[arg(long, default_value_t = 30)]
    pub rounds: u64,
    #[arg(long, default_value = "24", value_name = "SIZE")]
    pub key_size: SizeDistribution,
    #[arg(long, default_value = "100", value_name = "SIZE")]
    pub value_size: SizeDistribution,
    #[arg(long, value_enum, default_value = "uniform")]
    pub key_choice: KeyChoiceName,
    #[arg(long, short = 'c', default_value_t = 16)]
    pub connections: usize,
    #[arg(long, default_value_t = 16)]
    pub pipeline: usize,
    /// Largest allowed bytes_used / (bytes_stored x (k+m)/k).
    #[arg(long, default_value_t = 1.35)]
    pub bound: f64,
    /// Milliseconds between two looks at the status.
    #[arg(long, default_value_t = 500)]
    pub poll_ms: u64,
    /// Use the running cluster with this admin address instead of starting one.
    #[arg(long, value_name = "HOST:PORT")]
    pub admin: Option<String>,
    #[command(flatten)]
    pub cluster: ClusterOptions,
    #[command(flatten)]
    pub output: OutputOptions,
}

/// One look at the status.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Look {
    at_s: f64,
    bytes_stored: u64,
    bytes_used: u64,
    ratio: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Results {
    machine: String,
    code: String,
    overwrites: u64,
    ratio_max: f64,
    ratio_last: f64,
    bound: f64,
    met: bool,
    looks: Vec<Look>,
    load: LoadReport,
}

/// Runs the overwrites, prints and writes the result.
///
/// # Errors
/// The cluster is not there, an answer broke a promise, an operation failed, or the bound was passed.
pub fn run(options: OverwriteOptions) -> anyhow::Result<()> {
    let running = find_or_start(&options)?;
    let admin = running.admin.clone().context("the cluster has no admin address")?;
    let mut load = running.load();
    load.workload = Some(Workload::Set);
    load.keys = options.keys;
    load.key_choice = Some(options.key_choice);
    load.key_size = Some(options.key_size.clone());
    load.value_size = Some(options.value_size.clone());
    load.connections = options.connections;
    load.pipeline = options.pipeline;
    load.operations = Some(options.rounds.saturating_mul(u64::from(options.keys)));
    load.output.quiet = options.output.quiet;
    (load.preload, load.verify_all, load.expect_all) = (true, true, true);
    let (watched, pause) = (admin.clone(), Duration::from_millis(options.poll_ms.max(1)));
    let mut watch = Beside::new(move |load| look_until(&watched, pause, load));
    let report = load::execute(&load, &mut watch)?;
    let looks = watch.finish()?.unwrap_or_default();
    let results = results(&options, Status::get(&admin)?.code, looks, report);
    write_results(options.output.json.as_deref(), &results, || table(&results))?;
    load::check(&results.load)?;
    ensure!(results.load.error_count == 0, "{} operations failed", results.load.error_count);
    ensure!(!results.looks.is_empty(), "the status of {admin} never showed anything stored");
    ensure!(results.met, "memory reached {:.3} of its least, more than {}", results.ratio_max, options.bound);
    Ok(())
}

fn find_or_start(options: &OverwriteOptions) -> anyhow::Result<Running> {
    if let Some(admin) = &options.admin {
        return Running::found(admin);
    }
    let object_bytes = options.key_size.largest().min(250) + options.value_size.largest() + 64;
    let data_mib = u64::from(options.keys) * object_bytes as u64 / (1 << 20);
    // Eight nodes of RS(4,2): 1.5 times the data, and half as much again for cleaning to have room.
    Running::shorttail(&options.cluster, (8, "rs:4+2"), data_mib * 9 / 4 / 8 + 64)
}

fn results(options: &OverwriteOptions, code: String, looks: Vec<Look>, load: LoadReport) -> Results {
    let ratio_max = looks.iter().map(|look| look.ratio).fold(0.0, f64::max);
    Results {
        machine: crate::process::machine(),
        code,
        overwrites: load.operations,
        ratio_max,
        ratio_last: looks.last().map_or(0.0, |look| look.ratio),
        bound: options.bound,
        // Never having looked proves nothing.
        met: !looks.is_empty() && ratio_max <= options.bound,
        looks,
        load,
    }
}

fn table(results: &Results) -> String {
    let mut out = results.load.table();
    let verdict = if results.met { "met" } else { "MISSED" };
    let _ = writeln!(
        out,
        "\n{} overwrites on {}: bytes_used / (bytes_stored x redundancy) at most {:.3}, at the end {:.3} \
         ({verdict}: at most {}), {} looks",
        results.overwrites,
        results.code,
        results.ratio_max,
        results.ratio_last,
        results.bound,
        results.looks.len()
    );
    out
}

/// Looks at the status again and again until the load ends; a short load is over before the status shows it, so the
/// first look may come a little later.
fn look_until(admin: &str, pause: Duration, load: &LoadEnd) -> anyhow::Result<Vec<Look>> {
    let (started, mut looks, mut ended) = (Instant::now(), Vec::new(), None);
    loop {
        let status = Status::get(admin)?;
        looks.extend(look(&status, started.elapsed().as_secs_f64())?);
        let late = ended.is_some_and(|ended: Instant| ended.elapsed() > Duration::from_secs(STATUS_LAG_SECONDS));
        if late || (ended.is_some() && !looks.is_empty()) {
            return Ok(looks);
        }
        if ended.is_some() {
            std::thread::sleep(pause);
        } else if load.within(pause) {
            ended = Some(Instant::now());
        }
    }
}

/// None if nothing is stored: there is nothing to divide by.
fn look(status: &Status, at_s: f64) -> anyhow::Result<Option<Look>> {
    let least = status.bytes_stored as f64 * status.redundancy()?;
    let Status { bytes_stored, bytes_used, .. } = *status;
    Ok((bytes_stored > 0).then(|| Look { at_s, bytes_stored, bytes_used, ratio: bytes_used as f64 / least }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_to_the_least_that_the_code_needs() {
        let mut status = Status {
            code: "rs:4+2".to_owned(),
            objects: 1,
            bytes_stored: 1000,
            bytes_used: 1800,
            nodes: vec![],
            repair: Default::default(),
            gateways: vec![],
        };
        let seen = look(&status, 1.0).expect("a code").expect("something stored");
        assert!((seen.ratio - 1.2).abs() < 1e-12);
        status.bytes_stored = 0;
        assert_eq!(look(&status, 1.0).expect("a code"), None);
    }
}
