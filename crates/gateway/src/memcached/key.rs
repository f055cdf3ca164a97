//! A key that a command owns. Short keys lie in the command itself, so that most requests allocate nothing for them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Keys up to this many bytes are kept inline: `Key` is then 48 bytes, and nearly all keys of real workloads fit.
const INLINE_BYTES: usize = 46;

#[derive(Clone)]
pub enum Key {
    Inline { length: u8, bytes: [u8; INLINE_BYTES] },
    Boxed(Box<[u8]>),
}

impl Key {
    pub fn new(key: &[u8]) -> Self {
        if key.len() > INLINE_BYTES {
            return Key::Boxed(key.into());
        }
        let mut bytes = [0; INLINE_BYTES];
        bytes[..key.len()].copy_from_slice(key);
        Key::Inline { length: u8::try_from(key.len()).expect("at most 46"), bytes }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Key::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Key::Boxed(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.bytes().escape_ascii())
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.bytes())
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::forward::bytes::with(deserializer, Key::new)
    }
}
