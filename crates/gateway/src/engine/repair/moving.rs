//! Chunks that move: from a node that is to be emptied, or that holds more than others, to another one.
//!
//! ```text
//! owner                     other members                target B                 holder A
//!   |  the next configuration names B                      |                         |
//!   |--Reconfigure----------------->|                      |                         |
//!   |<-----------------Done---------|                      |                         |
//!   |--Rebuild(source: the chunk itself, on A)------------>|--Inspect, ReadRange---->|    reads go to A
//!   |<-----------------------------------------Rebuilt-----|                         |
//!   |  B is the member                                     |                         |    reads go to B
//!   |--Free------------------------------------------------------------------------->|
//! ```
//! Rule R11: B is a member before it may hold anything, as every other member was told; until it does, the owner counts
//! on A. A later owner does so too: a member that lacks its chunk, or has not shown it, is stood in for by whoever has
//! it (see `census`, `note_found`). If the move is not made after all, the others are told that A is the member; an
//! owner that does not hear A would miss a chunk that was never lost. If the stripe goes meanwhile, B is told to free
//! it behind the order. If A dies meanwhile, the chunk is lost, and its repair ends the move.
//!
//! Invariants: a stripe has an order for a repair or a move, not both; while a chunk moves its stripe gets no other
//! number; who holds a chunk, or is to, has nothing of its stripe left to free.
//!
//! Must not know: which chunks should move (see `levelling`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use shorttail_codes::ChunkSet;
use shorttail_placement::{Candidate, Wish, choose_replacement};
use shorttail_units::{Configuration, NodeId, PartitionId, StripeId};
use shorttail_wire::node::{NodeRequest, Refusal};
use smallvec::SmallVec;

use super::levelling::Off;
use super::losing::Walk;
use super::queue::{Reparable, StripeFacts};
use super::rate::Rate;
use crate::engine::limits::{
    LEFT_LOOK_PART, LEVEL_LOOK_US, LOOKS_PER_US, MOVE_LOOKS_MAX, REBUILD_ASK_US, REPAIR_BUSY_MAX, REPAIR_ORDERS_MAX,
    REPAIR_REST_US, REPAIR_SLOW_US, USE_AGAIN_US,
};
use crate::engine::sessions::nodes::{Node, NodePhase};
use crate::engine::{Engine, Phase, What};

/// A chunk that is to move.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub stripe: StripeId,
    pub from: NodeId,
    /// None: wherever placement would put it.
    pub to: Option<NodeId>,
}

/// A move under way.
#[derive(Debug)]
struct Move {
    partition: PartitionId,
    chunk: usize,
    from: NodeId,
    target: NodeId,
    /// What counts when it is over.
    configuration: Configuration,
    members: Arc<[NodeId]>,
    /// Members that have not confirmed the configuration.
    untold: usize,
    has_failed: bool,
    /// When the target was asked last.
    asked_us: Option<u64>,
}

/// Moves of one engine's stripes.
#[derive(Debug, Default)]
pub struct Moves {
    /// Nodes that are to hold nothing any more.
    pub(super) draining: BTreeSet<NodeId>,
    pub(super) plan: VecDeque<Planned>,
    /// Of these, those that were told to be empty, as nothing was counted there last.
    pub(super) told_empty: BTreeSet<NodeId>,
    /// Those that are told to be needed, as there are too few others, and since when.
    needed_since_us: BTreeMap<NodeId, u64>,
    /// Where the last look at what is on nodes that drain ended.
    pub(super) drain_walk: Walk,
    under_way: BTreeMap<StripeId, Move>,
    /// Nodes that said that they cannot take a chunk of a stripe, or cannot reach it, until all others did.
    refused: BTreeMap<StripeId, SmallVec<[NodeId; 2]>>,
    /// While nodes drain: which others are slow, and since when.
    slow_since_us: BTreeMap<NodeId, u64>,
    /// When it is looked again at what should move, and whether loads are being levelled.
    pub(super) due_us: u64,
    pub(super) is_levelling: bool,
    pub(super) off: Off,
    /// Chunks of nodes that drain or are away, as they were counted last, and when they are counted next.
    pub(super) left: BTreeMap<NodeId, u64>,
    left_due_us: u64,
    /// Chunks that found no node to go to until the last plan of a look at all stripes was over, and until now.
    pub(in crate::engine) stranded_count: u64,
    pub(super) stranding_count: u64,
    pub(in crate::engine) moved_count: u64,
    pub(in crate::engine) moved_bytes: u64,
    pub(in crate::engine) rate: Rate,
}

