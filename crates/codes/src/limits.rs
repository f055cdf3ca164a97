//! Every maximum of this crate.

/// Data chunks in a stripe, at least one.
pub const DATA_COUNT_MAX: usize = 64;

/// Parity chunks in a stripe, possibly none.
pub const PARITY_COUNT_MAX: usize = 16;

/// Chunks in a stripe. A set of them fits the 128 bits of a pattern.
pub const CHUNK_COUNT_MAX: usize = DATA_COUNT_MAX + PARITY_COUNT_MAX;

/// Plans that one code remembers, of each kind. A few dozen patterns are in use at a time (which nodes are down or
/// slow, times the chunks they hold); an RS(10,4) has 1471 patterns in all. A full cache of RS(64,16) holds about 3 MB.
pub const PLAN_CACHE_ENTRIES_MAX: usize = 4096;
