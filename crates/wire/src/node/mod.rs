//! The node protocol: what an owner and a node say to each other, as bytes.
//!
//! Every message is a frame: a 20-byte header and a body. Requests carry a tag that their reply repeats; appends are
//! acknowledged cumulatively instead, one [`NodeReply::Acked`] per stripe and turn. The byte tables are in
//! `docs/formats/node-protocol.md`. Integers are little-endian.
//!
//! Must not know: sockets, or what a node does with a message.

mod bytes;
mod frame;
mod reply;
mod request;

pub use frame::{FRAME_HEADER_BYTES, Frame, FrameError, next_frame, seal_frame};
pub use reply::{ChunkReport, HelloReply, InspectReport, NearMemory, NodeReply, RawOp, Refusal, Scanned};
pub use request::{ChunkDescription, ChunkKind, Hello, MEMBERS_MAX, Members, NodeRequest, Source};

/// Version of this protocol. A node and an owner that differ refuse each other.
pub const PROTOCOL_VERSION: u32 = 16;

/// Largest body of a frame: an inspection of a parity chunk with its most raw operations (1 MiB) fits with room to
/// spare, and so do the reports of a whole scan.
pub const BODY_BYTES_MAX: usize = 2 << 20;

#[cfg(test)]
mod tests;
