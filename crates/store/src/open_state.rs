//! What an open chunk keeps beside its header and payload: the operations that are not stable yet.
//!
//! A data chunk has their bytes in place already and remembers where each began, so that it can answer as of any of
//! them (rule R5). A parity chunk keeps their bytes raw until they are stable (rule R1).

use std::collections::VecDeque;
use std::ops::Range;

use shorttail_codes::Code;
use shorttail_units::OpNumber;

use crate::limits::{DATA_OP_BYTES, RAW_BUFFER_KEPT_BYTES, RAW_CHUNK_BYTES_MAX, RAW_OP_BYTES};

#[derive(Debug)]
pub(crate) enum OpenState {
    Data(DataLog),
    Parity(RawBuffer),
}

impl OpenState {
    /// What the memory budget is charged for it.
    pub fn charged_bytes(&self) -> usize {
        match self {
            OpenState::Data(log) => log.charged_bytes(),
            OpenState::Parity(raw) => raw.charged_bytes(),
        }
    }
}

/// Where an operation above the known stable one begins in its data chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DataOp {
    pub op: OpNumber,
    pub offset: u32,
}

/// The operations of a data chunk above the known stable one, in order.
#[derive(Debug, Default)]
pub(crate) struct DataLog {
    ops: VecDeque<DataOp>,
}

impl DataLog {
    pub fn push(&mut self, op: OpNumber, offset: u32) {
        self.ops.push_back(DataOp { op, offset });
    }

    /// Forgets operations up to `stable`; returns how many.
    pub fn forget(&mut self, stable: OpNumber) -> usize {
        let count = self.ops.partition_point(|entry| entry.op <= stable);
        self.ops.drain(..count);
        count
    }

    /// Length of the chunk as of `op`, which is not below the last forgotten one; `length` is the length now.
    pub fn length_at(&self, op: OpNumber, length: u32) -> u32 {
        let later = self.ops.partition_point(|entry| entry.op <= op);
        self.ops.get(later).map_or(length, |entry| entry.offset)
    }

    /// Each operation and its range; `length` is the length of the chunk.
    pub fn iter(&self, length: u32) -> impl Iterator<Item = (OpNumber, Range<u32>)> {
        let ends = self.ops.iter().skip(1).map(|next| next.offset).chain([length]);
        self.ops.iter().zip(ends).map(|(entry, end)| (entry.op, entry.offset..end))
    }

    pub fn charged_bytes(&self) -> usize {
        self.ops.len() * DATA_OP_BYTES
    }
}

/// An operation whose bytes are raw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RawEntry {
    pub op: OpNumber,
    pub offset: u32,
    pub length: u32,
    pub data_index: u8,
}

impl RawEntry {
    fn end(&self) -> u32 {
        self.offset + self.length
    }

    fn charged_bytes(&self) -> usize {
        self.length as usize + RAW_OP_BYTES
    }
}

/// The raw operations of a parity chunk, in order, their bytes one after the other in one buffer.
#[derive(Debug)]
pub(crate) struct RawBuffer {
    code: Code,
    entries: VecDeque<RawEntry>,
    /// Bytes of the entries, from `start` on.
    bytes: Vec<u8>,
    start: usize,
    /// Where the next operation of each data chunk begins; none: an earlier process took that with it.
    ends: Option<Box<[u32]>>,
}

impl RawBuffer {
    pub fn new(code: Code) -> Self {
        let ends = vec![0; code.data_count()].into_boxed_slice();
        RawBuffer { ends: Some(ends), ..Self::inherited(code) }
    }

    /// Of a chunk that an earlier process left: it can be read and folded, and takes no operation more.
    pub fn inherited(code: Code) -> Self {
        RawBuffer { code, entries: VecDeque::new(), bytes: Vec::new(), start: 0, ends: None }
    }

    pub fn code(&self) -> &Code {
        &self.code
    }

    /// Where the next operation of this data chunk begins.
    pub fn end_of(&self, data_index: u8) -> Option<u32> {
        self.ends.as_ref()?.get(usize::from(data_index)).copied()
    }

    /// Length of the longest data chunk.
    pub fn end_max(&self) -> Option<u32> {
        Some(self.ends.as_ref()?.iter().copied().max().unwrap_or(0))
    }

    pub fn raw_bytes(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub fn charged_bytes(&self) -> usize {
        self.raw_bytes() + self.entries.len() * RAW_OP_BYTES
    }

    /// Is there room for an operation of `length` bytes?
    pub fn fits(&self, length: usize) -> bool {
        self.charged_bytes() + length + RAW_OP_BYTES <= RAW_CHUNK_BYTES_MAX
    }

    pub fn push(&mut self, op: OpNumber, data_index: u8, offset: u32, bytes: &[u8]) {
        let entry = RawEntry { op, offset, length: bytes.len() as u32, data_index };
        self.bytes.extend_from_slice(bytes);
        self.entries.push_back(entry);
        if let Some(ends) = &mut self.ends {
            ends[usize::from(data_index)] = entry.end();
        }
    }

    /// The operations up to `op` as pieces to fold: neighbours in the buffer that are neighbours in a data chunk too
    /// are one piece.
    pub fn pieces_up_to(&self, op: OpNumber) -> impl Iterator<Item = (RawEntry, &[u8])> {
        let mut rest = self.entries.iter().take_while(move |entry| entry.op <= op).peekable();
        let mut at = self.start;
        std::iter::from_fn(move || {
            let mut piece = *rest.next()?;
            while let Some(next) =
                rest.next_if(|next| next.data_index == piece.data_index && next.offset == piece.end())
            {
                piece.length += next.length;
                piece.op = next.op;
            }
            let bytes = &self.bytes[at..at + piece.length as usize];
            at += bytes.len();
            Some((piece, bytes))
        })
    }

    /// Every operation with its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (RawEntry, &[u8])> {
        self.entries.iter().scan(self.start, |at, entry| {
            let bytes = &self.bytes[*at..*at + entry.length as usize];
            *at += bytes.len();
            Some((*entry, bytes))
        })
    }

    /// Drops the operations up to `op`; returns what the budget gets back.
    pub fn drop_up_to(&mut self, op: OpNumber) -> usize {
        let mut released = 0;
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.op <= op) {
            released += entry.charged_bytes();
            self.start += entry.length as usize;
        }
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(RAW_BUFFER_KEPT_BYTES);
            self.start = 0;
        } else if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        released
    }

    pub fn check_invariants(&self, folded: OpNumber, last: OpNumber) {
        let total: usize = self.entries.iter().map(|entry| entry.length as usize).sum();
        assert_eq!(total, self.raw_bytes(), "raw bytes match their entries");
        assert!(self.entries.iter().is_sorted_by(|a, b| a.op < b.op), "raw operations are in order");
        assert!(self.entries.front().is_none_or(|entry| entry.op > folded), "no raw operation is folded already");
        assert!(self.entries.back().is_none_or(|entry| entry.op == last), "the last raw operation is the last held");
        assert!(self.charged_bytes() <= RAW_CHUNK_BYTES_MAX, "raw bytes are bounded");
    }
}
