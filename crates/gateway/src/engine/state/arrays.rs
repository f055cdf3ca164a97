//! Memory for many small arrays that grow one entry at a time: cells of like size lie side by side, without holes.
//!
//! An array lies in a cell of the smallest class that has room for it. The cells of a class fill its blocks from the
//! front; when one is left, the class' last cell moves there. So of each class only the last block has room, and what
//! arrays outgrow is free as whole blocks, which those of the next class take. An allocator cannot do that: it may not
//! move what it handed out, and arrays that all outgrow one size leave holes that none of them fits in.
//!
//! ```text
//! class 11   | cell | cell | cell | cell |   | cell | cell |      |      |      blocks of 64 KiB
//! class 12   | cell | cell | cell |      |
//! ```
//!
//! Invariants: a block belongs to one class; all blocks of a class but the last are full; each cell has one owner,
//! which knows where it is.
//!
//! Must not know: what the entries are.

/// Entries by which the smallest classes differ; larger ones by a sixteenth to a thirty-second of their size.
const STEP: usize = 16;

/// Entries of a block. The last block of each of some fifteen classes is half empty on average: small beside an index
/// that matters, and large beside a cell, so that the rest at its end is small too.
const BLOCK_ENTRIES: usize = 8192;

/// Larger cells have blocks of their own.
const SHARED_CELL_MAX: usize = 1024;

/// Classes up to this one are a step apart, and so many lie between two powers of two beyond.
const EVEN_CLASSES: usize = 32;
const OCTAVE_CLASSES: usize = 16;

/// Where an array is, and its length.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    length: u32,
    block: u32,
    /// Of the cell in its block.
    cell: u16,
    /// 0: empty, without a cell.
    class: u16,
}

#[derive(Debug)]
struct Block<T> {
    entries: Box<[T]>,
    /// The array in each cell.
    owners: Vec<u16>,
}

/// A fixed number of arrays.
#[derive(Debug)]
pub struct Arrays<T> {
    places: Vec<Place>,
    blocks: Vec<Block<T>>,
    /// Of each class, its blocks.
    classes: Vec<Vec<u32>>,
    /// Blocks without memory.
    unused: Vec<u32>,
}

/// The smallest class with room for `length` entries.
fn class_for(length: usize) -> usize {
    if length <= EVEN_CLASSES * STEP {
        return length.div_ceil(STEP);
    }
    let octave = ((length - 1) / (EVEN_CLASSES * STEP)).ilog2() as usize;
    let step = (2 * STEP) << octave;
    EVEN_CLASSES + octave * OCTAVE_CLASSES + length.div_ceil(step) - OCTAVE_CLASSES
}

/// Entries that a cell of this class has room for.
fn capacity_of(class: usize) -> usize {
    let Some(above) = class.checked_sub(EVEN_CLASSES + 1) else { return class * STEP };
    let (octave, place) = (above / OCTAVE_CLASSES, above % OCTAVE_CLASSES);
    (OCTAVE_CLASSES + 1 + place) * ((2 * STEP) << octave)
}

/// Cells in a block of this class.
fn cells_per_block(class: usize) -> usize {
    let capacity = capacity_of(class);
    if capacity <= SHARED_CELL_MAX { BLOCK_ENTRIES / capacity } else { 1 }
}

impl<T: Copy + Default> Arrays<T> {
    /// # Panics
    /// If there are more arrays than 2^16.
    pub fn new(count: usize) -> Self {
        assert!(count <= 1 << 16, "arrays are named by 16 bits");
        Arrays { places: vec![Place::default(); count], blocks: Vec::new(), classes: Vec::new(), unused: Vec::new() }
    }

    pub fn get(&self, array: usize) -> &[T] {
        let place = self.places[array];
        if place.class == 0 {
            return &[];
        }
        let start = usize::from(place.cell) * capacity_of(usize::from(place.class));
        &self.blocks[place.block as usize].entries[start..start + place.length as usize]
    }

    pub fn get_mut(&mut self, array: usize) -> &mut [T] {
        let place = self.places[array];
        if place.class == 0 {
            return &mut [];
        }
        let start = usize::from(place.cell) * capacity_of(usize::from(place.class));
        &mut self.blocks[place.block as usize].entries[start..start + place.length as usize]
    }

