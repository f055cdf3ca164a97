//! What each figure compares, as flags of the cluster.

use serde::Serialize;

/// A figure of the paper, or the one it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
pub enum Figure {
    #[value(name = "6")]
    #[serde(rename = "6")]
    Six,
    #[value(name = "7")]
    #[serde(rename = "7")]
    Seven,
    /// As 6 and 7, with the block trace.
    #[serde(rename = "trace")]
    Trace,
    #[value(name = "8")]
    #[serde(rename = "8")]
    Eight,
    #[value(name = "9")]
    #[serde(rename = "9")]
    Nine,
}

impl Figure {
    pub const ALL: [Figure; 5] = [Figure::Six, Figure::Seven, Figure::Trace, Figure::Eight, Figure::Nine];

    fn name(self) -> &'static str {
        match self {
            Figure::Six => "6",
            Figure::Seven => "7",
            Figure::Trace => "trace",
            Figure::Eight => "8",
            Figure::Nine => "9",
        }
    }

    /// Of its files, without the ending.
    pub fn file_name(self) -> String {
        format!("figure-{}", self.name())
    }

    pub fn title(self) -> &'static str {
        match self {
            Figure::Six => "Figure 6: YCSB, one slow node",
            Figure::Seven => "Figure 7: usr_1 (synthetic), one slow node",
            Figure::Trace => "A recorded block trace, one slow node",
            Figure::Eight => "Figure 8: one technique more at a time (YCSB)",
            Figure::Nine => "Figure 9: timeslice and threshold (YCSB)",
        }
    }
}

impl std::fmt::Display for Figure {
    /// As the flag takes it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing that is compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Subject {
    pub label: String,
    /// Further flags of `shorttail up`.
    pub flags: Vec<String>,
    /// Figure 9: which parameter is varied, and its value in milliseconds.
    pub parameter: Option<(char, f64)>,
}

impl Subject {
    fn new(label: &str, flags: &str) -> Self {
        let flags = flags.split_ascii_whitespace().map(str::to_owned).collect();
        Subject { label: label.to_owned(), flags, parameter: None }
    }

    /// The paper's detector with a timeslice and a threshold set by hand.
    fn detector(parameter: char, slice_ms: f64, threshold_ms: f64) -> Self {
        let us = |ms: f64| (ms * 1e3).round() as u64;
        let flags = format!(
            "--policy shorttail --detector fixed --slice {}us --fail-slow-above {}us",
            us(slice_ms),
            us(threshold_ms)
        );
        let value = if parameter == 't' { slice_ms } else { threshold_ms };
        Subject { parameter: Some((parameter, value)), ..Subject::new(&format!("{parameter} = {value} ms"), &flags) }
    }
}

/// Timeslice and threshold while the other one is varied, in milliseconds: the middle of the paper's ranges.
const SLICE_MS: f64 = 20.0;
const THRESHOLD_MS: f64 = 60.0;

/// Threshold of the others: the least of the paper's range, where its tail is the shortest. Its rule of thumb, three
/// times the average of normal nodes, gives 20 ms there and less than one here, and every stall of the machine is
/// longer.
const WORKING_THRESHOLD_MS: f64 = 20.0;

/// What a figure compares, in its order; ratios are to the first.
pub fn subjects(figure: Figure) -> Vec<Subject> {
    let ecwide = || Subject::new("ECWide-H", "--policy ecwide");
    let llf = || Subject::new("LLF", "--policy llf");
    let ours = || Subject::new("ours", "--policy adaptive");
    match figure {
        Figure::Six | Figure::Seven | Figure::Trace => {
            let detector = Subject::detector('x', SLICE_MS, WORKING_THRESHOLD_MS);
            let shorttail = Subject { label: "ShortTail".to_owned(), parameter: None, ..detector };
            vec![ecwide(), llf(), shorttail, ours()]
        }
        Figure::Eight => {
            let read = "--policy ecwide --detector fixed --read-sidestep on";
            let write = format!("{read} --write-sidestep on");
            vec![
                ecwide(),
                llf(),
                Subject::new("+Read Tail Opt", read),
                Subject::new("+Write Tail Opt", &write),
                Subject::new("+Small Write Opt", &format!("{write} --small-write replicate")),
                ours(),
            ]
        }
        Figure::Nine => {
            let slices = [10.0, 15.0, 20.0, 25.0, 30.0, 1.0];
            // 10 ms is too small on the paper's machines, where a normal request takes milliseconds; here it takes
            // far less than one.
            let thresholds = [20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 10.0, 1.0];
            let by_slice = slices.map(|slice_ms| Subject::detector('t', slice_ms, THRESHOLD_MS));
            let by_threshold = thresholds.map(|threshold_ms| Subject::detector('x', SLICE_MS, threshold_ms));
            by_slice.into_iter().chain(by_threshold).collect()
        }
    }
}
