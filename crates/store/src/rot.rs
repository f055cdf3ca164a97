//! What may befall memory, made on purpose: bits that rot, also of a file that no process uses, folds that a crash
//! interrupts, chunks for which there is no place.

use std::io;

use shorttail_units::{Configuration, StripeId};

use crate::chunk::{FoldStep, split_mut};
use crate::chunk_store::ChunkStore;
use crate::limits::HEADER_BYTES;
use crate::memory_file::MemoryFile;

/// A byte of a chunk's header that tells which chunk it is.
const DESCRIPTION_AT: usize = 50;

impl ChunkStore {
    /// Flips `count` bits in the payloads of sealed chunks, each in a chunk and at a place that two numbers of `pick`
    /// choose. Returns how many: none if nothing is sealed.
    pub fn flip_bits(&mut self, count: u32, mut pick: impl FnMut() -> u64) -> u32 {
        let sealed = self.sealed_stripes();
        if sealed.is_empty() {
            return 0;
        }
        let mut flipped = 0;
        for _ in 0..count {
            let stripe = sealed[(pick() % sealed.len() as u64) as usize];
            let Ok(mut chunk) = self.chunk_mut_unnoticed(stripe) else { continue };
            let payload = chunk.payload_in_use();
            let bit = pick() % (payload.len() as u64 * 8).max(1);
            if let Some(byte) = payload.get_mut((bit / 8) as usize) {
                *byte ^= 1 << (bit % 8);
                flipped += 1;
            }
        }
        flipped
    }

    /// Flips `count` bits anywhere in chunks, open ones and headers included: half of them in headers.
    /// Returns how many.
    pub fn rot(&mut self, count: u32, mut pick: impl FnMut() -> u64) -> u32 {
        let mut stripes: Vec<StripeId> = self.stripes().map(|(id, _)| id).collect();
        stripes.sort_unstable();
        if stripes.is_empty() {
            return 0;
        }
        for _ in 0..count {
            let stripe = stripes[(pick() % stripes.len() as u64) as usize];
            let Ok(chunk) = self.chunk_mut_unnoticed(stripe) else { continue };
            let (header, payload) = split_mut(chunk.bytes);
            let bytes = if pick().is_multiple_of(2) { &mut header[..] } else { payload };
            let bit = pick() % (bytes.len() as u64 * 8);
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        count
    }

    /// Flips a bit near the beginning of every open parity chunk. Returns how many.
    pub fn flip_open_parities(&mut self) -> u32 {
        let open: Vec<StripeId> = self.stripes().filter(|&(_, is_sealed)| !is_sealed).map(|(id, _)| id).collect();
        let mut flipped = 0;
        for stripe in open {
            let Ok(mut chunk) = self.chunk_mut_unnoticed(stripe) else { continue };
            if chunk.facts().is_parity() {
                chunk.payload()[0] ^= 1;
                flipped += 1;
            }
        }
        flipped
    }

    /// Spoils the description of the first sealed chunks, as a process that dies while it writes one does.
    /// Returns of how many.
    pub fn tear_descriptions(&mut self, count: usize) -> u32 {
        let mut torn = 0;
        for stripe in self.sealed_stripes().into_iter().take(count) {
            if let Ok(chunk) = self.chunk_mut_unnoticed(stripe) {
                chunk.bytes[DESCRIPTION_AT] ^= 1;
                torn += 1;
            }
        }
        torn
    }

    /// Flips one bit in the header of every sealed chunk: of the first one the bit `first`, of each other one the next
    /// bit. Returns of how many.
    pub fn flip_header_bits(&mut self, first: usize) -> usize {
        let sealed = self.sealed_stripes();
        for (at, &stripe) in sealed.iter().enumerate() {
            let bit = (first + at) % (HEADER_BYTES * 8);
            if let Ok(chunk) = self.chunk_mut_unnoticed(stripe) {
                chunk.bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
        sealed.len()
    }

    /// Takes nothing of these stripes any more, as if they were gone, unless it holds a chunk.
    pub fn refuse(&mut self, stripes: &[StripeId]) {
        for &stripe in stripes.iter().filter(|&&stripe| self.chunk(stripe).is_err()).collect::<Vec<_>>() {
            self.freed.mark(stripe, Configuration::END);
        }
    }

    /// Leaves every open parity chunk as a crash in the middle of folding all that it holds would: the bytes are
    /// folded, and it was not noted yet (rule R6). Returns how many chunks.
    pub fn interrupt_folds(&mut self) -> u32 {
        let open: Vec<StripeId> = self.stripes().filter(|&(_, is_sealed)| !is_sealed).map(|(id, _)| id).collect();
        let mut interrupted = 0;
        for stripe in open {
            let Ok(mut chunk) = self.chunk_mut_unnoticed(stripe) else { continue };
            let (Ok(mut state), Ok(_)) = (chunk.state(), chunk.ownership()) else { continue };
            if chunk.facts().is_parity() && state.folded < state.last {
                let last = state.last;
                chunk.fold(&mut state, last, Some(FoldStep::Folded));
                interrupted += 1;
            }
        }
        interrupted
    }

    /// In order, so that the same numbers choose the same chunks.
    fn sealed_stripes(&self) -> Vec<StripeId> {
        let mut sealed: Vec<StripeId> = self.stripes().filter(|&(_, is_sealed)| is_sealed).map(|(id, _)| id).collect();
        sealed.sort_unstable();
        sealed
    }
}

impl MemoryFile {
    /// Flips one bit of every entry of its tables, and one of all else that is there twice: nothing is lost by that. No
    /// process uses it. Returns how many.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn flip_what_is_there_twice(&self, mut pick: impl FnMut() -> u64) -> io::Result<usize> {
        let mut flipped = 0;
        for mut core in self.all_cores()? {
            core.kept.damage_places(pick());
            core.notes.damage(pick());
            flipped += core.table.flip_bits(&mut pick) + 2;
        }
        Ok(flipped)
    }

    /// Damages the entries of the first chunks of each core, so that nobody can tell what they said. No process uses
    /// it. Returns of how many.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn spoil_entries(&self, count: usize) -> io::Result<usize> {
        Ok(self.all_cores()?.iter_mut().map(|core| core.table.spoil(count)).sum())
    }
}
