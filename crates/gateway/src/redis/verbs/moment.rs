//! When an object is to expire, as a client says it.
//!
//! What counts from now counts from when the owner carries it out: a request may wait for an owner, and the clocks of
//! two gateways may differ.

use serde::{Deserialize, Serialize};
use shorttail_units::UnixMs;

/// A time in milliseconds, of any sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Moment {
    /// Since 1970.
    At(i64),
    /// From now.
    In(i64),
}

impl Moment {
    pub fn is_positive(self) -> bool {
        let (Moment::At(ms) | Moment::In(ms)) = self;
        ms > 0
    }

    /// Milliseconds since 1970.
    pub fn at_ms(self, now: UnixMs) -> i64 {
        match self {
            Moment::At(ms) => ms,
            Moment::In(ms) => i64::try_from(now.0).unwrap_or(i64::MAX).saturating_add(ms),
        }
    }

    /// As an object keeps it; what was before 1970 is as past as 1970.
    pub fn resolve(self, now: UnixMs) -> UnixMs {
        UnixMs(u64::try_from(self.at_ms(now)).unwrap_or(0))
    }
}
