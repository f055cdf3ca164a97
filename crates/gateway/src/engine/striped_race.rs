//! Striped writes that are late: all pieces again beside the first attempt, on members that are not late.
//!
//! ```text
//! an install late --> second attempt: stripe ids and members of its own
//!   one attempt is whole --> its manifest is appended; the pieces of the other are freed
//!   one attempt fails    --> its pieces are freed; the other goes on alone, and is raced again when it is late
//! ```
//! No record names an attempt before it is whole (rule R8), and one is named at most. So the loser never was an object:
//! a new owner finds pieces without a manifest, and frees them. A piece that is still on its way to a slow node meets
//! the free's mark there (rule R11).
//!
//! Values that are overwritten in place are not raced: where they lie is their point.
//!
//! Must not know: how a value is cut.

use std::sync::Arc;

use shorttail_policy::{Hedge, Update};
use shorttail_units::{CodeShape, NodeId, PartitionId};

use super::Engine;
use super::limits::HEDGE_RETRY_US;
use super::pool::PoolKey;
use super::striped::{ATTEMPTS_MAX, StripedWrite};
use crate::command::Command;

impl<C: Command> Engine<C> {
    /// Are late striped writes of this partition raced?
    pub(super) fn races_values(&self, partition: PartitionId) -> bool {
        self.values_sidestep(partition) && self.policy(partition).hedge == Hedge::Adaptive
    }

    fn values_sidestep(&self, partition: PartitionId) -> bool {
        let policy = self.policy(partition);
        policy.write_sidestep && policy.update == Update::Log
    }

    /// Races what is late now.
    pub(super) fn race_late_values(&mut self) {
        let writes = self.striped_writes.iter().filter(|(_, write)| self.races_values(write.partition));
        for key in writes.map(|(key, _)| key).collect::<Vec<_>>() {
            self.race_late_value(key);
        }
    }

    fn race_late_value(&mut self, key: PoolKey) {
        let Some(write) = self.striped_writes.get(key).filter(|write| write.rival.is_none()) else { return };
        // Stripes are sent in order: the first is the oldest.
        let Some((_, flight)) = write.flights.first_key_value() else { return };
        let (sent_us, piece_bytes) = (flight.sent_us, write.manifest.piece_bytes);
        let late: Vec<NodeId> = self.owing(write).collect();
        if late.is_empty() {
            return;
        }
        let delay_us = late.iter().map(|&node| self.write_delay_us(node, piece_bytes)).max().unwrap_or(0);
        if sent_us.saturating_add(delay_us) > self.now.mono_us {
            self.hedge_due_us = self.hedge_due_us.min(sent_us.saturating_add(delay_us));
            return;
        }
        self.note_late_writers(&late, sent_us);
        // What a verdict causes takes no token.
        let is_known = late.iter().any(|&node| self.monitor.is_fail_slow(node));
        let tokens =
            if is_known { 0 } else { u64::from(self.striped_writes.get(key).map_or(0, |it| it.manifest.stripe_count)) };
        if !self.budget.has_tokens(tokens) {
            self.stats.hedge_budget_exhausted_total += 1;
        } else if self.race_value(key) {
            (0..tokens).for_each(|_| _ = self.take_token());
            return;
        }
        self.hedge_due_us = self.hedge_due_us.min(self.now.mono_us + HEDGE_RETRY_US);
    }

    /// Every striped write that waits for a fail-slow node is raced, without a token.
    pub(super) fn race_values_of(&mut self, node: NodeId) {
        let waits = |write: &StripedWrite| write.rival.is_none() && self.owing(write).any(|it| it == node);
        let writes =
            self.striped_writes.iter().filter(|(_, write)| self.values_sidestep(write.partition) && waits(write));
        for key in writes.map(|(key, _)| key).collect::<Vec<_>>() {
            self.race_value(key);
        }
    }

    /// Does the node owe an answer to an install that it was sent before this time?
    pub(super) fn owes_install(&self, node: NodeId, before_us: u64) -> bool {
        let is_late = |write: &StripedWrite| {
            let oldest = write.flights.first_key_value();
            oldest.is_some_and(|(_, flight)| flight.sent_us < before_us) && self.owing(write).any(|it| it == node)
        };
        self.striped_writes.iter().any(|(_, write)| is_late(write))
    }

    /// Members that owe a piece of the oldest stripe under way.
    fn owing(&self, write: &StripedWrite) -> impl Iterator<Item = NodeId> {
        let oldest = write.flights.first_key_value();
        let tags = oldest.into_iter().flat_map(|(_, flight)| &flight.tags);
        tags.filter_map(|&tag| self.awaited.get(tag)).map(|awaited| awaited.session.node)
    }

    /// Begins the second attempt, if there are members for it that are not late.
    fn race_value(&mut self, key: PoolKey) -> bool {
        let Some(write) = self.striped_writes.get(key).filter(|write| write.attempts + 1 < ATTEMPTS_MAX) else {
            return false;
        };
        let StripedWrite { lock, partition, layout, attempts, .. } = *write;
        let value = write.value.clone();
        let core_bytes = self.striped_bytes_on_core(value.len(), layout);
        if self.striped_fits(core_bytes).is_err() {
            return false;
        }
        let Some(members) = self.members_not_late(layout.shape, core_bytes) else { return false };
        let Some(second) = self.send_attempt(lock, partition, value, layout, attempts + 1, members) else {
            return false;
        };
        // A send may fail at once; the attempt is over then.
        if let Some(write) = self.striped_writes.get_mut(second) {
            (write.rival, write.is_second) = (Some(key), true);
        }
        if let Some(write) = self.striped_writes.get_mut(key) {
            write.rival = Some(second);
        }
        true
    }

    /// Members of which none is late; `None` if there are not enough of them.
    fn members_not_late(&mut self, shape: CodeShape, core_bytes: u64) -> Option<Arc<[NodeId]>> {
        let needed = core_bytes + self.kept_bytes();
        let fits = |node: &super::nodes::Node| {
            self.nodes.is_ready(node.id) && !self.is_evaded(node.id) && node.free_bytes() >= needed
        };
        if self.nodes.iter().filter(|node| fits(node)).count() < shape.chunk_count() {
            return None;
        }
        self.choose_members(shape, core_bytes, true).ok()
    }

    /// An attempt is whole: the other one ends.
    pub(super) fn win_striped_race(&mut self, winner: &StripedWrite) {
        if let Some(loser) = winner.rival {
            self.stats.hedges_won_total += u64::from(winner.is_second);
            self.drop_attempt(loser);
        }
    }

    /// An attempt failed: does another one go on? It may be late as well by now, and have been for long.
    pub(super) fn leaves_striped_race(&mut self, failed: &StripedWrite) -> bool {
        let Some(other) = failed.rival.and_then(|rival| self.striped_writes.get_mut(rival)) else { return false };
        other.rival = None;
        self.hedge_due_us = self.now.mono_us;
        true
    }
}
