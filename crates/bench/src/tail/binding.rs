//! Late binding beside hedging: what each gains for the extra requests that it costs.
//!
//! Every node answers one reply in a hundred late, and nobody is slow for good: the case in which only a race helps. Values
//! are large enough to be striped, where late binding asks for `k + d` pieces and uses the first `k` (Hydra, 4.1.2).
//! Both have knobs (`d`, the budget), and each setting is a point: requests to nodes for each read, and p99.
//! Settings are compared where their extra requests are equal, between two points by a straight line.

use anyhow::ensure;
use serde::Serialize;

use super::counters::Counters;
use super::{SHAPE, TailOptions, node_memory_mib};
use crate::faults::{Fault, Victim};
use crate::load::{self, KeyChoiceName, LoadOptions, check};
use crate::peers::Running;
use crate::scene::Scene;
use crate::sizes::SizeDistribution;
use crate::workload::Workload;

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Binding {
    pub fault: String,
    pub value_bytes: usize,
    pub rate_per_s: f64,
    pub points: Vec<Point>,
    pub equal: Vec<Equal>,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    pub family: &'static str,
    pub setting: String,
    /// Requests to nodes for each read beyond those without any race, in parts of the latter; none if not counted.
    pub extra_requests: Option<f64>,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p99_9_us: f64,
    pub counters: Counters,
}

/// A setting of late binding, and hedging at the same extra load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Equal {
    pub setting: String,
    pub extra_requests: f64,
    pub late_binding_p99_us: f64,
    pub hedging_p99_us: f64,
}

const VALUE_BYTES: usize = 64 * 1024;
const KEYS: u32 = 2_000;
const CONNECTIONS: usize = 64;
const SECONDS: f64 = 8.0;

/// Family, what to say about it, flags.
const SETTINGS: [(&str, &str, &[&str]); 8] = [
    ("none", "off", &["--hedge", "off"]),
    ("late binding", "1 more", &["--hedge", "late-binding:1"]),
    ("late binding", "2 more", &["--hedge", "late-binding:2"]),
    ("hedging", "budget 1 %", &["--hedge", "adaptive", "--hedge-budget", "1%"]),
    ("hedging", "budget 5 %", &["--hedge", "adaptive", "--hedge-budget", "5%"]),
    ("hedging", "budget 20 %", &["--hedge", "adaptive", "--hedge-budget", "20%"]),
    ("hedging", "budget 50 %", &["--hedge", "adaptive", "--hedge-budget", "50%"]),
    ("hedging", "budget 100 %", &["--hedge", "adaptive", "--hedge-budget", "100%"]),
];

/// # Errors
/// A cluster does not start, or an answer broke a promise.
pub fn play(options: &TailOptions) -> anyhow::Result<Binding> {
    let fault = Fault::Chaos(["slow", "--tail", "1%:50ms"].map(str::to_owned).to_vec());
    let (mut points, mut rate, mut requests_without) = (Vec::new(), None, None);
    for (family, setting, flags) in SETTINGS {
        let flags = ["--allow-chaos"].iter().chain(flags).map(|&flag| flag.to_owned());
        let cluster = options.cluster.with_up_args(flags);
        let memory_mib = node_memory_mib(options) + u64::from(KEYS) * VALUE_BYTES as u64 / (1 << 20);
        let running = Running::shorttail(&cluster, SHAPE, memory_mib)?;
        let reads = reads(options, &running);
        let preload = LoadOptions { preload: true, operations: Some(0), ..reads.clone() };
        load::check(&load::execute(&preload, &mut ())?)?;
        let rate = match rate {
            Some(rate) => rate,
            None => {
                let closed = LoadOptions { seconds: 3.0, warm_up: 1.0, ..reads.clone() };
                // A third: late binding itself needs the rest.
                *rate.insert(load::execute(&closed, &mut ())?.throughput_per_s / 3.0)
            }
        };
        let everybody = Victim { nodes: "all".to_owned(), pid: 0, namespace: None };
        let scene =
            Scene { site: running.site()?, fault: Some((fault.clone(), everybody)), healthy_s: 1.0, faulty_s: SECONDS };
        let seen = scene.play(&LoadOptions { rate: Some(rate), connections: 512, warm_up: 1.0, ..reads })?;
        check(&seen.report)?;
        ensure!(seen.report.operations > 0, "nothing was answered: {:?}", seen.report.errors);
        let window = crate::window::Window::of(&seen.samples, seen.fault_at_s + 1.0, seen.fault_at_s + SECONDS);
        let counters = Counters::of(&seen);
        let requests = counters.node_requests.map(|requests| requests / seen.report.operations as f64);
        if family == "none" {
            requests_without = requests;
        }
        let extra_requests = requests.zip(requests_without).map(|(with, without)| with / without - 1.0);
        let reads = &window.reads;
        eprintln!("  {family}, {setting}: p99 {:.0} us, extra requests {extra_requests:?}", reads.p99_us);
        let (p50_us, p99_us, p99_9_us) = (reads.p50_us, reads.p99_us, reads.p99_9_us);
        points.push(Point { family, setting: setting.to_owned(), extra_requests, p50_us, p99_us, p99_9_us, counters });
    }
    let equal = equal(&points);
    Ok(Binding {
        fault: fault.to_string(),
        value_bytes: VALUE_BYTES,
        rate_per_s: rate.unwrap_or_default(),
        points,
        equal,
    })
}

