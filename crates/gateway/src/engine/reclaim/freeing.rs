//! Freeing stripes, so that nothing in them comes back.
//!
//! A stripe that was emptied is first declared void by a control record in its partition's log; when that is durable
//! the members are told to free their chunks. A later owner that still finds some of the chunks ignores them. The
//! control record itself is kept until every member confirmed, or the memory of those that did not is gone for good.
//! What was inherited may have to wait, emptied, for all of this (see `doubts`).
//!
//! A node that was away, or is told of much at once, is behind: it is asked for some frees a turn, and nobody waits for
//! these unless memory is short.
//!
//! ```text
//! unasked --there is room among what is asked--> asked --each core confirmed--> freed
//!    ^                                             | refused, or not answered
//!    '------------------a tick later---------------'
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shorttail_store::limits::FREE_COUNT_MAX;
use shorttail_store::record::{Control, Record};
use shorttail_units::{Configuration, NodeId, PartitionId, StripeId};
use shorttail_wire::node::NodeRequest;

use super::doomed::Doomed;
use super::reserve::Urgency;
use crate::engine::limits::{FREES_ASKED_MAX, FREES_OF_TURN_MAX};
use crate::engine::state::index::StripeSlot;
use crate::engine::write::log::Purpose;
use crate::engine::{Engine, SessionId, What};

#[derive(Debug)]
struct PendingFree {
    count: u32,
    /// Of a stripe that is gone everything; else what was ordered before.
    up_to: Configuration,
    partition: PartitionId,
    /// Which asking it was that waits for answers; 0: none yet.
    asking: u64,
    /// Cores of the node that were asked then and have not answered.
    cores: Vec<u16>,
    is_asked: bool,
}

/// What one node has not confirmed to have freed, by the first stripe of each range.
#[derive(Debug, Default)]
struct Frees {
    by_first: BTreeMap<StripeId, PendingFree>,
    /// Of these, what it is to be asked: who frees many in one turn must not look at all of them for each.
    unasked: BTreeSet<StripeId>,
    /// What failed, and is not asked again before the next tick.
    failed: Vec<StripeId>,
    asked_count: usize,
}

impl Frees {
    /// It is to free this, too, if it is not to do so already.
    fn note(&mut self, first: StripeId, count: u32, up_to: Configuration, partition: PartitionId) {
        let known = self.by_first.get(&first);
        if known.is_some_and(|known| known.count >= count && known.up_to >= up_to) {
            return;
        }
        self.asked_count -= usize::from(known.is_some_and(|known| known.is_asked));
        let free = PendingFree { count, up_to, partition, asking: 0, cores: Vec::new(), is_asked: false };
        self.by_first.insert(first, free);
        self.unasked.insert(first);
    }

    /// The next that it is to be asked, if it has not been asked for much already.
    fn next(&mut self) -> Option<(StripeId, &mut PendingFree)> {
        if self.asked_count >= FREES_ASKED_MAX {
            return None;
        }
        let first = self.unasked.pop_first()?;
        let free = self.by_first.get_mut(&first).expect("what is unasked is to be freed");
        free.is_asked = true;
        self.asked_count += 1;
        Some((first, free))
    }

    /// A core freed its part. Is the free over?
    fn confirm(&mut self, first: StripeId, core: u16, asking: u64) -> bool {
        let Some(free) = self.by_first.get_mut(&first) else { return true };
        if free.asking != asking {
            return false;
        }
        free.cores.retain(|&other| other != core);
        if !free.cores.is_empty() {
            return false;
        }
        self.asked_count -= usize::from(free.is_asked);
        self.by_first.remove(&first);
        self.unasked.remove(&first);
        true
    }

    /// It is to be asked again.
    fn fail(&mut self, first: StripeId, asking: u64) {
        let Some(free) = self.by_first.get_mut(&first).filter(|free| free.asking == asking) else { return };
        if std::mem::take(&mut free.is_asked) {
            self.asked_count -= 1;
            self.failed.push(first);
        }
    }

    fn take_up_failed(&mut self) {
        for first in std::mem::take(&mut self.failed) {
            if self.by_first.get(&first).is_some_and(|free| !free.is_asked) {
                self.unasked.insert(first);
            }
        }
    }
}

/// A stripe that was emptied and still exists.
#[derive(Debug)]
struct Emptied {
    partition: PartitionId,
    members: Arc<[NodeId]>,
    ending: Ending,
    /// A member refused to close it.
    only_by_record: bool,
    /// What is evicted with it.
    doomed: Vec<Doomed>,
}

