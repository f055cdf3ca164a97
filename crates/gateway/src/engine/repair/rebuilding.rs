//! Orders to rebuild lost chunks: to whom, from what, and what comes of them.
//!
//! ```text
//! owner                     m other members              target                    sources
//!   |  the next configuration names the target            |                          |
//!   |--Reconfigure----------------->|                     |                          |
//!   |<-----------------Done---------|                     |                          |
//!   |  so do the stripe's members; what is left at the old place is freed            |
//!   |--Rebuild(sources)---------------------------------->|--Inspect, ReadRange----->|
//!   |<-----------------Done (taken)-----------------------|<-------------------------|
//!   |<-----------------Rebuilt----------------------------|  checked, decoded, installed
//! ```
//! The target is a member before it may hold anything (rule R11): whatever frees the stripe frees it there too, and
//! whoever takes over knows of it: it hears all but m nodes, and one more than that know. Until they were told, the old
//! place keeps what it has: a later owner that heard of no exchange would take it for a node that never held anything.
//! The target is exchanged for another only after a definite no, or when its memory is gone for good. A node that came
//! back empty gets its own chunks again.
//!
//! Must not know: how a node decodes.

use std::sync::Arc;

use shorttail_codes::{ChunkSet, Cost};
use shorttail_placement::Candidate;
use shorttail_units::{Configuration, NodeId, StripeId};
use shorttail_wire::node::{ChunkDescription, Members, NodeRequest, Refusal, Source};

use super::queue::{Reparable, StripeFacts};
use crate::engine::limits::{
    REBUILD_ASK_US, REPAIR_BEHIND_MAX, REPAIR_BUSY_MAX, REPAIR_FAILURES_TOLD, REPAIR_GIVEN_MAX, REPAIR_LOOKS_MAX,
    REPAIR_ORDERS_MAX, REPAIR_ORDERS_OF_NODE_MAX, REPAIR_REST_US, REPAIR_SENT_MAX, REPAIR_SLOW_US, REPAIR_STUCK_LOOKS,
    TICK_US,
};
use crate::engine::sessions::nodes::Node;
use crate::engine::{Engine, Phase, What};

/// Tells the orders for a stripe apart: an answer may arrive when the order that it was for is over.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OrderNumber(u64);

impl OrderNumber {
    pub fn next(self) -> Self {
        OrderNumber(self.0 + 1)
    }
}

/// An order under way.
#[derive(Debug)]
pub struct Order {
    number: OrderNumber,
    chunk: usize,
    target: NodeId,
    sources: Vec<usize>,
    /// The members that the others are being told of, if they are to be others than those that are.
    telling: Option<(Configuration, Arc<[NodeId]>)>,
    /// Members that have not confirmed the configuration.
    untold: usize,
    has_failed: bool,
    /// When the target was asked last.
    asked_us: Option<u64>,
}

impl Order {
    pub fn number(&self) -> OrderNumber {
        self.number
    }

    #[cfg(test)]
    pub fn sources(&self) -> &[usize] {
        &self.sources
    }

    pub fn target(&self) -> NodeId {
        self.target
    }

    /// Are members told of a target that is to be one of them?
    pub fn is_telling(&self) -> bool {
        self.telling.is_some()
    }

    pub fn asked_us(&self) -> Option<u64> {
        self.asked_us
    }
}

/// Who is to hold a rebuilt chunk.
enum Target {
    Node(NodeId),
    /// Those that could have enough to do.
    Busy,
    /// Those that placement would have are slow.
    Slow,
    /// Its node may come back.
    Away,
    /// No node has room that does not hold a chunk of the stripe already.
    Nowhere,
}

/// What can be done about a stripe.
enum Look {
    Order {
        chunk: usize,
        target: NodeId,
        sources: Vec<usize>,
    },
    /// It waits for nodes that have enough to do.
    Busy,
    /// Nothing, until something changes. `is_stranded`: no node with room is without a chunk of it.
    Stuck {
        is_stranded: bool,
    },
}

