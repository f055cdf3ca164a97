//! Striped writes that are late: all pieces again beside the first attempt, on members that are not late.
//!
//! ```text
//! an install late --> second attempt: stripe ids and members of its own
//!   one attempt is whole --> its manifest is appended; the pieces of the other are freed
//!   one attempt fails    --> its pieces are freed; the other goes on alone, and is raced again when it is late
//!   both are late        --> the one with fewer pieces is given up, and a third one begins beside the other
//! ```
//! So two are under way at most, and each new one goes round one more node that is late; how many there may be is
//! bounded.
//!
//! No record names an attempt before it is whole (rule R8), and one is named at most. So the loser never was an object:
//! a new owner finds pieces without a manifest, and frees them. A piece that is still on its way to a slow node meets
//! the free's mark there (rule R11).
//!
//! Values that are overwritten in place are not raced: where they lie is their point.
//!
//! Must not know: how a value is cut.

use std::sync::Arc;

use shorttail_monitor::Class;
use shorttail_policy::{Hedge, Update};
use shorttail_units::{CodeShape, NodeId, PartitionId};

use super::striped::{ATTEMPTS_MAX, StripedWrite, Task};
use crate::engine::limits::HEDGE_RETRY_US;
use crate::engine::sessions::nodes::Node;
use crate::engine::state::pool::PoolKey;
use crate::engine::{Engine, What};

impl Engine {
    /// Are late striped writes of this partition raced?
    pub(super) fn races_values(&self, partition: PartitionId) -> bool {
        self.values_sidestep(partition) && self.policy(partition).hedge == Hedge::Adaptive
    }

    fn values_sidestep(&self, partition: PartitionId) -> bool {
        let policy = self.policy(partition);
        policy.write_sidestep && policy.update == Update::Log
    }

    /// Races what is late now.
    pub(in crate::engine) fn race_late_values(&mut self) {
        let writes = self.striped_writes.iter().filter(|(_, write)| self.races_values(write.task.partition));
        for key in writes.map(|(key, _)| key).collect::<Vec<_>>() {
            self.race_late_value(key);
        }
    }

    fn race_late_value(&mut self, key: PoolKey) {
        // It may have been given up meanwhile.
        let Some(write) = self.striped_writes.get(key) else { return };
        let (stripe_count, rival) = (write.manifest.stripe_count, write.rival);
        let mut is_known = true;
        for attempt in std::iter::once(key).chain(rival) {
            let late = self.who_holds_up(attempt);
            if late.is_empty() {
                return;
            }
            is_known &= late.iter().any(|&node| self.monitor.is_fail_slow(node));
        }
        // What a verdict causes takes no token.
        let tokens = if is_known { 0 } else { u64::from(stripe_count) };
        if !self.hedging.budget.has_tokens(tokens) {
            self.stats.totals.hedge_budget_exhausted_total += 1;
        } else if self.race_value(key) {
            (0..tokens).for_each(|_| _ = self.take_token());
            return;
        }
        self.hedging.look_at(self.now.mono_us + HEDGE_RETRY_US);
    }

    /// The nodes that an attempt waits for, if that is late; else it is noted when it will be.
    fn who_holds_up(&mut self, key: PoolKey) -> Vec<NodeId> {
        let Some(write) = self.striped_writes.get(key) else { return Vec::new() };
        // Stripes are sent in order: the first is the oldest.
        let Some((_, flight)) = write.flights.first_key_value() else { return Vec::new() };
        let (sent_us, piece_bytes) = (flight.sent_us, write.manifest.piece_bytes);
        let late: Vec<NodeId> = self.owing(write).collect();
        let delay_us = late.iter().map(|&node| self.write_delay_us(node, piece_bytes)).max().unwrap_or(0);
        let due_us = sent_us.saturating_add(delay_us);
        if due_us > self.now.mono_us {
            self.hedging.look_at(due_us);
            return Vec::new();
        }
        self.note_late_writers(&late, sent_us);
        late
    }

    /// Every striped write that waits for a fail-slow node is raced, without a token; of two attempts, if both do.
    pub(in crate::engine) fn race_values_of(&mut self, node: NodeId) {
        for key in self.striped_writes.iter().map(|(key, _)| key).collect::<Vec<_>>() {
            if self.waits_in_vain(key, node) {
                self.race_value(key);
            }
        }
    }

    /// Does an attempt wait for this node, and the other one, if there is one, for a fail-slow one?
    fn waits_in_vain(&self, key: PoolKey, node: NodeId) -> bool {
        let Some(write) = self.striped_writes.get(key) else { return false };
        let rival = write.rival.and_then(|rival| self.striped_writes.get(rival));
        let is_slow = |write: &StripedWrite| self.owing(write).any(|it| self.monitor.is_fail_slow(it));
        self.values_sidestep(write.task.partition)
            && self.owing(write).any(|it| it == node)
            && rival.is_none_or(is_slow)
    }