/// How it is ended.
#[derive(PartialEq, Eq, Debug)]
enum Ending {
    /// Nothing is under way.
    Waits,
    /// The control record is in the log.
    Recorded,
    /// These members have not closed it yet.
    Closing(BTreeSet<NodeId>),
    /// It is void; something in it is locked.
    Held,
}

/// The record that declares a stripe void: there is one of each, as records of this kind do not race.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VoidRecord {
    /// The stripe that holds it.
    pub at: StripeId,
    pub bytes: usize,
}

/// A stripe that was declared void.
#[derive(Debug)]
struct Declared {
    record: VoidRecord,
    /// Members that have not confirmed the free.
    unconfirmed: BTreeSet<NodeId>,
}

#[derive(Debug, Default)]
pub struct Voids {
    emptied: BTreeMap<StripeId, Emptied>,
    /// What nodes have not confirmed to have freed.
    pending: BTreeMap<NodeId, Frees>,
    /// Void packed stripes that some member may still hold.
    declared: BTreeMap<StripeId, Declared>,
    /// How often nodes were asked to free something.
    askings: u64,
    /// What is asked now is much, and nobody waits for it.
    pub(in crate::engine) are_unhurried: bool,
}

impl Voids {
    /// Stripes that are emptied, and not freed yet.
    pub(in crate::engine) fn emptied(&self) -> impl Iterator<Item = StripeId> {
        self.emptied.keys().copied()
    }

    /// Who holds chunks of these.
    pub(super) fn members_of_emptied(&self) -> impl Iterator<Item = &Arc<[NodeId]>> {
        self.emptied.values().map(|emptied| &emptied.members)
    }

    pub(super) fn await_closes(&mut self, id: StripeId, members: BTreeSet<NodeId>) {
        if let Some(emptied) = self.emptied.get_mut(&id) {
            emptied.ending = Ending::Closing(members);
        }
    }

    pub(super) fn closed(&mut self, id: StripeId, node: NodeId) {
        if let Some(Emptied { ending: Ending::Closing(left), .. }) = self.emptied.get_mut(&id) {
            left.remove(&node);
        }
    }

    pub(super) fn not_closed(&mut self, id: StripeId, may_later: bool) {
        if let Some(emptied) = self.emptied.get_mut(&id) {
            emptied.only_by_record |= !may_later;
            if matches!(emptied.ending, Ending::Closing(_)) {
                emptied.ending = Ending::Waits;
            }
        }
    }

    /// These are to free it, too.
    pub(in crate::engine) fn set_members(&mut self, id: StripeId, members: Arc<[NodeId]>) {
        if let Some(emptied) = self.emptied.get_mut(&id) {
            emptied.members = members;
        }
    }

    /// Is the stripe void, or to be so at once?
    pub(in crate::engine) fn is_emptied(&self, id: StripeId) -> bool {
        self.emptied.contains_key(&id)
    }

    /// Takes out a stripe that every member has closed.
    pub(super) fn take_rescinded(&mut self, id: StripeId) -> Option<(PartitionId, Arc<[NodeId]>)> {
        let is_closed = |emptied: &Emptied| emptied.ending == Ending::Closing(BTreeSet::new());
        self.emptied.get(&id).filter(|emptied| is_closed(emptied))?;
        self.emptied.remove(&id).map(|emptied| (emptied.partition, emptied.members))
    }
}

impl Engine {
    /// Nothing in a stripe is alive any more, but what is evicted with it.
    pub(in crate::engine) fn declare_void(&mut self, slot: StripeSlot, doomed: Vec<Doomed>) {
        let stripe = self.stripes.at(slot);
        let (id, partition, members) = (stripe.id, stripe.partition, stripe.members.clone());
        // Whoever evicts goes by the record: that alone is durable before anything is missed.
        let only_by_record = !doomed.is_empty();
        let emptied = Emptied { partition, members, ending: Ending::Waits, only_by_record, doomed };
        self.voids.emptied.insert(id, emptied);
        self.end_emptied(id);
    }

    /// A stripe that is lost is over. `members`: whoever may hold some of it.
    pub(in crate::engine) fn declare_void_of(&mut self, id: StripeId, partition: PartitionId, members: Arc<[NodeId]>) {
        let (ending, doomed) = (Ending::Waits, Vec::new());
        self.voids.emptied.insert(id, Emptied { partition, members, ending, only_by_record: false, doomed });
        self.end_emptied(id);
    }

