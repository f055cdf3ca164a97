//! Reading the stripes of earlier owners, one by one.
//!
//! ```text
//! Waiting --too few of its members: again at the next tick
//!    |----sealed everywhere--> Sealed: its data chunks are fetched, degraded where a member is gone ------------.
//!    '----else--> Inspecting --> Reading --> closed (rule R4): see `synchronise` ------------------------------> Done
//! ```
//! Packed stripes are read newest first, so that a stripe is known to be void before it is reached. A read that fails
//! puts its stripe back to Waiting: a stripe is never taken for what happens to be readable of it, unless what is
//! missing is gone for good. So does a chunk whose records do not add up: it was damaged, in memory or on its way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shorttail_codes::ChunkSet;
use shorttail_store::record::{Record, records};
use shorttail_units::{Configuration, NodeId, OpNumber, PartitionId, StripeId};

use super::census::{Census, Member, Seat};
use super::doubts::Doubts;
use super::picture::{Loaded, Picture};
use super::reconstruct::{Content, whole_chunk};
use super::synchronise::Parts;
use super::witness::is_first_id;
use crate::engine::read::fetch::{Extent, FetchError, FetchPurpose, Wanted};
use crate::engine::write::manifest::Manifest;
use crate::engine::{Engine, Phase, Work};

/// Stripes that are read at once: by one that nobody waits for, fewer.
const LOADS_IN_FLIGHT: usize = 8;
const PREPARING_LOADS_IN_FLIGHT: usize = 2;

/// Times that the chunks of a sealed stripe cannot be fetched before its members are inspected one by one, which tells
/// those that are damaged from those that were late.
const FETCH_FAILURES_MAX: u32 = 3;

#[derive(Debug)]
pub struct Loading {
    /// Packed stripes, oldest first: taken from the end.
    to_load: Vec<StripeId>,
    loads: BTreeMap<StripeId, Load>,
    pub(super) closes_missing: usize,
    /// Stripes whose content is not certain, and what of it is not.
    uncertain: BTreeSet<StripeId>,
    doubts: Doubts,
    /// What earlier rounds brought stays (see `preparing`).
    picture: Option<Picture>,
}

impl Loading {
    pub fn is_over(&self) -> bool {
        self.to_load.is_empty() && self.loads.is_empty() && self.closes_missing == 0
    }

    pub fn picture(&self) -> Option<&Picture> {
        self.picture.as_ref()
    }

    pub fn picture_mut(&mut self) -> Option<&mut Picture> {
        self.picture.as_mut()
    }

    /// Reads these stripes, the last first, into the picture.
    pub fn new(to_load: Vec<StripeId>, picture: Picture) -> Self {
        Loading {
            to_load,
            loads: BTreeMap::new(),
            closes_missing: 0,
            uncertain: BTreeSet::new(),
            doubts: Doubts::default(),
            picture: Some(picture),
        }
    }

    /// The picture, and the stripes whose content is not certain.
    pub fn into_parts(self) -> (Option<Picture>, BTreeSet<StripeId>, Doubts) {
        (self.picture, self.uncertain, self.doubts)
    }
}

/// A stripe being read.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) partition: PartitionId,
    pub(super) members: Arc<[NodeId]>,
    configuration: Configuration,
    pub(super) chunk_bytes: usize,
    /// Members that refused: their chunks proved damaged.
    pub(super) refused: ChunkSet,
    /// Answers that are awaited.
    pub(super) missing: usize,
    /// One of them did not come.
    pub(super) has_failed: bool,
    /// Times that this happened while the stripe was taken for a sealed one.
    failures: u32,
    /// Times that a data chunk did not add up.
    pub(super) torn_count: u32,
    pub(super) step: Step,
}

impl Load {
    pub(super) fn place_of(&self, node: NodeId) -> Option<usize> {
        self.members.iter().position(|&member| member == node)
    }
}

#[derive(Debug)]
pub(super) enum Step {
    Waiting,
    Sealed { chunks: Vec<Option<Vec<u8>>> },
    Inspecting { parts: Parts },
    Reading { parts: Parts },
    Done { content: Content, is_sealed: bool },
}

/// Is there enough of a stripe?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Enough,
    /// Members that may come back are needed.
    Wait,
    /// What is missing is gone for good.
    Hopeless,
}

