//! Hash slots, as Redis Cluster defines them: CRC16 (XMODEM) of the key or of its hash tag, modulo 16 384. And which of
//! them a partition has.

use std::ops::Range;

use crate::PartitionId;

/// Number of hash slots.
pub const SLOT_COUNT: usize = 16_384;

/// A hash slot, below [`SLOT_COUNT`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Slot(u16);

impl Slot {
    /// Slot of a key. Only the part between the first `{` and the next `}` counts, if it is not empty.
    pub fn of_key(key: &[u8]) -> Self {
        Slot(crc16(hash_tag(key)) & (SLOT_COUNT as u16 - 1))
    }

    pub fn new(number: u16) -> Option<Self> {
        (usize::from(number) < SLOT_COUNT).then_some(Slot(number))
    }

    pub fn number(self) -> u16 {
        self.0
    }

    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The partition that it is of, of so many: they are contiguous ranges, as equal as can be.
    pub fn partition(self, partition_count: usize) -> PartitionId {
        PartitionId((self.index() * partition_count / SLOT_COUNT) as u16)
    }
}

impl PartitionId {
    /// The numbers of its slots, of so many partitions: the inverse of [`Slot::partition`]. Of more partitions than
    /// there are slots some have none.
    pub fn slots(self, partition_count: usize) -> Range<u16> {
        let begin = |partition: usize| (partition * SLOT_COUNT).div_ceil(partition_count) as u16;
        begin(usize::from(self.0))..begin(usize::from(self.0) + 1)
    }
}

fn hash_tag(key: &[u8]) -> &[u8] {
    // Nearly all keys end here: this looks at many bytes at a time.
    if !key.contains(&b'{') {
        return key;
    }
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let inner = &key[open + 1..];
    match inner.iter().position(|&byte| byte == b'}') {
        Some(length) if length > 0 => &inner[..length],
        _ => key,
    }
}

/// CRC16-XMODEM: polynomial 0x1021, initial value 0, not reflected. Every request needs it, so it takes eight bytes at
/// a time: `TABLES[n]` is what a byte does to the sum when `n` more bytes follow it.
fn crc16(bytes: &[u8]) -> u16 {
    let (eights, rest) = bytes.as_chunks::<8>();
    let sum = eights.iter().fold(0, |sum: u16, eight| {
        let [high, low] = sum.to_be_bytes();
        let [first, second, following @ ..] = *eight;
        let begin = TABLES[7][usize::from(first ^ high)] ^ TABLES[6][usize::from(second ^ low)];
        following.iter().zip(TABLES[..6].iter().rev()).fold(begin, |sum, (&byte, table)| sum ^ table[usize::from(byte)])
    });
    rest.iter().fold(sum, |sum, &byte| (sum << 8) ^ TABLES[0][usize::from((sum >> 8) as u8 ^ byte)])
}

static TABLES: [[u16; 256]; 8] = {
    let mut tables = [[0u16; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 0x8000 != 0 { (sum << 1) ^ 0x1021 } else { sum << 1 };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut following = 1;
    while following < 8 {
        let mut byte = 0;
        while byte < 256 {
            let sum = tables[following - 1][byte];
            tables[following][byte] = (sum << 8) ^ tables[0][(sum >> 8) as usize];
            byte += 1;
        }
        following += 1;
    }
    tables
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        // Values that `CLUSTER KEYSLOT` answers.
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(Slot::of_key(b"foo").number(), 12182);
        assert_eq!(Slot::of_key(b"somekey").number(), 11058);
    }

    #[test]
    fn partitions_have_the_slots_that_are_of_them() {
        for partition_count in [1, 3, 4, 7, 16, 1000, SLOT_COUNT, SLOT_COUNT + 1] {
            for slot in (0..SLOT_COUNT as u16).map(Slot) {
                let slots = slot.partition(partition_count).slots(partition_count);
                assert!(slots.contains(&slot.number()), "{slot:?} of {partition_count} partitions");
            }
            let all = (0..partition_count as u16).flat_map(|partition| PartitionId(partition).slots(partition_count));
            assert!(all.eq(0..SLOT_COUNT as u16), "{partition_count} partitions");
        }
    }

    #[test]
    fn eight_bytes_at_a_time_are_the_same_as_one() {
        let plain = |bytes: &[u8]| {
            bytes.iter().fold(0u16, |sum, &byte| {
                (0..8).fold(
                    sum ^ u16::from(byte) << 8,
                    |sum, _| if sum & 0x8000 != 0 { (sum << 1) ^ 0x1021 } else { sum << 1 },
                )
            })
        };
        let bytes: Vec<u8> = (0..=255u8).map(|byte| byte.wrapping_mul(167).wrapping_add(13)).collect();
        for length in 0..=bytes.len() {
            assert_eq!(crc16(&bytes[..length]), plain(&bytes[..length]), "{length} bytes");
        }
    }

    #[test]
    fn only_a_non_empty_hash_tag_counts() {
        assert_eq!(Slot::of_key(b"{user1000}.following"), Slot::of_key(b"user1000"));
        assert_eq!(Slot::of_key(b"foo{bar}{zap}"), Slot::of_key(b"bar"));
        assert_eq!(Slot::of_key(b"foo{{bar}}zap"), Slot::of_key(b"{bar"));
        assert_ne!(Slot::of_key(b"foo{}{bar}"), Slot::of_key(b"bar"));
    }
}
