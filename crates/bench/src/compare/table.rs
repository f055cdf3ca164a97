//! The comparison for people.

use std::fmt::Write;

use super::{Cell, Median, Ratios, Results};

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
    rows.sort_by_key(|row| (row.figures.cell.operation, std::cmp::Reverse(row.figures.cell.connections)));
    for Median { figures, ratios } in rows {
        let Cell { system, operation, connections } = figures.cell;
        let shown = |value: f64, ratio: fn(&Ratios) -> f64| match ratios {
            Some(ratios) => format!("{value:.1} ({:.2})", ratio(ratios)),
            None => format!("{value:.1}"),
        };
        let _ = writeln!(
            out,
            "{system:<10}{operation:<5}{connections:>5}{:>18}{:>17}{:>17}{:>17}{:>17}",
            shown(figures.throughput_per_s, |ratios| ratios.throughput),
            shown(figures.p50_us, |ratios| ratios.p50),
            shown(figures.p99_us, |ratios| ratios.p99),
            shown(figures.p99_9_us, |ratios| ratios.p99_9),
            shown(figures.cpu_us_per_operation, |ratios| ratios.cpu_per_operation),
        );
    }
    out.push_str("\nwhere the CPU goes, microseconds per operation (user + system)\n");
    for Median { figures, .. } in &results.medians {
        let Cell { system, operation, connections } = figures.cell;
        let roles: Vec<String> =
            figures.roles.iter().map(|(role, cpu)| format!("{role} {:.2} + {:.2}", cpu.user, cpu.system)).collect();
        let _ = writeln!(out, "{system:<10}{operation:<5}{connections:>5}   {}", roles.join(", "));
    }
    for goal in &results.goals {
        let verdict = if goal.met { "met" } else { "MISSED" };
        let _ = writeln!(out, "{verdict:<7} {}: {:.2} ({})", goal.name, goal.ratio, goal.bound);
    }
    out
}
