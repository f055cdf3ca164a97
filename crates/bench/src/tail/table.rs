//! The results for people.

use std::fmt::Write;

use super::Results;
use super::binding::Binding;
use super::one_slow::OneSlow;
use super::overload::Overload;
use crate::window::{Side, Window};

pub fn table(results: &Results) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}\n{} nodes, {}, {} keys, values of {} B, half reads and half writes, open loop\n",
        results.machine, results.nodes, results.code, results.keys, results.value_bytes
    );
    for run in &results.one_slow {
        one_slow(&mut out, run);
    }
    if !results.quiet.is_empty() {
        let _ = writeln!(
            out,
            "{:<10}{:<28}{:>12}{:>12}{:>12}{:>9}{:>14}{:>10}",
            "", "nobody is slow alone", "operations", "/s", "p99 us", "flagged", "flagged ms", "errors"
        );
    }
    for quiet in &results.quiet {
        let flagged = quiet.watch.flagged_before.union(&quiet.watch.flagged_after).count();
        let _ = writeln!(
            out,
            "{:<10}{:<28}{:>12}{:>12.0}{:>12.0}{:>9}{:>14.1}{:>10}",
            quiet.scenario.name(),
            quiet.what,
            quiet.operations,
            quiet.throughput_per_s,
            quiet.p99_us,
            flagged,
            quiet.flagged_ms,
            quiet.errors
        );
    }
    if let Some(run) = &results.overload {
        overload(&mut out, run);
    }
    if let Some(run) = &results.binding {
        binding(&mut out, run);
    }
    for skipped in &results.skipped {
        let _ = writeln!(out, "not played: {}: {}", skipped.scenario, skipped.why);
    }
    for broken in &results.broken {
        let _ = writeln!(out, "broken promises: {}: {}", broken.scenario, broken.why);
    }
    out.push('\n');
    for goal in &results.goals {
        let verdict = if goal.met { "met" } else { "MISSED" };
        let _ = writeln!(out, "{verdict:<7} {}: {:.3} ({})", goal.name, goal.value, goal.bound);
    }
    out
}

fn one_slow(out: &mut String, run: &OneSlow) {
    let _ = writeln!(
        out,
        "{}: node {} has {} after {:.2} s; {:.0} /s of {:.0} /s",
        run.scenario, run.victim, run.fault, run.fault_at_s, run.rate_per_s, run.capacity_per_s
    );
    let heads = ["operations", "/s", "p50 us", "p99 us", "p99.9 us", "p99 ratio", "failed"];
    let _ = write!(out, "{:<28}", "");
    for head in heads {
        let _ = write!(out, "{head:>12}");
    }
    out.push('\n');
    let stretches = &run.stretches;
    let windows =
        [("healthy", &stretches.healthy), ("first second", &stretches.onset), ("afterwards", &stretches.detected)];
    for (side_name, side) in [("reads", Side::Reads), ("writes", Side::Writes)] {
        for (name, window) in windows {
            one_row(out, &format!("{side_name}, {name}"), window, side, &stretches.healthy);
        }
    }
    let seen = match run.watch.named_after_s {
        Some(seconds) => {
            format!("the status called nodes {:?} fail-slow after {seconds:.2} s", run.watch.flagged_after)
        }
        None => "the status never called a node fail-slow".to_owned(),
    };
    let before = &run.watch.flagged_before;
    let early = if before.is_empty() { String::new() } else { format!(" (and {before:?} before the fault)") };
    let counters = &run.counters;
    let _ = writeln!(out, "{seen}{early}");
    let _ = writeln!(
        out,
        "hedges {} (reads and records that a second way completed first: {}), degraded reads {}, redirected writes {}, errors {}\n",
        shown(counters.hedges_sent),
        shown(counters.hedges_won),
        shown(counters.degraded_reads),
        shown(counters.redirected_writes),
        run.errors
    );
}

fn one_row(out: &mut String, name: &str, window: &Window, side: Side, healthy: &Window) {
    let latency = window.side(side);
    let _ = writeln!(
        out,
        "{name:<28}{:>12}{:>12.0}{:>12.0}{:>12.0}{:>12.0}{:>12.2}{:>12}",
        latency.count,
        latency.count as f64 / window.seconds.max(f64::MIN_POSITIVE),
        latency.p50_us,
        latency.p99_us,
        latency.p99_9_us,
        latency.p99_us / healthy.side(side).p99_us.max(f64::MIN_POSITIVE),
        window.failed
    );
}

fn overload(out: &mut String, run: &Overload) {
    let _ = writeln!(out, "\noverload at {:.0} /s, twice the capacity", run.rate_per_s);
    for one in &run.runs {
        let share = one.hedge_share.map_or("not counted".to_owned(), |share| format!("{:.2} %", 100.0 * share));
        let _ = writeln!(
            out,
            "hedge {:<10}{:>12.0} /s, hedges for each operation {share}, {} errors",
            one.hedge, one.throughput_per_s, one.errors
        );
    }
}

fn binding(out: &mut String, run: &Binding) {
    let _ = writeln!(
        out,
        "\nlate binding and hedging: {} on every node, reads of {} B, {:.0} /s",
        run.fault, run.value_bytes, run.rate_per_s
    );
    let _ = writeln!(out, "{:<24}{:>16}{:>12}{:>12}{:>12}", "", "extra requests", "p50 us", "p99 us", "p99.9 us");
    for point in &run.points {
        let _ = writeln!(
            out,
            "{:<24}{:>14.1} %{:>12.0}{:>12.0}{:>12.0}",
            point.way.name(),
            100.0 * point.extra_requests,
            point.p50_us,
            point.p99_us,
            point.p99_9_us
        );
    }
}

fn shown(count: Option<f64>) -> String {
    count.map_or("not counted".to_owned(), |count| format!("{count:.0}"))
}
