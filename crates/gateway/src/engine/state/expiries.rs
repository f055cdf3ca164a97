//! When the objects of a stripe are over: enough to know how much of it is, without looking.
//!
//! Objects with different lives lie side by side: hours beside weeks. So it is known of some moments how many bytes are
//! over by then. What is over between two of them counts from the later one on: nothing that is alive is taken for
//! expired.

use shorttail_units::UnixMs;
use smallvec::SmallVec;

/// Moments that are told apart. Clients use few different lives at a time.
const MOMENTS_MAX: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Moment {
    at: UnixMs,
    /// Over by then, and not by the moment before.
    bytes: u64,
}

/// In the order of time.
#[derive(Clone, Debug, Default)]
pub struct Expiries(SmallVec<[Moment; MOMENTS_MAX + 1]>);

impl Expiries {
    pub fn add(&mut self, at: UnixMs, bytes: usize) {
        let bytes = bytes as u64;
        let place = self.0.partition_point(|moment| moment.at < at);
        match self.0.get_mut(place).filter(|moment| moment.at == at) {
            Some(moment) => moment.bytes += bytes,
            None => self.0.insert(place, Moment { at, bytes }),
        }
        if self.0.len() > MOMENTS_MAX {
            self.merge();
        }
    }

    pub fn over_bytes(&self, now: UnixMs) -> u64 {
        self.0.iter().take_while(|moment| moment.at <= now).map(|moment| moment.bytes).sum()
    }

    /// Puts off the moment for which the fewest bytes count as alive for the shortest time too long.
    fn merge(&mut self) {
        let too_long = |pair: &[Moment]| u128::from(pair[0].bytes) * u128::from(pair[1].at.0 - pair[0].at.0);
        let costs = self.0.windows(2).map(too_long).enumerate();
        let Some((place, _)) = costs.min_by_key(|&(_, cost)| cost) else { return };
        let earlier = self.0.remove(place);
        self.0[place].bytes += earlier.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1000;
    const HOUR: u64 = 3600 * SECOND;
    const RECORD_BYTES: usize = 100;

    /// 2600 records that were stored within 10 s, in turn with these lives.
    fn stored_with(lives: &[u64]) -> Expiries {
        let mut expiries = Expiries::default();
        for number in 0..2600 {
            let life = lives[number % lives.len()];
            expiries.add(UnixMs(number as u64 * 10 * SECOND / 2600 + life), RECORD_BYTES);
        }
        expiries
    }

    #[test]
    fn short_lives_are_over_beside_long_ones() {
        let expiries = stored_with(&[HOUR, 7 * 24 * HOUR]);
        assert_eq!(expiries.over_bytes(UnixMs(HOUR - 1)), 0);
        assert_eq!(expiries.over_bytes(UnixMs(HOUR + 10 * SECOND)), 1300 * RECORD_BYTES as u64);
        assert_eq!(expiries.over_bytes(UnixMs(7 * 24 * HOUR - 1)), 1300 * RECORD_BYTES as u64);
        assert_eq!(expiries.over_bytes(UnixMs(7 * 24 * HOUR + 10 * SECOND)), 2600 * RECORD_BYTES as u64);
    }

    /// As one month among hours: the hours count all the same.
    #[test]
    fn one_long_life_hides_nothing() {
        let mut expiries = Expiries::default();
        expiries.add(UnixMs(30 * 24 * HOUR), RECORD_BYTES);
        (0..2600).for_each(|number| expiries.add(UnixMs(HOUR + number), RECORD_BYTES));
        assert_eq!(expiries.over_bytes(UnixMs(HOUR + 2600)), 2600 * RECORD_BYTES as u64);
    }

    #[test]
    fn nothing_counts_before_it_is_over() {
        let lives: Vec<u64> = (0..97).map(|number| (number * number * 31 % 97 + 1) * SECOND).collect();
        let expiries = stored_with(&lives);
        for now in (0..120 * SECOND).step_by(100) {
            let over = (0..2600).filter(|&number| {
                let life = lives[number % lives.len()];
                number as u64 * 10 * SECOND / 2600 + life <= now
            });
            let over = (over.count() * RECORD_BYTES) as u64;
            let counted = expiries.over_bytes(UnixMs(now));
            assert!(counted <= over, "{counted} of {over} at {now}");
            // Lives that are all different are told apart into as many parts as there are moments.
            let part = 2600 * RECORD_BYTES as u64 / MOMENTS_MAX as u64;
            assert!(over - counted <= 2 * part, "{counted} of {over} at {now}");
        }
    }
}
