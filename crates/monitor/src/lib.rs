//! Request monitor: which node answers abnormally slowly, seen from a gateway.
//!
//! ```text
//!   engine                               monitor
//!     |-- sent(node, class, bytes) ------> slice in which it starts ----+
//!     |<------------------- ticket -------                              |
//!     |-- answered(ticket) --------------> latency, in that slice       | slices that are over
//!     |-- cancelled(ticket) -------------> age, in that slice           v
//!     |-- tick -------------------------------------------------> detector -> verdicts
//!     |<- is_fail_slow, avoided, wants_class_probe, hedge_delay_us ---------'
//! ```
//!
//! Reads and writes of a node are judged apart. Nothing is allocated for a request; each has a ticket of 24 bytes.
//!
//! Must not know: sockets, clocks, stripes, what a request is for.
//! Source: ShortTail, section 3.1. Why the default detector is another one: decision 0008.

mod adaptive;
mod class;
mod clock;
mod config;
mod fixed;
mod histogram;
mod judge;
mod lane;
pub mod limits;
mod monitor;
mod opinions;
mod peers;
mod size;
mod slice;
mod standing;
mod ticket;
mod track;
mod verdict;

pub use class::Class;
pub use config::{AdaptiveConfig, Detector, MonitorConfig};
pub use histogram::Histogram;
pub use monitor::Monitor;
pub use opinions::{Opinion, Opinions, merge};
pub use ticket::Ticket;
pub use verdict::{Reason, Verdict};
