//! Version synchronisation: the content of a stripe that was never sealed, from what its living members hold.
//!
//! ```text
//! F     the highest operation that a parity folded: every member had confirmed it (rule R1)
//! <= F  data chunks as they are, cut back to F; parities brought to F with the raw operations they hold;
//!       a missing data chunk is decoded from these
//!  > F  appended from whichever member holds the operation: its data node, or any parity, raw
//! ```
//! What any living member holds is completed; operations beyond a close of an earlier owner are void (rule R4).
//!
//! Source: Cocytus' version synchronisation (RDP over Cocytus, IV.B) and DESIGN section 7. Pure.

use std::collections::BTreeMap;

use shorttail_codes::Code;
use shorttail_store::record::Record;
use shorttail_units::{OpNumber, StripeId};

/// An operation that a member holds beyond what it folded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldOp {
    pub op: OpNumber,
    pub data_index: usize,
    pub offset: usize,
    pub length: usize,
    /// Empty on a data node: the bytes are in its chunk.
    pub bytes: Vec<u8>,
}

/// What one living member told.
#[derive(Clone, Debug)]
pub struct Part {
    /// Operation that the parity chunk's bytes are folded to; last known stable one on a data node.
    pub folded: OpNumber,
    /// Payload: of a data chunk as far as it is used, of a parity chunk whole (empty if nothing was folded).
    pub bytes: Vec<u8>,
    pub held: Vec<HeldOp>,
}

/// The data chunks of the stripe, each as far as it is used. A chunk that cannot be decoded is cut where its bytes end.
pub fn reconstruct(
    code: &Code,
    stripe: StripeId,
    chunk_bytes: usize,
    parts: &BTreeMap<usize, Part>,
    close: Option<OpNumber>,
) -> Vec<Vec<u8>> {
    let data_count = code.data_count();
    let last = close.unwrap_or(OpNumber(u32::MAX));
    let parities = parts.range(data_count..);
    let folded = parities.map(|(_, part)| part.folded).max().unwrap_or(OpNumber(0));
    (0..data_count)
        .map(|index| {
            let mut chunk = match parts.get(&index) {
                Some(part) => cut_back(part, last),
                None => decode(code, stripe, chunk_bytes, parts, folded, index),
            };
            append_held(&mut chunk, index, parts, last);
            chunk
        })
        .collect()
}

/// A data chunk without the operations above `last`.
fn cut_back(part: &Part, last: OpNumber) -> Vec<u8> {
    let first_above = part.held.iter().filter(|held| held.op > last).map(|held| held.offset).min();
    let keep = first_above.unwrap_or(part.bytes.len()).min(part.bytes.len());
    part.bytes[..keep].to_vec()
}

/// A missing data chunk as of `folded`; empty if too many members are missing.
fn decode(
    code: &Code,
    stripe: StripeId,
    chunk_bytes: usize,
    parts: &BTreeMap<usize, Part>,
    folded: OpNumber,
    wanted: usize,
) -> Vec<u8> {
    let Ok(plan) = code.read_plan(wanted, &|index| parts.contains_key(&index)) else { return Vec::new() };
    let as_of = |&index: &usize| {
        let part = &parts[&index];
        let mut bytes = if index < code.data_count() { cut_back(part, folded) } else { part.bytes.clone() };
        bytes.resize(chunk_bytes, 0);
        if index >= code.data_count() {
            let behind = part.held.iter().filter(|held| held.op > part.folded && held.op <= folded);
            for held in behind {
                let range = held.offset..held.offset + held.bytes.len();
                code.fold(index - code.data_count(), held.data_index, &held.bytes, &mut bytes[range]);
            }
        }
        bytes
    };
    let sources: Vec<Vec<u8>> = plan.sources.iter().map(as_of).collect();
    let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mut chunk = vec![0; chunk_bytes];
    plan.decode(&sources, &mut chunk);
    chunk.truncate(used_bytes(&chunk, stripe));
    chunk
}

/// Where the records of a chunk end.
pub fn used_bytes(chunk: &[u8], stripe: StripeId) -> usize {
    let mut offset = 0;
    while let Ok((_, length)) = Record::parse(&chunk[offset..], stripe) {
        offset += length;
    }
    offset
}

