//! The table of transitions, and MemEC's beside it.

use std::fmt::Write;

use super::cluster::Memory;
use super::course::Times;
use super::{Results, Row};

/// "Average elapsed times of state transitions with 95 % confidence" of MemEC: 16 servers, 4 proxies and a coordinator
/// on 1 Gbps Ethernet. With requests, without; for one and for two nodes.
const MEMEC: [(&str, usize, &str, &str); 4] = [
    ("normal -> degraded", 1, "4.77 ± 0.79", "1.74 ± 0.09"),
    ("normal -> degraded", 2, "9.24 ± 0.78", "4.91 ± 0.89"),
    ("degraded -> normal", 1, "628.5 ± 43.9", "0.91 ± 0.46"),
    ("degraded -> normal", 2, "667.5 ± 27.2", "1.10 ± 0.19"),
];

/// Part of a failure and return.
type Part = (&'static str, fn(&Times) -> f64);

const PARTS: [Part; 6] = [
    ("normal -> intermediate", |times| times.normal_to_intermediate),
    ("intermediate -> degraded", |times| times.intermediate_to_degraded),
    ("normal -> degraded", |times| times.normal_to_intermediate + times.intermediate_to_degraded),
    ("degraded -> coordinated", |times| times.degraded_to_coordinated),
    ("coordinated -> normal", |times| times.coordinated_to_normal),
    ("degraded -> normal", |times| times.degraded_to_coordinated + times.coordinated_to_normal),
];

pub fn name(memory: Memory) -> &'static str {
    match memory {
        Memory::Kept => "kept",
        Memory::Lost => "lost",
    }
}

/// Student's t of 95 %, two-sided, by the degrees of freedom from 1 on. Beyond the last one it is a little too large.
const STUDENT_T: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/// Mean with its 95 % confidence, as MemEC prints it, least and most.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    mean: f64,
    /// None: there is one value.
    confidence: Option<f64>,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let number = values.clone().count().max(1);
        let count = number as f64;
        let mean = values.clone().sum::<f64>() / count;
        let t = (number - 1).checked_sub(1).map(|place| STUDENT_T[place.min(STUDENT_T.len() - 1)]);
        let squares: f64 = values.clone().map(|value| (value - mean).powi(2)).sum();
        Spread {
            mean,
            confidence: t.map(|t| t * (squares / (count - 1.0) / count).sqrt()),
            least: values.clone().fold(f64::INFINITY, f64::min),
            most: values.fold(0.0, f64::max),
        }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2}", self.mean)?;
        if let Some(confidence) = self.confidence {
            write!(f, " ± {confidence:.2}")?;
        }
        write!(f, " ({:.2} to {:.2})", self.least, self.most)
    }
}

pub fn table(results: &Results) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}; {} nodes, {}", results.machine, results.nodes, results.code);
    let _ = writeln!(
        out,
        "load: {} operations a second, {} in all, {} failed; milliseconds, mean and 95 % confidence (least to most)\n",
        results.rate_per_s, results.operations, results.error_count
    );
    for nodes_failed in [1, 2] {
        for memory in [Memory::Kept, Memory::Lost] {
            of_kind(&mut out, results, nodes_failed, memory);
        }
    }
    let _ = writeln!(out, "MemEC, as printed: milliseconds, mean and 95 % confidence");
    for (transition, nodes_failed, with, without) in MEMEC {
        let _ = writeln!(out, "{transition:<26} {nodes_failed} node(s)  with load {with:>14}  without {without:>14}");
    }
    out
}

fn of_kind(out: &mut String, results: &Results, nodes_failed: usize, memory: Memory) {
    let is_of = |row: &&Row| row.nodes_failed == nodes_failed && row.memory == memory;
    let rows = || results.rows.iter().filter(is_of);
    let find = |with_load: bool| rows().find(|row| row.with_load == with_load);
    let (Some(with), Some(without)) = (find(true), find(false)) else { return };
    let worst = with.worst_operation_ms.unwrap_or(0.0);
    let _ = writeln!(
        out,
        "{nodes_failed} node(s), memory {}, {} failures each; worst operation {worst:.1} ms\n{:<26} {:>36} {:>36}",
        name(memory),
        with.repetitions.len(),
        "",
        "with load",
        "without"
    );
    for (part, take) in PARTS {
        let of = |row: &Row| Spread::of(row.repetitions.iter().map(take)).to_string();
        let _ = writeln!(out, "{part:<26} {:>36} {:>36}", of(with), of(without));
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(scale: f64) -> Times {
        Times {
            normal_to_intermediate: scale,
            intermediate_to_degraded: 2.0 * scale,
            degraded_to_coordinated: 40.0 * scale,
            coordinated_to_normal: 0.0,
        }
    }

    fn row(memory: Memory, nodes_failed: usize, with_load: bool, scales: &[f64]) -> Row {
        let repetitions = scales.iter().copied().map(times).collect();
        Row { memory, nodes_failed, with_load, repetitions, worst_operation_ms: with_load.then_some(7.5) }
    }

    #[test]
    fn sums_have_their_own_spread_and_memec_stands_beside() {
        let rows = vec![row(Memory::Kept, 1, true, &[1.0, 2.0, 6.0]), row(Memory::Kept, 1, false, &[0.5, 0.5])];
        let machine = "a machine".to_owned();
        let code = "rs:4+2".to_owned();
        let results = Results { machine, nodes: 8, code, rate_per_s: 5e3, operations: 9, error_count: 0, rows };
        let text = table(&results);
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).expect("a line").to_owned();
        let degraded = line("normal -> degraded");
        assert!(
            degraded.contains("9.00 ± 19.72 (3.00 to 18.00)") && degraded.contains("1.50 ± 0.00 (1.50 to 1.50)"),
            "{degraded}"
        );
        assert!(line("coordinated -> normal").contains("0.00 ± 0.00 (0.00 to 0.00)"));
        assert_eq!(Spread::of([4.0].into_iter()).to_string(), "4.00 (4.00 to 4.00)");
        assert!(text.contains("worst operation 7.5 ms") && text.contains("628.5 ± 43.9"));
        assert!(!text.contains("memory lost"), "nothing is said of what was not measured");
    }
}
