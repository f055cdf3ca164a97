//! Damage on purpose: what decaying memory and crashes do, for tests and for chaos.
//!
//! Must not know: when it is done, or what it is to show.

use shorttail_units::StripeId;

use super::Node;

impl Node {
    /// Flips bits of sealed chunks, as decaying memory would; returns how many. One seed chooses the same bits.
    pub fn flip_bits(&mut self, count: u32, seed: u64) -> u32 {
        let mut rng = shorttail_chaos::Rng::new(seed);
        self.holdings.store.flip_bits(count, || rng.draw())
    }

    /// Flips bits anywhere in chunks, as decaying memory would; returns how many. One seed chooses the same bits.
    pub fn rot(&mut self, count: u32, seed: u64) -> u32 {
        let mut rng = shorttail_chaos::Rng::new(seed);
        self.holdings.store.rot(count, || rng.draw())
    }

    /// A bit of each open parity chunk turns over; how many did.
    pub fn flip_open_parities(&mut self) -> u32 {
        self.holdings.store.flip_open_parities()
    }

    /// A bit in the header of each sealed chunk turns over: the bit `first` of the first one, the next of each other
    /// one. Of how many.
    pub fn flip_header_bits(&mut self, first: usize) -> usize {
        self.holdings.store.flip_header_bits(first)
    }

    /// Spoils what tells which chunk it is, of so many sealed ones; returns of how many.
    pub fn tear_descriptions(&mut self, count: usize) -> u32 {
        self.holdings.store.tear_descriptions(count)
    }

    /// Takes nothing of these stripes any more, as if they were gone.
    pub fn refuse(&mut self, stripes: &[StripeId]) {
        self.holdings.store.refuse(stripes);
    }

    /// Leaves open parity chunks as a crash in the middle of a fold would; returns how many.
    pub fn interrupt_folds(&mut self) -> u32 {
        self.holdings.store.interrupt_folds()
    }
}