impl Engine {
    /// Everything that nodes hold and that is not in the picture is read.
    pub(super) fn begin_loading(&mut self) {
        self.forget_unheard();
        let Some(picture) = self.take_picture() else { return };
        let picture = self.bring_up_to_date(picture);
        let to_load = self.stripes_to_load(&picture);
        if let Phase::Gathering(gathering) = &mut self.phase {
            gathering.to_read = to_load.len();
            gathering.loading = Some(Loading::new(to_load, picture));
        }
        self.load_more();
    }

    fn take_picture(&mut self) -> Option<Picture> {
        let Phase::Gathering(gathering) = &mut self.phase else { return None };
        Some(gathering.picture.take().unwrap_or_else(|| Picture::new(self.config.data_count())))
    }

    fn stripes_to_load(&self, picture: &Picture) -> Vec<StripeId> {
        let Some(census) = self.census() else { return Vec::new() };
        let mut stripes = census.packed();
        stripes.retain(|&stripe| !picture.has(stripe) && (!self.is_preparing() || self.is_settled(stripe)));
        stripes
    }

    pub(super) fn loading(&mut self) -> Option<&mut Loading> {
        match &mut self.phase {
            Phase::Gathering(gathering) => gathering.loading.as_mut(),
            Phase::Completing | Phase::Serving => None,
        }
    }

    pub(super) fn load(&mut self, stripe: StripeId) -> Option<&mut Load> {
        self.loading()?.loads.get_mut(&stripe)
    }

    fn load_more(&mut self) {
        let in_flight_max = if self.is_heir() { PREPARING_LOADS_IN_FLIGHT } else { LOADS_IN_FLIGHT };
        loop {
            let Some(loading) = self.loading() else { return };
            if loading.loads.len() >= in_flight_max {
                return;
            }
            let Some(stripe) = loading.to_load.pop() else { return self.end_gathering_when_done() };
            self.start_load(stripe);
        }
    }

    fn start_load(&mut self, stripe: StripeId) {
        let Some(census) = self.census() else { return };
        let Some(description) = census.newest(stripe).cloned() else { return };
        let Some((configuration, members)) = census.members_of(stripe) else { return };
        let load = Load {
            partition: description.partition,
            members: members.into(),
            configuration,
            chunk_bytes: description.chunk_bytes as usize,
            refused: ChunkSet::EMPTY,
            missing: 0,
            has_failed: false,
            failures: 0,
            torn_count: 0,
            step: Step::Waiting,
        };
        if let Some(loading) = self.loading() {
            loading.loads.insert(stripe, load);
        }
        self.try_load(stripe);
    }

    /// Tries again what waits for members.
    pub(super) fn retry_loads(&mut self) {
        let Some(loading) = self.loading() else { return };
        let waiting = loading.loads.iter().filter(|(_, load)| matches!(load.step, Step::Waiting));
        for stripe in waiting.map(|(&stripe, _)| stripe).collect::<Vec<_>>() {
            self.try_load(stripe);
        }
        // What waited may have turned out to be void.
        self.work.push_back(Work::Loaded);
    }

    fn try_load(&mut self, stripe: StripeId) {
        let Some(loading) = self.loading() else { return };
        if loading.picture.as_ref().is_some_and(|picture| picture.is_void(stripe)) {
            loading.loads.remove(&stripe);
            return;
        }
        self.refresh_members(stripe);
        if self.is_preparing() {
            return self.load_sealed(stripe);
        }
        let members = self.members_of_load(stripe);
        let verdict = self.weigh(stripe, &members);
        let is_sealed = self.is_sealed_everywhere(stripe, &members);
        tracing::debug!(?stripe, is_sealed, ?verdict, "inherited");
        match verdict {
            Verdict::Wait => {}
            Verdict::Enough | Verdict::Hopeless if is_sealed => self.load_sealed(stripe),
            Verdict::Enough | Verdict::Hopeless => self.inspect_members(stripe, &members),
        }
    }

    /// Who holds the stripe may have been told since it was looked at last.
    fn refresh_members(&mut self, stripe: StripeId) {
        let Some((configuration, members)) = self.census().and_then(|census| census.members_of(stripe)) else { return };
        if let Some(load) = self.load(stripe).filter(|load| load.members[..] != members[..]) {
            (load.configuration, load.members, load.refused) = (configuration, members.into(), ChunkSet::EMPTY);
        }
    }

    pub(super) fn members_of_load(&mut self, stripe: StripeId) -> Vec<Member> {
        let Some(load) = self.load(stripe) else { return Vec::new() };
        let (nodes, partition, refused) = (load.members.clone(), load.partition, load.refused);
        let member = |(chunk, &node)| match self.member(Seat { node, stripe, chunk }, partition) {
            Member::Holds if refused.contains(chunk) => Member::Lost,
            other => other,
        };
        nodes.iter().enumerate().map(member).collect()
    }

