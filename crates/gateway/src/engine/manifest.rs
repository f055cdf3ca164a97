//! The manifest of a striped object: which stripes hold its value.
//!
//! ```text
//! u64 value bytes | u64 first stripe | u32 stripe count | u32 piece bytes | u8 data count | u8 parity count | u16 node ...
//! ```
//! All stripes of an object have consecutive ids, the same members and the same piece length, so a manifest is some
//! forty bytes however large the object. Each data piece ends in the CRC32C of the rest of it: a piece checks itself,
//! read directly or decoded.

use std::sync::Arc;

use shorttail_units::{NodeId, StripeId};

/// Bytes of checksum at the end of each piece.
pub const PIECE_CRC_BYTES: usize = 4;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    pub value_bytes: usize,
    pub first: StripeId,
    pub stripe_count: u32,
    /// Bytes of a chunk of these stripes, checksum included.
    pub piece_bytes: usize,
    pub data_count: usize,
    pub parity_count: usize,
    pub members: Arc<[NodeId]>,
}

impl Manifest {
    const FIXED_BYTES: usize = 26;

    /// How a value of `value_bytes` is cut: as few stripes as chunks of at most `chunk_bytes_max` allow, all equally long.
    pub fn shape(value_bytes: usize, data_count: usize, chunk_bytes_max: usize) -> (u32, usize) {
        let payload_max = chunk_bytes_max - PIECE_CRC_BYTES;
        let stripe_count = value_bytes.div_ceil(payload_max * data_count).max(1);
        let payload = value_bytes.div_ceil(stripe_count * data_count).max(1);
        (u32::try_from(stripe_count).expect("values are at most 1 GiB"), payload + PIECE_CRC_BYTES)
    }

    pub fn payload_bytes(&self) -> usize {
        self.piece_bytes - PIECE_CRC_BYTES
    }

    /// Byte range of the value that data piece `index` of stripe `number` holds; empty beyond the value's end.
    pub fn value_range(&self, number: u32, index: usize) -> std::ops::Range<usize> {
        let piece = number as usize * self.data_count + index;
        let start = (piece * self.payload_bytes()).min(self.value_bytes);
        start..(start + self.payload_bytes()).min(self.value_bytes)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::FIXED_BYTES + 2 * self.members.len());
        out.extend_from_slice(&(self.value_bytes as u64).to_le_bytes());
        out.extend_from_slice(&self.first.raw().to_le_bytes());
        out.extend_from_slice(&self.stripe_count.to_le_bytes());
        out.extend_from_slice(&(self.piece_bytes as u32).to_le_bytes());
        out.push(self.data_count as u8);
        out.push(self.parity_count as u8);
        self.members.iter().for_each(|node| out.extend_from_slice(&node.0.to_le_bytes()));
        out
    }

    /// `None` if the bytes are no manifest; the record's checksum held, so a bug or another version wrote them.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (fixed, nodes) = bytes.split_first_chunk::<{ Self::FIXED_BYTES }>()?;
        let word = |at: usize| u64::from_le_bytes(fixed[at..at + 8].try_into().expect("eight bytes"));
        let half = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes"));
        let (data_count, parity_count) = (usize::from(fixed[24]), usize::from(fixed[25]));
        if nodes.len() != 2 * (data_count + parity_count) || (half(20) as usize) <= PIECE_CRC_BYTES || data_count == 0 {
            return None;
        }
        Some(Manifest {
            value_bytes: usize::try_from(word(0)).ok()?,
            first: StripeId::from_raw(word(8)),
            stripe_count: half(16),
            piece_bytes: half(20) as usize,
            data_count,
            parity_count,
            members: nodes.chunks_exact(2).map(|node| NodeId(u16::from_le_bytes([node[0], node[1]]))).collect(),
        })
    }
}

/// Appends the checksum to a piece whose payload fills all but its last four bytes.
pub fn seal_piece(piece: &mut [u8]) {
    let payload_bytes = piece.len() - PIECE_CRC_BYTES;
    let crc = crc32c::crc32c(&piece[..payload_bytes]);
    piece[payload_bytes..].copy_from_slice(&crc.to_le_bytes());
}

/// The payload of a piece, if its checksum holds.
pub fn open_piece(piece: &[u8]) -> Option<&[u8]> {
    let (payload, crc) = piece.split_last_chunk::<PIECE_CRC_BYTES>()?;
    (crc32c::crc32c(payload) == u32::from_le_bytes(*crc)).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_survive_the_trip_and_cover_the_value() {
        for value_bytes in [1, 3, 8193, 1 << 20, 5_000_001] {
            let (stripe_count, piece_bytes) = Manifest::shape(value_bytes, 4, 65_280);
            let manifest = Manifest {
                value_bytes,
                first: StripeId::from_raw(7),
                stripe_count,
                piece_bytes,
                data_count: 4,
                parity_count: 2,
                members: [1, 2, 3, 4, 5, 6].map(NodeId).into(),
            };
            assert_eq!(Manifest::parse(&manifest.encode()), Some(manifest.clone()));
            let pieces = (0..stripe_count).flat_map(|number| (0..4).map(move |index| (number, index)));
            let covered: usize = pieces.map(|(number, index)| manifest.value_range(number, index).len()).sum();
            assert_eq!(covered, value_bytes);
            assert!(piece_bytes <= 65_280);
        }
        assert_eq!(Manifest::parse(b"short"), None);
    }

    #[test]
    fn a_piece_checks_itself() {
        let mut piece = b"payload....".to_vec();
        seal_piece(&mut piece);
        assert_eq!(open_piece(&piece), Some(&b"payload"[..]));
        piece[0] ^= 1;
        assert_eq!(open_piece(&piece), None);
    }
}
