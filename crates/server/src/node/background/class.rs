//! When a background thread may run: while nothing else wants the processor, and a little more if that never happens.
//!
//! ```text
//! lowest class, half of the processors --waits far longer than it runs--> ordinary class, nice 10, all processors
//!      '-------------nothing to do----------------------------------------------'--------> no thread
//! ```
//! In the lowest class a thread is interrupted at once by whatever else wants to run, but has some thousandth of a
//! processor that is never free; what was lost would stay lost for as long. A thread must not leave that class without
//! privileges. So one that starves returns what it works on to whoever watches it, who starts another one.
//!
//! Must not know: what the thread does.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::scheduling;

/// Looks after which it is judged: a second.
const LOOKS: u32 = 5;

/// Nanoseconds that a thread that starves waited for a processor in that time, and how many times as long as it ran.
/// Threads of one class that share processors wait some times as long; in the lowest class beside a busy one it is
/// hundreds.
const WAITED_NS_MIN: u64 = 250_000_000;
const WAITED_TIMES_MIN: u64 = 20;

/// What a thread and its watcher know of each other.
#[derive(Debug, Default)]
struct Shared {
    /// 0: it is not running.
    thread: AtomicI32,
    is_to_return: AtomicBool,
}

/// The thread's end.
#[derive(Debug)]
pub struct Watch<T> {
    shared: Arc<Shared>,
    returned: Sender<Returned<T>>,
}

/// The watcher's end.
#[derive(Debug)]
pub struct Watcher<T> {
    shared: Arc<Shared>,
    returned: Receiver<Returned<T>>,
    looks: u32,
    /// When it was judged last.
    before: Times,
    /// What the kernel counts of this thread.
    counts: Option<(i32, File)>,
}

/// What a thread worked on that ended.
#[derive(PartialEq, Eq, Debug)]
pub struct Returned<T> {
    pub work: T,
    /// Another thread is to go on with it.
    pub starves: bool,
}

/// Nanoseconds that a thread ran so far, and that it waited for a processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Times {
    ran: u64,
    waited: u64,
}

pub fn watch<T>() -> (Watch<T>, Watcher<T>) {
    let (shared, (sender, receiver)) = (Arc::new(Shared::default()), channel());
    let watch = Watch { shared: Arc::clone(&shared), returned: sender };
    (watch, Watcher { shared, returned: receiver, looks: 0, before: Times::default(), counts: None })
}

impl<T> Clone for Watch<T> {
    fn clone(&self) -> Self {
        Watch { shared: Arc::clone(&self.shared), returned: self.returned.clone() }
    }
}

impl<T> Watch<T> {
    /// The calling thread begins, in the lowest class unless it is to make up for one that starved.
    pub fn begin(&self, makes_up: bool) {
        if makes_up {
            scheduling::yield_to_most();
        } else {
            scheduling::yield_to_everything();
            scheduling::keep_to_half();
        }
        // A verdict that came as the thread before ended was about that one.
        self.shared.is_to_return.store(false, Ordering::Relaxed);
        self.shared.thread.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
    }

    /// Does the thread starve? Then it is to return what it works on, and end.
    pub fn is_to_return(&self) -> bool {
        self.shared.is_to_return.swap(false, Ordering::Relaxed)
    }

    /// The calling thread ends.
    pub fn return_work(&self, work: T, starves: bool) {
        self.shared.thread.store(0, Ordering::Relaxed);
        // A watcher that is gone watches nobody: the process ends.
        let _ = self.returned.send(Returned { work, starves });
    }
}

impl<T> Watcher<T> {
    /// Five times a second. What a thread returned.
    pub fn look(&mut self) -> Option<Returned<T>> {
        if let Ok(returned) = self.returned.try_recv() {
            return Some(returned);
        }
        self.looks += 1;
        if self.looks < LOOKS {
            return None;
        }
        self.looks = 0;
        // A kernel that does not count knows of nobody who starves.
        let now = self.times().unwrap_or_default();
        if starves(std::mem::replace(&mut self.before, now), now) {
            self.shared.is_to_return.store(true, Ordering::Relaxed);
        }
        None
    }
}

impl<T> Watcher<T> {
    /// Read from a file that stays open: this is done for as long as the node runs, mostly for nothing.
    fn times(&mut self) -> Option<Times> {
        let thread = self.shared.thread.load(Ordering::Relaxed);
        if thread == 0 {
            return None;
        }
        if self.counts.as_ref().is_none_or(|(of, _)| *of != thread) {
            self.counts = Some((thread, File::open(format!("/proc/self/task/{thread}/schedstat")).ok()?));
        }
        let (_, counts) = self.counts.as_ref()?;
        let mut stat = [0; 64];
        let Ok(length) = counts.read_at(&mut stat, 0) else {
            // That thread is over, and another one may get its number.
            self.counts = None;
            return None;
        };
        times_of(std::str::from_utf8(&stat[..length]).ok()?)
    }
}

fn starves(before: Times, now: Times) -> bool {
    // Another thread has counts of its own.
    let since = |before: u64, now: u64| now.saturating_sub(before);
    let (ran, waited) = (since(before.ran, now.ran), since(before.waited, now.waited));
    waited >= WAITED_NS_MIN && waited / WAITED_TIMES_MIN >= ran
}

fn times_of(stat: &str) -> Option<Times> {
    let mut fields = stat.split_whitespace();
    let (ran, waited) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Times { ran, waited })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_far_longer_than_it_runs_starves() {
        let times = |ran: u64, waited: u64| Times { ran: ran * 1_000_000, waited: waited * 1_000_000 };
        let before = times(7_000, 900);
        let cases = [(2, 600, true), (40, 600, false), (0, 250, true), (0, 249, false), (0, 0, false), (900, 0, false)];
        for (ran, waited, is_starved) in cases {
            assert_eq!(starves(before, times(7_000 + ran, 900 + waited)), is_starved, "{ran} ms, {waited} ms");
        }
        assert!(!starves(before, Times::default()), "another thread");
    }

    #[test]
    fn what_the_kernel_counts_is_read() {
        assert_eq!(times_of("300 21 7\n"), Some(Times { ran: 300, waited: 21 }));
        assert_eq!(times_of("300"), None);
        // Of a thread that has just begun the kernel counts nothing yet.
        let own = || std::fs::read_to_string("/proc/thread-self/schedstat").ok().and_then(|text| times_of(&text));
        while own().is_some_and(|times| times.ran == 0) {
            std::thread::yield_now();
        }
        let (watch, mut watcher) = watch::<u8>();
        watch.begin(true);
        assert!((0..3 * LOOKS).all(|_| watcher.look().is_none()));
        let counts = std::fs::read_to_string("/proc/self/schedstat").is_ok();
        assert_eq!(watcher.before.ran > 0, counts, "the thread that began is the one that is looked at");
    }

    #[test]
    fn what_was_returned_is_handed_on_once() {
        let (watch, mut watcher) = watch::<u8>();
        assert!(!watch.is_to_return());
        watch.shared.is_to_return.store(true, Ordering::Relaxed);
        assert!(watch.is_to_return() && !watch.is_to_return());
        watch.shared.is_to_return.store(true, Ordering::Relaxed);
        watch.return_work(7, true);
        watch.begin(true);
        assert!(!watch.is_to_return(), "that was about the thread before");
        assert_eq!((watcher.look(), watcher.look()), (Some(Returned { work: 7, starves: true }), None));
    }
}
