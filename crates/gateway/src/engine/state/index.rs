//! The index: for every object eight bytes that say where its record lies. The key is compared in the record itself.
//!
//! One sorted array per hash slot, so that a slot can be counted, listed, moved and grown on its own: an
//! insertion moves some hundred entries at most, never millions. An entry costs 8 bytes, and an array has room
//! for eight more on average.
//!
//! ```text
//! entry, from the top: tag 18 | fetched 1 | recent 1 | chunk number 28 | offset 16
//! ```
//! The tag is 18 bits of the key's hash and spread evenly, so its share of all tags says nearly where in the array it
//! is. A slot with very many keys (one tag for thousands of them) costs extra reads, not wrong answers.

use shorttail_units::{SLOT_COUNT, Slot};

use super::arrays::Arrays;

const OFFSET_BITS: u32 = 16;
const CHUNK_BITS: u32 = 28;
const RECENT_BIT: u32 = OFFSET_BITS + CHUNK_BITS;
const FETCHED_BIT: u32 = RECENT_BIT + 1;
const TAG_SHIFT: u32 = FETCHED_BIT + 1;
const TAG_BITS: u32 = u64::BITS - TAG_SHIFT;
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
    pub const COUNT: u32 = 1 << TAG_BITS;

    pub fn of_hash(hash: u64) -> Self {
        Tag((hash >> TAG_SHIFT) as u32)
    }

    pub fn number(self) -> u32 {
        self.0
    }
}

/// What of a key its hashes tell, by which the index finds it. Others may be alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashedKey {
    pub slot: Slot,
    pub hash: u64,
}

impl HashedKey {
    pub fn tag(self) -> Tag {
        Tag::of_hash(self.hash)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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

/// The entries of one slot, in the order of their tags.
#[derive(Clone, Copy, Debug)]
struct Table<'a>(&'a [Entry]);

impl<'a> Table<'a> {
    /// Place of the first entry whose tag is not below this one.
    fn first_from(self, tag: Tag) -> usize {
        let (entries, least) = (self.0, u64::from(tag.0) << TAG_SHIFT);
        let is_below = |place: usize| entries[place].0 < least;
        let guess = (entries.len() * tag.0 as usize) >> TAG_BITS;
        let (mut low, mut high) = (0, entries.len());
        let mut step = 4;
        // Steps that double from the guess on bound the place; a binary search finds it.
        if guess < high && is_below(guess) {
            low = guess + 1;
            while low + step < high {
                if !is_below(low + step) {
                    high = low + step;
                    break;
                }
                low += step + 1;
                step *= 2;
            }
        } else {
            high = guess;
            while high > step {
                if is_below(high - step) {
                    low = high - step + 1;
                    break;
                }
                high -= step;
                step *= 2;
            }
        }
        low + entries[low..high].partition_point(|entry| entry.0 < least)
    }

    /// The entries near the place of a tag will be wanted soon.
    fn prefetch(self, tag: Tag) {
        let guess = (self.0.len() * tag.0 as usize) >> TAG_BITS;
        if let Some(entry) = self.0.get(guess) {
            prefetch(entry);
        }
    }

    fn with_tag(self, tag: Tag) -> impl Iterator<Item = Entry> + use<'a> {
        let from = &self.0[self.first_from(tag)..];
        from.iter().copied().take_while(move |entry| entry.tag() == tag)
    }

    fn place_of(self, tag: Tag, location: Location) -> Option<usize> {
        let first = self.first_from(tag);
        let with_tag = self.0[first..].iter().take_while(|entry| entry.tag() == tag);
        with_tag.enumerate().find(|(_, entry)| entry.is_at(tag, location)).map(|(step, _)| first + step)
    }
}

#[cfg(target_arch = "x86_64")]
fn prefetch(entry: &Entry) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every processor of this kind knows the instruction, and it changes nothing but what is cached.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(entry).cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_: &Entry) {}

#[derive(Debug)]
pub struct Index {
    tables: Arrays<Entry>,
    object_count: u64,
}

impl Default for Index {
    fn default() -> Self {
        Index { tables: Arrays::new(SLOT_COUNT), object_count: 0 }
    }
}

