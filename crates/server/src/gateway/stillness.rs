//! Whether a core stands still for good, while the rest of its process goes on.
//!
//! What it owned goes to others soon (`CoreReport::is_silent`), but clients and other gateways that are connected to it
//! would wait for ever. So the process ends, as after a panic, and they go elsewhere.
//!
//! Only time counts in which this was looked at: when the whole process, or its machine, was stopped no core is at
//! fault.
//!
//! Must not know: what a core does.

/// Microseconds that one look stands for at most: somewhat more than lies between two.
const LOOK_US: u64 = 30_000;

/// Microseconds of looks in a row at which a core said nothing: far longer than any turn or pause of one thread.
const STILL_US_MAX: u64 = 30_000_000;

/// How long cores said nothing.
#[derive(Debug, Default)]
pub struct Stillness {
    looked_us: u64,
    still_us: Vec<u64>,
}

impl Stillness {
    /// A core that stands still for good. `are_silent`: each core, in their order.
    pub fn look(&mut self, now_us: u64, are_silent: &[bool]) -> Option<usize> {
        let since_us = now_us.saturating_sub(std::mem::replace(&mut self.looked_us, now_us));
        let counted_us = since_us.min(LOOK_US);
        self.still_us.resize(are_silent.len(), 0);
        for (still_us, &is_silent) in self.still_us.iter_mut().zip(are_silent) {
            *still_us = if is_silent { *still_us + counted_us } else { 0 };
        }
        self.still_us.iter().position(|&still_us| still_us >= STILL_US_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_stands_still_for_good_when_it_was_seen_to_for_long() {
        let (mut stillness, mut now_us) = (Stillness::default(), 0);
        let mut look = |after_us: u64, are_silent: [bool; 2]| {
            now_us += after_us;
            stillness.look(now_us, &are_silent)
        };
        // The process was stopped: what its cores said last is old when it goes on.
        for _ in 0..10 {
            assert_eq!(look(3_600_000_000, [true, true]), None);
        }
        assert_eq!(look(25_000, [false, true]), None);
        for step in 0..STILL_US_MAX / 5_000 - 600 {
            assert_eq!(look(5_000, [step % 1_000 > 0, true]), None, "{step}");
        }
        let still = (0..600).find_map(|_| look(5_000, [true, true]));
        assert_eq!(still, Some(1), "the other one said something meanwhile");
    }
}
