//! Sockets of the data path: TCP or Unix, non-blocking, edge-triggered.
//!
//! Writing interest is taken only while a socket is full: on Unix sockets it would otherwise wake the sender each time
//! the receiver reads.

mod accepting;
mod feed;
mod inbox;
mod link;
mod patience;
mod saying;
mod shortage;
mod silence;
mod socket;
mod timer;
mod waiting;

pub use accepting::Accepting;
pub use feed::{Feed, Feeder};
pub use inbox::{Inbox, Outlet, inboxes};
pub use link::{Intake, Link, ReadEnd, drop_sent, read_once, send};
pub use patience::{ASK_US_MAX, Patience};
pub use saying::Saying;
pub use shortage::Shortage;
pub use silence::OtherEnd;
pub use socket::{Listener, Stream};
pub use timer::Timer;
pub use waiting::{poll, until};
