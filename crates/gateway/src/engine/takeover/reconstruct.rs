//! Version synchronisation: the content of a stripe that was never sealed, from what its living members hold.
//!
//! ```text
//! F     the highest operation that a member knows to be stable: every participant had confirmed it (rule R1)
//! <= F  data chunks as they are, cut back to F; parities brought to F with the raw operations they hold;
//!       a missing data chunk is decoded from these
//!  > F  appended from whichever member holds the operation: its data node, or any parity, raw
//! ```
//! What a living member holds is completed, up to where the stripe ends (see `synchronise`); operations beyond a close
//! of an earlier owner are void (rule R4).
//!
//! What is above F and not held by all its participants may or may not have been acknowledged. It belongs to the
//! content, but is not *certain*: the failures that are left to happen may take it away. Nobody may be shown it before
//! it is written anew (rule R10; see `doubts`). Nor is anything certain, whoever holds it, while nothing is known to be
//! stable and more members than may lack their chunk never had it or are away: once these say that they never had it,
//! the next owner takes the stripe for one of which nothing counted (see `synchronise`).
//!
//! Source: Cocytus' version synchronisation (RDP over Cocytus, IV.B), rule R4 (docs/RULES.md). Pure.

use std::collections::BTreeMap;

use shorttail_codes::Code;
use shorttail_units::{OpNumber, StripeId};
use shorttail_wire::node::{ChunkKind, RawOp};

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

impl HeldOp {
    /// What a node told; `None` if it lies in no chunk of the stripe.
    pub fn of(raw: &RawOp<'_>, data_count: usize, chunk_bytes: usize) -> Option<Self> {
        let (offset, length) = (usize::try_from(raw.offset).ok()?, usize::try_from(raw.length).ok()?);
        let end = offset.checked_add(length.max(raw.bytes.len()))?;
        let data_index = usize::from(raw.data_index);
        let is_within = data_index < data_count && end <= chunk_bytes;
        is_within.then(|| HeldOp { op: raw.op, data_index, offset, length, bytes: raw.bytes.to_vec() })
    }
}

/// What one living member told. The default is a member that was never given anything.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Last operation that it holds; it holds all of its own before that one.
    pub last: OpNumber,
    /// Operation that the parity chunk's bytes are folded to; last known stable one on a data node.
    pub folded: OpNumber,
    /// Payload: of a data chunk as far as it is used, of a parity chunk whole (empty if nothing was folded).
    pub bytes: Vec<u8>,
    pub held: Vec<HeldOp>,
}

/// What is known of a stripe that was never sealed.
#[derive(Clone, Debug)]
pub struct Stripe<'a> {
    pub id: StripeId,
    pub chunk_bytes: usize,
    /// By place in the stripe. What is missing here was lost, or its node is away.
    pub parts: &'a BTreeMap<usize, Part>,
    /// Bit per member whose node may come back with its chunk.
    pub away: u128,
    /// Members that are known to have their chunk, or to have lost it, are as many as it takes for an operation to
    /// count.
    pub is_opened: bool,
    /// Where an earlier owner ended it.
    pub close: Option<OpNumber>,
}

/// The content of a stripe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    /// The data chunks, each as far as it is used.
    pub chunks: Vec<Vec<u8>>,
    /// How much of each no failures that the code tolerates take away.
    pub certain_bytes: Vec<usize>,
    /// Too many members are missing: something that was acknowledged may not be in it.
    pub is_lossy: bool,
    /// What was decoded does not add up: a source is damaged.
    pub is_torn: bool,
}

impl Content {
    /// What lies in chunks that are safe.
    pub fn certain(chunks: Vec<Vec<u8>>) -> Self {
        let certain_bytes = chunks.iter().map(Vec::len).collect();
        Content { chunks, certain_bytes, is_lossy: false, is_torn: false }
    }

    pub fn is_certain(&self) -> bool {
        self.chunks.iter().map(Vec::len).eq(self.certain_bytes.iter().copied())
    }
}

