//! All chunks of one core, by stripe.
//!
//! A node holds at most one chunk of a stripe. Chunks and raw operations draw on one memory budget; a part of it is
//! kept from chunks, so that a full node can still take what open stripes append.
//!
//! Invariants: an id is used once (rule R7); the allocator's masks, the budget and the chunks agree.
//!
//! Must not know: sessions, fences.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::Arc;

use shorttail_codes::CodeCache;
use shorttail_units::{Configuration, OpNumber, PartitionId, StripeId};
use shorttail_wire::crc32c;
use shorttail_wire::node::{ChunkDescription, ChunkKind, ChunkReport, Refusal, Scanned};

use crate::arena::{Allocation, Arena};
use crate::budget::Budget;
use crate::chunk::{ChunkMut, data_state, intact_state, split};
use crate::chunk_view::ChunkView;
use crate::chunks::{Chunk, Chunks, Wanted};
use crate::counters::Counters;
use crate::freed::FreedMarks;
use crate::header::{self, ChunkState, read_state};
use crate::kept_ops::KeptOps;
use crate::limits::{
    BLOCK_BYTES, CHUNK_BYTES_MAX, FREE_COUNT_MAX, HEADER_BYTES, MEMORY_BYTES_MAX, MEMORY_BYTES_MIN,
    RAW_RESERVE_BYTES_MAX, RAW_RESERVE_PART, RING_RESERVE_PART, RING_SHARE_PART, SCAN_COUNT_MAX, WRITE_BYTES_MIN,
};
use crate::open_state::{OpenState, RawBuffer};

/// Why a store cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("a core's memory must lie between {min} and {max} bytes, not {asked}", min = MEMORY_BYTES_MIN, max = MEMORY_BYTES_MAX)]
    MemoryBytes { asked: usize },
    #[error("the kernel refuses {asked} bytes of memory: {reason}")]
    Kernel { asked: usize, reason: std::io::Error },
}

/// The chunks of one core and the memory they share.
#[derive(Debug)]
pub struct ChunkStore {
    pub(crate) arena: Arena,
    pub(crate) budget: Budget,
    pub(crate) chunks: Chunks,
    pub(crate) freed: FreedMarks,
    pub(crate) codes: CodeCache,
    pub(crate) counters: Counters,
    /// Operations of open chunks, if they are to outlive the process.
    pub(crate) kept: Option<KeptOps>,
    /// Chunks that were found damaged.
    pub(crate) damaged: BTreeSet<StripeId>,
    /// Units of the largest chunk that was opened.
    pub(crate) opened_units: usize,
    /// What an earlier process left and nobody can tell what it was.
    pub(crate) unidentified: Vec<Allocation>,
    /// Memory of rooms (see `room`).
    pub(crate) reserved: Vec<Allocation>,
}

impl ChunkStore {
    /// # Errors
    /// When the budget is outside its limits or the kernel has no room for it.
    pub fn new(memory_bytes: usize) -> Result<Self, StoreError> {
        Self::in_arena(memory_bytes, Arena::new)
    }

    /// As [`ChunkStore::new`], in memory that other processes can be let read: [`ChunkStore::file`].
    ///
    /// # Errors
    /// As [`ChunkStore::new`].
    pub fn shared(memory_bytes: usize) -> Result<Self, StoreError> {
        Self::in_arena(memory_bytes, Arena::shared)
    }

    fn in_arena(memory_bytes: usize, make: impl Fn(usize) -> io::Result<Arena>) -> Result<Self, StoreError> {
        if !(MEMORY_BYTES_MIN..=MEMORY_BYTES_MAX).contains(&memory_bytes) {
            return Err(StoreError::MemoryBytes { asked: memory_bytes });
        }
        let arena = make(arena_bytes(memory_bytes));
        let arena = arena.map_err(|reason| StoreError::Kernel { asked: memory_bytes, reason })?;
        Ok(Self::over(arena, memory_bytes))
    }

