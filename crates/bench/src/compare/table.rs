//! The comparison for people.

use std::fmt::Write;

use super::{Median, Ratios, Results};

pub fn table(results: &Results) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}\nmedians of {} rounds of {} s; {} keys of {} B, values of {} B; in brackets the ratio to the first system\n",
        results.machine, results.rounds, results.seconds_each, results.keys, results.key_bytes, results.value_bytes
    );
    let _ = writeln!(
        out,
        "{:<10}{:<5}{:>5}{:>18}{:>17}{:>17}{:>17}{:>17}",
        "", "", "conns", "operations /s", "p50 us", "p99 us", "p99.9 us", "CPU us/op"
    );
    let mut rows: Vec<&Median> = results.medians.iter().collect();
    rows.sort_by_key(|row| (row.operation, std::cmp::Reverse(row.connections)));
    for row in rows {
        let shown = |value: f64, ratio: fn(&Ratios) -> f64| match &row.ratios {
            Some(ratios) => format!("{value:.1} ({:.2})", ratio(ratios)),
            None => format!("{value:.1}"),
        };
        let _ = writeln!(
            out,
            "{:<10}{:<5}{:>5}{:>18}{:>17}{:>17}{:>17}{:>17}",
            row.system,
            row.operation,
            row.connections,
            shown(row.throughput_per_s, |ratios| ratios.throughput),
            shown(row.p50_us, |ratios| ratios.p50),
            shown(row.p99_us, |ratios| ratios.p99),
            shown(row.p99_9_us, |ratios| ratios.p99_9),
            shown(row.cpu_us_per_operation, |ratios| ratios.cpu_per_operation),
        );
    }
    out.push_str("\nwhere the CPU goes, microseconds per operation (user + system)\n");
    for row in &results.medians {
        let roles: Vec<String> =
            row.roles.iter().map(|(role, cpu)| format!("{role} {:.2} + {:.2}", cpu.user, cpu.system)).collect();
        let _ = writeln!(out, "{:<10}{:<5}{:>5}   {}", row.system, row.operation, row.connections, roles.join(", "));
    }
    for goal in &results.goals {
        let verdict = if goal.met { "met" } else { "MISSED" };
        let _ = writeln!(out, "{verdict:<7} {}: {:.2} ({})", goal.name, goal.ratio, goal.bound);
    }
    out
}