fn reads(options: &TailOptions, running: &Running) -> LoadOptions {
    let mut load = LoadOptions::with_defaults();
    running.aim(&mut load);
    load.workload = Some(Workload::C);
    (load.keys, load.key_choice) = (KEYS, Some(KeyChoiceName::Uniform));
    load.value_size = Some(SizeDistribution::Fixed(VALUE_BYTES));
    (load.connections, load.seed, load.quiet) = (CONNECTIONS, options.seed, true);
    load
}

/// For each setting of late binding: hedging at its extra load, by a straight line between the two nearest budgets. Beyond
/// the largest budget hedging costs no more, however large it is: its last point counts.
fn equal(points: &[Point]) -> Vec<Equal> {
    let mut hedging: Vec<(f64, f64)> = points
        .iter()
        .filter(|point| point.family != "late binding")
        .filter_map(|point| Some((point.extra_requests?, point.p99_us)))
        .collect();
    hedging.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |extra: f64| {
        let after = hedging.iter().position(|point| point.0 >= extra);
        match after {
            Some(0) => hedging.first().map(|point| point.1),
            Some(after) => {
                let ((x0, y0), (x1, y1)) = (hedging[after - 1], hedging[after]);
                Some(y0 + (y1 - y0) * (extra - x0) / (x1 - x0).max(f64::MIN_POSITIVE))
            }
            None => hedging.last().map(|point| point.1),
        }
    };
    let late = points.iter().filter(|point| point.family == "late binding");
    late.filter_map(|point| {
        let extra_requests = point.extra_requests?;
        Some(Equal {
            setting: point.setting.clone(),
            extra_requests,
            late_binding_p99_us: point.p99_us,
            hedging_p99_us: at(extra_requests)?,
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(family: &'static str, extra: f64, p99_us: f64) -> Point {
        let (setting, counters) = (String::new(), Counters::default());
        Point { family, setting, extra_requests: Some(extra), p50_us: 0.0, p99_us, p99_9_us: 0.0, counters }
    }

    #[test]
    fn equal_load_lies_on_the_line_between_two_budgets() {
        let points = [
            point("none", 0.0, 50.0),
            point("late binding", 0.25, 5.0),
            point("hedging", 0.2, 20.0),
            point("hedging", 0.4, 10.0),
            point("late binding", 0.5, 4.0),
        ];
        let equal = equal(&points);
        assert_eq!((equal[0].late_binding_p99_us, equal[0].hedging_p99_us), (5.0, 17.5));
        assert_eq!((equal[1].late_binding_p99_us, equal[1].hedging_p99_us), (4.0, 10.0));
    }

    #[test]
    fn without_counts_nothing_is_compared() {
        let uncounted = Point { extra_requests: None, ..point("late binding", 0.0, 1.0) };
        assert!(equal(&[uncounted, point("hedging", 0.1, 2.0)]).is_empty());
    }
}