    /// Ends an emptied stripe as it can be done now.
    fn end_emptied(&mut self, id: StripeId) {
        let Some(emptied) = self.voids.emptied.get(&id).filter(|emptied| emptied.ending == Ending::Waits) else {
            return;
        };
        if self.is_held_back(id) {
            return;
        }
        let partition = emptied.partition;
        let slot = self.stripes.slot_of(id).filter(|_| !emptied.only_by_record);
        if slot.is_some_and(|slot| self.rescind(slot)) {
            return;
        }
        let value = Control::Void(id).encode();
        let version = self.take_version();
        let record = Record::control(&value, version);
        let placed = self.append_record(partition, &record, Purpose::Void { stripe: id }, Urgency::Freeing);
        if let Some(emptied) = self.voids.emptied.get_mut(&id).filter(|_| placed.is_ok()) {
            emptied.ending = Ending::Recorded;
        }
    }

    /// The control record is durable.
    pub(in crate::engine) fn void_confirmed(&mut self, id: StripeId, record: VoidRecord) {
        let Some(emptied) = self.voids.emptied.get_mut(&id) else { return };
        emptied.ending = Ending::Held;
        let members = emptied.members.clone();
        let beside = self.holders_beside(id);
        let unconfirmed = members.iter().copied().chain(beside).collect();
        self.voids.declared.insert(id, Declared { record, unconfirmed });
        self.end_void(id);
    }

    /// What is evicted with a void stripe leaves the index; then its members are told to free it.
    fn end_void(&mut self, id: StripeId) {
        let is_held = |emptied: &&mut Emptied| emptied.ending == Ending::Held;
        let Some(emptied) = self.voids.emptied.get_mut(&id).filter(is_held) else { return };
        let (partition, doomed) = (emptied.partition, std::mem::take(&mut emptied.doomed));
        let doomed = self.drop_doomed(doomed);
        let Some(emptied) = self.voids.emptied.get_mut(&id) else { return };
        emptied.doomed = doomed;
        if !emptied.doomed.is_empty() {
            return;
        }
        let members = emptied.members.clone();
        self.voids.emptied.remove(&id);
        self.forget_stripe(id);
        for &node in members.iter() {
            self.free_on(node, id, partition);
        }
        self.end_completing_when_done();
    }

    /// Nodes that may hold a chunk of a stripe although they are no members: a chunk was to move there, or away from
    /// there. Who is here was scanned, and was told to free what it should not have.
    fn holders_beside(&mut self, id: StripeId) -> Vec<NodeId> {
        let slot = self.stripes.slot_of(id);
        if slot.is_none_or(|slot| self.stripes.at(slot).configuration.is_first()) {
            return Vec::new();
        }
        self.cancel_move(id);
        // Until a take-over is complete nobody was told.
        let untold: Vec<NodeId> = self.census_mut().map_or(Vec::new(), |census| census.holders(id).collect());
        let pending = &self.voids.pending;
        let is_told = |node: NodeId| pending.get(&node).is_some_and(|frees| frees.by_first.contains_key(&id));
        let nodes = self.nodes.iter().map(|node| node.id);
        let may_hold = |&node: &NodeId| is_told(node) || !self.nodes.is_ready(node) && !self.is_gone(node);
        nodes.filter(may_hold).chain(untold).collect()
    }

    pub(in crate::engine) fn forget_stripe(&mut self, id: StripeId) {
        self.repair.forget(id);
        self.forget_loss(id);
        self.forget_moves(id);
        if let Some(slot) = self.stripes.slot_of(id) {
            self.stripes.remove(slot);
        }
    }

    pub(in crate::engine) fn void_interrupted(&mut self, id: StripeId) {
        if let Some(emptied) = self.voids.emptied.get_mut(&id) {
            emptied.ending = Ending::Waits;
        }
    }

    /// Was the node told to drop its chunk of the stripe, and has not confirmed it? Nothing of the stripe is ordered
    /// there until it has.
    pub(in crate::engine) fn is_to_free(&self, node: NodeId, stripe: StripeId) -> bool {
        let Some(pending) = self.voids.pending.get(&node) else { return false };
        let lowest = StripeId::from_raw(stripe.raw().saturating_sub(FREE_COUNT_MAX as u64 - 1));
        let mut before = pending.by_first.range(lowest..=stripe);
        before.any(|(&first, free)| stripe < first.plus(u64::from(free.count)))
    }

    /// Of which configurations a node is to drop what it has of a stripe: of all, if the stripe is gone; else of those
    /// that were given until now, by this owner and those before it.
    pub(in crate::engine) fn to_be_freed(&self, stripe: StripeId) -> Configuration {
        let packed = self.stripes.slot_of(stripe).map(|slot| self.stripes.at(slot).configuration);
        let newest = packed.or_else(|| Some(self.striped_of(stripe)?.1.members_of(stripe).0));
        newest.map_or(Configuration::END, |newest| newest.given(self.config.epoch))
    }

