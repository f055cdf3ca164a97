//! Taking over: a new owner learns from the nodes what the store holds, before it serves.
//!
//! ```text
//! Waiting --enough nodes fenced and scanned--> Loading --every stripe read, every open one closed--> rebuilt: Serving
//! ```
//! Packed stripes are read newest first, so that a stripe is known to be void before it is reached. A stripe that every
//! member found sealed becomes a sealed stripe. Any other is synchronised (see `reconstruct`), closed on all its members
//! at its last operation (rule R4), and emptied by a job: an inherited stripe is never appended to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shorttail_units::{NodeId, OpNumber, StripeId};
use shorttail_wire::node::{ChunkKind, ChunkReport, InspectReport, NodeRequest};

use super::fetch::{Extent, FetchError, FetchPurpose, Wanted};
use super::rebuild::Rebuild;
use super::reconstruct::{HeldOp, Part, reconstruct};
use super::{Engine, Phase, What};
use crate::command::Command;

/// Stripes that are read at once.
const LOADS_IN_FLIGHT: usize = 8;

/// What was learnt so far.
#[derive(Debug)]
pub struct Gathering {
    started_us: u64,
    reports: BTreeMap<StripeId, Vec<(NodeId, ChunkReport)>>,
    loading: Option<Loading>,
}

#[derive(Debug)]
struct Loading {
    /// Packed stripes, oldest first: taken from the end.
    to_load: Vec<StripeId>,
    loads: BTreeMap<StripeId, Load>,
    closes_missing: usize,
    rebuild: Rebuild,
}

/// A stripe being read.
#[derive(Debug)]
struct Load {
    members: Arc<[NodeId]>,
    chunk_bytes: usize,
    missing: usize,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Sealed { chunks: Vec<Option<Vec<u8>>> },
    Inspecting { parts: BTreeMap<usize, (ChunkReport, Part)> },
    Reading { parts: BTreeMap<usize, (ChunkReport, Part)> },
    Done { chunks: Vec<Vec<u8>>, is_sealed: bool },
}

impl Gathering {
    pub fn new(started_us: u64) -> Self {
        Gathering { started_us, reports: BTreeMap::new(), loading: None }
    }

    pub fn take(&mut self, node: NodeId, report: ChunkReport) {
        let reports = self.reports.entry(report.description.stripe).or_default();
        // A node that was scanned twice (its session broke in between) is known by its latest report.
        reports.retain(|(other, _)| *other != node);
        reports.push((node, report));
    }
}