    /// Puts an entry before the one at `at`, or at the end.
    pub fn insert(&mut self, array: usize, at: usize, entry: T) {
        let Place { length, class, .. } = self.places[array];
        if length as usize == capacity_of(usize::from(class)) {
            self.change_class(array, class_for(length as usize + 1));
        }
        self.places[array].length += 1;
        let entries = self.get_mut(array);
        entries.copy_within(at..entries.len() - 1, at + 1);
        entries[at] = entry;
    }

    pub fn remove(&mut self, array: usize, at: usize) {
        self.get_mut(array).copy_within(at + 1.., at);
        let place = &mut self.places[array];
        place.length -= 1;
        let (fitting, class) = (class_for(place.length as usize), usize::from(place.class));
        // One class is to spare, so that an array whose length goes up and down stays where it is.
        if fitting == 0 || fitting + 1 < class {
            self.change_class(array, fitting);
        }
    }

    /// Makes an array empty.
    pub fn clear(&mut self, array: usize) {
        self.places[array].length = 0;
        self.change_class(array, 0);
    }

    fn change_class(&mut self, array: usize, class: usize) {
        let old = self.places[array];
        let new = if class == 0 { Place::default() } else { self.take_cell(class, array, old.length) };
        if new.class != 0 && old.class != 0 {
            self.copy_cell(old, new, old.length as usize);
        }
        self.places[array] = new;
        if old.class != 0 {
            self.leave_cell(old);
        }
    }

    /// The next cell of a class.
    fn take_cell(&mut self, class: usize, array: usize, length: u32) -> Place {
        if self.classes.len() <= class {
            self.classes.resize_with(class + 1, Vec::new);
        }
        let last = self.classes[class].last().copied();
        let has_room = |&block: &u32| self.blocks[block as usize].owners.len() < cells_per_block(class);
        let block = last.filter(has_room).unwrap_or_else(|| {
            let block = self.add_block(class);
            self.classes[class].push(block);
            block
        });
        let owners = &mut self.blocks[block as usize].owners;
        owners.push(array as u16);
        Place { length, block, cell: (owners.len() - 1) as u16, class: class as u16 }
    }

    fn add_block(&mut self, class: usize) -> u32 {
        let (cells, capacity) = (cells_per_block(class), capacity_of(class));
        // All that are shared have one size, so that whoever gives memory finds it again for any class.
        let entries = if cells > 1 { BLOCK_ENTRIES } else { capacity };
        let block = Block { entries: vec![T::default(); entries].into(), owners: Vec::with_capacity(cells) };
        match self.unused.pop() {
            Some(number) => {
                self.blocks[number as usize] = block;
                number
            }
            None => {
                self.blocks.push(block);
                u32::try_from(self.blocks.len() - 1).expect("fewer than 2^32 blocks")
            }
        }
    }

    /// A cell is no longer used: the last one of its class takes its place.
    fn leave_cell(&mut self, left: Place) {
        let class = usize::from(left.class);
        let block = *self.classes[class].last().expect("the class has a cell");
        let owners = &mut self.blocks[block as usize].owners;
        let cell = (owners.len() - 1) as u16;
        let owner = owners.pop().expect("the last block of a class is not empty");
        if (block, cell) != (left.block, left.cell) {
            let length = self.places[usize::from(owner)].length;
            self.copy_cell(Place { block, cell, ..left }, left, length as usize);
            self.blocks[left.block as usize].owners[usize::from(left.cell)] = owner;
            self.places[usize::from(owner)] = Place { length, ..left };
        }
        if self.blocks[block as usize].owners.is_empty() {
            self.classes[class].pop();
            self.blocks[block as usize] = Block { entries: Box::default(), owners: Vec::new() };
            self.unused.push(block);
        }
    }

    fn copy_cell(&mut self, from: Place, to: Place, length: usize) {
        let start = |place: Place| usize::from(place.cell) * capacity_of(usize::from(place.class));
        let (from_start, to_start) = (start(from), start(to));
        if from.block == to.block {
            self.blocks[from.block as usize].entries.copy_within(from_start..from_start + length, to_start);
            return;
        }
        let blocks = self.blocks.get_disjoint_mut([from.block as usize, to.block as usize]);
        let [source, target] = blocks.expect("two blocks that exist");
        target.entries[to_start..to_start + length].copy_from_slice(&source.entries[from_start..from_start + length]);
    }

