//! The gateway protocol: how a gateway has requests done that belong to another one.
//!
//! Each core of a gateway holds one connection to each other gateway, which it opens. Every message is a frame, a
//! 20-byte header (checksum last, unlike the node protocol's) and a postcard body; an answer repeats the tag of what
//! was asked. Answers come in any order.
//!
//! ```text
//! asker                             owner
//!   |-- Hello (version, cluster) ----->|
//!   |<-- Welcome ----------------------|   or Refused, and the connection ends
//!   |-- Ask (partition, request) ----->|   many, without waiting
//!   |<-- Answer (reply) ---------------|
//!   |<-- NotOwner ---------------------|   nothing was done: look again whose it is
//! ```
//!
//! One hop and no more: an owner never passes on what it was asked. The bodies of `Ask` and `Answer` are the gateway's
//! own (`forward` in that crate).
//!
//! Must not know: sockets, or what a request means.

mod frame;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use frame::{
    Body, Frame, FrameError, HEADER_BYTES, Kind, begin_frame, body_bytes_of, next_frame, next_header, put_frame,
};

/// Version of this protocol. Gateways that differ refuse each other.
pub const GATEWAY_PROTOCOL_VERSION: u16 = 8;

/// Largest body of a frame: the largest value that a gateway may be told to allow, and a key with much room to spare.
pub const BODY_BYTES_MAX: usize = (1 << 30) + (64 << 20);

/// Largest body of a greeting.
pub const HELLO_BYTES_MAX: usize = 4 << 10;

/// What an asker says first. Its version stays the first field, and `ProtocolVersion` the first refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    pub version: u16,
    pub cluster_id: u64,
    /// Number of the asking gateway.
    pub gateway: u16,
}

/// The answer to a greeting that is accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// Number of the gateway that answers.
    pub gateway: u16,
}

/// Why a greeting is not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    #[error(
        "the other gateway speaks version {0} of the gateway protocol, and this one version {own}",
        own = GATEWAY_PROTOCOL_VERSION
    )]
    ProtocolVersion(u16),
    #[error("the other gateway is of cluster {0:016x}, another one")]
    OtherCluster(u64),
}

impl Hello {
    /// Reads a greeting: of one of another version nothing but that.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn parse(body: &[u8]) -> Result<Self, FrameError> {
        match postcard::take_from_bytes(body) {
            Ok((GATEWAY_PROTOCOL_VERSION, _)) => Self::from_body(body),
            Ok((version, _)) => Ok(Hello { version, cluster_id: 0, gateway: 0 }),
            Err(_) => Err(FrameError::Body),
        }
    }

    /// # Errors
    /// Why a gateway of this cluster does not let the asker in.
    pub fn check(&self, cluster_id: u64) -> Result<(), Refusal> {
        if self.version != GATEWAY_PROTOCOL_VERSION {
            return Err(Refusal::ProtocolVersion(GATEWAY_PROTOCOL_VERSION));
        }
        if self.cluster_id != cluster_id {
            return Err(Refusal::OtherCluster(cluster_id));
        }
        Ok(())
    }
}
