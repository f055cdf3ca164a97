//! The header of a chunk: 256 bytes before its payload, in the node's memory.
//!
//! ```text
//! at  type     field
//!  0  u32      magic "STC1"
//!  4  u32      CRC32C of bytes 8 to 35: the state
//!  8  u8       state: bit 0 sealed, bit 1 fold mark (rule R6)
//!  9  u8 x 3   zero
//! 12  u32      length: payload bytes in use; 0 in a parity chunk that is not sealed
//! 16  u32      last operation held; of a sealed chunk, the final operation of the stripe
//! 20  u32      folded operation (parity chunk), or known stable one (data chunk)
//! 24  u32      close: epoch, 0 if none
//! 28  u32      close: operation
//! 32  u32      CRC32C of the payload in use, once sealed
//! 36  u32      CRC32C of bytes 40 to 255: the description
//! 40  u64      stripe
//! 48  u32      epoch
//! 52  u32      chunk bytes
//! 56  u16      partition
//! 58  u8       kind: 0 packed, 1 striped
//! 59  u8       index
//! 60  u8       data count
//! 61  u8       parity count, local parities included
//! 62  u8       local parities
//! 63  u8       zero
//! 64  u64      configuration of the members
//! 72  u8 x 24  zero
//! 96  u16 x 80 members, zero beyond data count + parity count
//! ```
//!
//! Little-endian. The state has a checksum of its own because it changes with every append.

use shorttail_units::{CodeShape, Configuration, Epoch, NodeId, OpNumber, PartitionId, StripeId};
use shorttail_wire::crc32c;
use shorttail_wire::node::{ChunkDescription, ChunkKind, MEMBERS_MAX, Members};

use crate::limits::HEADER_BYTES;

const MAGIC: u32 = u32::from_le_bytes(*b"STC1");
const STATE: std::ops::Range<usize> = 8..36;
const DESCRIPTION: std::ops::Range<usize> = 40..HEADER_BYTES;
const MEMBERS_AT: usize = 96;

const _: () = assert!(MEMBERS_AT + 2 * MEMBERS_MAX == HEADER_BYTES, "the members fill the header");

const SEALED: u8 = 1;
const FOLD_MARK: u8 = 2;

/// The bytes of a header.
pub type HeaderBytes = [u8; HEADER_BYTES];

/// The part of a header that changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ChunkState {
    pub sealed: bool,
    /// A fold began and did not end: the payload is neither old nor new.
    pub fold_mark: bool,
    pub length: u32,
    pub last: OpNumber,
    pub folded: OpNumber,
    pub close_epoch: Epoch,
    pub close_op: OpNumber,
    pub payload_crc: u32,
}

/// The fixed part of a header, without its members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChunkFacts {
    pub stripe: StripeId,
    pub epoch: Epoch,
    pub chunk_bytes: u32,
    pub partition: PartitionId,
    pub kind: ChunkKind,
    pub index: u8,
    pub data_count: u8,
    pub local_count: u8,
    pub parity_count: u8,
    pub configuration: Configuration,
}

impl ChunkFacts {
    pub fn is_parity(&self) -> bool {
        self.index >= self.data_count
    }

    /// Is it a parity of one group only? Operations on other groups pass it by.
    pub fn is_local_parity(&self) -> bool {
        self.is_parity() && self.index - self.data_count < self.local_count
    }

    /// Does what is appended to a data chunk concern this chunk?
    pub fn takes(&self, data_index: u8) -> bool {
        match self.index.checked_sub(self.data_count) {
            None => data_index == self.index,
            Some(parity) => {
                let covers = |shape: CodeShape| shape.covers(usize::from(parity), usize::from(data_index));
                data_index < self.data_count && self.shape().is_some_and(covers)
            }
        }
    }

    fn shape(&self) -> Option<CodeShape> {
        let global_count = self.parity_count.checked_sub(self.local_count)?;
        let [data, local, global] = [self.data_count, self.local_count, global_count].map(usize::from);
        CodeShape::from_counts(data, local, global).ok()
    }
}

/// Writes the header of a new chunk.
pub(crate) fn write_new(description: &ChunkDescription, state: &ChunkState, header: &mut HeaderBytes) {
    header.fill(0);
    put_u32(header, 0, MAGIC);
    header[40..48].copy_from_slice(&description.stripe.raw().to_le_bytes());
    put_u32(header, 48, description.epoch.0);
    put_u32(header, 52, description.chunk_bytes);
    header[56..58].copy_from_slice(&description.partition.0.to_le_bytes());
    header[58] = match description.kind {
        ChunkKind::Packed => 0,
        ChunkKind::Striped => 1,
    };
    header[59] = description.index;
    let shape = description.shape;
    header[60..63].copy_from_slice(
        &[shape.data_count(), shape.parity_count(), shape.local_count()]
            .map(|count| u8::try_from(count).expect("a shape's counts are small")),
    );
    write_members(description.configuration, &description.members, header);
    write_state(state, header);
}

/// Writes who holds the stripe's chunks from this configuration on.
pub(crate) fn write_members(configuration: Configuration, members: &Members, header: &mut HeaderBytes) {
    header[64..72].copy_from_slice(&configuration.raw().to_le_bytes());
    for (place, member) in header[MEMBERS_AT..].chunks_exact_mut(2).zip(&members.0) {
        place.copy_from_slice(&member.0.to_le_bytes());
    }
    put_u32(header, 36, crc32c(&header[DESCRIPTION]));
}