    /// Does the node owe an answer to an install that it was sent before this time, be it of an attempt that was given
    /// up?
    pub(super) fn owes_install(&self, node: NodeId, before_us: u64) -> bool {
        let is_late = |write: &StripedWrite| {
            let oldest = write.flights.first_key_value();
            oldest.is_some_and(|(_, flight)| flight.sent_us < before_us) && self.owing(write).any(|it| it == node)
        };
        let is_given_up = |tag: PoolKey| {
            let awaited = self.awaited.get(tag).filter(|awaited| awaited.what == What::Nothing);
            awaited.and_then(|awaited| awaited.ticket).is_some_and(|ticket| ticket.class() == Class::Write)
        };
        let sessions = self.nodes.get(node).into_iter().flat_map(|node| &node.sessions);
        let mut asked = sessions.flat_map(|session| session.asked.iter().take_while(|asked| asked.0 < before_us));
        self.striped_writes.iter().any(|(_, write)| is_late(write)) || asked.any(|&(_, tag)| is_given_up(tag))
    }

    /// Members that owe a piece of the oldest stripe under way.
    fn owing(&self, write: &StripedWrite) -> impl Iterator<Item = NodeId> {
        let oldest = write.flights.first_key_value();
        let tags = oldest.into_iter().flat_map(|(_, flight)| &flight.tags);
        tags.filter_map(|&tag| self.awaited.get(tag)).map(|awaited| awaited.session.node)
    }

    /// Begins one more attempt, if there are members for it that are not late. If two are under way, the one with fewer
    /// pieces ends.
    fn race_value(&mut self, key: PoolKey) -> bool {
        let Some(write) = self.striped_writes.get(key) else { return false };
        let rival = write.rival.and_then(|rival| Some((rival, self.striped_writes.get(rival)?)));
        let attempts = rival.map_or(0, |(_, rival)| rival.task.attempts).max(write.task.attempts) + 1;
        // One is left for the case that it fails.
        if attempts + 1 >= ATTEMPTS_MAX {
            return false;
        }
        let is_ahead = rival.is_some_and(|(_, rival)| rival.pieces_held() > write.pieces_held());
        let (task, rival) = (Task { attempts, ..write.task.clone() }, rival.map(|(rival, _)| rival));
        let core_bytes = self.striped_bytes_on_core(task.value.len(), task.layout);
        if self.striped_fits(core_bytes).is_err() {
            return false;
        }
        let Some(members) = self.members_not_late(task.layout.shape, core_bytes) else { return false };
        let (stays, goes) = if is_ahead { (rival, Some(key)) } else { (Some(key), rival) };
        if let Some(goes) = goes {
            self.drop_attempt(goes);
        }
        // It goes on alone if no other one begins, and is raced again.
        if let Some(write) = stays.and_then(|stays| self.striped_writes.get_mut(stays)) {
            write.rival = None;
        }
        let Some(next) = self.send_attempt(task, members) else { return false };
        if let Some(write) = self.striped_writes.get_mut(next) {
            (write.rival, write.is_second) = (stays, true);
        }
        if let Some(write) = stays.and_then(|stays| self.striped_writes.get_mut(stays)) {
            write.rival = Some(next);
        }
        true
    }

    /// Members of which none is late; `None` if there are not enough of them.
    fn members_not_late(&mut self, shape: CodeShape, core_bytes: u64) -> Option<Arc<[NodeId]>> {
        let needed = core_bytes + self.kept_bytes();
        let fits =
            |node: &Node| self.nodes.is_ready(node.id) && !self.is_evaded(node.id) && node.free_bytes() >= needed;
        if self.nodes.iter().filter(|node| fits(node)).count() < shape.chunk_count() {
            return None;
        }
        self.choose_members(shape, core_bytes, true).ok()
    }

    /// An attempt is whole: the other one ends.
    pub(super) fn win_striped_race(&mut self, winner: &StripedWrite) {
        if let Some(loser) = winner.rival {
            self.stats.totals.hedges_won_total += u64::from(winner.is_second);
            self.drop_attempt(loser);
        }
    }

    /// An attempt failed: does another one go on? It may be late as well by now, and have been for long.
    pub(super) fn leaves_striped_race(&mut self, failed: &StripedWrite) -> bool {
        let Some(other) = failed.rival.and_then(|rival| self.striped_writes.get_mut(rival)) else { return false };
        other.rival = None;
        self.hedging.due_us = self.now.mono_us;
        true
    }
}
