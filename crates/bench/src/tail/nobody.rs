//! Nothing is wrong with any single node: nobody may be called fail-slow.

use anyhow::{Context, ensure};
use serde::Serialize;

use super::counters::Counters;
use super::{Scenario, TailOptions, base, capacity, loaded, open_loop};
use crate::admin::Status;
use crate::faults::{Fault, Victim};
use crate::load::{LoadOptions, check};
use crate::scene::{Scene, Watch};

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Quiet {
    pub scenario: Scenario,
    pub what: String,
    pub operations: u64,
    pub throughput_per_s: f64,
    pub p99_us: f64,
    pub errors: u64,
    /// How long any node was called fail-slow, milliseconds of all nodes, whoever looked.
    pub flagged_ms: f64,
    pub watch: Watch,
    pub counters: Counters,
}

/// A gateway that gets so much of a processor is short of it at any load worth measuring.
const GATEWAY_SHARE: f64 = 0.2;
/// Part of the healthy capacity asked of it: more than it can do.
const STARVED_RATE_SHARE: f64 = 0.3;

/// Plays one of the scenarios in which nobody is slow alone.
///
/// # Errors
/// The cluster or the fault cannot begin, or an answer broke a promise.
pub fn play(options: &TailOptions, scenario: Scenario) -> anyhow::Result<Quiet> {
    let running = loaded(options, &[])?;
    let site = running.site()?;
    let status = Status::get(&site.admin)?;
    let gateway_pid = status.gateways.first().context("the cluster has no gateway")?.pid;
    let everybody = |pid: u32| Victim { nodes: "all".to_owned(), pid, namespace: None };
    let (what, fault, load) = match scenario {
        Scenario::Busy => {
            let load =
                LoadOptions { connections: 64, operations: Some(options.busy_operations), ..base(options, &running) };
            ("full load".to_owned(), None, load)
        }
        Scenario::AllSlow => {
            let fault = Fault::Chaos(["slow", "--delay", "20ms"].map(str::to_owned).to_vec());
            // 20 ms with every connection busy all the time: half of what they can carry then.
            let rate = options.connections as f64 / 0.02 * 0.5;
            let rate = (capacity(options, &running)? * options.rate_share).min(rate);
            (fault.to_string(), Some((fault, everybody(0))), open_loop(options, &running, rate))
        }
        _ => {
            let fault = Fault::Quota(GATEWAY_SHARE);
            let rate = capacity(options, &running)? * STARVED_RATE_SHARE;
            let mut load = open_loop(options, &running, rate);
            // It is late with everything: that is not what is asked here.
            load.timeout_ms = 120_000;
            (format!("gateway: {fault}"), Some((fault, everybody(gateway_pid))), load)
        }
    };
    // A run by count has no length; what counts is what was seen until its end.
    let is_timed = load.operations.is_none();
    let healthy_s = if is_timed { options.healthy_seconds / 2.0 } else { 0.0 };
    let scene = Scene { site: site.clone(), fault, healthy_s, faulty_s: options.faulty_seconds };
    let seen = scene.play(&load)?;
    check(&seen.report)?;
    ensure!(seen.report.operations > 0, "nothing was answered: {:?}", seen.report.errors);
    let flagged_us: u64 = Status::get(&site.admin)?.nodes.iter().map(|node| node.flagged_us).sum();
    let flagged_before: u64 = status.nodes.iter().map(|node| node.flagged_us).sum();
    Ok(Quiet {
        scenario,
        what,
        operations: seen.report.operations,
        throughput_per_s: seen.report.throughput_per_s,
        p99_us: seen.report.latency.p99_us,
        errors: seen.report.error_count,
        flagged_ms: flagged_us.saturating_sub(flagged_before) as f64 / 1e3,
        counters: Counters::of(&seen),
        watch: seen.watch,
    })
}