    /// The arrays that are not empty, in no order.
    pub fn in_use(&self) -> impl Iterator<Item = &[T]> {
        let blocks = self.classes.iter().flatten().map(|&block| &self.blocks[block as usize]);
        blocks.flat_map(|block| &block.owners).map(|&array| self.get(usize::from(array)))
    }

    /// Asserts what must hold between operations, in the time that the arrays in use take. Of an array that a block
    /// has forgotten nothing is seen here: it is missing among those in use.
    pub fn check_invariants(&self) {
        for (class, blocks) in self.classes.iter().enumerate() {
            for (place, &block) in blocks.iter().enumerate() {
                let owners = &self.blocks[block as usize].owners;
                let is_last = place + 1 == blocks.len();
                assert!(owners.len() == cells_per_block(class) || is_last && !owners.is_empty(), "a block with holes");
                for (cell, &owner) in owners.iter().enumerate() {
                    let known = self.places[usize::from(owner)];
                    let found = (usize::from(known.class), known.block, usize::from(known.cell));
                    assert_eq!(found, (class, block, cell), "the owner of a cell knows it");
                    assert!(known.length as usize <= capacity_of(class), "an array fits in its cell");
                }
            }
        }
        let with_memory = self.classes.iter().map(Vec::len).sum::<usize>();
        assert_eq!(with_memory + self.unused.len(), self.blocks.len(), "each block is of a class or unused");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random.
    fn numbers() -> impl FnMut(usize) -> usize {
        let mut state = 1_u64;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        }
    }

    #[test]
    fn classes_and_capacities_are_inverse() {
        assert_eq!((class_for(0), capacity_of(0)), (0, 0));
        for length in (1..5000).chain((13..28).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1])) {
            let class = class_for(length);
            assert!(capacity_of(class) >= length && capacity_of(class - 1) < length, "{length} in class {class}");
            assert!(capacity_of(class) - length < STEP.max(length / 16 + 1), "{length} in {}", capacity_of(class));
        }
    }

    #[test]
    fn they_are_what_plain_vectors_are() {
        let mut number = numbers();
        let mut arrays = Arrays::new(40);
        let mut plain = vec![Vec::new(); 40];
        for round in 0..60_000 {
            // Mostly growing, then mostly shrinking; the first arrays are the longest.
            let array = number(40) * number(40) / 40;
            let grows = number(8) < if round < 30_000 { 7 } else { 1 };
            match plain[array].len() {
                0 if !grows => {}
                length if grows => {
                    let at = number(length + 1);
                    arrays.insert(array, at, round);
                    plain[array].insert(at, round);
                }
                length => {
                    let at = number(length);
                    arrays.remove(array, at);
                    plain[array].remove(at);
                }
            }
            if number(4000) == 0 {
                arrays.clear(array);
                plain[array].clear();
            }
            if round % 100 == 0 {
                arrays.check_invariants();
                assert!((0..40).all(|array| arrays.get(array) == plain[array]), "round {round}");
                let (mut used, mut filled): (Vec<_>, Vec<_>) = (arrays.in_use().collect(), plain.iter().collect());
                filled.retain(|array| !array.is_empty());
                used.sort_unstable();
                filled.sort_unstable();
                assert_eq!(used, filled, "round {round}");
            }
        }
    }

    #[test]
    fn memory_follows_the_entries() {
        let mut number = numbers();
        let mut arrays = Arrays::new(1 << 14);
        for entry in 0..1_000_000 {
            let array = number(1 << 14);
            let end = arrays.get(array).len();
            arrays.insert(array, end, entry);
        }
        arrays.check_invariants();
        let reserved: usize = arrays.blocks.iter().map(|block| block.entries.len()).sum();
        assert!(reserved < 1_000_000 * 5 / 4, "{reserved} for a million entries of 61 an array");
        for array in 0..1 << 14 {
            arrays.clear(array);
        }
        arrays.check_invariants();
        assert!(arrays.blocks.iter().all(|block| block.entries.is_empty()), "nothing is kept of nothing");
    }

    #[test]
    fn an_array_may_be_larger_than_a_block() {
        let mut arrays = Arrays::new(2);
        for entry in 0..3 * BLOCK_ENTRIES {
            arrays.insert(1, entry, entry);
        }
        arrays.check_invariants();
        assert!(arrays.get(1).iter().copied().eq(0..3 * BLOCK_ENTRIES));
    }
}