impl Engine {
    /// Gives orders as long as there are nodes that take them: a few at a time, so that clients wait for none of it.
    pub(in crate::engine) fn give_orders(&mut self) {
        self.lose_some();
        for _ in 0..REPAIR_SENT_MAX {
            let Some(stripe) = self.repair.next_told() else { break };
            self.send_order(stripe);
        }
        if self.now.mono_us < self.repair.due_us {
            return;
        }
        let before = self.repair.orders.count();
        if !self.is_ending() {
            self.advance_repair();
        }
        self.repair.goes_on = self.repair.has_waiting() && self.repair.orders.count() > before;
        self.repair.due_us = self.now.mono_us + if self.repair.goes_on { 0 } else { TICK_US };
    }

    /// Gives orders for what is most urgent, as far as they are bounded.
    fn advance_repair(&mut self) {
        if matches!(self.phase, Phase::Gathering(_)) {
            return;
        }
        self.count_missing();
        self.order_again();
        self.look_at_stuck();
        let before = self.repair.orders.count();
        let urgent = self.repair.due(self.now.mono_us, REPAIR_LOOKS_MAX);
        if self.repair_some(urgent, before, REPAIR_BUSY_MAX) {
            let others = self.repair.behind(REPAIR_BEHIND_MAX);
            self.repair_some(others, before, REPAIR_BEHIND_MAX);
        }
    }

    /// Gives orders for these stripes, until there are enough beside the ones of before or so many wait for busy nodes;
    /// true: these stopped it.
    fn repair_some(&mut self, stripes: Vec<StripeId>, before: usize, busy_max: usize) -> bool {
        let mut busy_count = 0;
        for stripe in stripes {
            let count = self.repair.orders.count();
            if count >= REPAIR_ORDERS_MAX || count >= before + REPAIR_GIVEN_MAX {
                return false;
            }
            if busy_count == busy_max {
                return true;
            }
            // What is lost comes first.
            self.cancel_move(stripe);
            match self.reparable(stripe) {
                Reparable::Whole(facts) => busy_count += usize::from(self.repair_stripe(stripe, facts)),
                Reparable::NotYet => self.rest(stripe),
                Reparable::Over => self.repair.give_up(stripe),
            }
        }
        busy_count == busy_max
    }

    /// Looks whether an order can be given for stripes for which none could be: some at a time, and few while there are
    /// others.
    fn look_at_stuck(&mut self) {
        let count = if self.repair.has_waiting() { REPAIR_STUCK_LOOKS } else { REPAIR_LOOKS_MAX };
        for stripe in self.repair.due_stuck(self.now.mono_us, count) {
            let facts = match self.reparable(stripe) {
                Reparable::Whole(facts) => facts,
                Reparable::NotYet => {
                    self.rest(stripe);
                    continue;
                }
                Reparable::Over => {
                    self.repair.give_up(stripe);
                    continue;
                }
            };
            match self.look_at(stripe, &facts) {
                Look::Order { .. } | Look::Busy => self.repair.unstick(stripe),
                Look::Stuck { is_stranded } => self.stick(stripe, &facts, is_stranded),
            }
        }
    }

    fn rest(&mut self, stripe: StripeId) {
        self.repair.rest(stripe, self.now.mono_us + REPAIR_REST_US);
    }

    /// Gives an order for one chunk of the stripe, or lets it rest; true: it waits for nodes that have enough to do.
    fn repair_stripe(&mut self, stripe: StripeId, facts: StripeFacts) -> bool {
        match self.look_at(stripe, &facts) {
            Look::Order { chunk, target, sources } => {
                let number = self.repair.take_order_number();
                let (telling, has_failed) = (None, false);
                let order = Order { number, chunk, target, sources, telling, untold: 0, has_failed, asked_us: None };
                self.begin_order(stripe, facts, order);
                false
            }
            Look::Busy => true,
            Look::Stuck { is_stranded } => {
                self.stick(stripe, &facts, is_stranded);
                false
            }
        }
    }

