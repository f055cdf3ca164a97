//! A hash map keyed by stripe id.
//!
//! Stripe ids come from owners that passed the greeting, so the hash needs to be fast and the same in every run, not
//! secret. Nothing may depend on the order of iteration.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Map from a raw stripe id.
pub(crate) type StripeMap<V> = HashMap<u64, V, BuildHasherDefault<StripeHasher>>;

/// One widening multiplication, both halves folded together.
#[derive(Default)]
pub(crate) struct StripeHasher(u64);

/// 2^64 divided by the golden ratio, odd.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for StripeHasher {
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(MULTIPLIER);
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