/// Completes a chunk with the operations that parities hold raw, in order, as far as they join up.
fn append_held(chunk: &mut Vec<u8>, index: usize, parts: &BTreeMap<usize, Part>, last: OpNumber) {
    let mut held: BTreeMap<OpNumber, &HeldOp> = BTreeMap::new();
    for op in parts.values().flat_map(|part| &part.held) {
        if op.data_index == index && op.op <= last && !op.bytes.is_empty() {
            held.insert(op.op, op);
        }
    }
    for op in held.into_values() {
        if op.offset == chunk.len() {
            chunk.extend_from_slice(&op.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::{Epoch, Version};

    use super::*;

    const CHUNK_BYTES: usize = 400;

    fn stripe() -> StripeId {
        StripeId::new(Epoch(1), 1)
    }

    fn record(number: u8) -> Vec<u8> {
        let value = [number; 20];
        let record = Record::object(&value[..4], &value, Version::new(Epoch(1), u64::from(number)));
        let mut bytes = vec![0; record.encoded_bytes(Epoch(1))];
        record.encode(Epoch(1), &mut bytes);
        bytes
    }

    /// A stripe 2+2 with operations 1 to 6, even ones to chunk 0 and odd ones to chunk 1; `folded`: per parity.
    fn members(code: &Code, op_count: u32, folded: [u32; 2]) -> BTreeMap<usize, Part> {
        let mut chunks = [Vec::new(), Vec::new()];
        let mut ops = Vec::new();
        for number in 1..=op_count {
            let (data_index, bytes) = (number as usize % 2, record(number as u8));
            let offset = chunks[data_index].len();
            chunks[data_index].extend_from_slice(&bytes);
            ops.push(HeldOp { op: OpNumber(number), data_index, offset, length: bytes.len(), bytes });
        }
        let mut parts = BTreeMap::new();
        for (index, bytes) in chunks.into_iter().enumerate() {
            let own = ops.iter().filter(|op| op.data_index == index).cloned();
            let held = own.map(|op| HeldOp { bytes: Vec::new(), ..op }).collect();
            parts.insert(index, Part { folded: OpNumber(0), bytes, held });
        }
        for (parity, folded) in folded.into_iter().enumerate() {
            let mut bytes = vec![0; CHUNK_BYTES];
            for op in ops.iter().filter(|op| op.op.0 <= folded) {
                let range = op.offset..op.offset + op.length;
                code.fold(parity, op.data_index, &op.bytes, &mut bytes[range]);
            }
            let held = ops.iter().filter(|op| op.op.0 > folded).cloned().collect();
            parts.insert(2 + parity, Part { folded: OpNumber(folded), bytes, held });
        }
        parts
    }

    #[test]
    fn any_two_members_may_be_missing_at_any_fold() {
        let code = Code::reed_solomon(2, 2).expect("a code");
        for folded in [[0, 0], [6, 6], [3, 3], [2, 5], [5, 1], [0, 6]] {
            let all = members(&code, 6, folded);
            let expected = reconstruct(&code, stripe(), CHUNK_BYTES, &all, None);
            assert_eq!(expected[0], all[&0].bytes);
            for (one, other) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
                let mut parts = all.clone();
                parts.remove(&one);
                parts.remove(&other);
                let chunks = reconstruct(&code, stripe(), CHUNK_BYTES, &parts, None);
                assert_eq!(chunks, expected, "folded {folded:?} without {one} and {other}");
            }
        }
    }

    #[test]
    fn what_only_one_member_holds_is_completed() {
        let code = Code::reed_solomon(2, 2).expect("a code");
        let mut parts = members(&code, 6, [2, 2]);
        let whole = parts[&0].bytes.clone();
        // The data node never got operation 6, and one parity got none of the last two.
        let data = parts.get_mut(&0).expect("a part");
        data.bytes.truncate(data.bytes.len() - record(6).len());
        data.held.retain(|op| op.op < OpNumber(6));
        parts.get_mut(&3).expect("a part").held.retain(|op| op.op < OpNumber(5));
        assert_eq!(reconstruct(&code, stripe(), CHUNK_BYTES, &parts, None)[0], whole);
    }

    #[test]
    fn operations_beyond_a_close_are_void() {
        let code = Code::reed_solomon(2, 2).expect("a code");
        let parts = members(&code, 6, [2, 3]);
        let chunks = reconstruct(&code, stripe(), CHUNK_BYTES, &parts, Some(OpNumber(4)));
        assert_eq!(chunks[0], [record(2), record(4)].concat());
        assert_eq!(chunks[1], [record(1), record(3)].concat());
    }
}
