//! What stripes lack: what a node that is back does not show any more, what a new owner finds to be lost, what is on
//! nodes that are away.
//!
//! Must not know: what is rebuilt first (see `queue`), or how (see `rebuilding`).

use std::collections::BTreeSet;

use shorttail_units::{CodeShape, NodeId, PartitionId, StripeId};
use shorttail_wire::node::{ChunkKind, ChunkReport};

use super::queue::{AwayCount, Reparable, StripeFacts};
use crate::engine::limits::AWAY_LOOKS_MAX;
use crate::engine::sessions::node_session::ChunkScan;
use crate::engine::sessions::nodes::SessionId;
use crate::engine::state::stripes::Stripe;
use crate::engine::takeover::census::{Census, Member, Seat};
use crate::engine::takeover::recovery::census_of;
use crate::engine::write::log::Purpose;
use crate::engine::write::striped_objects::StripedObject;
use crate::engine::{Engine, Phase};
impl Engine {
    /// Is what a packed stripe lacks to be rebuilt? So it is while jobs empty it: that may take as long as there is no
    /// memory. What was not sealed is emptied from the owner's memory, and what is void needs nothing.
    pub(in crate::engine) fn is_to_stay_whole(&self, stripe: &Stripe<Purpose>) -> bool {
        stripe.is_sealed() && !self.voids.is_emptied(stripe.id)
    }

    pub(in crate::engine) fn reparable(&self, id: StripeId) -> Reparable {
        if let Some(slot) = self.stripes.slot_of(id) {
            let stripe = self.stripes.at(slot);
            return match self.is_to_stay_whole(stripe) {
                true => Reparable::Whole(StripeFacts {
                    partition: stripe.partition,
                    kind: ChunkKind::Packed,
                    shape: self.config.shape,
                    chunk_bytes: self.config.chunk_bytes,
                    configuration: stripe.configuration,
                    members: stripe.members.clone(),
                }),
                false => Reparable::Over,
            };
        }
        let Some((first, object)) = self.striped_of(id) else { return Reparable::Over };
        if self.is_in_the_making(first) {
            return Reparable::NotYet;
        }
        Reparable::Whole(object.facts_of(id))
    }

    /// What is known of a stripe, whether it can be repaired now or not; `None`: it is void or was left unsealed, or
    /// does not exist.
    pub(super) fn facts_of(&self, id: StripeId) -> Option<StripeFacts> {
        match self.reparable(id) {
            Reparable::Whole(facts) => Some(facts),
            Reparable::NotYet => self.striped_of(id).map(|(_, object)| object.facts_of(id)),
            Reparable::Over => None,
        }
    }

    /// Chunks of sealed stripes and of striped objects that a node is to hold.
    pub(super) fn chunks_of(&self, node: NodeId) -> Vec<(StripeId, usize, CodeShape)> {
        let sealed = self.stripes.iter().filter(|(_, stripe)| self.is_to_stay_whole(stripe));
        let packed = sealed.filter_map(|(_, stripe)| Some((stripe.id, stripe.member_of(node)?, self.config.shape)));
        let striped = self.striped.values().flat_map(|object| {
            let stripes = object.stripes();
            stripes.filter_map(move |id| {
                let place = object.members_of(id).1.iter().position(|&member| member == node)?;
                Some((id, place, object.manifest.shape))
            })
        });
        packed.chain(striped).collect()
    }

    /// A core showed all that it holds. What it should hold beside that it has lost, though its memory is the same:
    /// a process that went on with it could not tell what a chunk was. What it cannot describe is damaged.
    pub(in crate::engine) fn note_unreported(&mut self, session: SessionId, scan: &ChunkScan) {
        let ChunkScan { reported, undescribed, .. } = scan;
        if let Some(census) = census_of(&mut self.phase, &mut self.completing) {
            census.take_all(&self.nodes, session, scan);
        }
        if let Phase::Gathering(_) = self.phase {
            // What the new owner inherits is compared once it is read.
            return;
        }
        if self.completing.is_none() {
            // As what it can describe (see `reconcile`).
            for &(id, partition) in undescribed {
                if !self.is_to_keep(session.node, id) {
                    self.free_on(session.node, id, partition);
                }
            }
        }
        for (id, chunk, shape) in self.chunks_of(session.node) {
            if undescribed.binary_search_by_key(&id, |&(stripe, _)| stripe).is_ok() {
                self.repair.mark_damaged(id, chunk, shape);
            } else if self.nodes.session_of(session.node, id) == session && reported.binary_search(&id).is_err() {
                self.repair.mark(id, chunk, shape);
                self.note_had_by_unknown(id, chunk);
            }
        }
    }

    /// A member that is there lacks a chunk: an owner before this one may have begun to rebuild it there.
    pub(super) fn note_had_by_unknown(&mut self, id: StripeId, chunk: usize) {
        if id.epoch() == self.config.epoch {
            return;
        }
        if let Reparable::Whole(facts) = self.reparable(id)
            && !facts.configuration.is_first()
        {
            self.repair.note_had_by(id, chunk, None);
        }
    }