    pub(crate) fn over(arena: Arena, memory_bytes: usize) -> Self {
        ChunkStore {
            arena,
            budget: Budget::new(memory_bytes),
            chunks: Chunks::default(),
            freed: FreedMarks::default(),
            codes: CodeCache::default(),
            counters: Counters::default(),
            kept: None,
            damaged: BTreeSet::new(),
            opened_units: 1,
            unidentified: Vec::new(),
            reserved: Vec::new(),
        }
    }

    /// Makes an empty chunk.
    ///
    /// # Errors
    /// `Exists`: the stripe's id was used before. `OutOfMemory`. `Invalid`: no such shape, or a striped chunk.
    pub fn open(&mut self, description: &ChunkDescription) -> Result<(), Refusal> {
        check_description(description)?;
        if description.kind == ChunkKind::Striped {
            return Err(Refusal::Invalid);
        }
        let open = if description.is_parity() {
            OpenState::Parity(RawBuffer::new(self.codes.get(description.shape)))
        } else {
            data_state()
        };
        let room = description.chunk_bytes as usize;
        let allocation = self.insert(description, &ChunkState::default(), room, Some(Box::new(open)))?;
        self.arena.commit(&allocation);
        self.opened_units = self.opened_units.max(Arena::units_for(HEADER_BYTES + description.chunk_bytes as usize));
        self.counters.opens += 1;
        Ok(())
    }

    /// Makes a sealed chunk with this payload; zeros follow it up to `chunk_bytes`, and take no memory.
    ///
    /// # Errors
    /// `Exists`: the stripe's id was used before. `OutOfMemory`. `OutOfRange`: more bytes than a chunk has.
    pub fn install(&mut self, description: &ChunkDescription, bytes: &[u8]) -> Result<(), Refusal> {
        self.install_at(description, bytes, OpNumber(0))
    }

    /// As [`ChunkStore::install`], of a stripe whose final operation is known (0: it is not).
    ///
    /// # Errors
    /// As [`ChunkStore::install`].
    pub fn install_at(&mut self, description: &ChunkDescription, bytes: &[u8], last: OpNumber) -> Result<(), Refusal> {
        let state = sealed_state(description, bytes, last)?;
        let allocation = self.insert(description, &state, bytes.len(), None)?;
        match bytes.len() > WRITE_BYTES_MIN {
            true => self.arena.write(&allocation, HEADER_BYTES, bytes),
            false => self.arena.bytes_mut(&allocation)[HEADER_BYTES..][..bytes.len()].copy_from_slice(bytes),
        }
        self.arena.commit(&allocation);
        self.counters.installs += 1;
        self.counters.sealed_chunks += 1;
        Ok(())
    }

    /// May this chunk still be made here?
    ///
    /// # Errors
    /// `Exists`: a chunk of the stripe is here, or was freed and this one was ordered before that.
    pub fn check_new(&self, description: &ChunkDescription) -> Result<(), Refusal> {
        let is_here = self.chunks.contains(description.stripe);
        if is_here { Err(Refusal::Exists) } else { self.check_late(description) }
    }

    /// # Errors
    /// `Exists`: the chunk was ordered before its stripe was freed here (rule R11).
    pub(crate) fn check_late(&self, description: &ChunkDescription) -> Result<(), Refusal> {
        let is_late = self.freed.refuses(description.stripe, description.configuration);
        if is_late { Err(Refusal::Exists) } else { Ok(()) }
    }

    /// Drops the chunks of `count` stripes from `first` on, all of `partition`; unknown ones count as dropped. No
    /// late open or install brings them back.
    ///
    /// # Errors
    /// As [`ChunkStore::free_up_to`].
    pub fn free(&mut self, first: StripeId, count: u32, partition: PartitionId) -> Result<(), Refusal> {
        self.free_up_to(first, count, partition, Configuration::END)
    }

