//! Commands on many keys: one part for each key, issued as room allows, gathered into one reply.
//!
//! MGET opens a place for each key behind that of the array's header (see [`super::replies`]). The others open one
//! place and gather: a sum, or OK. An error of any part is the whole reply, unless an MGET is long; parts that were
//! carried out stay so. If some were and others were not begun, nobody is told to try again: clients would by
//! themselves, and a key may be another's by then.
//!
//! Must not know: the engine, the reply queue.

use std::collections::VecDeque;

use super::connection::Connection;
use super::error::store_error;
use super::key_command::{KeyCommand, Miss};
use super::verbs::{Condition, KeyVerb, ReadVerb, SetReply, StoreExpiry, WriteVerb};
use crate::command::StoreError;
use shorttail_wire::resp::{Args, encode};

/// What is done to each key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EachKey {
    Get,
    Delete,
    Exists,
    Touch,
    /// Keys and values alternate.
    Store,
}

impl EachKey {
    /// How a part that is gathered says that there is no such key.
    pub fn miss(self) -> Miss {
        if matches!(self, EachKey::Exists | EachKey::Touch) { Miss::Nothing } else { Miss::Uncounted }
    }

    /// Arguments for one part.
    pub fn stride(self) -> usize {
        if self == EachKey::Store { 2 } else { 1 }
    }

    /// The command on `key`; `value` is empty unless it stores.
    pub fn command(self, key: &[u8], value: &[u8], connection: &Connection) -> KeyCommand {
        let verb = match self {
            EachKey::Get => ReadVerb::Get.into(),
            EachKey::Delete => KeyVerb::Delete.into(),
            EachKey::Exists => KeyVerb::Exists.into(),
            EachKey::Touch => KeyVerb::Touch.into(),
            EachKey::Store => WriteVerb::Set {
                value: value.to_vec(),
                expiry: StoreExpiry::Never,
                condition: Condition::Always,
                reply: SetReply::Status,
            }
            .into(),
        };
        KeyCommand::new(key.to_vec(), verb, connection)
    }
}

/// Parts of one command that are not issued yet: a copy of their arguments.
#[derive(Debug)]
pub struct Unissued {
    pub each: EachKey,
    /// Place of the gathered reply; unused by [`EachKey::Get`].
    pub seq: u64,
    pub next_part: u32,
    bytes: Vec<u8>,
    lengths: VecDeque<usize>,
    position: usize,
}

impl Unissued {
    /// The parts whose arguments are `args`.
    pub fn new(each: EachKey, seq: u64, next_part: u32, args: Args<'_>) -> Self {
        let lengths: VecDeque<_> = args.iter().map(<[u8]>::len).collect();
        let mut bytes = Vec::with_capacity(lengths.iter().sum());
        args.iter().for_each(|arg| bytes.extend_from_slice(arg));
        Unissued { each, seq, next_part, bytes, lengths, position: 0 }
    }

    /// Bytes that it takes, however many parts are left.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.lengths.capacity() * size_of::<usize>()
    }

    /// The next part's number and command, or `None` when all are issued.
    pub fn take(&mut self, connection: &Connection) -> Option<(u32, KeyCommand)> {
        let key_end = self.position + self.lengths.pop_front()?;
        let value_bytes = if self.each == EachKey::Store { self.lengths.pop_front()? } else { 0 };
        let value_end = key_end + value_bytes;
        let command =
            self.each.command(&self.bytes[self.position..key_end], &self.bytes[key_end..value_end], connection);
        self.position = value_end;
        let part = self.next_part;
        self.next_part += 1;
        Some((part, command))
    }
}

/// The gathered reply of one command whose parts are in flight.
#[derive(Debug)]
pub struct Gather {
    pub seq: u64,
    parts_left: usize,
    sum: i64,
    error: Option<Vec<u8>>,
    /// A part was carried out.
    is_begun: bool,
    pub each: EachKey,
}

impl Gather {
    pub fn new(each: EachKey, seq: u64, parts: usize) -> Self {
        Gather { seq, parts_left: parts, sum: 0, error: None, is_begun: false, each }
    }

    /// Takes the reply of one part; the whole reply when it was the last.
    pub fn take(&mut self, part: Vec<u8>) -> Option<Vec<u8>> {
        match &self.error {
            // The parts answer 1, 0 or OK.
            _ if part.first() != Some(&b'-') => {
                self.is_begun = true;
                self.sum += i64::from(part == b":1\r\n");
            }
            Some(before) if !is_to_be_repeated(before) || is_to_be_repeated(&part) => {}
            _ => self.error = Some(part),
        }
        self.parts_left -= 1;
        if self.parts_left > 0 {
            return None;
        }
        let is_half_done = self.is_begun && self.error.as_deref().is_some_and(is_to_be_repeated);
        if is_half_done && matches!(self.each, EachKey::Delete | EachKey::Store) {
            let mut out = Vec::new();
            store_error(StoreError::OutcomeUnknown).encode(&mut out);
            return Some(out);
        }
        Some(self.error.take().unwrap_or_else(|| {
            let mut out = Vec::new();
            match self.each {
                EachKey::Store => out.extend_from_slice(encode::OK),
                _ => encode::integer(&mut out, self.sum),
            }
            out
        }))
    }
}

/// Do clients repeat by themselves what got this error? Not what begins with `ERR`; the others say that nothing was
/// done.
fn is_to_be_repeated(error: &[u8]) -> bool {
    !error.starts_with(b"-ERR ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(each: EachKey, parts: &[&str]) -> String {
        let mut gather = Gather::new(each, 1, parts.len());
        let replies = parts.iter().filter_map(|part| gather.take(format!("{part}\r\n").into_bytes()));
        let replies: Vec<Vec<u8>> = replies.collect();
        assert_eq!(replies.len(), 1, "the last one ends it");
        String::from_utf8_lossy(&replies[0]).trim_end().to_owned()
    }

    #[test]
    fn nobody_is_told_to_repeat_what_was_half_done() {
        let unknown = "-ERR outcome unknown: the write was sent but not confirmed";
        for each in [EachKey::Delete, EachKey::Store] {
            for parts in [[":1", "-TRYAGAIN x"], ["-TRYAGAIN x", ":0"], ["-TRYAGAIN x", unknown], [unknown, "-OOM x"]] {
                assert_eq!(gathered(each, &parts), unknown, "{each:?} {parts:?}");
            }
            assert_eq!(gathered(each, &[":1", "-ERR x"]), "-ERR x");
            assert_eq!(gathered(each, &["-TRYAGAIN x", "-ERR x"]), "-ERR x", "a part may have been carried out");
            assert_eq!(gathered(each, &["-TRYAGAIN x", "-TRYAGAIN y"]), "-TRYAGAIN x", "nothing was done");
        }
        assert_eq!(gathered(EachKey::Exists, &[":1", "-TRYAGAIN x"]), "-TRYAGAIN x", "it changes nothing");
        assert_eq!(gathered(EachKey::Delete, &[":1", ":0", ":1"]), ":2");
        assert_eq!(gathered(EachKey::Store, &["+OK", "+OK"]), "+OK");
    }
}
