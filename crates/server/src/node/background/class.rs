//! When a background thread may run: while nothing else wants the processor, and a little more if that never happens.
//!
//! ```text
//! lowest class --can run, but hardly does, for STARVED_LOOKS looks--> ordinary class, nice 10 --nothing to do--> lowest class
//! ```
//! In the lowest class a thread is interrupted at once by whatever else wants to run, but has some thousandth of a processor
//! that is never free; what was lost would stay lost for as long. A thread must not leave that class without privileges. So
//! one that starves returns what it works on to whoever watches it, who starts another one.
//!
//! Must not know: what the thread does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Looks in a row at which a thread could run and hardly did: a second.
const STARVED_LOOKS: u32 = 5;

/// Ticks of a hundredth of a second that it ran between two looks if it does not starve: a tenth of the time.
const TICKS_MIN: u64 = 2;

/// A tenth of what an ordinary thread gets that competes with it.
const NICE: i32 = 10;

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
    returned: Sender<T>,
}

/// The watcher's end.
#[derive(Debug)]
pub struct Watcher<T> {
    shared: Arc<Shared>,
    returned: Receiver<T>,
    ticks: u64,
    starved_looks: u32,
}

pub fn watch<T>() -> (Watch<T>, Watcher<T>) {
    let (shared, (sender, receiver)) = (Arc::new(Shared::default()), channel());
    let watch = Watch { shared: Arc::clone(&shared), returned: sender };
    (watch, Watcher { shared, returned: receiver, ticks: 0, starved_looks: 0 })
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
            // Where that is not to be had it is as any other.
            let _ = rustix::process::setpriority_process(None, NICE);
        } else {
            yield_to_everything();
        }
        self.shared.thread.store(this_thread().unwrap_or(0), Ordering::Relaxed);
    }

    /// Does the thread starve? Then it is to return what it works on, and end.
    pub fn is_to_return(&self) -> bool {
        self.shared.is_to_return.swap(false, Ordering::Relaxed)
    }

    pub fn return_work(&self, work: T) {
        // A watcher that is gone watches nobody: the process ends.
        let _ = self.returned.send(work);
    }
}

impl<T> Watcher<T> {
    /// Five times a second. What a thread returned that starved: another one is to go on with it.
    pub fn look(&mut self) -> Option<T> {
        if let Ok(work) = self.returned.try_recv() {
            return Some(work);
        }
        let thread = self.shared.thread.load(Ordering::Relaxed);
        let (can_run, ticks) = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"))
            .ok()
            .and_then(|stat| state_of(&stat))
            .unwrap_or_default();
        let ran = ticks.saturating_sub(std::mem::replace(&mut self.ticks, ticks));
        self.starved_looks = if can_run && ran < TICKS_MIN { self.starved_looks + 1 } else { 0 };
        if self.starved_looks == STARVED_LOOKS {
            self.starved_looks = 0;
            self.shared.is_to_return.store(true, Ordering::Relaxed);
        }
        None
    }
}

/// The number of the calling thread.
fn this_thread() -> Option<i32> {
    let path = std::fs::read_link("/proc/thread-self").ok()?;
    path.file_name()?.to_str()?.parse().ok()
}

/// Whether a thread can run, and the ticks that it ran so far.
fn state_of(stat: &str) -> Option<(bool, u64)> {
    // The second field, the name, may contain blanks; fields are counted from behind it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let (user, system) = (fields.nth(10)?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
    Some((state == "R", user + system))
}

/// Gives this thread the lowest scheduling class. Where that is not to be had it is as any other.
pub fn yield_to_everything() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads the parameters, which live as long; 0 is the calling thread.
    let outcome = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    if outcome != 0 {
        tracing::debug!(error = %io::Error::last_os_error(), "a background thread runs as any other");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_state_is_read_whatever_its_name() {
        let stat = "7 (a) R b) R 1 2 3 4 5 6 7 8 9 10 300 21 0 0 20 0";
        assert_eq!(state_of(stat), Some((true, 321)));
        assert_eq!(state_of(&stat.replace("b) R", "b) S")), Some((false, 321)));
        assert_eq!(state_of("7 (a) R 1 2"), None);
    }

    #[test]
    fn only_who_can_run_and_does_not_is_to_return_its_work() {
        let (watch, mut watcher) = watch::<u8>();
        // This thread is asleep or gone whenever nobody runs it: no thread has this number.
        watch.shared.thread.store(-1, Ordering::Relaxed);
        assert!((0..2 * STARVED_LOOKS).all(|_| watcher.look().is_none()));
        assert!(!watch.is_to_return());
        // The looker itself can run, and looks far more often than a tick goes by.
        watch.shared.thread.store(this_thread().expect("a number"), Ordering::Relaxed);
        let looks = (0..100_000).take_while(|_| watcher.look().is_none() && !watch.is_to_return()).count();
        assert!(looks >= STARVED_LOOKS as usize - 1 && looks < 100_000, "{looks}");
        watch.return_work(7);
        assert_eq!(watcher.look(), Some(7));
    }
}
