//! How values of `units`, which knows no serialisation, are written: identifiers as their number, codes as their name.

macro_rules! as_number {
    ($module:ident, $type:ident, $number:ident) => {
        pub mod $module {
            use serde::{Deserialize, Deserializer, Serialize, Serializer};
            use shorttail_units::$type;

            pub fn serialize<S: Serializer>(id: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                id.0.serialize(serializer)
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                $number::deserialize(deserializer).map($type)
            }
        }
    };
}

as_number!(cluster_id, ClusterId, u64);
as_number!(node_id, NodeId, u16);
as_number!(incarnation, Incarnation, u64);
as_number!(epoch, Epoch, u32);

/// A code as its name.
pub mod code_shape {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use shorttail_units::CodeShape;

    pub fn serialize<S: Serializer>(shape: &CodeShape, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(shape)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CodeShape, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
