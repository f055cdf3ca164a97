//! The node role as a synchronous state machine: one [`Node`] per core of a process that lends memory.
//!
//! Must not know: sockets, threads, clocks; owners beyond what their sessions say; other
//! nodes beyond what is fetched from them.

mod background;
mod config;
mod fences;
pub mod fuzz;
mod giver;
pub mod limits;
mod node;
mod rebuild;
mod rebuilding;
mod requests;
mod rings;
mod scrub;
mod session;
mod stats;
mod taken;
mod wanted;

pub use background::{Background, FromBackground, ToBackground};
pub use config::{NodeConfig, NodeError, Pace};
pub use giver::{Found, Giver, Wanted};
pub use node::Node;
pub use rebuild::{PeerId, Rebuilds, Rebuilt};
pub use rings::MakeRing;
pub use session::SessionError;
pub use stats::NodeStats;
