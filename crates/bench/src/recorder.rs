//! What a run has seen: latencies, errors, verdicts, the timeline. One per thread, merged at the end.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::history::Verdict;
use crate::limits::{ERROR_TEXTS_MAX, EXAMPLES_MAX, LATENCY_NS_MAX};
use crate::samples::Sample;
use crate::timeline::Timeline;
use crate::workload::OperationClass;

/// Latencies of one operation class, nanoseconds.
pub struct Latencies {
    /// From the intended start.
    pub corrected: Histogram<u64>,
    /// From the moment the request was handed to the connection.
    pub service: Histogram<u64>,
}

/// An error text, how often it came, and where it was seen first.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorCount {
    pub count: u64,
    pub first_at_ns: u64,
    pub example: String,
}

/// The operation that took longest.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    pub class: OperationClass,
    pub latency_ns: u64,
    /// Intended start, since the start of the phase.
    pub at_ns: u64,
    pub key: String,
}

/// How the answers were judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    pub hits: u64,
    pub absent: u64,
    pub missed: u64,
    pub lost: u64,
    pub stale: u64,
    pub resurrected: u64,
    pub mismatches: u64,
    pub examples: Vec<String>,
}

pub struct Recorder {
    pub latencies: [Latencies; 6],
    pub errors: BTreeMap<String, ErrorCount>,
    pub worst: Option<Worst>,
    pub tally: Tally,
    pub timeline: Timeline,
    pub operations: u64,
    pub error_count: u64,
    /// Longest time that the client woke up after its schedule.
    pub client_late_ns_max: u64,
    /// Every operation by itself, if they are kept.
    pub samples: Option<Vec<Sample>>,
}

/// Text under which errors beyond [`ERROR_TEXTS_MAX`] distinct ones are counted.
const OTHER_ERRORS: &str = "(other errors)";

impl Default for Latencies {
    fn default() -> Self {
        // Three digits: a percentile is right to 0.1 %.
        let histogram = || Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("constant bounds are legal");
        Latencies { corrected: histogram(), service: histogram() }
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder {
            latencies: std::array::from_fn(|_| Latencies::default()),
            errors: BTreeMap::new(),
            worst: None,
            tally: Tally::default(),
            timeline: Timeline::default(),
            operations: 0,
            error_count: 0,
            client_late_ns_max: 0,
            samples: None,
        }
    }
}

/// An operation that was answered; times in nanoseconds since the start of the phase.
pub struct Completion {
    pub class: OperationClass,
    pub intended_ns: u64,
    pub sent_ns: u64,
    pub now_ns: u64,
}

impl Recorder {
    /// Counts a completed operation; `key` names it if it turns out to be the worst.
    pub fn completed(&mut self, done: &Completion, key: impl FnOnce() -> String) {
        let latency_ns = done.now_ns.saturating_sub(done.intended_ns);
        let latencies = &mut self.latencies[done.class.index()];
        latencies.corrected.saturating_record(latency_ns);
        latencies.service.saturating_record(done.now_ns.saturating_sub(done.sent_ns));
        self.operations += 1;
        self.keep_sample(done, latency_ns, false);
        self.timeline.record(done.now_ns, latency_ns);
        self.consider_worst(done.class, latency_ns, done.intended_ns, key);
    }

    fn keep_sample(&mut self, done: &Completion, latency_ns: u64, is_failed: bool) {
        if let Some(samples) = &mut self.samples {
            samples.push(Sample { intended_ns: done.intended_ns, latency_ns, class: done.class, is_failed });
        }
    }

    fn consider_worst(&mut self, class: OperationClass, latency_ns: u64, at_ns: u64, key: impl FnOnce() -> String) {
        if self.worst.as_ref().is_none_or(|worst| worst.latency_ns < latency_ns) {
            self.worst = Some(Worst { class, latency_ns, at_ns, key: key() });
        }
    }

    /// Counts an operation that failed. Its time may be the worst of all too: a failure after a long wait is no relief.
    pub fn failed(&mut self, done: &Completion, text: &str, key: impl Fn() -> String) {
        self.error_count += 1;
        let latency_ns = done.now_ns.saturating_sub(done.intended_ns);
        self.keep_sample(done, latency_ns, true);
        self.consider_worst(done.class, latency_ns, done.intended_ns, &key);
        self.timeline.record_error(done.now_ns);
        let known = self.errors.contains_key(text) || self.errors.len() < ERROR_TEXTS_MAX;
        let text = if known { text } else { OTHER_ERRORS };
        let entry = self.errors.entry(text.to_owned()).or_insert_with(|| ErrorCount {
            count: 0,
            first_at_ns: done.now_ns,
            example: format!("{} of key {}", done.class.name(), key()),
        });
        entry.count += 1;
    }