impl Index {
    fn table(&self, slot: Slot) -> Table<'_> {
        Table(self.tables.get(slot.index()))
    }

    /// A key with this tag will be looked for soon: what that takes from memory is on its way meanwhile.
    pub fn prefetch(&self, slot: Slot, tag: Tag) {
        self.table(slot).prefetch(tag);
    }

    /// Locations of the objects that may have this key's tag; usually none or one.
    pub fn candidates(&self, slot: Slot, tag: Tag) -> impl Iterator<Item = Location> {
        self.table(slot).with_tag(tag).map(Entry::location)
    }

    pub fn contains(&self, slot: Slot, tag: Tag, location: Location) -> bool {
        self.entry(slot, tag, location).is_some()
    }

    fn entry(&self, slot: Slot, tag: Tag, location: Location) -> Option<Entry> {
        let table = self.table(slot);
        table.place_of(tag, location).map(|place| table.0[place])
    }

    fn entry_mut(&mut self, slot: Slot, tag: Tag, location: Location) -> Option<&mut Entry> {
        let place = self.table(slot).place_of(tag, location)?;
        Some(&mut self.tables.get_mut(slot.index())[place])
    }

    /// # Panics
    /// If the location's chunk number is beyond [`Location::CHUNK_NUMBER_MAX`].
    pub fn insert(&mut self, slot: Slot, tag: Tag, location: Location) {
        assert!(location.chunk_number <= Location::CHUNK_NUMBER_MAX, "chunk number");
        let place = self.table(slot).first_from(tag);
        self.tables.insert(slot.index(), place, Entry::new(tag, location));
        self.object_count += 1;
    }

    /// Whether there was such an entry.
    pub fn remove(&mut self, slot: Slot, tag: Tag, location: Location) -> bool {
        let Some(place) = self.table(slot).place_of(tag, location) else { return false };
        self.tables.remove(slot.index(), place);
        self.object_count -= 1;
        true
    }

    /// Marks a read: for eviction order (`recent`), and that the object was fetched since it was stored.
    pub fn mark_read(&mut self, slot: Slot, tag: Tag, location: Location) {
        if let Some(entry) = self.entry_mut(slot, tag, location) {
            entry.0 |= 1 << RECENT_BIT | 1 << FETCHED_BIT;
        }
    }

    /// Was the object read since it was stored?
    pub fn was_fetched(&self, slot: Slot, tag: Tag, location: Location) -> bool {
        self.entry(slot, tag, location).is_some_and(|entry| entry.0 & 1 << FETCHED_BIT != 0)
    }

    /// Was it read since it was stored or moved?
    pub fn was_recent(&self, slot: Slot, tag: Tag, location: Location) -> bool {
        self.entry(slot, tag, location).is_some_and(|entry| entry.0 & 1 << RECENT_BIT != 0)
    }

    /// Was it read since it was stored or moved? From now on it was not: a second chance is given once.
    pub fn take_recent(&mut self, slot: Slot, tag: Tag, location: Location) -> bool {
        let Some(entry) = self.entry_mut(slot, tag, location) else { return false };
        let was_recent = entry.0 & 1 << RECENT_BIT != 0;
        entry.0 &= !(1 << RECENT_BIT);
        was_recent
    }

    /// The same object at another place; `fetched` is kept, `recent` starts anew.
    pub fn relocate(&mut self, slot: Slot, tag: Tag, from: Location, to: Location) -> bool {
        let Some(entry) = self.entry_mut(slot, tag, from) else { return false };
        *entry = Entry(Entry::new(tag, to).0 | entry.0 & 1 << FETCHED_BIT);
        true
    }

    /// Another object of the same key, at another place: nobody has read it yet.
    pub fn replace(&mut self, slot: Slot, tag: Tag, from: Location, to: Location) -> bool {
        assert!(to.chunk_number <= Location::CHUNK_NUMBER_MAX, "chunk number");
        let Some(entry) = self.entry_mut(slot, tag, from) else { return false };
        *entry = Entry::new(tag, to);
        true
    }

    pub fn object_count(&self) -> u64 {
        self.object_count
    }

    /// Objects in one slot.
    pub fn count_of(&self, slot: Slot) -> usize {
        self.table(slot).0.len()
    }

    /// Locations in one slot with tags from `first` on, in tag order: about `count`, at least one, and all of the last
    /// tag. Also the tag to go on from, if the slot holds more.
    pub fn list(&self, slot: Slot, first: u32, count: usize) -> (Vec<(Tag, Location)>, Option<u32>) {
        if first >= Tag::COUNT {
            return (Vec::new(), None);
        }
        let table = self.table(slot);
        let entries = &table.0[table.first_from(Tag(first))..];
        let is_last = |step: usize| entries[step].tag() != entries[step - 1].tag();
        let end = (count.max(1)..entries.len()).find(|&step| is_last(step));
        let listed = &entries[..end.unwrap_or(entries.len())];
        let found = listed.iter().map(|entry| (entry.tag(), entry.location())).collect();
        (found, end.map(|end| entries[end].tag().0))
    }

    /// One of the locations in a slot, by its place among them.
    pub fn nth(&self, slot: Slot, place: usize) -> Option<Location> {
        self.table(slot).0.get(place).map(|entry| entry.location())
    }

    /// Forgets the objects of one slot.
    pub fn clear_slot(&mut self, slot: Slot) {
        self.object_count -= self.tables.get(slot.index()).len() as u64;
        self.tables.clear(slot.index());
    }

    /// Every location, for invariants.
    pub fn locations(&self) -> impl Iterator<Item = Location> {
        self.tables.in_use().flatten().map(|entry| entry.location())
    }

    /// Asserts what must hold between operations.
    pub fn check_invariants(&self) {
        self.tables.check_invariants();
        assert_eq!(self.locations().count() as u64, self.object_count, "every object is found");
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
    fn what_replaces_an_object_was_not_read() {
        let mut index = Index::default();
        let (slot, tag) = (Slot::of_key(b"a"), Tag(77));
        let (from, to) = (location(5, 6), location(7, 8));
        assert!(!index.replace(slot, tag, from, to), "nothing is there");
        index.insert(slot, tag, from);
        index.mark_read(slot, tag, from);
        assert!(index.replace(slot, tag, from, to));
        assert!(!index.was_fetched(slot, tag, to) && !index.was_recent(slot, tag, to));
        assert!(!index.contains(slot, tag, from) && index.object_count() == 1);
    }

    #[test]
    fn a_table_finds_what_a_plain_list_finds() {
        // Tags that are spread evenly, that crowd at the ends, and that are all one.
        for spread in [2_654_435_761_u64, 1, 0] {
            let (mut index, mut plain) = (Index::default(), Vec::new());
            let slot = Slot::of_key(b"a");
            let tag = |number: u32| Tag((u64::from(number).wrapping_mul(spread) % u64::from(Tag::COUNT)) as u32);
            for number in 0..700 {
                index.insert(slot, tag(number), location(number, 9));
                plain.push((tag(number), location(number, 9)));
            }
            for number in (0..700).filter(|number| number % 3 != 0) {
                assert!(index.remove(slot, tag(number), location(number, 9)));
                plain.retain(|entry| *entry != (tag(number), location(number, 9)));
            }
            for number in 0..700 {
                assert_eq!(index.contains(slot, tag(number), location(number, 9)), number % 3 == 0);
                let mut found: Vec<_> = index.candidates(slot, tag(number)).map(|it| it.chunk_number).collect();
                found.sort_unstable();
                let with_tag = plain.iter().filter(|(other, _)| *other == tag(number));
                assert_eq!(found, with_tag.map(|(_, it)| it.chunk_number).collect::<Vec<_>>());
            }
            assert!(index.table(slot).0.is_sorted_by_key(|entry| entry.tag()));
        }
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
        assert_eq!((met, index.count_of(slot)), (1000, 1000));
        let (found, next) = index.list(slot, 0, 0);
        assert!(found.iter().all(|(tag, _)| tag.number() == 0) && next == Some(7), "as few as there can be");
        assert_eq!(index.list(slot, Tag::COUNT, 10), (Vec::new(), None), "behind the last tag is nothing");
    }
}
