//! Remembers plans by pattern: making one costs far more than decoding a small chunk with it.
//!
//! Bounded by two generations: when the young one is full it becomes the old one, whose entries come back when used.
//! Reading takes a shared lock and no allocation; nothing depends on the order of a hash map.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use crate::chunk_set::ChunkSet;
use crate::planner::Readable;

/// What a plan is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    pub readable: Readable,
    pub wanted: ChunkSet,
}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Odd constants with well-spread bits: the fractional digits of square roots of primes. The products do not
        // wait for each other.
        let halves = |set: ChunkSet| [set.bits() as u64, (set.bits() >> 64) as u64];
        let [a, b] = halves(self.readable.low);
        let [c, d] = halves(self.wanted);
        let [e, f] = halves(self.readable.high);
        state.write_u64(
            a.wrapping_mul(0x6a09_e667_f3bc_c909)
                ^ b.wrapping_mul(0xbb67_ae85_84ca_a73b)
                ^ c.wrapping_mul(0x3c6e_f372_fe94_f82b)
                ^ d.wrapping_mul(0xa54f_f53a_5f1d_36f1)
                ^ e.wrapping_mul(0x510e_527f_ade6_82d1)
                ^ f.wrapping_mul(0x9b05_688c_2b3e_6c1f),
        );
    }
}

/// Takes the mixed bits of a [`Pattern`] as they are. Patterns come from failures, not from people who look for
/// collisions.
#[derive(Default)]
struct PatternHasher(u64);

impl Hasher for PatternHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, bits: u64) {
        self.0 = self.0.rotate_left(8) ^ bits;
    }

    fn finish(&self) -> u64 {
        // The high bits of a product are the good ones, and the map takes the low ones too.
        self.0 ^ self.0 >> 32
    }
}

type Entries<V> = HashMap<Pattern, Arc<V>, BuildHasherDefault<PatternHasher>>;

/// Plans of one kind for one code.
pub struct PlanCache<V> {
    generations: RwLock<Generations<V>>,
    generation_entries_max: usize,
}

struct Generations<V> {
    young: Entries<V>,
    old: Entries<V>,
}

impl<V> PlanCache<V> {
    /// A cache of at most `entries_max` plans, at least two.
    pub fn new(entries_max: usize) -> Self {
        let generations = Generations { young: Entries::default(), old: Entries::default() };
        PlanCache { generations: RwLock::new(generations), generation_entries_max: (entries_max / 2).max(1) }
    }

    /// The plan for a pattern, made if it is not remembered. Failures are not remembered.
    pub fn get_or_make<E>(&self, pattern: Pattern, make: impl FnOnce() -> Result<V, E>) -> Result<Arc<V>, E> {
        let old = {
            // A holder of the lock that panicked left whole entries behind.
            let generations = self.generations.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(plan) = generations.young.get(&pattern) {
                return Ok(Arc::clone(plan));
            }
            generations.old.get(&pattern).cloned()
        };
        let plan = match old {
            Some(plan) => plan,
            None => Arc::new(make()?),
        };
        self.insert(pattern, &plan);
        Ok(plan)
    }

    fn insert(&self, pattern: Pattern, plan: &Arc<V>) {
        let mut generations = self.generations.write().unwrap_or_else(PoisonError::into_inner);
        if generations.young.len() >= self.generation_entries_max {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.insert(pattern, Arc::clone(plan));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(number: usize) -> Pattern {
        let bits = |value: usize| (0..16).filter(|&bit| value >> bit & 1 == 1).collect();
        Pattern { readable: Readable { low: bits(number), high: ChunkSet::EMPTY }, wanted: bits(1) }
    }

    fn get(cache: &PlanCache<usize>, number: usize) -> (usize, bool) {
        let mut made = false;
        let plan = cache.get_or_make::<()>(pattern(number), || {
            made = true;
            Ok(number)
        });
        (*plan.expect("never fails"), made)
    }

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let cache = PlanCache::new(8);
        assert_eq!(get(&cache, 1), (1, true));
        for number in 2..1000 {
            assert_eq!(get(&cache, number), (number, true));
            assert_eq!(get(&cache, 1), (1, false));
            let generations = cache.generations.read().expect("not poisoned");
            assert!(generations.young.len() <= 4 && generations.old.len() <= 4);
        }
        assert_eq!(get(&cache, 2), (2, true));
    }

    #[test]
    fn failures_are_not_remembered() {
        let cache = PlanCache::new(8);
        assert_eq!(cache.get_or_make(pattern(1), || Err("no")), Err("no"));
        assert_eq!(get(&cache, 1), (1, true));
    }

    #[test]
    fn patterns_spread() {
        let hashes: std::collections::HashSet<u64> = (0..1 << 14)
            .map(|number| {
                let mut hasher = PatternHasher::default();
                pattern(number).hash(&mut hasher);
                hasher.finish() & 0xffff
            })
            .collect();
        assert!(hashes.len() > 12_000, "{} of 16384 patterns have buckets of their own", hashes.len());
    }
}