    /// For which chunk of the stripe an order can be given, if for one.
    fn look_at(&mut self, stripe: StripeId, facts: &StripeFacts) -> Look {
        let (mut is_stranded, mut is_busy, mut is_slow) = (false, false, false);
        let (lost, avoided) = self.repair.get(stripe).map(|lost| (lost.chunks, lost.avoided)).unwrap_or_default();
        for chunk in lost.iter() {
            let Some(sources) = self.sources_of(facts, chunk, lost | avoided) else { continue };
            match self.target_of(stripe, facts, chunk) {
                Target::Node(target) if self.can_tell(stripe, facts, chunk, target) => {
                    return Look::Order { chunk, target, sources };
                }
                Target::Busy => is_busy = true,
                Target::Nowhere => is_stranded = true,
                Target::Slow => is_slow = true,
                Target::Node(_) | Target::Away => {}
            }
        }
        if let Some(lost) = self.repair.get_mut(stripe) {
            lost.slow_since_us = lost.slow_since_us.or(Some(self.now.mono_us)).filter(|_| is_slow);
        }
        if is_busy { Look::Busy } else { Look::Stuck { is_stranded } }
    }

    /// Are enough members there to be told of the target? A later owner hears all but as many nodes as may be lost. So
    /// many members are told: should it not hear the target, it hears one of them.
    fn can_tell(&self, stripe: StripeId, facts: &StripeFacts, chunk: usize, target: NodeId) -> bool {
        let is_known = facts.configuration.is_first() || self.repair.get(stripe).is_some_and(|lost| lost.is_told);
        if target == facts.members[chunk] && is_known {
            return true;
        }
        let others = facts.members_without(self.repair.lacks(stripe));
        let (ready, away): (Vec<_>, Vec<_>) = others.partition(|&node| self.nodes.is_ready(node));
        ready.len() >= facts.shape.tolerance() || away.into_iter().all(|node| self.is_gone(node))
    }

    /// Nothing can be done about the stripe now.
    fn stick(&mut self, stripe: StripeId, facts: &StripeFacts, is_stranded: bool) {
        if let Some(lost) = self.repair.get_mut(stripe) {
            lost.avoided = ChunkSet::EMPTY;
        }
        self.repair.rest_stuck(stripe, self.now.mono_us + REPAIR_REST_US);
        self.lose_gone_members(stripe, facts);
        if is_stranded {
            if let Some(lost) = self.repair.get_mut(stripe) {
                lost.refused.clear();
            }
            self.repair.stranded.insert(stripe);
        }
    }

    /// What is on nodes that are gone for good is lost, whether anybody noticed or not.
    fn lose_gone_members(&mut self, stripe: StripeId, facts: &StripeFacts) {
        for (chunk, &node) in facts.members.iter().enumerate() {
            if self.is_gone(node) {
                self.repair.mark(stripe, chunk, facts.shape);
            }
        }
    }

    /// The cheapest chunks to rebuild this one from. A parity chunk is only made of data chunks, which prove
    /// themselves.
    fn sources_of(&mut self, facts: &StripeFacts, chunk: usize, without: ChunkSet) -> Option<Vec<usize>> {
        let code = self.codes.get(facts.shape);
        let is_parity = facts.shape.is_parity(chunk);
        let cost = |other: usize| {
            let node = facts.members[other];
            let is_had = !without.contains(other) && self.nodes.is_ready(node);
            if !is_had || is_parity && facts.shape.is_parity(other) {
                Cost::Infinite
            } else if self.monitor.is_fail_slow(node) || self.is_late(node) {
                Cost::High
            } else {
                Cost::Low
            }
        };
        code.cheapest_plan(chunk, &cost).ok().map(|plan| plan.sources.clone())
    }

