//! Half of the processors do nothing but count, in the lowest class and in registers: what clients notice of that is
//! the cost of keeping as many processors busy, whatever they do.

use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::scheduling::enter_lowest_class;

/// Between two looks at the clock.
const COUNTS: u64 = 10_000;

/// Counts for so long on the processors that nodes rebuild on: half of those that there are, the last ones.
///
/// # Errors
/// A thread is not let onto its processor or into the class.
pub fn count_on_half(seconds: f64) -> anyhow::Result<()> {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let processors = last_half(&sched_getaffinity(None)?);
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            processors.into_iter().map(|processor| scope.spawn(move || count(processor, until))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("the counting thread panicked"))
    })
}

fn last_half(all: &CpuSet) -> Vec<usize> {
    let count = (all.count() as usize / 2).max(1);
    (0..CpuSet::MAX_CPU).rev().filter(|&processor| all.is_set(processor)).take(count).collect()
}

fn count(processor: usize, until: Instant) -> anyhow::Result<()> {
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only)?;
    enter_lowest_class()?;
    let mut counted = 0u64;
    while Instant::now() < until {
        (0..COUNTS).for_each(|_| counted = std::hint::black_box(counted + 1));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_half_and_at_least_one() {
        let set = |processors: &[usize]| {
            let mut set = CpuSet::new();
            processors.iter().for_each(|&processor| set.set(processor));
            set
        };
        assert_eq!(last_half(&set(&[0, 1])), [1]);
        assert_eq!(last_half(&set(&[5])), [5]);
        assert_eq!(last_half(&set(&[1, 2, 4, 7, 9])), [9, 7]);
    }

    #[test]
    fn counting_ends() {
        let started = Instant::now();
        count_on_half(0.01).expect("the system lets it");
        assert!(started.elapsed() >= Duration::from_millis(10));
    }
}
