//! What is allocated in an arena that outlives the process: an entry for each unit of it.
//!
//! ```text
//! entry   one byte, twice
//! byte    bits 1 to 7: units of the allocation that begins here; 0: none does
//!         bit 0: such that the number of ones is even
//! ```
//! A bit that turns over leaves an odd byte: the other one counts, and it is mended. Whatever else befalls one byte
//! leaves two that differ: then nobody can tell what was there, as with entries that contradict each other. Such a
//! place is *doubtful*. It may have told of an allocation, so it stays until that was noted elsewhere.
//!
//! An entry is written at once, after what it tells of, and taken back before that.
//!
//! Must not know: what is stored in the memory.

use crate::limits::{BLOCK_BYTES, BLOCK_UNITS};
use crate::mapping::{Mapping, PAGE_BYTES};

const ENTRY_BYTES: usize = 2;

#[derive(Debug)]
pub(crate) struct Table {
    memory: Mapping,
    doubtful: Vec<usize>,
    mended: u64,
}

/// Where an allocation begins in its block, and how long it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub unit: u8,
    pub units: u8,
}

impl Table {
    /// Memory for the table of so much memory, in whole pages.
    pub fn bytes_for(arena_bytes: usize) -> usize {
        (arena_bytes / BLOCK_BYTES * BLOCK_UNITS * ENTRY_BYTES).next_multiple_of(PAGE_BYTES)
    }

    pub fn new(memory: Mapping) -> Self {
        Table { memory, doubtful: Vec::new(), mended: 0 }
    }

    /// From now on an allocation of so many units begins at this unit of the arena; 0: none does.
    pub fn set(&mut self, place: usize, units: u8) {
        self.memory.put_mark(place * ENTRY_BYTES, entry_of(units));
    }

    /// The allocations in a block that an earlier process may have left, none of which overlaps another.
    pub fn take_block(&mut self, block: usize) -> Vec<Run> {
        let (mut runs, mut end) = (Vec::new(), 0);
        for unit in 0..BLOCK_UNITS {
            let place = block * BLOCK_UNITS + unit;
            let entry = [self.memory[place * ENTRY_BYTES], self.memory[place * ENTRY_BYTES + 1]];
            let units = read_entry(entry);
            match units.map(usize::from) {
                Some(0) => {}
                Some(units) if unit >= end && unit + units <= BLOCK_UNITS => {
                    runs.push(Run { unit: unit as u8, units: units as u8 });
                    end = unit + units;
                }
                _ => {
                    self.doubtful.push(place);
                    continue;
                }
            }
            if let Some(units) = units.filter(|&units| entry != entry_of(units)) {
                self.set(place, units);
                self.mended += 1;
            }
        }
        runs
    }

    /// Places that may have told of allocations.
    pub fn doubtful_count(&self) -> usize {
        self.doubtful.len()
    }

    /// Entries that were damaged, and are what they were.
    pub fn mended_count(&self) -> u64 {
        self.mended
    }

    /// What may have been at doubtful places is given up. A later process will not know of it.
    pub fn clear_doubtful(&mut self) {
        for place in std::mem::take(&mut self.doubtful) {
            self.set(place, 0);
        }
    }
}

impl Table {
    /// A bit of each entry turns over; returns of how many.
    pub fn flip_bits(&mut self, mut pick: impl FnMut() -> u64) -> usize {
        let entries = self.memory.as_chunks_mut::<ENTRY_BYTES>().0;
        for entry in &mut *entries {
            let bit = pick() as usize % (ENTRY_BYTES * 8);
            entry[bit / 8] ^= 1 << (bit % 8);
        }
        entries.len()
    }

    /// Half of the entry of so many allocations is lost; returns of how many.
    pub fn spoil(&mut self, count: usize) -> usize {
        let entries = self.memory.as_chunks_mut::<ENTRY_BYTES>().0.iter_mut();
        let told = entries.filter_map(|entry| Some((read_entry(*entry).filter(|&units| units > 0)?, entry)));
        told.take(count).map(|(units, entry)| *entry = [entry_of(units)[0], 0]).count()
    }
}

fn entry_of(units: u8) -> [u8; ENTRY_BYTES] {
    [units << 1 | (units.count_ones() % 2) as u8; ENTRY_BYTES]
}

/// `None`: nobody can tell.
fn read_entry(entry: [u8; ENTRY_BYTES]) -> Option<u8> {
    let units_of = |byte: u8| {
        let is_one = byte.count_ones().is_multiple_of(2) && usize::from(byte >> 1) <= BLOCK_UNITS;
        is_one.then_some(byte >> 1)
    };
    match entry.map(units_of) {
        [Some(units), Some(other)] => (units == other).then_some(units),
        [one, other] => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(usize, [u8; ENTRY_BYTES])]) -> Table {
        let mut memory = Mapping::new(Table::bytes_for(2 * BLOCK_BYTES)).expect("memory");
        for &(place, entry) in entries {
            memory[place * ENTRY_BYTES..][..ENTRY_BYTES].copy_from_slice(&entry);
        }
        Table::new(memory)
    }

    fn run(unit: u8, units: u8) -> Run {
        Run { unit, units }
    }

    #[test]
    fn one_bit_is_mended_and_no_damage_of_one_byte_is_believed() {
        assert_eq!(entry_of(0), [0; ENTRY_BYTES], "memory that nobody wrote tells of nothing");
        for units in 0..=BLOCK_UNITS as u8 {
            assert_eq!(read_entry(entry_of(units)), Some(units));
            for (at, change) in (0..ENTRY_BYTES).flat_map(|at| (1..=u8::MAX).map(move |change| (at, change))) {
                let mut entry = entry_of(units);
                entry[at] ^= change;
                let read = read_entry(entry);
                assert!(read == Some(units) || read.is_none() && change.count_ones() > 1, "{units} {change:08b}");
            }
        }
    }

    /// Should it not be written at once after all.
    #[test]
    fn an_entry_that_is_half_written_is_doubtful() {
        for units in 1..=BLOCK_UNITS as u8 {
            let half = [entry_of(units)[0], 0];
            assert_eq!(table(&[(3, half)]).take_block(0), []);
            let mut table = table(&[(3, half)]);
            table.take_block(0);
            assert_eq!(table.doubtful_count(), 1);
        }
    }

    #[test]
    fn entries_that_contradict_each_other_are_doubtful_and_stay_until_they_are_given_up() {
        let mut table =
            table(&[(0, entry_of(9)), (8, entry_of(2)), (9, entry_of(1)), (60, entry_of(5)), (64, entry_of(64))]);
        for _ in 0..2 {
            table.doubtful.clear();
            assert_eq!(table.take_block(0), [run(0, 9), run(9, 1)]);
            assert_eq!(table.take_block(1), [run(0, 64)]);
            assert_eq!((&table.doubtful[..], table.mended_count()), (&[8, 60][..], 0));
        }
        table.clear_doubtful();
        assert_eq!(table.take_block(0), [run(0, 9), run(9, 1)]);
        assert_eq!(table.doubtful_count(), 0);
    }

    #[test]
    fn what_is_mended_is_whole_again() {
        let [first, second] = entry_of(7);
        let mut table = table(&[(4, [first ^ 8, second]), (6, [0, 64])]);
        assert_eq!(table.take_block(0), [run(4, 7)]);
        assert_eq!(table.mended_count(), 2);
        assert_eq!(table.take_block(0), [run(4, 7)]);
        assert_eq!((table.mended_count(), table.doubtful_count()), (2, 0));
    }
}
