//! A set of chunks of one stripe, by index.

use crate::limits::CHUNK_COUNT_MAX;

const _: () = assert!(CHUNK_COUNT_MAX <= u128::BITS as usize);

/// A set of chunk indexes, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ChunkSet(u128);

impl ChunkSet {
    pub fn insert(&mut self, index: usize) {
        debug_assert!(index < CHUNK_COUNT_MAX);
        self.0 |= 1 << index;
    }

    pub fn remove(&mut self, index: usize) {
        self.0 &= !(1 << index);
    }

    pub fn contains(self, index: usize) -> bool {
        self.0 >> index & 1 == 1
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The indexes, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..CHUNK_COUNT_MAX).filter(move |&index| self.contains(index))
    }

    /// The first `count` chunks.
    pub fn first(count: usize) -> ChunkSet {
        (0..count).collect()
    }

    pub fn union(self, other: ChunkSet) -> ChunkSet {
        ChunkSet(self.0 | other.0)
    }

    pub fn without(self, other: ChunkSet) -> ChunkSet {
        ChunkSet(self.0 & !other.0)
    }

    /// Every set of `size` of the first `count` chunks.
    pub fn subsets(count: usize, size: usize) -> impl Iterator<Item = ChunkSet> {
        let first = (size <= count).then(|| ChunkSet::first(size));
        // The next larger number with as many ones: the lowest run of ones loses its top bit to the left, and the rest
        // of the run falls to the right.
        let next = move |&ChunkSet(set): &ChunkSet| {
            let lowest = set & set.wrapping_neg();
            let carried = set + lowest;
            let next = if set == 0 { None } else { Some(carried | ((set ^ carried) / lowest) >> 2) };
            next.filter(|&next| next >> count == 0).map(ChunkSet)
        };
        std::iter::successors(first, next)
    }

    pub fn bits(self) -> u128 {
        self.0
    }
}

impl FromIterator<usize> for ChunkSet {
    fn from_iter<I: IntoIterator<Item = usize>>(indexes: I) -> Self {
        let mut set = ChunkSet::default();
        indexes.into_iter().for_each(|index| set.insert(index));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_are_all_of_them_once() {
        let sets: std::collections::HashSet<ChunkSet> = ChunkSet::subsets(7, 3).collect();
        assert_eq!((sets.len(), ChunkSet::subsets(7, 3).count()), (35, 35));
        assert!(sets.iter().all(|set| set.len() == 3 && set.iter().all(|index| index < 7)));
        assert_eq!(ChunkSet::subsets(5, 0).collect::<Vec<_>>(), [ChunkSet::default()]);
        assert_eq!((ChunkSet::subsets(5, 5).count(), ChunkSet::subsets(5, 6).count()), (1, 0));
        assert_eq!(ChunkSet::subsets(CHUNK_COUNT_MAX, 2).count(), CHUNK_COUNT_MAX * (CHUNK_COUNT_MAX - 1) / 2);
    }

    #[test]
    fn holds_what_was_put_in() {
        let mut set: ChunkSet = [3, 79, 0].into_iter().collect();
        assert!(set.contains(79) && !set.contains(78));
        set.remove(3);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 79]);
        assert_eq!((set.len(), ChunkSet::first(CHUNK_COUNT_MAX).len()), (2, CHUNK_COUNT_MAX));
    }
}
