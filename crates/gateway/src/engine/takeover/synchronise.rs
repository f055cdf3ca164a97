//! Reading a stripe that was never sealed: what each member holds, then one content, then its end.
//!
//! ```text
//! Inspecting: headers and raw operations --> Reading: payloads --> settled (see `reconstruct`), closed on all members
//! ```
//! A member that refuses is damaged and counts as lost. One that is late or gone sends the stripe back to Waiting.
//!
//! Where more members were never given their chunk than may lack it when an operation counts, none ever did: the stripe
//! ends empty. It may be older than an owner in between, who was told of it by nobody and answered as if it were not
//! there (rule R4). So while those that are away may make them so many, nothing of it is certain that is not known to
//! be stable.
//!
//! An end is one operation for all data chunks, and who is away may hold one before it of which nobody here tells. So
//! it is what a parity holds that knows all before it, if one is here.

use std::collections::BTreeMap;

use shorttail_codes::ChunkSet;
use shorttail_units::{CodeShape, NodeId, OpNumber, StripeId};
use shorttail_wire::node::{ChunkReport, InspectReport, NodeRequest, Refusal};

use super::census::Member;
use super::loading::{Load, Step, Verdict};
use super::reconstruct::{self, HeldOp, Part, reconstruct, whole_chunk};
use crate::engine::{Engine, What, Work};

/// Times that data chunks of a stripe are read in vain before the one at hand is taken for damaged.
const TORN_MAX: u32 = 20;

/// What members told, by their place in the stripe.
pub type Parts = BTreeMap<usize, (ChunkReport, Part)>;

impl Engine {
    pub(super) fn inspect_members(&mut self, stripe: StripeId, members: &[Member]) {
        let Some(load) = self.load(stripe) else { return };
        let holders: Vec<NodeId> = {
            let holds = load.members.iter().zip(members).filter(|(_, member)| **member == Member::Holds);
            holds.map(|(&node, _)| node).collect()
        };
        // One more than is asked, so that the answers to come do not end the step before all is asked.
        (load.missing, load.has_failed) = (holders.len() + 1, false);
        load.step = Step::Inspecting { parts: BTreeMap::new() };
        for node in holders {
            self.ask(node, stripe, &NodeRequest::Inspect { stripe }, What::Inspect { stripe });
        }
        self.one_part_less(stripe);
    }

    pub(in crate::engine) fn inspected(&mut self, node: NodeId, stripe: StripeId, inspected: &InspectReport<'_>) {
        let adds_up = |bytes: &[u8]| bytes.is_empty() || whole_chunk(bytes, stripe).is_some();
        if !inspected.raw.iter().all(|raw| adds_up(raw.bytes)) {
            tracing::error!(?stripe, node = node.0, "raw operations are damaged");
            return self.part_refused(node, stripe, Some(Refusal::Damaged));
        }
        let (data_count, place) = (self.config.data_count(), self.place_in_load(stripe, node));
        let chunk_bytes = self.load(stripe).map_or(0, |load| load.chunk_bytes);
        let held = inspected.raw.iter().map(|raw| HeldOp::of(raw, data_count, chunk_bytes));
        let held = held.collect::<Option<Vec<_>>>().filter(|_| inspected.report.length as usize <= chunk_bytes);
        if let (false, Some(place), Some(held)) = (inspected.report.damaged, place, held) {
            let report = inspected.report.clone();
            let part = Part { last: report.last, folded: report.folded, bytes: Vec::new(), held };
            if let Some(Load { step: Step::Inspecting { parts }, .. }) = self.load(stripe) {
                parts.insert(place, (report, part));
            }
            return self.one_part_less(stripe);
        }
        self.part_refused(node, stripe, Some(Refusal::Damaged));
    }

    /// A member did not tell: it refused, or it is late or gone (`None`).
    pub(in crate::engine) fn part_refused(&mut self, node: NodeId, stripe: StripeId, refusal: Option<Refusal>) {
        let place = self.place_in_load(stripe, node);
        if let (Some(place), Some(load)) = (place, self.load(stripe)) {
            load.has_failed = true;
            if refusal.is_some() {
                load.refused.insert(place);
            }
        }
        self.one_part_less(stripe);
    }

    fn one_part_less(&mut self, stripe: StripeId) {
        let Some(load) = self.load(stripe) else { return };
        load.missing -= 1;
        if load.missing > 0 {
            return;
        }
        if load.has_failed {
            load.step = Step::Waiting;
            return;
        }
        match &load.step {
            Step::Inspecting { .. } => self.read_parts(stripe),
            Step::Reading { .. } => self.synchronise(stripe),
            Step::Waiting | Step::Sealed { .. } | Step::Done { .. } => {}
        }
    }

