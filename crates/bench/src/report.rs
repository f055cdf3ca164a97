//! The results of a load run: a structure for JSON, and a table for people. Latencies in microseconds.

use std::fmt::Write;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::process::CpuSeconds;
use crate::recorder::{Recorder, Tally};
use crate::workload::OperationClass;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadReport {
    pub settings: Settings,
    /// Length of the measured phase, the last answers included.
    pub seconds: f64,
    /// Operations answered in the measured phase.
    pub operations: u64,
    /// In all phases, the warm-up among them.
    #[serde(default)]
    pub operations_total: u64,
    pub throughput_per_s: f64,
    /// All classes together.
    pub latency: LatencyReport,
    pub classes: Vec<ClassReport>,
    /// Errors of all phases.
    pub error_count: u64,
    pub errors: Vec<ErrorReport>,
    /// Answers judged in all phases.
    pub verification: VerificationReport,
    pub worst: Option<WorstReport>,
    /// Open loop: longest time that this program woke up after its schedule. A worst operation not much longer than
    /// this says more about the machine than about the server.
    pub client_late_us_max: f64,
    pub preload: Option<PhaseReport>,
    pub verify: Option<PhaseReport>,
    pub cpu: CpuReport,
    pub timeline: TimelineReport,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    pub target: String,
    pub protocol: crate::codec::Protocol,
    pub wait_replicas: Option<u32>,
    pub mix: Vec<(String, f64)>,
    pub key_choice: String,
    pub keys: u32,
    pub key_bytes: String,
    pub value_bytes: String,
    pub connections: usize,
    pub pipeline: usize,
    pub threads: usize,
    /// Operations a second of an open loop.
    pub rate_per_s: Option<f64>,
    #[serde(default)]
    pub ttl_seconds: Option<String>,
    #[serde(default)]
    pub trace: Option<crate::trace::Summary>,
    pub expect_all: bool,
    pub seed: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LatencyReport {
    pub count: u64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p99_9_us: f64,
    pub p99_99_us: f64,
    pub max_us: f64,
    /// (share of operations, microseconds), for a curve.
    pub curve: Vec<(f64, f64)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassReport {
    pub class: String,
    /// From the intended start.
    pub latency: LatencyReport,
    /// From the moment the request was sent: what an uncorrected measurement would say. The same in a closed loop.
    pub service: LatencyReport,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrorReport {
    pub text: String,
    pub count: u64,
    pub first_at_s: f64,
    pub example: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VerificationReport {
    pub right: u64,
    pub absent: u64,
    /// Acknowledged keys absent from a store that may evict.
    pub missed: u64,
    pub lost: u64,
    pub stale: u64,
    pub resurrected: u64,
    pub wrong: u64,
    pub examples: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorstReport {
    pub class: String,
    pub latency_us: f64,
    /// Intended start, seconds into the measured phase.
    pub at_s: f64,
    pub key: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PhaseReport {
    pub operations: u64,
    pub errors: u64,
    pub seconds: f64,
}

/// CPU time of the measured phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CpuReport {
    pub client: CpuSeconds,
    pub servers: Vec<ServerCpu>,
    pub servers_total: CpuSeconds,
    /// Microseconds of all servers per operation.
    pub server_us_per_operation: Option<f64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerCpu {
    pub pid: u32,
    pub cpu: CpuSeconds,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TimelineReport {
    pub slice_s: f64,
    pub operations: Vec<u64>,
    pub errors: Vec<u64>,
    pub latency_us_max: Vec<f64>,
}

impl LatencyReport {
    pub fn new(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return LatencyReport::default();
        }
        let at = |share: f64| histogram.value_at_quantile(share) as f64 / 1e3;
        LatencyReport {
            count: histogram.len(),
            mean_us: histogram.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            p99_99_us: at(0.9999),
            max_us: histogram.max() as f64 / 1e3,
            curve: curve_shares(histogram.len()).map(|share| (share, at(share))).collect(),
        }
    }
}

/// Shares that lie evenly on a scale of "nines", up to the last that the count can tell from the maximum.
fn curve_shares(count: u64) -> impl Iterator<Item = f64> {
    const PER_NINE: f64 = 8.0;
    let nines_max = (count as f64).log10().min(6.0);
    (0..)
        .map(|step| f64::from(step) / PER_NINE)
        .take_while(move |&nines| nines <= nines_max)
        .map(|nines| 1.0 - 10f64.powf(-nines))
}

impl VerificationReport {
    pub fn new(tally: &Tally) -> Self {
        VerificationReport {
            right: tally.hits,
            absent: tally.absent,
            missed: tally.missed,
            lost: tally.lost,
            stale: tally.stale,
            resurrected: tally.resurrected,
            wrong: tally.mismatches,
            examples: tally.examples.clone(),
        }
    }

    /// Broken promises of any kind.
    pub fn faults(&self) -> u64 {
        self.lost + self.stale + self.resurrected + self.wrong
    }
}

impl TimelineReport {
    pub fn new(timeline: &crate::timeline::Timeline) -> Self {
        let buckets = timeline.buckets();
        TimelineReport {
            slice_s: timeline.width_ns() as f64 / 1e9,
            operations: buckets.iter().map(|bucket| bucket.operations).collect(),
            errors: buckets.iter().map(|bucket| bucket.errors).collect(),
            latency_us_max: buckets.iter().map(|bucket| bucket.latency_ns_max as f64 / 1e3).collect(),
        }
    }
}

/// Results of the measured phase, by class and together.
pub fn latencies(recorder: &Recorder) -> (LatencyReport, Vec<ClassReport>) {
    let mut all = Histogram::new_from(&recorder.latencies[0].corrected);
    let mut classes = Vec::new();
    for class in OperationClass::ALL {
        let latencies = &recorder.latencies[class.index()];
        all.add(&latencies.corrected).expect("equal bounds");
        if !latencies.corrected.is_empty() {
            classes.push(ClassReport {
                class: class.name().to_owned(),
                latency: LatencyReport::new(&latencies.corrected),
                service: LatencyReport::new(&latencies.service),
            });
        }
    }
    (LatencyReport::new(&all), classes)
}

impl LoadReport {
    /// The table for people.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let settings = &self.settings;
        let pace = settings.rate_per_s.map_or("closed loop".to_owned(), |rate| format!("open loop {rate} /s"));
        let _ = writeln!(
            out,
            "{} ({:?}), {} keys of {} B, values of {} B, {} connections x {}, {pace}",
            settings.target,
            settings.protocol,
            settings.keys,
            settings.key_bytes,
            settings.value_bytes,
            settings.connections,
            settings.pipeline
        );
        let _ = writeln!(
            out,
            "{} operations in {:.2} s: {:.0} /s, {} errors\n",
            self.operations, self.seconds, self.throughput_per_s, self.error_count
        );
        if let Some(trace) = &settings.trace {
            let kind = if trace.is_synthetic { "synthetic" } else { "recorded" };
            let _ = writeln!(
                out,
                "{kind} trace {}: {} requests, {:.0} % reads of {:.0} B (as replayed {:.0} B), writes of {:.0} B\n",
                trace.name,
                trace.requests,
                100.0 * trace.read_share,
                trace.read_bytes_mean,
                trace.read_bytes_mean_replayed,
                trace.write_bytes_mean
            );
        }
        self.write_latencies(&mut out);
        self.write_verification(&mut out);
        self.write_errors(&mut out);
        self.write_cpu(&mut out);
        out
    }

    fn write_latencies(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "{:<18}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}   (microseconds)",
            "", "count", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"
        );
        for class in &self.classes {
            write_latency_row(out, &class.class, &class.latency);
            if self.settings.rate_per_s.is_some() {
                write_latency_row(out, "  from send", &class.service);
            }
        }
        if self.classes.len() > 1 {
            write_latency_row(out, "all", &self.latency);
        }
        if self.settings.rate_per_s.is_some() {
            let _ = writeln!(out, "this client itself woke up to {:.2} ms late", self.client_late_us_max / 1e3);
        }
        if let Some(worst) = &self.worst {
            let (latency_ms, at_s) = (worst.latency_us / 1e3, worst.at_s);
            let _ = writeln!(out, "worst: {} of {} took {latency_ms:.2} ms at {at_s:.3} s", worst.class, worst.key);
        }
    }

    fn write_verification(&self, out: &mut String) {
        let seen = &self.verification;
        let _ = writeln!(
            out,
            "\nanswers: {} right, {} absent, {} missed, {} lost, {} stale, {} resurrected, {} wrong",
            seen.right, seen.absent, seen.missed, seen.lost, seen.stale, seen.resurrected, seen.wrong
        );
        for example in &seen.examples {
            let _ = writeln!(out, "  {example}");
        }
        if let Some(verify) = &self.verify {
            let _ = writeln!(out, "read back: {} keys in {:.1} s", verify.operations, verify.seconds);
        }
    }

    fn write_errors(&self, out: &mut String) {
        for error in &self.errors {
            let _ = writeln!(
                out,
                "error x {}: {} (first at {:.3} s, {})",
                error.count, error.text, error.first_at_s, error.example
            );
        }
    }

    fn write_cpu(&self, out: &mut String) {
        let cpu = &self.cpu;
        let _ = writeln!(out, "client CPU: {:.2} s user, {:.2} s system", cpu.client.user, cpu.client.system);
        for server in &cpu.servers {
            let _ = writeln!(
                out,
                "server {}: {:.2} s user, {:.2} s system",
                server.pid, server.cpu.user, server.cpu.system
            );
        }
        if let Some(per_operation) = cpu.server_us_per_operation {
            let total = cpu.servers_total;
            let _ = writeln!(
                out,
                "servers: {:.2} s user, {:.2} s system, {per_operation:.2} us per operation",
                total.user, total.system
            );
        }
    }
}

fn write_latency_row(out: &mut String, name: &str, latency: &LatencyReport) {
    let _ = write!(out, "{name:<18}{:>10}", latency.count);
    for us in [
        latency.mean_us,
        latency.p50_us,
        latency.p90_us,
        latency.p99_us,
        latency.p99_9_us,
        latency.p99_99_us,
        latency.max_us,
    ] {
        let _ = if us < 100.0 { write!(out, "{us:>9.1}") } else { write!(out, "{us:>9.0}") };
    }
    out.push('\n');
}
