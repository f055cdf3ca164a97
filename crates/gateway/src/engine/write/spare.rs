//! Memory of stripes that are sealed, for the next ones to lie in.
//!
//! The kernel hands out fresh memory page by page, each at the cost of a fault and of filling it with zeros: more than
//! the records cost that are written there. While stripes follow each other closely, one takes the memory that another
//! left. What nobody took for a while goes back.
//!
//! Must not know: stripes.

use shorttail_store::Mapping;

use crate::engine::limits::{SPARE_MAX, SPARE_US};

#[derive(Debug, Default)]
pub struct Spare {
    kept: Vec<Mapping>,
    /// When one was taken last.
    taken_us: u64,
}

impl Spare {
    pub fn put(&mut self, memory: Mapping) {
        if self.kept.len() < SPARE_MAX {
            self.kept.push(memory);
        }
    }

    pub fn take(&mut self, now_us: u64) -> Option<Mapping> {
        self.taken_us = now_us;
        self.kept.pop()
    }

    /// Lets go of what nobody took for a while.
    pub fn tidy(&mut self, now_us: u64) {
        if now_us >= self.taken_us + SPARE_US {
            self.kept = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Mapping {
        Mapping::new(1 << 12).expect("a page")
    }

    #[test]
    fn a_few_are_kept_while_they_are_taken() {
        let mut spare = Spare::default();
        (0..SPARE_MAX + 1).for_each(|_| spare.put(memory()));
        assert!(spare.take(5).is_some());
        spare.tidy(4 + SPARE_US);
        assert_eq!(spare.kept.len(), SPARE_MAX - 1);
        spare.tidy(5 + SPARE_US);
        assert!(spare.take(6 + SPARE_US).is_none());
    }
}
