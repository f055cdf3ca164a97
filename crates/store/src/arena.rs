//! The arena: one mapping, handed out in units of 1 KiB inside blocks of 64 KiB.
//!
//! ```text
//! mapping | block 0: 64 units | block 1: 64 units | ...          a full chunk is one whole block
//! block     free:  u64, bit u set = unit u is free
//!           dirty: u64, bit u set = unit u is free and may hold old bytes
//! ```
//!
//! Blocks with room lie in lists by their longest run of free units, so an allocation looks at most at 66 lists and
//! takes the tightest block; wholly free blocks serve whole chunks first. Memory is zeroed when it is handed out
//! again; wholly free blocks beyond a few give their pages back to the kernel, so that the resident size is honest.
//!
//! Invariants: an allocated unit is in no free mask; a block with a free unit is in exactly the list of its longest
//! run; a free unit that is not dirty holds zeros.
//!
//! An arena that is kept in a file has a table beside it (see `table`), of what was committed. From the table alone a
//! later process knows what is allocated.
//!
//! Must not know: what is stored in the memory.

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::limits::{BLOCK_BYTES, BLOCK_UNITS, RESIDENT_FREE_BLOCKS_MAX, UNIT_BYTES};
use crate::mapping::Mapping;
use crate::table::{Run, Table};

/// Memory that was handed out: `units` units of one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    block: u32,
    unit: u8,
    units: u8,
}

impl Allocation {
    /// Bytes handed out.
    pub fn bytes(&self) -> usize {
        usize::from(self.units) * UNIT_BYTES
    }

    fn range(&self) -> std::ops::Range<usize> {
        let start = self.block as usize * BLOCK_BYTES + usize::from(self.unit) * UNIT_BYTES;
        start..start + self.bytes()
    }

    /// The unit of the arena at which it begins: its place in the table.
    pub(crate) fn place(&self) -> usize {
        self.block as usize * BLOCK_UNITS + usize::from(self.unit)
    }

    fn mask(&self) -> u64 {
        run_mask(u32::from(self.unit), usize::from(self.units))
    }
}

#[derive(Clone, Copy, Debug)]
struct Block {
    free: u64,
    dirty: u64,
    /// Place in the block's list; meaningless while no unit is free.
    position: u32,
}

/// Lists 1 to 63: the longest free run. Wholly free and resident, then wholly free and given back to the kernel.
const RESIDENT: usize = BLOCK_UNITS;
const RELEASED: usize = BLOCK_UNITS + 1;
const LIST_COUNT: usize = BLOCK_UNITS + 2;

/// An allocator over one mapping.
#[derive(Debug)]
pub struct Arena {
    memory: Mapping,
    table: Option<Table>,
    /// Blocks that were ever used; the rest of the mapping is untouched.
    blocks: Vec<Block>,
    block_count: usize,
    lists: [Vec<u32>; LIST_COUNT],
    used_units: usize,
    /// Last time there was no memory for a block that had no pages.
    is_short: bool,
}