/// Settles the content of a stripe.
pub fn reconstruct(code: &Code, stripe: &Stripe<'_>) -> Content {
    if stripe.close == Some(OpNumber(0)) {
        // Its owner ended it as a whole, what was stable included.
        return Content::certain(vec![Vec::new(); code.data_count()]);
    }
    let stable = stripe.parts.values().map(|part| part.folded).max().unwrap_or_default();
    let mut content = Content::certain(Vec::new());
    for index in 0..code.data_count() {
        let mut chunk = match stripe.parts.get(&index) {
            Some(part) => cut_back(part, stripe.last()),
            None => {
                let decoded = decode(code, stripe, stable, index, None);
                content.is_lossy |= decoded.is_none() || !is_told_of(code, stripe, index);
                let decoded = decoded.unwrap_or_default();
                let whole = whole_chunk(&decoded, stripe.id).map(<[u8]>::to_vec);
                let whole = whole.or_else(|| decode_without_one(code, stripe, stable, index));
                content.is_torn |= whole.is_none();
                whole.unwrap_or_default()
            }
        };
        let stable_bytes = match stripe.parts.get(&index) {
            Some(part) => cut_back(part, stable.min(stripe.last())).len(),
            // Decoded as of then.
            None => chunk.len(),
        };
        let last = append_held(&mut chunk, index, stripe).max(last_in_place(stripe, index));
        // What is stable was confirmed, and nothing is before enough members have their chunk.
        let counts = stripe.is_opened || stable > OpNumber(0);
        let is_certain = last <= stable || counts && is_held_by_all(code, stripe, index, last);
        content.certain_bytes.push(if is_certain { chunk.len() } else { stable_bytes });
        content.chunks.push(chunk);
    }
    content
}

impl Stripe<'_> {
    fn last(&self) -> OpNumber {
        self.close.unwrap_or(OpNumber(u32::MAX))
    }
}

/// Does some participant tell of every operation on a data chunk whose own node is missing?
fn is_told_of(code: &Code, stripe: &Stripe<'_>, index: usize) -> bool {
    code.shape().participants(index).any(|member| stripe.parts.contains_key(&member))
}

/// Does every participant of data chunk `index` hold its operation `op`, but those that are gone for good?
fn is_held_by_all(code: &Code, stripe: &Stripe<'_>, index: usize, op: OpNumber) -> bool {
    code.shape().participants(index).all(|member| match stripe.parts.get(&member) {
        Some(part) => part.last >= op,
        None => stripe.away & 1 << member == 0,
    })
}

/// The last operation that a data chunk's own node holds and that is not void.
fn last_in_place(stripe: &Stripe<'_>, index: usize) -> OpNumber {
    let held = stripe.parts.get(&index).into_iter().flat_map(|part| &part.held);
    held.map(|held| held.op).filter(|&op| op <= stripe.last()).max().unwrap_or_default()
}

/// A data chunk without the operations above `last`.
fn cut_back(part: &Part, last: OpNumber) -> Vec<u8> {
    let first_above = part.held.iter().filter(|held| held.op > last).map(|held| held.offset).min();
    let keep = first_above.unwrap_or(part.bytes.len()).min(part.bytes.len());
    part.bytes[..keep].to_vec()
}

/// A missing data chunk that adds up without one of the parities: that of an open stripe has no checksum, and may be
/// damaged.
fn decode_without_one(code: &Code, stripe: &Stripe<'_>, stable: OpNumber, wanted: usize) -> Option<Vec<u8>> {
    let parities = stripe.parts.keys().copied().filter(|&member| member >= code.data_count());
    let mut decoded = parities.filter_map(|parity| decode(code, stripe, stable, wanted, Some(parity)));
    decoded.find_map(|chunk| whole_chunk(&chunk, stripe.id).map(<[u8]>::to_vec))
}

