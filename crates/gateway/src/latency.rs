//! How long commands took as clients saw it, counted by classes that stay the same: from the turn in which a command
//! was read to the one in which its reply went to the socket, behind those of the commands before it.
//!
//! Counting is an addition in an array. Must not know: clocks, who reads the numbers.

/// Upper bounds of the classes in microseconds, ascending: what is quicker is little more than the network's, and
/// nobody waits for longer than requests wait. What took longer is in one more class.
pub const COMMAND_BOUNDS_US: [u64; 16] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000,
    5_000_000,
];

/// Commands by how long they took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommandLatency {
    /// By class: no longer than its bound, and longer than the one before.
    counts: [u64; COMMAND_BOUNDS_US.len() + 1],
    pub sum_us: u64,
}

impl CommandLatency {
    pub fn add(&mut self, latency_us: u64) {
        self.counts[COMMAND_BOUNDS_US.partition_point(|&bound_us| bound_us < latency_us)] += 1;
        self.sum_us = self.sum_us.saturating_add(latency_us);
    }

    /// Commands of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = *self;
        sum.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        sum.sum_us = sum.sum_us.saturating_add(other.sum_us);
        sum
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Each bound, and how many commands took no longer.
    pub fn within(&self) -> impl Iterator<Item = (u64, u64)> {
        let sums = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        COMMAND_BOUNDS_US.into_iter().zip(sums)
    }
}

/// Reads and writes of clients. What does both is a write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommandLatencies {
    pub reads: CommandLatency,
    pub writes: CommandLatency,
}

impl CommandLatencies {
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        CommandLatencies { reads: self.reads.plus(&other.reads), writes: self.writes.plus(&other.writes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_in_the_class_that_ends_with_its_latency_or_just_above() {
        let mut latency = CommandLatency::default();
        [0, 50, 51, 1_000, 1_001, 5_000_000, 5_000_001, u64::MAX / 2].into_iter().for_each(|us| latency.add(us));
        let within: Vec<(u64, u64)> = latency.within().collect();
        assert_eq!(within.len(), COMMAND_BOUNDS_US.len());
        for wanted in [(50, 2), (100, 3), (500, 3), (1_000, 4), (2_000, 5), (2_000_000, 5), (5_000_000, 6)] {
            assert!(within.contains(&wanted), "{wanted:?}: {within:?}");
        }
        assert_eq!((latency.count(), latency.sum_us), (8, 10_002_103 + u64::MAX / 2));
    }

    #[test]
    fn what_two_counted_adds_up() {
        let (mut one, mut other) = (CommandLatencies::default(), CommandLatencies::default());
        one.reads.add(60);
        other.reads.add(70);
        other.writes.add(9);
        let sum = one.plus(&other);
        assert_eq!((sum.reads.count(), sum.reads.sum_us, sum.writes.count(), sum.writes.sum_us), (2, 130, 1, 9));
    }
}
