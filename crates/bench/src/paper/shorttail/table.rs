//! A figure as a table, the paper's numbers beside ours.

use std::fmt::Write;

use super::Results;

pub fn table(results: &Results) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{}\n{}\n{}; {} nodes, {}, one node {} ms slower; {} connections, {}; medians of {} x {} s\n",
        results.figure.title(),
        results.machine,
        results.workload,
        results.nodes,
        results.code,
        results.delay_ms,
        results.connections,
        results.rate_per_s.map_or("closed loop".to_owned(), |rate| format!("{rate:.0} /s")),
        results.repetitions,
        results.seconds
    );
    let _ = writeln!(
        out,
        "{:<18}{:>24}{:>24}{:>24}{:>14}{:>14}{:>10}",
        "", "average ms (% | paper)", "median ms (% | paper)", "P99 ms (% | paper)", "reads P99", "writes P99", "/s"
    );
    for row in &results.rows {
        let published = row.published.unwrap_or_default();
        let _ = writeln!(
            out,
            "{:<18}{:>24}{:>24}{:>24}{:>14.2}{:>14.2}{:>10.0}",
            row.subject.label,
            cell(row.average_ms, row.average_ratio, published.average),
            cell(row.median_ms, row.median_ratio, published.median),
            cell(row.p99_ms, row.p99_ratio, published.p99),
            row.reads_p99_ms,
            row.writes_p99_ms,
            row.throughput_per_s
        );
    }
    let flagged_wrongly = results
        .samples
        .iter()
        .filter(|sample| sample.watch.flagged_after.iter().any(|node| *node != sample.slow_node))
        .count();
    let errors: u64 = results.samples.iter().map(|sample| sample.errors).sum();
    let _ = writeln!(
        out,
        "{} measurements; in {flagged_wrongly} the status called a node slow that was not; \
         {errors} operations failed\n",
        results.samples.len()
    );
    out
}

fn cell(ms: f64, ratio: f64, published: Option<f64>) -> String {
    let published = published.map_or("-".to_owned(), |share| format!("{:.0}", 100.0 * share));
    format!("{ms:.2} ({:.0} | {published})", 100.0 * ratio)
}
