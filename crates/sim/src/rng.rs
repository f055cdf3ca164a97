//! Random numbers that are the same on every machine: xoshiro256** seeded through SplitMix64.
//!
//! Must not know: clocks, the operating system's randomness. Only integer arithmetic and the exactly rounded float
//! operations (+ - * /) are used, never the platform's `ln`, so one seed is one run everywhere.
//!
//! Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators" (2021).

use std::ops::Range;

/// One in a million, the unit of [`Rng::chance_ppm`].
pub const PPM: u32 = 1_000_000;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    words: [u64; 4],
}

/// The next number of the SplitMix64 sequence, and the generator's step.
pub fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut word = *state;
    word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

impl Rng {
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Rng { words: std::array::from_fn(|_| split_mix(&mut state)) }
    }

    /// A stream of its own for one part of a run, so that a draw more in one part does not change the others.
    pub fn fork(&mut self) -> Self {
        Rng::new(self.next_u64())
    }

    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.words;
        let drawn = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let c = c ^ a;
        let d = d ^ b;
        self.words = [a ^ d, b ^ c, c ^ b << 17, d.rotate_left(45)];
        drawn
    }

    /// A number in `0..bound`, every one equally likely.
    ///
    /// # Panics
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below zero");
        // The last, incomplete run of `bound` numbers would favour the small ones.
        let unfair = (u64::MAX % bound + 1) % bound;
        loop {
            let drawn = self.next_u64();
            if drawn <= u64::MAX - unfair {
                return drawn % bound;
            }
        }
    }

    /// A number in the range.
    ///
    /// # Panics
    /// If the range is empty.
    pub fn range(&mut self, range: Range<u64>) -> u64 {
        assert!(range.start < range.end, "the range {range:?} is empty");
        range.start + self.below(range.end - range.start)
    }

    /// An index into something of `len` elements.
    ///
    /// # Panics
    /// If `len` is zero.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a usize")
    }

    /// True with a probability of `ppm` in a million.
    pub fn chance_ppm(&mut self, ppm: u32) -> bool {
        self.below(u64::from(PPM)) < u64::from(ppm)
    }

    /// One of the elements; `None` if there are none.
    pub fn choose<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() {
            return None;
        }
        Some(&from[self.index(from.len())])
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// An exponentially distributed delay with this mean, cut off at `max_us`.
    pub fn exponential_us(&mut self, mean_us: u64, max_us: u64) -> u64 {
        let delay = mean_us as f64 * self.negative_log();
        // A float becomes the nearest u64 it saturates to, so the cut-off is exact for every mean.
        (delay as u64).min(max_us)
    }

    /// `-ln(u)` for a uniform `u` in (0, 1]: the exponent exactly, the mantissa by the series of atanh (error < 1e-7).
    fn negative_log(&mut self) -> f64 {
        let drawn = self.next_u64() >> 11 | 1;
        let exponent = drawn.ilog2();
        let mantissa = drawn as f64 / (1u64 << exponent) as f64;
        let z = (mantissa - 1.0) / (mantissa + 1.0);
        let square = z * z;
        let mut power = z;
        let mut log = 0.0;
        for odd in [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0] {
            log += 2.0 * power / odd;
            power *= square;
        }
        f64::from(53 - exponent) * std::f64::consts::LN_2 - log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_published_sequences() {
        let mut state = 1_234_567;
        assert_eq!(split_mix(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(split_mix(&mut state), 3_203_168_211_198_807_973);
        // xoshiro256** from the state 1, 2, 3, 4.
        let mut rng = Rng { words: [1, 2, 3, 4] };
        assert_eq!([0; 4].map(|_| rng.next_u64()), [11520, 0, 1509978240, 1215971899390074240]);
    }

    #[test]
    fn numbers_stay_in_range_and_reach_its_ends() {
        let mut rng = Rng::new(7);
        let mut seen = [0u32; 5];
        for _ in 0..5_000 {
            seen[rng.range(10..15) as usize - 10] += 1;
        }
        assert!(seen.iter().all(|&count| (850..1_150).contains(&count)), "{seen:?}");
        assert_eq!(rng.below(1), 0);
    }

    #[test]
    fn chance_follows_its_probability() {
        let mut rng = Rng::new(8);
        let hits = (0..10_000).filter(|_| rng.chance_ppm(250_000)).count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
        assert!((0..1_000).all(|_| !rng.chance_ppm(0) && rng.chance_ppm(PPM)));
    }

    #[test]
    fn exponential_has_its_mean_and_its_maximum() {
        let mut rng = Rng::new(9);
        let delays: Vec<u64> = (0..20_000).map(|_| rng.exponential_us(1_000, 8_000)).collect();
        let mean = delays.iter().sum::<u64>() / delays.len() as u64;
        assert!((960..1_040).contains(&mean), "{mean}");
        assert_eq!(delays.iter().max(), Some(&8_000));
        let median = delays.iter().filter(|&&delay| delay < 693).count();
        assert!((9_700..10_300).contains(&median), "{median}");
    }

    #[test]
    fn negative_log_is_close_to_the_platforms() {
        let mut rng = Rng::new(10);
        for _ in 0..2_000 {
            let drawn = rng.clone().next_u64() >> 11 | 1;
            let exact = -(drawn as f64 / (1u64 << 53) as f64).ln();
            assert!((rng.negative_log() - exact).abs() < 1e-6);
        }
    }

    #[test]
    fn choose_and_shuffle_lose_nothing() {
        let mut rng = Rng::new(11);
        assert_eq!(rng.choose::<u8>(&[]), None);
        let mut items: Vec<u32> = (0..50).collect();
        rng.shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
