//! Stripes whose members lack operations, or are missing: what of the content is settled, and what of it certain.

use shorttail_store::record::Record;
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
    record.encode(stripe(), &mut bytes);
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
        let held: Vec<HeldOp> = own.map(|op| HeldOp { bytes: Vec::new(), ..op }).collect();
        let last = held.last().map_or(OpNumber(0), |held| held.op);
        parts.insert(index, Part { last, folded: OpNumber(0), bytes, held });
    }
    for (parity, folded) in folded.into_iter().enumerate() {
        let mut bytes = vec![0; CHUNK_BYTES];
        for op in ops.iter().filter(|op| op.op.0 <= folded) {
            let range = op.offset..op.offset + op.length;
            code.fold(parity, op.data_index, &op.bytes, &mut bytes[range]);
        }
        let held = ops.iter().filter(|op| op.op.0 > folded).cloned().collect();
        parts.insert(2 + parity, Part { last: OpNumber(op_count), folded: OpNumber(folded), bytes, held });
    }
    parts
}

fn settle(code: &Code, parts: &BTreeMap<usize, Part>, away: ChunkSet, close: Option<OpNumber>) -> Content {
    let is_opened = true;
    reconstruct(code, &Stripe { id: stripe(), chunk_bytes: CHUNK_BYTES, parts, away, is_opened, close })
}

/// Takes away what a member holds of the operations from `first` on.
fn lags(parts: &mut BTreeMap<usize, Part>, member: usize, first: u32) {
    let part = parts.get_mut(&member).expect("a part");
    let own = part.held.iter().filter(|held| held.op.0 < first && (member >= 2 || held.data_index == member));
    let last = own.map(|held| held.op).max().unwrap_or(part.folded);
    let end = part.held.iter().filter(|held| held.op.0 >= first && member < 2).map(|held| held.offset).min();
    part.bytes.truncate(end.unwrap_or(part.bytes.len()));
    part.held.retain(|held| held.op.0 < first);
    part.last = last;
}

#[test]
fn any_two_members_may_be_missing_at_any_fold() {
    let code = Code::reed_solomon(2, 2).expect("a code");
    for folded in [[0, 0], [6, 6], [3, 3], [2, 5], [5, 1], [0, 6]] {
        let all = members(&code, 6, folded);
        let expected = settle(&code, &all, ChunkSet::EMPTY, None);
        assert_eq!(expected.chunks[0], all[&0].bytes);
        assert!(expected.is_certain());
        for (one, other) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
            let mut parts = all.clone();
            parts.remove(&one);
            parts.remove(&other);
            let found = settle(&code, &parts, ChunkSet::EMPTY, None);
            assert_eq!(found, expected, "folded {folded:?} without {one} and {other}");
        }
    }
}

/// Data nodes hear of stability too, and forget where operations began: they cannot be cut back further.
#[test]
fn a_data_node_may_know_more_to_be_stable_than_any_parity() {
    let code = Code::reed_solomon(2, 2).expect("a code");
    let all = members(&code, 6, [2, 3]);
    let mut parts = all.clone();
    let data = parts.get_mut(&0).expect("a part");
    data.folded = OpNumber(5);
    data.held.retain(|held| held.op > OpNumber(5));
    parts.remove(&1);
    parts.remove(&3);
    let found = settle(&code, &parts, ChunkSet::EMPTY, None);
    assert_eq!((&found.chunks[0], &found.chunks[1]), (&all[&0].bytes, &all[&1].bytes));
    assert!(!found.is_lossy);
}

#[test]
fn what_only_some_members_hold_is_completed_and_not_certain() {
    let code = Code::reed_solomon(2, 2).expect("a code");
    let all = members(&code, 6, [2, 2]);
    for (member, first) in [(0, 6), (3, 5), (2, 3)] {
        let mut parts = all.clone();
        lags(&mut parts, member, first);
        let found = settle(&code, &parts, ChunkSet::EMPTY, None);
        assert_eq!((&found.chunks[0], &found.chunks[1]), (&all[&0].bytes, &all[&1].bytes), "member {member} lags");
        assert!(!found.is_certain() && !found.is_lossy, "member {member} lags");
        // Operations 1 and 2 are stable; of a chunk all of whose operations are everywhere everything is.
        let held = |index: usize| record(1).len() * if (member, index) == (0, 1) { 3 } else { 1 };
        assert_eq!(found.certain_bytes, [held(0), held(1)], "member {member} lags");
    }
}

/// A member that may come back without an operation makes it doubtful; one that was lost is one failure less to
/// come.
#[test]
fn what_an_absent_member_may_lack_is_not_certain() {
    let code = Code::reed_solomon(2, 2).expect("a code");
    let all = members(&code, 6, [4, 4]);
    for member in [0, 2, 3] {
        let mut parts = all.clone();
        parts.remove(&member);
        assert!(!settle(&code, &parts, ChunkSet::of(member), None).is_certain(), "without {member}");
        assert!(settle(&code, &parts, ChunkSet::EMPTY, None).is_certain(), "without {member}");
    }
    let folded = members(&code, 6, [6, 6]);
    for member in 0..4 {
        let mut parts = folded.clone();
        parts.remove(&member);
        assert!(settle(&code, &parts, ChunkSet::of(member), None).is_certain(), "everything was stable");
    }
}