    /// As [`ChunkStore::free`], of chunks up to this configuration: one of a higher one stays, or may be made later.
    ///
    /// # Errors
    /// `Invalid`: too many at once, or a chunk is of another partition; then nothing is dropped.
    pub fn free_up_to(
        &mut self,
        first: StripeId,
        count: u32,
        partition: PartitionId,
        up_to: Configuration,
    ) -> Result<(), Refusal> {
        let within = (count as usize) <= FREE_COUNT_MAX;
        let end = first.raw().checked_add(u64::from(count)).filter(|_| within).ok_or(Refusal::Invalid)?;
        let stripes = || (first.raw()..end).map(StripeId::from_raw);
        for stripe in stripes() {
            if self.chunks.get(stripe).is_some_and(|chunk| chunk.partition != partition) {
                return Err(Refusal::Invalid);
            }
        }
        stripes().for_each(|stripe| self.free_one(stripe, up_to));
        Ok(())
    }

    fn free_one(&mut self, stripe: StripeId, up_to: Configuration) {
        self.freed.mark(stripe, up_to);
        // One that cannot tell which it is counts as damaged in any case.
        let is_later = |chunk: ChunkView<'_>| chunk.description_holds() && chunk.facts().configuration > up_to;
        if !self.chunk(stripe).is_ok_and(is_later) {
            self.counters.frees += u64::from(self.drop_chunk(stripe));
        }
    }

    /// Whether there was one.
    pub(crate) fn drop_chunk(&mut self, stripe: StripeId) -> bool {
        self.damaged.remove(&stripe);
        let Some(chunk) = self.chunks.remove(stripe) else { return false };
        let charged = chunk.open.as_ref().map_or(0, |open| open.charged_bytes());
        match chunk.open.as_deref() {
            None => self.counters.sealed_chunks -= 1,
            Some(OpenState::Data(_)) => {}
            Some(OpenState::Parity(raw)) => self.counters.raw_bytes -= raw.raw_bytes(),
        }
        self.budget.release(charged + chunk.allocation.bytes());
        self.arena.free(chunk.allocation);
        true
    }

    /// A sealed chunk was found damaged: scans tell it from now on.
    pub(crate) fn note_damaged(&mut self, stripe: StripeId) {
        self.counters.corruptions_found += u64::from(self.damaged.insert(stripe));
        self.chunks.touch(stripe);
    }

