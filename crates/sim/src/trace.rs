//! What happened in a run: a running hash over every event, and the last lines as text.
//!
//! Two runs of one seed must end with the same hash; a failing one prints its last lines. Each line's hash is seeded
//! with the hash before it, so order counts.

use std::collections::VecDeque;
use std::fmt::{self, Write};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::limits::{TRACE_LINE_BYTES_MAX, TRACE_LINES_MAX};

/// The log of one run. `lines` holds at most `line_count_max`, the newest last.
#[derive(Debug, Clone)]
pub struct Trace {
    hash: u64,
    event_count: u64,
    line_count_max: usize,
    lines: VecDeque<String>,
}

impl Default for Trace {
    fn default() -> Self {
        Trace::new(TRACE_LINES_MAX)
    }
}

impl Trace {
    /// Keeps the last `line_count_max` lines, at least one and at most [`TRACE_LINES_MAX`].
    pub fn new(line_count_max: usize) -> Self {
        let line_count_max = line_count_max.clamp(1, TRACE_LINES_MAX);
        Trace { hash: 0, event_count: 0, line_count_max, lines: VecDeque::new() }
    }

    /// Records one event: `trace.record(now_us, format_args!("node 3 crashes"))`.
    pub fn record(&mut self, now_us: u64, event: fmt::Arguments<'_>) {
        // The oldest line's memory is used again: a long campaign allocates nothing here.
        let mut line =
            if self.lines.len() == self.line_count_max { self.lines.pop_front() } else { None }.unwrap_or_default();
        line.clear();
        write!(line, "{now_us:>12} {event}").expect("a String takes every write");
        self.hash = xxh3_64_with_seed(line.as_bytes(), self.hash);
        self.event_count += 1;
        if line.len() > TRACE_LINE_BYTES_MAX {
            line.truncate(line.floor_char_boundary(TRACE_LINE_BYTES_MAX));
            line.push_str(" ...");
        }
        self.lines.push_back(line);
    }

    /// The hash over every event so far, kept or not.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn event_count(&self) -> u64 {
        self.event_count
    }

    /// The kept lines, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}

/// The kept lines, after a line that says how many are missing.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = self.event_count - self.lines.len() as u64;
        if missing > 0 {
            writeln!(f, "... {missing} earlier events ...")?;
        }
        self.lines().try_for_each(|line| writeln!(f, "{line}"))?;
        writeln!(f, "trace hash {:016x} over {} events", self.hash, self.event_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(events: &[&str]) -> Trace {
        let mut trace = Trace::new(2);
        for (at, event) in events.iter().enumerate() {
            trace.record(at as u64, format_args!("{event}"));
        }
        trace
    }

    #[test]
    fn hash_covers_dropped_lines_and_their_order() {
        let hash = traced(&["a", "b", "c", "d"]).hash();
        assert_eq!(hash, traced(&["a", "b", "c", "d"]).hash());
        assert_ne!(hash, traced(&["x", "b", "c", "d"]).hash());
        assert_ne!(hash, traced(&["b", "a", "c", "d"]).hash());
    }

    #[test]
    fn keeps_the_newest_lines_and_says_what_is_missing() {
        let trace = traced(&["a", "b", "c"]);
        assert_eq!(trace.lines().map(|line| line.trim()).collect::<Vec<_>>(), ["1 b", "2 c"]);
        assert!(trace.to_string().starts_with("... 1 earlier events ...\n"));
    }

    #[test]
    fn a_long_line_is_cut_on_a_character_but_hashed_whole() {
        let long = |end: &str| traced(&[&format!("{}{end}", "ä".repeat(TRACE_LINE_BYTES_MAX))]);
        assert_ne!(long("1").hash(), long("2").hash());
        assert!(long("1").lines().all(|line| line.len() <= TRACE_LINE_BYTES_MAX + 4));
    }
}