impl<C: Command> Engine<C> {
    /// Begins to load once all but at most `m` nodes accepted this owner.
    pub(super) fn advance_gathering(&mut self) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        if gathering.loading.is_some() {
            return;
        }
        let (ready, expected) = (self.nodes.ready_count(), usize::from(self.config.node_count));
        let has_waited = self.now.mono_us.saturating_sub(gathering.started_us) >= self.config.gather_us;
        let is_enough = ready >= expected || has_waited && ready + self.config.tolerance() >= expected;
        if !is_enough || ready == 0 {
            return;
        }
        let packed = |reports: &Vec<(NodeId, ChunkReport)>| {
            reports.iter().any(|(_, report)| report.description.kind == ChunkKind::Packed)
        };
        let to_load = gathering.reports.iter().filter(|(_, reports)| packed(reports)).map(|(&id, _)| id).collect();
        gathering.loading =
            Some(Loading { to_load, loads: BTreeMap::new(), closes_missing: 0, rebuild: Rebuild::default() });
        self.load_more();
    }

    fn loading(&mut self) -> Option<&mut Loading> {
        match &mut self.phase {
            Phase::Gathering(gathering) => gathering.loading.as_mut(),
            Phase::Serving => None,
        }
    }

    fn load(&mut self, stripe: StripeId) -> Option<&mut Load> {
        self.loading()?.loads.get_mut(&stripe)
    }

    fn load_more(&mut self) {
        loop {
            let Some(loading) = self.loading() else { return };
            if loading.loads.len() >= LOADS_IN_FLIGHT {
                return;
            }
            let Some(stripe) = loading.to_load.pop() else { return self.end_gathering_when_done() };
            self.start_load(stripe);
        }
    }

    fn start_load(&mut self, stripe: StripeId) {
        let Phase::Gathering(gathering) = &self.phase else { return };
        let reports: Vec<_> =
            gathering.reports[&stripe].iter().filter(|(_, report)| !report.damaged).cloned().collect();
        let Some((_, first)) = reports.first() else { return };
        let members: Arc<[NodeId]> = first.description.members.0.clone().into();
        let chunk_bytes = first.description.chunk_bytes as usize;
        let last = first.last.max(first.folded);
        let agree = |report: &ChunkReport| report.sealed && report.description.members == first.description.members;
        let is_sealed = reports.iter().all(|(_, report)| agree(report)) && reports.len() >= self.config.data_count();
        let content = if is_sealed {
            Content::Sealed { chunks: vec![None; self.config.data_count()] }
        } else {
            Content::Inspecting { parts: BTreeMap::new() }
        };
        tracing::debug!(?stripe, is_sealed, last = last.0, "inherited");
        let load = Load { members: members.clone(), chunk_bytes, missing: 0, content };
        let Some(loading) = self.loading() else { return };
        loading.loads.insert(stripe, load);
        if is_sealed { self.load_sealed(stripe, &reports) } else { self.inspect_members(stripe, &reports) }
    }

    fn load_sealed(&mut self, stripe: StripeId, reports: &[(NodeId, ChunkReport)]) {
        let data_count = self.config.data_count();
        let Some(load) = self.load(stripe) else { return };
        load.missing = data_count;
        let (members, chunk_bytes) = (load.members.clone(), load.chunk_bytes);
        for data_index in 0..data_count {
            // The length of a chunk whose node is gone is not known: all of it is decoded.
            let reported = reports.iter().find(|(_, report)| usize::from(report.description.index) == data_index);
            let length = reported.map_or(chunk_bytes as u32, |(_, report)| report.length);
            if length == 0 {
                self.gather_fetched(stripe, data_index as u8, Ok(&[]));
                continue;
            }
            let partition = self.partition_reported(stripe);
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
                purpose: FetchPurpose::Gather { stripe, data_index: data_index as u8 },
            });
        }
    }

    pub(super) fn gather_fetched(&mut self, stripe: StripeId, data_index: u8, result: Result<&[u8], FetchError>) {
        let Some(load) = self.load(stripe) else { return };
        let Content::Sealed { chunks } = &mut load.content else { return };
        if result.is_err() {
            tracing::error!(?stripe, data_index, "too many members are gone: what this chunk held is lost");
        }
        let bytes = result.unwrap_or(&[]);
        chunks[usize::from(data_index)] = Some(bytes[..super::reconstruct::used_bytes(bytes, stripe)].to_vec());
        load.missing -= 1;
        if load.missing == 0 {
            let chunks = std::mem::take(chunks).into_iter().flatten().collect();
            load.content = Content::Done { chunks, is_sealed: true };
            self.take_done();
        }
    }

    fn inspect_members(&mut self, stripe: StripeId, reports: &[(NodeId, ChunkReport)]) {
        if let Some(load) = self.load(stripe) {
            load.missing = reports.len();
        }
        for (node, _) in reports {
            self.ask(*node, stripe, &NodeRequest::Inspect { stripe }, What::Inspect { stripe });
        }
    }

    pub(super) fn inspected(&mut self, _node: NodeId, stripe: StripeId, inspected: &InspectReport<'_>) {
        let Some(load) = self.load(stripe) else { return };
        let Content::Inspecting { parts } = &mut load.content else { return };
        let held = inspected.raw.iter().map(|raw| HeldOp {
            op: raw.op,
            data_index: usize::from(raw.data_index),
            offset: raw.offset as usize,
            length: raw.length as usize,
            bytes: raw.bytes.to_vec(),
        });
        let part = Part { folded: inspected.report.folded, bytes: Vec::new(), held: held.collect() };
        parts.insert(usize::from(inspected.report.description.index), (inspected.report.clone(), part));
        self.one_part_less(stripe);
    }

    pub(super) fn inspect_refused(&mut self, _node: NodeId, stripe: StripeId) {
        self.one_part_less(stripe);
    }

    fn one_part_less(&mut self, stripe: StripeId) {
        let Some(load) = self.load(stripe) else { return };
        load.missing -= 1;
        if load.missing > 0 {
            return;
        }
        match &load.content {
            Content::Inspecting { .. } => self.read_parts(stripe),
            Content::Reading { .. } => self.synchronise(stripe),
            Content::Sealed { .. } | Content::Done { .. } => {}
        }
    }

    /// Reads what each inspected member's chunk holds.
    fn read_parts(&mut self, stripe: StripeId) {
        let data_count = self.config.data_count();
        let Some(load) = self.load(stripe) else { return };
        let Content::Inspecting { parts } = &mut load.content else { return };
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
        // One more than is asked, so that the answers to come do not end the step before all is asked.
        load.missing = asks.len() + 1;
        load.content = Content::Reading { parts };
        let members = load.members.clone();
        for (index, request) in asks {
            self.ask(members[index], stripe, &request, What::GatherRead { stripe, member: index as u8 });
        }
        self.one_part_less(stripe);
    }

    pub(super) fn part_read(&mut self, stripe: StripeId, member: u8, bytes: Option<&[u8]>) {
        let Some(load) = self.load(stripe) else { return };
        let Content::Reading { parts } = &mut load.content else { return };
        match (bytes, parts.get_mut(&usize::from(member))) {
            (Some(bytes), Some((_, part))) => part.bytes = bytes.to_vec(),
            (None, Some(_)) => _ = parts.remove(&usize::from(member)),
            (_, None) => {}
        }
        self.one_part_less(stripe);
    }

    /// All that is to be had of an open stripe is here: its content is settled, and it is closed everywhere.
    fn synchronise(&mut self, stripe: StripeId) {
        let (code, epoch) = (self.config.code.clone(), self.config.epoch);
        let Some(load) = self.load(stripe) else { return };
        let Content::Reading { parts } = &mut load.content else { return };
        let closed = parts.values().map(|(report, _)| (report.close_epoch, report.close_op)).max();
        let close = closed.filter(|(epoch, _)| epoch.0 > 0).map(|(_, op)| op);
        let reached = parts.values().map(|(report, _)| report.last.max(report.folded)).max().unwrap_or_default();
        let last = close.unwrap_or(reached);
        let indexes: Vec<usize> = parts.keys().copied().collect();
        let parts: BTreeMap<_, _> = std::mem::take(parts).into_iter().map(|(index, (_, part))| (index, part)).collect();
        let chunks = reconstruct(&code, stripe, load.chunk_bytes, &parts, close);
        load.content = Content::Done { chunks, is_sealed: false };
        let members = load.members.clone();
        if let Some(loading) = self.loading() {
            loading.closes_missing += indexes.len();
        }
        for index in indexes {
            self.ask(members[index], stripe, &NodeRequest::Close { stripe, epoch, last }, What::Close);
        }
        self.take_done();
    }

    /// A member recorded a close, or cannot: it is gone, and counts as failed when it returns.
    pub(super) fn close_settled(&mut self) {
        if let Some(loading) = self.loading() {
            loading.closes_missing = loading.closes_missing.saturating_sub(1);
            self.end_gathering_when_done();
        }
    }

    /// Takes loaded stripes into the picture, newest first.
    fn take_done(&mut self) {
        while let Some(loading) = self.loading() {
            let is_done = |load: &Load| matches!(load.content, Content::Done { .. });
            if !loading.loads.last_key_value().is_some_and(|(_, load)| is_done(load)) {
                break;
            }
            let (stripe, load) = loading.loads.pop_last().expect("it has a last");
            let Content::Done { chunks, is_sealed } = load.content else { break };
            let mut rebuild = std::mem::take(&mut loading.rebuild);
            let partition = self.partition_reported(stripe);
            rebuild.take(stripe, partition, load.members, load.chunk_bytes, chunks, is_sealed);
            if let Some(loading) = self.loading() {
                loading.rebuild = rebuild;
            }
        }
        self.load_more();
    }

    fn partition_reported(&self, stripe: StripeId) -> shorttail_units::PartitionId {
        let Phase::Gathering(gathering) = &self.phase else { return Default::default() };
        gathering.reports[&stripe].first().map(|(_, report)| report.description.partition).unwrap_or_default()
    }

    fn end_gathering_when_done(&mut self) {
        let Some(loading) = self.loading() else { return };
        if !loading.to_load.is_empty() || !loading.loads.is_empty() || loading.closes_missing > 0 {
            return;
        }
        let Phase::Gathering(gathering) = std::mem::replace(&mut self.phase, Phase::Serving) else { return };
        let Some(loading) = gathering.loading else { return };
        let away: BTreeSet<NodeId> = {
            let nodes = self.nodes.iter().map(|node| node.id);
            nodes.filter(|&node| !self.nodes.is_ready(node)).collect()
        };
        self.rebuild(loading.rebuild, &gathering.reports, &away);
    }
}
