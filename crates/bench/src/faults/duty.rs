//! A process that stutters: SIGSTOP for a while, SIGCONT for a while, over and over.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

use crate::undo::Undo;

pub struct Duty {
    _end: Undo,
}

impl Duty {
    /// Stops the process at once; it runs again when this is dropped.
    pub fn begin(pid: u32, stopped: Duration, running: Duration) -> anyhow::Result<Self> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("the process id is no id")?;
        let stutter = || {
            kill_process(pid, Signal::STOP).context("cannot stop the process")?;
            let (end, ended) = channel::<()>();
            let thread = std::thread::spawn(move || {
                let mut is_stopped = true;
                loop {
                    let pause = if is_stopped { stopped } else { running };
                    let is_over = ended.recv_timeout(pause) != Err(RecvTimeoutError::Timeout);
                    is_stopped = !is_stopped && !is_over;
                    // The process may have ended: then there is nobody to stop.
                    let _ = kill_process(pid, if is_stopped { Signal::STOP } else { Signal::CONT });
                    if is_over {
                        break;
                    }
                }
            });
            let go_on = move || {
                drop(end);
                // A panic of it has been printed already.
                let _ = thread.join();
            };
            Ok(((), go_on))
        };
        Ok(Duty { _end: Undo::making(stutter)?.1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The letter of proc(5): T is stopped.
    fn state(pid: u32) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        stat[stat.rfind(')').expect("a name") + 1..].trim_start().chars().next().expect("a state")
    }

    /// A signal takes effect when the process is next scheduled.
    fn wait_until(condition: impl Fn() -> bool) {
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while !condition() {
            assert!(std::time::Instant::now() < end, "not within a minute");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_process_is_stopped_and_runs_again_afterwards() {
        let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let duty = Duty::begin(sleeper.id(), Duration::from_secs(1000), Duration::from_secs(1)).expect("ours");
        wait_until(|| state(sleeper.id()) == 'T');
        drop(duty);
        wait_until(|| state(sleeper.id()) != 'T');
        sleeper.kill().expect("ours");
        sleeper.wait().expect("ours");
        assert!(Duty::begin(u32::MAX, Duration::ZERO, Duration::ZERO).is_err());
    }
}