    pub fn judged(&mut self, verdict: Verdict, now_ns: u64, key: impl FnOnce() -> String) {
        let count = match verdict {
            Verdict::Hit => &mut self.tally.hits,
            Verdict::Absent => &mut self.tally.absent,
            Verdict::Missed { .. } => &mut self.tally.missed,
            Verdict::Lost { .. } => &mut self.tally.lost,
            Verdict::Stale { .. } => &mut self.tally.stale,
            Verdict::Resurrected { .. } => &mut self.tally.resurrected,
            Verdict::Mismatch(_) => &mut self.tally.mismatches,
        };
        *count += 1;
        if verdict.is_fault() && self.tally.examples.len() < EXAMPLES_MAX {
            self.tally.examples.push(format!("key {} at {:.3} s: {verdict}", key(), now_ns as f64 / 1e9));
        }
    }

    pub fn client_late(&mut self, late_ns: u64) {
        self.client_late_ns_max = self.client_late_ns_max.max(late_ns);
    }

    pub fn merge(&mut self, other: &Recorder) {
        if let Some(theirs) = &other.samples {
            self.samples.get_or_insert_default().extend_from_slice(theirs);
        }
        for (mine, theirs) in self.latencies.iter_mut().zip(&other.latencies) {
            mine.corrected.add(&theirs.corrected).expect("equal bounds");
            mine.service.add(&theirs.service).expect("equal bounds");
        }
        for (text, error) in &other.errors {
            let known = self.errors.contains_key(text) || self.errors.len() < ERROR_TEXTS_MAX;
            let text = if known { text } else { OTHER_ERRORS };
            let empty = || ErrorCount { count: 0, ..error.clone() };
            let entry = self.errors.entry(text.to_owned()).or_insert_with(empty);
            entry.count += error.count;
            entry.first_at_ns = entry.first_at_ns.min(error.first_at_ns);
        }
        if let Some(worst) = &other.worst {
            self.consider_worst(worst.class, worst.latency_ns, worst.at_ns, || worst.key.clone());
        }
        self.tally.merge(&other.tally);
        self.timeline.merge(&other.timeline);
        self.operations += other.operations;
        self.error_count += other.error_count;
        self.client_late_ns_max = self.client_late_ns_max.max(other.client_late_ns_max);
    }
}

impl Tally {
    pub fn merge(&mut self, other: &Tally) {
        self.hits += other.hits;
        self.absent += other.absent;
        self.missed += other.missed;
        self.lost += other.lost;
        self.stale += other.stale;
        self.resurrected += other.resurrected;
        self.mismatches += other.mismatches;
        let room = EXAMPLES_MAX - self.examples.len();
        self.examples.extend(other.examples.iter().take(room).cloned());
    }

    /// Broken promises of any kind.
    pub fn faults(&self) -> u64 {
        self.lost + self.stale + self.resurrected + self.mismatches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(class: OperationClass, intended_ns: u64, sent_ns: u64, now_ns: u64) -> Completion {
        Completion { class, intended_ns, sent_ns, now_ns }
    }

    #[test]
    fn latency_counts_from_the_intended_start_and_service_from_the_send() {
        let mut recorder = Recorder::default();
        recorder.completed(&done(OperationClass::Get, 100, 900, 1_000), || "k".to_owned());
        let latencies = &recorder.latencies[OperationClass::Get.index()];
        assert_eq!((latencies.corrected.max(), latencies.service.max()), (900, 100));
    }

    #[test]
    fn errors_are_counted_by_text_up_to_a_limit_and_merge() {
        let (mut one, mut two) = (Recorder::default(), Recorder::default());
        for number in 0..ERROR_TEXTS_MAX + 5 {
            one.failed(&done(OperationClass::Set, 0, 0, 10), &format!("error {number}"), || "k".to_owned());
        }
        two.failed(&done(OperationClass::Set, 0, 0, 5), "error 1", || "k".to_owned());
        one.merge(&two);
        assert_eq!(one.errors.len(), ERROR_TEXTS_MAX + 1);
        assert_eq!(one.errors[OTHER_ERRORS].count, 5);
        assert_eq!((one.errors["error 1"].count, one.errors["error 1"].first_at_ns), (2, 5));
        assert_eq!(one.error_count, ERROR_TEXTS_MAX as u64 + 6);
    }

    #[test]
    fn the_worst_operation_survives_a_merge_and_failures_count() {
        let (mut one, mut two) = (Recorder::default(), Recorder::default());
        one.completed(&done(OperationClass::Get, 0, 0, 50), || "short".to_owned());
        two.failed(&done(OperationClass::Set, 7, 7, 107), "gone", || "long".to_owned());
        one.client_late(3);
        two.client_late(8);
        one.merge(&two);
        assert_eq!(one.client_late_ns_max, 8);
        let worst = Worst { class: OperationClass::Set, latency_ns: 100, at_ns: 7, key: "long".to_owned() };
        assert_eq!(one.worst, Some(worst));
    }
}
