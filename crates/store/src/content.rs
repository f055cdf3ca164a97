//! Is what was read or decoded the content of a data chunk? Every byte of one is under a checksum of its own, or zero.
//!
//! Must not know: where the bytes come from.

use shorttail_units::StripeId;
use shorttail_wire::node::ChunkKind;

use crate::piece::open_piece;
use crate::record::records;

/// Bytes in use of the whole payload of a data chunk; `None` when a checksum does not hold.
///
/// Packed: records from the first byte on, then zeros. Striped: one piece, all of it in use.
pub fn used_bytes(kind: ChunkKind, stripe: StripeId, payload: &[u8]) -> Option<usize> {
    if kind == ChunkKind::Striped {
        return open_piece(payload, stripe).map(|_| payload.len());
    }
    let used = records(payload, stripe).map(|(.., length)| length).sum();
    payload[used..].iter().all(|&byte| byte == 0).then_some(used)
}

#[cfg(test)]
mod tests {
    use shorttail_units::{Epoch, Version};

    use super::*;
    use crate::record::Record;

    #[test]
    fn a_flipped_bit_anywhere_shows() {
        let stripe = StripeId::new(Epoch(2), 7);
        let record = Record::object(b"key", b"value", Version::new(Epoch(2), 9));
        let length = record.encoded_bytes(Epoch(2));
        let mut chunk = vec![0; 2 * length + 20];
        record.encode(stripe, &mut chunk[..length]);
        record.encode(stripe, &mut chunk[length..2 * length]);
        assert_eq!(used_bytes(ChunkKind::Packed, stripe, &chunk), Some(2 * length));
        for bit in 0..chunk.len() * 8 {
            chunk[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(used_bytes(ChunkKind::Packed, stripe, &chunk), None, "bit {bit}");
            chunk[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(used_bytes(ChunkKind::Packed, stripe, &[0; 9]), Some(0));
        assert_eq!(used_bytes(ChunkKind::Striped, stripe, &[1; 9]), None);
    }
}
