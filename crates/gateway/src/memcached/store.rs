//! `set`, `add`, `replace`, `append`, `prepend`, `cas`, and `ms` with all its modes: they share one decision.

use serde::{Deserialize, Serialize};
use shorttail_wire::memcached::{MetaFlags, StoreVerb};

use super::command::Verb;
use super::expiry::expiry;
use super::key::Key;
use super::limits::{ITEM_FLAGS_BYTES, ITEM_OVERHEAD_BYTES};
use super::reply;
use super::tally::{Applied, Tally};
use crate::command::{Access, ApplyContext, Attributes, Effect, NewObject, ObjectRef, Wants};

#[derive(Debug, Serialize, Deserialize)]
pub struct Store {
    pub key: Key,
    pub mode: StoreVerb,
    #[serde(with = "crate::forward::bytes")]
    pub value: Vec<u8>,
    pub flags: u32,
    pub exptime: i32,
    /// The CAS token that the object must have; 0 matches none.
    pub compare: Option<u64>,
    /// Largest object, as `object_bytes` counts.
    pub object_bytes_max: usize,
    pub reply: StoreReply,
}

/// In which protocol the answer is written.
#[derive(Debug, Serialize, Deserialize)]
pub enum StoreReply {
    Text { noreply: bool },
    Meta(Box<MetaFlags>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Stored,
    Exists,
    NotFound,
    NotStored,
}

/// How the object's CAS token compares with the one asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CasMatch {
    NotAsked,
    Same,
    /// Older than the object, and the client allows to store it as stale.
    Stale,
    Different,
}

/// What memcached would count for an object: key, value, flags and overhead.
pub fn object_bytes(key_bytes: usize, flags: u32, value_bytes: usize) -> usize {
    let flags_bytes = if flags == 0 { 0 } else { ITEM_FLAGS_BYTES };
    ITEM_OVERHEAD_BYTES + key_bytes + flags_bytes + value_bytes
}

impl Store {
    fn meta(&self) -> Option<&MetaFlags> {
        match &self.reply {
            StoreReply::Text { .. } => None,
            StoreReply::Meta(flags) => Some(flags),
        }
    }

    fn cas_match(&self, object: &ObjectRef<'_>) -> CasMatch {
        match self.compare {
            None | Some(0) => CasMatch::NotAsked,
            Some(token) if token == object.cas => CasMatch::Same,
            Some(token) if token < object.cas && self.meta().is_some_and(|flags| flags.has(b'I')) => CasMatch::Stale,
            Some(_) => CasMatch::Different,
        }
    }

    /// The object as the client sent it.
    fn new_object(&self, exptime: i32, context: &ApplyContext) -> NewObject {
        NewObject {
            value: self.value.clone(),
            flags: self.flags,
            expiry: expiry(exptime, context.now),
            cas: self.meta().and_then(MetaFlags::new_cas),
            attributes: self.attributes(),
        }
    }

    fn attributes(&self) -> Attributes {
        let is_base64 = self.meta().is_some_and(|flags| flags.has(b'b'));
        if is_base64 { Attributes(Attributes::KEY_BASE64) } else { Attributes::default() }
    }

    fn decide(&self, current: Option<ObjectRef<'_>>, context: &ApplyContext) -> Result<(NewObject, Tally), Outcome> {
        let put = |tally| Ok((self.new_object(self.exptime, context), tally));
        match (self.mode, current) {
            (StoreVerb::Set, _) | (StoreVerb::Add, None) | (StoreVerb::Replace, Some(_)) => put(Tally::Nothing),
            (StoreVerb::Add, Some(_)) | (StoreVerb::Replace, None) => Err(Outcome::NotStored),
            (StoreVerb::Cas, None) => Err(Outcome::NotFound),
            (StoreVerb::Cas, Some(object)) => match self.cas_match(&object) {
                CasMatch::Same => put(Tally::CasHit),
                CasMatch::Stale => Ok((self.stale_object(&object, context), Tally::CasHit)),
                CasMatch::NotAsked | CasMatch::Different => Err(Outcome::Exists),
            },
            (StoreVerb::Append | StoreVerb::Prepend, None) => match self.meta().and_then(MetaFlags::vivify_exptime) {
                Some(exptime) => Ok((self.new_object(exptime, context), Tally::Nothing)),
                None => Err(Outcome::NotStored),
            },
            (StoreVerb::Append | StoreVerb::Prepend, Some(object)) => match self.cas_match(&object) {
                CasMatch::NotAsked | CasMatch::Same => self.joined(&object).map(|joined| (joined, Tally::Nothing)),
                CasMatch::Stale | CasMatch::Different => Err(Outcome::Exists),
            },
        }
    }