    /// Who is to hold the chunk: its own node, if that is there with another memory; another one, if it is gone for
    /// good.
    fn target_of(&self, stripe: StripeId, facts: &StripeFacts, chunk: usize) -> Target {
        let own = facts.members[chunk];
        let lost = self.repair.get(stripe);
        let refused = lost.map(|lost| &lost.refused[..]).unwrap_or_default();
        // A damaged chunk is mended where it is.
        let is_damaged = lost.is_some_and(|lost| lost.damaged.contains(chunk));
        let is_able = self.nodes.is_ready(own) && (!self.is_leaving(own) || is_damaged) && !refused.contains(&own);
        let of_own = if self.takes_orders(own) { Target::Node(own) } else { Target::Busy };
        // Who lost it more than once of late would lose it again; so would who is away.
        let is_unsteady = self.is_unsteady(own) && !is_damaged;
        let is_away = !self.nodes.is_ready(own) && !self.has_lost_memory(own);
        if is_able && !is_unsteady {
            return of_own;
        }
        if is_away && !is_unsteady {
            return Target::Away;
        }
        let needed = self.chunk_room_bytes(facts.chunk_bytes) + self.kept_bytes();
        // Who has another chunk of the stripe, of an owner before this one, is to free it first.
        let census = self.completing.as_ref().map(|completing| &completing.census);
        let holders: Vec<NodeId> = census.into_iter().flat_map(|census| census.holders(stripe)).collect();
        let takes = |node: &NodeId| ![&facts.members[..], refused, &holders].iter().any(|others| others.contains(node));
        let is_free = |node: &&Node| takes(&node.id);
        let has_room = |node: &&Node| node.free_bytes() >= needed;
        let able = self.taking_nodes().filter(is_free).filter(has_room);
        let is_busy = |node: NodeId| self.is_evaded(node) || !self.takes_orders(node) || self.is_to_free(node, stripe);
        let mut candidates: Vec<_> =
            able.map(|node| Candidate { is_evaded: is_busy(node.id), ..self.candidate(node) }).collect();
        if candidates.is_empty() {
            return if is_able {
                of_own
            } else if is_away {
                Target::Away
            } else {
                Target::Nowhere
            };
        }
        let choose = |candidates: &[Candidate]| self.choose_target(stripe, facts, own, candidates);
        if let Some(node) = choose(&candidates) {
            return Target::Node(node);
        }
        let unless_slow = |one: &Candidate| Candidate { is_evaded: self.is_evaded(one.node), ..*one };
        if choose(&candidates.iter().map(unless_slow).collect::<Vec<_>>()).is_some() {
            return Target::Busy;
        }
        // Who is slow may be so for long. Then others take the chunk, also where they are not to: a stripe that lacks
        // it has as little to spare.
        candidates.retain(|one| !self.is_evaded(one.node));
        let since_us = lost.and_then(|lost| lost.slow_since_us);
        let has_waited = since_us.is_some_and(|since_us| self.now.mono_us >= since_us + REPAIR_SLOW_US);
        match choose(&candidates) {
            _ if candidates.is_empty() || !has_waited => Target::Slow,
            Some(node) => Target::Node(node),
            None => Target::Busy,
        }
    }

    pub(super) fn takes_orders(&self, node: NodeId) -> bool {
        self.repair.orders.count_of(node) + self.moves.orders_of(node) < REPAIR_ORDERS_OF_NODE_MAX
    }

    fn begin_order(&mut self, stripe: StripeId, mut facts: StripeFacts, mut order: Order) {
        let own = facts.members[order.chunk];
        if order.target != own {
            facts.configuration = facts.configuration.next(self.config.epoch);
            // The number is taken, whatever becomes of the order.
            self.set_members(stripe, &facts);
            let mut members = facts.members.to_vec();
            members[order.chunk] = order.target;
            facts.members = members.into();
            order.telling = Some((facts.configuration, facts.members.clone()));
            if let Some(lost) = self.repair.get_mut(stripe) {
                lost.is_told = false;
            }
        }
        let is_told = facts.configuration.is_first() || self.repair.get(stripe).is_some_and(|lost| lost.is_told);
        let others = facts.members_without(self.repair.lacks(stripe));
        let ready: Vec<_> = others.filter(|&node| self.nodes.is_ready(node)).collect();
        // As many as `can_tell` asks for, others for each stripe.
        let tolerance = facts.shape.tolerance();
        let first = (stripe.raw() % ready.len().max(1) as u64) as usize;
        let told: Vec<NodeId> = ready.iter().cycle().skip(first).take(tolerance.min(ready.len())).copied().collect();
        order.untold = if is_told { 0 } else { told.len() };
        self.expect_use(&[order.target], stripe, self.chunk_room_bytes(facts.chunk_bytes));
        let number = order.number;
        self.repair.begin(stripe, order);
        if is_told || told.is_empty() {
            return self.send_order(stripe);
        }
        for node in told {
            self.reconfigure_on(node, stripe, &facts, What::Reconfigure { stripe, order: number });
        }
    }

