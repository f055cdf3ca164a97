//! Operations, errors and longest latency per slice of time; slices widen when they become too many.

use crate::limits::{TIMELINE_BUCKET_NS, TIMELINE_BUCKETS_MAX};

/// One slice of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    pub operations: u64,
    pub errors: u64,
    pub latency_ns_max: u64,
}

/// Slices from the start of a phase on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    width_ns: u64,
    buckets: Vec<Bucket>,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { width_ns: TIMELINE_BUCKET_NS, buckets: Vec::new() }
    }
}

impl Timeline {
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    pub fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    pub fn record(&mut self, at_ns: u64, latency_ns: u64) {
        let bucket = self.bucket(at_ns);
        bucket.operations += 1;
        bucket.latency_ns_max = bucket.latency_ns_max.max(latency_ns);
    }

    pub fn record_error(&mut self, at_ns: u64) {
        self.bucket(at_ns).errors += 1;
    }

    fn bucket(&mut self, at_ns: u64) -> &mut Bucket {
        while at_ns / self.width_ns >= TIMELINE_BUCKETS_MAX as u64 {
            self.widen();
        }
        let index = (at_ns / self.width_ns) as usize;
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, Bucket::default());
        }
        &mut self.buckets[index]
    }

    /// Merges each two neighbours.
    fn widen(&mut self) {
        self.width_ns *= 2;
        let merged = self.buckets.chunks(2).map(|pair| pair.iter().fold(Bucket::default(), Bucket::plus)).collect();
        self.buckets = merged;
    }

    pub fn merge(&mut self, other: &Timeline) {
        let mut other = other.clone();
        while self.width_ns < other.width_ns {
            self.widen();
        }
        while other.width_ns < self.width_ns {
            other.widen();
        }
        let length = self.buckets.len().max(other.buckets.len());
        self.buckets.resize(length, Bucket::default());
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.plus(theirs);
        }
    }
}

impl Bucket {
    fn plus(self, other: &Bucket) -> Bucket {
        Bucket {
            operations: self.operations + other.operations,
            errors: self.errors + other.errors,
            latency_ns_max: self.latency_ns_max.max(other.latency_ns_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_widens_and_loses_nothing() {
        let mut timeline = Timeline::default();
        let hour = 3_600_000_000_000;
        for second in 0..3_600u64 {
            timeline.record(second * 1_000_000_000, second);
        }
        timeline.record_error(hour - 1);
        assert!(timeline.buckets().len() <= TIMELINE_BUCKETS_MAX);
        assert_eq!(timeline.buckets().iter().map(|bucket| bucket.operations).sum::<u64>(), 3_600);
        assert_eq!(timeline.buckets().iter().map(|bucket| bucket.latency_ns_max).max(), Some(3_599));
    }

    #[test]
    fn timelines_of_different_widths_merge() {
        let (mut short, mut long) = (Timeline::default(), Timeline::default());
        short.record(50_000_000, 7);
        long.record(1_000 * 1_000_000_000, 9);
        short.merge(&long);
        assert_eq!(short.width_ns(), long.width_ns());
        assert_eq!(short.buckets()[0], Bucket { operations: 1, errors: 0, latency_ns_max: 7 });
        assert_eq!(short.buckets().iter().map(|bucket| bucket.operations).sum::<u64>(), 2);
    }
}
