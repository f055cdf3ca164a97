//! Ends the coordinator's loop, on SIGINT and SIGTERM or when another thread says so.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::Waker;
use signal_hook::consts::{SIGINT, SIGTERM};

/// By which a coordinator is told to end.
pub(super) const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// Stops one running coordinator.
#[derive(Clone)]
pub struct Stopper {
    stopping: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Stopper {
    pub(super) fn new(waker: Arc<Waker>) -> Self {
        Stopper { stopping: Arc::new(AtomicBool::new(false)), waker }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // If the loop cannot be woken it ends at its next deadline.
        let _ = self.waker.wake();
    }

    /// Watches for the signals on a thread of its own.
    pub(super) fn stop_at_signals(self) -> io::Result<()> {
        let mut signals = signal_hook::iterator::Signals::new(SIGNALS)?;
        let watch = move || signals.forever().for_each(|_| self.stop());
        std::thread::Builder::new().name("signals".into()).stack_size(64 << 10).spawn(watch)?;
        Ok(())
    }
}
