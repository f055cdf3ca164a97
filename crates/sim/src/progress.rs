//! How far a campaign is: a line now and then beside its results, and an early end that still tells them.
//!
//! Must not know: what runs.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Between two lines where somebody looks on, and elsewhere.
const SAY_TO_PEOPLE: Duration = Duration::from_secs(5);
const SAY_TO_FILES: Duration = Duration::from_secs(60);

/// When something was said the last time.
#[derive(Debug)]
pub struct Progress {
    said: Instant,
    pause: Duration,
}

impl Progress {
    pub fn begin() -> Self {
        let pause = if std::io::stderr().is_terminal() { SAY_TO_PEOPLE } else { SAY_TO_FILES };
        Progress { said: Instant::now(), pause }
    }

    /// Says it, if it is time to.
    pub fn tell(&mut self, how_far: impl FnOnce() -> String) {
        if self.said.elapsed() >= self.pause {
            eprintln!("{}", how_far());
            self.said = Instant::now();
        }
    }
}

/// Is set by the first SIGINT or SIGTERM; the second ends the process.
pub fn ends_on_signal() -> anyhow::Result<Arc<AtomicBool>> {
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag unset.
        flag::register_conditional_default(signal, is_over.clone()).context("cannot listen to signals")?;
        flag::register(signal, is_over.clone()).context("cannot listen to signals")?;
    }
    Ok(is_over)
}
