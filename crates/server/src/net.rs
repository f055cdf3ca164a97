//! Sockets of the data path: TCP or Unix, non-blocking, edge-triggered.
//!
//! Writing interest is taken only while a socket is full: on Unix sockets it would otherwise wake the sender each time
//! the receiver reads.

mod inbox;
mod link;
mod patience;
mod socket;
mod timer;

pub use inbox::{Inbox, Outlet};
pub use link::{Intake, Link, ReadEnd};
pub use patience::{ASK_US_MAX, Patience};
pub use socket::{Listener, Stream};
pub use timer::Timer;
