//! What nodes told a new owner, and what became of each member of a stripe.
//!
//! ```text
//!                      the node is ready                     it is not
//! chunk reported       Holds (Lost, if damaged or another)   Lost, if given up for good; else Away
//! not described        Lost                                  the same
//! no chunk             Lost, if its memory joined later, or  the same
//!                      the stripe was repaired; else Never
//! ```
//! At most as many chunks as the code tolerates may be Lost or Away while what is read counts as the whole truth. A
//! node that restarted empty is not away: without what its memory joined at, it would pass for one that was never given
//! the chunk, and the store would forget what it held. So would one that holds the chunk and cannot describe it, if it
//! did not say so. Of a stripe that was repaired no member passes for one that was never given its chunk: it was
//! sealed, and the node that is to hold a rebuilt chunk is a member before it does. Nor does a memory that an owner
//! fenced first which knew nothing of later ones: such an owner does not fence it (`Lease::may_fence`).
//!
//! Must not know: sessions, what a stripe holds.

use std::collections::{BTreeMap, BTreeSet};

use shorttail_units::{Configuration, NodeId, PartitionId, StripeId};
use shorttail_wire::node::{ChunkDescription, ChunkKind, ChunkReport};

use crate::engine::sessions::node_session::ChunkScan;
use crate::engine::sessions::nodes::{Nodes, SessionId};

/// Which chunk of a stripe a node is to hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seat {
    pub node: NodeId,
    pub stripe: StripeId,
    pub chunk: usize,
}

/// What became of a member's chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Member {
    /// It is there.
    Holds,
    /// Its node has had this memory since before the stripe, and holds nothing: it was not given the chunk, or freed
    /// it.
    Never,
    /// Gone for good.
    Lost,
    /// Its node may come back with it.
    Away,
}

/// What all nodes told.
#[derive(Debug, Default)]
pub struct Census {
    reports: BTreeMap<StripeId, BTreeMap<NodeId, ChunkReport>>,
    /// Chunks that are there, and their nodes cannot tell more of them.
    undescribed: BTreeMap<(StripeId, NodeId), PartitionId>,
    /// Cores of which some of this is, and the last round in which they told all of it.
    told_by: BTreeMap<SessionId, Option<u32>>,
    round: u32,
    /// Stripes of which something changed since that was asked.
    touched: BTreeSet<StripeId>,
    /// By session and partition fenced: of older stripes this memory holds nothing.
    joined: BTreeMap<(SessionId, PartitionId), StripeId>,
}

impl Census {
    /// A chunk that is told again is known by its latest report. See [`Census::take_all`].
    pub fn take(&mut self, session: SessionId, report: ChunkReport) {
        let (node, stripe) = (session.node, report.description.stripe);
        self.told_by.entry(session).or_default();
        self.undescribed.remove(&(stripe, node));
        self.touched.insert(stripe);
        self.reports.entry(stripe).or_default().insert(node, report);
    }

    /// Stripes whose chunks a core does not hold any more.
    pub fn take_freed(&mut self, session: SessionId, freed: &[StripeId]) {
        for &stripe in freed {
            self.undescribed.remove(&(stripe, session.node));
            self.drop_report(session.node, stripe);
        }
    }

    /// Chunks that a core cannot describe any more.
    pub fn take_undescribed(&mut self, session: SessionId, undescribed: &[(StripeId, PartitionId)]) {
        self.told_by.entry(session).or_default();
        for &(stripe, partition) in undescribed {
            self.drop_report(session.node, stripe);
            self.undescribed.insert((stripe, session.node), partition);
        }
    }

    fn drop_report(&mut self, node: NodeId, stripe: StripeId) {
        let Some(reports) = self.reports.get_mut(&stripe) else { return };
        if reports.remove(&node).is_some() {
            self.touched.insert(stripe);
        }
        if reports.is_empty() {
            self.reports.remove(&stripe);
        }
    }

    /// Stripes of which something else is told than when this was asked last.
    pub fn take_touched(&mut self) -> BTreeSet<StripeId> {
        std::mem::take(&mut self.touched)
    }

    pub fn take_joined(&mut self, session: SessionId, partition: PartitionId, joined: StripeId) {
        self.joined.insert((session, partition), joined);
    }

    /// Every core is asked again: what it told before does not count until it tells what became of it.
    pub fn begin_round(&mut self) {
        self.round += 1;
    }

    /// A core begins to tell. Did it tell something before?
    pub fn begin(&mut self, session: SessionId) -> bool {
        let was_known = self.told_by.contains_key(&session);
        self.told_by.entry(session).or_default();
        was_known
    }