/// A missing data chunk as of `stable`; `None` if too many members are missing.
fn decode(
    code: &Code,
    stripe: &Stripe<'_>,
    stable: OpNumber,
    wanted: usize,
    without: Option<usize>,
) -> Option<Vec<u8>> {
    if stable == OpNumber(0) {
        return Some(Vec::new());
    }
    let Stripe { chunk_bytes, parts, .. } = *stripe;
    let plan = code.read_plan(wanted, &|index| parts.contains_key(&index) && Some(index) != without).ok()?;
    let as_of = |&index: &usize| {
        let part = &parts[&index];
        let mut bytes = if index < code.data_count() { cut_back(part, stable) } else { part.bytes.clone() };
        bytes.resize(chunk_bytes, 0);
        if index >= code.data_count() {
            let behind = part.held.iter().filter(|held| held.op > part.folded && held.op <= stable);
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
    Some(chunk)
}

/// The part of a data chunk that is in use; `None` if its records do not add up: then something in it is damaged.
pub fn whole_chunk(chunk: &[u8], stripe: StripeId) -> Option<&[u8]> {
    shorttail_store::used_bytes(ChunkKind::Packed, stripe, chunk).map(|used| &chunk[..used])
}

/// Completes a chunk with the operations that parities hold raw, in order, as far as they join up; answers the last
/// one.
fn append_held(chunk: &mut Vec<u8>, index: usize, stripe: &Stripe<'_>) -> OpNumber {
    let mut held: BTreeMap<OpNumber, &HeldOp> = BTreeMap::new();
    for op in stripe.parts.values().flat_map(|part| &part.held) {
        if op.data_index == index && op.op <= stripe.last() && !op.bytes.is_empty() {
            held.insert(op.op, op);
        }
    }
    let mut last = OpNumber(0);
    for (number, op) in held {
        if op.offset == chunk.len() {
            chunk.extend_from_slice(&op.bytes);
            last = number;
        }
    }
    last
}

#[cfg(test)]
mod tests {
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

    fn settle(code: &Code, parts: &BTreeMap<usize, Part>, away: u128, close: Option<OpNumber>) -> Content {
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
            let expected = settle(&code, &all, 0, None);
            assert_eq!(expected.chunks[0], all[&0].bytes);
            assert!(expected.is_certain());
            for (one, other) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
                let mut parts = all.clone();
                parts.remove(&one);
                parts.remove(&other);
                let found = settle(&code, &parts, 0, None);
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
        let found = settle(&code, &parts, 0, None);
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
            let found = settle(&code, &parts, 0, None);
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
            assert!(!settle(&code, &parts, 1 << member, None).is_certain(), "without {member}");
            assert!(settle(&code, &parts, 0, None).is_certain(), "without {member}");
        }
        let folded = members(&code, 6, [6, 6]);
        for member in 0..4 {
            let mut parts = folded.clone();
            parts.remove(&member);
            assert!(settle(&code, &parts, 1 << member, None).is_certain(), "everything was stable");
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
            let stripe =
                Stripe { id: stripe(), chunk_bytes: CHUNK_BYTES, parts: &parts, away: 1 << 1, is_opened, close: None };
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
            settle(&code, &parts, 0, None).is_lossy
        };
        assert!(without([0, 1, 2]) && without([0, 2, 3]) && without([1, 2, 3]));
        // One parity that folded nothing has everything raw.
        let mut parts = members(&code, 6, [0, 0]);
        [0, 1, 2].iter().for_each(|member| _ = parts.remove(member));
        let found = settle(&code, &parts, 0, None);
        assert_eq!((&found.chunks[0], found.is_lossy), (&all[&0].bytes, false));
    }

    /// A parity that was never given the chunk says that nothing was acknowledged.
    #[test]
    fn a_member_that_was_never_given_the_chunk_counts() {
        let code = Code::reed_solomon(2, 2).expect("a code");
        let parts: BTreeMap<_, _> = [(2, Part::default()), (1, Part::default())].into();
        let found = settle(&code, &parts, 0, None);
        assert_eq!((found.chunks.concat(), found.is_lossy, found.is_certain()), (Vec::new(), false, true));
    }

    #[test]
    fn operations_beyond_a_close_are_void() {
        let code = Code::reed_solomon(2, 2).expect("a code");
        let parts = members(&code, 6, [2, 3]);
        let found = settle(&code, &parts, 0, Some(OpNumber(4)));
        assert_eq!(found.chunks[0], [record(2), record(4)].concat());
        assert_eq!(found.chunks[1], [record(1), record(3)].concat());
        assert!(found.is_certain());
    }

    #[test]
    fn a_stripe_closed_at_operation_zero_is_void() {
        let code = Code::reed_solomon(2, 2).expect("a code");
        let found = settle(&code, &members(&code, 6, [2, 3]), 0, Some(OpNumber(0)));
        assert_eq!((found.chunks.concat(), found.is_certain(), found.is_lossy), (Vec::new(), true, false));
    }

    #[test]
    fn without_parities_a_missing_chunk_is_a_loss() {
        let code = Code::reed_solomon(3, 0).expect("a code");
        let part = Part { last: OpNumber(1), bytes: record(1), ..Part::default() };
        let parts: BTreeMap<_, _> = [(0, part), (2, Part::default())].into();
        let found = settle(&code, &parts, 0, None);
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
}
