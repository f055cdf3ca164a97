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
    fn holds_what_was_put_in() {
        let mut set: ChunkSet = [3, 79, 0].into_iter().collect();
        assert!(set.contains(79) && !set.contains(78));
        set.remove(3);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 79]);
        assert_eq!((set.len(), ChunkSet::first(CHUNK_COUNT_MAX).len()), (2, CHUNK_COUNT_MAX));
    }
}
