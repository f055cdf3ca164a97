//! The client's side of the two protocols: requests into bytes, bytes into replies.
//!
//! Replies are parsed as ranges into the read buffer; nothing is copied. Must not know: sockets, what
//! a right answer is.

use std::ops::Range;

use crate::limits::LINE_BYTES_MAX;

mod memcached;
mod redis;

/// Which protocol a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Memcached,
    Redis,
}

/// The protocol and what each write asks for on top.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    pub protocol: Protocol,
    /// Redis only: each write is followed by `WAIT replicas 0`, and both replies make one operation.
    pub wait_replicas: Option<u32>,
}

/// What a write says besides its value.
#[derive(Clone, Copy, Debug)]
pub struct SetHead<'a> {
    pub key: &'a [u8],
    pub value_bytes: usize,
    /// 0: the object lives for ever.
    pub ttl_seconds: u32,
}

/// What reply a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Values { keys: usize },
    Stored,
    Deleted,
}

/// A whole reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The values are in [`Found`].
    Values,
    Stored,
    Deleted,
    /// The key to delete was absent.
    NotFound,
    /// The server's error text, or a broken promise such as too few replicas.
    Error(String),
}

/// Values of the reply parsed last.
#[derive(Debug, Default)]
pub struct Found {
    pub values: Vec<FoundValue>,
}

/// A value in the read buffer. memcached names its key, Redis answers in the order asked, absent keys included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundValue {
    pub key: Option<Range<usize>>,
    pub value: Option<Range<usize>>,
}

/// The bytes are not a reply of the protocol; the connection cannot go on.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProtocolError {
    #[error("a reply line is longer than {LINE_BYTES_MAX} bytes")]
    LongLine,
    #[error("unexpected reply `{0}`")]
    Unexpected(String),
    #[error("a value does not end with a line break")]
    Unterminated,
    #[error("`{0}` is no length")]
    BadLength(String),
    #[error("{actual} values answer {expected} keys")]
    ValueCount { expected: usize, actual: usize },
}

/// `Ok(None)`: the reply has not arrived whole. Otherwise the reply and its length.
type Parsed = Result<Option<(Reply, usize)>, ProtocolError>;

impl Codec {
    /// Appends a get of one or more keys.
    pub fn write_get(&self, keys: &[&[u8]], out: &mut Vec<u8>) {
        match self.protocol {
            Protocol::Memcached => memcached::write_get(keys, out),
            Protocol::Redis => redis::write_get(keys, out),
        }
    }

    /// Appends a write of `head.value_bytes` bytes, which `value` appends in their place.
    pub fn write_set(&self, head: SetHead, value: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        match self.protocol {
            Protocol::Memcached => memcached::write_set(head, value, out),
            Protocol::Redis => redis::write_set(head, value, self.wait_replicas, out),
        }
    }

    pub fn write_delete(&self, key: &[u8], out: &mut Vec<u8>) {
        match self.protocol {
            Protocol::Memcached => memcached::write_delete(key, out),
            Protocol::Redis => redis::write_delete(key, self.wait_replicas, out),
        }
    }

    pub fn write_login(&self, user: &str, password: &str, out: &mut Vec<u8>) {
        match self.protocol {
            Protocol::Memcached => memcached::write_login(user, password, out),
            Protocol::Redis => redis::write_login(user, password, out),
        }
    }

    /// Parses the reply at the front of `input`; values go to `found`.
    ///
    /// # Errors
    /// The bytes are no reply of this protocol.
    pub fn parse(&self, expect: Expect, input: &[u8], found: &mut Found) -> Parsed {
        found.values.clear();
        match self.protocol {
            Protocol::Memcached => memcached::parse(expect, input, found),
            Protocol::Redis => redis::parse(expect, self.wait_replicas, input, found),
        }
    }
}

/// The line that starts at `from`, without its end, and where the next one starts.
fn line(input: &[u8], from: usize) -> Result<Option<(&[u8], usize)>, ProtocolError> {
    let rest = &input[from..];
    let searched = &rest[..rest.len().min(LINE_BYTES_MAX)];
    match memchr::memchr(b'\n', searched) {
        Some(end) => {
            let line = &rest[..end];
            Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), from + end + 1)))
        }
        None if rest.len() >= LINE_BYTES_MAX => Err(ProtocolError::LongLine),
        None => Ok(None),
    }
}

/// The block of `length` bytes at `from`, which must be followed by a line break; and where the next line starts.
fn block(input: &[u8], from: usize, length: usize) -> Result<Option<(Range<usize>, usize)>, ProtocolError> {
    let end = from.saturating_add(length);
    match input.get(end..end.saturating_add(2)) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some((from..end, end + 2))),
        Some(_) => Err(ProtocolError::Unterminated),
    }
}

fn number(text: &[u8]) -> Result<usize, ProtocolError> {
    // Ten digits hold every length that is allowed and cannot overflow.
    let digits = (1..=10).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    let length = || text.iter().fold(0usize, |number, &digit| number * 10 + usize::from(digit - b'0'));
    digits
        .then(length)
        .filter(|&length| length <= crate::limits::REPLY_BYTES_MAX)
        .ok_or_else(|| ProtocolError::BadLength(shown(text)))
}

/// Bytes from outside, cut and made printable.
pub fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 120;
    let cut = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let more = if bytes.len() > SHOWN_BYTES { "..." } else { "" };
    format!("{}{more}", cut.escape_ascii())
}

fn write_number(number: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests;
