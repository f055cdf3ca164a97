//! How identifiers of `units`, which knows no serialisation, are written: as their number.

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