pub(crate) fn write_state(state: &ChunkState, header: &mut HeaderBytes) {
    header[8] = (u8::from(state.sealed) * SEALED) | (u8::from(state.fold_mark) * FOLD_MARK);
    put_u32(header, 12, state.length);
    put_u32(header, 16, state.last.0);
    put_u32(header, 20, state.folded.0);
    put_u32(header, 24, state.close_epoch.0);
    put_u32(header, 28, state.close_op.0);
    put_u32(header, 32, state.payload_crc);
    put_u32(header, 4, crc32c(&header[STATE]));
}

/// The state, or `None` when its checksum does not hold.
pub(crate) fn read_state(header: &HeaderBytes) -> Option<ChunkState> {
    (u32_at(header, 4) == crc32c(&header[STATE])).then(|| ChunkState {
        sealed: header[8] & SEALED != 0,
        fold_mark: header[8] & FOLD_MARK != 0,
        length: u32_at(header, 12),
        last: OpNumber(u32_at(header, 16)),
        folded: OpNumber(u32_at(header, 20)),
        close_epoch: Epoch(u32_at(header, 24)),
        close_op: OpNumber(u32_at(header, 28)),
        payload_crc: u32_at(header, 32),
    })
}

/// The fixed part, unchecked: see [`description_holds`].
pub(crate) fn read_facts(header: &HeaderBytes) -> ChunkFacts {
    ChunkFacts {
        stripe: StripeId::from_raw(u64::from_le_bytes(header[40..48].try_into().expect("eight bytes"))),
        epoch: Epoch(u32_at(header, 48)),
        chunk_bytes: u32_at(header, 52),
        partition: PartitionId(u16::from_le_bytes([header[56], header[57]])),
        kind: if header[58] == 0 { ChunkKind::Packed } else { ChunkKind::Striped },
        index: header[59],
        data_count: header[60],
        parity_count: header[61],
        local_count: header[62],
        configuration: Configuration::from_raw(u64::from_le_bytes(header[64..72].try_into().expect("eight bytes"))),
    }
}

/// Do the magic number and the checksum of the description hold?
pub(crate) fn description_holds(header: &HeaderBytes) -> bool {
    u32_at(header, 0) == MAGIC && u32_at(header, 36) == crc32c(&header[DESCRIPTION])
}

/// The description, or `None` when its checksum does not hold.
pub(crate) fn read_description(header: &HeaderBytes) -> Option<ChunkDescription> {
    if !description_holds(header) {
        return None;
    }
    let facts = read_facts(header);
    let shape = facts.shape()?;
    let members = header[MEMBERS_AT..].as_chunks::<2>().0.iter().take(shape.chunk_count());
    Some(ChunkDescription {
        stripe: facts.stripe,
        epoch: facts.epoch,
        partition: facts.partition,
        kind: facts.kind,
        index: facts.index,
        shape,
        chunk_bytes: facts.chunk_bytes,
        configuration: facts.configuration,
        members: Members(members.map(|bytes| NodeId(u16::from_le_bytes(*bytes))).collect()),
    })
}

fn put_u32(header: &mut HeaderBytes, at: usize, value: u32) {
    header[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn u32_at(header: &HeaderBytes, at: usize) -> u32 {
    u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> ChunkDescription {
        ChunkDescription {
            stripe: StripeId::new(Epoch(3), 77),
            epoch: Epoch(4),
            partition: PartitionId(2),
            kind: ChunkKind::Striped,
            index: 79,
            shape: CodeShape::lrc(64, 5, 11).expect("a shape"),
            chunk_bytes: 5000,
            configuration: Configuration::default().next(Epoch(5)),
            members: Members((0..80).map(|number| NodeId(number * 811)).collect()),
        }
    }

    fn state() -> ChunkState {
        ChunkState {
            sealed: true,
            fold_mark: true,
            length: 4999,
            last: OpNumber(9),
            folded: OpNumber(8),
            close_epoch: Epoch(7),
            close_op: OpNumber(6),
            payload_crc: 0xdead_beef,
        }
    }

    #[test]
    fn a_header_survives_the_trip() {
        let mut header = [0xff; HEADER_BYTES];
        write_new(&description(), &state(), &mut header);
        assert_eq!(read_description(&header), Some(description()));
        assert_eq!(read_state(&header), Some(state()));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut good = [0; HEADER_BYTES];
        write_new(&description(), &state(), &mut good);
        for bit in 0..HEADER_BYTES * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(read_description(&bad).is_none() || read_state(&bad).is_none(), "bit {bit}");
        }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let mut header = [0; HEADER_BYTES];
        write_new(&description(), &state(), &mut header);
        assert_eq!(&header[..4], b"STC1");
        assert_eq!(header[8], 3);
        assert_eq!(u32_at(&header, 12), 4999);
        assert_eq!(header[40..48], description().stripe.raw().to_le_bytes());
        assert_eq!(header[58..63], [1, 79, 64, 16, 5]);
        assert_eq!(header[64..72], (5u64 << 32 | 1).to_le_bytes());
        assert_eq!(header[254..], (79u16 * 811).to_le_bytes());
    }
}