impl Arena {
    /// An arena of `bytes` bytes, rounded down to whole blocks.
    ///
    /// # Errors
    /// When the kernel refuses the mapping.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let block_count = bytes / BLOCK_BYTES;
        let memory = Mapping::new(block_count * BLOCK_BYTES)?;
        Ok(Self::over(memory, None, block_count))
    }

    /// As [`Arena::new`], in memory that other processes can be let read.
    ///
    /// # Errors
    /// When the kernel refuses the mapping.
    pub fn shared(bytes: usize) -> io::Result<Self> {
        let block_count = bytes / BLOCK_BYTES;
        let memory = Mapping::shared(block_count * BLOCK_BYTES)?;
        Ok(Self::over(memory, None, block_count))
    }

    fn over(memory: Mapping, table: Option<Table>, block_count: usize) -> Self {
        Arena {
            memory,
            table,
            blocks: Vec::new(),
            block_count,
            lists: [const { Vec::new() }; LIST_COUNT],
            used_units: 0,
            is_short: false,
        }
    }

    /// An arena in memory that an earlier process may have left, and what is allocated in it.
    pub fn restore(memory: Mapping, mut table: Table) -> (Self, Vec<Allocation>) {
        let block_count = memory.len() / BLOCK_BYTES;
        let mut arena = Self::over(memory, None, block_count);
        let mut live = Vec::new();
        let mut empty_from = 0;
        for block in 0..block_count {
            let before = live.len();
            let found = table.take_block(block).into_iter();
            live.extend(found.map(|Run { unit, units }| Allocation { block: block as u32, unit, units }));
            if live.len() > before {
                arena.memory.discard(empty_from * BLOCK_BYTES..block * BLOCK_BYTES);
                empty_from = block + 1;
                // Blocks before it that hold nothing are there, and empty.
                arena.blocks.resize(block, Block { free: u64::MAX, dirty: 0, position: 0 });
                let used = live[before..].iter().fold(0, |mask, allocation| mask | allocation.mask());
                arena.blocks.push(Block { free: !used, dirty: !used, position: 0 });
                arena.used_units += live[before..].iter().map(|one| usize::from(one.units)).sum::<usize>();
            }
        }
        arena.memory.discard(empty_from * BLOCK_BYTES..block_count * BLOCK_BYTES);
        for block in 0..arena.blocks.len() {
            if arena.blocks[block].free != 0 {
                arena.list(block as u32);
            }
        }
        arena.table = Some(table);
        (arena, live)
    }

    /// What tells a later process of allocations, if anything does.
    pub fn table(&self) -> Option<&Table> {
        self.table.as_ref()
    }

    pub fn table_mut(&mut self) -> Option<&mut Table> {
        self.table.as_mut()
    }

    /// What is written in this memory is to be found by a later process.
    pub fn commit(&mut self, allocation: &Allocation) {
        if let Some(table) = &mut self.table {
            table.set(allocation.place(), allocation.units);
        }
    }

    /// Units needed for `bytes` bytes.
    pub fn units_for(bytes: usize) -> usize {
        bytes.div_ceil(UNIT_BYTES)
    }

    /// Bytes handed out.
    pub fn used_bytes(&self) -> usize {
        self.used_units * UNIT_BYTES
    }

    /// Bytes that can be handed out in all.
    pub fn limit_bytes(&self) -> usize {
        self.block_count * BLOCK_BYTES
    }

    /// Bytes that runs of `units` units would find now, at least. Blocks without pages do not count while there is no
    /// memory for them.
    pub fn free_bytes_for(&self, units: usize) -> usize {
        let fitting = |run: usize| run / units * units;
        let without_pages = self.block_count - self.blocks.len() + self.lists[RELEASED].len();
        let free_blocks = if self.is_short { 0 } else { without_pages };
        let partial: usize = (units..=RESIDENT).map(|run| self.lists[run].len() * fitting(run)).sum();
        (free_blocks * fitting(BLOCK_UNITS) + partial) * UNIT_BYTES
    }

    /// Was there no memory for a block, the last time that one was to get pages?
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// If so, the block that would be used next is to get them now; it keeps them.
    pub fn ask_for_pages(&mut self) {
        let next = self.lists[RELEASED].last().map_or(self.blocks.len(), |&block| block as usize);
        if self.is_short && (next == self.block_count || self.has_memory(next)) {
            self.is_short = false;
        }
    }

    /// Zeroed memory of `units` neighbouring units, or `None` when no block has such a run.
    ///
    /// # Panics
    /// If `units` is 0 or more than a block.
    pub fn allocate(&mut self, units: usize) -> Option<Allocation> {
        self.allocate_with(units, true)
    }

    /// As [`Arena::allocate`], for memory that is written past the mapping: a whole block may have no pages yet. It is
    /// given back by [`Arena::free_bare`], if nobody wrote it.
    pub fn allocate_bare(&mut self, units: usize) -> Option<Allocation> {
        self.allocate_with(units, units < BLOCK_UNITS)
    }

    fn allocate_with(&mut self, units: usize, has_pages: bool) -> Option<Allocation> {
        assert!((1..=BLOCK_UNITS).contains(&units), "{units} units are not a run of one block");
        let block = self.block_with_run(units, has_pages)?;
        let index = block as usize;
        let free = self.blocks[index].free;
        let unit = first_run(free, units).expect("the block's list promises such a run");
        let allocation = Allocation { block, unit: unit as u8, units: units as u8 };
        self.unlist(block);
        self.zero_dirty(&allocation);
        self.blocks[index].free &= !allocation.mask();
        self.list(block);
        self.used_units += units;
        Some(allocation)
    }

    /// Takes memory back.
    ///
    /// # Panics
    /// If it was not handed out, or was already taken back.
    pub fn free(&mut self, allocation: Allocation) {
        let index = allocation.block as usize;
        assert_eq!(self.blocks[index].free & allocation.mask(), 0, "memory freed twice: {allocation:?}");
        if let Some(table) = &mut self.table {
            table.set(allocation.place(), 0);
        }
        self.unlist(allocation.block);
        let block = &mut self.blocks[index];
        block.free |= allocation.mask();
        block.dirty |= allocation.mask();
        self.list(allocation.block);
        self.used_units -= usize::from(allocation.units);
    }

    /// Are more blocks free and resident than the next chunks may want?
    pub fn has_surplus(&self) -> bool {
        self.lists[RESIDENT].len() > RESIDENT_FREE_BLOCKS_MAX
    }

    /// Gives the pages of so many such blocks back to the kernel, which takes it some time.
    pub fn give_back(&mut self, blocks_max: usize) {
        for _ in 0..blocks_max {
            if !self.has_surplus() {
                return;
            }
            let Some(&block) = self.lists[RESIDENT].last() else { return };
            let index = block as usize;
            self.unlist(block);
            self.memory.discard(index * BLOCK_BYTES..(index + 1) * BLOCK_BYTES);
            self.blocks[index].dirty = 0;
            self.list(block);
        }
    }

    /// Takes back what [`Arena::allocate_bare`] gave.
    ///
    /// # Panics
    /// As [`Arena::free`].
    pub fn free_bare(&mut self, allocation: Allocation) {
        if usize::from(allocation.units) < BLOCK_UNITS {
            return self.free(allocation);
        }
        // Whether it has pages nobody can tell.
        let index = allocation.block as usize;
        assert_eq!(self.blocks[index].free, 0, "memory freed twice: {allocation:?}");
        self.memory.discard(index * BLOCK_BYTES..(index + 1) * BLOCK_BYTES);
        self.blocks[index] = Block { free: u64::MAX, dirty: 0, position: 0 };
        self.list(allocation.block);
        self.used_units -= BLOCK_UNITS;
    }

    /// Takes back all but the first `units` of an allocation; returns what is left of it.
    pub fn shrink(&mut self, allocation: Allocation, units: usize) -> Allocation {
        let kept = Allocation { units: units as u8, ..allocation };
        assert!((1..=usize::from(allocation.units)).contains(&units), "no more than there is");
        if kept.units < allocation.units {
            let (unit, units) = (allocation.unit + kept.units, allocation.units - kept.units);
            self.free(Allocation { unit, units, ..allocation });
        }
        kept
    }

    /// The file that the memory is a part of, if it is one.
    pub fn file(&self) -> Option<&Arc<File>> {
        self.memory.file().map(|(file, _)| file)
    }

    /// Where in that file an allocation begins.
    pub fn position(&self, allocation: &Allocation) -> Option<u64> {
        self.memory.file().map(|(_, offset)| offset + allocation.range().start as u64)
    }

    pub fn bytes(&self, allocation: &Allocation) -> &[u8] {
        &self.memory[allocation.range()]
    }

    /// Writes much of an allocation at once.
    pub fn write(&mut self, allocation: &Allocation, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= allocation.bytes(), "inside the allocation");
        if self.memory.file().is_none() {
            self.memory.populate(allocation.range());
        }
        self.memory.write(allocation.range().start + offset, bytes);
    }

    pub fn bytes_mut(&mut self, allocation: &Allocation) -> &mut [u8] {
        &mut self.memory[allocation.range()]
    }

    /// The tightest block with a run of `units`; an untouched one last.
    fn block_with_run(&mut self, units: usize, has_pages: bool) -> Option<u32> {
        let found = self.lists[units..].iter().find_map(|list| list.last()).copied();
        if let Some(block) = found {
            let is_released = self.blocks[block as usize].free == u64::MAX && self.blocks[block as usize].dirty == 0;
            return (!has_pages || !is_released || self.has_memory(block as usize)).then_some(block);
        }
        if self.blocks.len() == self.block_count {
            return None;
        }
        if has_pages && !self.has_memory(self.blocks.len()) {
            return None;
        }
        let block = u32::try_from(self.blocks.len()).ok()?;
        self.blocks.push(Block { free: u64::MAX, dirty: 0, position: 0 });
        self.list(block);
        Some(block)
    }

    /// May a block be written to that the kernel has no pages for yet?
    fn has_memory(&mut self, block: usize) -> bool {
        self.is_short = self.memory.reserve(block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES).is_err();
        !self.is_short
    }

    fn zero_dirty(&mut self, allocation: &Allocation) {
        let block = &mut self.blocks[allocation.block as usize];
        let dirty = block.dirty & allocation.mask();
        block.dirty &= !dirty;
        if dirty == allocation.mask() {
            self.memory[allocation.range()].fill(0);
            return;
        }
        let start = allocation.block as usize * BLOCK_BYTES;
        for unit in (0..BLOCK_UNITS).filter(|unit| dirty >> unit & 1 == 1) {
            self.memory[start + unit * UNIT_BYTES..][..UNIT_BYTES].fill(0);
        }
    }

    fn list_of(block: &Block) -> usize {
        match (block.free, block.dirty) {
            (u64::MAX, 0) => RELEASED,
            (u64::MAX, _) => RESIDENT,
            (free, _) => longest_run(free),
        }
    }

    fn list(&mut self, block: u32) {
        let list = Self::list_of(&self.blocks[block as usize]);
        if list > 0 {
            self.blocks[block as usize].position = self.lists[list].len() as u32;
            self.lists[list].push(block);
        }
    }

    fn unlist(&mut self, block: u32) {
        let list = Self::list_of(&self.blocks[block as usize]);
        if list > 0 {
            let position = self.blocks[block as usize].position as usize;
            self.lists[list].swap_remove(position);
            if let Some(&moved) = self.lists[list].get(position) {
                self.blocks[moved as usize].position = position as u32;
            }
        }
    }

    /// Asserts that exactly `live` is handed out and that lists and masks agree.
    pub fn check_invariants(&self, live: &[Allocation]) {
        let mut used = vec![0u64; self.blocks.len()];
        for allocation in live {
            let mask = &mut used[allocation.block as usize];
            assert_eq!(*mask & allocation.mask(), 0, "{allocation:?} overlaps another allocation");
            *mask |= allocation.mask();
        }
        for (index, block) in self.blocks.iter().enumerate() {
            assert_eq!(block.free, !used[index], "free mask of block {index}");
            assert_eq!(block.dirty & !block.free, 0, "a used unit of block {index} is marked dirty");
            let list = Self::list_of(block);
            let listed = self.lists[list].get(block.position as usize) == Some(&(index as u32));
            assert!(list == 0 || listed, "block {index} is not in list {list}");
        }
        let listed: usize = self.lists.iter().map(Vec::len).sum();
        assert_eq!(listed, self.blocks.iter().filter(|block| block.free != 0).count(), "lists hold strangers");
        assert_eq!(self.used_units, live.iter().map(|one| usize::from(one.units)).sum::<usize>(), "used units");
    }
}