impl Moves {
    pub(super) fn is_idle(&self) -> bool {
        self.plan.is_empty() && self.under_way.is_empty()
    }

    /// Stripes of which a chunk moves, or was to.
    pub(in crate::engine) fn stripes(&self) -> impl Iterator<Item = StripeId> {
        self.under_way.keys().chain(self.refused.keys()).copied()
    }

    /// Orders under way to a node.
    pub(super) fn orders_of(&self, node: NodeId) -> usize {
        self.under_way.values().filter(|order| order.target == node).count()
    }

    pub(super) fn is_refused(&self, stripe: StripeId, node: NodeId) -> bool {
        self.refused.get(&stripe).is_some_and(|nodes| nodes.contains(&node))
    }

    fn refuse(&mut self, stripe: StripeId, node: NodeId) {
        let nodes = self.refused.entry(stripe).or_default();
        if !nodes.contains(&node) {
            nodes.push(node);
        }
    }

    /// A node has another memory: what it could not take it can.
    pub(in crate::engine) fn forgive(&mut self, node: NodeId) {
        self.refused.retain(|_, nodes| {
            nodes.retain(|other| *other != node);
            !nodes.is_empty()
        });
    }

    /// Stripes that are being moved to a node.
    pub(super) fn stripes_to(&self, node: NodeId) -> Vec<StripeId> {
        let to_node = self.under_way.iter().filter(|(_, order)| order.target == node);
        to_node.map(|(&stripe, _)| stripe).collect()
    }

    /// Moves whose targets were asked last before this time.
    pub(super) fn asked_before(&self, before_us: u64) -> Vec<(StripeId, NodeId)> {
        let late =
            self.under_way.iter().filter(|(_, order)| order.asked_us.is_some_and(|asked_us| asked_us < before_us));
        late.map(|(&stripe, order)| (stripe, order.target)).collect()
    }

    /// Whom chunks are on their way to.
    pub(super) fn targets(&self) -> impl Iterator<Item = NodeId> {
        self.under_way.values().map(|order| order.target)
    }

    /// A chunk is put on a node: it was counted before, and is counted again only after a while.
    pub(in crate::engine) fn note_put_on(&mut self, node: NodeId) {
        self.left.entry(node).and_modify(|left| *left += 1);
    }

    /// Did the last look at nodes that drain end before the last stripe?
    pub(super) fn is_amid_drain(&self) -> bool {
        self.drain_walk != Walk::default()
    }

    fn take_rate(&mut self, now_us: u64) {
        self.rate.take(now_us, self.moved_bytes, !self.is_idle() || self.is_amid_drain());
    }

    pub(in crate::engine) fn check_invariants(
        &self,
        has_order: impl Fn(StripeId) -> bool,
        number_of: impl Fn(StripeId) -> Option<Configuration>,
    ) {
        let is_newest =
            |(&stripe, order): (&StripeId, &Move)| number_of(stripe).is_none_or(|number| number == order.configuration);
        assert!(self.under_way.iter().all(is_newest), "a number was given to a stripe of which a chunk moves");
        assert!(!self.under_way.keys().any(|&stripe| has_order(stripe)), "a stripe is repaired and moved at once");
        assert!(self.under_way.values().all(|order| order.members[order.chunk] == order.target));
    }
}

impl Engine {
    /// Which nodes are to be emptied: they get nothing new, and what they hold goes elsewhere.
    pub fn handle_draining(&mut self, nodes: &BTreeSet<NodeId>) {
        if self.moves.draining != *nodes {
            self.moves.draining.clone_from(nodes);
            self.moves.told_empty.retain(|node| nodes.contains(node));
            self.moves.plan.clear();
            self.moves.drain_walk = Walk::default();
            self.moves.left.clear();
            (self.moves.due_us, self.moves.left_due_us) = (self.now.mono_us, self.now.mono_us);
        }
    }

