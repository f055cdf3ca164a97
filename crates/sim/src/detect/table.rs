//! Runs experiments with several seeds and detectors, and sets the outcomes side by side.

use std::fmt::Write as _;

use shorttail_monitor::{Detector, MonitorConfig};

use super::catalogue::Entry;
use super::stream::{Outcome, name_of, run};

/// Outcomes of one experiment with several seeds.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub outcomes: Vec<Outcome>,
    pub span_us: u64,
}

impl Row {
    pub fn of(entry: &Entry, config: MonitorConfig, seeds: std::ops::Range<u64>) -> Row {
        let outcomes = seeds.map(|seed| run(entry.experiment, config, seed)).collect();
        Row { outcomes, span_us: entry.experiment.span.to_us - entry.experiment.span.from_us }
    }

    /// How many runs reached a verdict.
    pub fn detected(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.detect_us.is_some()).count()
    }

    /// Median and longest time to the verdict, of the runs that reached one.
    pub fn detect_us(&self) -> Option<(u64, u64)> {
        spread(self.outcomes.iter().filter_map(|outcome| outcome.detect_us))
    }

    pub fn clear_us(&self) -> Option<(u64, u64)> {
        spread(self.outcomes.iter().filter_map(|outcome| outcome.clear_us))
    }

    /// Share of the fault for which the node was fail-slow, in per cent.
    pub fn flagged_percent(&self) -> u64 {
        let flagged_us: u64 = self.outcomes.iter().map(|outcome| outcome.flagged_us).sum();
        flagged_us * 100 / (self.span_us * self.outcomes.len() as u64).max(1)
    }

    pub fn false_verdicts(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.false_verdicts).sum()
    }

    pub fn false_us(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.false_us).sum()
    }
}

/// Median and largest.
fn spread(values: impl Iterator<Item = u64>) -> Option<(u64, u64)> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.last().map(|&last| (values[values.len() / 2], last))
}

fn ms(us: u64) -> u64 {
    us.div_ceil(1000)
}

/// One cell group: detect, flagged, false, clear.
fn cells(row: &Row, is_fault: bool) -> String {
    let runs = row.outcomes.len();
    let found = match row.detect_us() {
        None => "never".to_owned(),
        Some((median, longest)) if row.detected() == runs => format!("{}, {} ms", ms(median), ms(longest)),
        Some((median, _)) => format!("{} ms in {} of {runs}", ms(median), row.detected()),
    };
    let wrong = match row.false_verdicts() {
        0 => "0".to_owned(),
        count => format!("{count}, {} ms", ms(row.false_us())),
    };
    if !is_fault {
        return wrong;
    }
    let clear =
        row.clear_us().map_or("-".to_owned(), |(median, longest)| format!("{}, {} ms", ms(median), ms(longest)));
    format!("{found} | {} % | {wrong} | {clear}", row.flagged_percent())
}

/// Markdown: experiments down, detectors side by side.
pub fn table(
    entries: &[Entry],
    detectors: &[Detector],
    config: MonitorConfig,
    seeds: std::ops::Range<u64>,
    is_fault: bool,
) -> String {
    let mut text = String::new();
    let columns = if is_fault { " detected after | flagged | false | cleared after |" } else { " false verdicts |" };
    let names = detectors.iter().map(|&detector| {
        columns
            .split_terminator('|')
            .fold(String::new(), |text, column| text + &format!(" {}:{column} |", name_of(detector)))
    });
    let head: String = names.collect();
    let rule = "---|".repeat(head.matches('|').count());
    _ = writeln!(text, "| experiment |{head}\n|---|{rule}");
    for entry in entries {
        let rows = detectors.iter().map(|&detector| {
            let row = Row::of(entry, MonitorConfig { detector, ..config }, seeds.clone());
            format!(" {} |", cells(&row, is_fault))
        });
        _ = writeln!(text, "| {} |{}", entry.name, rows.collect::<String>());
    }
    text
}
