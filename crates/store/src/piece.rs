//! Pieces of striped objects: what a data chunk of theirs holds. A piece checks itself, read directly or decoded.
//!
//! Must not know: which object it is of.

/// Bytes of checksum at the end of each piece.
pub const PIECE_CRC_BYTES: usize = 4;

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
    fn a_piece_checks_itself() {
        let mut piece = b"payload....".to_vec();
        seal_piece(&mut piece);
        assert_eq!(open_piece(&piece), Some(&b"payload"[..]));
        piece[0] ^= 1;
        assert_eq!(open_piece(&piece), None);
    }
}