    fn is_sealed_everywhere(&self, stripe: StripeId, members: &[Member]) -> bool {
        let Some(load) = self.load_at(stripe) else { return false };
        load.failures < FETCH_FAILURES_MAX && self.looks_sealed(stripe, &load.members, members)
    }

    /// Does every member that has its chunk have it sealed, and was none never given it?
    pub(super) fn looks_sealed(&self, stripe: StripeId, nodes: &[NodeId], members: &[Member]) -> bool {
        let Some(census) = self.census() else { return false };
        let place_of = |node| nodes.iter().position(|&member| member == node);
        let holds = |node| place_of(node).is_some_and(|place| members[place] == Member::Holds);
        let mut holders = census.intact(stripe).filter(|&(node, _)| holds(node));
        !members.contains(&Member::Never) && holders.all(|(_, report)| report.sealed)
    }

    fn load_at(&self, stripe: StripeId) -> Option<&Load> {
        let Phase::Gathering(gathering) = &self.phase else { return None };
        gathering.loading.as_ref()?.loads.get(&stripe)
    }

    pub(super) fn place_in_load(&self, stripe: StripeId, node: NodeId) -> Option<usize> {
        self.load_at(stripe)?.place_of(node)
    }

    pub(super) fn weigh(&self, stripe: StripeId, members: &[Member]) -> Verdict {
        if members.contains(&Member::Never) && self.may_have_moved(stripe) {
            return Verdict::Wait;
        }
        let count = |wanted| members.iter().filter(|&&member| member == wanted).count();
        let (away, lost) = (count(Member::Away), count(Member::Lost));
        if away + lost <= self.config.tolerance() {
            return Verdict::Enough;
        }
        let Some(census) = self.census() else { return Verdict::Wait };
        let away = away + lost.min(self.strangers_away(stripe, census));
        let is_sealed = census.intact(stripe).any(|(_, report)| report.sealed);
        let is_beyond_help = is_sealed && count(Member::Holds) + away < self.config.data_count();
        if away == 0 || is_beyond_help { Verdict::Hopeless } else { Verdict::Wait }
    }

    /// May a chunk of the stripe be elsewhere, of which nobody heard tells? A node that lost its memory counts as one
    /// that was never given anything older, once all that it had is rebuilt: some of it on other nodes. Of that one
    /// node more knows than may be lost; so it takes more that cannot tell than that, some of which may come back.
    pub(super) fn may_have_moved(&self, stripe: StripeId) -> bool {
        let Some(census) = self.census() else { return false };
        let Some(partition) = census.newest(stripe).map(|newest| newest.partition) else { return false };
        // Only what was sealed moves, and an owner takes a stripe for sealed only if it asked all members but so many.
        if census.intact(stripe).filter(|(_, report)| !report.sealed).count() > self.config.tolerance() {
            return false;
        }
        let (mut away, mut dumb) = (0, 0);
        for node in self.nodes.iter().map(|node| node.id) {
            let is_ready = self.nodes.is_ready(node);
            away += usize::from(!is_ready && !self.is_gone(node));
            dumb += usize::from(!is_ready || census.is_younger(&self.nodes, node, stripe, partition));
        }
        away > 0 && dumb > self.config.tolerance()
    }

    /// Nodes that are away and may hold what a member lacks: a chunk of the stripe was to move, and did not.
    fn strangers_away(&self, stripe: StripeId, census: &Census) -> usize {
        let moved = census.members_of(stripe).filter(|(configuration, _)| !configuration.is_first());
        let Some((_, members)) = moved else { return 0 };
        let nodes = self.nodes.iter().map(|node| node.id).filter(|node| !members.contains(node));
        nodes.filter(|&node| !self.nodes.is_ready(node) && !self.is_gone(node)).count()
    }

