//! One chunk in memory: what an owner may do to it.
//!
//! ```text
//!          open                       seal (last held = chunk_last)
//! (none) -------> open: append ... ------------------------------> sealed
//!    \              \  close (epoch, op): appends above op refused    ^
//!     \              `--> open and closed                             |
//!      `-------------------- install (whole) -------------------------'
//! ```
//!
//! No edge leads back from sealed; every state ends in a free. A chunk whose fold was interrupted (rule R6) or whose
//! state fails its checksum is damaged: everything but a free and a report is refused. Of one whose description fails
//! its checksum a scan tells stripe and partition only: a free drops it, a rebuilt one takes its place, all else is
//! refused. A payload that fails its checksum is refused when it is read whole; what is read in part is the reader's to
//! check.
//!
//! The memory may outlive the process, which may die between any two instructions. So what is told of by the state is
//! written before it. An open parity chunk that another process goes on with takes no operation more and is not sealed:
//! owners leave such stripes.
//!
//! Invariants: `last` is the end of a prefix without gaps (rule R7); a parity chunk is folded up to `folded`, which is
//! never above an operation known to be stable (rule R1), and holds raw everything from there to `last`.
//!
//! Must not know: sessions, fences, how memory is allocated.

use std::sync::atomic::{Ordering, compiler_fence};

use shorttail_units::{Configuration, Epoch, OpNumber, PartitionId};
use shorttail_wire::crc32c;
use shorttail_wire::node::{Members, Refusal};

use crate::budget::Budget;
use crate::counters::Counters;
use crate::header::{self, ChunkFacts, ChunkState, HeaderBytes};
use crate::kept_ops::KeptOps;
use crate::limits::{DATA_OP_BYTES, HEADER_BYTES, RAW_OP_BYTES};
use crate::open_state::{DataLog, OpenState, RawBuffer};

/// An append, as its request says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Append<'a> {
    pub op: OpNumber,
    /// The participant's operation before this one (rule R7).
    pub previous: OpNumber,
    pub stable: OpNumber,
    pub data_index: u8,
    pub offset: u32,
    pub bytes: &'a [u8],
}

/// Where a test lets a fold be interrupted (rule R6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FoldStep {
    Marked,
    Folded,
}

/// A chunk that may be changed.
#[derive(Debug)]
pub struct ChunkMut<'a> {
    pub(crate) bytes: &'a mut [u8],
    pub(crate) open: &'a mut Option<Box<OpenState>>,
    pub(crate) budget: &'a mut Budget,
    pub(crate) counters: &'a mut Counters,
    /// Where its operations are kept for another process.
    pub(crate) kept: Option<&'a mut KeptOps>,
}

/// Header and payload of an allocation.
pub(crate) fn split(bytes: &[u8]) -> (&HeaderBytes, &[u8]) {
    bytes.split_first_chunk::<HEADER_BYTES>().expect("a chunk begins with its header")
}

pub(crate) fn split_mut(bytes: &mut [u8]) -> (&mut HeaderBytes, &mut [u8]) {
    bytes.split_first_chunk_mut::<HEADER_BYTES>().expect("a chunk begins with its header")
}

/// The state of a chunk that is not damaged, as far as a look at the state can tell.
pub(crate) fn intact_state(header: &HeaderBytes) -> Result<ChunkState, Refusal> {
    header::read_state(header).filter(|state| !state.fold_mark).ok_or(Refusal::Damaged)
}

