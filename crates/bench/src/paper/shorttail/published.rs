//! What the paper says in numbers. Its figures' axes are not in its text: only reductions are, so everything here is a
//! share of ECWide-H's latency.
//!
//! Section 4.2 gives ShortTail's P99 for each workload, beside ECWide-H and beside LLF, from which LLF beside ECWide-H
//! follows; average and median are given as means of both workloads only. Section 4.3 gives each technique's part of
//! the P99 reduction under YCSB; the parts sum to the whole (8.45 + 37.45 + 5.14 = 51.04). Section 4.4 gives no numbers
//! but that t moves P99 by at most 20 %.

use serde::Serialize;

use super::plan::Figure;

/// Shares of ECWide-H's latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Published {
    /// Mean of both workloads.
    pub average: Option<f64>,
    /// Mean of both workloads.
    pub median: Option<f64>,
    pub p99: Option<f64>,
}

const MEDIAN: f64 = 1.0 - 0.7869;
const AVERAGE: f64 = 1.0 - 0.7659;
const MEDIAN_OF_LLF: f64 = 1.0 - 0.7604;
const AVERAGE_OF_LLF: f64 = 1.0 - 0.7294;

/// What the paper says of what is compared; none if nothing.
pub fn of(figure: Figure, label: &str) -> Option<Published> {
    let (p99, p99_of_llf) = match figure {
        Figure::Six => (1.0 - 0.5103, 1.0 - 0.4815),
        Figure::Seven => (1.0 - 0.6377, 1.0 - 0.6200),
        Figure::Eight => return technique(label),
        Figure::Trace | Figure::Nine => return None,
    };
    match label {
        "ECWide-H" => Some(Published { average: Some(1.0), median: Some(1.0), p99: Some(1.0) }),
        "LLF" => Some(Published {
            average: Some(AVERAGE / AVERAGE_OF_LLF),
            median: Some(MEDIAN / MEDIAN_OF_LLF),
            p99: Some(p99 / p99_of_llf),
        }),
        "ShortTail" => Some(Published { average: Some(AVERAGE), median: Some(MEDIAN), p99: Some(p99) }),
        _ => None,
    }
}

fn technique(label: &str) -> Option<Published> {
    let p99 = match label {
        "ECWide-H" => 1.0,
        "LLF" => (1.0 - 0.5103) / (1.0 - 0.4815),
        "+Read Tail Opt" => 1.0 - 0.0845,
        "+Write Tail Opt" => 1.0 - 0.0845 - 0.3745,
        "+Small Write Opt" => 1.0 - 0.0845 - 0.3745 - 0.0514,
        _ => return None,
    };
    Some(Published { p99: Some(p99), ..Published::default() })
}
