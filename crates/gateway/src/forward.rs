//! A request on its way to the gateway that owns its partition, and the reply on its way back: the bodies of
//! the gateway protocol.
//!
//! The protocol's verbs travel as they are, and the owner writes the reply that the client gets, byte for byte. What
//! comes from another gateway is checked before the engine sees it: bytes from outside never panic.
//!
//! Must not know: sockets, which gateway owns what.

mod fuzz;
#[cfg(test)]
mod tests;
mod values;

use serde::{Deserialize, Serialize};
use shorttail_units::SLOT_COUNT;
use shorttail_wire::gateway::{Body, FrameError, Kind, body_bytes_of, put_frame};

use crate::any::AnyCommand;
use crate::command::{Access, Command, StoreError};
use crate::request::{KeyspaceReply, KeyspaceRequest, Reply, Request};
pub use fuzz::fuzz_frames;
pub(crate) use values::{bytes, maybe_unix_ms};

/// Bytes of a key beyond which nothing is asked: what a gateway may be told to allow.
pub const KEY_BYTES_MAX: usize = 64 << 10;

/// What is asked of the owner of a partition.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ask {
    pub partition: u16,
    /// Only as of this epoch: what is asked of all keys of a tenure. 0: of whoever owns the partition.
    pub epoch: u32,
    pub request: Request<AnyCommand>,
}

impl Ask {
    /// Appends a frame.
    pub fn put(&self, out: &mut Vec<u8>, tag: u64) {
        put_frame(out, Kind::Ask, tag, self);
    }

    /// Bytes that it takes while it waits.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + body_bytes_of(self)
    }

    /// # Errors
    /// When the body is not what a gateway asks.
    pub fn parse(body: &[u8]) -> Result<Self, FrameError> {
        let ask = Ask::from_body(body)?;
        if ask.is_well_formed() { Ok(ask) } else { Err(FrameError::Body) }
    }

    fn is_well_formed(&self) -> bool {
        let is_key = |key: &[u8]| key.len() <= KEY_BYTES_MAX;
        match &self.request {
            Request::Key(command) => is_key(command.key()) && command.is_well_formed(),
            Request::Group(group) => !group.pairs.is_empty() && group.pairs.iter().all(|(key, _)| is_key(key)),
            Request::Keyspace(KeyspaceRequest::Flush { of, .. }) => (1..=SLOT_COUNT).contains(&of.len()),
            Request::Keyspace(keyspace) => !matches!(keyspace, KeyspaceRequest::Own(_)),
        }
    }

    /// May asking twice do what asking once would not?
    pub fn is_write(&self) -> bool {
        match &self.request {
            Request::Key(command) => command.access() == Access::Write,
            Request::Group(_) => true,
            Request::Keyspace(keyspace) => matches!(keyspace, KeyspaceRequest::Flush { .. }),
        }
    }

    /// Is it a read that is answered with a value of any length?
    pub fn reads_any_length(&self) -> bool {
        matches!(&self.request, Request::Key(command) if command.reads_any_length())
    }

    /// Could an owner have answered this? A client's session relies on it.
    pub fn is_answered_by(&self, reply: &Reply) -> bool {
        match (&self.request, reply) {
            (Request::Key(command), Reply::Bytes(bytes)) => command.is_answered_by(bytes),
            (Request::Key(asked), Reply::Large { command, .. }) => asked.deferred().as_ref() == Some(command),
            (Request::Group(_), Reply::Group(_)) | (Request::Keyspace(_), Reply::Keyspace(Err(_))) => true,
            (Request::Keyspace(keyspace), Reply::Keyspace(Ok(reply))) => matches!(
                (keyspace, reply),
                (KeyspaceRequest::Count | KeyspaceRequest::CountSlot { .. }, KeyspaceReply::Count(_))
                    | (KeyspaceRequest::Flush { .. }, KeyspaceReply::Flushed)
                    | (KeyspaceRequest::Scan { .. } | KeyspaceRequest::ListSlot { .. }, KeyspaceReply::Scanned { .. })
                    | (KeyspaceRequest::RandomKey, KeyspaceReply::RandomKey(_))
                    | (KeyspaceRequest::Stats, KeyspaceReply::Stats(_))
            ),
            _ => false,
        }
    }

    /// The reply when it cannot be done.
    pub fn refusal(&self, error: StoreError) -> Reply {
        match &self.request {
            Request::Key(command) => {
                let mut reply = Vec::new();
                command.refuse(error, &mut reply);
                Reply::Bytes(reply)
            }
            Request::Group(_) => Reply::Group(Err(error)),
            Request::Keyspace(_) => Reply::Keyspace(Err(error)),
        }
    }
}

/// Appends the frame of a reply.
pub fn put_reply(out: &mut Vec<u8>, tag: u64, reply: &Reply) {
    put_frame(out, Kind::Answer, tag, reply);
}

/// # Errors
/// When the body is not a reply.
pub fn parse_reply(body: &[u8]) -> Result<Reply, FrameError> {
    Reply::from_body(body)
}
