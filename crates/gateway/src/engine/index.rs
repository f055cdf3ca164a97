//! The index: for every object eight bytes that say where its record lies. The key is compared in the record itself.
//!
//! One small hash table per hash slot, so that a slot can be counted, listed, moved and grown on its own: growing
//! copies some hundred entries, never millions. An entry costs 8 bytes and one control byte per bucket of its table.
//!
//! ```text
//! entry, from the top: tag 18 | fetched 1 | recent 1 | chunk number 28 | offset 16
//! ```
//! The tag is 18 bits of the key's hash; the table places entries by it alone, so a slot with very many keys (one hash
//! tag for millions of them) costs extra reads, not wrong answers.

use hashbrown::HashTable;
use shorttail_units::{SLOT_COUNT, Slot};

const OFFSET_BITS: u32 = 16;
const CHUNK_BITS: u32 = 28;
const RECENT_BIT: u32 = OFFSET_BITS + CHUNK_BITS;
const FETCHED_BIT: u32 = RECENT_BIT + 1;
const TAG_SHIFT: u32 = FETCHED_BIT + 1;
const PLACE_MASK: u64 = (1 << RECENT_BIT) - 1;

/// Place of a stripe in the owner's stripe table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct StripeSlot(pub u32);

/// Where a record begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Location {
    /// `stripe slot x data_count + data index`, below 2^28.
    pub chunk_number: u32,
    pub offset: u16,
}

impl Location {
    /// Largest number of chunks an owner can name: 2^28 of 64 KiB are 16 TiB.
    pub const CHUNK_NUMBER_MAX: u32 = (1 << CHUNK_BITS) - 1;

    fn pack(self) -> u64 {
        u64::from(self.chunk_number) << OFFSET_BITS | u64::from(self.offset)
    }

    fn unpack(place: u64) -> Self {
        Location { chunk_number: (place >> OFFSET_BITS) as u32, offset: place as u16 }
    }
}

/// 18 bits of a key's hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Tag(u32);

impl Tag {
    pub const COUNT: u32 = 1 << 18;

    pub fn of_hash(hash: u64) -> Self {
        Tag((hash >> 46) as u32)
    }

