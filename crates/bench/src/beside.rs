//! A thread that works beside the load: it starts with the measured phase and is told when the load has ended.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::engine::Phase;
use crate::load::Observer;

type Work<T> = Box<dyn FnOnce(&LoadEnd) -> anyhow::Result<T> + Send>;

/// Work that waits for the measured phase, or does it.
pub enum Beside<T> {
    Waiting(Work<T>),
    Working {
        /// Dropped to say that the load has ended.
        end: Sender<()>,
        thread: JoinHandle<anyhow::Result<T>>,
    },
    /// Only while it changes from waiting to working.
    Starting,
}

/// Seen from the thread: whether the load still runs.
pub struct LoadEnd(Receiver<()>);

impl LoadEnd {
    /// Pauses; true if the load ended meanwhile.
    pub fn within(&self, pause: Duration) -> bool {
        self.0.recv_timeout(pause) != Err(RecvTimeoutError::Timeout)
    }
}

impl<T: Send + 'static> Beside<T> {
    pub fn new(work: impl FnOnce(&LoadEnd) -> anyhow::Result<T> + Send + 'static) -> Self {
        Beside::Waiting(Box::new(work))
    }

    /// Says that the load has ended and waits for the result; none if the measured phase never came.
    ///
    /// # Errors
    /// As the work says.
    pub fn finish(self) -> anyhow::Result<Option<T>> {
        let Beside::Working { end, thread } = self else { return Ok(None) };
        drop(end);
        thread.join().expect("the thread beside the load panicked").map(Some)
    }
}

impl<T: Send + 'static> Observer for Beside<T> {
    fn phase_starts(&mut self, phase: Phase) {
        if phase != Phase::Measure {
            return;
        }
        *self = match std::mem::replace(self, Beside::Starting) {
            Beside::Waiting(work) => {
                let (end, ended) = channel();
                Beside::Working { end, thread: std::thread::spawn(move || work(&LoadEnd(ended))) }
            }
            working => working,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_starts_with_the_measured_phase_and_hears_the_end() {
        let mut beside = Beside::new(|end| Ok(end.within(Duration::MAX)));
        beside.phase_starts(Phase::Preload);
        assert!(matches!(beside, Beside::Waiting(_)));
        beside.phase_starts(Phase::Measure);
        assert_eq!(beside.finish().expect("no error"), Some(true));
    }

    #[test]
    fn work_that_never_started_has_no_result() {
        assert_eq!(Beside::new(|_| Ok(())).finish().expect("no error"), None);
    }
}