    /// Chunks of this engine on a node that drains or is away, and those that it had and that are not rebuilt yet;
    /// `None`: it does neither, it is used although it drains, or it was not counted yet. An heir owns nothing.
    pub fn chunks_left(&self, node: NodeId) -> Option<u64> {
        if self.is_heir() {
            return Some(0);
        }
        let is_used = self.moves.draining.contains(&node) && self.nodes.is_reachable(node) && !self.is_leaving(node);
        // For a moment others may suffice, though it goes on to count as needed.
        let is_needed = self.moves.needed_since_us.contains_key(&node);
        self.moves.left.get(&node).copied().filter(|_| !is_used && !is_needed)
    }

    /// The node went or came: what was counted says nothing any more, unless nothing new can have come there.
    pub(in crate::engine) fn forget_left(&mut self, node: NodeId) {
        if !self.is_leaving(node) {
            self.moves.left.remove(&node);
            self.moves.needed_since_us.remove(&node);
        }
    }

    /// Nodes that new chunks may be put on. Those that drain take part only when there are too few others.
    pub(in crate::engine) fn taking_nodes(&self) -> impl Iterator<Item = &Node> {
        let is_spared = self.can_spare_draining();
        let takes = move |node: &&Node| {
            let id = node.id;
            self.nodes.is_ready(id) && !(is_spared && self.moves.draining.contains(&id)) && !self.may_be_taken_out(id)
        };
        self.nodes.iter().filter(takes)
    }

    /// Was it told that a node holds nothing, and may the coordinator not know yet that it is needed again?
    pub(in crate::engine) fn may_be_taken_out(&self, node: NodeId) -> bool {
        let is_told = |since_us: &u64| self.now.mono_us >= since_us + USE_AGAIN_US;
        self.moves.told_empty.contains(&node) && !self.moves.needed_since_us.get(&node).is_some_and(is_told)
    }

    /// Notes of which nodes that drain it is told that they are needed (see `chunks_left`).
    fn note_needed(&mut self) {
        let needed: Vec<NodeId> = match self.can_spare_draining() {
            true => Vec::new(),
            false => self.moves.draining.iter().copied().filter(|&node| self.nodes.is_reachable(node)).collect(),
        };
        self.moves.needed_since_us.retain(|node, _| needed.contains(node));
        for node in needed {
            self.moves.needed_since_us.entry(node).or_insert(self.now.mono_us);
        }
    }

    /// Nodes that are ready, as far as they can be used.
    pub(in crate::engine) fn usable_count(&self) -> usize {
        let withheld = self.moves.draining.iter().filter(|&&id| self.nodes.is_ready(id) && self.may_be_taken_out(id));
        self.nodes.ready_count() - withheld.count()
    }

    /// Nodes that are late and can be used if they answer.
    pub(in crate::engine) fn usable_suspect_count(&self) -> usize {
        let is_suspect = |node: &&Node| node.phase == NodePhase::Suspect && !self.may_be_taken_out(node.id);
        self.nodes.iter().filter(is_suspect).count()
    }

    /// Does some node drain, and are enough others ready?
    pub(super) fn can_spare_draining(&self) -> bool {
        let stays = |node: &&Node| self.nodes.is_ready(node.id) && !self.moves.draining.contains(&node.id);
        !self.moves.draining.is_empty() && self.nodes.iter().filter(stays).count() >= self.config.member_count()
    }

    /// Is the node to get nothing more?
    pub(in crate::engine) fn is_leaving(&self, node: NodeId) -> bool {
        self.moves.draining.contains(&node) && self.can_spare_draining()
    }

    /// Moves what should be moved, while nothing can be repaired.
    pub(in crate::engine) fn advance_moves(&mut self) {
        if !matches!(self.phase, Phase::Serving) {
            return;
        }
        self.moves.take_rate(self.now.mono_us);
        self.note_needed();
        self.leave_draining();
        self.note_slow();
        if self.now.mono_us >= self.moves.left_due_us {
            // Clients wait meanwhile. Of a node that is away nothing changes that anybody waits for.
            let walked_us = self.stripes.len() as u64 / LOOKS_PER_US;
            let rest_us = if self.moves.draining.is_empty() { walked_us * LEFT_LOOK_PART } else { 0 };
            self.moves.left_due_us = self.now.mono_us + LEVEL_LOOK_US.max(rest_us);
            self.count_left();
        }
        let is_due = self.now.mono_us >= self.moves.due_us || self.moves.is_amid_drain();
        if self.moves.is_idle() && is_due {
            self.plan_moves();
        }
        self.give_moves(MOVE_LOOKS_MAX);
    }

