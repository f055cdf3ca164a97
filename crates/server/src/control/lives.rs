//! Names of lives, which members draw when they begin: two differ.
//!
//! Processes that are started together may begin in the same microsecond, so the clock alone is not enough.
//!
//! ```text
//! incarnation   microseconds since 1970: 53 bits, until the year 2255 | random: 11 bits
//! life          random: 64 bits
//! ```

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use shorttail_units::Incarnation;

use crate::random::random_u64;

const RANDOM_BITS: u32 = 11;

/// An incarnation above those of all lives that began before.
///
/// Should the clock have gone backwards, the coordinator refuses with `Retired` and names a number to exceed.
///
/// # Errors
/// When the system gives no random number.
pub fn fresh_incarnation() -> io::Result<Incarnation> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(incarnation_at(u64::try_from(since.as_micros()).unwrap_or(u64::MAX), random_u64()?))
}

/// Of a gateway's process: lives are compared, and in no order.
///
/// # Errors
/// When the system gives no random number.
pub fn fresh_life() -> io::Result<u64> {
    random_u64()
}

fn incarnation_at(unix_us: u64, random: u64) -> Incarnation {
    let unix_us = unix_us.min(u64::MAX >> RANDOM_BITS);
    Incarnation((unix_us << RANDOM_BITS | random >> (u64::BITS - RANDOM_BITS)).max(1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const YEAR_US: u64 = 365 * 24 * 60 * 60 * 1_000_000;

    #[test]
    fn lives_that_begin_in_one_microsecond_differ_and_later_ones_are_above_them() {
        let now_us = 57 * YEAR_US;
        let randoms = (0..1 << RANDOM_BITS).map(|random: u64| random << (u64::BITS - RANDOM_BITS));
        let together: BTreeSet<Incarnation> = randoms.map(|random| incarnation_at(now_us, random)).collect();
        assert_eq!(together.len(), 1 << RANDOM_BITS);
        assert!(together.iter().all(|&life| life < incarnation_at(now_us + 1, 0)));
        assert!(together.iter().all(|&life| life > incarnation_at(now_us - 1, u64::MAX)));
        assert_ne!(fresh_life().expect("random"), fresh_life().expect("random"));
        let drawn: BTreeSet<u64> =
            (0..20).map(|_| fresh_incarnation().expect("random").0 % (1 << RANDOM_BITS)).collect();
        assert!(drawn.len() > 1, "{drawn:?}");
    }

    /// Without random bits an incarnation is microseconds alone.
    #[test]
    fn microseconds_alone_are_below_and_last_for_long() {
        assert!(incarnation_at(57 * YEAR_US, 0) > Incarnation(1000 * YEAR_US));
        assert!(incarnation_at(285 * YEAR_US, 0) < incarnation_at(285 * YEAR_US + 1, 0));
        assert_eq!(incarnation_at(1 << 60, u64::MAX), Incarnation(u64::MAX));
        assert_eq!(incarnation_at(0, 0), Incarnation(1), "never 0");
    }
}
