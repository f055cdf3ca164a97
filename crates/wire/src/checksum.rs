//! CRC-32C, the checksum of everything that is stored or sent (Castagnoli's polynomial, as in iSCSI, RFC 3720 B.4).

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use crc_fast::Digest;

/// The CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_of([bytes])
}

/// The CRC-32C of the parts, one after the other.
pub fn crc32c_of<const PARTS: usize>(parts: [&[u8]; PARTS]) -> u32 {
    let mut digest = Digest::new(Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bit by bit, as the polynomial says.
    fn slowly(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |sum, &byte| {
            (0..8).fold(sum ^ u32::from(byte), |sum, _| (sum >> 1) ^ (0x82f6_3b78 * (sum & 1)))
        })
    }

    #[test]
    fn the_published_sums() {
        // RFC 3720 B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|at| at as u8)), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    /// Each length has a path of its own through the vector units, and so may each place of a cut.
    #[test]
    fn every_short_length() {
        let bytes: Vec<u8> = (0..1100).map(|at: u32| (at * 31 % 251) as u8).collect();
        for length in 0..bytes.len() {
            let cut = length / 3;
            assert_eq!(crc32c(&bytes[..length]), slowly(&bytes[..length]), "{length} bytes");
            assert_eq!(
                crc32c_of([&bytes[..cut], &bytes[cut..length]]),
                slowly(&bytes[..length]),
                "{length} cut at {cut}"
            );
        }
    }

    proptest! {
        #[test]
        fn parts_are_one_after_the_other(parts in any::<[Vec<u8>; 3]>(), long in prop::collection::vec(any::<u8>(), 0..70_000)) {
            let whole = [&parts[0][..], &parts[1], &long, &parts[2]].concat();
            prop_assert_eq!(crc32c_of([&parts[0], &parts[1], &long, &parts[2]]), slowly(&whole));
        }
    }
}
