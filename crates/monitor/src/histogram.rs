//! A bounded histogram of latencies: exact below 8 us, then eight equal steps to each doubling.
//!
//! ```text
//!   us    0 1 .. 7 | 8 9 .. 15 | 16 18 .. 30 | 32 36 .. 60 | ...
//!   step      1          1           2             4           error at most one eighth
//! ```
//!
//! Must not know: what is measured, or when.

/// Steps to a doubling: three bits, so a quantile is off by at most an eighth.
const STEP_BITS: u32 = 3;
const STEPS: usize = 1 << STEP_BITS;
/// Doublings above the exact part. The last one ends at 2^27 us, two minutes: longer than any request may take.
const DOUBLINGS: usize = 24;
const BUCKETS: usize = STEPS * (DOUBLINGS + 1);

/// Counts of latencies in microseconds. What exceeds the last bucket is counted there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    count: u64,
    sum_us: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

impl Histogram {
    pub const fn new() -> Self {
        Histogram { counts: [0; BUCKETS], count: 0, sum_us: 0 }
    }

    #[inline]
    pub fn record(&mut self, latency_us: u64) {
        self.counts[bucket(latency_us)] += 1;
        self.count += 1;
        self.sum_us += latency_us;
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// How many are below `bound_us`; exact at the edges of buckets, as powers of two are.
    pub fn count_below(&self, bound_us: u64) -> u64 {
        self.counts[..bucket(bound_us)].iter().sum()
    }

    /// The latency that `per_mille` of a thousand do not exceed: the upper end of its bucket. `None`: nothing counted.
    pub fn quantile_us(&self, per_mille: u32) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = (self.count * u64::from(per_mille)).div_ceil(1000).clamp(1, self.count);
        let mut seen = 0;
        let found = self.counts.iter().position(|&count| {
            seen += count;
            seen >= rank
        });
        found.map(|index| floor_us(index + 1) - 1)
    }

    /// Halves every count, so that what is older weighs less.
    pub fn fade(&mut self) {
        self.counts.iter_mut().for_each(|count| *count /= 2);
        self.count = self.counts.iter().sum();
        self.sum_us /= 2;
    }
}

#[inline]
fn bucket(latency_us: u64) -> usize {
    if latency_us < STEPS as u64 {
        return latency_us as usize;
    }
    let doubling = latency_us.ilog2() - STEP_BITS;
    // The top bit of what is left after the shift counts as one doubling.
    let index = (doubling as usize) * STEPS + (latency_us >> doubling) as usize;
    index.min(BUCKETS - 1)
}

/// Smallest latency of a bucket.
fn floor_us(index: usize) -> u64 {
    if index < STEPS {
        return index as u64;
    }
    let doubling = index / STEPS - 1;
    ((index % STEPS + STEPS) as u64) << doubling
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_and_floors_are_inverse() {
        for index in 0..BUCKETS {
            assert_eq!(bucket(floor_us(index)), index);
            assert_eq!(bucket(floor_us(index + 1) - 1), index);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_within_an_eighth() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_us(500), None);
        (1..=100_000).for_each(|us| histogram.record(us));
        for (per_mille, exact) in [(500, 50_000), (950, 95_000), (990, 99_000), (1000, 100_000)] {
            let found = histogram.quantile_us(per_mille).expect("it is not empty");
            assert!((exact..exact + exact / 8).contains(&found), "{per_mille}: {found}, not {exact}");
        }
    }

    #[test]
    fn counts_below_the_bounds_are_exact() {
        let mut histogram = Histogram::default();
        [1, 63, 64, 127, 128, 5_000_000_000].iter().for_each(|&us| histogram.record(us));
        assert_eq!(histogram.count_below(64), 2);
        assert_eq!(histogram.count_below(128), 4);
        assert_eq!(histogram.count_below(1 << 25), 5);
        assert_eq!((histogram.count(), histogram.sum_us()), (6, 5_000_000_000 + 383));
    }

    #[test]
    fn fading_forgets() {
        let mut histogram = Histogram::default();
        (0..64).for_each(|_| histogram.record(1000));
        (0..6).for_each(|_| histogram.fade());
        (0..99).for_each(|_| histogram.record(10));
        assert_eq!(histogram.count(), 100);
        assert_eq!(histogram.quantile_us(990), Some(10));
        (0..7).for_each(|_| histogram.fade());
        assert_eq!((histogram.count(), histogram.quantile_us(500)), (0, None));
    }
}
