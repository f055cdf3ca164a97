//! A timer of a core's loop, exact to microseconds where the loop's own waiting counts in milliseconds.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

#[derive(Debug)]
pub struct Timer {
    descriptor: OwnedFd,
    /// What it is set to, so that it is not set to the same again.
    due_us: Option<u64>,
}

impl Timer {
    /// A timer that wakes the loop with this token.
    ///
    /// # Errors
    /// When the system gives no descriptor.
    pub fn new(poll: &Poll, token: Token) -> io::Result<Self> {
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        poll.registry().register(&mut SourceFd(&descriptor.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Timer { descriptor, due_us: None })
    }

    /// Wakes the loop at `due_us`, where it is `now_us` at present; never, if there is no such time. Must be called
    /// again after it went off.
    pub fn set(&mut self, now_us: u64, due_us: Option<u64>) {
        if self.due_us == due_us && due_us.is_none_or(|due_us| due_us > now_us) {
            return;
        }
        self.due_us = due_us;
        // All zeros would disarm it: what is due already is due in a microsecond.
        let after_us = due_us.map_or(0, |due_us| due_us.saturating_sub(now_us).max(1));
        let it_value = Timespec {
            tv_sec: i64::try_from(after_us / 1_000_000).unwrap_or(i64::MAX),
            tv_nsec: (after_us % 1_000_000 * 1_000) as _,
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let set = timerfd_settime(&self.descriptor, TimerfdTimerFlags::empty(), &Itimerspec { it_interval, it_value });
        // The values are in range and the descriptor is a timer's, which leaves nothing to fail.
        debug_assert!(set.is_ok(), "a timer is not set: {set:?}");
    }
}