impl ChunkMut<'_> {
    /// Partition and epoch that the chunk was opened with: what fencing asks for, before anything is changed.
    ///
    /// # Errors
    /// `Damaged`: the description does not hold.
    pub fn ownership(&self) -> Result<(PartitionId, Epoch), Refusal> {
        if !header::description_holds(split(self.bytes).0) {
            return Err(Refusal::Damaged);
        }
        let facts = self.facts();
        Ok((facts.partition, facts.epoch))
    }

    /// Its place among the members.
    pub fn index(&self) -> usize {
        usize::from(self.facts().index)
    }

    /// Adds an operation; returns the last one held without a gap.
    ///
    /// The stable operation that it carries is taken note of even when there is no memory for its bytes.
    ///
    /// # Errors
    /// `Gap`: an earlier operation is missing. `Immutable`: sealed, or closed below this operation. `OutOfMemory`.
    /// `OutOfRange`: beyond the chunk. `Invalid`: contradicts what is held.
    pub fn append(&mut self, append: &Append<'_>) -> Result<OpNumber, Refusal> {
        let mut state = self.state()?;
        let end = self.check_shape(append)?;
        if append.op <= state.last {
            self.counters.duplicate_appends += 1;
            self.take_stable(&mut state, append.stable)?;
            return Ok(state.last);
        }
        if state.sealed || (state.close_epoch > Epoch(0) && append.op > state.close_op) {
            return Err(Refusal::Immutable);
        }
        self.check_order(append, &state)?;
        self.take_stable(&mut state, append.stable)?;
        let kept_bytes = if let Some(OpenState::Parity(_)) = self.open.as_deref() { append.bytes.len() } else { 0 };
        if self.kept.as_mut().is_some_and(|kept| !kept.admits(kept_bytes)) {
            return Err(Refusal::OutOfMemory);
        }
        match self.open.as_deref_mut() {
            Some(OpenState::Data(log)) => {
                self.budget.charge(DATA_OP_BYTES)?;
                log.push(append.op, append.offset);
                let (_, payload) = split_mut(self.bytes);
                payload[append.offset as usize..end as usize].copy_from_slice(append.bytes);
                state.length = end;
            }
            Some(OpenState::Parity(raw)) => {
                if !raw.fits(append.bytes.len()) {
                    return Err(Refusal::OutOfMemory);
                }
                self.budget.charge(append.bytes.len() + RAW_OP_BYTES)?;
                raw.push(append.op, append.data_index, append.offset, append.bytes);
                self.counters.raw_bytes += append.bytes.len();
            }
            None => return Err(Refusal::Immutable),
        }
        if self.kept.is_some() {
            let facts = self.facts();
            self.kept.iter_mut().for_each(|kept| kept.push(facts.stripe, append, facts.is_parity()));
        }
        state.last = append.op;
        self.put_state(&state);
        self.counters.appends += 1;
        Ok(state.last)
    }

    /// Notes that every participant holds the operations up to `stable`: a parity chunk folds them.
    ///
    /// # Errors
    /// `Gap`: a parity chunk does not hold them itself.
    pub fn stable(&mut self, stable: OpNumber) -> Result<(), Refusal> {
        let mut state = self.state()?;
        self.take_stable(&mut state, stable)
    }

    /// Makes the chunk immutable. `last` is the final operation of the stripe, `chunk_last` the last that
    /// this participant was sent; asked twice it is the same. `sum`: of the bytes in use, as its owner has
    /// them; 0: not told.
    ///
    /// # Errors
    /// `Gap`: an operation is missing. `Immutable`: sealed or closed at another operation. `Invalid`: contradictory.
    /// `Damaged`: the bytes are not those that the owner has; nothing else would tell that of a parity.
    pub fn seal(&mut self, last: OpNumber, chunk_last: OpNumber, sum: u32) -> Result<(), Refusal> {
        let mut state = self.state()?;
        if state.sealed {
            return if state.last == last { Ok(()) } else { Err(Refusal::Immutable) };
        }
        if state.close_epoch > Epoch(0) && state.close_op != last {
            return Err(Refusal::Immutable);
        }
        if state.last < chunk_last {
            return Err(Refusal::Gap);
        }
        let facts = self.facts();
        let parity_lacks = facts.is_parity() && !facts.is_local_parity() && chunk_last != last;
        if state.last > chunk_last || chunk_last > last || parity_lacks {
            return Err(Refusal::Invalid);
        }
        if let Some(OpenState::Parity(raw)) = self.open.as_deref() {
            let length = raw.end_max().ok_or(Refusal::Immutable)?;
            // All that it holds: should the sum be another one, it tells of no operation beyond.
            self.fold(&mut state, chunk_last, None);
            state.length = length;
        }
        let (_, payload) = split_mut(self.bytes);
        state.payload_crc = crc32c(&payload[..state.length as usize]);
        if sum != 0 && sum != state.payload_crc {
            self.counters.corruptions_found += 1;
            return Err(Refusal::Damaged);
        }
        (state.sealed, state.last, state.folded) = (true, last, last);
        self.put_state(&state);
        let charged = self.open.take().map_or(0, |open| open.charged_bytes());
        self.budget.release(charged);
        self.counters.seals += 1;
        self.counters.sealed_chunks += 1;
        Ok(())
    }

    /// Notes that the owner of `epoch` ended the stripe at `last` (rule R4); the highest epoch counts. Once nothing in
    /// it is alive, that owner may end it at 0.
    ///
    /// # Errors
    /// `Fenced`: closed by a higher epoch. `Immutable`: sealed at another operation. `Invalid`: the same epoch closed
    /// it elsewhere.
    pub fn close(&mut self, epoch: Epoch, last: OpNumber) -> Result<(), Refusal> {
        let mut state = self.state()?;
        if epoch < state.close_epoch {
            return Err(Refusal::Fenced);
        }
        if epoch == state.close_epoch && last != state.close_op && last != OpNumber(0) {
            return Err(Refusal::Invalid);
        }
        // An installed chunk does not know its last operation: its content is the final one.
        if state.sealed && state.last > OpNumber(0) && state.last != last {
            return Err(Refusal::Immutable);
        }
        (state.close_epoch, state.close_op) = (epoch, last);
        self.put_state(&state);
        Ok(())
    }

    /// Who holds the chunks of a sealed stripe from this configuration on. The payload stays what it is.
    ///
    /// # Errors
    /// `Fenced`: a higher configuration is known. `NotAtOp`: not sealed. `Invalid`: of another number of chunks, or the
    /// same configuration has other members.
    pub fn reconfigure(&mut self, configuration: Configuration, members: &Members) -> Result<(), Refusal> {
        let state = self.state()?;
        let (header, _) = split_mut(self.bytes);
        let known = header::read_description(header).ok_or(Refusal::Damaged)?;
        if !state.sealed {
            return Err(Refusal::NotAtOp);
        }
        if configuration < known.configuration {
            return Err(Refusal::Fenced);
        }
        let is_same = configuration == known.configuration && *members == known.members;
        if members.0.len() != known.members.0.len() || configuration == known.configuration && !is_same {
            return Err(Refusal::Invalid);
        }
        header::write_members(configuration, members, header);
        Ok(())
    }

    /// What holds for an append whatever came before; returns where it ends.
    fn check_shape(&self, append: &Append<'_>) -> Result<u32, Refusal> {
        let facts = self.facts();
        if !facts.takes(append.data_index) || append.bytes.is_empty() || append.previous >= append.op {
            return Err(Refusal::Invalid);
        }
        let length = u32::try_from(append.bytes.len()).map_err(|_| Refusal::OutOfRange)?;
        let end = append.offset.checked_add(length).ok_or(Refusal::OutOfRange)?;
        if end > facts.chunk_bytes { Err(Refusal::OutOfRange) } else { Ok(end) }
    }

    /// What must hold for a new operation, given what is held.
    fn check_order(&self, append: &Append<'_>, state: &ChunkState) -> Result<(), Refusal> {
        if append.previous > state.last {
            return Err(Refusal::Gap);
        }
        let next_offset = match self.open.as_deref() {
            Some(OpenState::Data(_)) => Some(state.length),
            Some(OpenState::Parity(raw)) => raw.end_of(append.data_index),
            None => None,
        };
        // An operation cannot be stable before this participant holds it.
        let stable_before_held = append.stable >= append.op || state.folded >= append.op;
        if append.previous < state.last || stable_before_held || next_offset != Some(append.offset) {
            return Err(Refusal::Invalid);
        }
        Ok(())
    }

    fn take_stable(&mut self, state: &mut ChunkState, stable: OpNumber) -> Result<(), Refusal> {
        if stable <= state.folded {
            return Ok(());
        }
        match self.open.as_deref_mut() {
            Some(OpenState::Data(log)) => {
                let forgotten = log.forget(stable);
                self.budget.release(forgotten * DATA_OP_BYTES);
                state.folded = stable;
                self.put_state(state);
                Ok(())
            }
            // A parity is told the last stable one of the operations that concern it, so it holds that one.
            Some(OpenState::Parity(_)) if stable > state.last => Err(Refusal::Gap),
            Some(OpenState::Parity(_)) => {
                self.fold(state, stable, None);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Folds the raw operations up to `target`: mark, fold, folded number and no mark, then drop the bytes (rule R6).
    /// Does nothing in a data chunk. `stop` interrupts it as a crash would.
    pub(crate) fn fold(&mut self, state: &mut ChunkState, target: OpNumber, stop: Option<FoldStep>) {
        let facts = self.facts();
        let Some(OpenState::Parity(raw)) = self.open.as_deref_mut() else { return };
        let (header, payload) = split_mut(self.bytes);
        state.fold_mark = true;
        header::write_state(state, header);
        if stop == Some(FoldStep::Marked) {
            return;
        }
        compiler_fence(Ordering::SeqCst);
        fold_pieces(raw, &facts, target, payload);
        compiler_fence(Ordering::SeqCst);
        if stop == Some(FoldStep::Folded) {
            return;
        }
        (state.fold_mark, state.folded) = (false, target);
        header::write_state(state, header);
        let raw_bytes = raw.raw_bytes();
        self.budget.release(raw.drop_up_to(target));
        self.counters.raw_bytes -= raw_bytes - raw.raw_bytes();
        self.counters.folds += 1;
    }

    pub(crate) fn payload(&mut self) -> &mut [u8] {
        split_mut(self.bytes).1
    }

    /// Payload bytes that hold something.
    pub(crate) fn payload_in_use(&mut self) -> &mut [u8] {
        let length = self.state().map_or(0, |state| state.length as usize);
        let (_, payload) = split_mut(self.bytes);
        let length = length.min(payload.len());
        &mut payload[..length]
    }

    pub(crate) fn facts(&self) -> ChunkFacts {
        header::read_facts(split(self.bytes).0)
    }

    pub(crate) fn state(&self) -> Result<ChunkState, Refusal> {
        intact_state(split(self.bytes).0)
    }

    fn put_state(&mut self, state: &ChunkState) {
        compiler_fence(Ordering::SeqCst);
        header::write_state(state, split_mut(self.bytes).0);
    }
}

fn fold_pieces(raw: &RawBuffer, facts: &ChunkFacts, target: OpNumber, payload: &mut [u8]) {
    let parity_index = usize::from(facts.index - facts.data_count);
    for (piece, bytes) in raw.pieces_up_to(target) {
        let range = piece.offset as usize..piece.offset as usize + bytes.len();
        raw.code().fold(parity_index, usize::from(piece.data_index), bytes, &mut payload[range]);
    }
}

/// The open state of a new chunk.
pub(crate) fn data_state() -> OpenState {
    OpenState::Data(DataLog::default())
}
