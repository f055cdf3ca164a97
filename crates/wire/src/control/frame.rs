//! Frames of the control protocol: `body_bytes u32 | length_check u16 | CRC32C of the body u32 | postcard body`.
//!
//! Of a length that was hurt on its way its own check tells at once: without it a member would wait for megabytes that
//! nobody sends, and hear nothing of what it is to own.
//!
//! Whatever a later version changes, this header stays, and so do the first bytes of a registration and the refusal of
//! a version (`docs/formats/control-protocol.md`): versions that differ can say so to each other.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CONTROL_PROTOCOL_VERSION, ToCoordinator};
use crate::crc32c;
use crate::length_check::length_check;

/// Length of the header in bytes.
pub const CONTROL_HEADER_BYTES: usize = 10;

/// Largest body: a gateway's report on 4096 nodes with two histograms each, which is a little less than a KiB a node.
pub const CONTROL_BODY_BYTES_MAX: usize = 4 << 20;

/// What the answer of an HTTP server begins with; as a length it is beyond [`CONTROL_BODY_BYTES_MAX`].
const HTTP: &[u8] = b"HTTP";

/// The first byte of a registration of a node, and of a gateway: their variants of [`ToCoordinator`].
const REGISTRATIONS: [u8; 2] = [0, 1];

/// Why bytes are not a control message, or a message cannot be sent. Its connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlFrameError {
    #[error("an HTTP server answers there, and no coordinator: give the address of the coordinator's --listen")]
    Http,
    #[error("a control message of {0} bytes is longer than any: at most {CONTROL_BODY_BYTES_MAX} are sent and taken")]
    TooLong(u32),
    #[error("a control message was hurt on its way: a checksum does not hold")]
    Checksum,
    #[error("a control message does not parse")]
    Malformed,
    #[error("a member of version {0} of the control protocol registers")]
    Version(u16),
}

/// The first message of `input` and the bytes it took; `None` when it has not arrived completely.
///
/// # Errors
/// When the bytes are HTTP, when the declared length is beyond [`CONTROL_BODY_BYTES_MAX`] or was hurt on its way,
/// before anything is buffered for it, and when the body was hurt or is not exactly one message.
pub fn next_message<M: DeserializeOwned>(input: &[u8]) -> Result<Option<(M, usize)>, ControlFrameError> {
    let Some(body) = next_body(input)? else { return Ok(None) };
    parse(body).map(|message| Some((message, CONTROL_HEADER_BYTES + body.len())))
}

/// As [`next_message`], of what members send: nothing is read of the registration of another version but the version.
///
/// # Errors
/// As [`next_message`], and that version.
pub fn next_request(input: &[u8]) -> Result<Option<(ToCoordinator, usize)>, ControlFrameError> {
    let Some(body) = next_body(input)? else { return Ok(None) };
    match registered_version(body) {
        Some(version) if version != CONTROL_PROTOCOL_VERSION => Err(ControlFrameError::Version(version)),
        _ => parse(body).map(|message| Some((message, CONTROL_HEADER_BYTES + body.len()))),
    }
}

/// The version that a registration begins with; `None`: the body is none.
fn registered_version(body: &[u8]) -> Option<u16> {
    let (first, rest) = body.split_first()?;
    let (version, _) = postcard::take_from_bytes(rest).ok().filter(|_| REGISTRATIONS.contains(first))?;
    Some(version)
}

fn parse<M: DeserializeOwned>(body: &[u8]) -> Result<M, ControlFrameError> {
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        Ok(_) | Err(_) => Err(ControlFrameError::Malformed),
    }
}

/// The body of the first frame, once it has arrived.
fn next_body(input: &[u8]) -> Result<Option<&[u8]>, ControlFrameError> {
    let Some((header, rest)) = input.split_first_chunk::<CONTROL_HEADER_BYTES>() else { return Ok(None) };
    if header.starts_with(HTTP) {
        return Err(ControlFrameError::Http);
    }
    let [l0, l1, l2, l3, k0, k1, c0, c1, c2, c3] = *header;
    let declared = u32::from_le_bytes([l0, l1, l2, l3]);
    let body_bytes = usize::try_from(declared).unwrap_or(usize::MAX);
    if body_bytes > CONTROL_BODY_BYTES_MAX {
        return Err(ControlFrameError::TooLong(declared));
    }
    if u16::from_le_bytes([k0, k1]) != length_check(declared) {
        return Err(ControlFrameError::Checksum);
    }
    let Some(body) = rest.get(..body_bytes) else { return Ok(None) };
    if crc32c(body) != u32::from_le_bytes([c0, c1, c2, c3]) {
        return Err(ControlFrameError::Checksum);
    }
    Ok(Some(body))
}

/// Appends a message as a frame.
///
/// # Errors
/// [`ControlFrameError::TooLong`] if it is beyond [`CONTROL_BODY_BYTES_MAX`], nothing being appended: how long some
/// messages get follows from the size of the cluster.
///
/// # Panics
/// If memory cannot be serialised into: it can.
pub fn put_message<M: Serialize>(out: &mut Vec<u8>, message: &M) -> Result<(), ControlFrameError> {
    let body = postcard::to_stdvec(message).expect("control messages serialise into memory");
    let body_bytes = u32::try_from(body.len()).unwrap_or(u32::MAX);
    if body.len() > CONTROL_BODY_BYTES_MAX {
        return Err(ControlFrameError::TooLong(body_bytes));
    }
    out.extend_from_slice(&body_bytes.to_le_bytes());
    out.extend_from_slice(&length_check(body_bytes).to_le_bytes());
    out.extend_from_slice(&crc32c(&body).to_le_bytes());
    out.extend_from_slice(&body);
    Ok(())
}
