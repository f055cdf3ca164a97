//! A set of chunks of one stripe, by index.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Sub};

use crate::limits::CHUNK_COUNT_MAX;

const _: () = assert!(CHUNK_COUNT_MAX < u128::BITS as usize);

/// A set of chunk indexes, one bit each. Of two the one is greater that has the highest chunk in which they differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ChunkSet(u128);

impl ChunkSet {
    pub const EMPTY: ChunkSet = ChunkSet(0);

    /// Nothing but this chunk.
    pub fn of(index: usize) -> ChunkSet {
        debug_assert!(index < CHUNK_COUNT_MAX);
        ChunkSet(1 << index)
    }

    /// The first `count` chunks.
    pub fn first(count: usize) -> ChunkSet {
        debug_assert!(count <= CHUNK_COUNT_MAX);
        ChunkSet((1 << count) - 1)
    }

    pub fn insert(&mut self, index: usize) {
        *self |= ChunkSet::of(index);
    }

    pub fn remove(&mut self, index: usize) {
        *self = *self - ChunkSet::of(index);
    }

    pub fn contains(self, index: usize) -> bool {
        self.0 >> index & 1 == 1
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The indexes, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let index = rest.trailing_zeros();
            rest &= rest.wrapping_sub(1);
            (index < u128::BITS).then_some(index as usize)
        })
    }

    pub(crate) fn bits(self) -> u128 {
        self.0
    }
}

/// What is in one of them.
impl BitOr for ChunkSet {
    type Output = ChunkSet;

    fn bitor(self, other: ChunkSet) -> ChunkSet {
        ChunkSet(self.0 | other.0)
    }
}

impl BitOrAssign for ChunkSet {
    fn bitor_assign(&mut self, other: ChunkSet) {
        self.0 |= other.0;
    }
}

/// What is in both.
impl BitAnd for ChunkSet {
    type Output = ChunkSet;

    fn bitand(self, other: ChunkSet) -> ChunkSet {
        ChunkSet(self.0 & other.0)
    }
}

/// What is not in the other.
impl Sub for ChunkSet {
    type Output = ChunkSet;

    fn sub(self, other: ChunkSet) -> ChunkSet {
        ChunkSet(self.0 & !other.0)
    }
}

impl FromIterator<usize> for ChunkSet {
    fn from_iter<I: IntoIterator<Item = usize>>(indexes: I) -> Self {
        indexes.into_iter().fold(ChunkSet::EMPTY, |set, index| set | ChunkSet::of(index))
    }
}

impl fmt::Debug for ChunkSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<const COUNT: usize>(indexes: [usize; COUNT]) -> ChunkSet {
        indexes.into_iter().collect()
    }

    #[test]
    fn holds_what_was_put_in() {
        let mut chunks = set([3, 79, 0]);
        assert!(chunks.contains(79) && !chunks.contains(78));
        chunks.insert(5);
        chunks.remove(3);
        chunks.remove(4);
        assert_eq!(chunks.iter().collect::<Vec<_>>(), [0, 5, 79]);
        assert_eq!((chunks.len(), chunks.is_empty()), (3, false));
        assert_eq!(format!("{chunks:?}"), "{0, 5, 79}");
    }

    #[test]
    fn begins_with_none_with_one_or_with_the_first_ones() {
        assert_eq!((ChunkSet::EMPTY, ChunkSet::of(79)), (set([]), set([79])));
        assert!(ChunkSet::EMPTY.is_empty() && ChunkSet::EMPTY.iter().next().is_none());
        for count in [0, 1, 2, CHUNK_COUNT_MAX] {
            assert_eq!(ChunkSet::first(count), (0..count).collect());
            assert_eq!(ChunkSet::first(count).len(), count);
        }
    }

    #[test]
    fn is_joined_compared_and_taken_away() {
        let (some, others) = (set([1, 2, 64]), set([2, 64, 70]));
        assert_eq!((some | others, some & others), (set([1, 2, 64, 70]), set([2, 64])));
        assert_eq!((some - others, others - some), (set([1]), set([70])));
        assert!(some < others && set([0, 1]) < set([2]));
    }
}
