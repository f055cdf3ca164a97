//! Pieces that replies are put together from.

use shorttail_units::{Now, UnixMs};
use shorttail_wire::memcached::{MetaFlags, base64};

use super::expiry::seconds_left;
use crate::command::{Attributes, ObjectRef, StoreError};

pub fn number(number: u64, reply: &mut Vec<u8>) {
    reply.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

pub fn length(length: usize, reply: &mut Vec<u8>) {
    reply.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
}

pub fn line(text: &str, reply: &mut Vec<u8>) {
    reply.extend_from_slice(text.as_bytes());
    reply.extend_from_slice(b"\r\n");
}

pub fn refusal(error: StoreError, reply: &mut Vec<u8>) {
    line(&format!("SERVER_ERROR {error}"), reply);
}

/// ` c123`: a return flag with a number.
pub fn flag(flag: u8, value: u64, reply: &mut Vec<u8>) {
    reply.extend_from_slice(&[b' ', flag]);
    number(value, reply);
}

/// ` t`: the time that an object has left, -1 for ever.
pub fn time_left(expiry: Option<UnixMs>, now: Now, reply: &mut Vec<u8>) {
    match expiry {
        None => reply.extend_from_slice(b" t-1"),
        Some(expiry) => flag(b't', seconds_left(expiry, now), reply),
    }
}

/// The key in the form in which the client sent it.
pub fn key(key: &[u8], is_base64: bool, reply: &mut Vec<u8>) {
    if is_base64 {
        base64::encode(key, reply);
    } else {
        reply.extend_from_slice(key);
    }
}

/// Would this key, as it is, break a line?
pub fn breaks_line(key: &[u8]) -> bool {
    key.iter().any(|&byte| byte <= b' ' || byte == 0x7f)
}

/// Is the key of a stored object shown in base64? As it was stored; and always if it would break a line.
pub fn shows_base64(object: &ObjectRef<'_>, key: &[u8]) -> bool {
    object.attributes.has(Attributes::KEY_BASE64) || breaks_line(key)
}

/// ` kKEY`, or ` kKEY b`.
pub fn key_flag(object_key: &[u8], is_base64: bool, reply: &mut Vec<u8>) {
    reply.extend_from_slice(b" k");
    key(object_key, is_base64, reply);
    if is_base64 {
        reply.extend_from_slice(b" b");
    }
}

/// Return flags that every meta reply has: opaque and key.
pub fn opaque_or_key(flag: u8, flags: &MetaFlags, object_key: &[u8], reply: &mut Vec<u8>) {
    match flag {
        b'O' => {
            reply.extend_from_slice(b" O");
            reply.extend_from_slice(flags.opaque());
        }
        b'k' => key_flag(object_key, flags.has(b'b'), reply),
        _ => {}
    }
}

/// A meta reply without value whose only return flags are opaque and key.
pub fn bare_meta(status: &str, flags: &MetaFlags, object_key: &[u8], reply: &mut Vec<u8>) {
    reply.extend_from_slice(status.as_bytes());
    flags.in_order().iter().for_each(|&flag| opaque_or_key(flag, flags, object_key, reply));
    reply.extend_from_slice(b"\r\n");
}
