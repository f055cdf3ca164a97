//! Names of keys and contents of values.
//!
//! A value names what it is and fills the rest with bytes derived from that, so that any wrong byte is found:
//!
//! ```text
//! 0        4        8        12                    size(key, version)
//! | version | run    | key    | fill(run, key, version) ... |      little endian
//! ```
//!
//! A value shorter than its header holds the front of it. The run number tells values of this run from what an earlier
//! run left behind. Must not know: which versions are legal at the moment; see `history`.

use std::sync::Arc;

use crate::lifetimes::Lifetimes;
use crate::limits::KEY_BYTES_MAX;
use crate::sizes::SizeDistribution;
use crate::trace::Trace;

/// Bytes of the header: version, run, key.
const HEADER_BYTES: usize = 12;

/// Names and contents of one run.
#[derive(Clone, Debug)]
pub struct Names {
    pub prefix: String,
    pub key_sizes: SizeDistribution,
    pub value_sizes: SizeDistribution,
    /// Gives the sizes of values instead, if there is one.
    pub trace: Option<Arc<Trace>>,
    /// None: objects live for ever.
    pub lifetimes: Option<Lifetimes>,
    pub run: u32,
}

/// What a value says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inscription {
    /// Exactly the value of this version in this run.
    Version(u32),
    /// A sound value of the key, written by another run.
    OtherRun,
    /// Too short to say; `Names::is_version` can compare it.
    TooShort,
    Wrong(Fault),
}

/// Why a value is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    OtherKey(u32),
    Size { expected: usize, actual: usize },
    Content { offset: usize },
}

impl Names {
    /// Appends the name of key `index`: its number in base 36, a colon and letters up to the key's size. A key whose
    /// number alone is longer than its size is as long as the number, so no two keys are equal.
    pub fn write_key(&self, index: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(self.prefix.as_bytes());
        write_base36(index, out);
        let hash = mix(u64::from(index));
        let size = self.key_sizes.quantile(unit(mix(hash))).min(KEY_BYTES_MAX);
        if out.len() - start < size {
            out.push(b':');
        }
        let letters: [u8; 16] = std::array::from_fn(|nibble| b'a' + ((hash >> (4 * nibble)) % 16) as u8);
        while out.len() - start < size {
            let missing = size - (out.len() - start);
            out.extend_from_slice(&letters[..missing.min(letters.len())]);
        }
    }

    /// Size of a value in bytes.
    pub fn value_size(&self, index: u32, version: u32) -> usize {
        match (&self.trace, &self.value_sizes) {
            (Some(trace), _) => trace.value_size(index, version),
            (None, SizeDistribution::Fixed(bytes)) => *bytes,
            (None, sizes) => sizes.quantile(unit(mix(self.seed(index, version, self.run)))),
        }
    }

    /// Largest value that can occur.
    pub fn value_largest(&self) -> usize {
        self.trace.as_ref().map_or_else(|| self.value_sizes.largest(), |trace| trace.largest())
    }

    /// Time to live of a value in seconds; 0 is for ever.
    pub fn ttl_seconds(&self, index: u32, version: u32) -> u32 {
        let drawn = || unit(mix(!self.seed(index, version, self.run)));
        self.lifetimes.as_ref().map_or(0, |lifetimes| lifetimes.quantile(drawn()))
    }

    /// Appends the value of a version.
    pub fn write_value(&self, index: u32, version: u32, out: &mut Vec<u8>) {
        let size = self.value_size(index, version);
        let header = header(version, self.run, index);
        let (header_bytes, mut rest) = (size.min(HEADER_BYTES), size.saturating_sub(HEADER_BYTES));
        out.reserve(size);
        out.extend_from_slice(&header[..header_bytes]);
        let mut fill = Fill::new(self.seed(index, version, self.run));
        while rest > 0 {
            let taken = rest.min(FILL_BYTES);
            out.extend_from_slice(&fill.next()[..taken]);
            rest -= taken;
        }
    }

    /// Reads what `value`, found under key `index`, says about itself.
    pub fn inspect(&self, index: u32, value: &[u8]) -> Inscription {
        let Some((header, content)) = value.split_first_chunk::<HEADER_BYTES>() else { return Inscription::TooShort };
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (version, run, key) = (word(0), word(4), word(8));
        if key != index {
            return Inscription::Wrong(Fault::OtherKey(key));
        }
        if let Some(offset) = first_difference(self.seed(index, version, run), content) {
            return Inscription::Wrong(Fault::Content { offset: HEADER_BYTES + offset });
        }
        if run != self.run {
            return Inscription::OtherRun;
        }
        let expected = self.value_size(index, version);
        if expected != value.len() {
            return Inscription::Wrong(Fault::Size { expected, actual: value.len() });
        }
        Inscription::Version(version)
    }

    /// Whether `value` is all of the value of this version, however short.
    pub fn is_version(&self, index: u32, version: u32, value: &[u8]) -> bool {
        if self.value_size(index, version) != value.len() {
            return false;
        }
        match value.split_first_chunk::<HEADER_BYTES>() {
            None => header(version, self.run, index).starts_with(value),
            Some(_) => self.inspect(index, value) == Inscription::Version(version),
        }
    }

