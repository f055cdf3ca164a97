//! Every maximum of the monitor, with its unit and the reason for it.

/// Slices kept apart for each node and class. Older ones are merged: by then their requests are late by any measure.
pub const SLICES: usize = 8;

/// Verdicts that wait to be taken; the oldest is dropped. A caller polls each turn, nodes times classes are far fewer.
pub const VERDICTS_MAX: usize = 1024;

/// Nodes of a monitor: tickets name them with 16 bits, one value of which means "none".
pub const NODES_MAX: usize = u16::MAX as usize;

/// Bounds of a calibrated slice. Below 10 ms one straggler decides (ShortTail, figure 9); above 100 ms a stalled node
/// holds up clients for longer than they would wait.
pub const SLICE_US_MIN: u64 = 10_000;
pub const SLICE_US_MAX: u64 = 100_000;

/// Default bounds of the hedge delay, us. Below the lower one, scheduling alone sets hedges off; above the upper one a
/// client has noticed.
pub const HEDGE_US_MIN: u64 = 300;
pub const HEDGE_US_MAX: u64 = 30_000;

/// Back-off doubles at most so often.
pub const BACKOFF_LEVEL_MAX: u32 = 16;