    /// # Errors
    /// `NoChunk`.
    pub fn chunk(&self, stripe: StripeId) -> Result<ChunkView<'_>, Refusal> {
        let chunk = self.chunks.get(stripe).ok_or(Refusal::NoChunk)?;
        Ok(ChunkView { bytes: self.arena.bytes(&chunk.allocation), open: chunk.open.as_deref() })
    }

    /// The file in which chunks lie, unless their memory is this process's alone.
    pub fn file(&self) -> Option<&Arc<File>> {
        self.arena.file()
    }

    /// Where in [`ChunkStore::file`] the payload of a sealed chunk begins. It stays there for as long as the chunk
    /// exists.
    ///
    /// # Errors
    /// `NoChunk`. `NotAtOp`: not sealed. `Invalid`: there is no file.
    pub fn position(&self, stripe: StripeId) -> Result<u64, Refusal> {
        let chunk = self.chunks.get(stripe).ok_or(Refusal::NoChunk)?;
        if chunk.open.is_some() {
            return Err(Refusal::NotAtOp);
        }
        let position = self.arena.position(&chunk.allocation).ok_or(Refusal::Invalid)?;
        Ok(position + HEADER_BYTES as u64)
    }

    /// Copies a sealed chunk's memory, as far as it is in use, into an empty buffer: what another thread may look at
    /// (see [`ChunkView::of_copy`]). Nothing is checked here.
    ///
    /// # Errors
    /// `NoChunk`. `NotAtOp`: it is open.
    pub fn copy_sealed(&self, stripe: StripeId, buffer: &mut Vec<u8>) -> Result<(), Refusal> {
        let chunk = self.chunk(stripe)?;
        if chunk.open.is_some() {
            return Err(Refusal::NotAtOp);
        }
        let in_use =
            intact_state(split(chunk.bytes).0).map_or(usize::MAX, |state| HEADER_BYTES + state.length as usize);
        buffer.extend_from_slice(&chunk.bytes[..chunk.bytes.len().min(in_use)]);
        Ok(())
    }

    /// # Errors
    /// `NoChunk`.
    pub fn chunk_mut(&mut self, stripe: StripeId) -> Result<ChunkMut<'_>, Refusal> {
        self.chunk_mut_by(stripe, Chunks::touch)
    }

    /// # Errors
    /// `NoChunk`.
    pub(crate) fn chunk_mut_unnoticed(&mut self, stripe: StripeId) -> Result<ChunkMut<'_>, Refusal> {
        self.chunk_mut_by(stripe, Chunks::get_mut)
    }

    fn chunk_mut_by(
        &mut self,
        stripe: StripeId,
        get: impl for<'a> FnOnce(&'a mut Chunks, StripeId) -> Option<&'a mut Chunk>,
    ) -> Result<ChunkMut<'_>, Refusal> {
        self.make_room_for_operations();
        let chunk = get(&mut self.chunks, stripe).ok_or(Refusal::NoChunk)?;
        Ok(ChunkMut {
            bytes: self.arena.bytes_mut(&chunk.allocation),
            open: &mut chunk.open,
            budget: &mut self.budget,
            counters: &mut self.counters,
            kept: self.kept.as_mut(),
        })
    }

    /// The oldest operations that are kept make room for those to come. What an open chunk needs to be what it is after
    /// a restart goes to the end: a chunk may rest for ever while others are written to.
    fn make_room_for_operations(&mut self) {
        let Some(kept) = &mut self.kept else { return };
        while let Some((stripe, op)) = kept.crowding() {
            let needs = |chunk: &Chunk| {
                let header = self.arena.bytes(&chunk.allocation).first_chunk();
                let state = header.and_then(read_state);
                state.is_some_and(|state| !state.sealed && !state.fold_mark && op > state.folded)
            };
            if !self.chunks.get(stripe).is_some_and(needs) {
                kept.drop_oldest();
            } else if !kept.carry_oldest() {
                break;
            }
        }
    }

    /// Chunks that changed, or all if it is not known any more what did; the lowest ids first, at most
    /// [`SCAN_COUNT_MAX`]. What was freed is told with the first of them (`after` 0).
    pub fn scan(&self, wanted: Wanted<'_>) -> Scanned {
        let is_complete = wanted.since == 0 || !self.chunks.remembers(wanted.since);
        let since = if is_complete { 0 } else { wanted.since };
        let mut scanned = Scanned { is_complete, change: self.chunks.change(), ..Scanned::default() };
        if !is_complete && wanted.after == StripeId::default() {
            scanned.freed = self.chunks.freed_since(wanted.partitions, since);
        }
        let wanted = Wanted { since, count: wanted.count.min(SCAN_COUNT_MAX), ..wanted };
        for (stripe, chunk) in self.chunks.changed(wanted) {
            let view = ChunkView { bytes: self.arena.bytes(&chunk.allocation), open: chunk.open.as_deref() };
            match view.report() {
                Some(report) => {
                    let damaged = report.damaged || self.damaged.contains(&stripe);
                    scanned.reports.push(ChunkReport { damaged, ..report });
                }
                None => scanned.undescribed.push((stripe, chunk.partition)),
            }
        }
        scanned
    }

    /// All stripes that a chunk is here of, and whether it is sealed.
    pub(crate) fn stripes(&self) -> impl Iterator<Item = (StripeId, bool)> {
        self.chunks.iter().map(|(id, chunk)| (id, chunk.open.is_none()))
    }

    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Chunks and raw operations, in bytes.
    pub fn used_bytes(&self) -> usize {
        self.budget.used_bytes()
    }

    pub fn memory_bytes(&self) -> usize {
        self.budget.limit_bytes()
    }

    /// What chunks may take: the budget without what is kept for raw operations, in bytes.
    pub fn chunk_limit_bytes(&self) -> usize {
        self.arena.limit_bytes()
    }

    /// What is left of [`Self::chunk_limit_bytes`] for chunks as large as those that were opened so far, in bytes:
    /// neither crumbs between smaller ones, nor what raw operations took beyond their part, nor what a full file system
    /// lacks.
    pub fn chunk_free_bytes(&self) -> usize {
        self.arena.free_bytes_for(self.opened_units).min(self.budget.free_bytes())
    }

    /// Was there no memory for a chunk although the budget has it, as the file system is full? Then only what is there
    /// counts as free.
    pub fn is_short_of_pages(&self) -> bool {
        self.arena.is_short()
    }

    /// If so, there may be some again.
    pub fn ask_for_pages(&mut self) {
        self.arena.ask_for_pages();
    }

    /// Is memory to be given back to the kernel?
    pub fn has_surplus(&self) -> bool {
        self.arena.has_surplus()
    }

    /// Gives back so many blocks of it at most.
    pub fn give_back_surplus(&mut self, blocks_max: usize) {
        self.arena.give_back(blocks_max);
    }

    /// Keeps memory for appends that are accepted before they are here: `bytes`, or less; returns how much. It is part
    /// of what is kept for raw operations. `kept_bytes`: what the same ring has already, of which it has its share.
    pub fn promise(&mut self, bytes: usize, kept_bytes: usize) -> usize {
        let bytes_max = (self.budget.limit_bytes() - self.arena.limit_bytes()) / RING_RESERVE_PART;
        let share_bytes = (bytes_max / RING_SHARE_PART).saturating_sub(kept_bytes);
        let promised = self.budget.promise(bytes.min(share_bytes), bytes_max);
        // In whole words, as rings are made of.
        let crumbs = promised % size_of::<u64>();
        self.budget.redeem(crumbs);
        promised - crumbs
    }

    /// Appends for which so much was promised are here, or will not come.
    ///
    /// # Panics
    /// If it was not promised.
    pub fn redeem(&mut self, bytes: usize) {
        self.budget.redeem(bytes);
    }

    pub fn counters(&self) -> Counters {
        Counters { damaged_chunks: self.damaged.len(), ..self.counters }
    }

    /// Adds a chunk with room for `payload_bytes`; nothing changes if it is refused.
    fn insert(
        &mut self,
        description: &ChunkDescription,
        state: &ChunkState,
        payload_bytes: usize,
        open: Option<Box<OpenState>>,
    ) -> Result<Allocation, Refusal> {
        self.check_new(description)?;
        let allocation = self.place(description, state, payload_bytes)?;
        self.chunks.insert(description.stripe, description.partition, allocation, open);
        Ok(allocation)
    }

    /// Memory for a chunk, with its header; nothing changes if it is refused.
    pub(crate) fn place(
        &mut self,
        description: &ChunkDescription,
        state: &ChunkState,
        payload_bytes: usize,
    ) -> Result<Allocation, Refusal> {
        let units = Arena::units_for(HEADER_BYTES + payload_bytes);
        let allocation = self.arena.allocate(units).ok_or(Refusal::OutOfMemory)?;
        if let Err(refusal) = self.budget.charge(allocation.bytes()) {
            self.arena.free(allocation);
            return Err(refusal);
        }
        let bytes = self.arena.bytes_mut(&allocation);
        let (header, _) = bytes.split_first_chunk_mut::<HEADER_BYTES>().expect("a chunk begins with its header");
        header::write_new(description, state, header);
        Ok(allocation)
    }

    /// Asserts everything that must hold between operations.
    pub fn check_invariants(&self) {
        let known = self.chunks.values().map(|chunk| chunk.allocation);
        let allocations: Vec<Allocation> =
            known.chain(self.unidentified.iter().chain(&self.reserved).copied()).collect();
        self.arena.check_invariants(&allocations);
        let charged: usize =
            self.chunks.values().filter_map(|chunk| chunk.open.as_ref()).map(|o| o.charged_bytes()).sum();
        assert_eq!(self.budget.used_bytes(), self.arena.used_bytes() + charged, "the budget counts what is there");
        assert!(self.budget.used_bytes() <= self.budget.limit_bytes(), "over budget");
        assert!(self.damaged.iter().all(|&stripe| self.chunks.contains(stripe)), "damaged chunks are here");
        assert!(self.freed.len() <= crate::limits::FREED_MARKS_MAX, "marks are bounded");
        let mut raw_bytes = 0;
        self.chunks.check_invariants();
        for (id, chunk) in self.chunks.iter() {
            let view = ChunkView { bytes: self.arena.bytes(&chunk.allocation), open: chunk.open.as_deref() };
            assert!(
                !view.description_holds() || view.facts().partition == chunk.partition,
                "{id:?}: another partition"
            );
            let is_freed = self.freed.refuses(id, view.facts().configuration);
            assert!(!view.description_holds() || !is_freed, "a freed chunk is here");
            raw_bytes += invariant_chunk(id.raw(), &view);
        }
        assert_eq!(self.counters.raw_bytes, raw_bytes, "raw bytes are counted");
        let sealed_chunks = self.chunks.values().filter(|chunk| chunk.open.is_none()).count();
        assert_eq!(self.counters.sealed_chunks, sealed_chunks, "sealed chunks are counted");
    }
}