    /// Spreads the tag over the bits that a hash table looks at (low ones and the top seven).
    fn spread(self) -> u64 {
        u64::from(self.0).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry(u64);

impl Entry {
    fn new(tag: Tag, location: Location) -> Self {
        Entry(u64::from(tag.0) << TAG_SHIFT | location.pack())
    }

    fn tag(self) -> Tag {
        Tag((self.0 >> TAG_SHIFT) as u32)
    }

    fn location(self) -> Location {
        Location::unpack(self.0 & PLACE_MASK)
    }

    fn is_at(self, tag: Tag, location: Location) -> bool {
        self.tag() == tag && self.0 & PLACE_MASK == location.pack()
    }
}

#[derive(Debug)]
pub struct Index {
    tables: Vec<HashTable<Entry>>,
    object_count: u64,
}

impl Default for Index {
    fn default() -> Self {
        Index { tables: (0..SLOT_COUNT).map(|_| HashTable::new()).collect(), object_count: 0 }
    }
}

impl Index {
    /// Locations of the objects that may have this key's tag; usually none or one.
    pub fn candidates(&self, slot: Slot, tag: Tag) -> impl Iterator<Item = Location> {
        let entries = self.tables[slot.index()].iter_hash(tag.spread());
        entries.filter(move |entry| entry.tag() == tag).map(|entry| entry.location())
    }

    pub fn contains(&self, slot: Slot, tag: Tag, location: Location) -> bool {
        self.tables[slot.index()].find(tag.spread(), |entry| entry.is_at(tag, location)).is_some()
    }

    /// # Panics
    /// If the location's chunk number is beyond [`Location::CHUNK_NUMBER_MAX`].
    pub fn insert(&mut self, slot: Slot, tag: Tag, location: Location) {
        assert!(location.chunk_number <= Location::CHUNK_NUMBER_MAX, "chunk number");
        self.tables[slot.index()].insert_unique(tag.spread(), Entry::new(tag, location), |entry| entry.tag().spread());
        self.object_count += 1;
    }

    /// Whether there was such an entry.
    pub fn remove(&mut self, slot: Slot, tag: Tag, location: Location) -> bool {
        match self.tables[slot.index()].find_entry(tag.spread(), |entry| entry.is_at(tag, location)) {
            Ok(found) => {
                found.remove();
                self.object_count -= 1;
                true
            }
            Err(_) => false,
        }
    }

    /// Marks a read: for eviction order (`recent`), and that the object was fetched since it was stored.
    pub fn mark_read(&mut self, slot: Slot, tag: Tag, location: Location) {
        if let Some(entry) = self.tables[slot.index()].find_mut(tag.spread(), |entry| entry.is_at(tag, location)) {
            entry.0 |= 1 << RECENT_BIT | 1 << FETCHED_BIT;
        }
    }

    /// Was the object read since it was stored?
    pub fn was_fetched(&self, slot: Slot, tag: Tag, location: Location) -> bool {
        self.bit(slot, tag, location, FETCHED_BIT)
    }

    /// Was it read since it was stored or moved?
    pub fn was_recent(&self, slot: Slot, tag: Tag, location: Location) -> bool {
        self.bit(slot, tag, location, RECENT_BIT)
    }

    /// Was it read since it was stored or moved? From now on it was not: a second chance is given once.
    pub fn take_recent(&mut self, slot: Slot, tag: Tag, location: Location) -> bool {
        match self.tables[slot.index()].find_mut(tag.spread(), |entry| entry.is_at(tag, location)) {
            Some(entry) => {
                let was_recent = entry.0 & 1 << RECENT_BIT != 0;
                entry.0 &= !(1 << RECENT_BIT);
                was_recent
            }
            None => false,
        }
    }

    fn bit(&self, slot: Slot, tag: Tag, location: Location, bit: u32) -> bool {
        let found = self.tables[slot.index()].find(tag.spread(), |entry| entry.is_at(tag, location));
        found.is_some_and(|entry| entry.0 & 1 << bit != 0)
    }

    /// The same object at another place; `fetched` is kept, `recent` starts anew.
    pub fn relocate(&mut self, slot: Slot, tag: Tag, from: Location, to: Location) -> bool {
        match self.tables[slot.index()].find_mut(tag.spread(), |entry| entry.is_at(tag, from)) {
            Some(entry) => {
                let fetched = entry.0 & 1 << FETCHED_BIT;
                *entry = Entry(Entry::new(tag, to).0 | fetched);
                true
            }
            None => false,
        }
    }

    pub fn object_count(&self) -> u64 {
        self.object_count
    }

    /// Locations in one slot with tags from `first` on, in tag order: about `count`, and all of the last tag.
    /// Also the tag to go on from, if the slot holds more.
    pub fn list(&self, slot: Slot, first: u32, count: usize) -> (Vec<(Tag, Location)>, Option<u32>) {
        let entries = self.tables[slot.index()].iter().filter(|entry| entry.tag().0 >= first);
        let mut found: Vec<_> = entries.map(|entry| (entry.tag(), entry.location())).collect();
        found.sort_by_key(|(tag, location)| (tag.0, location.pack()));
        if found.len() <= count || count == 0 {
            return (found, None);
        }
        let last = found[count - 1].0;
        let keep = found.iter().take_while(|(tag, _)| tag.0 <= last.0).count();
        let more = keep < found.len();
        found.truncate(keep);
        (found, more.then_some(last.0 + 1))
    }

    /// Forgets the objects of one slot.
    pub fn clear_slot(&mut self, slot: Slot) {
        let table = &mut self.tables[slot.index()];
        self.object_count -= table.len() as u64;
        *table = HashTable::new();
    }

    /// Every location, for invariants.
    pub fn locations(&self) -> impl Iterator<Item = Location> {
        self.tables.iter().flatten().map(|entry| entry.location())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(chunk_number: u32, offset: u16) -> Location {
        Location { chunk_number, offset }
    }

    #[test]
    fn entries_with_one_tag_live_side_by_side() {
        let mut index = Index::default();
        let (slot, tag) = (Slot::of_key(b"a"), Tag(77));
        let (first, second) = (location(1, 2), location(Location::CHUNK_NUMBER_MAX, u16::MAX));
        index.insert(slot, tag, first);
        index.insert(slot, tag, second);
        assert_eq!(index.candidates(slot, tag).count(), 2);
        assert_eq!(index.candidates(slot, Tag(78)).count(), 0);
        assert!(index.remove(slot, tag, first));
        assert!(!index.remove(slot, tag, first));
        assert_eq!(index.candidates(slot, tag).collect::<Vec<_>>(), [second]);
        assert_eq!(index.object_count(), 1);
    }

    #[test]
    fn a_move_keeps_fetched_and_starts_recent_anew() {
        let mut index = Index::default();
        let (slot, tag) = (Slot::of_key(b"a"), Tag(Tag::COUNT - 1));
        let (from, to) = (location(5, 6), location(7, 8));
        index.insert(slot, tag, from);
        assert!(!index.was_fetched(slot, tag, from));
        index.mark_read(slot, tag, from);
        assert!(index.was_fetched(slot, tag, from) && index.was_recent(slot, tag, from));
        assert!(index.relocate(slot, tag, from, to));
        assert!(index.was_fetched(slot, tag, to) && !index.was_recent(slot, tag, to));
        assert!(!index.contains(slot, tag, from));
    }

    #[test]
    fn a_listing_in_steps_meets_every_entry_once() {
        let mut index = Index::default();
        let slot = Slot::of_key(b"a");
        for number in 0..1000u32 {
            index.insert(slot, Tag(number % 300 * 7), location(number, 0));
        }
        let (mut met, mut first) = (0, Some(0));
        while let Some(tag) = first {
            let (found, next) = index.list(slot, tag, 10);
            met += found.len();
            first = next;
        }
        assert_eq!(met, 1000);
    }
}
