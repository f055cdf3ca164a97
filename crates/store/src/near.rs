//! Sealed chunks as they are read beside the core that they belong to, by another thread or another process.
//!
//! The core neither knows of such a read nor waits for it: at any time a chunk may be freed, and another one written in
//! its place. So what was read counts only if header and payload hold together, and are those of the stripe wanted.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shorttail_units::StripeId;

use crate::chunk::intact_state;
use crate::chunk_view::{ChunkView, payload_holds};
use crate::header::{ChunkState, HeaderBytes};
use crate::limits::HEADER_BYTES;
use crate::mapping::WordsView;

/// The memory of a node's core, as others may read it.
pub trait NearReader: Debug + Send {
    /// Fills `into` with the bytes from `position` on; how many there were.
    fn read(&self, position: u64, into: &mut [u8]) -> usize;

    /// The same for `first`, and what follows for `second`: at one go, where each costs a system call.
    fn read_both(&self, position: u64, first: &mut [u8], second: &mut [u8]) -> usize {
        match self.read(position, first) {
            count if count < first.len() => count,
            count => count + self.read(position + count as u64, second),
        }
    }
}

/// The memory of this node's core, as another thread may write where the core left it room.
pub trait NearWriter: NearReader {
    /// Takes memory for `room_bytes` from the machine and writes `bytes` at the beginning of it. False: not all of
    /// that could be done.
    fn write(&self, position: u64, room_bytes: usize, bytes: &[u8]) -> bool;
}

/// Memory of a core in another process, mapped: a read costs no system call.
#[derive(Debug)]
pub struct NearView {
    words: WordsView,
    read_count: AtomicU64,
}

impl NearView {
    /// # Errors
    /// What the kernel says; `InvalidData` or `InvalidInput`: the file may get shorter, so it cannot be looked at
    /// safely.
    pub fn open(file: &Arc<File>) -> io::Result<Self> {
        Ok(NearView { words: WordsView::of_file(file)?, read_count: AtomicU64::new(0) })
    }

    /// Reads so far: as many as ever, and nothing was read meanwhile.
    pub fn read_count(&self) -> u64 {
        self.read_count.load(Ordering::Relaxed)
    }

    /// Lets go of the pages that were read, which count as this process's, too. They come back with the next read.
    pub fn let_go(&self) {
        self.words.let_go();
    }
}

impl NearReader for NearView {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        // One thread reads, so nothing is lost between the two.
        self.read_count.store(self.read_count() + 1, Ordering::Relaxed);
        self.words.read(position, into)
    }
}

/// Reads the sealed chunk of a stripe whose payload begins at `position` (see
/// [`ChunkStore::position`](crate::ChunkStore::position)): puts its payload, as far as it is in use, at the beginning
/// of `bytes`, and returns its header, which [`ChunkView::of_copy`] takes. Behind it `bytes` has what lies there.
///
/// `None`: what lies there is no such chunk (any more), or is longer, or damaged; `bytes` has whatever it was.
pub fn read_sealed(memory: &dyn NearReader, position: u64, stripe: StripeId, bytes: &mut [u8]) -> Option<HeaderBytes> {
    read_unproven(memory, position, stripe, bytes).filter(|header| is_payload_of(header, bytes))
}

/// As [`read_sealed`], but only the header was looked at; whether the payload is right the caller finds out.
pub fn read_unproven(
    memory: &dyn NearReader,
    position: u64,
    stripe: StripeId,
    bytes: &mut [u8],
) -> Option<HeaderBytes> {
    let mut header: HeaderBytes = [0; HEADER_BYTES];
    let count = memory.read_both(header_position(position)?, &mut header, bytes);
    let length = sealed_state(&header, stripe)?.length as usize;
    (length <= bytes.len() && count >= HEADER_BYTES + length).then_some(header)
}

/// Begin these bytes with the payload of the sealed chunk that has this header?
fn is_payload_of(header: &HeaderBytes, bytes: &[u8]) -> bool {
    let state = intact_state(header).ok();
    state.is_some_and(|state| bytes.get(..state.length as usize).is_some_and(|payload| payload_holds(&state, payload)))
}

/// Bytes in use of the sealed chunk of a stripe whose payload begins at `position`; what is behind them is zeros that
/// do not lie there. `None`: there is no such chunk there.
pub fn sealed_length(memory: &dyn NearReader, position: u64, stripe: StripeId) -> Option<u32> {
    let mut header: HeaderBytes = [0; HEADER_BYTES];
    let is_read = memory.read(header_position(position)?, &mut header) == HEADER_BYTES;
    sealed_state(&header, stripe).filter(|_| is_read).map(|state| state.length)
}

fn header_position(position: u64) -> Option<u64> {
    position.checked_sub(HEADER_BYTES as u64)
}

/// `None`: the header is not that of a sealed chunk of the stripe, or does not hold.
fn sealed_state(header: &HeaderBytes, stripe: StripeId) -> Option<ChunkState> {
    let report = ChunkView::of_copy(header)?.report()?;
    let state = intact_state(header).ok()?;
    let is_it = report.description.stripe == stripe && report.sealed && !report.damaged;
    is_it.then_some(state)
}