    /// A value that is older than the object: stored, but still stale, and with the time that was left.
    fn stale_object(&self, object: &ObjectRef<'_>, context: &ApplyContext) -> NewObject {
        let mut attributes = self.attributes().with(Attributes::STALE);
        if object.attributes.has(Attributes::WIN_SENT) {
            attributes = attributes.with(Attributes::WIN_SENT);
        }
        NewObject { expiry: object.expiry, attributes, ..self.new_object(0, context) }
    }

    fn joined(&self, object: &ObjectRef<'_>) -> Result<NewObject, Outcome> {
        let value_bytes = object.value.len() + self.value.len();
        if object_bytes(self.key.bytes().len(), object.flags, value_bytes) > self.object_bytes_max {
            return Err(Outcome::NotStored);
        }
        let parts: [&[u8]; 2] = match self.mode {
            StoreVerb::Prepend => [&self.value, object.value],
            _ => [object.value, &self.value],
        };
        Ok(NewObject {
            value: parts.concat(),
            flags: object.flags,
            expiry: object.expiry,
            cas: self.meta().and_then(MetaFlags::new_cas),
            attributes: Attributes::default(),
        })
    }

    fn write_meta(&self, flags: &MetaFlags, outcome: Outcome, cas: u64, value_bytes: usize, reply: &mut Vec<u8>) {
        let status = match outcome {
            Outcome::Stored if flags.has(b'q') => return,
            Outcome::Stored => "HD",
            Outcome::Exists => "EX",
            Outcome::NotFound => "NF",
            Outcome::NotStored => "NS",
        };
        reply.extend_from_slice(status.as_bytes());
        for &flag in flags.in_order() {
            match flag {
                b'c' => reply::flag(b'c', cas, reply),
                b's' => reply::flag(b's', value_bytes as u64, reply),
                _ => reply::opaque_or_key(flag, flags, self.key.bytes(), reply),
            }
        }
        reply.extend_from_slice(b"\r\n");
    }
}

impl Verb for Store {
    fn access(&self) -> Access {
        Access::Write
    }

    fn wants(&self) -> Wants {
        match self.mode {
            StoreVerb::Set => Wants::Nothing,
            StoreVerb::Add | StoreVerb::Replace | StoreVerb::Cas => Wants::Metadata,
            StoreVerb::Append | StoreVerb::Prepend => Wants::Value,
        }
    }

    fn apply(&mut self, current: Option<ObjectRef<'_>>, context: &ApplyContext, reply: &mut Vec<u8>) -> Applied {
        let (outcome, cas, value_bytes, effect, tally) = match self.decide(current, context) {
            Ok((object, tally)) => {
                let cas = object.cas.unwrap_or(context.version.raw());
                (Outcome::Stored, cas, object.value.len(), Effect::Put(object), tally)
            }
            Err(outcome) => {
                let tally = match (self.mode, outcome) {
                    (StoreVerb::Cas, Outcome::Exists) => Tally::CasBadval,
                    (StoreVerb::Cas, Outcome::NotFound) => Tally::CasMiss,
                    _ => Tally::Nothing,
                };
                (outcome, 0, self.value.len(), Effect::Keep, tally)
            }
        };
        match &self.reply {
            StoreReply::Meta(flags) => self.write_meta(flags, outcome, cas, value_bytes, reply),
            StoreReply::Text { .. } => reply::line(
                match outcome {
                    Outcome::Stored => "STORED",
                    Outcome::Exists => "EXISTS",
                    Outcome::NotFound => "NOT_FOUND",
                    Outcome::NotStored => "NOT_STORED",
                },
                reply,
            ),
        }
        (effect, tally)
    }

    fn noreply(&self) -> bool {
        matches!(self.reply, StoreReply::Text { noreply: true })
    }
}
