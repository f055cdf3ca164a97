//! Commands on many keys: one part for each key, issued as room allows, gathered into one reply.
//!
//! MGET opens a place for each key behind the array's header, so values leave as they come. The others open one place
//! and gather: a sum, or OK. An error of any part is the whole reply; parts that were carried out stay so.
//!
//! Must not know: the engine, the reply queue.

use std::collections::VecDeque;

use super::connection::Connection;
use super::key_command::KeyCommand;
use super::verbs::{Condition, KeyVerb, ReadVerb, SetReply, StoreExpiry, WriteVerb};
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
    each: EachKey,
}

impl Gather {
    pub fn new(each: EachKey, seq: u64, parts: usize) -> Self {
        Gather { seq, parts_left: parts, sum: 0, error: None, each }
    }

    /// Takes the reply of one part; the whole reply when it was the last.
    pub fn take(&mut self, part: Vec<u8>) -> Option<Vec<u8>> {
        match part.first() {
            Some(b'-') if self.error.is_none() => self.error = Some(part),
            // The parts answer 1, 0 or OK.
            _ => self.sum += i64::from(part == b":1\r\n"),
        }
        self.parts_left -= 1;
        if self.parts_left > 0 {
            return None;
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
