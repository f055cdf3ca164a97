//! One verb on one key, in the form that the engine applies.
//!
//! Must not know: sessions, arguments.

use serde::{Deserialize, Serialize};
use shorttail_wire::resp::Protocol;

use super::connection::Connection;
use super::error::store_error;
use super::verbs::{ExpiryVerb, KeyVerb, NumberVerb, ReadVerb, WriteVerb};
use crate::command::{Access, ApplyContext, Command, Effect, ObjectRef, StoreError, Wants};
use crate::session::Counters;

/// A Redis command on one key.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeyCommand {
    #[serde(with = "crate::forward::bytes")]
    key: Vec<u8>,
    verb: Verb,
    protocol: Protocol,
    touches: bool,
    /// As a read: a large value too.
    takes_large: bool,
}

/// What is done to the key, by family.
#[derive(Debug, Serialize, Deserialize)]
pub enum Verb {
    Read(ReadVerb),
    Write(WriteVerb),
    Number(NumberVerb),
    Expiry(ExpiryVerb),
    Key(KeyVerb),
}

/// Surroundings of one application of a verb.
pub struct Scene<'a> {
    pub current: Option<ObjectRef<'a>>,
    pub context: &'a ApplyContext,
    pub protocol: Protocol,
    pub reply: &'a mut Vec<u8>,
}

/// How a command's reply says that there is no such key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Miss {
    /// Redis counts no hits and misses of it.
    Uncounted,
    /// By a word of its own.
    Told,
    /// By 0 or nothing, as of an empty value: both count as misses.
    Nothing,
}

impl Miss {
    /// Counts a reply as hit or miss. An error is neither: nobody knows whether the key exists.
    pub(super) fn count(self, reply: &[u8], counters: &mut Counters) {
        let is_miss = match reply {
            _ if self == Miss::Uncounted => return,
            [b'-', ..] => return,
            [b'_', ..] | [b'$', b'-', ..] | b":-2\r\n" | b"+none\r\n" => true,
            b":0\r\n" | b"$0\r\n\r\n" => self == Miss::Nothing,
            _ => false,
        };
        counters.get_commands += 1;
        counters.get_hits += u64::from(!is_miss);
        counters.get_misses += u64::from(is_miss);
    }
}

/// What each family of verbs provides.
pub trait Family {
    fn access(&self) -> Access;
    fn wants(&self) -> Wants;
    fn apply(&self, scene: Scene<'_>) -> Effect;

    fn miss(&self) -> Miss {
        Miss::Uncounted
    }

    /// See [`Command::touches`].
    fn touches(&self) -> bool {
        true
    }
}

impl KeyCommand {
    pub(super) fn new(key: Vec<u8>, verb: Verb, connection: &Connection) -> Self {
        // Who asked for nothing to be touched may still touch a key by name.
        let is_kept_from_it = connection.no_touch && !matches!(verb, Verb::Key(KeyVerb::Touch));
        let touches = verb.family().touches() && !is_kept_from_it;
        KeyCommand { key, verb, protocol: connection.protocol, touches, takes_large: false }
    }

    pub(super) fn miss(&self) -> Miss {
        self.verb.family().miss()
    }

    pub(super) fn take_large(&mut self) {
        self.takes_large = true;
    }

    /// As a read.
    pub(crate) fn takes_any_length(&self) -> bool {
        self.takes_large
    }

    /// The command that came back as [`Command::deferred`] said, to be asked again.
    pub(super) fn again(bytes: &[u8]) -> Option<Self> {
        let command: Self = postcard::from_bytes(bytes).ok()?;
        Some(KeyCommand { takes_large: true, ..command })
    }

    /// Bytes that it carries, that a value may have which it makes of another, or that its reply may have although it
    /// writes.
    pub(super) fn bytes_charged(&self, value_bytes_max: usize) -> usize {
        match &self.verb {
            Verb::Read(verb) if verb.access() == Access::Write => value_bytes_max,
            Verb::Write(verb) => verb.bytes_charged(value_bytes_max),
            _ => 0,
        }
    }
}

impl KeyCommand {
    /// Could a session have made it?
    pub fn is_well_formed(&self) -> bool {
        match &self.verb {
            Verb::Read(_) | Verb::Expiry(_) => true,
            Verb::Write(verb) => verb.is_well_formed(),
            Verb::Number(verb) => verb.is_well_formed(),
            Verb::Key(verb) => verb.is_well_formed(),
        }
    }
}

impl Verb {
    fn family(&self) -> &dyn Family {
        match self {
            Verb::Read(verb) => verb,
            Verb::Write(verb) => verb,
            Verb::Number(verb) => verb,
            Verb::Expiry(verb) => verb,
            Verb::Key(verb) => verb,
        }
    }
}

impl Command for KeyCommand {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn access(&self) -> Access {
        self.verb.family().access()
    }

    fn wants(&self) -> Wants {
        self.verb.family().wants()
    }

    fn apply(&mut self, current: Option<ObjectRef<'_>>, context: &ApplyContext, reply: &mut Vec<u8>) -> Effect {
        self.verb.family().apply(Scene { current, context, protocol: self.protocol, reply })
    }

    fn refuse(&self, error: StoreError, reply: &mut Vec<u8>) {
        store_error(error).encode(reply);
    }

    fn deferred(&self) -> Option<Vec<u8>> {
        let bytes = || postcard::to_allocvec(self).expect("commands serialise into memory");
        (!self.takes_any_length()).then(bytes)
    }

    fn touches(&self) -> bool {
        self.touches
    }
}
