//! Freeing stripes, so that nothing in them comes back.
//!
//! A stripe that was emptied is first declared void by a control record in its partition's log; when that is durable the
//! members are told to free their chunks. A later owner that still finds some of the chunks ignores them. The control
//! record itself is kept until every member confirmed, or the memory of those that did not is gone for good.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shorttail_store::record::{Control, Record, RecordKind};
use shorttail_units::{NodeId, PartitionId, StripeId};
use shorttail_wire::node::NodeRequest;

use super::index::StripeSlot;
use super::log::{Purpose, Urgency};
use super::{Engine, What, Work};
use crate::command::Command;

#[derive(Debug)]
struct PendingFree {
    count: u32,
    partition: PartitionId,
    /// Asked, and the answer is awaited.
    is_asked: bool,
    /// Cores of the node that were asked and have not answered.
    cores: Vec<u16>,
}

/// A stripe that is about to be declared void.
#[derive(Debug)]
struct Undeclared {
    partition: PartitionId,
    members: Arc<[NodeId]>,
    /// The control record is in the log.
    is_appended: bool,
}

#[derive(Debug, Default)]
pub struct Voids {
    /// Stripes whose control record is not durable yet.
    undeclared: BTreeMap<StripeId, Undeclared>,
    /// What nodes have not confirmed to have freed.
    pending: BTreeMap<NodeId, BTreeMap<StripeId, PendingFree>>,
    /// Void packed stripes and how many members have not confirmed.
    unconfirmed: BTreeMap<StripeId, BTreeSet<NodeId>>,
}

impl<C: Command> Engine<C> {
    /// Nothing in a stripe is alive any more.
    pub(super) fn declare_void(&mut self, slot: StripeSlot) {
        let stripe = self.stripes.at(slot);
        self.declare_void_of(stripe.id, stripe.partition, stripe.members.clone());
    }

    pub(super) fn declare_void_of(&mut self, id: StripeId, partition: PartitionId, members: Arc<[NodeId]>) {
        let value = Control::Void(id).encode();
        let version = self.take_version();
        let record = Record { kind: RecordKind::Control, ..Record::object(b"", &value, version) };
        let placed = self.append_record(partition, &record, Purpose::Void { stripe: id }, Urgency::Cleaning);
        self.voids.undeclared.insert(id, Undeclared { partition, members, is_appended: placed.is_ok() });
    }

    /// The control record is durable.
    pub(super) fn void_confirmed(&mut self, id: StripeId) {
        let Some(Undeclared { partition, members, .. }) = self.voids.undeclared.remove(&id) else { return };
        if let Some(slot) = self.stripes.slot_of(id)
            && let Some(open) = self.stripes.remove(slot).open
        {
            self.stripes.keep_buffer(open.into_buffer());
        }
        self.voids.unconfirmed.insert(id, members.iter().copied().collect());
        for &node in members.iter() {
            self.free_on(node, id, partition);
        }
        self.end_completing_when_done();
    }

    pub(super) fn void_interrupted(&mut self, id: StripeId) {
        if let Some(undeclared) = self.voids.undeclared.get_mut(&id) {
            undeclared.is_appended = false;
        }
    }

    pub(super) fn free_on(&mut self, node: NodeId, stripe: StripeId, partition: PartitionId) {
        self.free_range_on(node, stripe, 1, partition);
    }

    /// Tells a node to drop its chunks of `count` stripes; told again until it confirms.
    pub(super) fn free_range_on(&mut self, node: NodeId, first: StripeId, count: u32, partition: PartitionId) {
        // A scan finds the first stripe of a range alone: the rest of the range may lie on other cores.
        let pending = self.voids.pending.entry(node).or_default();
        if pending.get(&first).is_none_or(|known| known.count < count) {
            pending.insert(first, PendingFree { count, partition, is_asked: false, cores: Vec::new() });
        }
        if self.nodes.is_ready(node) {
            self.resend_frees_to(node);
        }
    }