    /// Reads what each inspected member's chunk holds.
    fn read_parts(&mut self, stripe: StripeId) {
        let data_count = self.config.data_count();
        let Some(load) = self.load(stripe) else { return };
        let Step::Inspecting { parts } = &mut load.step else { return };
        let parts = std::mem::take(parts);
        let mut asks = Vec::new();
        for (&index, (report, _)) in &parts {
            let is_parity = index >= data_count;
            let length = if is_parity { load.chunk_bytes as u32 } else { report.length };
            let as_of = if is_parity { report.folded } else { report.last };
            let is_empty = length == 0 || !report.sealed && as_of == OpNumber(0);
            if !is_empty {
                let op = if report.sealed { OpNumber(0) } else { as_of };
                asks.push((index, NodeRequest::ReadRange { stripe, offset: 0, length, op }));
            }
        }
        load.missing = asks.len() + 1;
        load.step = Step::Reading { parts };
        let members = load.members.clone();
        for (index, request) in asks {
            self.ask(members[index], stripe, &request, What::GatherRead { stripe, member: index as u8 });
        }
        self.one_part_less(stripe);
    }

    pub(in crate::engine) fn part_read(&mut self, stripe: StripeId, member: u8, bytes: &[u8]) {
        let place = usize::from(member);
        let data_count = self.config.data_count();
        let Some(load) = self.load(stripe) else { return };
        let is_whole = is_payload(bytes, load.chunk_bytes, (place < data_count).then_some(stripe));
        if let Step::Reading { parts } = &mut load.step
            && let Some((_, part)) = parts.get_mut(&place)
        {
            part.bytes = bytes.to_vec();
        }
        if !is_whole {
            // Damaged on its way, or in the node's memory: that would stay so.
            load.has_failed = true;
            load.torn_count += 1;
            if load.torn_count >= TORN_MAX {
                load.refused.insert(place);
            }
        }
        self.one_part_less(stripe);
    }

    /// All that is to be had of an open stripe is here: its content is settled, and it is closed everywhere.
    fn synchronise(&mut self, stripe: StripeId) {
        let (code, shape, epoch) = (self.config.code.clone(), self.config.shape, self.config.epoch);
        let found = self.members_of_load(stripe);
        // Who said that it was never given its chunk may be away by now: then it counts as one that may hold something.
        let is_enough = self.weigh(stripe, &found) != Verdict::Wait;
        let Some(load) = self.load(stripe) else { return };
        if !is_enough {
            load.step = Step::Waiting;
            return;
        }
        let Step::Reading { parts } = &mut load.step else { return };
        let close = end_of(shape, parts, &found);
        let reached = parts.values().map(|(report, _)| report.last.max(report.folded)).max().unwrap_or_default();
        let last = close.unwrap_or(reached);
        let indexes: Vec<usize> = parts.keys().copied().collect();
        let parts = std::mem::take(parts).into_iter().map(|(index, (_, part))| (index, part));
        let mut parts: BTreeMap<usize, Part> = parts.collect();
        let mut away = ChunkSet::EMPTY;
        for (index, member) in found.iter().enumerate().filter(|(index, _)| !indexes.contains(index)) {
            match member {
                Member::Never => _ = parts.insert(index, Part::default()),
                Member::Lost => {}
                Member::Holds | Member::Away => away.insert(index),
            }
        }
        let never_count = parts.len() - indexes.len();
        let is_opened = never_count + away.len() <= shape.unopened_max();
        let chunk_bytes = load.chunk_bytes;
        let of_stripe = reconstruct::Stripe { id: stripe, chunk_bytes, parts: &parts, away, is_opened, close };
        let mut content = reconstruct(&code, &of_stripe);
        if content.is_torn {
            load.torn_count += 1;
            if !away.is_empty() || load.torn_count < TORN_MAX {
                load.step = Step::Waiting;
                return;
            }
            // More is damaged than the code can make good: that stays so, and the rest of the store is to be served.
            content.is_lossy = true;
        }
        load.step = Step::Done { content, is_sealed: false };
        let members = load.members.clone();
        if let Some(loading) = self.loading() {
            loading.closes_missing += indexes.len();
        }
        for index in indexes {
            self.ask(members[index], stripe, &NodeRequest::Close { stripe, epoch, last }, What::Close);
        }
        self.work.push_back(Work::Loaded);
    }
}

/// Where a stripe ends, from what its members told.
///
/// | | |
/// |---|---|
/// | nothing of it can have counted | with nothing |
/// | somebody closed it | where the close of the highest epoch says |
/// | nobody sealed it | where [`end_of_open`] says |
/// | else | `None`: with the last operation that anybody holds |
fn end_of(shape: CodeShape, parts: &Parts, members: &[Member]) -> Option<OpNumber> {
    let is_sealed = parts.values().any(|(report, _)| report.sealed);
    if !may_have_counted(shape, members, is_sealed) {
        return Some(OpNumber(0));
    }
    let closes = parts.values().map(|(report, _)| (report.close_epoch, report.close_op));
    let closed = closes.max().filter(|(epoch, _)| epoch.0 > 0).map(|(_, op)| op);
    let told = parts.iter().map(|(&place, (_, part))| (place, part));
    closed.or_else(|| end_of_open(shape, told).filter(|_| !is_sealed))
}