    /// How much a node has not confirmed to have freed, in chunks: what lies side by side counts as one.
    pub(super) fn frees_pending_on(&self, node: NodeId) -> u64 {
        self.voids.pending.get(&node).map_or(0, |frees| frees.by_first.len() as u64)
    }

    /// Nodes with the stripes that they are to free, the first one of each range.
    pub(in crate::engine) fn pending_frees(&self) -> impl Iterator<Item = (NodeId, StripeId)> {
        let nodes = self.voids.pending.iter();
        nodes.flat_map(|(&node, pending)| pending.by_first.keys().map(move |&first| (node, first)))
    }

    pub(in crate::engine) fn free_on(&mut self, node: NodeId, stripe: StripeId, partition: PartitionId) {
        self.free_range_on(node, stripe, 1, partition);
    }

    /// Tells a node to drop its chunks of `count` stripes; told again until it confirms.
    pub(in crate::engine) fn free_range_on(
        &mut self,
        node: NodeId,
        first: StripeId,
        count: u32,
        partition: PartitionId,
    ) {
        // A node refuses more at once.
        for done in (0..count).step_by(FREE_COUNT_MAX) {
            let left = count - done;
            self.free_some_on(node, first.plus(u64::from(done)), left.min(FREE_COUNT_MAX as u32), partition);
        }
    }

    fn free_some_on(&mut self, node: NodeId, first: StripeId, count: u32, partition: PartitionId) {
        if self.is_gone(node) {
            return self.free_confirmed(node, first);
        }
        // A scan finds the first stripe of a range alone: the rest of the range may lie on other cores.
        let up_to = self.to_be_freed(first);
        let pending = self.voids.pending.entry(node).or_default();
        pending.note(first, count, up_to, partition);
        // Who is behind goes on at the end of the turn.
        if pending.unasked.len() == 1 && self.nodes.is_ready(node) {
            self.ask_to_free(node, 1, self.voids.are_unhurried);
        }
    }

    /// Asks nodes that are behind for some more.
    pub(in crate::engine) fn ask_for_frees(&mut self) {
        let is_behind = |(node, frees): &(&NodeId, &Frees)| !frees.unasked.is_empty() && self.nodes.is_ready(**node);
        let behind: Vec<_> = self.voids.pending.iter().filter(is_behind).map(|(&node, _)| node).collect();
        for node in behind {
            self.ask_to_free(node, FREES_OF_TURN_MAX, !self.is_short_of_memory());
        }
    }

    fn ask_to_free(&mut self, node: NodeId, count_max: usize, are_unhurried: bool) {
        let core_count = self.nodes.get(node).map_or(1, |node| node.sessions.len()) as u16;
        for _ in 0..count_max {
            let Some((first, free)) = self.voids.pending.get_mut(&node).and_then(Frees::next) else { return };
            self.voids.askings += 1;
            // A range of striped stripes spreads over the node's cores: each core is told of all of it.
            let one = self.nodes.session_of(node, first).core;
            free.cores = if free.count == 1 { vec![one] } else { (0..core_count).collect() };
            free.asking = self.voids.askings;
            let &mut PendingFree { count, up_to, partition, asking, .. } = free;
            let request = NodeRequest::Free { first, count, epoch: self.config.epoch, partition, up_to };
            for core in free.cores.clone() {
                let (session, what) = (SessionId { node, core }, What::Free { first, asking });
                if are_unhurried {
                    self.ask_unhurried(session, &request, what);
                } else {
                    self.ask_session(session, &request, what);
                }
            }
        }
    }

    /// Frees that one of the nodes which are ready has to answer, at most. Slow ones, and those that are behind, are
    /// waited for by nobody: what the others free is there meanwhile.
    pub(in crate::engine) fn frees_under_way(&self) -> usize {
        let is_waited_for = |node: NodeId| self.nodes.is_ready(node) && !self.monitor.is_fail_slow(node);
        let pending = self.voids.pending.iter();
        let awaited = pending.filter(|(node, frees)| is_waited_for(**node) && frees.unasked.is_empty());
        awaited.map(|(_, frees)| frees.asked_count).max().unwrap_or(0)
    }

