//! Maxima of faults, each with its unit and reason.

/// Delay of one reply in microseconds: ten minutes, long after everyone gave up on it.
pub const DELAY_US_MAX: u64 = 600_000_000;
/// Length of a phase, of a ramp and of a fault as a whole in microseconds: a day.
pub const DURATION_US_MAX: u64 = 86_400_000_000;
/// A whole, in millionths.
pub const SHARE_PPM_MAX: u32 = 1_000_000;
/// Bytes a second: more than any network has.
pub const BANDWIDTH_MAX: u64 = 1 << 40;
/// Bits that one order flips: as many as find any use in a node of a few GiB.
pub const FLIP_COUNT_MAX: u32 = 1_000_000;
