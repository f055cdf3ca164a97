//! What fills the nodes beside the keys of the load: stored as fast as it goes before, read back after.
//!
//! ```text
//! store: every value is set | one is read | (waits) | finish: every value is read back
//! ```
//! It is a load run of its own, which is held before its last phase.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use anyhow::bail;

use crate::engine::Phase;
use crate::load::{self, LoadOptions, Observer};
use crate::report::LoadReport;

pub struct Filler {
    /// Dropped to let it go on.
    hold: Sender<()>,
    thread: JoinHandle<anyhow::Result<LoadReport>>,
}

struct Held {
    stored: Sender<()>,
    hold: Receiver<()>,
}

impl Observer for Held {
    fn phase_starts(&mut self, phase: Phase) {
        match phase {
            // Whoever filled has given up if nobody listens.
            Phase::Measure => _ = self.stored.send(()),
            // Nothing is ever sent: it goes on when the other end is gone.
            Phase::Verify => _ = self.hold.recv(),
            Phase::Preload | Phase::WarmUp => {}
        }
    }
}

impl Filler {
    /// Stores the load's keys; all are there when this returns.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn store(mut load: LoadOptions) -> anyhow::Result<Self> {
        (load.preload, load.verify_all, load.expect_all, load.operations) = (true, true, true, Some(1));
        let ((stored, is_stored), (hold, held)) = (channel(), channel());
        let thread = std::thread::spawn(move || load::execute(&load, &mut Held { stored, hold: held }));
        if is_stored.recv().is_err() {
            thread.join().expect("the filler panicked")?;
            bail!("the filler ended before it stored anything");
        }
        Ok(Filler { hold, thread })
    }

    /// Reads every value back.
    ///
    /// # Errors
    /// One is lost, stale or wrong, or the server cannot be reached.
    pub fn finish(self) -> anyhow::Result<LoadReport> {
        drop(self.hold);
        let report = self.thread.join().expect("the filler panicked")?;
        load::check(&report)?;
        Ok(report)
    }
}
