//! The coordinator role as a synchronous state machine: who is a member, who is alive, who should
//! own what; and of several coordinators over one metadata store, which one leads.
//!
//! The machine is told of messages, closed connections and the time, and says what to persist and to send. Guarantees:
//!
//! - an epoch is handed out once, greater than every earlier one, and only after it was persisted;
//! - a partition is in one tenure, and a tenure that follows another knows whose promises must have ended first;
//! - a node number names one node, or whoever listens where it did, for ever;
//! - an incarnation that was given up is never let in again;
//! - nothing here is on the data path: members keep serving while the coordinator is away.
//!
//! Must not know: sockets, files, clocks, randomness (the cluster's identity comes as an argument), or what is stored.

pub mod candidate;
pub mod claim;
mod coordinator;
mod dealing;
mod durable;
mod feasible;
mod gone;
mod handover;
mod leaving;
mod lifecycle;
pub mod limits;
mod looks;
mod losses;
mod members;
mod numbers;
mod orders;
mod problems;
mod reach;
mod recent;
mod register;
mod restored;
mod retiring;
mod seat;
mod status;
mod stored;
mod tenures;
#[cfg(test)]
mod tests;
mod told;

pub use coordinator::{ConnectionId, Coordinator, Input, Output, Settings};
pub use durable::{Durable, DurableChoice, DurableNode, DurableTenure, DurableVoter};
pub use numbers::Numbers;
pub use orders::Wanted;
pub use problems::Problem;
pub use seat::Seat;
