//! Commands about all keys: SCAN, KEYS, DBSIZE, RANDOMKEY, FLUSHALL, INFO.

use shorttail_wire::resp::{encode, parse_i64};

use crate::redis::error::CommandError;
use crate::redis::glob::Case;
use crate::redis::info::{Sections, render};
use crate::redis::keyspace::{Filter, Found, KeyspaceWork, encode_scan, next_cursor};
use crate::redis::plan::{Call, Handled, Plan};

/// Keys per SCAN when the client does not say.
const SCAN_COUNT_DEFAULT: usize = 10;

pub fn dbsize(_call: &mut Call<'_>) -> Handled {
    Ok(Plan::Keyspace(KeyspaceWork::Count))
}

pub fn randomkey(_call: &mut Call<'_>) -> Handled {
    Ok(Plan::Keyspace(KeyspaceWork::RandomKey))
}

pub fn keys(call: &mut Call<'_>) -> Handled {
    let filter = Filter { pattern: Some(super::glob(&call.args[1], Case::Counts)?), other_type: false };
    let Some(cursor) = next_cursor(0, call.shared) else {
        encode::array(call.out, 0);
        return Ok(Plan::Answered);
    };
    Ok(Plan::Keyspace(KeyspaceWork::Keys { cursor, filter, found: Found::default(), of_slot: None }))
}

/// FLUSHALL and FLUSHDB: there is one database, and memory is always reclaimed later.
pub fn flush(call: &mut Call<'_>) -> Handled {
    let known = match call.args.len() {
        1 => true,
        2 => call.is(1, "ASYNC") || call.is(1, "SYNC"),
        _ => false,
    };
    if !known {
        return Err(CommandError::SYNTAX);
    }
    if call.settings().flush_disabled {
        return Err(CommandError::FLUSH_DISABLED);
    }
    call.shared.counters.flush_commands += 1;
    Ok(Plan::Keyspace(KeyspaceWork::Flush))
}

pub fn scan(call: &mut Call<'_>) -> Handled {
    let cursor = parse_cursor(&call.args[1]).ok_or(CommandError::CURSOR)?;
    let mut count = SCAN_COUNT_DEFAULT;
    let mut filter = Filter::default();
    for index in (2..call.args.len()).step_by(2) {
        let value = call.args.get(index + 1).ok_or(CommandError::SYNTAX)?;
        if call.is(index, "COUNT") {
            let wanted = parse_i64(value).ok_or(CommandError::NOT_AN_INTEGER)?;
            count = usize::try_from(wanted).ok().filter(|&count| count > 0).ok_or(CommandError::SYNTAX)?;
        } else if call.is(index, "MATCH") {
            filter.pattern = Some(super::glob(value, Case::Counts)?);
        } else if call.is(index, "TYPE") {
            filter.other_type = !value.eq_ignore_ascii_case(b"string");
        } else {
            return Err(CommandError::SYNTAX);
        }
    }
    let Some(cursor) = next_cursor(cursor, call.shared) else {
        encode_scan(call.out, 0, &[]);
        return Ok(Plan::Answered);
    };
    Ok(Plan::Keyspace(KeyspaceWork::Scan { cursor, count, filter }))
}

/// A cursor as `strtoul` reads it: up to a zero byte, nothing at all is 0, and a negative one counts from the end.
fn parse_cursor(text: &[u8]) -> Option<u64> {
    let text = super::echoed(text, usize::MAX);
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() && !text.is_empty() {
        return None;
    }
    let cursor = digits.iter().try_fold(0u64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if is_negative { cursor.wrapping_neg() } else { cursor })
}

pub fn info(call: &mut Call<'_>) -> Handled {
    let sections = Sections::named(call.args.skip(1).iter());
    if !sections.need_store() {
        let text = render(&sections, None, call.now, call.shared);
        encode::verbatim_text(call.out, call.protocol(), text.as_bytes());
        return Ok(Plan::Answered);
    }
    Ok(Plan::Keyspace(KeyspaceWork::Info { sections }))
}
