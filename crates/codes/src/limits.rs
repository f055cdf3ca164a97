//! Every maximum of this crate.

pub use shorttail_units::{DATA_COUNT_MAX, LOCAL_COUNT_MAX, PARITY_COUNT_MAX};

/// Chunks in a stripe. A set of them fits the 128 bits of a pattern.
pub const CHUNK_COUNT_MAX: usize = DATA_COUNT_MAX + PARITY_COUNT_MAX;

/// Plans that one code remembers, of each kind. A few dozen patterns are in use at a time (which nodes are down or
/// slow, times the chunks they hold); an RS(10,4) has 1471 patterns in all. A full cache of RS(64,16) holds about 3 MB.
pub const PLAN_CACHE_ENTRIES_MAX: usize = 4096;

/// Chunks of high cost for which every choice is tried when a plan cannot do without any: more than the nodes that are
/// ever avoided for one stripe, and few enough for a plan to be made in less than a millisecond.
pub const HIGH_COST_TRIED_MAX: usize = 8;

/// Codes of different shapes that a cache keeps: a cluster uses one or two at a time.
pub const CODES_MAX: usize = 16;