    /// Since when nodes are slow is asked only of what leaves a node that drains.
    fn note_slow(&mut self) {
        let is_slow = |&node: &NodeId| !self.moves.draining.is_empty() && self.is_evaded(node);
        let since_us = |node| self.moves.slow_since_us.get(&node).copied().unwrap_or(self.now.mono_us);
        let slow = self.nodes.iter().map(|node| node.id).filter(is_slow);
        self.moves.slow_since_us = slow.map(|node| (node, since_us(node))).collect();
    }

    fn give_moves(&mut self, looks_max: usize) {
        let mut busy_count = 0;
        for _ in 0..looks_max.min(self.moves.plan.len()) {
            let orders = self.moves.under_way.len() + self.repair.orders.count();
            if self.repair.is_pressing() || orders >= REPAIR_ORDERS_MAX || busy_count == REPAIR_BUSY_MAX {
                return;
            }
            let Some(planned) = self.moves.plan.pop_front() else { return };
            if self.begin_move(planned).is_none() {
                busy_count += 1;
                self.moves.plan.push_back(planned);
            } else if self.moves.plan.is_empty() {
                self.moves.stranded_count = self.moves.stranding_count;
            }
        }
    }

    /// Begins a move, if it is still wanted; `None`: the target has enough to do.
    fn begin_move(&mut self, planned: Planned) -> Option<()> {
        let Planned { stripe, from, to } = planned;
        let Reparable::Whole(facts) = self.reparable(stripe) else { return Some(()) };
        let Some(chunk) = facts.members.iter().position(|&member| member == from) else { return Some(()) };
        // What can be repaired is repaired first; where nothing can be, what is left may leave its node all the same.
        let lost = self.repair.lacks(stripe);
        let is_repaired = !lost.is_empty() && !self.repair.is_stuck(stripe) || lost.contains(chunk);
        if is_repaired || self.moves.under_way.contains_key(&stripe) || !self.nodes.is_ready(from) {
            return Some(());
        }
        let others = facts.members_without(lost | ChunkSet::of(chunk));
        let (ready, away): (Vec<NodeId>, Vec<NodeId>) = others.partition(|&node| self.nodes.is_ready(node));
        // As with a repair: a later owner that does not hear the target must hear of it.
        if ready.len() < facts.shape.tolerance() && away.iter().any(|&node| !self.is_gone(node)) {
            return Some(());
        }
        let targets = self.targets_of_move(stripe, &facts);
        let target = match to {
            // The stripe may have other members than when it was planned.
            Some(to) => Some(to).filter(|&to| {
                targets.iter().any(|one| one.node == to && !one.is_evaded)
                    && self.is_no_worse(&facts.members, from, to, facts.shape)
            }),
            // Of nodes that drain everything goes, even if it is not placed as well elsewhere.
            None => self.choose_target(stripe, &facts, from, &targets),
        };
        let Some(target) = target else {
            if targets.is_empty() {
                self.moves.stranding_count += 1;
                // Who had no room may have some when it is looked again.
                self.moves.refused.remove(&stripe);
            }
            return Some(());
        };
        if !self.takes_orders(target) {
            return None;
        }
        let mut members = facts.members.to_vec();
        members[chunk] = target;
        let configuration = facts.configuration.next(self.config.epoch);
        // The number is taken, whatever becomes of the move.
        self.set_members(stripe, &StripeFacts { configuration, ..facts.clone() });
        self.expect_use(&[target], stripe, self.chunk_room_bytes(facts.chunk_bytes));
        let facts = StripeFacts { configuration, members: members.into(), ..facts };
        let (partition, members, untold) = (facts.partition, facts.members.clone(), ready.len());
        let order =
            Move { partition, chunk, from, target, configuration, members, untold, has_failed: false, asked_us: None };
        self.moves.under_way.insert(stripe, order);
        if let Some(lost) = self.repair.get_mut(stripe) {
            lost.is_told = false;
        }
        let what = What::Announce { stripe, configuration };
        ready.iter().for_each(|&node| self.reconfigure_on(node, stripe, &facts, what));
        if ready.is_empty() {
            self.send_move(stripe);
        }
        Some(())
    }

