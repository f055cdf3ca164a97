//! Frames: `body_bytes u32 | kind u8 | zero u8 | length_check u16 | tag u64 | checksum u32 | body`. The checksum is
//! CRC32C of everything else in the frame, the length's own check says at once whether there is anything to wait for.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{BODY_BYTES_MAX, HELLO_BYTES_MAX};
use crate::crc32c_of;
use crate::length_check::length_check;

/// Length of the header in bytes.
pub const HEADER_BYTES: usize = 20;

/// Where the checksum begins in the header: at its end.
const CHECKSUM_AT: usize = 16;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    Hello = 1,
    Welcome = 2,
    Refused = 3,
    Ask = 4,
    Answer = 5,
    NotOwner = 6,
}

/// One frame, cut out of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub kind: Kind,
    pub tag: u64,
    pub body: &'a [u8],
}

/// Why bytes are not a message. The connection that sent them is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("a frame of {0} bytes is longer than any message")]
    TooLong(u32),
    #[error("the frame was hurt on its way: its checksum does not hold")]
    Checksum,
    #[error("unknown message kind {0}")]
    Kind(u8),
    #[error("the body of a message does not parse")]
    Body,
}

impl Kind {
    fn of(number: u8) -> Option<Self> {
        let kinds = [Kind::Hello, Kind::Welcome, Kind::Refused, Kind::Ask, Kind::Answer, Kind::NotOwner];
        kinds.into_iter().find(|kind| *kind as u8 == number)
    }

    fn body_bytes_max(self) -> usize {
        match self {
            Kind::Hello | Kind::Welcome | Kind::Refused => HELLO_BYTES_MAX,
            Kind::Ask | Kind::Answer => BODY_BYTES_MAX,
            Kind::NotOwner => 0,
        }
    }
}

/// A body that is one message.
pub trait Body: Sized {
    /// # Errors
    /// When the bytes are not exactly one message of this type.
    fn from_body(body: &[u8]) -> Result<Self, FrameError>;
}

impl<M: DeserializeOwned> Body for M {
    fn from_body(body: &[u8]) -> Result<Self, FrameError> {
        match postcard::take_from_bytes(body) {
            Ok((message, [])) => Ok(message),
            Ok(_) | Err(_) => Err(FrameError::Body),
        }
    }
}

/// What the frame is that begins `input`, and its tag, as soon as its header is there.
///
/// # Errors
/// When there is no such kind.
pub fn next_header(input: &[u8]) -> Result<Option<(Kind, u64)>, FrameError> {
    let Some(&[_, _, _, _, kind, _, _, _, tag @ .., _, _, _, _]) = input.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let kind = Kind::of(kind).ok_or(FrameError::Kind(kind))?;
    Ok(Some((kind, u64::from_le_bytes(tag))))
}

/// The first frame of `input` and its whole length in bytes; `None` when it has not arrived completely.
///
/// # Errors
/// When the checksum does not hold, the kind is unknown, or the declared length was hurt or is beyond what this kind
/// may have: nothing is buffered for such a frame.
pub fn next_frame(input: &[u8]) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let [l0, l1, l2, l3, kind, _, k0, k1, t0, t1, t2, t3, t4, t5, t6, t7, sum @ ..] = *header;
    let kind = Kind::of(kind).ok_or(FrameError::Kind(kind))?;
    let declared = u32::from_le_bytes([l0, l1, l2, l3]);
    let body_bytes = usize::try_from(declared).unwrap_or(usize::MAX);
    if body_bytes > kind.body_bytes_max() {
        return Err(FrameError::TooLong(declared));
    }
    if u16::from_le_bytes([k0, k1]) != length_check(declared) {
        return Err(FrameError::Checksum);
    }
    let Some(body) = rest.get(..body_bytes) else { return Ok(None) };
    if u32::from_le_bytes(sum) != checksum(header, body) {
        return Err(FrameError::Checksum);
    }
    let tag = u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
    Ok(Some((Frame { kind, tag, body }, HEADER_BYTES + body_bytes)))
}

/// Appends a frame whose body is a message.
///
/// # Panics
/// If the body is longer than its kind allows: the caller made a message that no peer takes.
pub fn put_frame<M: Serialize + ?Sized>(out: &mut Vec<u8>, kind: Kind, tag: u64, message: &M) {
    begin_frame(out, kind, tag, |out| {
        *out = postcard::to_extend(message, std::mem::take(out)).expect("messages serialise into memory");
    });
}

/// Bytes of a message's body.
///
/// # Panics
/// As [`put_frame`].
pub fn body_bytes_of<M: Serialize + ?Sized>(message: &M) -> usize {
    postcard::experimental::serialized_size(message).expect("messages serialise")
}

/// Appends a frame whose body `write` appends.
///
/// # Panics
/// As [`put_frame`].
pub fn begin_frame(out: &mut Vec<u8>, kind: Kind, tag: u64, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    let mut header = [0u8; HEADER_BYTES];
    header[4] = kind as u8;
    header[8..CHECKSUM_AT].copy_from_slice(&tag.to_le_bytes());
    out.extend_from_slice(&header);
    write(out);
    let body_bytes = out.len() - start - HEADER_BYTES;
    assert!(body_bytes <= kind.body_bytes_max(), "a body of {body_bytes} bytes");
    out[start..start + 4].copy_from_slice(&(body_bytes as u32).to_le_bytes());
    out[start + 6..start + 8].copy_from_slice(&length_check(body_bytes as u32).to_le_bytes());
    let (header, body) = out[start..].split_first_chunk_mut::<HEADER_BYTES>().expect("a frame begins with its header");
    let sum = checksum(header, body);
    header[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
}

fn checksum(header: &[u8; HEADER_BYTES], body: &[u8]) -> u32 {
    crc32c_of([&header[..CHECKSUM_AT], body])
}
