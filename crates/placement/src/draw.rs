//! Random choice without randomness of its own: everything follows from a seed.

use std::collections::BTreeMap;

/// Numbers that look random (splitmix64).
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Draw(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// A number below `count`, each as likely as the others but for `count / 2^64`.
    ///
    /// # Panics
    /// If `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        assert!(count > 0, "nothing to draw from");
        let scaled = u128::from(self.number()) * count as u128;
        (scaled >> 64) as usize
    }
}

/// The numbers from 0 that were not taken out yet. Costs memory for what was taken out only, so that ten may be drawn
/// of a million.
#[derive(Debug)]
pub(crate) struct Urn {
    len: usize,
    /// Places whose number is not their own.
    moved: BTreeMap<usize, usize>,
}

impl Urn {
    pub fn new(len: usize) -> Self {
        Urn { len, moved: BTreeMap::new() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn at(&self, place: usize) -> usize {
        self.moved.get(&place).copied().unwrap_or(place)
    }

    /// Takes out what lies at a place; the last number moves there.
    pub fn take(&mut self, place: usize) -> usize {
        let taken = self.at(place);
        self.len -= 1;
        let last = self.at(self.len);
        self.moved.remove(&self.len);
        if place < self.len {
            self.moved.insert(place, last);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_urn_gives_each_number_once() {
        let (mut urn, mut draw) = (Urn::new(50), Draw::new(7));
        let mut drawn: Vec<usize> = (0..50).map(|_| urn.take(draw.below(urn.len()))).collect();
        assert_eq!(urn.len(), 0);
        assert_ne!(drawn, (0..50).collect::<Vec<_>>());
        drawn.sort_unstable();
        assert_eq!(drawn, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn every_number_is_about_as_likely() {
        let mut draw = Draw::new(1);
        let mut counts = [0; 10];
        (0..10_000).for_each(|_| counts[draw.below(10)] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