    pub(in crate::engine) fn set_members(&mut self, stripe: StripeId, facts: &StripeFacts) {
        if let Some(slot) = self.stripes.slot_of(stripe) {
            let held = self.stripes.at_mut(slot);
            (held.configuration, held.members) = (facts.configuration, facts.members.clone());
        } else if let Some(object) = self.striped_of_mut(stripe) {
            object.move_to(stripe, facts.configuration, facts.members.clone());
        }
        self.redirect_reads(stripe, &facts.members);
    }

    pub(super) fn reconfigure_on(&mut self, node: NodeId, stripe: StripeId, facts: &StripeFacts, what: What) {
        let request = NodeRequest::Reconfigure {
            stripe,
            epoch: self.config.epoch,
            configuration: facts.configuration,
            members: Members(facts.members.to_vec()),
        };
        self.ask(node, stripe, &request, what);
    }

    /// A member that was away has an older picture of a stripe: it learns the current one.
    pub(in crate::engine) fn refresh_configuration(&mut self, node: NodeId, told: &ChunkDescription) {
        if let Reparable::Whole(facts) = self.reparable(told.stripe)
            && told.configuration < facts.configuration
        {
            let facts = self.announced_facts(told.stripe, facts);
            self.reconfigure_on(node, told.stripe, &facts, What::Nothing);
        }
    }

    /// A member took note of the configuration, or did not.
    pub(in crate::engine) fn reconfigured(&mut self, stripe: StripeId, number: OrderNumber, is_done: bool) {
        let order = self.repair.orders.get_mut(stripe).filter(|order| order.number == number);
        let Some(order) = order else { return };
        order.untold -= 1;
        order.has_failed |= !is_done;
        if order.untold > 0 {
            return;
        }
        if order.has_failed {
            let is_own = order.telling.is_none();
            self.note_failure(stripe, "a member did not take note of the target");
            self.drop_order(stripe);
            if is_own {
                // Whatever they know under this number, the next one is above it.
                self.tell_members(stripe);
            }
            return;
        }
        if let Some(lost) = self.repair.get_mut(stripe) {
            lost.is_told = true;
        }
        self.repair.note_told(stripe, number);
    }

    /// The members know who takes the place of one of them: from now on it is so.
    fn end_telling(&mut self, stripe: StripeId) {
        let Reparable::Whole(facts) = self.reparable(stripe) else { return };
        let Some(order) = self.repair.orders.get_mut(stripe) else { return };
        let (chunk, Some((configuration, members))) = (order.chunk, order.telling.take()) else { return };
        let (own, partition) = (facts.members[chunk], facts.partition);
        self.set_members(stripe, &StripeFacts { configuration, members, ..facts });
        self.repair.note_had_by(stripe, chunk, Some(own));
        let is_used = self.nodes.get(own).is_some_and(|node| !node.phase.is_greeting());
        if is_used || self.is_connected(self.nodes.session_of(own, stripe)) {
            // What it may hold of the stripe cannot be used; a core whose session stands may still make it. Any other
            // tells of it when it is greeted.
            self.free_on(own, stripe, partition);
        }
    }

    fn send_order(&mut self, stripe: StripeId) {
        self.end_telling(stripe);
        let Reparable::Whole(facts) = self.reparable(stripe) else { return self.drop_order(stripe) };
        let Some(order) = self.repair.orders.get(stripe) else { return };
        let description = self.describe(stripe, &facts, order.chunk);
        let source = |&chunk: &usize| self.source_of(stripe, chunk, facts.members[chunk]);
        let sources = order.sources.iter().map(source).collect();
        let target = order.target;
        self.ask(target, stripe, &NodeRequest::Rebuild { description, sources }, What::Rebuild { stripe });
        if let Some(order) = self.repair.orders.get_mut(stripe) {
            order.asked_us = Some(self.now.mono_us);
        }
    }

