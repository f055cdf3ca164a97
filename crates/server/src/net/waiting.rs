//! How the loops wait for events.

use std::io;
use std::time::Duration;

use mio::{Events, Poll};

/// A signal ends a wait like an event does.
///
/// # Errors
/// When the system's polling fails.
pub fn poll(poll: &mut Poll, events: &mut Events, wait: Option<Duration>) -> io::Result<()> {
    match poll.poll(events, wait) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            events.clear();
            Ok(())
        }
        result => result,
    }
}

/// The time until something is due; at least a millisecond, the granularity of epoll: waiting a little too long is
/// harmless, spinning is not.
pub fn until(due_us: u64, now_us: u64) -> Duration {
    Duration::from_micros(due_us.saturating_sub(now_us).max(1000))
}
