//! Ctrl-C ends a run early, and what was measured until then is told.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

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
