//! One chunk in memory: what can be read from it.

use shorttail_units::OpNumber;
use shorttail_wire::crc32c;
use shorttail_wire::node::{ChunkDescription, ChunkReport, InspectReport, RawOp, Refusal};

use crate::chunk::{intact_state, split};
use crate::header::{self, ChunkFacts, ChunkState, HeaderBytes};
use crate::limits::HEADER_BYTES;
use crate::open_state::OpenState;
use crate::record::record_bytes;

/// A chunk that is only read.
#[derive(Clone, Copy, Debug)]
pub struct ChunkView<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) open: Option<&'a OpenState>,
}

/// A range of a chunk: bytes that lie in memory, then zeros that do not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeBytes<'a> {
    pub held: &'a [u8],
    pub zero_count: usize,
}

impl RangeBytes<'_> {
    pub fn to_vec(self) -> Vec<u8> {
        let mut bytes = self.held.to_vec();
        bytes.resize(self.held.len() + self.zero_count, 0);
        bytes
    }
}

impl<'a> ChunkView<'a> {
    /// What [`ChunkStore::copy_sealed`](crate::ChunkStore::copy_sealed) copied; `None`: too short to be that.
    pub fn of_copy(bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() >= HEADER_BYTES).then_some(ChunkView { bytes, open: None })
    }

    /// The record that begins at `offset` of a sealed data chunk. Its own checksum is the reader's to check.
    ///
    /// # Errors
    /// `NotAtOp`: not sealed. `OutOfRange`: no record begins there, or it does not end inside the chunk.
    /// `Invalid`: a parity chunk.
    pub fn read_record(&self, offset: u32) -> Result<&'a [u8], Refusal> {
        let (header, payload) = split(self.bytes);
        let state = whole_state(header)?;
        if header::read_facts(header).is_parity() {
            return Err(Refusal::Invalid);
        }
        if !state.sealed {
            return Err(Refusal::NotAtOp);
        }
        let rest = payload.get(offset as usize..state.length as usize).ok_or(Refusal::OutOfRange)?;
        let record_bytes = record_bytes(rest).map_err(|_| Refusal::OutOfRange)?;
        rest.get(..record_bytes).ok_or(Refusal::OutOfRange)
    }

    /// A byte range, of a sealed chunk if `op` is 0, else exactly as of `op` (rule R5). Beyond the bytes in use it is
    /// zeros. A range that covers all bytes in use of a sealed chunk is checked against the payload's checksum.
    ///
    /// # Errors
    /// `NotAtOp`: the chunk cannot answer as of that operation. `OutOfRange`: beyond the chunk.
    pub fn read_range(&self, offset: u32, length: u32, op: OpNumber) -> Result<RangeBytes<'a>, Refusal> {
        let range = self.read_range_of_intact(offset, length, op)?;
        let (header, payload) = split(self.bytes);
        let state = whole_state(header)?;
        if state.sealed && offset == 0 && length >= state.length && !payload_holds(&state, payload) {
            return Err(Refusal::Damaged);
        }
        Ok(range)
    }

    /// As [`ChunkView::read_range`], of a chunk whose payload was checked just before.
    ///
    /// # Errors
    /// As [`ChunkView::read_range`].
    pub fn read_range_of_intact(&self, offset: u32, length: u32, op: OpNumber) -> Result<RangeBytes<'a>, Refusal> {
        let (header, payload) = split(self.bytes);
        let state = whole_state(header)?;
        let facts = header::read_facts(header);
        let end = offset.checked_add(length).filter(|&end| end <= facts.chunk_bytes).ok_or(Refusal::OutOfRange)?;
        let in_use = self.length_at(&facts, &state, op)?;
        let held = &payload[offset.min(in_use) as usize..end.min(in_use) as usize];
        Ok(RangeBytes { held, zero_count: length as usize - held.len() })
    }

    /// Header and operations above `folded`. Checks the payload of a sealed chunk.
    ///
    /// # Errors
    /// `Damaged`: the description does not hold, so there is nothing to tell.
    pub fn inspect(&self) -> Result<InspectReport<'a>, Refusal> {
        let mut report = self.report().ok_or(Refusal::Damaged)?;
        let (header, payload) = split(self.bytes);
        if let Ok(state) = intact_state(header)
            && state.sealed
        {
            report.damaged = !payload_holds(&state, payload);
        }
        let raw = match self.open {
            None => Vec::new(),
            // Its operations end where the header says, which does not hold.
            Some(OpenState::Data(_)) if report.damaged => Vec::new(),
            Some(OpenState::Data(log)) => {
                let (index, length) = (report.description.index, report.length);
                let ops = log.iter(length);
                ops.map(|(op, range)| RawOp {
                    op,
                    data_index: index,
                    offset: range.start,
                    length: range.end - range.start,
                    bytes: &[],
                })
                .collect()
            }
            Some(OpenState::Parity(raw)) => raw
                .iter()
                .map(|(entry, bytes)| RawOp {
                    op: entry.op,
                    data_index: entry.data_index,
                    offset: entry.offset,
                    length: entry.length,
                    bytes,
                })
                .collect(),
        };
        Ok(InspectReport { report, raw })
    }

    /// What the header tells; `None` when its description does not hold.
    pub fn report(&self) -> Option<ChunkReport> {
        let (header, _) = split(self.bytes);
        let description: ChunkDescription = header::read_description(header)?;
        let intact = header::read_state(header);
        let state = intact.unwrap_or_default();
        Some(ChunkReport {
            description,
            sealed: state.sealed,
            damaged: intact.is_none() || state.fold_mark,
            length: state.length,
            last: state.last,
            folded: state.folded,
            close_epoch: state.close_epoch,
            close_op: state.close_op,
            payload_crc: state.payload_crc,
        })
    }

    pub(crate) fn facts(&self) -> ChunkFacts {
        header::read_facts(split(self.bytes).0)
    }

    pub(crate) fn description_holds(&self) -> bool {
        header::description_holds(split(self.bytes).0)
    }

    /// Payload bytes in use as of `op`.
    fn length_at(&self, facts: &ChunkFacts, state: &ChunkState, op: OpNumber) -> Result<u32, Refusal> {
        let known = match self.open {
            None if op == OpNumber(0) || op == state.last => Some(state.length),
            Some(OpenState::Data(log)) if op > OpNumber(0) && (op >= state.folded || op >= state.last) => {
                Some(log.length_at(op, state.length))
            }
            Some(OpenState::Parity(_)) if op > OpNumber(0) && op == state.folded => Some(facts.chunk_bytes),
            _ => None,
        };
        known.ok_or(Refusal::NotAtOp)
    }
}

/// The state of a chunk whose description holds, too: what a read goes by.
fn whole_state(header: &HeaderBytes) -> Result<ChunkState, Refusal> {
    let state = intact_state(header)?;
    if header::description_holds(header) { Ok(state) } else { Err(Refusal::Damaged) }
}

pub(crate) fn payload_holds(state: &ChunkState, payload: &[u8]) -> bool {
    payload.get(..state.length as usize).is_some_and(|used| crc32c(used) == state.payload_crc)
}
