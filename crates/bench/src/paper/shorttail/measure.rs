//! One measurement: a fresh cluster, its keys, a while of calm, then a slow node.

use anyhow::Context;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use serde::Serialize;

use super::plan::{Figure, Subject};
use super::{SHAPE, ShorttailOptions};
use crate::admin::Status;
use crate::faults::{Fault, Victim};
use crate::load::{self, KeyChoiceName, LoadOptions};
use crate::peers::Running;
use crate::report::LatencyReport;
use crate::scene::{Scene, Watch};
use crate::trace::TraceOptions;
use crate::window::Window;
use crate::workload::Workload;

/// One measurement as it is kept.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    pub repetition: usize,
    pub label: String,
    pub slow_node: u64,
    pub operations: u64,
    pub errors: u64,
    pub throughput_per_s: f64,
    pub all: LatencyReport,
    pub reads: LatencyReport,
    pub writes: LatencyReport,
    pub watch: Watch,
    pub trace: Option<crate::trace::Summary>,
}

pub fn workload_name(options: &ShorttailOptions, figure: Figure) -> String {
    match (figure, &options.trace) {
        (Figure::Seven, _) => "usr_1 (synthetic)".to_owned(),
        (Figure::Trace, Some(trace)) => {
            let name = std::path::Path::new(trace).file_name().unwrap_or_default().to_string_lossy().into_owned();
            format!("{name}, first {} requests", options.trace_requests)
        }
        _ => format!("YCSB A, zipfian, {} records of {} B", options.keys, options.value_size),
    }
}

/// Measures one subject once.
///
/// # Errors
/// The cluster does not start, the node cannot be made slow, or an answer broke a promise.
pub fn measure(
    options: &ShorttailOptions,
    figure: Figure,
    subject: &Subject,
    repetition: usize,
    rate: Option<f64>,
) -> anyhow::Result<Sample> {
    let flags = std::iter::once("--allow-chaos".to_owned()).chain(subject.flags.iter().cloned());
    let running = Running::shorttail(&options.cluster.with_up_args(flags), SHAPE, NODE_MEMORY_MIB)?;
    let site = running.site()?;
    let status = Status::get(&site.admin)?;
    // The same node for all that are compared in a repetition.
    let mut rng = SmallRng::seed_from_u64(options.seed.wrapping_add(1_000 * repetition as u64));
    let slow = status.nodes.choose(&mut rng).context("the cluster has no nodes")?;
    let victim = Victim { nodes: slow.id.to_string(), pid: slow.pid, namespace: None };
    let load = LoadOptions { rate, ..workload(options, figure, &running) };
    let preload =
        LoadOptions { rate: None, preload: true, operations: Some(0), warm_up: 0.0, connections: 64, ..load.clone() };
    load::check_stored(&load::execute(&preload, &mut ())?)?;
    let load = LoadOptions { stored_before: true, expect_all: options.cluster.has_ample_memory(), ..load };
    let fault = Fault::slow(options.delay_ms);
    let scene = Scene { site, fault: Some((fault, victim)), healthy_s: 0.0, faulty_s: options.seconds };
    let seen = scene.play(&load)?;
    let window = Window::of(&seen.samples, seen.fault_at_s, options.seconds);
    eprintln!(
        "  average {:.2} ms, median {:.2} ms, P99 {:.2} ms, {:.0} /s, called slow: {:?}",
        window.all.mean_us / 1e3,
        window.all.p50_us / 1e3,
        window.all.p99_us / 1e3,
        window.throughput_per_s,
        seen.watch.flagged_after
    );
    Ok(Sample {
        repetition,
        label: subject.label.clone(),
        slow_node: slow.id,
        operations: window.operations,
        errors: seen.report.error_count,
        throughput_per_s: window.throughput_per_s,
        all: window.all,
        reads: window.reads,
        writes: window.writes,
        watch: seen.watch,
        trace: seen.report.settings.trace,
    })
}

/// Enough for every record in a stripe of its own, padded, and its overwrites.
const NODE_MEMORY_MIB: u64 = 256;

fn workload(options: &ShorttailOptions, figure: Figure, running: &Running) -> LoadOptions {
    let mut load = running.load();
    (load.connections, load.warm_up, load.seed, load.output.quiet) =
        (options.connections, options.warm_up, options.seed, true);
    // A slow node must show as latency, not as an error.
    load.timeout_ms = 60_000;
    let trace = match figure {
        Figure::Seven => Some("usr_1".to_owned()),
        Figure::Trace => options.trace.clone(),
        _ => None,
    };
    if trace.is_some() {
        let trace_requests = (figure == Figure::Trace).then_some(options.trace_requests);
        load.trace = TraceOptions { trace, trace_requests, trace_block: None };
    } else {
        (load.workload, load.key_choice) = (Some(Workload::A), Some(KeyChoiceName::Zipfian));
        (load.keys, load.value_size) = (options.keys, Some(options.value_size.clone()));
    }
    load
}
