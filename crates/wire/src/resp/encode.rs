//! Replies, in RESP2 or RESP3.
//!
//! Must not know: which command is answered.

use serde::{Deserialize, Serialize};
/// Version of the protocol that a connection speaks; `HELLO` changes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

pub const OK: &[u8] = b"+OK\r\n";

pub fn simple(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'+');
    out.extend_from_slice(text);
    line_end(out);
}

/// An error reply; `text` begins with the error's code. Line ends inside become spaces: they come from the client.
pub fn error(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'-');
    out.extend(text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
    line_end(out);
}

pub fn integer(out: &mut Vec<u8>, value: i64) {
    header(out, b':', value);
}

/// A count as an integer reply; beyond 2^63 - 1 it says 2^63 - 1.
pub fn count(out: &mut Vec<u8>, value: u64) {
    integer(out, i64::try_from(value).unwrap_or(i64::MAX));
}

pub fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    // 24 bytes hold the length line and the line end.
    out.reserve(bytes.len() + 24);
    header(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    line_end(out);
}

/// No value.
pub fn null(out: &mut Vec<u8>, protocol: Protocol) {
    out.extend_from_slice(null_bytes(protocol));
}

/// What [`null`] appends.
fn null_bytes(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Resp2 => b"$-1\r\n",
        Protocol::Resp3 => b"_\r\n",
    }
}

/// Begins an array; `items` values follow.
pub fn array(out: &mut Vec<u8>, items: usize) {
    header(out, b'*', items);
}

/// Begins a map; `pairs` times a key and a value follow. RESP2 knows only arrays.
pub fn map(out: &mut Vec<u8>, protocol: Protocol, pairs: usize) {
    match protocol {
        Protocol::Resp2 => header(out, b'*', pairs * 2),
        Protocol::Resp3 => header(out, b'%', pairs),
    }
}

/// Begins a set; `items` values follow. RESP2 knows only arrays.
pub fn set(out: &mut Vec<u8>, protocol: Protocol, items: usize) {
    match protocol {
        Protocol::Resp2 => header(out, b'*', items),
        Protocol::Resp3 => header(out, b'~', items),
    }
}

/// Text for people. RESP2 knows only bulk strings.
pub fn verbatim_text(out: &mut Vec<u8>, protocol: Protocol, text: &[u8]) {
    match protocol {
        Protocol::Resp2 => bulk(out, text),
        Protocol::Resp3 => {
            header(out, b'=', text.len() + 4);
            out.extend_from_slice(b"txt:");
            out.extend_from_slice(text);
            line_end(out);
        }
    }
}

fn header(out: &mut Vec<u8>, kind: u8, value: impl itoa::Integer) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    line_end(out);
}

fn line_end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn replies_are_spelled_as_the_specification_says() {
        use Protocol::{Resp2, Resp3};
        assert_eq!(encoded(|out| simple(out, b"PONG")), "+PONG\r\n");
        assert_eq!(encoded(|out| error(out, b"ERR a\r\nb")), "-ERR a  b\r\n");
        assert_eq!(encoded(|out| integer(out, i64::MIN)), ":-9223372036854775808\r\n");
        assert_eq!(encoded(|out| count(out, u64::MAX)), ":9223372036854775807\r\n");
        assert_eq!(encoded(|out| bulk(out, b"")), "$0\r\n\r\n");
        assert_eq!(encoded(|out| map(out, Resp2, 2)), "*4\r\n");
        assert_eq!(encoded(|out| map(out, Resp3, 2)), "%2\r\n");
        assert_eq!(encoded(|out| set(out, Resp2, 2)), "*2\r\n");
        assert_eq!(encoded(|out| set(out, Resp3, 2)), "~2\r\n");
        assert_eq!(encoded(|out| null(out, Resp2)), "$-1\r\n");
        assert_eq!(encoded(|out| verbatim_text(out, Resp3, b"ab")), "=6\r\ntxt:ab\r\n");
    }
}
