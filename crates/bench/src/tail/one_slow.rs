//! One node turns slow under half the load that the healthy cluster can carry.

use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use super::counters::Counters;
use super::{SHAPE, Scenario, TailOptions, capacity, loaded, node_memory_mib, open_loop, preload};
use crate::admin::Status;
use crate::faults::{Fault, Namespace, Victim};
use crate::linked::{self, Shape};
use crate::peers::Running;
use crate::scene::{Scene, Stretches, Watch};
use crate::window::{Side, over_time};

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct OneSlow {
    pub scenario: Scenario,
    pub fault: String,
    pub victim: u64,
    pub capacity_per_s: f64,
    pub rate_per_s: f64,
    pub ratios: Ratios,
    pub stretches: Stretches,
    pub watch: Watch,
    pub counters: Counters,
    pub errors: u64,
    pub fault_at_s: f64,
    /// Seconds, operations a second, p99 in microseconds: of reads, and of writes.
    pub reads_over_time: Vec<(f64, f64, f64)>,
    pub writes_over_time: Vec<(f64, f64, f64)>,
}

/// Each figure beside that of the healthy stretch of the same run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratios {
    pub reads_p99_onset: f64,
    pub reads_p99_detected: f64,
    pub writes_p99_onset: f64,
    pub writes_p99_detected: f64,
    pub throughput_detected: f64,
}

impl Ratios {
    fn of(stretches: &Stretches) -> Self {
        let Stretches { healthy, onset, detected } = stretches;
        let p99 = |side: Side, part: &crate::window::Window| {
            part.side(side).p99_us / healthy.side(side).p99_us.max(f64::MIN_POSITIVE)
        };
        Ratios {
            reads_p99_onset: p99(Side::Reads, onset),
            reads_p99_detected: p99(Side::Reads, detected),
            writes_p99_onset: p99(Side::Writes, onset),
            writes_p99_detected: p99(Side::Writes, detected),
            throughput_detected: detected.throughput_per_s / healthy.throughput_per_s.max(f64::MIN_POSITIVE),
        }
    }
}

fn fault(scenario: Scenario) -> Fault {
    match scenario {
        Scenario::Stutter => Fault::Duty(Duration::from_millis(50), Duration::from_millis(2)),
        Scenario::Quota => Fault::Quota(0.05),
        Scenario::Link => Fault::Link(1_000_000),
        _ => Fault::slow(50),
    }
}

/// Plays one of the scenarios with a single slow node.
///
/// # Errors
/// The cluster or the fault cannot begin, or an answer broke a promise.
pub fn play(options: &TailOptions, scenario: Scenario) -> anyhow::Result<OneSlow> {
    let (running, namespace) = cluster(options, scenario)?;
    let site = running.site()?;
    let status = Status::get(&site.admin)?;
    let node = status.nodes.iter().find(|node| node.id == options.victim);
    let node = node.with_context(|| format!("--victim: there is no node {}", options.victim))?;
    let victim = Victim { nodes: node.id.to_string(), pid: node.pid, namespace };
    let capacity_per_s = capacity(options, &running)?;
    let rate_per_s = capacity_per_s * options.rate_share;
    let (healthy_s, faulty_s) = (options.healthy_seconds, options.faulty_seconds);
    let fault = fault(scenario);
    let scene = Scene { site, fault: Some((fault.clone(), victim)), healthy_s, faulty_s };
    let seen = scene.play(&open_loop(options, &running, rate_per_s))?;
    let stretches = seen.stretches(healthy_s + faulty_s);
    let over = |side: Side| over_time(&seen.samples, SLICE_S, side);
    Ok(OneSlow {
        scenario,
        fault: fault.to_string(),
        victim: options.victim,
        capacity_per_s,
        rate_per_s,
        ratios: Ratios::of(&stretches),
        stretches,
        counters: Counters::of(&seen),
        errors: seen.report.error_count,
        fault_at_s: seen.fault_at_s,
        reads_over_time: over(Side::Reads),
        writes_over_time: over(Side::Writes),
        watch: seen.watch,
    })
}

/// Width of a slice of the picture, seconds: some thousand operations each.
const SLICE_S: f64 = 0.1;

fn cluster(options: &TailOptions, scenario: Scenario) -> anyhow::Result<(Running, Option<Namespace>)> {
    if scenario != Scenario::Link {
        return Ok((loaded(options, &[])?, None));
    }
    let code = options.cluster.code.clone().unwrap_or(SHAPE.1.to_owned());
    let shape = Shape {
        nodes: options.cluster.nodes.unwrap_or(SHAPE.0),
        code: &code,
        node_memory_mib: node_memory_mib(options),
        linked: u32::try_from(options.victim).context("--victim")?,
        gateway_flags: &[],
    };
    let (running, namespace) = linked::start(&options.cluster, &shape)?;
    preload(options, &running)?;
    Ok((running, Some(namespace)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Sample;
    use crate::window::Window;
    use crate::workload::OperationClass;

    #[test]
    fn ratios_are_those_to_the_healthy_stretch() {
        let window = |latency_ms: u64, count: u64| {
            let sample = |class| Sample { intended_ns: 0, latency_ns: latency_ms * 1_000_000, class, is_failed: false };
            let both = [sample(OperationClass::Get), sample(OperationClass::Set)];
            Window::of(&both.repeat(count as usize), 0.0, 1.0)
        };
        let stretches = Stretches { healthy: window(2, 10), onset: window(6, 10), detected: window(3, 9) };
        let ratios = Ratios::of(&stretches);
        assert!((ratios.reads_p99_onset - 3.0).abs() < 0.01 && (ratios.writes_p99_detected - 1.5).abs() < 0.01);
        assert!((ratios.throughput_detected - 0.9).abs() < 1e-9);
    }
}