    fn seed(&self, index: u32, version: u32, run: u32) -> u64 {
        mix(mix(u64::from(index) << 32 | u64::from(version)) ^ u64::from(run))
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::OtherKey(key) => write!(f, "the value is of key number {key}"),
            Fault::Size { expected, actual } => write!(f, "the value has {actual} bytes instead of {expected}"),
            Fault::Content { offset } => write!(f, "the value differs from byte {offset} on"),
        }
    }
}

fn header(version: u32, run: u32, index: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&version.to_le_bytes());
    bytes[4..8].copy_from_slice(&run.to_le_bytes());
    bytes[8..].copy_from_slice(&index.to_le_bytes());
    bytes
}

fn first_difference(seed: u64, content: &[u8]) -> Option<usize> {
    let mut fill = Fill::new(seed);
    for (block_index, block) in content.chunks(FILL_BYTES).enumerate() {
        let expected = fill.next();
        if block != &expected[..block.len()] {
            let within = block.iter().zip(expected).position(|(a, b)| *a != b).unwrap_or(0);
            return Some(block_index * FILL_BYTES + within);
        }
    }
    None
}

/// Bytes that [`Fill`] gives at a time.
const FILL_BYTES: usize = 8 * FILL_LANES;
const FILL_LANES: usize = 8;

/// A stream of bytes that does not compress: Marsaglia's xorshift64 in lanes beside each other, which a processor runs
/// at the speed of its memory. Every byte of every read is compared with it.
struct Fill([u64; FILL_LANES]);

impl Fill {
    fn new(seed: u64) -> Self {
        // Zero is the one state that a lane would never leave.
        Fill(std::array::from_fn(|lane| mix(seed.wrapping_add(lane as u64)).max(1)))
    }

    fn next(&mut self) -> [u8; FILL_BYTES] {
        let mut bytes = [0; FILL_BYTES];
        for (lane, word) in self.0.iter_mut().zip(bytes.as_chunks_mut().0) {
            *lane ^= *lane << 13;
            *lane ^= *lane >> 7;
            *lane ^= *lane << 17;
            *word = lane.to_le_bytes();
        }
        bytes
    }
}

fn write_base36(number: u32, out: &mut Vec<u8>) {
    let (mut digits, mut at, mut rest) = ([0u8; 7], 7, number);
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdefghijklmnopqrstuvwxyz"[(rest % 36) as usize];
        rest /= 36;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// The finaliser of SplitMix64: spreads every bit over the word.
pub fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A number in [0, 1) from 53 bits of a hash.
fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn names(key: &str, value: &str) -> Names {
        Names {
            prefix: String::new(),
            key_sizes: key.parse().expect("size"),
            value_sizes: value.parse().expect("size"),
            trace: None,
            lifetimes: None,
            run: 77,
        }
    }

    fn value(names: &Names, index: u32, version: u32) -> Vec<u8> {
        let mut out = Vec::new();
        names.write_value(index, version, &mut out);
        out
    }

    fn key(names: &Names, index: u32) -> Vec<u8> {
        let mut out = Vec::new();
        names.write_key(index, &mut out);
        out
    }

    #[test]
    fn keys_have_their_size_and_no_two_are_equal() {
        let fixed = names("24", "0");
        assert!((0..10_000).all(|index| key(&fixed, index).len() == 24));
        for sizes in ["1", "24", "1-30", "etc-key"] {
            let names = names(sizes, "0");
            let seen: HashSet<_> = (0..50_000).map(|index| key(&names, index)).collect();
            assert_eq!(seen.len(), 50_000, "{sizes}");
            assert!(seen.iter().flatten().all(u8::is_ascii_graphic));
        }
    }

    #[test]
    fn a_value_says_what_it_is_at_every_size() {
        for size in [12usize, 13, 20, 100, 4096] {
            let names = names("24", &size.to_string());
            let value = value(&names, 5, 9);
            assert_eq!((value.len(), names.inspect(5, &value)), (size, Inscription::Version(9)));
        }
        let varied = names("24", "12-500");
        assert!(
            (1..500).all(|version| { varied.inspect(3, &value(&varied, 3, version)) == Inscription::Version(version) })
        );
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let names = names("24", "64");
        let good = value(&names, 5, 9);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(names.inspect(5, &bad), Inscription::Wrong(_)), "bit {bit}");
        }
    }

    #[test]
    fn a_swapped_cut_or_foreign_value_is_told_apart() {
        let names = names("24", "64");
        let good = value(&names, 5, 9);
        assert_eq!(names.inspect(6, &good), Inscription::Wrong(Fault::OtherKey(5)));
        assert_eq!(names.inspect(5, &good[..40]), Inscription::Wrong(Fault::Size { expected: 64, actual: 40 }));
        assert_eq!(names.inspect(5, &good[..11]), Inscription::TooShort);
        let earlier = Names { run: 1, ..names.clone() };
        assert_eq!(names.inspect(5, &value(&earlier, 5, 9)), Inscription::OtherRun);
    }

    #[test]
    fn a_short_value_is_compared_with_a_version() {
        for size in [1usize, 4, 11] {
            let names = names("24", &size.to_string());
            let short = value(&names, 5, 9);
            assert!(names.is_version(5, 9, &short));
            assert!(!names.is_version(5, 10, &short));
            assert!(!names.is_version(5, 9, &short[1..]));
        }
    }
}
