//! Writes go round slow nodes: who holds the chunks of a new stripe.
//!
//! Must not know: records, how a stripe is filled.

use std::sync::Arc;

use shorttail_placement::{Candidate, List, Wish, choose};
use shorttail_units::{CodeShape, NodeId, PartitionId};
use smallvec::SmallVec;

use super::log::PlaceError;
use crate::engine::Engine;
use crate::engine::limits::CRAMPED_STRIPES;
use crate::engine::sessions::nodes::Node;

impl Engine {
    /// Is the node better left alone by writes?
    pub(in crate::engine) fn is_evaded(&self, node: NodeId) -> bool {
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

    /// Members for what takes so many bytes of a core of each: ready nodes with room beside what they keep, by the rule
    /// of placement; evaded ones give their place to those that did so least often (ShortTail 3.2.2), as far as there
    /// are others.
    pub(in crate::engine) fn choose_members(
        &mut self,
        shape: CodeShape,
        core_bytes: u64,
        sidesteps: bool,
    ) -> Result<Arc<[NodeId]>, PlaceError> {
        self.too_few_nodes()?;
        let needed = core_bytes + self.kept_bytes();
        let has_room = |node: &&Node| node.free_bytes() >= needed;
        let candidates: Vec<_> = self
            .taking_nodes()
            .filter(has_room)
            .map(|node| Candidate { is_evaded: sidesteps && self.is_evaded(node.id), ..self.candidate(node) })
            .collect();
        let wish = Wish { shape, turn: self.next_stripe, seed: self.place_seed() };
        let choice = choose(self.domains.placement(), &List::new(candidates), &wish);
        let choice = choice.ok_or(PlaceError::Wait)?;
        self.stats.totals.redirected_writes_total += choice.stand_ins.len() as u64;
        for &node in &choice.stand_ins {
            if let Some(node) = self.nodes.get_mut(node) {
                node.redirect_count += 1;
            }
        }
        Ok(choice.members.into())
    }

    /// Members with most room that the placement allows, slow ones too. Unless the last of it is at stake, what is
    /// being emptied counts as room: else cleaning would, burst by burst, fill a node on which nothing is emptied.
    pub(super) fn choose_roomiest(&self, shape: CodeShape, chunk_bytes: u64) -> Result<Arc<[NodeId]>, PlaceError> {
        self.too_few_nodes()?;
        let able = self.taking_nodes().filter(|node| node.free_bytes() >= chunk_bytes);
        let rooms = if self.spare_stripes() > CRAMPED_STRIPES + 1 { self.rooms_to_come() } else { SmallVec::new() };
        let room_of = |node: &Node| {
            let to_come = rooms.binary_search_by_key(&node.id, |&(id, _)| id).map(|place| rooms[place].1 * chunk_bytes);
            to_come.unwrap_or_else(|_| node.free_bytes())
        };
        let by_room = |node: &Node| Candidate { load: u64::MAX - room_of(node), ..self.candidate(node) };
        let wish = Wish { shape, turn: self.next_stripe, seed: self.place_seed() };
        let choice = choose(self.domains.placement(), &List::new(able.map(by_room).collect()), &wish);
        Ok(choice.ok_or(PlaceError::Wait)?.members.into())
    }

    /// A node as placement sees it.
    pub(in crate::engine) fn candidate(&self, node: &Node) -> Candidate {
        Candidate {
            node: node.id,
            load: node.used_bytes(),
            is_evaded: false,
            redirect_count: node.redirect_count,
            domain: self.domains.domain_of(node.id),
            set: self.domains.set_of(node.id),
        }
    }

    /// Other owners draw other nodes.
    pub(super) fn place_seed(&self) -> u64 {
        let owner = u64::from(self.config.epoch.0) << 16 | u64::from(self.config.core);
        owner.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ self.next_stripe
    }

    /// Does a partition's log go round slow nodes? One that is only metadata does so whatever else the policy says.
    pub(super) fn log_sidesteps(&self, partition: PartitionId) -> bool {
        let policy = self.policy(partition);
        policy.write_sidestep || policy.log_is_metadata()
    }
}
