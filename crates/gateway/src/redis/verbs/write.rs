//! Writes of one string: SET and its relatives, APPEND, SETRANGE.

use serde::{Deserialize, Serialize};
use shorttail_wire::resp::encode;

use super::{Moment, with_value};
use crate::command::{Access, Attributes, Effect, NewObject, Wants};
use crate::redis::error::CommandError;
use crate::redis::key_command::{Family, Miss, Scene, Verb};

/// Commands that store a string.
#[derive(Debug, Serialize, Deserialize)]
pub enum WriteVerb {
    /// SET, SETNX, SETEX, PSETEX, GETSET, and MSET's parts.
    Set {
        #[serde(with = "crate::forward::bytes")]
        value: Vec<u8>,
        expiry: StoreExpiry,
        condition: Condition,
        reply: SetReply,
    },
    Append {
        #[serde(with = "crate::forward::bytes")]
        tail: Vec<u8>,
        value_bytes_max: usize,
    },
    SetRange {
        offset: usize,
        #[serde(with = "crate::forward::bytes")]
        patch: Vec<u8>,
        value_bytes_max: usize,
    },
}

/// The expiry that a stored object gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum StoreExpiry {
    Never,
    Keep,
    Time(Moment),
}

/// The longest value that a gateway may be told to allow.
const VALUE_BYTES_MAX: usize = 1 << 30;

/// When SET stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Condition {
    Always,
    IfAbsent,
    IfPresent,
}

/// What SET answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SetReply {
    /// OK, or null if the condition failed.
    Status,
    /// The old value, or null.
    OldValue,
    /// 1, or 0 if the condition failed.
    Count,
}

impl From<WriteVerb> for Verb {
    fn from(verb: WriteVerb) -> Self {
        Verb::Write(verb)
    }
}

impl WriteVerb {
    /// See [`KeyCommand::bytes_charged`](crate::redis::KeyCommand).
    pub(in crate::redis) fn bytes_charged(&self, value_bytes_max: usize) -> usize {
        match self {
            WriteVerb::Set { reply: SetReply::OldValue, .. } => value_bytes_max,
            WriteVerb::Set { value, .. } => value.len(),
            // However little it carries, it makes a whole value, and how long that is only the owner knows.
            WriteVerb::Append { .. } | WriteVerb::SetRange { .. } => value_bytes_max,
        }
    }

    pub(in crate::redis) fn is_well_formed(&self) -> bool {
        match self {
            WriteVerb::Set { .. } => true,
            WriteVerb::Append { value_bytes_max, .. } | WriteVerb::SetRange { value_bytes_max, .. } => {
                *value_bytes_max <= VALUE_BYTES_MAX
            }
        }
    }
}

impl Family for WriteVerb {
    fn access(&self) -> Access {
        Access::Write
    }

    fn wants(&self) -> Wants {
        match self {
            WriteVerb::Set { reply: SetReply::OldValue, .. } => Wants::Value,
            WriteVerb::Set { expiry: StoreExpiry::Keep, .. } => Wants::Metadata,
            WriteVerb::Set { condition: Condition::Always, .. } => Wants::Nothing,
            WriteVerb::Set { .. } => Wants::Metadata,
            WriteVerb::Append { .. } | WriteVerb::SetRange { .. } => Wants::Value,
        }
    }

    fn miss(&self) -> Miss {
        if matches!(self, WriteVerb::Set { reply: SetReply::OldValue, .. }) { Miss::Told } else { Miss::Uncounted }
    }

    fn apply(&self, mut scene: Scene<'_>) -> Effect {
        match self {
            WriteVerb::Set { value, expiry, condition, reply } => set(&mut scene, value, *expiry, *condition, *reply),
            WriteVerb::Append { tail, value_bytes_max } => {
                let old = scene.current.map_or(&[][..], |object| object.value);
                patch(&mut scene, old.len(), tail, *value_bytes_max)
            }
            // Redis leaves the key as it is, or absent, when there is nothing to write.
            WriteVerb::SetRange { patch: bytes, .. } if bytes.is_empty() => {
                encode::count(scene.reply, scene.current.map_or(0, |object| object.value.len() as u64));
                Effect::Keep
            }
            WriteVerb::SetRange { offset, patch: bytes, value_bytes_max } => {
                patch(&mut scene, *offset, bytes, *value_bytes_max)
            }
        }
    }
}

fn set(scene: &mut Scene<'_>, value: &[u8], expiry: StoreExpiry, condition: Condition, reply: SetReply) -> Effect {
    let stores = match condition {
        Condition::Always => true,
        Condition::IfAbsent => scene.current.is_none(),
        Condition::IfPresent => scene.current.is_some(),
    };
    match (reply, scene.current) {
        (SetReply::OldValue, Some(object)) => encode::bulk(scene.reply, object.value),
        (SetReply::OldValue, None) => encode::null(scene.reply, scene.protocol),
        (SetReply::Count, _) => encode::integer(scene.reply, i64::from(stores)),
        (SetReply::Status, _) if stores => scene.reply.extend_from_slice(encode::OK),
        (SetReply::Status, _) => encode::null(scene.reply, scene.protocol),
    }
    if !stores {
        return Effect::Keep;
    }
    let expiry = match expiry {
        StoreExpiry::Never => None,
        StoreExpiry::Keep => scene.current.and_then(|object| object.expiry),
        // A time that is past already is stored too: it replaces what was there, and nobody ever sees it.
        StoreExpiry::Time(time) => Some(time.resolve(scene.context.now.unix_ms)),
    };
    Effect::Put(NewObject { value: value.to_vec(), flags: 0, expiry, cas: None, attributes: Attributes::default() })
}

/// Writes `bytes` at `offset`, zero bytes before it where the value is shorter; returns the new length.
fn patch(scene: &mut Scene<'_>, offset: usize, bytes: &[u8], value_bytes_max: usize) -> Effect {
    let old = scene.current.map_or(&[][..], |object| object.value);
    let end = offset.saturating_add(bytes.len());
    let length = end.max(old.len());
    if length > value_bytes_max {
        CommandError::TOO_LARGE.encode(scene.reply);
        return Effect::Keep;
    }
    let mut value = Vec::with_capacity(length);
    value.extend_from_slice(old);
    value.resize(length, 0);
    value[offset..end].copy_from_slice(bytes);
    encode::count(scene.reply, length as u64);
    Effect::Put(with_value(scene.current, value))
}
