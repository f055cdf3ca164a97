//! SIGINT, SIGTERM and SIGHUP: the first one asks for an end, a second one ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// A signal soon after the first is the same one: `timeout` sends it to the process and to its group.
const SAME_SIGNAL: Duration = Duration::from_millis(300);

/// Was this process started with this signal ignored, as by nohup (SIGHUP), or in the background of a script (SIGINT)?
/// Is to be asked before somebody listens to it.
pub fn is_ignored(signal: i32) -> bool {
    is_ignored_by(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), signal)
}

/// By what the system tells of a process: signals are bits, the first one lowest.
fn is_ignored_by(status: &str, signal: i32) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    ignored.is_some_and(|bits| bits & 1 << (signal - 1) != 0)
}

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
    let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
    let mut signals = Signals::new(heard).context("cannot listen to signals")?;
    let watch = move || {
        let mut signals = signals.forever();
        let Some(first) = signals.next() else { return };
        let came = Instant::now();
        // On another thread: the next signal does not wait for it.
        std::thread::spawn(move || act(first));
        for signal in signals {
            if came.elapsed() > SAME_SIGNAL {
                // They are signals, and end a process by default.
                let _ = emulate_default_handler(signal);
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch).context("cannot start a thread")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_started_by_nohup_ignores_hang_ups() {
        let status = |bits: &str| format!("Name:\tshorttail\nSigBlk:\t0000000000000001\nSigIgn:\t{bits}\nSigCgt:\t0\n");
        assert!(is_ignored_by(&status("0000000000001001"), SIGHUP));
        assert!(!is_ignored_by(&status("0000000000001000"), SIGHUP));
        assert!(is_ignored_by(&status("0000000000001002"), SIGINT));
        assert!(!is_ignored_by("", SIGHUP));
    }
}