    pub(super) fn resend_frees_to(&mut self, node: NodeId) {
        let core_count = self.nodes.get(node).map_or(1, |node| node.sessions.len()) as u16;
        let Some(pending) = self.voids.pending.get_mut(&node) else { return };
        let mut asks = Vec::new();
        for (&first, free) in pending.iter_mut().filter(|(_, free)| !free.is_asked) {
            free.is_asked = true;
            // A range of striped stripes spreads over the node's cores: each core is told of all of it.
            let one = self.nodes.session_of(node, first).core;
            free.cores = if free.count == 1 { vec![one] } else { (0..core_count).collect() };
            asks.push((first, free.count, free.partition, free.cores.clone()));
        }
        let epoch = self.config.epoch;
        for (first, count, partition, cores) in asks {
            let request = NodeRequest::Free { first, count, epoch, partition };
            for core in cores {
                self.ask_session(super::SessionId { node, core }, &request, What::Free { first });
            }
        }
    }

    /// Repeats what nodes that are ready have not confirmed, and declares what could not be declared.
    pub(super) fn resend_frees(&mut self) {
        let ready: Vec<_> = self.nodes.iter().map(|node| node.id).filter(|&node| self.nodes.is_ready(node)).collect();
        ready.into_iter().for_each(|node| self.resend_frees_to(node));
        let waiting = self.voids.undeclared.iter().filter(|(_, undeclared)| !undeclared.is_appended);
        let waiting: Vec<_> = waiting.map(|(&id, it)| (id, it.partition, it.members.clone())).collect();
        for (id, partition, members) in waiting {
            self.declare_void_of(id, partition, members);
        }
    }

    /// A core dropped its part; the free is over when all have.
    pub(super) fn freed(&mut self, session: super::SessionId, first: StripeId) {
        let node = session.node;
        if let Some(pending) = self.voids.pending.get_mut(&node) {
            if let Some(free) = pending.get_mut(&first) {
                free.cores.retain(|&core| core != session.core);
                if !free.cores.is_empty() {
                    return;
                }
            }
            pending.remove(&first);
            if pending.is_empty() {
                self.voids.pending.remove(&node);
            }
        }
        self.free_confirmed(node, first);
        self.work.push_back(Work::Resume);
    }

    fn free_confirmed(&mut self, node: NodeId, id: StripeId) {
        if let Some(members) = self.voids.unconfirmed.get_mut(&id) {
            members.remove(&node);
            if members.is_empty() {
                self.voids.unconfirmed.remove(&id);
            }
        }
    }

    /// A free was not answered: it is asked again.
    pub(super) fn free_unanswered(&mut self, node: NodeId, first: StripeId) {
        if let Some(free) = self.voids.pending.get_mut(&node).and_then(|pending| pending.get_mut(&first)) {
            free.is_asked = false;
        }
    }

    /// The memory that a node had is gone: there is nothing left to free on it.
    pub(super) fn void_frees_of(&mut self, node: NodeId) {
        for first in self.voids.pending.remove(&node).unwrap_or_default().into_keys() {
            self.free_confirmed(node, first);
        }
    }

    /// A node was scanned: what it was not found to hold, it has freed.
    pub(super) fn settle_voids_of(&mut self, node: NodeId) {
        // Until a take-over is complete nothing is freed, so nothing that was found counts as freed.
        if self.census_mut().is_some() {
            return;
        }
        let pending = self.voids.pending.get(&node);
        let is_pending = |id: &StripeId| pending.is_some_and(|pending| pending.contains_key(id));
        let settled: Vec<_> = self.voids.unconfirmed.keys().copied().filter(|id| !is_pending(id)).collect();
        settled.into_iter().for_each(|id| self.free_confirmed(node, id));
    }

    /// Must the record that declares this stripe void be kept?
    pub(super) fn is_void_needed(&self, stripe: StripeId) -> bool {
        self.voids.unconfirmed.contains_key(&stripe) || self.voids.undeclared.contains_key(&stripe)
    }

    pub(super) fn inherit_void(&mut self, stripe: StripeId, members: BTreeSet<NodeId>) {
        if !members.is_empty() {
            self.voids.unconfirmed.insert(stripe, members);
        }
    }

    pub(super) fn is_reclaiming(&self) -> bool {
        let asked = |pending: &BTreeMap<StripeId, PendingFree>| pending.values().any(|free| free.is_asked);
        !self.voids.undeclared.is_empty() || self.voids.pending.values().any(asked)
    }
}