/// Whoever is away may never have had the chunk: then nothing of the stripe counts to the next owner.
#[test]
fn what_all_hold_is_not_certain_while_the_stripe_may_turn_out_to_be_empty() {
    let code = Code::reed_solomon(2, 2).expect("a code");
    for (folded, is_opened, is_certain) in
        [([0, 0], true, true), ([0, 0], false, false), ([2, 0], false, true), ([0, 1], false, true)]
    {
        let mut parts = members(&code, 3, folded);
        // Participants of chunk 0 hold all that went there.
        parts.remove(&1);
        let stripe = Stripe {
            id: stripe(),
            chunk_bytes: CHUNK_BYTES,
            parts: &parts,
            away: ChunkSet::of(1),
            is_opened,
            close: None,
        };
        let found = reconstruct(&code, &stripe);
        assert_eq!(found.chunks[0], parts[&0].bytes);
        let certain = if is_certain { record(2).len() } else { 0 };
        assert_eq!(found.certain_bytes[0], certain, "folded {folded:?}, opened: {is_opened}");
    }
}

#[test]
fn more_losses_than_the_code_tolerates_are_told() {
    let code = Code::reed_solomon(2, 2).expect("a code");
    let all = members(&code, 6, [4, 4]);
    let without = |gone: [usize; 3]| {
        let mut parts = all.clone();
        gone.iter().for_each(|member| _ = parts.remove(member));
        settle(&code, &parts, ChunkSet::EMPTY, None).is_lossy
    };
    assert!(without([0, 1, 2]) && without([0, 2, 3]) && without([1, 2, 3]));
    // One parity that folded nothing has everything raw.
    let mut parts = members(&code, 6, [0, 0]);
    [0, 1, 2].iter().for_each(|member| _ = parts.remove(member));
    let found = settle(&code, &parts, ChunkSet::EMPTY, None);
    assert_eq!((&found.chunks[0], found.is_lossy), (&all[&0].bytes, false));
}

/// A parity that was never given the chunk says that nothing was acknowledged.
#[test]
fn a_member_that_was_never_given_the_chunk_counts() {
    let code = Code::reed_solomon(2, 2).expect("a code");
    let parts: BTreeMap<_, _> = [(2, Part::default()), (1, Part::default())].into();
    let found = settle(&code, &parts, ChunkSet::EMPTY, None);
    assert_eq!((found.chunks.concat(), found.is_lossy, found.is_certain()), (Vec::new(), false, true));
}

#[test]
fn operations_beyond_a_close_are_void() {
    let code = Code::reed_solomon(2, 2).expect("a code");
    let parts = members(&code, 6, [2, 3]);
    let found = settle(&code, &parts, ChunkSet::EMPTY, Some(OpNumber(4)));
    assert_eq!(found.chunks[0], [record(2), record(4)].concat());
    assert_eq!(found.chunks[1], [record(1), record(3)].concat());
    assert!(found.is_certain());
}

#[test]
fn a_stripe_closed_at_operation_zero_is_void() {
    let code = Code::reed_solomon(2, 2).expect("a code");
    let found = settle(&code, &members(&code, 6, [2, 3]), ChunkSet::EMPTY, Some(OpNumber(0)));
    assert_eq!((found.chunks.concat(), found.is_certain(), found.is_lossy), (Vec::new(), true, false));
}

#[test]
fn without_parities_a_missing_chunk_is_a_loss() {
    let code = Code::reed_solomon(3, 0).expect("a code");
    let part = Part { last: OpNumber(1), bytes: record(1), ..Part::default() };
    let parts: BTreeMap<_, _> = [(0, part), (2, Part::default())].into();
    let found = settle(&code, &parts, ChunkSet::EMPTY, None);
    assert_eq!((&found.chunks[0], found.is_lossy), (&record(1), true));
}

#[test]
fn what_lies_in_no_chunk_is_not_taken() {
    let bytes = [7; 10];
    let of = |data_index: u8, offset: u32, length: u32, bytes: &[u8]| {
        HeldOp::of(&RawOp { op: OpNumber(1), data_index, offset, length, bytes }, 2, CHUNK_BYTES).is_some()
    };
    let last = CHUNK_BYTES as u32 - 10;
    assert!(of(1, last, 0, &bytes) && of(0, last, 10, &[]));
    assert!(!of(2, 0, 0, &bytes), "a parity, or nothing");
    assert!(!of(1, last + 1, 0, &bytes) && !of(1, last + 1, 10, &[]), "a byte beyond the end");
    assert!(!of(1, u32::MAX, u32::MAX, &bytes));
}
