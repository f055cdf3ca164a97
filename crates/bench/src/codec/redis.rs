//! RESP2, as far as a load generator speaks it.
//!
//! Source: the Redis serialization protocol specification.

use std::ops::Range;

use super::{
    Expect, Found, FoundValue, Parsed, ProtocolError, Reply, SetHead, block, line, number, shown, write_number,
};

pub(super) fn write_get(keys: &[&[u8]], out: &mut Vec<u8>) {
    write_array(keys.len() + 1, out);
    write_bulk(if keys.len() == 1 { b"GET" } else { b"MGET" }, out);
    for key in keys {
        write_bulk(key, out);
    }
}

pub(super) fn write_set(
    head: SetHead,
    value: impl FnOnce(&mut Vec<u8>),
    wait_replicas: Option<u32>,
    out: &mut Vec<u8>,
) {
    let expires = head.ttl_seconds > 0;
    write_array(if expires { 5 } else { 3 }, out);
    write_bulk(b"SET", out);
    write_bulk(head.key, out);
    write_bulk_head(head.value_bytes, out);
    value(out);
    out.extend_from_slice(b"\r\n");
    if expires {
        write_bulk(b"EX", out);
        write_bulk(itoa::Buffer::new().format(head.ttl_seconds).as_bytes(), out);
    }
    write_wait(wait_replicas, out);
}

pub(super) fn write_login(user: &str, password: &str, out: &mut Vec<u8>) {
    write_array(3, out);
    ["AUTH", user, password].iter().for_each(|word| write_bulk(word.as_bytes(), out));
}

pub(super) fn write_delete(key: &[u8], wait_replicas: Option<u32>, out: &mut Vec<u8>) {
    write_array(2, out);
    write_bulk(b"DEL", out);
    write_bulk(key, out);
    write_wait(wait_replicas, out);
}

fn write_wait(wait_replicas: Option<u32>, out: &mut Vec<u8>) {
    if let Some(replicas) = wait_replicas {
        write_array(3, out);
        write_bulk(b"WAIT", out);
        write_bulk(replicas.to_string().as_bytes(), out);
        // No time limit: the operation's own deadline ends it.
        write_bulk(b"0", out);
    }
}

fn write_array(length: usize, out: &mut Vec<u8>) {
    out.push(b'*');
    write_number(length, out);
    out.extend_from_slice(b"\r\n");
}

fn write_bulk_head(bytes: usize, out: &mut Vec<u8>) {
    out.push(b'$');
    write_number(bytes, out);
    out.extend_from_slice(b"\r\n");
}

fn write_bulk(bytes: &[u8], out: &mut Vec<u8>) {
    write_bulk_head(bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// One reply that is no array.
enum Scalar<'a> {
    Status(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    Bulk(Option<Range<usize>>),
    /// An array header: this many replies follow.
    Array(usize),
}

fn scalar(input: &[u8], at: usize) -> Result<Option<(Scalar<'_>, usize)>, ProtocolError> {
    let Some((text, next)) = line(input, at)? else { return Ok(None) };
    let unexpected = || ProtocolError::Unexpected(shown(text));
    let (kind, rest) = text.split_first().ok_or_else(unexpected)?;
    let parsed = match kind {
        b'+' => Scalar::Status(rest),
        b'-' => Scalar::Error(rest),
        b':' => {
            let integer = std::str::from_utf8(rest).ok().and_then(|text| text.parse().ok());
            Scalar::Integer(integer.ok_or_else(unexpected)?)
        }
        b'$' if rest == b"-1" => Scalar::Bulk(None),
        b'$' => {
            let Some((value, after)) = block(input, next, number(rest)?)? else { return Ok(None) };
            return Ok(Some((Scalar::Bulk(Some(value)), after)));
        }
        b'*' => Scalar::Array(number(rest)?),
        _ => return Err(unexpected()),
    };
    Ok(Some((parsed, next)))
}

pub(super) fn parse(expect: Expect, wait_replicas: Option<u32>, input: &[u8], found: &mut Found) -> Parsed {
    let Some((first, next)) = scalar(input, 0)? else { return Ok(None) };
    match (expect, first) {
        (Expect::Values { .. }, Scalar::Error(text)) => Ok(Some((Reply::Error(shown(text)), next))),
        (Expect::Values { keys: 1 }, Scalar::Bulk(value)) => {
            found.values.push(FoundValue { key: None, value });
            Ok(Some((Reply::Values, next)))
        }
        (Expect::Values { keys }, Scalar::Array(actual)) if keys > 1 => parse_array(keys, actual, next, input, found),
        (Expect::Stored | Expect::Deleted, Scalar::Error(text)) => with_wait(
            // The reply of WAIT follows all the same.
            Reply::Error(shown(text)),
            next,
            wait_replicas,
            input,
        ),
        (Expect::Stored, Scalar::Status(b"OK")) => with_wait(Reply::Stored, next, wait_replicas, input),
        (Expect::Deleted, Scalar::Integer(0)) => with_wait(Reply::NotFound, next, wait_replicas, input),
        (Expect::Deleted, Scalar::Integer(1)) => with_wait(Reply::Deleted, next, wait_replicas, input),
        _ => Err(ProtocolError::Unexpected(shown(&input[..next.min(input.len())]))),
    }
}

fn parse_array(expected: usize, actual: usize, from: usize, input: &[u8], found: &mut Found) -> Parsed {
    if expected != actual {
        return Err(ProtocolError::ValueCount { expected, actual });
    }
    let mut at = from;
    for _ in 0..expected {
        let Some((element, next)) = scalar(input, at)? else { return Ok(None) };
        let Scalar::Bulk(value) = element else { return Err(ProtocolError::Unexpected(shown(&input[at..next]))) };
        found.values.push(FoundValue { key: None, value });
        at = next;
    }
    Ok(Some((Reply::Values, at)))
}

/// Completes a write's reply by the reply of the WAIT that followed it.
fn with_wait(reply: Reply, at: usize, wait_replicas: Option<u32>, input: &[u8]) -> Parsed {
    let Some(wanted) = wait_replicas else { return Ok(Some((reply, at))) };
    let Some((answer, next)) = scalar(input, at)? else { return Ok(None) };
    let reply = match answer {
        _ if matches!(reply, Reply::Error(_)) => reply,
        Scalar::Integer(replicas) if replicas >= i64::from(wanted) => reply,
        Scalar::Integer(replicas) => Reply::Error(format!("WAIT answered {replicas} of {wanted} replicas")),
        Scalar::Error(text) => Reply::Error(shown(text)),
        _ => return Err(ProtocolError::Unexpected(shown(&input[at..next]))),
    };
    Ok(Some((reply, next)))
}
