//! Frames: `checksum u32 | body_bytes u32 | kind u8 | status u8 | length_check u16 | tag u64 | body`.
//!
//! The checksum is CRC32C of everything after it, the length's own check says at once whether there is anything to wait
//! for. TCP's sum of 16 bits lets one of 65 536 hurt segments pass; what passes here would be believed about fences,
//! operations and lengths. Decision 0016 has the numbers.

use super::BODY_BYTES_MAX;
use crate::crc32c;
use crate::length_check::length_check;

/// Length of the header in bytes.
pub const FRAME_HEADER_BYTES: usize = 20;

/// The header begins with the checksum.
const CHECKSUM_BYTES: usize = 4;

/// One frame, cut out of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub kind: u8,
    /// 0, or the code of a refusal.
    pub status: u8,
    pub tag: u64,
    pub body: &'a [u8],
}

/// Why bytes are not a message. The session that sent them is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {0} bytes is longer than any message")]
    TooLong(u32),
    #[error("the frame was hurt on its way: its checksum does not hold")]
    Checksum,
    #[error("the body ends inside a field")]
    Short,
    #[error("the body goes on after its last field")]
    Long,
    #[error("unknown message kind {0}")]
    Kind(u8),
    #[error("field {0} has an impossible value")]
    Value(&'static str),
}

/// The first frame of `input` and its whole length in bytes; `None` when it has not arrived completely.
///
/// # Errors
/// When the declared length is beyond [`BODY_BYTES_MAX`], or was hurt on its way: nothing is ever buffered for such a
/// frame. When the checksum does not hold.
pub fn next_frame(input: &[u8]) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    let Some((header, rest)) = input.split_first_chunk::<FRAME_HEADER_BYTES>() else { return Ok(None) };
    let [c0, c1, c2, c3, l0, l1, l2, l3, kind, status, k0, k1, tag @ ..] = *header;
    let declared = u32::from_le_bytes([l0, l1, l2, l3]);
    let body_bytes = usize::try_from(declared).unwrap_or(usize::MAX);
    if body_bytes > BODY_BYTES_MAX {
        return Err(FrameError::TooLong(declared));
    }
    if u16::from_le_bytes([k0, k1]) != length_check(declared) {
        return Err(FrameError::Checksum);
    }
    let Some(body) = rest.get(..body_bytes) else { return Ok(None) };
    let frame_bytes = FRAME_HEADER_BYTES + body_bytes;
    if u32::from_le_bytes([c0, c1, c2, c3]) != crc32c(&input[CHECKSUM_BYTES..frame_bytes]) {
        return Err(FrameError::Checksum);
    }
    Ok(Some((Frame { kind, status, tag: u64::from_le_bytes(tag), body }, frame_bytes)))
}

/// Appends a frame whose body `write` appends.
///
/// # Panics
/// If the body is beyond [`BODY_BYTES_MAX`]: the caller made a message that no peer takes.
pub(super) fn put_frame(out: &mut Vec<u8>, kind: u8, status: u8, tag: u64, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    write(out);
    put_header(&mut out[start..], kind, status, tag);
}

/// Makes a frame of a body that lies in its place already, behind [`FRAME_HEADER_BYTES`] of room.
///
/// # Panics
/// As [`put_frame`], and if there is no such room.
pub(super) fn put_header(frame: &mut [u8], kind: u8, status: u8, tag: u64) {
    let body_bytes = frame.len() - FRAME_HEADER_BYTES;
    assert!(body_bytes <= BODY_BYTES_MAX, "a body of {body_bytes} bytes");
    frame[4..8].copy_from_slice(&(body_bytes as u32).to_le_bytes());
    frame[8] = kind;
    frame[9] = status;
    frame[10..12].copy_from_slice(&length_check(body_bytes as u32).to_le_bytes());
    frame[12..FRAME_HEADER_BYTES].copy_from_slice(&tag.to_le_bytes());
    seal_frame(frame);
}

/// Puts the right checksum into a frame: a new one, or one that is to be wrong in another way on purpose.
///
/// # Panics
/// If it is shorter than a checksum.
pub fn seal_frame(frame: &mut [u8]) {
    let (checksum, rest) = frame.split_first_chunk_mut::<CHECKSUM_BYTES>().expect("a frame begins with its checksum");
    *checksum = crc32c(rest).to_le_bytes();
}
