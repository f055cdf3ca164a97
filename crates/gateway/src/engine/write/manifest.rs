//! The manifest of a striped object: which stripes hold its value.
//!
//! ```text
//! u64 value bytes | u64 first stripe | u32 stripe count | u32 piece bytes
//! u8 data count | u8 parity count | u8 local parities among them | u16 node ...
//! ```
//! All stripes of an object have consecutive ids, the same members and the same piece length, so a manifest is some
//! forty bytes however large the object. Their code is the object's own, so that one may be stored otherwise than
//! another. Each data piece ends in the CRC32C of the rest of it: a piece checks itself, read directly or decoded.

use std::sync::Arc;

pub use shorttail_store::piece::{PIECE_CRC_BYTES, open_piece, seal_piece};
use shorttail_store::record::{Record, RecordKind};
use shorttail_units::{CodeShape, NodeId, StripeId};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    pub value_bytes: usize,
    pub first: StripeId,
    pub stripe_count: u32,
    /// Bytes of a chunk of these stripes, checksum included.
    pub piece_bytes: usize,
    pub shape: CodeShape,
    pub members: Arc<[NodeId]>,
}

impl Manifest {
    const FIXED_BYTES: usize = 27;

    /// How a value of `value_bytes` is cut: as few stripes as chunks of at most `chunk_bytes_max` allow, all equally
    /// long, with at least `payload_bytes_min` of it in a piece, zeros included.
    pub fn cut(
        value_bytes: usize,
        data_count: usize,
        chunk_bytes_max: usize,
        payload_bytes_min: usize,
    ) -> (u32, usize) {
        let payload_max = chunk_bytes_max - PIECE_CRC_BYTES;
        let stripe_count = value_bytes.div_ceil(payload_max * data_count).max(1);
        let payload = value_bytes.div_ceil(stripe_count * data_count).max(payload_bytes_min.clamp(1, payload_max));
        (u32::try_from(stripe_count).expect("values are at most 1 GiB"), payload + PIECE_CRC_BYTES)
    }

    pub fn payload_bytes(&self) -> usize {
        self.piece_bytes - PIECE_CRC_BYTES
    }

    /// Byte range of the value that data piece `index` of stripe `number` holds; empty beyond the value's end.
    pub fn value_range(&self, number: u32, index: usize) -> std::ops::Range<usize> {
        let piece = number as usize * self.shape.data_count() + index;
        let start = (piece * self.payload_bytes()).min(self.value_bytes);
        start..(start + self.payload_bytes()).min(self.value_bytes)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::FIXED_BYTES + 2 * self.members.len());
        out.extend_from_slice(&(self.value_bytes as u64).to_le_bytes());
        out.extend_from_slice(&self.first.raw().to_le_bytes());
        out.extend_from_slice(&self.stripe_count.to_le_bytes());
        out.extend_from_slice(&(self.piece_bytes as u32).to_le_bytes());
        let shape = self.shape;
        out.extend([shape.data_count(), shape.parity_count(), shape.local_count()].map(|count| count as u8));
        self.members.iter().for_each(|node| out.extend_from_slice(&node.0.to_le_bytes()));
        out
    }

    /// That of a record, if it has one.
    pub fn of(record: &Record<'_>) -> Option<Self> {
        if record.kind == RecordKind::Manifest { Self::parse(record.value) } else { None }
    }

    /// `None` if the bytes are no manifest; the record's checksum held, so a bug or another version wrote them.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (fixed, nodes) = bytes.split_first_chunk::<{ Self::FIXED_BYTES }>()?;
        let word = |at: usize| u64::from_le_bytes(fixed[at..at + 8].try_into().expect("eight bytes"));
        let half = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
        let [data_count, parity_count, local_count] = [24, 25, 26].map(|at| usize::from(fixed[at]));
        let shape = CodeShape::from_counts(data_count, local_count, parity_count.checked_sub(local_count)?).ok()?;
        if nodes.len() != 2 * shape.chunk_count() || (half(20) as usize) <= PIECE_CRC_BYTES {
            return None;
        }
        Some(Manifest {
            value_bytes: usize::try_from(word(0)).ok()?,
            first: StripeId::from_raw(word(8)),
            stripe_count: half(16),
            piece_bytes: half(20) as usize,
            shape,
            members: nodes.chunks_exact(2).map(|node| NodeId(u16::from_le_bytes([node[0], node[1]]))).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(shape: &str, value_bytes: usize, payload_bytes_min: usize) -> Manifest {
        let shape: CodeShape = shape.parse().expect("a shape");
        let (stripe_count, piece_bytes) = Manifest::cut(value_bytes, shape.data_count(), 65_280, payload_bytes_min);
        let members = (1..=shape.chunk_count() as u16).map(NodeId).collect();
        Manifest { value_bytes, first: StripeId::from_raw(7), stripe_count, piece_bytes, shape, members }
    }

    #[test]
    fn manifests_survive_the_trip_and_cover_the_value() {
        for (shape, value_bytes) in ["rs:4+2", "rs:1+2", "lrc:4+2+1"]
            .into_iter()
            .flat_map(|shape| [0, 1, 3, 8193, 1 << 20, 5_000_001].map(|value_bytes| (shape, value_bytes)))
        {
            let manifest = manifest(shape, value_bytes, 1);
            assert_eq!(Manifest::parse(&manifest.encode()), Some(manifest.clone()));
            let data_count = manifest.shape.data_count();
            let pieces =
                (0..manifest.stripe_count).flat_map(|number| (0..data_count).map(move |index| (number, index)));
            let ranges: Vec<_> = pieces.map(|(number, index)| manifest.value_range(number, index)).collect();
            assert_eq!(ranges.iter().map(|range| range.len()).sum::<usize>(), value_bytes);
            assert!(manifest.piece_bytes <= 65_280);
        }
        assert_eq!(Manifest::parse(b"short"), None);
        let mut bytes = manifest("rs:4+2", 9, 1).encode();
        bytes[26] = 3;
        assert_eq!(Manifest::parse(&bytes), None, "more local parities than parities");
    }

    #[test]
    fn small_values_fill_their_pieces_with_zeros() {
        let padded = manifest("rs:4+2", 5000, 4096);
        assert_eq!((padded.stripe_count, padded.payload_bytes()), (1, 4096));
        assert_eq!([1, 2].map(|index| padded.value_range(0, index)), [4096..5000, 5000..5000]);
        let large = manifest("rs:4+2", 100_000, 4096);
        assert_eq!((large.stripe_count, large.payload_bytes()), (1, 25_000));
        assert_eq!(manifest("rs:4+2", 10, 1 << 20).piece_bytes, 65_280, "no chunk is longer");
    }
}