    /// Where a node that holds a chunk of the stripe gives it.
    pub(super) fn source_of(&self, stripe: StripeId, chunk: usize, node: NodeId) -> Source {
        let core = self.nodes.session_of(node, stripe).core;
        Source { index: chunk as u8, core, node, position: self.position_of(stripe, chunk) }
    }

    /// Whoever was ordered a chunk long ago is ordered it again: its answer may have been lost. An order that is there
    /// already is carried out once.
    fn order_again(&mut self) {
        let before_us = self.now.mono_us.saturating_sub(REBUILD_ASK_US);
        for (stripe, target) in self.repair.orders.asked_before(before_us) {
            if self.nodes.is_ready(target) {
                self.send_order(stripe);
            }
        }
        for (stripe, target) in self.moves.asked_before(before_us) {
            if self.nodes.is_ready(target) {
                self.send_move(stripe);
            }
        }
    }

    /// A parity among the sources of an order.
    fn parity_among(&self, stripe: StripeId, sources: &[usize]) -> Option<usize> {
        let Reparable::Whole(facts) = self.reparable(stripe) else { return None };
        sources.iter().copied().find(|&source| facts.shape.is_parity(source))
    }

    /// An order failed. It is given again; that it failed so often is told once.
    fn note_failure(&mut self, stripe: StripeId, why: &str) {
        let Some(lost) = self.repair.get_mut(stripe) else { return };
        lost.failures = lost.failures.saturating_add(1);
        if lost.failures == REPAIR_FAILURES_TOLD {
            let (chunks, failures) = (lost.chunks, lost.failures);
            let facts = self.facts_of(stripe);
            let kind = facts.as_ref().map(|facts| facts.kind);
            let members = facts.map(|facts| facts.members);
            tracing::warn!(?stripe, ?kind, ?members, ?chunks, failures, why, "chunks are not rebuilt, time and again");
        }
    }

    /// The order cannot be carried out now: the stripe is looked at again.
    pub(super) fn drop_order(&mut self, stripe: StripeId) {
        let Some(order) = self.repair.orders.remove(stripe) else { return };
        if order.telling.is_some() {
            // Those who heard of the target are to forget it, and have not confirmed that.
            if let Some(lost) = self.repair.get_mut(stripe) {
                lost.is_told = false;
            }
            self.tell_members(stripe);
        }
        self.rest(stripe);
    }

    /// The member has its chunk after all. Those who heard of another one that was to get it are to forget that one, or
    /// the next owner would look for the chunk there.
    pub(super) fn chunk_is_there(&mut self, stripe: StripeId, chunk: usize) {
        if self.repair.orders.get(stripe).is_some_and(|order| order.chunk == chunk && order.is_telling()) {
            self.drop_order(stripe);
        }
        self.repair.clear(stripe, chunk);
    }

    /// Who is to take the place of a member, while the others are told.
    pub(super) fn telling_of(&self, stripe: StripeId) -> Option<(Configuration, Arc<[NodeId]>)> {
        self.repair.orders.get(stripe)?.telling.clone()
    }

    /// A node is away, or hung: what it was to rebuild is not to be expected of it any more.
    pub(in crate::engine) fn drop_orders_of(&mut self, node: NodeId) {
        // It may have the order, and carry it out: it frees when it is back.
        self.moves.stripes_to(node).into_iter().for_each(|stripe| self.cancel_move(stripe));
        self.repair.orders.stripes_of(node).into_iter().for_each(|stripe| self.drop_order(stripe));
    }

    /// The target did not take the order (`None`: it did not answer).
    pub(in crate::engine) fn order_refused(&mut self, node: NodeId, stripe: StripeId, refusal: Option<Refusal>) {
        match refusal {
            Some(refusal) => self.rebuilt(node, stripe, Err((refusal, None))),
            None => self.drop_order(stripe),
        }
    }

