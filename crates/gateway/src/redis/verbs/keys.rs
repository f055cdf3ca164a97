//! A key as such: DEL, EXISTS, TOUCH, TYPE, and what OBJECT and MEMORY tell of it.

use serde::{Deserialize, Serialize};
use shorttail_units::CodeShape;
use shorttail_wire::resp::{encode, parse_i64};

use crate::command::{Access, Effect, ObjectRef, Wants};
use crate::redis::error::CommandError;
use crate::redis::key_command::{Family, Miss, Scene, Verb};

/// Commands that do not look into the value.
#[derive(Debug, Serialize, Deserialize)]
pub enum KeyVerb {
    Delete,
    Exists,
    Touch,
    Type,
    Encoding,
    Frequency,
    IdleTime,
    ReferenceCount,
    /// Node memory that the object takes, with its share of parity.
    MemoryUsage {
        key_bytes: usize,
        #[serde(with = "shorttail_wire::control::code_shape")]
        code: CodeShape,
    },
}

/// The longest value that Redis keeps in one allocation with its header.
const EMBEDDED_BYTES_MAX: usize = 44;
/// Bytes of an object's header in a chunk, and of its entry in the index.
const HEADER_BYTES: usize = 16;
const INDEX_BYTES: usize = 24;

const NO_FREQUENCY: CommandError = CommandError::fixed(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
     between policies at runtime LRU and LFU data will take some time to adjust.",
);

impl From<KeyVerb> for Verb {
    fn from(verb: KeyVerb) -> Self {
        Verb::Key(verb)
    }
}

impl KeyVerb {
    pub(in crate::redis) fn is_well_formed(&self) -> bool {
        match self {
            KeyVerb::MemoryUsage { key_bytes, .. } => *key_bytes <= crate::forward::KEY_BYTES_MAX,
            _ => true,
        }
    }
}

impl Family for KeyVerb {
    fn access(&self) -> Access {
        if matches!(self, KeyVerb::Delete) { Access::Write } else { Access::Read }
    }

    fn wants(&self) -> Wants {
        if matches!(self, KeyVerb::Encoding) { Wants::Value } else { Wants::Metadata }
    }

    fn touches(&self) -> bool {
        matches!(self, KeyVerb::Touch)
    }

    fn miss(&self) -> Miss {
        match self {
            KeyVerb::Delete | KeyVerb::MemoryUsage { .. } => Miss::Uncounted,
            KeyVerb::Exists | KeyVerb::Touch => Miss::Nothing,
            KeyVerb::Type | KeyVerb::Encoding | KeyVerb::Frequency => Miss::Told,
            KeyVerb::IdleTime | KeyVerb::ReferenceCount => Miss::Told,
        }
    }

    fn apply(&self, scene: Scene<'_>) -> Effect {
        let reply = scene.reply;
        let Some(object) = scene.current else {
            match self {
                KeyVerb::Delete | KeyVerb::Exists | KeyVerb::Touch => encode::integer(reply, 0),
                KeyVerb::Type => encode::simple(reply, b"none"),
                _ => encode::null(reply, scene.protocol),
            }
            return Effect::Keep;
        };
        match self {
            KeyVerb::Delete | KeyVerb::Exists | KeyVerb::Touch | KeyVerb::ReferenceCount => encode::integer(reply, 1),
            KeyVerb::Type => encode::simple(reply, b"string"),
            KeyVerb::Encoding => encode::bulk(reply, encoding(object)),
            KeyVerb::Frequency => NO_FREQUENCY.encode(reply),
            KeyVerb::IdleTime => encode::integer(reply, i64::from(object.idle_s)),
            KeyVerb::MemoryUsage { key_bytes, code } => {
                let chunk_bytes = key_bytes + object.value_bytes + HEADER_BYTES;
                let coded_bytes = (chunk_bytes * code.chunk_count()).div_ceil(code.data_count());
                encode::count(reply, (coded_bytes + INDEX_BYTES) as u64);
            }
        }
        if matches!(self, KeyVerb::Delete) { Effect::Delete } else { Effect::Keep }
    }
}

fn encoding(object: ObjectRef<'_>) -> &'static [u8] {
    if parse_i64(object.value).is_some() {
        b"int"
    } else if object.value.len() <= EMBEDDED_BYTES_MAX {
        b"embstr"
    } else {
        b"raw"
    }
}
