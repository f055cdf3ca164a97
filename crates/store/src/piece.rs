//! Pieces of striped objects: what a data chunk of theirs holds. A piece checks itself, read directly or decoded: that
//! it is right, and that it is of the stripe that is wanted, as a record does.
//!
//! Must not know: which object it is of.

use shorttail_units::StripeId;
use shorttail_wire::crc32c_of;

/// Bytes of checksum at the end of each piece.
pub const PIECE_CRC_BYTES: usize = 4;

/// Appends the checksum to a piece whose payload fills all but its last four bytes.
pub fn seal_piece(piece: &mut [u8], stripe: StripeId) {
    let payload_bytes = piece.len() - PIECE_CRC_BYTES;
    let crc = checksum(&piece[..payload_bytes], stripe);
    piece[payload_bytes..].copy_from_slice(&crc.to_le_bytes());
}

/// The payload of a piece of this stripe, if its checksum holds.
pub fn open_piece(piece: &[u8], stripe: StripeId) -> Option<&[u8]> {
    let (payload, crc) = piece.split_last_chunk::<PIECE_CRC_BYTES>()?;
    (checksum(payload, stripe) == u32::from_le_bytes(*crc)).then_some(payload)
}

fn checksum(payload: &[u8], stripe: StripeId) -> u32 {
    crc32c_of([&stripe.raw().to_le_bytes(), payload])
}

#[cfg(test)]
mod tests {
    use shorttail_units::Epoch;

    use super::*;

    #[test]
    fn a_piece_checks_itself_and_whose_it_is() {
        let [stripe, other] = [7, 8].map(|number| StripeId::new(Epoch(3), number));
        let mut piece = b"payload....".to_vec();
        seal_piece(&mut piece, stripe);
        assert_eq!(open_piece(&piece, stripe), Some(&b"payload"[..]));
        assert_eq!(open_piece(&piece, other), None);
        piece[0] ^= 1;
        assert_eq!(open_piece(&piece, stripe), None);
    }
}
