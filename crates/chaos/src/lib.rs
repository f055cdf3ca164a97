//! Faults on purpose: what an operator may order of a node, and what becomes of each reply under them.
//!
//! ```text
//! order (apply, clear, flip bits, kill) --> FaultModel <-- each reply: when, what kind, how many bytes
//!                                               '--------> leave at a time (perhaps with a bit flipped), vanish, reset
//! ```
//!
//! The server asks the model in nodes that were started for it, the simulator in virtual time.
//!
//! Must not know: sockets, clocks, randomness beyond its seed, what a reply says.

mod cycle;
mod fault;
pub mod limits;
mod model;
mod order;
mod rng;
mod text;

pub use cycle::Cycle;
pub use fault::{Class, Corrupt, Fault, FaultError, FaultKind, Loss, Ramp, Slow, Stall, Tail};
pub use model::{Fate, FaultModel, Traffic};
pub use order::{ChaosOrder, FlipBits};
pub use rng::Rng;
