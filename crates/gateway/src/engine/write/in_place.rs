//! Who holds a value that is overwritten in place: the nodes of the value before, without those that cannot or should
//! not.
//!
//! Must not know: how the value is written.

use std::sync::Arc;

use shorttail_placement::{Candidate, Wish, choose_replacement};
use shorttail_policy::Update;
use shorttail_units::{CodeShape, NodeId, PartitionId};

use super::lock::{LockPhase, Old};
use super::object::OldRecord;
use crate::engine::Engine;
use crate::engine::sessions::nodes::Node;
use crate::engine::state::pool::PoolKey;

/// What is to be replaced: a member of a value that takes so many bytes of a core of each.
#[derive(Clone, Copy, Debug)]
struct Seat<'a> {
    members: &'a [NodeId],
    place: usize,
    shape: CodeShape,
    core_bytes: u64,
}

impl Engine {
    /// The nodes of the value that is overwritten in place, if the new one is coded alike. One that is dead is
    /// replaced; where writes go round slow nodes one that is fail-slow is too (ShortTail 3.2.2), as long as
    /// there are others.
    pub(super) fn members_in_place(
        &mut self,
        lock: PoolKey,
        partition: PartitionId,
        shape: CodeShape,
        core_bytes: u64,
    ) -> Option<Arc<[NodeId]>> {
        if self.policy(partition).update != Update::InPlace {
            return None;
        }
        let LockPhase::Writing(round) = &self.locks.get(lock)?.phase else { return None };
        let Old::Present(OldRecord { manifest: Some(old), .. }) = &round.old else { return None };
        if old.shape != shape {
            return None;
        }
        let mut members = self.striped.get(&old.first)?.members_of(old.first).1.to_vec();
        let sidesteps = self.policy(partition).write_sidestep;
        for place in 0..members.len() {
            let seat = Seat { members: &members, place, shape, core_bytes };
            if !self.nodes.is_reachable(members[place]) || self.is_leaving(members[place]) {
                members[place] = self.replacement(seat)?;
            } else if sidesteps && self.monitor.is_fail_slow(members[place]) {
                members[place] = self.stand_in(seat).unwrap_or(members[place]);
            }
        }
        Some(members.into())
    }

    /// The least loaded node that placement would have there.
    fn replacement(&self, seat: Seat<'_>) -> Option<NodeId> {
        self.first_allowed(seat, |node| node.used_bytes(), |_| false)
    }

    /// The node that takes a fail-slow one's place: of those that placement would have there and that are not, the one
    /// that did so least often. It is no worse for failure domains.
    fn stand_in(&mut self, seat: Seat<'_>) -> Option<NodeId> {
        let order = |node: &Node| (node.redirect_count, node.used_bytes());
        let id = self.first_allowed(seat, order, |node| self.is_evaded(node))?;
        if !self.is_no_worse(seat.members, seat.members[seat.place], id, seat.shape) {
            return None;
        }
        self.stats.totals.redirected_writes_total += 1;
        self.nodes.get_mut(id)?.redirect_count += 1;
        Some(id)
    }

    /// Of the nodes with room that are no members, those that are allowed there by failure domains and coding sets, and
    /// of these the first one.
    fn first_allowed<K: Ord>(
        &self,
        seat: Seat<'_>,
        order: impl Fn(&Node) -> K,
        is_evaded: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        let is_able = |node: &&Node| !seat.members.contains(&node.id) && node.free_bytes() >= seat.core_bytes;
        let mut able: Vec<&Node> = self.taking_nodes().filter(is_able).collect();
        able.sort_by_key(|node| (order(node), node.id));
        let ranked = (0..).zip(able);
        let candidate = |(rank, node): (u64, &Node)| Candidate {
            load: rank,
            is_evaded: is_evaded(node.id),
            ..self.candidate(node)
        };
        let candidates: Vec<Candidate> = ranked.map(candidate).collect();
        let others = seat.members.iter().enumerate().filter(|&(place, _)| place != seat.place);
        let others: Vec<_> =
            others.map(|(_, &node)| (self.domains.domain_of(node), self.domains.set_of(node))).collect();
        let wish = Wish { shape: seat.shape, turn: self.next_stripe, seed: self.place_seed() };
        choose_replacement(self.domains.placement(), &candidates, &others, &wish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::state::testing::engine_of_ready_nodes;

    /// A value on nodes 0 to 3 in RS(2,2), and four nodes more.
    fn engine(domains: &str) -> (Engine, Vec<NodeId>) {
        let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(2, 2).expect("a code"), 8);
        for (node, letter) in (0..).zip(domains.chars()) {
            engine.handle_domain(NodeId(node), &letter.to_string());
        }
        (engine, (0..4).map(NodeId).collect())
    }

    fn seat(members: &[NodeId]) -> Seat<'_> {
        let shape = CodeShape::reed_solomon(2, 2).expect("a code");
        Seat { members, place: 0, shape, core_bytes: 1 << 10 }
    }

    #[test]
    fn who_replaces_a_member_keeps_to_failure_domains() {
        let (mut engine, members) = engine("aabbbbba");
        assert_eq!(engine.replacement(seat(&members)), Some(NodeId(7)));
        assert_eq!(engine.stand_in(seat(&members)), Some(NodeId(7)));
    }

    #[test]
    fn nobody_stands_in_where_a_domain_would_hold_too_much() {
        let (mut engine, members) = engine("aabbbbbb");
        assert_eq!(engine.stand_in(seat(&members)), None);
        assert_eq!(engine.replacement(seat(&members)), Some(NodeId(4)), "to have a member comes first");
    }

    #[test]
    fn who_did_so_least_often_stands_in_unless_it_drains() {
        let (mut engine, members) = engine("abababab");
        let mut stand_ins = Vec::new();
        for draining in [None, None, None, None, Some(NodeId(4))] {
            engine.handle_draining(&draining.into_iter().collect());
            stand_ins.push(engine.stand_in(seat(&members)).expect("a node").0);
        }
        assert_eq!(stand_ins, [4, 6, 4, 6, 6]);
    }
}