    /// A core told all that there is to tell in this round.
    pub fn end(&mut self, session: SessionId) {
        self.told_by.insert(session, Some(self.round));
    }

    fn is_heard(&self, session: SessionId) -> bool {
        self.told_by.get(&session) == Some(&Some(self.round))
    }

    /// A scan showed all chunks of a core: what it told of others earlier is gone.
    pub fn take_all(&mut self, nodes: &Nodes, session: SessionId, scan: &ChunkScan) {
        if scan.was_known {
            self.retain_of(session.node, |stripe| {
                nodes.session_of(session.node, stripe) != session || scan.reported.binary_search(&stripe).is_ok()
            });
        }
        self.take_undescribed(session, &scan.undescribed);
    }

    /// The node has another memory than the one that was scanned.
    pub fn forget(&mut self, node: NodeId) {
        self.joined.retain(|(session, _), _| session.node != node);
        self.told_by.retain(|session, _| session.node != node);
        self.retain_of(node, |_| false);
    }

    /// What cores told that did not tell in this round what became of it does not count. Returns these cores.
    pub fn forget_unheard(&mut self, nodes: &Nodes) -> Vec<SessionId> {
        let unheard: Vec<SessionId> = self.told_by.keys().copied().filter(|&id| !self.is_heard(id)).collect();
        for &core in &unheard {
            self.told_by.remove(&core);
            let is_node_known = nodes.get(core.node).is_some();
            self.retain_of(core.node, |stripe| is_node_known && nodes.session_of(core.node, stripe) != core);
        }
        unheard
    }

    /// Keeps of what a node told only what is of these stripes.
    fn retain_of(&mut self, node: NodeId, is_kept: impl Fn(StripeId) -> bool) {
        self.undescribed.retain(|&(stripe, other), _| other != node || is_kept(stripe));
        self.reports.retain(|&stripe, reports| {
            if !is_kept(stripe) && reports.remove(&node).is_some() {
                self.touched.insert(stripe);
            }
            !reports.is_empty()
        });
    }

    /// Packed stripes, oldest first.
    pub fn packed(&self) -> Vec<StripeId> {
        let is_packed = |reports: &BTreeMap<NodeId, ChunkReport>| {
            reports.values().any(|report| report.description.kind == ChunkKind::Packed)
        };
        self.reports.iter().filter(|(_, reports)| is_packed(reports)).map(|(&id, _)| id).collect()
    }

    /// What the chunk of the highest configuration says of its stripe.
    pub fn newest(&self, stripe: StripeId) -> Option<&ChunkDescription> {
        let descriptions = self.reports.get(&stripe)?.values().map(|report| &report.description);
        descriptions.max_by_key(|description| description.configuration)
    }

    /// How many of its nodes know the newest configuration of a stripe.
    pub fn knowing_count(&self, stripe: StripeId) -> usize {
        let Some(newest) = self.newest(stripe).map(|newest| newest.configuration) else { return 0 };
        let reports = self.reports.get(&stripe).into_iter().flat_map(BTreeMap::values);
        reports.filter(|report| report.description.configuration == newest).count()
    }

    /// The members of a stripe: those of its newest configuration. Where one has no chunk, because a move to it was not
    /// over, whoever has it counts: sealed chunks are the same wherever they are.
    pub fn members_of(&self, stripe: StripeId) -> Option<(Configuration, Vec<NodeId>)> {
        let (newest, reports) = (self.newest(stripe)?, self.reports.get(&stripe)?);
        let mut members = newest.members.0.clone();
        if newest.configuration.is_first() {
            return Some((newest.configuration, members));
        }
        for (chunk, member) in members.iter_mut().enumerate() {
            let has_chunk = |report: &ChunkReport| {
                usize::from(report.description.index) == chunk && report.sealed && !report.damaged
            };
            if !reports.get(member).is_some_and(has_chunk)
                && let Some((&other, _)) = reports.iter().find(|(_, report)| has_chunk(report))
            {
                *member = other;
            }
        }
        Some((newest.configuration, members))
    }

    /// Was a chunk of the stripe given to another node than it was made for? Then all members held theirs once.
    fn is_reconfigured(&self, stripe: StripeId) -> bool {
        self.newest(stripe).is_some_and(|newest| !newest.configuration.is_first())
    }

    pub fn reports(&self) -> impl Iterator<Item = (StripeId, NodeId, &ChunkReport)> {
        let stripes = self.reports.iter();
        stripes.flat_map(|(&id, reports)| reports.iter().map(move |(&node, report)| (id, node, report)))
    }

