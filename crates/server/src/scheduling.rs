//! How long a core may run before others that are ready have their turn, and who runs only while nobody else wants to.
//!
//! A write passes the loops of a gateway and of three nodes, each with some microseconds to do. With the system's slice
//! of milliseconds a loop that wakes up waits for whoever runs, a busy client for example. A loop that asks for shorter
//! slices gets no more time than before, only sooner ([the
//! measurement](../../../docs/decisions/0007-threads-and-loops.md)).

use std::cell::Cell;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

thread_local! {
    static IS_LOWEST: Cell<bool> = const { Cell::new(false) };
}

/// Shorter than the system's 3 ms, and longer than most turns.
const SLICE_NS: u64 = 500_000;

/// The calling thread asks for short slices (Linux 6.12). Older systems, and threads of another scheduling class, stay
/// as they are.
pub fn shorten_slices() {
    if let Err(error) = try_shorten_slices() {
        tracing::debug!(%error, "a core has slices as long as those of any thread");
    }
}

fn try_shorten_slices() -> io::Result<()> {
    let mut attributes = attributes()?;
    if attributes.sched_policy == libc::SCHED_OTHER as u32 {
        attributes.sched_runtime = SLICE_NS;
        // SAFETY: the call reads the attributes, which live as long; 0 is the calling thread, and no flags.
        let outcome = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
        if outcome != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Those of the calling thread, its niceness among them.
fn attributes() -> io::Result<libc::sched_attr> {
    const BYTES: u32 = size_of::<libc::sched_attr>() as u32;
    // SAFETY: numbers only, for which all zeros are valid.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes at most so many bytes to the attributes, which live as long; 0 is the calling thread.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, BYTES, 0) };
    if outcome == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

/// Gives this thread the lowest scheduling class. Where that is not to be had it is as any other.
pub fn yield_to_everything() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads the parameters, which live as long; 0 is the calling thread.
    let outcome = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    if outcome != 0 {
        tracing::debug!(error = %io::Error::last_os_error(), "a background thread runs as any other");
    }
    IS_LOWEST.set(outcome == 0);
}

/// A tenth of what an ordinary thread gets that competes with it.
const NICE: i32 = 10;

/// The calling thread gets little where others want the processor, and never nothing. Where that is not to be had it is
/// as any other.
pub fn yield_to_most() {
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// The calling thread uses half of the processors that it may use, the last ones, and at least one. A thread that wakes
/// up looks for a processor that is idle before it takes one from whoever is in a lower class, which costs it some
/// microseconds each time, and what it had in the caches.
pub fn keep_to_half() {
    let kept = sched_getaffinity(None).and_then(|all| sched_setaffinity(None, &half_of(&all)));
    if let Err(error) = kept {
        tracing::debug!(%error, "a background thread uses all processors");
    }
}

fn half_of(all: &CpuSet) -> CpuSet {
    let mut half = CpuSet::new();
    let count = (all.count() as usize / 2).max(1);
    let last = (0..CpuSet::MAX_CPU).rev().filter(|&processor| all.is_set(processor));
    last.take(count).for_each(|processor| half.set(processor));
    half
}

/// Whoever waits for the processor has it now, if the calling thread is in the lowest class. To be called every some
/// tens of microseconds: the system should interrupt such a thread for any other, but lets it run on for up to a tick,
/// which is 4 ms, if the one that wakes up had a little more than its share before it slept.
pub fn give_way() {
    if IS_LOWEST.get() {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_slice_changes() {
        let thread = std::thread::spawn(|| {
            let before = attributes().expect("the system tells");
            try_shorten_slices().expect("the system allows");
            (before, attributes().expect("the system tells"))
        });
        let (before, after) = thread.join().expect("no panic");
        assert_eq!(after.sched_policy, before.sched_policy);
        assert_eq!(after.sched_nice, before.sched_nice);
        // Older systems take the number and tell nothing.
        let is_ordinary = before.sched_policy == libc::SCHED_OTHER as u32;
        assert!(!is_ordinary || [0, SLICE_NS].contains(&after.sched_runtime), "{}", after.sched_runtime);
    }

    #[test]
    fn half_of_the_processors_are_the_last_ones_and_at_least_one() {
        let set = |processors: &[usize]| {
            let mut set = CpuSet::new();
            processors.iter().for_each(|&processor| set.set(processor));
            set
        };
        let cases: [(&[usize], &[usize]); 4] =
            [(&[5], &[5]), (&[0, 1], &[1]), (&[0, 2, 7], &[7]), (&[1, 3, 4, 1023], &[4, 1023])];
        for (all, half) in cases {
            assert_eq!(half_of(&set(all)), set(half), "{all:?}");
        }
    }

    #[test]
    fn a_thread_that_keeps_to_half_leaves_the_others_to_the_rest() {
        let own = sched_getaffinity(None).expect("the system tells");
        let kept = std::thread::spawn(|| {
            keep_to_half();
            sched_getaffinity(None).expect("the system tells")
        });
        assert_eq!(kept.join().expect("no panic"), half_of(&own));
        assert_eq!(sched_getaffinity(None).expect("the system tells"), own);
    }
}
