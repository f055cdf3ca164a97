//! Which key an operation touches: uniform, zipfian, latest, hotspot.
//!
//! Source: YCSB's generators. `zipfian` is its scrambled one: a rank is drawn by Gray's method ("Quickly Generating
//! Billion-Record Synthetic Databases", SIGMOD 1994) over ten thousand million items and its FNV hash picks the key,
//! so popularity does not depend on the number of keys. `latest` draws the rank over the keys that exist, newest first.
//! Deviation: exponents from 1 on, which Gray's method cannot draw, are drawn by rejection over the existing keys.

use rand::Rng;
use rand::distr::Distribution;
use rand::rngs::SmallRng;

/// Items that YCSB's scrambled generator draws its ranks from.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// Terms of zeta that are summed one by one; the rest is an integral, exact to 1e-9 here.
const ZETA_TERMS: u64 = 1_000_000;

/// How keys are chosen, as told by the user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyChoice {
    Uniform,
    /// YCSB's scrambled zipfian with exponent `theta`.
    Zipfian {
        theta: f64,
    },
    /// The newest keys most, with exponent `theta` below 1.
    Latest {
        theta: f64,
    },
    /// A share `operations` of all operations goes to a share `keys` of the keys.
    Hotspot {
        keys: f64,
        operations: f64,
    },
}

/// Draws keys.
pub struct KeyChooser {
    choice: KeyChoice,
    gray: Option<Gray>,
}

impl KeyChooser {
    /// `count` is the number of keys at the start; it only saves work, `draw` is told the current one.
    pub fn new(choice: KeyChoice, count: u32) -> Self {
        let gray = match choice {
            KeyChoice::Zipfian { theta } if theta < 1.0 => Some(Gray::new(SCRAMBLED_ITEMS, theta)),
            KeyChoice::Latest { theta } => Some(Gray::new(u64::from(count.max(1)), theta)),
            _ => None,
        };
        KeyChooser { choice, gray }
    }

    /// A key below `count`, which must not be 0.
    pub fn draw(&mut self, rng: &mut SmallRng, count: u32) -> u32 {
        match (self.choice, &mut self.gray) {
            (KeyChoice::Zipfian { .. }, Some(gray)) => scramble(gray.rank(rng.random()), count),
            (KeyChoice::Zipfian { theta }, None) => {
                let ranks = rand_distr::Zipf::new(f64::from(count), theta).expect("theta and count were checked");
                scramble(ranks.sample(rng) as u64 - 1, count)
            }
            (KeyChoice::Latest { .. }, Some(gray)) => {
                gray.grow(u64::from(count));
                let rank = gray.rank(rng.random()).min(u64::from(count) - 1);
                count - 1 - u32::try_from(rank).expect("below count")
            }
            (KeyChoice::Hotspot { keys, operations }, _) => hotspot(rng, count, keys, operations),
            (KeyChoice::Uniform | KeyChoice::Latest { .. }, _) => rng.random_range(0..count),
        }
    }
}

fn hotspot(rng: &mut SmallRng, count: u32, keys: f64, operations: f64) -> u32 {
    let hot = ((f64::from(count) * keys) as u32).clamp(1, count);
    if hot == count || rng.random::<f64>() < operations {
        rng.random_range(0..hot)
    } else {
        rng.random_range(hot..count)
    }
}

/// YCSB's `Utils.hash` (FNV over the eight bytes), modulo the number of keys.
fn scramble(rank: u64, count: u32) -> u32 {
    let hash = rank
        .to_le_bytes()
        .iter()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211));
    // YCSB takes the absolute value of Java's signed hash.
    let index = hash.cast_signed().unsigned_abs() % u64::from(count);
    u32::try_from(index).expect("below a u32")
}

/// Gray's approximation of Zipf's law: ranks from 0, exponent below 1.
struct Gray {
    items: u64,
    theta: f64,
    zeta: f64,
    eta: f64,
}

impl Gray {
    fn new(items: u64, theta: f64) -> Self {
        let mut gray = Gray { items, theta, zeta: zeta(items, theta), eta: 0.0 };
        gray.set_eta();
        gray
    }

    fn set_eta(&mut self) {
        let share_of_two = zeta(2, self.theta) / self.zeta;
        self.eta = (1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta)) / (1.0 - share_of_two);
    }

    fn grow(&mut self, items: u64) {
        if items <= self.items {
            return;
        }
        self.zeta += (self.items + 1..=items).map(|item| (item as f64).powf(-self.theta)).sum::<f64>();
        self.items = items;
        self.set_eta();
    }

    fn rank(&self, u: f64) -> u64 {
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        let rank = self.items as f64 * (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - self.theta));
        (rank as u64).min(self.items - 1)
    }
}