    /// What nodes have not confirmed is to be asked again, and ends what could not be ended.
    pub(in crate::engine) fn resend_frees(&mut self) {
        self.voids.pending.values_mut().for_each(Frees::take_up_failed);
        let waiting = self.voids.emptied.iter().filter(|(_, emptied)| emptied.ending == Ending::Waits);
        for id in waiting.map(|(&id, _)| id).collect::<Vec<_>>() {
            self.end_emptied(id);
        }
        let held = self.voids.emptied.iter().filter(|(_, emptied)| emptied.ending == Ending::Held);
        for id in held.map(|(&id, _)| id).collect::<Vec<_>>() {
            self.end_void(id);
        }
    }

    /// A core dropped its part; the free is over when all have. What it was asked before it was to drop more does not
    /// count.
    pub(in crate::engine) fn freed(&mut self, session: SessionId, first: StripeId, asking: u64) {
        let node = session.node;
        if let Some(pending) = self.voids.pending.get_mut(&node) {
            if !pending.confirm(first, session.core, asking) {
                return;
            }
            if pending.by_first.is_empty() {
                self.voids.pending.remove(&node);
            }
        }
        self.free_confirmed(node, first);
        self.stalled.press();
    }

    fn free_confirmed(&mut self, node: NodeId, id: StripeId) {
        let Some(declared) = self.voids.declared.get_mut(&id) else { return };
        declared.unconfirmed.remove(&node);
        if declared.unconfirmed.is_empty() {
            let record = declared.record;
            self.voids.declared.remove(&id);
            self.void_done(record);
        }
    }

    /// Nobody holds a chunk of the stripe any more: the record that declares it void is garbage.
    fn void_done(&mut self, record: VoidRecord) {
        if let Some(slot) = self.stripes.slot_of(record.at) {
            self.stripes.at_mut(slot).kept.drop_void(record.bytes);
        }
    }

    /// A free was not answered: it is asked again.
    pub(in crate::engine) fn free_unanswered(&mut self, node: NodeId, first: StripeId, asking: u64) {
        if let Some(pending) = self.voids.pending.get_mut(&node) {
            pending.fail(first, asking);
        }
    }

    /// The memory that a node had is followed by another one. What an earlier owner put there is known when it was
    /// scanned.
    pub(in crate::engine) fn forget_frees_of(&mut self, node: NodeId) {
        self.voids.pending.remove(&node);
    }

    /// The memory that a node had is gone: there is nothing left to free on it.
    pub(in crate::engine) fn void_frees_of(&mut self, node: NodeId) {
        self.forget_frees_of(node);
        for id in self.voids.declared.keys().copied().collect::<Vec<_>>() {
            self.free_confirmed(node, id);
        }
    }

    /// A node was scanned: what it was not found to hold, it has freed.
    pub(in crate::engine) fn settle_voids_of(&mut self, node: NodeId) {
        // Until a take-over is complete nothing is freed, so nothing that was found counts as freed.
        if self.census_mut().is_some() {
            return;
        }
        let pending = self.voids.pending.get(&node);
        let emptied = &self.voids.emptied;
        // Of a stripe that is held its members were not told yet; others never are.
        let is_member = |id: &StripeId| emptied.get(id).is_some_and(|emptied| emptied.members.contains(&node));
        let is_pending =
            |id: &StripeId| is_member(id) || pending.is_some_and(|pending| pending.by_first.contains_key(id));
        let settled: Vec<_> = self.voids.declared.keys().copied().filter(|id| !is_pending(id)).collect();
        settled.into_iter().for_each(|id| self.free_confirmed(node, id));
    }

    /// Must the record in stripe `at` that declares this stripe void be kept?
    pub(in crate::engine) fn is_void_needed(&self, stripe: StripeId, at: StripeId) -> bool {
        self.voids.declared.get(&stripe).is_some_and(|declared| declared.record.at == at)
    }

    /// The record that declares this stripe void lies elsewhere now.
    pub(super) fn void_carried(&mut self, stripe: StripeId, record: VoidRecord) {
        match self.voids.declared.get_mut(&stripe) {
            Some(declared) => declared.record = record,
            None => self.void_done(record),
        }
    }

    pub(in crate::engine) fn inherit_void(
        &mut self,
        stripe: StripeId,
        record: VoidRecord,
        unconfirmed: BTreeSet<NodeId>,
    ) {
        if unconfirmed.is_empty() {
            return self.void_done(record);
        }
        self.voids.declared.insert(stripe, Declared { record, unconfirmed });
    }

    pub(in crate::engine) fn is_reclaiming(&self) -> bool {
        let is_asked = |(node, frees): (&NodeId, &Frees)| {
            frees.asked_count > 0 || !frees.unasked.is_empty() && self.nodes.is_ready(*node)
        };
        !self.voids.emptied.is_empty() || self.voids.pending.iter().any(is_asked)
    }
}

#[cfg(test)]
mod tests;