    fn load_sealed(&mut self, stripe: StripeId) {
        let data_count = self.config.data_count();
        let Some(load) = self.load(stripe) else { return };
        let chunks = vec![None; data_count];
        (load.missing, load.has_failed, load.step) = (data_count, false, Step::Sealed { chunks });
        let (partition, members, chunk_bytes) = (load.partition, load.members.clone(), load.chunk_bytes);
        for data_index in 0..data_count {
            // The length of a chunk whose node is gone is not known: all of it is decoded.
            let reported = self.census().and_then(|census| {
                let mut reports = census.intact(stripe);
                reports.find(|(_, report)| usize::from(report.description.index) == data_index)
            });
            let length = reported.map_or(chunk_bytes as u32, |(_, report)| report.length);
            if length == 0 {
                self.gather_fetched(stripe, data_index, Ok(&[]));
                continue;
            }
            self.start_fetch(Wanted {
                stripe,
                shape: self.config.shape,
                partition,
                members: members.clone(),
                data_index,
                chunk_bytes: chunk_bytes as u32,
                offset: 0,
                extent: Extent::Bytes(length),
                op: OpNumber(0),
                purpose: FetchPurpose::Gather,
            });
        }
    }

    pub(in crate::engine) fn gather_fetched(
        &mut self,
        stripe: StripeId,
        data_index: usize,
        result: Result<&[u8], FetchError>,
    ) {
        let Some(load) = self.load(stripe) else { return };
        let Step::Sealed { chunks } = &mut load.step else { return };
        match result.ok().and_then(|bytes| whole_chunk(bytes, stripe)) {
            Some(bytes) => chunks[data_index] = Some(bytes.to_vec()),
            None => load.has_failed = true,
        }
        load.missing -= 1;
        if load.missing == 0 {
            self.end_sealed(stripe);
        }
    }

    fn end_sealed(&mut self, stripe: StripeId) {
        let members = self.members_of_load(stripe);
        let is_hopeless = self.weigh(stripe, &members) == Verdict::Hopeless;
        let Some(load) = self.load(stripe) else { return };
        let Step::Sealed { chunks } = std::mem::replace(&mut load.step, Step::Waiting) else { return };
        let is_lossy = load.has_failed;
        if is_lossy && self.is_preparing() {
            // The owner empties it, or a node is late: it is looked at again.
            self.drop_load(stripe);
            return;
        }
        let Some(load) = self.load(stripe) else { return };
        if is_lossy && !is_hopeless {
            load.failures += 1;
            return;
        }
        let chunks = chunks.into_iter().map(Option::unwrap_or_default).collect();
        let content = Content { is_lossy, ..Content::certain(chunks) };
        load.step = Step::Done { content, is_sealed: true };
        self.work.push_back(Work::Loaded);
    }

    fn drop_load(&mut self, stripe: StripeId) {
        if let Some(loading) = self.loading() {
            loading.loads.remove(&stripe);
            self.work.push_back(Work::Loaded);
        }
    }

    /// A member recorded a close, or cannot, as it is gone: what it has beyond counts for nobody who hears of the
    /// close.
    pub(in crate::engine) fn close_settled(&mut self) {
        if let Some(loading) = self.loading() {
            loading.closes_missing = loading.closes_missing.saturating_sub(1);
            self.end_gathering_when_done();
        }
    }