/// Sum of `1 / i^theta` for `i` from 1 to `items`; past [`ZETA_TERMS`] by Euler and Maclaurin.
fn zeta(items: u64, theta: f64) -> f64 {
    let summed = items.min(ZETA_TERMS);
    let head: f64 = (1..=summed).map(|item| (item as f64).powf(-theta)).sum();
    if summed == items {
        return head;
    }
    let (from, to) = (summed as f64, items as f64);
    let integral = (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta);
    head + integral + (to.powf(-theta) - from.powf(-theta)) / 2.0
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const DRAWS: u32 = 400_000;

    fn counts(choice: KeyChoice, keys: u32) -> Vec<u32> {
        let (mut chooser, mut rng) = (KeyChooser::new(choice, keys), SmallRng::seed_from_u64(7));
        let mut counts = vec![0; keys as usize];
        for _ in 0..DRAWS {
            counts[chooser.draw(&mut rng, keys) as usize] += 1;
        }
        counts
    }

    fn share(count: u32) -> f64 {
        f64::from(count) / f64::from(DRAWS)
    }

    #[test]
    fn zeta_is_the_constant_of_ycsb() {
        assert!((zeta(SCRAMBLED_ITEMS, 0.99) - 26.469_028_201_783_02).abs() < 1e-5);
        assert!((zeta(3, 0.5) - (1.0 + 2f64.powf(-0.5) + 3f64.powf(-0.5))).abs() < 1e-12);
    }

    #[test]
    fn the_most_popular_zipfian_keys_have_the_shares_of_the_law() {
        let keys = 1_000_000;
        let counts = counts(KeyChoice::Zipfian { theta: 0.99 }, keys);
        // The rest of the law spreads evenly over all keys: nothing here.
        for (rank, tolerance) in [(0u64, 0.002), (1, 0.002)] {
            let law = ((rank + 1) as f64).powf(-0.99) / zeta(SCRAMBLED_ITEMS, 0.99);
            let seen = share(counts[scramble(rank, keys) as usize]);
            assert!((seen - law).abs() < tolerance, "rank {rank}: {seen} beside {law}");
        }
    }

    #[test]
    fn gray_ranks_follow_the_law_in_the_bulk_too() {
        let (items, theta) = (10_000u64, 0.8);
        let gray = Gray::new(items, theta);
        let below = |rank: u64| (0..DRAWS).filter(|i| gray.rank(f64::from(*i) / f64::from(DRAWS)) < rank).count();
        for rank in [1u64, 2, 100, 1_000, 5_000] {
            let law = zeta(rank, theta) / zeta(items, theta);
            assert!((below(rank) as f64 / f64::from(DRAWS) - law).abs() < 0.02, "rank {rank}");
        }
    }

    #[test]
    fn an_exponent_above_one_follows_the_law() {
        let keys = 1_000;
        let counts = counts(KeyChoice::Zipfian { theta: 1.5 }, keys);
        let law = 1.0 / zeta(u64::from(keys), 1.5);
        let seen = share(counts[scramble(0, keys) as usize]);
        assert!((seen - law).abs() < 0.01, "{seen} beside {law}");
    }

    #[test]
    fn uniform_reaches_every_key_equally() {
        let counts = counts(KeyChoice::Uniform, 100);
        assert!(counts.iter().all(|&count| (share(count) - 0.01).abs() < 0.002));
    }

    #[test]
    fn latest_prefers_the_newest_and_follows_growth() {
        let counts = counts(KeyChoice::Latest { theta: 0.99 }, 1_000);
        let law = 1.0 / zeta(1_000, 0.99);
        assert!((share(counts[999]) - law).abs() < 0.01);
        let mut grown = Gray::new(10, 0.99);
        grown.grow(1_000);
        assert!((grown.zeta - zeta(1_000, 0.99)).abs() < 1e-9);
    }

    #[test]
    fn a_hotspot_gets_its_share() {
        let counts = counts(KeyChoice::Hotspot { keys: 0.2, operations: 0.8 }, 1_000);
        assert!((share(counts[..200].iter().sum()) - 0.8).abs() < 0.01);
        assert!(counts[200..].iter().all(|&count| count > 0));
    }
}