    /// A node does not reach a source of a chunk that it is to rebuild. If there are no others, another node is to: it
    /// may reach all of them.
    fn go_round_cut(&mut self, node: NodeId, stripe: StripeId, chunk: usize) {
        let Reparable::Whole(facts) = self.reparable(stripe) else { return };
        let without = self.repair.get(stripe).map_or(ChunkSet::EMPTY, |lost| lost.chunks | lost.avoided);
        if self.sources_of(&facts, chunk, without).is_some() {
            return;
        }
        if let Some(lost) = self.repair.get_mut(stripe) {
            lost.avoided = ChunkSet::EMPTY;
            lost.refused.push(node);
        }
    }

    /// An order is over.
    pub(in crate::engine) fn rebuilt(
        &mut self,
        node: NodeId,
        stripe: StripeId,
        outcome: Result<(), (Refusal, Option<u8>)>,
    ) {
        let Some(order) = self.repair.orders.get(stripe).filter(|order| order.target == node) else { return };
        let (chunk, sources) = (order.chunk, order.sources.clone());
        let Err((refusal, source)) = outcome else {
            let chunk_bytes = match self.reparable(stripe) {
                Reparable::Whole(facts) => facts.chunk_bytes as u64,
                Reparable::NotYet | Reparable::Over => 0,
            };
            self.repair.rebuilt_count += 1;
            self.repair.rebuilt_bytes += chunk_bytes;
            self.repair.end_order(stripe);
            return self.repair.clear(stripe, chunk);
        };
        let source = source.map(usize::from).filter(|source| sources.contains(source));
        tracing::debug!(?stripe, chunk, node = node.0, %refusal, ?source, "not rebuilt");
        // Data chunks prove themselves. If nobody is to blame for what is wrong, one of the parities may be.
        let blamed = match (refusal, source) {
            (Refusal::Damaged, None) => self.parity_among(stripe, &sources),
            (_, source) => source,
        };
        let of_source = source.map_or(String::new(), |source| format!(", of source {source}"));
        // Who has enough orders, of other engines too, has not failed.
        if (refusal, source) != (Refusal::Busy, None) {
            self.note_failure(stripe, &format!("node {} rebuilding chunk {chunk}: {refusal}{of_source}", node.0));
        }
        if let Some(lost) = self.repair.get_mut(stripe) {
            match (refusal, blamed) {
                (_, Some(blamed)) => lost.avoided.insert(blamed),
                // A definite no: another node may say yes.
                (Refusal::Exists | Refusal::OutOfMemory, None) => lost.refused.push(node),
                _ => {}
            }
        }
        if refusal == Refusal::Unreachable {
            self.go_round_cut(node, stripe, chunk);
        }
        self.drop_order(stripe);
        if let (Refusal::Exists, None) = (refusal, source) {
            // An owner before this one may have told a member to free what it had, and its members nothing.
            self.tell_members(stripe);
        }
        if let Some(blamed) = blamed
            && let Reparable::Whole(facts) = self.reparable(stripe)
            && let Some(&node) = facts.members.get(blamed)
        {
            self.doubt_chunk(node, stripe, Some(refusal));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shorttail_units::{CodeShape, Epoch, PartitionId};

    use super::*;
    use crate::engine::state::stripes::Stripe;
    use crate::engine::state::testing::engine_of_ready_nodes;

    #[test]
    fn only_a_source_of_the_order_is_to_blame() {
        let shape = CodeShape::default();
        let (id, members) = (StripeId::new(Epoch(1), 1), (0..6).map(NodeId).collect::<Arc<[_]>>());
        for (blamed, is_avoided) in [(200, false), (0, false), (1, true)] {
            let mut engine = engine_of_ready_nodes(shape, 8);
            engine.stripes.insert(Stripe::inherited(id, PartitionId(0), members.clone(), Box::from([9; 4])));
            engine.repair.mark(id, 0, shape);
            engine.give_orders();
            let target = engine.repair.orders.get(id).expect("the chunk is to be rebuilt").target();
            engine.rebuilt(target, id, Err((Refusal::Damaged, Some(blamed))));
            let lost = engine.repair.get(id).expect("it is lost");
            assert_eq!(lost.avoided.contains(usize::from(blamed) % 128), is_avoided, "{blamed}");
        }
    }
}