/// Asserts what must hold of one chunk; returns its raw bytes.
fn invariant_chunk(id: u64, view: &ChunkView<'_>) -> usize {
    let Some(report) = view.report().filter(|report| !report.damaged) else {
        return if let Some(OpenState::Parity(raw)) = view.open { raw.raw_bytes() } else { 0 };
    };
    assert_eq!(report.description.stripe.raw(), id, "a chunk lies under its own id");
    assert!(report.length <= report.description.chunk_bytes, "{id:x}: longer than its chunk");
    assert_eq!(report.sealed, view.open.is_none(), "{id:x}: only an open chunk keeps operations");
    match view.open {
        Some(OpenState::Parity(raw)) => {
            assert!(report.folded <= report.last, "{id:x}: folded more than it holds");
            raw.check_invariants(report.folded, report.last);
            raw.raw_bytes()
        }
        Some(OpenState::Data(log)) => {
            let first = log.iter(report.length).map(|(op, _)| op).next();
            assert!(first.is_none_or(|op| op > report.folded), "{id:x}: remembers a stable operation");
            assert!(log.length_at(OpNumber(u32::MAX), report.length) == report.length, "{id:x}: an operation too far");
            0
        }
        None => 0,
    }
}

/// What chunks may take of a budget: whole blocks, and a part is kept for raw operations.
pub(crate) fn arena_bytes(memory_bytes: usize) -> usize {
    let reserve_bytes = (memory_bytes / RAW_RESERVE_PART).min(RAW_RESERVE_BYTES_MAX);
    (memory_bytes - reserve_bytes) / BLOCK_BYTES * BLOCK_BYTES
}

/// The state of a sealed chunk that holds these bytes.
pub(crate) fn sealed_state(
    description: &ChunkDescription,
    bytes: &[u8],
    last: OpNumber,
) -> Result<ChunkState, Refusal> {
    check_description(description)?;
    let length = u32::try_from(bytes.len()).ok().filter(|&length| length <= description.chunk_bytes);
    let length = length.ok_or(Refusal::OutOfRange)?;
    let payload_crc = crc32c(bytes);
    Ok(ChunkState { sealed: true, length, last, folded: last, payload_crc, ..ChunkState::default() })
}

pub(crate) fn check_description(description: &ChunkDescription) -> Result<(), Refusal> {
    let members = description.shape.chunk_count();
    let shape = description.members.0.len() == members && usize::from(description.index) < members;
    let size = (1..=CHUNK_BYTES_MAX).contains(&(description.chunk_bytes as usize));
    if shape && size { Ok(()) } else { Err(Refusal::Invalid) }
}
