//! Writes go round slow nodes: who holds the chunks of a new stripe.
//!
//! Must not know: records, how a stripe is filled.

use std::sync::Arc;

use shorttail_placement::{Candidate, choose_around};
use shorttail_units::{CodeShape, NodeId, PartitionId};

use super::Engine;
use super::log::PlaceError;
use crate::command::Command;

impl<C: Command> Engine<C> {
    /// Is the node better left alone by writes?
    pub(super) fn is_evaded(&self, node: NodeId) -> bool {
        self.lateness_us(node) > 0
    }

    /// How long a write would wait for the node, as far as is known: 0 is as long as usual.
    pub(super) fn lateness_us(&self, id: NodeId) -> u64 {
        if self.monitor.is_fail_slow(id) || self.is_full(id) {
            return u64::MAX;
        }
        let since_us = self.nodes.get(id).and_then(|node| node.write_late_us);
        since_us.map_or(0, |since_us| (self.now.mono_us - since_us).max(1))
    }

    /// Members for a new stripe: ready nodes with room, the least loaded ones; evaded ones give their place to those that
    /// did so least often (ShortTail 3.2.2), as far as there are others.
    pub(super) fn choose_members(
        &mut self,
        shape: CodeShape,
        chunk_bytes: u64,
        sidesteps: bool,
    ) -> Result<Arc<[NodeId]>, PlaceError> {
        self.too_few_nodes()?;
        let has_room = |node: &&super::nodes::Node| node.free_bytes() >= chunk_bytes;
        let ready = self.nodes.iter().filter(|node| self.nodes.is_ready(node.id));
        let candidates: Vec<_> = ready
            .filter(has_room)
            .map(|node| Candidate {
                node: node.id,
                load: node.used_bytes(),
                is_evaded: sidesteps && self.is_evaded(node.id),
                redirect_count: node.redirect_count,
            })
            .collect();
        let choice = choose_around(&candidates, shape.chunk_count(), self.next_stripe);
        let choice = choice.ok_or(PlaceError::Wait)?;
        self.stats.redirected_writes_total += choice.stand_ins.len() as u64;
        for &node in &choice.stand_ins {
            if let Some(node) = self.nodes.get_mut(node) {
                node.redirect_count += 1;
            }
        }
        Ok(choice.members.into())
    }

    /// Does a partition's log go round slow nodes? One that is only metadata does so whatever else the policy says.
    pub(super) fn log_sidesteps(&self, partition: PartitionId) -> bool {
        let policy = self.policy(partition);
        policy.write_sidestep || policy.log_is_metadata()
    }
}
