//! One child process, tied to the life of this one.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use nix::sys::prctl;
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::{Pid, getpid, getppid};

use crate::lifeline;

/// A running child; its standard input is the lifeline.
pub struct RunningChild {
    child: Child,
    _lifeline: Option<ChildStdin>,
}

impl RunningChild {
    /// Starts a child in a process group of its own, so that Ctrl-C reaches this process only.
    ///
    /// Must be called on the main thread: the parent-death signal is sent when the thread that forked ends.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let parent = getpid();
        command.stdin(Stdio::piped()).stdout(Stdio::null()).env(lifeline::VARIABLE, lifeline::STDIN).process_group(0);
        let die_with_parent = move || {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            // Until the child listens for it, being asked to read its file again must not end it.
            // SAFETY: ignoring a signal runs no code of ours when it arrives.
            unsafe { signal(Signal::SIGHUP, SigHandler::SigIgn) }?;
            // The parent may have died before the signal was asked for.
            if getppid() == parent { Ok(()) } else { Err(io::Error::other("the parent is gone")) }
        };
        // SAFETY: between fork and exec only async-signal-safe calls are made: the closure makes three system
        // calls (prctl, sigaction, getppid) and allocates nothing unless the parent is dead already, when the
        // child only exits.
        unsafe { command.pre_exec(die_with_parent) };
        let mut child = command.spawn()?;
        let lifeline = child.stdin.take();
        Ok(RunningChild { child, _lifeline: lifeline })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Asks it to end at once: all end together, and at SIGTERM a gateway would look for another one.
    pub fn interrupt(&self) {
        self.send(Signal::SIGINT);
    }

    /// Asks it to read its file again.
    pub fn reload(&self) {
        self.send(Signal::SIGHUP);
    }

    fn send(&self, signal: Signal) {
        // It may have ended already; it is not reaped, so the number is still its own.
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), signal);
    }
}

impl Drop for RunningChild {
    fn drop(&mut self) {
        // An error means that it has ended and was reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a process ended, for people.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal().and_then(|number| Signal::try_from(number).ok())) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by {signal}"),
        (None, None) => status.to_string(),
    }
}
