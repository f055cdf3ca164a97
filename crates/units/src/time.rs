//! Time as an argument: no crate below the server reads a clock.

/// Milliseconds since the Unix epoch; expiry is absolute and in this unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct UnixMs(pub u64);

/// The two clocks that a role is told with each input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Monotonic microseconds since an arbitrary origin: deadlines and latencies.
    pub mono_us: u64,
    /// Wall clock: expiry of objects, and nothing else.
    pub unix_ms: UnixMs,
}

impl UnixMs {
    pub fn seconds(self) -> u64 {
        self.0 / 1000
    }

    pub fn plus_ms(self, ms: u64) -> Self {
        UnixMs(self.0.saturating_add(ms))
    }
}
