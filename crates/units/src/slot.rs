//! Hash slots, as Redis Cluster defines them: CRC16 (XMODEM) of the key or of its hash tag, modulo 16 384.

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
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let inner = &key[open + 1..];
    match inner.iter().position(|&byte| byte == b'}') {
        Some(length) if length > 0 => &inner[..length],
        _ => key,
    }
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, &byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

/// CRC16-XMODEM: polynomial 0x1021, initial value 0, not reflected.
static TABLE: [u16; 256] = {
    let mut table = [0u16; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
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
    fn only_a_non_empty_hash_tag_counts() {
        assert_eq!(Slot::of_key(b"{user1000}.following"), Slot::of_key(b"user1000"));
        assert_eq!(Slot::of_key(b"foo{bar}{zap}"), Slot::of_key(b"bar"));
        assert_eq!(Slot::of_key(b"foo{{bar}}zap"), Slot::of_key(b"{bar"));
        assert_ne!(Slot::of_key(b"foo{}{bar}"), Slot::of_key(b"bar"));
    }
}
