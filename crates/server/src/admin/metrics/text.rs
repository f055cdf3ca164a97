//! Writes the text format of Prometheus: families of samples, each described once.
//!
//! Must not know: what the metrics mean.

use std::fmt::{Display, Write};

use shorttail_wire::control::{LATENCY_BOUNDS_US, LatencyHistogram};

/// What a family's numbers are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only grows while one process lives; its name ends in `_total`.
    Counter,
    Histogram,
}

/// Labels of a sample, name and value.
pub type Labels<'a> = &'a [(&'static str, &'a str)];

/// A text that grows family by family.
#[derive(Debug, Default)]
pub struct Text {
    out: String,
}

/// The family that is being written.
pub struct Family<'a> {
    out: &'a mut String,
    name: &'static str,
}

impl Text {
    /// Begins a family: its samples follow. Names get the prefix `shorttail_`.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        debug_assert_eq!(kind == Kind::Counter, name.ends_with("_total"), "{name}");
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        };
        put(&mut self.out, format_args!("# HELP shorttail_{name} {help}\n# TYPE shorttail_{name} {kind}\n"));
        Family { out: &mut self.out, name }
    }

    pub fn gauge(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, Kind::Gauge, help).sample(&[], value);
    }

    pub fn counter(&mut self, name: &'static str, help: &str, value: impl Display) {
        self.family(name, Kind::Counter, help).sample(&[], value);
    }

    pub fn into_string(self) -> String {
        self.out
    }
}

impl Family<'_> {
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.line("", labels, None, value);
    }

    /// Buckets in seconds at 1, 2 and 5 of each decade, the sum, and the count.
    pub fn histogram(&mut self, labels: Labels<'_>, histogram: &LatencyHistogram) {
        let bounds = LATENCY_BOUNDS_US.into_iter().filter(|&bound_us| is_round(bound_us));
        let within = bounds.map(|bound_us| (bound_us, histogram.count_within(bound_us)));
        self.buckets(labels, within, histogram.count(), histogram.sum_us);
    }

    /// `within`: bounds in microseconds, ascending, and how many of the `count` were no longer.
    pub fn buckets(&mut self, labels: Labels<'_>, within: impl Iterator<Item = (u64, u64)>, count: u64, sum_us: u64) {
        for (bound_us, within) in within {
            self.line("_bucket", labels, Some(&seconds(bound_us)), within);
        }
        self.line("_bucket", labels, Some("+Inf"), count);
        self.line("_sum", labels, None, seconds(sum_us));
        self.line("_count", labels, None, count);
    }

    fn line(&mut self, suffix: &str, labels: Labels<'_>, bound: Option<&str>, value: impl Display) {
        put(self.out, format_args!("shorttail_{}{suffix}", self.name));
        let labels = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let mut separator = '{';
        for (name, value) in labels {
            put(self.out, format_args!("{separator}{name}=\""));
            value.chars().for_each(|character| put_escaped(self.out, character));
            self.out.push('"');
            separator = ',';
        }
        if separator == ',' {
            self.out.push('}');
        }
        put(self.out, format_args!(" {value}\n"));
    }
}

/// Microseconds as seconds, exactly.
pub fn seconds(us: u64) -> String {
    let (whole, fraction) = (us / 1_000_000, us % 1_000_000);
    if fraction == 0 {
        return whole.to_string();
    }
    format!("{whole}.{fraction:06}").trim_end_matches('0').to_owned()
}

/// Is it 1, 2 or 5 times a power of ten?
fn is_round(mut number: u64) -> bool {
    while number.is_multiple_of(10) && number > 0 {
        number /= 10;
    }
    matches!(number, 1 | 2 | 5)
}

fn put_escaped(out: &mut String, character: char) {
    match character {
        '\\' => out.push_str("\\\\"),
        '"' => out.push_str("\\\""),
        '\n' => out.push_str("\\n"),
        other => out.push(other),
    }
}

fn put(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments).expect("writing to memory");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_up_to_each_bound() {
        let mut histogram = LatencyHistogram::default();
        histogram.add(15, 3);
        histogram.add(1_500, 1);
        histogram.add(60_000_000, 1);
        let mut text = Text::default();
        text.family("wait_seconds", Kind::Histogram, "Waiting.").histogram(&[("node", "3")], &histogram);
        let text = text.into_string();
        assert!(text.starts_with("# HELP shorttail_wait_seconds Waiting.\n# TYPE shorttail_wait_seconds histogram\n"));
        let value = |bound: &str| {
            let line = format!("shorttail_wait_seconds_bucket{{node=\"3\",le=\"{bound}\"}} ");
            text.lines().find_map(|found| found.strip_prefix(&line)).unwrap_or_else(|| panic!("{line} in\n{text}"))
        };
        let bounds = ["0.00001", "0.00002", "0.001", "0.002", "10", "+Inf"];
        assert_eq!(bounds.map(value), ["0", "3", "3", "4", "4", "5"]);
        assert!(text.contains("_sum{node=\"3\"} 60.001545\n") && text.ends_with("_count{node=\"3\"} 5\n"), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("_bucket")).count(), 20);
    }

    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.family("up", Kind::Gauge, "Up.").sample(&[("path", "a\\b\"c\nd"), ("id", "1")], 1);
        assert!(text.into_string().ends_with("shorttail_up{path=\"a\\\\b\\\"c\\nd\",id=\"1\"} 1\n"));
    }

    #[test]
    fn seconds_are_exact() {
        assert_eq!([0, 1, 10, 1_500_000, 2_000_000].map(seconds), ["0", "0.000001", "0.00001", "1.5", "2"]);
    }
}