    /// Chunks that their nodes cannot describe, each with the description of another chunk of the stripe.
    pub fn undescribed(&self) -> impl Iterator<Item = (StripeId, NodeId, &ChunkDescription)> {
        self.undescribed.keys().filter_map(|&(stripe, node)| Some((stripe, node, self.newest(stripe)?)))
    }

    /// Chunks that their nodes cannot describe, of stripes that nobody tells of.
    pub fn untold(&self) -> impl Iterator<Item = (StripeId, NodeId, PartitionId)> {
        let untold = self.undescribed.iter().filter(|((stripe, _), _)| !self.reports.contains_key(stripe));
        untold.map(|(&(stripe, node), &partition)| (stripe, node, partition))
    }

    /// Nodes that hold a chunk of a stripe.
    pub fn holders(&self, stripe: StripeId) -> impl Iterator<Item = NodeId> {
        let described = self.reports.get(&stripe).into_iter().flat_map(|reports| reports.keys().copied());
        let nodes = (stripe, NodeId(0))..=(stripe, NodeId(u16::MAX));
        described.chain(self.undescribed.range(nodes).map(|(&(_, node), _)| node))
    }

    /// Reports of a stripe's chunks that are not damaged.
    pub fn intact(&self, stripe: StripeId) -> impl Iterator<Item = (NodeId, &ChunkReport)> {
        let reports = self.reports.get(&stripe).into_iter().flatten();
        reports.map(|(&node, report)| (node, report)).filter(|(_, report)| !report.damaged)
    }

    /// Did the node show a chunk of the stripe that nobody sealed?
    pub fn left_open(&self, node: NodeId, stripe: StripeId) -> bool {
        self.intact(stripe).any(|(holder, report)| holder == node && !report.sealed)
    }

    /// What became of a stripe's chunk on a node. `is_gone`: the node's memory was given up for good.
    pub fn member(&self, nodes: &Nodes, seat: Seat, partition: PartitionId, is_gone: bool) -> Member {
        if !nodes.is_ready(seat.node) {
            return if is_gone { Member::Lost } else { Member::Away };
        }
        self.told(nodes, seat, partition)
    }

    /// What the core told that is to hold a stripe's chunk on a node: one that was scanned, whether the node is in use
    /// or not. Another chunk of the stripe, which moved away from there and was not freed yet, is not this one.
    pub fn told(&self, nodes: &Nodes, seat: Seat, partition: PartitionId) -> Member {
        let Seat { node, stripe, chunk } = seat;
        match self.reports.get(&stripe).and_then(|reports| reports.get(&node)) {
            Some(report) if report.damaged || usize::from(report.description.index) != chunk => Member::Lost,
            Some(_) => Member::Holds,
            None if self.undescribed.contains_key(&(stripe, node)) => Member::Lost,
            None => {
                let joined = self.joined(nodes.session_of(node, stripe), partition);
                let is_older = joined.is_some_and(|joined| joined <= stripe);
                if is_older && !self.is_reconfigured(stripe) { Member::Never } else { Member::Lost }
            }
        }
    }

    /// Is a node's memory younger than the stripe?
    pub fn is_younger(&self, nodes: &Nodes, node: NodeId, stripe: StripeId, partition: PartitionId) -> bool {
        self.joined(nodes.session_of(node, stripe), partition).is_none_or(|joined| joined > stripe)
    }

    fn joined(&self, session: SessionId, partition: PartitionId) -> Option<StripeId> {
        self.joined.get(&(session, partition)).copied()
    }

    /// Nodes whose memory is younger than the cluster, for an earlier one may have been lost, and those that cannot
    /// describe the chunk of a stripe that nobody tells of. What was not told in this round does not count.
    pub fn rejoined_count(&self, nodes: &Nodes, is_first: impl Fn(StripeId) -> bool) -> usize {
        let later = self.joined.iter().filter(|(_, joined)| !is_first(**joined));
        let tells = |node, stripe| self.is_heard(nodes.session_of(node, stripe));
        let is_told = |stripe| self.reports.get(&stripe).is_some_and(|of| of.keys().any(|&node| tells(node, stripe)));
        let untold = self.undescribed.keys().filter(|&&(stripe, node)| tells(node, stripe) && !is_told(stripe));
        let rejoined = later.map(|((session, _), _)| session.node).chain(untold.map(|&(_, node)| node));
        rejoined.collect::<BTreeSet<NodeId>>().len()
    }
}