/// May an operation of a stripe have counted? `members`: what became of them, if nothing of it may be elsewhere.
/// `is_sealed`: by one of them.
fn may_have_counted(shape: CodeShape, members: &[Member], is_sealed: bool) -> bool {
    is_sealed || members.iter().filter(|&&member| member == Member::Never).count() <= shape.unopened_max()
}

/// Where a stripe ends that nobody sealed or closed: with the last operation that a parity of all data chunks holds. It
/// holds all before that one, so no member that is away has one of which nobody here tells; what others hold beyond was
/// not acknowledged, or it would hold that, too. `None`: no such parity is here, and all that is held may have been
/// acknowledged.
fn end_of_open<'a>(shape: CodeShape, parts: impl Iterator<Item = (usize, &'a Part)> + Clone) -> Option<OpNumber> {
    let takes_all = |place: usize| {
        let parity = place.checked_sub(shape.data_count());
        parity.is_some_and(|parity| (0..shape.data_count()).all(|index| shape.covers(parity, index)))
    };
    let of_parities = parts.clone().filter(|(place, _)| takes_all(*place)).map(|(_, part)| part.last).max()?;
    // A data node may have heard of more that is stable than the parities that are here.
    parts.map(|(_, part)| part.folded).max().max(Some(of_parities))
}

/// May a member's chunk hold these bytes? `data_of`: the stripe, if it is a data chunk, whose records must add up.
fn is_payload(bytes: &[u8], chunk_bytes: usize, data_of: Option<StripeId>) -> bool {
    bytes.len() <= chunk_bytes && data_of.is_none_or(|stripe| whole_chunk(bytes, stripe).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_counts_that_more_never_had_than_may_lack_it() {
        use Member::{Away, Holds, Lost, Never};
        let shape = CodeShape::reed_solomon(4, 2).expect("a code");
        assert_eq!(shape.unopened_max(), 1);
        assert!(may_have_counted(shape, &[Holds, Never, Away, Away, Holds, Holds], false));
        assert!(may_have_counted(shape, &[Holds, Never, Lost, Lost, Holds, Holds], false));
        assert!(!may_have_counted(shape, &[Holds, Never, Never, Holds, Holds, Holds], false));
        assert!(may_have_counted(shape, &[Holds, Never, Never, Holds, Holds, Holds], true), "freed meanwhile");
    }

    #[test]
    fn an_open_stripe_ends_with_what_a_parity_of_all_data_chunks_holds() {
        let told = |place: usize, last: u32, folded: u32| {
            (place, Part { last: OpNumber(last), folded: OpNumber(folded), ..Part::default() })
        };
        let end = |shape: CodeShape, told: &[(usize, Part)]| {
            end_of_open(shape, told.iter().map(|(place, part)| (*place, part))).map(|op| op.0)
        };
        let shape = CodeShape::reed_solomon(2, 2).expect("a code");
        assert_eq!(end(shape, &[told(0, 7, 2), told(1, 4, 2)]), None, "all that is held may have been acknowledged");
        assert_eq!(end(shape, &[told(0, 7, 2), told(2, 5, 1)]), Some(5));
        assert_eq!(end(shape, &[told(0, 7, 2), told(2, 5, 1), told(3, 6, 2)]), Some(6));
        assert_eq!(end(shape, &[told(0, 7, 6), told(2, 5, 1)]), Some(6), "a data node heard of more that is stable");
        assert_eq!(end(shape, &[told(0, 7, 0), told(2, 0, 0)]), Some(0), "nothing counted");
        // Groups of two; places 4 and 5 are local parities, 6 the global one.
        let shape = CodeShape::lrc(4, 2, 1).expect("a code");
        assert_eq!(end(shape, &[told(0, 7, 2), told(4, 7, 2)]), None, "another group's operations it does not know");
        assert_eq!(end(shape, &[told(0, 7, 2), told(4, 7, 2), told(6, 5, 2)]), Some(5));
    }

    #[test]
    fn no_member_holds_more_than_a_chunk() {
        let stripe = StripeId::default();
        assert!(is_payload(&[0; 400], 400, None) && is_payload(&[0; 400], 400, Some(stripe)));
        assert!(!is_payload(&[0; 401], 400, None) && !is_payload(&[0; 401], 400, Some(stripe)));
        assert!(!is_payload(&[1; 10], 400, Some(stripe)), "no record");
    }
}
