//! memcached's text protocol, as far as a load generator speaks it.
//!
//! Source: `doc/protocol.txt` of memcached 1.6.

use super::{
    Expect, Found, FoundValue, Parsed, ProtocolError, Reply, SetHead, block, line, number, shown, write_number,
};

pub(super) fn write_get(keys: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(b"get");
    for key in keys {
        out.push(b' ');
        out.extend_from_slice(key);
    }
    out.extend_from_slice(b"\r\n");
}

pub(super) fn write_set(head: SetHead, value: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    out.extend_from_slice(b"set ");
    out.extend_from_slice(head.key);
    out.extend_from_slice(b" 0 ");
    write_number(head.ttl_seconds as usize, out);
    out.push(b' ');
    write_number(head.value_bytes, out);
    out.extend_from_slice(b"\r\n");
    value(out);
    out.extend_from_slice(b"\r\n");
}

/// The user and its password are the value of a key that is none.
pub(super) fn write_login(user: &str, password: &str, out: &mut Vec<u8>) {
    let bytes = user.len() + 1 + password.len();
    out.extend_from_slice(format!("set auth 0 0 {bytes}\r\n{user} {password}\r\n").as_bytes());
}

pub(super) fn write_delete(key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"delete ");
    out.extend_from_slice(key);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn parse(expect: Expect, input: &[u8], found: &mut Found) -> Parsed {
    let mut at = 0;
    loop {
        let Some((text, next)) = line(input, at)? else { return Ok(None) };
        if let Expect::Values { .. } = expect
            && let Some(header) = text.strip_prefix(b"VALUE ")
        {
            let key = at + b"VALUE ".len();
            let Some(after) = parse_value(header, key, next, input, found)? else { return Ok(None) };
            at = after;
            continue;
        }
        return match (expect, text) {
            (Expect::Values { .. }, b"END") => Ok(Some((Reply::Values, next))),
            (Expect::Stored, b"STORED") => Ok(Some((Reply::Stored, next))),
            (Expect::Deleted, b"DELETED") => Ok(Some((Reply::Deleted, next))),
            (Expect::Deleted, b"NOT_FOUND") => Ok(Some((Reply::NotFound, next))),
            _ if is_error(text) => Ok(Some((Reply::Error(shown(text)), next))),
            _ => Err(ProtocolError::Unexpected(shown(text))),
        };
    }
}

/// One `VALUE key flags bytes` header and its block; returns where the next line starts.
fn parse_value(
    header: &[u8],
    key_start: usize,
    data_start: usize,
    input: &[u8],
    found: &mut Found,
) -> Result<Option<usize>, ProtocolError> {
    let mut words = header.split(|&byte| byte == b' ');
    let (Some(key), Some(_flags), Some(length)) = (words.next(), words.next(), words.next()) else {
        return Err(ProtocolError::Unexpected(shown(header)));
    };
    let Some((value, next)) = block(input, data_start, number(length)?)? else { return Ok(None) };
    found.values.push(FoundValue { key: Some(key_start..key_start + key.len()), value: Some(value) });
    Ok(Some(next))
}

fn is_error(text: &[u8]) -> bool {
    text == b"ERROR"
        || text == b"NOT_STORED"
        || [&b"ERROR "[..], b"CLIENT_ERROR", b"SERVER_ERROR"].iter().any(|kind| text.starts_with(kind))
}
