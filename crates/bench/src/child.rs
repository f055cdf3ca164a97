//! A server process that a measurement starts: its output is watched, and it is stopped by its id whatever happens.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, set_parent_process_death_signal};

use crate::limits::{SERVER_START_SECONDS, SERVER_STOP_SECONDS};
use crate::undo::Undo;

/// Lines of output kept for an error message.
const KEPT_LINES: usize = 20;

/// How often a server is asked whether it serves, or whether it has ended.
const POLL: Duration = Duration::from_millis(10);

pub struct Child {
    name: String,
    process: std::process::Child,
    /// Taken to stop it.
    stop: Option<Undo>,
    lines: Receiver<String>,
    last_lines: Arc<Mutex<VecDeque<String>>>,
}

impl Child {
    /// Starts a program. It gets SIGTERM if the calling thread dies first.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn spawn(name: &str, mut command: Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // SAFETY: between fork and exec only prctl is called, which is async-signal-safe and touches no memory.
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
        }
        let (mut process, stop) = Undo::making(|| {
            let mut process = command.spawn().with_context(|| format!("cannot start {name}"))?;
            let Ok(handle) = pidfd_open(Pid::from_child(&process), PidfdFlags::empty()) else {
                let _ = process.kill();
                let _ = process.wait();
                bail!("{name} cannot be watched (that takes Linux 5.3)");
            };
            Ok((process, move || stop(&handle)))
        })?;
        let (sender, lines) = channel();
        let last_lines = Arc::new(Mutex::new(VecDeque::new()));
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            process.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
            process.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>),
        ];
        for output in outputs.into_iter().flatten() {
            let (sender, last_lines) = (sender.clone(), last_lines.clone());
            // Ends when the process and its children have closed the pipe.
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let mut kept = last_lines.lock().expect("no holder panics");
                    if kept.len() == KEPT_LINES {
                        kept.pop_front();
                    }
                    kept.push_back(line.clone());
                    drop(kept);
                    // Nobody listens any more once the server is ready.
                    let _ = sender.send(line);
                }
            });
        }
        Ok(Child { name: name.to_owned(), process, stop: Some(stop), lines, last_lines })
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits for a line that begins with `start`.
    ///
    /// # Errors
    /// The process ends, or says nothing of the kind in time; its last lines are in the error.
    pub fn wait_for_line(&mut self, start: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(SERVER_START_SECONDS);
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with(start) => break,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => bail!("{} is not ready in time{}", self.name, self.said()),
                Err(RecvTimeoutError::Disconnected) => bail!("{} ended{}", self.name, self.said()),
            }
        }
        // The threads only keep the last lines from here on.
        self.lines = channel().1;
        Ok(())
    }

    /// Waits until `serves` says so.
    ///
    /// # Errors
    /// The process ends, or does not serve in time.
    pub fn wait_until(&mut self, mut serves: impl FnMut() -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(SERVER_START_SECONDS);
        while !serves() {
            if let Some(status) = self.process.try_wait()? {
                bail!("{} ended ({status}){}", self.name, self.said());
            }
            if Instant::now() > deadline {
                bail!("{} does not serve in time{}", self.name, self.said());
            }
            std::thread::sleep(POLL);
        }
        self.lines = channel().1;
        Ok(())
    }

    /// What it says from the beginning on, line by line; to be called before it is waited for.
    pub fn take_lines(&mut self) -> Receiver<String> {
        std::mem::replace(&mut self.lines, channel().1)
    }

    /// Kills it at once; it is gone a moment later.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill().with_context(|| format!("cannot kill {}", self.name))
    }

    fn said(&self) -> String {
        let kept = self.last_lines.lock().expect("no holder panics");
        if kept.is_empty() { String::new() } else { format!("; it said:\n{}", Vec::from(kept.clone()).join("\n")) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.process.wait();
    }
}

/// Has a process end, by force if it does not in time. Others than its parent may do that, and it may have ended.
fn stop(process: &OwnedFd) {
    let _ = pidfd_send_signal(process, Signal::TERM);
    let patience = Timespec { tv_sec: SERVER_STOP_SECONDS as i64, tv_nsec: 0 };
    let mut ended = [PollFd::new(process, PollFlags::IN)];
    if poll(&mut ended, Some(&patience)) != Ok(1) {
        let _ = pidfd_send_signal(process, Signal::KILL);
        let _ = poll(&mut ended, Some(&patience));
    }
}

/// Finds a program on PATH.
///
/// # Errors
/// It is not there; the error says how Debian calls its package.
pub fn find_program(name: &str, package: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
        .with_context(|| format!("{name} is not on PATH: install it (Debian: apt-get install {package})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Child::spawn("the script", command).expect("a shell")
    }

    #[test]
    fn the_ready_line_is_found_among_others() {
        let mut child = shell("echo starting; echo ready on port 1; exec sleep 1000");
        child.wait_for_line("ready").expect("it says so");
        let pid = child.pid();
        drop(child);
        assert!(crate::process::cpu(pid).is_err(), "stopped and reaped");
    }

    #[test]
    fn a_server_that_ends_is_quoted() {
        let error = shell("echo port 1 is taken >&2; exit 3").wait_for_line("ready").expect_err("it ended");
        assert!(error.to_string().contains("port 1 is taken"), "{error}");
        let error = shell("exit 3").wait_until(|| false).expect_err("it ended");
        assert!(error.to_string().contains("exit status: 3"), "{error}");
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let error = find_program("no-such-server", "some-package").expect_err("absent").to_string();
        assert!(error.contains("no-such-server") && error.contains("some-package"));
    }
}
