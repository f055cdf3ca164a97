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

use shorttail_codes::{ChunkSet, Code};
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
    /// Members whose nodes may come back with their chunks.
    pub away: ChunkSet,
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
        None => !stripe.away.contains(member),
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

/// Completes a chunk with the operations that parities hold raw, in order, as far as they join up; returns the last
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
mod tests;