    /// Who could hold a chunk of the stripe that leaves a node. Those that it would have to wait for are evaded: a node
    /// that frees what it had of the stripe, and one that is slow, which for `REPAIR_SLOW_US` may only be late.
    fn targets_of_move(&self, stripe: StripeId, facts: &StripeFacts) -> Vec<Candidate> {
        let needed = self.chunk_room_bytes(facts.chunk_bytes) + self.kept_bytes();
        let is_slow_for_long = |node: NodeId| {
            let since_us = self.moves.slow_since_us.get(&node);
            self.is_evaded(node) && since_us.is_some_and(|since_us| self.now.mono_us >= since_us + REPAIR_SLOW_US)
        };
        let is_able = |node: &&Node| {
            let id = node.id;
            self.nodes.is_ready(id)
                && !self.moves.draining.contains(&id)
                && !facts.members.contains(&id)
                && !self.moves.is_refused(stripe, id)
                && !is_slow_for_long(id)
                && node.free_bytes() >= needed
        };
        // What it freed before is to be gone first: it could not tell that from what it gets.
        let is_late = |node: NodeId| self.is_evaded(node) || self.is_to_free(node, stripe);
        let able = self.nodes.iter().filter(is_able);
        able.map(|node| Candidate { is_evaded: is_late(node.id), ..self.candidate(node) }).collect()
    }

    /// Who of those that are able takes a member's place in the stripe; `None`: nobody does, or it waits for who is to
    /// have it.
    pub(super) fn choose_target(
        &self,
        stripe: StripeId,
        facts: &StripeFacts,
        member: NodeId,
        able: &[Candidate],
    ) -> Option<NodeId> {
        let others = facts.members.iter().filter(|&&node| node != member);
        let others: Vec<_> = others.map(|&node| (self.domains.domain_of(node), self.domains.set_of(node))).collect();
        let wish = Wish { shape: facts.shape, turn: stripe.raw(), seed: stripe.raw() };
        choose_replacement(self.domains.placement(), able, &others, &wish)
    }

    /// A member took note of the configuration, or did not.
    pub(in crate::engine) fn announced(&mut self, stripe: StripeId, configuration: Configuration, is_done: bool) {
        let order = self.moves.under_way.get_mut(&stripe).filter(|order| order.configuration == configuration);
        let Some(order) = order else { return };
        order.untold = order.untold.saturating_sub(1);
        order.has_failed |= !is_done;
        if order.untold > 0 {
            return;
        }
        if order.has_failed {
            self.moves.under_way.remove(&stripe);
            return self.tell_members(stripe);
        }
        self.send_move(stripe);
    }

    pub(super) fn send_move(&mut self, stripe: StripeId) {
        let Some(order) = self.moves.under_way.get(&stripe) else { return };
        let Reparable::Whole(facts) = self.reparable(stripe) else { return self.cancel_move(stripe) };
        let facts = StripeFacts { configuration: order.configuration, members: order.members.clone(), ..facts };
        let description = self.describe(stripe, &facts, order.chunk);
        let sources = vec![self.source_of(stripe, order.chunk, order.from)];
        let target = order.target;
        self.ask(target, stripe, &NodeRequest::Rebuild { description, sources }, What::Move { stripe });
        if let Some(order) = self.moves.under_way.get_mut(&stripe) {
            order.asked_us = Some(self.now.mono_us);
        }
    }

    /// The target did not take the order (`None`: it did not answer).
    pub(in crate::engine) fn move_refused(&mut self, node: NodeId, stripe: StripeId, refusal: Option<Refusal>) {
        match refusal {
            Some(Refusal::Busy) => self.put_off_move(node, stripe),
            Some(refusal) => self.moved(node, stripe, Err((refusal, None))),
            None => self.cancel_move(stripe),
        }
    }

    /// The target has enough orders, of other engines too: it is ordered the same again some moments later.
    fn put_off_move(&mut self, node: NodeId, stripe: StripeId) {
        let order = self.moves.under_way.get_mut(&stripe).filter(|order| order.target == node);
        if let Some(order) = order {
            order.asked_us = Some((self.now.mono_us + REPAIR_REST_US).saturating_sub(REBUILD_ASK_US));
        }
    }

    /// Is there a move of the stripe to this node?
    pub(in crate::engine) fn is_moving_to(&self, stripe: StripeId, node: NodeId) -> bool {
        self.moves.under_way.get(&stripe).is_some_and(|order| order.target == node)
    }

