//! SIGINT and SIGTERM: the first one asks for an end, a second one ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// A signal soon after the first is the same one: `timeout` sends it to the process and to its group.
const SAME_SIGNAL: Duration = Duration::from_millis(300);

/// Ctrl-C ends a run early, and what was measured until then is told. Is set by the first signal.
///
/// # Errors
/// Signals cannot be listened to.
pub fn ends_on_signal() -> anyhow::Result<Arc<AtomicBool>> {
    let is_over = Arc::new(AtomicBool::new(false));
    let told = is_over.clone();
    on_signal(move |_| told.store(true, Ordering::Relaxed))?;
    Ok(is_over)
}

/// The first signal has `act` done, on a thread of its own.
///
/// # Errors
/// Signals cannot be listened to.
pub fn on_signal(act: impl FnOnce(i32) + Send + 'static) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen to signals")?;
    let watch = move || {
        let mut signals = signals.forever();
        let Some(first) = signals.next() else { return };
        let came = Instant::now();
        // On another thread: the next signal does not wait for it.
        std::thread::spawn(move || act(first));
        for signal in signals {
            if came.elapsed() > SAME_SIGNAL {
                // Both are signals, and end a process by default.
                let _ = emulate_default_handler(signal);
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch).context("cannot start a thread")?;
    Ok(())
}