    /// Does the newest stripe that was read have a manifest of which nobody can tell now whether it makes an object?
    fn has_unknown_manifest(&self) -> bool {
        let Phase::Gathering(gathering) = &self.phase else { return false };
        let Some((&id, load)) = gathering.loading.as_ref().and_then(|loading| loading.loads.last_key_value()) else {
            return false;
        };
        let Step::Done { content, .. } = &load.step else { return false };
        let silent = self.nodes.iter().filter(|node| !self.nodes.is_ready(node.id)).count();
        let dumb_max = silent + gathering.census.rejoined_count(&self.nodes, is_first_id);
        if self.is_preparing() || content.is_lossy || silent == 0 || dumb_max <= self.config.tolerance() {
            return false;
        }
        let picture = gathering.loading.as_ref().and_then(Loading::picture);
        let is_unknown = |record: &Record<'_>, manifest: &Manifest| {
            let mut stripes = (0..manifest.stripe_count).map(|number| manifest.first.plus(u64::from(number)));
            let is_over = picture.is_some_and(|picture| picture.has_newer(record, &self.config));
            !is_over
                && self.is_void_manifest(load.partition, manifest)
                && stripes.any(|stripe| self.may_have_moved(stripe))
        };
        let mut manifests = content.chunks.iter().flat_map(|chunk| records(chunk, id));
        manifests.any(|(_, record, _)| Manifest::of(&record).is_some_and(|manifest| is_unknown(&record, &manifest)))
    }

    /// Takes loaded stripes into the picture, newest first.
    pub(in crate::engine) fn take_loaded(&mut self) {
        while let Some(loading) = self.loading() {
            let is_done = |load: &Load| matches!(load.step, Step::Done { .. });
            if !loading.loads.last_key_value().is_some_and(|(_, load)| is_done(load)) {
                break;
            }
            if self.has_unknown_manifest() {
                break;
            }
            let Some(loading) = self.loading() else { break };
            let (stripe, load) = loading.loads.pop_last().expect("it has a last");
            let Step::Done { content, is_sealed } = load.step else { break };
            let is_void = loading.picture.as_ref().is_some_and(|picture| picture.is_void(stripe));
            if !content.is_certain() && !is_void {
                loading.uncertain.insert(stripe);
                let mut doubts = std::mem::take(&mut loading.doubts);
                doubts.take(stripe, load.partition, &content, &self.config);
                self.loading().expect("it was there").doubts = doubts;
            }
            let Some(loading) = self.loading() else { break };
            let Some(mut picture) = loading.picture.take() else { break };
            if content.is_lossy {
                tracing::error!(?stripe, "more members are gone than the code tolerates: the stripe is lost");
                picture.take_lost(stripe, load.partition);
            } else {
                // Whoever prepares knows too little to judge: see `bring_up_to_date`.
                let is_void = |manifest: &_| !self.is_preparing() && self.is_void_manifest(load.partition, manifest);
                let Load { partition, members, configuration, chunk_bytes, .. } = load;
                let Content { chunks, certain_bytes, .. } = content;
                let loaded =
                    Loaded { partition, members, configuration, chunk_bytes, chunks, certain_bytes, is_sealed };
                picture.take(stripe, loaded, &self.config, &is_void);
            }
            if let Some(loading) = self.loading() {
                loading.picture = Some(picture);
            }
        }
        self.load_more();
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::{CodeShape, Epoch, Incarnation};
    use shorttail_wire::node::{ChunkDescription, ChunkKind, ChunkReport, Members};

    use super::*;
    use crate::engine::NodePhase;
    use crate::engine::sessions::nodes::SessionId;
    use crate::engine::state::testing::engine_of_ready_nodes;
    use crate::engine::takeover::recovery::Gathering;

    /// An heir that hears seven of ten nodes: the others were given up long ago, but one, which is away. A member of a
    /// stripe was never given its chunk, and of the others so many have not sealed theirs.
    fn heir(unsealed_count: u16) -> (Engine, StripeId) {
        let shape = CodeShape::reed_solomon(4, 2).expect("a code");
        let mut engine = engine_of_ready_nodes(shape, 10);
        let (stripe, partition) = (StripeId::new(Epoch(1), 7), PartitionId(0));
        let mut census = Census::default();
        let members = Members((0..6).map(NodeId).collect());
        for node in 0..5 {
            let description = ChunkDescription {
                stripe,
                epoch: Epoch(1),
                partition,
                kind: ChunkKind::Packed,
                index: node as u8,
                shape,
                chunk_bytes: 1000,
                configuration: Configuration::default(),
                members: members.clone(),
            };
            let report = ChunkReport {
                description,
                sealed: node >= unsealed_count,
                damaged: false,
                length: 0,
                last: OpNumber(0),
                folded: OpNumber(0),
                close_epoch: Epoch(0),
                close_op: OpNumber(0),
                payload_crc: 0,
            };
            census.take(SessionId { node: NodeId(node), core: 0 }, report);
        }
        for node in 0..7 {
            census.take_joined(SessionId { node: NodeId(node), core: 0 }, partition, StripeId::new(Epoch(1), 0));
        }
        for node in 7..10 {
            engine.nodes.get_mut(NodeId(node)).expect("a node").phase = NodePhase::Away;
        }
        for node in 8..10 {
            engine.handle_retired(NodeId(node), Incarnation(1));
        }
        let picture = Picture::new(4);
        engine.phase = Phase::Gathering(Box::new(Gathering::new(0, picture, census)));
        (engine, stripe)
    }

    /// Those who know of a move may all be among the dead and the one that is away; but what was never sealed never
    /// moved.
    #[test]
    fn nobody_is_waited_for_because_of_a_stripe_that_cannot_have_moved() {
        for (unsealed_count, may_have_moved) in [(0, true), (2, true), (3, false), (5, false)] {
            let (engine, stripe) = heir(unsealed_count);
            assert_eq!(engine.may_have_moved(stripe), may_have_moved, "{unsealed_count} have not sealed theirs");
            let members = [&[Member::Holds; 5][..], &[Member::Never]].concat();
            let expected = if may_have_moved { Verdict::Wait } else { Verdict::Enough };
            assert_eq!(engine.weigh(stripe, &members), expected);
        }
    }
}