    /// A move is over.
    pub(in crate::engine) fn moved(
        &mut self,
        node: NodeId,
        stripe: StripeId,
        outcome: Result<(), (Refusal, Option<u8>)>,
    ) {
        if !self.is_moving_to(stripe, node) {
            return;
        }
        let reparable = self.reparable(stripe);
        let (Ok(()), Reparable::Whole(facts)) = (outcome, reparable) else {
            return self.move_failed(node, stripe, outcome);
        };
        let Some(order) = self.moves.under_way.remove(&stripe) else { return };
        self.moves.due_us = self.now.mono_us + LEVEL_LOOK_US;
        self.moves.moved_count += 1;
        self.moves.moved_bytes += facts.chunk_bytes as u64;
        if let Some(left) = self.moves.left.get_mut(&order.from) {
            *left = left.saturating_sub(1);
            // It is told before the next count.
            if *left == 0 && self.moves.draining.contains(&order.from) {
                self.moves.told_empty.insert(order.from);
            }
        }
        let partition = facts.partition;
        // Its number was taken when it began.
        self.set_members(stripe, &StripeFacts { members: order.members, ..facts });
        // Its old place may have been lost meanwhile.
        self.repair.clear(stripe, order.chunk);
        self.moves.refused.remove(&stripe);
        self.free_on(order.from, stripe, partition);
        self.give_moves(REPAIR_BUSY_MAX);
    }

    fn move_failed(&mut self, node: NodeId, stripe: StripeId, outcome: Result<(), (Refusal, Option<u8>)>) {
        let Err((refusal, source)) = outcome else {
            // The stripe is on its way out.
            return self.cancel_move(stripe);
        };
        let Some(order) = self.moves.under_way.remove(&stripe) else { return };
        // The order may have been given again, which crosses this answer, and be carried out.
        self.free_on(order.target, stripe, order.partition);
        tracing::debug!(?stripe, node = node.0, %refusal, ?source, "not moved");
        match (refusal, source) {
            // These two do not reach each other; another one may reach the chunk.
            (Refusal::Unreachable, _) => self.moves.refuse(stripe, node),
            (_, Some(_)) => self.doubt_chunk(order.from, stripe, Some(refusal)),
            (Refusal::Exists | Refusal::OutOfMemory, None) => self.moves.refuse(stripe, node),
            _ => {}
        }
        self.tell_members(stripe);
    }

    /// The stripe is not moved after all.
    pub(in crate::engine) fn cancel_move(&mut self, stripe: StripeId) {
        if self.end_move(stripe) {
            self.tell_members(stripe);
        }
    }

    /// Whoever was to hold a chunk of the stripe frees it, behind the order; was there a move?
    fn end_move(&mut self, stripe: StripeId) -> bool {
        let Some(order) = self.moves.under_way.remove(&stripe) else { return false };
        self.free_on(order.target, stripe, order.partition);
        true
    }

    /// Tells the members of a stripe who they are, with a number above all that were given. One that has yet to tell
    /// what it holds learns it then (see `refresh_configuration`).
    pub(in crate::engine) fn tell_members(&mut self, stripe: StripeId) {
        // Whatever becomes of the object: what some were told must not stay under a number of other members.
        let Some(facts) = self.facts_of(stripe) else { return };
        let facts = StripeFacts { configuration: facts.configuration.next(self.config.epoch), ..facts };
        self.set_members(stripe, &facts);
        let is_told = |&&node: &&NodeId| self.nodes.is_ready(node) || self.nodes.has_told_already(node, stripe);
        for &node in facts.members.iter().filter(is_told).collect::<Vec<_>>() {
            self.reconfigure_on(node, stripe, &facts, What::Nothing);
        }
    }

    /// The stripe goes.
    pub(in crate::engine) fn forget_moves(&mut self, stripe: StripeId) {
        self.end_move(stripe);
        self.moves.refused.remove(&stripe);
    }

    /// What members are told of a stripe of which a chunk is to move, or to be rebuilt elsewhere.
    pub(super) fn announced_facts(&self, stripe: StripeId, facts: StripeFacts) -> StripeFacts {
        let moved = self.moves.under_way.get(&stripe).map(|order| (order.configuration, order.members.clone()));
        match moved.or_else(|| self.telling_of(stripe)) {
            Some((configuration, members)) => StripeFacts { configuration, members, ..facts },
            None => facts,
        }
    }
}

#[cfg(test)]
mod tests;
