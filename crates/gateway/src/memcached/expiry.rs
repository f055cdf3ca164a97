//! memcached's expiration times, and the time that an object has left.

use shorttail_units::{Now, UnixMs};

/// Expiration times up to this many seconds (30 days) count from now, larger ones from 1970.
const RELATIVE_MAX_S: i32 = 60 * 60 * 24 * 30;

/// A time that is always over.
const PAST: UnixMs = UnixMs(1);

/// When an object with the expiration time `exptime` expires; `None`: never.
pub fn expiry(exptime: i32, now: Now) -> Option<UnixMs> {
    let Ok(seconds) = u64::try_from(exptime) else { return Some(PAST) };
    match exptime {
        0 => None,
        1..=RELATIVE_MAX_S => Some(now.unix_ms.plus_ms(seconds * 1000)),
        _ => Some(UnixMs(seconds * 1000)),
    }
}

/// Seconds that are left, rounded up; 0 if the time is over.
pub fn seconds_left(expiry: UnixMs, now: Now) -> u64 {
    expiry.0.saturating_sub(now.unix_ms.0).div_ceil(1000)
}
