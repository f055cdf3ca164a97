//! How values are written that know no serialisation, or a slow one only.

use std::fmt;

use serde::de::Visitor;

/// Bytes as one piece.
pub mod bytes {
    use serde::{Deserializer, Serializer};

    use super::Take;

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        with(deserializer, <[u8]>::to_vec)
    }

    /// What `make` makes of the bytes.
    pub fn with<'de, D: Deserializer<'de>, T>(deserializer: D, make: fn(&[u8]) -> T) -> Result<T, D::Error> {
        deserializer.deserialize_bytes(Take(make))
    }
}

struct Take<T>(fn(&[u8]) -> T);

impl<T> Visitor<'_> for Take<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<T, E> {
        Ok((self.0)(bytes))
    }
}

/// A time as its number.
pub mod maybe_unix_ms {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use shorttail_units::UnixMs;

    pub fn serialize<S: Serializer>(at: &Option<UnixMs>, serializer: S) -> Result<S::Ok, S::Error> {
        at.map(|at| at.0).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<UnixMs>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(UnixMs))
    }
}
