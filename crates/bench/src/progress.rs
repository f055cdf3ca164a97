//! A line that says how far a run has come: redrawn on a terminal, one every few seconds elsewhere, and in the
//! background, where somebody else types on the terminal.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use crate::driver::Progress;
use crate::engine::Phase;

/// How often the line changes on a terminal, and how often one is printed elsewhere.
const REDRAW: Duration = Duration::from_millis(200);
const PRINT: Duration = Duration::from_secs(5);

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Preload => "preload",
            Phase::WarmUp => "warm-up",
            Phase::Measure => "measure",
            Phase::Verify => "verify",
        }
    }
}

/// Shows progress until every sender of `done` is gone. `total`: how many operations it will be, if that is known.
pub fn watch(phase: Phase, total: Option<u64>, progress: &Progress, done: &Receiver<()>, quiet: bool) {
    let bar = (!quiet && is_watched(std::io::stderr())).then(ProgressBar::new_spinner);
    let started = Instant::now();
    let (mut printed, mut operations_then) = (started, 0);
    let pause = if bar.is_some() { REDRAW } else { PRINT };
    while done.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        if quiet {
            continue;
        }
        let since = printed.elapsed();
        let operations = progress.operations.load(Ordering::Relaxed);
        let errors = progress.errors.load(Ordering::Relaxed);
        let line = format!(
            "{:>8} {:>6.1} s  {:>12}{} operations  {:>9.0} /s  {} errors",
            phase.name(),
            started.elapsed().as_secs_f64(),
            operations,
            total.map_or(String::new(), |total| format!(" of {total}")),
            (operations - operations_then) as f64 / since.as_secs_f64(),
            errors
        );
        match &bar {
            Some(bar) => bar.set_message(line),
            None => eprintln!("{line}"),
        }
        if let Some(bar) = &bar {
            bar.tick();
        }
        (printed, operations_then) = (Instant::now(), operations);
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

/// Is it the terminal of this process, which runs in the foreground? Nothing else has a foreground.
fn is_watched(to: impl AsFd) -> bool {
    tcgetpgrp(to).is_ok_and(|foreground| foreground == getpgrp())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    #[test]
    fn a_terminal_on_which_this_process_is_not_in_the_foreground_is_not_drawn_on() {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&ours).expect("ours");
        unlockpt(&ours).expect("unlocked");
        let name = ptsname(&ours, Vec::new()).expect("its name");
        let theirs = open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("it is there");
        assert!(rustix::termios::isatty(&theirs) && !is_watched(&theirs));
    }
}