fn run_mask(start: u32, units: usize) -> u64 {
    (u64::MAX >> (BLOCK_UNITS - units)) << start
}

/// Length of the longest run of ones.
fn longest_run(mut mask: u64) -> usize {
    let mut length = 0;
    while mask != 0 {
        mask &= mask << 1;
        length += 1;
    }
    length
}

/// Lowest start of a run of `units` ones.
fn first_run(mut mask: u64, units: usize) -> Option<u32> {
    // After a step of `shift`, bit b says that a run of `covered + shift` begins at b.
    let mut covered = 1;
    while covered < units {
        let shift = covered.min(units - covered);
        mask &= mask >> shift;
        covered += shift;
    }
    (mask != 0).then(|| mask.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::MEMORY_BYTES_MIN;

    #[test]
    fn a_full_chunk_takes_a_whole_block_and_the_end_is_told() {
        let mut arena = Arena::new(MEMORY_BYTES_MIN).expect("memory");
        let blocks: Vec<_> = (0..4).map(|_| arena.allocate(64).expect("room")).collect();
        assert_eq!(arena.allocate(1), None);
        arena.check_invariants(&blocks);
        arena.free(blocks[2]);
        assert_eq!(arena.allocate(64), Some(blocks[2]));
    }

    #[test]
    fn small_allocations_share_the_tightest_block() {
        let mut arena = Arena::new(MEMORY_BYTES_MIN).expect("memory");
        let first = arena.allocate(60).expect("room");
        let second = arena.allocate(30).expect("room");
        let third = arena.allocate(4).expect("room");
        assert_eq!((first.block, second.block, third.block), (0, 1, 0));
        arena.check_invariants(&[first, second, third]);
    }

    #[test]
    fn blocks_beyond_the_resident_few_are_given_back_and_reused() {
        let mut arena = Arena::new(80 * BLOCK_BYTES).expect("memory");
        let live: Vec<_> = (0..80).map(|_| arena.allocate(64).expect("room")).collect();
        for allocation in &live {
            arena.bytes_mut(allocation).fill(1);
            arena.free(*allocation);
        }
        let listed = |arena: &Arena| (arena.lists[RESIDENT].len(), arena.lists[RELEASED].len());
        assert_eq!(listed(&arena), (80, 0), "who frees does not wait for the kernel");
        arena.give_back(10);
        assert_eq!((listed(&arena), arena.has_surplus()), ((70, 10), true));
        arena.give_back(10);
        assert_eq!((listed(&arena), arena.has_surplus()), ((64, 16), false));
        for _ in 0..80 {
            let allocation = arena.allocate(64).expect("room");
            assert!(arena.bytes(&allocation).iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn a_second_free_is_noticed() {
        let mut arena = Arena::new(MEMORY_BYTES_MIN).expect("memory");
        let allocation = arena.allocate(3).expect("room");
        arena.free(allocation);
        arena.free(allocation);
    }

    proptest! {
        #[test]
        fn runs_are_found_as_by_looking_at_every_place(mask: u64, sparse: u64, units in 1usize..=64) {
            for mask in [mask, mask & sparse, mask | sparse, u64::MAX] {
                let fits = |start: u32| {
                    let run = u128::from(u64::MAX >> (64 - units)) << start;
                    run & !u128::from(mask) == 0
                };
                prop_assert_eq!(first_run(mask, units), (0..64).find(|&start| fits(start)));
                prop_assert_eq!(longest_run(mask) >= units, first_run(mask, units).is_some());
            }
        }

        #[test]
        fn memory_is_zeroed_and_never_shared(steps in proptest::collection::vec((any::<bool>(), 1usize..=64), 1..200)) {
            let mut arena = Arena::new(6 * BLOCK_BYTES).expect("memory");
            let mut live = Vec::new();
            for (take, number) in steps {
                if take || live.is_empty() {
                    if let Some(allocation) = arena.allocate(number) {
                        prop_assert!(arena.bytes(&allocation).iter().all(|&byte| byte == 0));
                        arena.bytes_mut(&allocation).fill(0xa5);
                        live.push(allocation);
                    }
                } else {
                    arena.free(live.swap_remove(number % live.len()));
                }
                arena.check_invariants(&live);
            }
        }
    }
}
