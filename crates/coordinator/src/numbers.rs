//! A set of numbers as ranges: those of nodes that were taken out are many, and nearly all follow each other.
//!
//! Invariant: ranges are in order, and between any two of them a number is missing.

use serde::{Deserialize, Serialize};

/// The first and the last number of each range.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(u16, u16)>", into = "Vec<(u16, u16)>")]
pub struct Numbers(Vec<(u16, u16)>);

impl Numbers {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, number: u16) -> bool {
        let place = self.0.partition_point(|&(_, last)| last < number);
        self.0.get(place).is_some_and(|&(first, _)| first <= number)
    }

    pub fn count(&self) -> usize {
        self.0.iter().map(|&(first, last)| usize::from(last - first) + 1).sum()
    }

    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().flat_map(|&(first, last)| first..=last)
    }

    pub fn insert(&mut self, number: u16) {
        let place = self.0.partition_point(|&(_, last)| last < number);
        if self.contains(number) {
            return;
        }
        let ends_before = place > 0 && self.0[place - 1].1.checked_add(1) == Some(number);
        let begins_after = self.0.get(place).is_some_and(|&(first, _)| number.checked_add(1) == Some(first));
        match (ends_before, begins_after) {
            (true, true) => self.0[place - 1].1 = self.0.remove(place).1,
            (true, false) => self.0[place - 1].1 = number,
            (false, true) => self.0[place].0 = number,
            (false, false) => self.0.insert(place, (number, number)),
        }
    }
}

/// In any order.
impl From<Vec<(u16, u16)>> for Numbers {
    fn from(ranges: Vec<(u16, u16)>) -> Self {
        let mut numbers = Numbers::default();
        ranges.into_iter().flat_map(|(first, last)| first..=last).for_each(|number| numbers.insert(number));
        numbers
    }
}

impl From<Numbers> for Vec<(u16, u16)> {
    fn from(numbers: Numbers) -> Self {
        numbers.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_that_follow_each_other_are_one_range() {
        let mut numbers = Numbers::default();
        let mut known = BTreeSet::new();
        for number in [7, 9, 8, 0, u16::MAX, u16::MAX - 1, 3, 1, 9, 5, 4, 2, 6] {
            numbers.insert(number);
            known.insert(number);
            assert!((0..=u16::MAX).all(|number| numbers.contains(number) == known.contains(&number)), "{numbers:?}");
            assert!(numbers.iter().eq(known.iter().copied()) && numbers.count() == known.len());
        }
        assert_eq!(Vec::from(numbers.clone()), [(0, 9), (u16::MAX - 1, u16::MAX)]);
        assert_eq!(Numbers::from(vec![(5, 9), (u16::MAX - 1, u16::MAX), (4, 3), (0, 7)]), numbers);
    }
}
