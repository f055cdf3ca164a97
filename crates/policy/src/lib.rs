//! Policies: which techniques against slow nodes are in use for a partition, and how its objects are stored.
//!
//! ```text
//! name (ecwide .. adaptive) --of--> Policy --Change--> Policy
//!                                            at the start by flags, later by `shorttail policy set`
//! ```
//!
//! The named ones stand for the systems that ShortTail is compared with (decision 0009); each technique can be switched
//! alone.
//!
//! Must not know: nodes, requests, time, what a technique does.

mod change;
mod hedge;
mod names;
mod policy;
mod storage;

pub use change::Change;
pub use hedge::{Hedge, LATE_BINDING_MAX, LateBinding};
pub use policy::{Policy, PolicyName};
pub use storage::{SmallWrite, Update};
