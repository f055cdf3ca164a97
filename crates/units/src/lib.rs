//! The vocabulary every other crate shares: identifiers, epochs, versions, times, sizes and
//! shapes of codes.
//!
//! Must not know: anything else of ShortTail. It has no dependencies and no logic beyond the
//! legal range of each value, its packing into an integer, and sums.

mod code_shape;
mod identity;
mod slot;
mod sum;
mod time;
mod version;

pub use code_shape::{CodeShape, CodeShapeError, DATA_COUNT_MAX, LOCAL_COUNT_MAX, PARITY_COUNT_MAX};
pub use identity::{ClusterId, Configuration, Incarnation, NodeId, PartitionId, StripeId};
pub use slot::{SLOT_COUNT, Slot};
pub use time::{Now, UnixMs};
pub use version::{Epoch, OpNumber, Version};

/// 1 KiB in bytes.
pub const KIB: usize = 1024;
/// 1 MiB in bytes.
pub const MIB: usize = 1024 * KIB;
/// 1 GiB in bytes.
pub const GIB: usize = 1024 * MIB;