    /// What a new owner finds to be lost of what it inherits. Cores that told count, although their node be not in use:
    /// it may be late, or wait for another core of its own, and those that told are not asked again.
    pub(in crate::engine) fn note_inherited_losses(&mut self, census: &Census) {
        let (mut lost, mut lacking) = (Vec::new(), Vec::new());
        let mut look = |id: StripeId, partition: PartitionId, members: &[NodeId], shape: CodeShape| {
            for (chunk, &node) in members.iter().enumerate() {
                let has_told = self.nodes.has_told(self.nodes.session_of(node, id));
                let is_lost = match has_told {
                    // Who was away when the others' word was taken may tell by now that it holds nothing.
                    true => {
                        let seat = Seat { node, stripe: id, chunk };
                        census.told(&self.nodes, seat, partition) != Member::Holds || census.left_open(node, id)
                    }
                    false => self.is_gone(node),
                };
                if is_lost {
                    lost.push((id, chunk, shape));
                    lacking.extend(has_told.then_some((id, chunk)));
                }
            }
        };
        for (_, stripe) in self.stripes.iter().filter(|(_, stripe)| self.is_to_stay_whole(stripe)) {
            look(stripe.id, stripe.partition, &stripe.members, self.config.shape);
        }
        for object in self.striped.values() {
            object.stripes().for_each(|id| look(id, object.partition, &object.members_of(id).1, object.manifest.shape));
        }
        self.repair.mark_all(&lost);
        lacking.into_iter().for_each(|(id, chunk)| self.note_had_by_unknown(id, chunk));
    }

    /// A node was found to hold a chunk of a stripe that exists.
    pub(in crate::engine) fn note_found(&mut self, node: NodeId, report: &ChunkReport) {
        let description = &report.description;
        let (id, chunk) = (description.stripe, usize::from(description.index));
        if report.damaged || !report.sealed {
            return;
        }
        let is_lost = self.repair.lacks(id).contains(chunk);
        let Reparable::Whole(facts) = self.reparable(id) else { return };
        let Some(&member) = facts.members.get(chunk) else { return };
        if member == node {
            match is_lost {
                true if self.repair.is_damaged(id, chunk) => self.verify_chunk(node, id),
                true => self.chunk_is_there(id, chunk),
                false => {}
            }
            return;
        }
        // It was to move, or to be rebuilt elsewhere. As long as nobody knows that it is there, what is here counts.
        let is_shown = self.nodes.has_told_once(self.nodes.session_of(member, id));
        let is_none = !facts.members.contains(&node);
        if (is_lost || !is_shown) && is_none && !self.is_to_free(node, id) && !self.is_moving_to(id, node) {
            self.readmit(node, id, chunk);
        }
    }

    /// A node that is no member any more has a chunk that nobody else is known to have: it is the member again.
    fn readmit(&mut self, node: NodeId, stripe: StripeId, chunk: usize) {
        self.cancel_move(stripe);
        self.drop_order(stripe);
        let Reparable::Whole(facts) = self.reparable(stripe) else { return };
        let mut members = facts.members.to_vec();
        let before = std::mem::replace(&mut members[chunk], node);
        let partition = facts.partition;
        self.set_members(stripe, &StripeFacts { members: members.into(), ..facts });
        self.tell_members(stripe);
        self.repair.clear(stripe, chunk);
        // It may have got an order.
        self.free_on(before, stripe, partition);
    }

    /// Does every stripe have all its chunks? Then as many nodes as the code tolerates may be lost from now on.
    pub fn is_whole(&self) -> bool {
        let is_here = |members: &[NodeId]| members.iter().all(|&node| self.nodes.is_reachable(node));
        let is_intact =
            |stripe: &Stripe<Purpose>| is_here(&stripe.members) && (stripe.is_unsealed() || stripe.open.is_none());
        let is_kept = |object: &StripedObject| object.stripes().all(|id| is_here(&object.members_of(id).1));
        self.is_serving()
            && self.completing.is_none()
            && self.repair.missing_count() == 0
            && self.stripes.iter().all(|(_, stripe)| is_intact(stripe))
            && self.striped.values().all(is_kept)
    }

    /// Counts chunks on nodes that are away, once in a while, some stripes at a time: clients wait for it.
    pub(super) fn count_missing(&mut self) {
        self.repair.take_rate(self.now.mono_us);
        self.repair.begin_count(self.now.mono_us);
        let Some(mut count) = self.repair.counting.take() else { return };
        // What was on nodes that are gone is lost.
        let is_away = |&node: &NodeId| !self.nodes.is_reachable(node) && !self.is_gone(node);
        let away: BTreeSet<NodeId> = self.nodes.iter().map(|node| node.id).filter(is_away).collect();
        if away.is_empty() {
            self.repair.away_count = 0;
            return;
        }
        let mut chunks = count.chunks;
        let is_over = self.walk_stripes(&mut count.walk, AWAY_LOOKS_MAX, |id, members, _| {
            let lost = self.repair.lacks(id);
            let is_away = |(chunk, node): &(usize, &NodeId)| !lost.contains(*chunk) && away.contains(node);
            chunks += members.iter().enumerate().filter(is_away).count() as u64;
        });
        match is_over {
            true => self.repair.away_count = chunks,
            false => self.repair.counting = Some(AwayCount { chunks, ..count }),
        }
    }
}
