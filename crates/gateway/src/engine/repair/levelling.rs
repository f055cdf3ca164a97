//! Which chunks should move: all of nodes that drain, and some of nodes that hold more than others.
//!
//! ```text
//! bytes in use  |####      |####......|####      |####      |####     .|     mean: of the nodes of one coding set
//!               |##########|##########|##########|##########|##        |
//!                 gives      gives      gives      gives      takes
//! ```
//! Each engine sees how much every node has in use, whoever uses it, and moves its own share of what is too much: the
//! share that its chunks have in the node's bytes. So engines need not talk to each other, and together they move what
//! must be moved, once. It begins when the same node is further off the mean than `LEVEL_BEGIN_PERCENT` at
//! `LEVEL_BEGIN_LOOKS` looks in a row, and ends below `LEVEL_END_PERCENT`: what writes and cleaning cause for a moment
//! moves nothing.
//!
//! Must not know: how a chunk moves (see `moving`).

use std::collections::{BTreeMap, BTreeSet};

use shorttail_units::{CodeShape, NodeId, StripeId};

use super::losing::Walk;
use super::moving::Planned;
use crate::engine::Engine;
use crate::engine::limits::{
    LEVEL_BEGIN_CHUNKS, LEVEL_BEGIN_LOOKS, LEVEL_BEGIN_PERCENT, LEVEL_END_CHUNKS, LEVEL_END_PERCENT, LEVEL_LOOK_US,
    LEVEL_REST_US, MOVE_PLAN_MAX,
};
use crate::engine::sessions::nodes::Node;

/// What nodes have too much, and what they could take, in bytes.
#[derive(Debug, Default)]
struct Quotas {
    gives: BTreeMap<NodeId, u64>,
    takes: BTreeMap<NodeId, u64>,
}

/// Of the mean.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Side {
    Above,
    Below,
}

/// Nodes that were off the mean at every one of the last looks.
#[derive(Debug, Default)]
pub(super) struct Off {
    nodes: BTreeSet<(NodeId, Side)>,
    looks: u32,
}

impl Off {
    /// Returns at how many looks in a row some node was off, this one included.
    fn look(&mut self, now: BTreeSet<(NodeId, Side)>) -> u32 {
        let still: BTreeSet<_> = now.intersection(&self.nodes).copied().collect();
        *self = match (still.is_empty(), now.is_empty()) {
            (false, _) => Off { nodes: still, looks: self.looks.saturating_add(1) },
            (true, false) => Off { nodes: now, looks: 1 },
            (true, true) => Off::default(),
        };
        self.looks
    }
}

/// Nodes that are compared with each other, and the bytes in use on each.
type Group = Vec<(NodeId, u64)>;

impl Engine {
    /// Open stripes leave nodes that drain: they are sealed as they are, and move then.
    pub(super) fn leave_draining(&mut self) {
        if self.moves.draining.is_empty() || !self.can_spare_draining() {
            return;
        }
        let is_left = |node: &NodeId| self.moves.draining.contains(node);
        let open = self.logs.values().flat_map(|log| log.open.iter().copied());
        let left = open.filter(|&slot| self.stripes.at(slot).members.iter().any(is_left));
        left.collect::<Vec<_>>().into_iter().for_each(|slot| self.retire(slot));
    }

    /// Looks at what should move. The rest of what a drain noted in part is looked at at once; a look from the
    /// beginning, and at loads, is due when every node told what it has in use.
    pub(super) fn plan_moves(&mut self) {
        let is_due = self.now.mono_us >= self.moves.due_us;
        if is_due {
            self.moves.due_us = self.now.mono_us + LEVEL_LOOK_US;
        }
        if self.repair.is_pressing() {
            return;
        }
        if !self.moves.is_amid_drain() {
            self.moves.stranding_count = 0;
        }
        self.plan_draining(is_due);
        if self.moves.plan.is_empty() && is_due {
            self.plan_levelling();
        }
        if self.moves.plan.is_empty() {
            self.moves.stranded_count = self.moves.stranding_count;
        }
    }

    /// Chunks on nodes that drain, or that are away: what would be lost with them. A chunk that was lost with a node is
    /// that node's until it is rebuilt, whoever is to have it; whose those were that an earlier owner began with is not
    /// known, so they are everybody's who was given up. What is on its way to a node will be there.
    pub(super) fn count_left(&mut self) {
        let nodes = self.nodes.iter().map(|node| node.id);
        let counted = nodes.filter(|&node| self.moves.draining.contains(&node) || !self.nodes.is_reachable(node));
        let mut left: BTreeMap<NodeId, u64> = counted.map(|node| (node, 0)).collect();
        if !left.is_empty() {
            self.visit_chunks(|_, members, _, _| {
                for node in members {
                    if let Some(count) = left.get_mut(node) {
                        *count += 1;
                    }
                }
            });
        }
        for target in self.moves.targets().chain(self.repair.orders.targets_told_of()) {
            left.entry(target).and_modify(|count| *count += 1);
        }
        for had_by in self.repair.had_by() {
            let had_it = |node: NodeId| had_by.map_or_else(|| self.has_lost_memory(node), |had_by| node == had_by);
            left.iter_mut().filter(|(node, _)| had_it(**node)).for_each(|(_, count)| *count += 1);
        }
        self.moves.left = left;
        let is_empty = |node: &&NodeId| self.moves.left.get(node) == Some(&0);
        self.moves.told_empty = self.moves.draining.iter().filter(is_empty).copied().collect();
    }

    /// Goes on where the last look ended, so that what cannot move holds up nothing behind it.
    fn plan_draining(&mut self, may_begin: bool) {
        if self.moves.draining.is_empty() {
            return;
        }
        let begin = std::mem::take(&mut self.moves.drain_walk);
        let mut plan = self.plan_draining_from(begin);
        if plan.is_empty() && may_begin && begin != Walk::default() {
            self.moves.stranding_count = 0;
            plan = self.plan_draining_from(Walk::default());
        }
        self.moves.plan = plan.into();
    }

    fn plan_draining_from(&mut self, mut walk: Walk) -> Vec<Planned> {
        let mut plan = Vec::new();
        // Those of one that is away stay until it is back.
        let drains = |node: &&NodeId| self.moves.draining.contains(node) && self.nodes.is_ready(**node);
        while plan.len() < MOVE_PLAN_MAX {
            let looks_max = MOVE_PLAN_MAX - plan.len();
            let is_over = self.walk_stripes(&mut walk, looks_max, |stripe, members, _| {
                plan.extend(members.iter().find(drains).map(|&from| Planned { stripe, from, to: None }));
            });
            if is_over {
                return plan;
            }
        }
        self.moves.drain_walk = walk;
        plan
    }

    fn plan_levelling(&mut self) {
        let groups = self.level_groups();
        let off = |group: &Group| self.off_mean(group, LEVEL_BEGIN_PERCENT, LEVEL_BEGIN_CHUNKS).collect::<Vec<_>>();
        let off = groups.iter().flat_map(off).collect();
        let begins = self.moves.off.look(off) >= LEVEL_BEGIN_LOOKS;
        if !self.moves.is_levelling && !begins {
            return;
        }
        let goes_on = |group: &Group| self.off_mean(group, LEVEL_END_PERCENT, LEVEL_END_CHUNKS).next().is_some();
        let groups: Vec<Group> = groups.into_iter().filter(goes_on).collect();
        self.moves.is_levelling = !groups.is_empty();
        let mut quotas = self.quotas(&groups);
        let mut plan = Vec::new();
        self.visit_chunks(|stripe, members, shape, is_sealed| {
            if is_sealed && plan.len() < MOVE_PLAN_MAX {
                plan.extend(self.plan_one(stripe, members, shape, &mut quotas));
            }
        });
        if plan.is_empty() {
            // Nothing that may be moved would help.
            self.moves.is_levelling = false;
            self.moves.due_us = self.now.mono_us + LEVEL_REST_US;
        }
        self.moves.plan = plan.into();
    }

    /// Nodes that may take each other's chunks: all, or with coding sets those of a set.
    fn level_groups(&self) -> Vec<Group> {
        let mut groups: BTreeMap<Option<usize>, Group> = BTreeMap::new();
        let stays = |id: &NodeId| self.nodes.is_ready(*id) && !self.moves.draining.contains(id);
        for node in self.nodes.iter().filter(|node| stays(&node.id)) {
            groups.entry(self.domains.set_of(node.id)).or_default().push((node.id, node.held_bytes()));
        }
        groups.into_values().collect()
    }

    /// Nodes that have too much or too little.
    fn off_mean(&self, group: &Group, percent: u64, chunks: u64) -> impl Iterator<Item = (NodeId, Side)> {
        let mean = mean_of(group);
        let bearable = (mean * percent / 100).max(chunks * self.chunk_room_bytes(self.config.chunk_bytes));
        let off = group.iter().filter(move |&&(_, used)| used.abs_diff(mean) > bearable);
        off.map(move |&(node, used)| (node, if used > mean { Side::Above } else { Side::Below }))
    }

    /// This engine's share of what nodes have too much, and where that much is missing.
    fn quotas(&self, groups: &[Group]) -> Quotas {
        let mut own: BTreeMap<NodeId, u64> = BTreeMap::new();
        self.visit_chunk_bytes(|node, bytes| *own.entry(node).or_default() += bytes);
        let share =
            |part: u64, of: u64, whole: u64| (u128::from(part) * u128::from(of) / u128::from(whole.max(1))) as u64;
        let reserve = self.kept_bytes();
        let mut quotas = Quotas::default();
        for group in groups {
            let mean = mean_of(group);
            let excess: u64 = group.iter().map(|&(_, used)| used.saturating_sub(mean)).sum();
            let mut total = 0;
            for &(node, used) in group.iter().filter(|(_, used)| *used > mean) {
                let held = own.get(&node).copied().unwrap_or(0);
                let quota = share(used - mean, held.min(used), used);
                total += quota;
                quotas.gives.insert(node, quota);
            }
            for &(node, used) in group.iter().filter(|(_, used)| *used < mean) {
                let room = self.nodes.get(node).map_or(0, Node::free_bytes);
                quotas.takes.insert(node, share((mean - used).min(room.saturating_sub(reserve)), total, excess));
            }
        }
        quotas
    }

    /// The chunk of a stripe that should rather go than stay, if there is one.
    fn plan_one(&self, stripe: StripeId, members: &[NodeId], shape: CodeShape, quotas: &mut Quotas) -> Option<Planned> {
        let bytes = self.bytes_of_chunk(stripe)?;
        let is_worth = |quota: u64| quota >= bytes / 2;
        let gives = members.iter().filter_map(|&node| Some((*quotas.gives.get(&node)?, node)));
        let (_, from) = gives.filter(|&(quota, _)| is_worth(quota)).max()?;
        let may_take = |node: NodeId| {
            !members.contains(&node)
                && self.domains.set_of(node) == self.domains.set_of(from)
                && !self.moves.is_refused(stripe, node)
                && !self.is_to_free(node, stripe)
                && self.is_no_worse(members, from, node, shape)
        };
        let takes = quotas.takes.iter().map(|(&node, &quota)| (quota, node));
        let (_, to) = takes.filter(|&(quota, node)| is_worth(quota) && may_take(node)).max()?;
        for quota in [quotas.gives.get_mut(&from), quotas.takes.get_mut(&to)].into_iter().flatten() {
            *quota = quota.saturating_sub(bytes);
        }
        Some(Planned { stripe, from, to: Some(to) })
    }

    /// Does the stripe have no more chunks in one failure domain when one goes from here to there than it may, or had?
    pub(in crate::engine) fn is_no_worse(
        &self,
        members: &[NodeId],
        from: NodeId,
        to: NodeId,
        shape: CodeShape,
    ) -> bool {
        let (leaves, enters) = (self.domains.domain_of(from), self.domains.domain_of(to));
        let Some(domain) = enters.filter(|_| enters != leaves) else { return true };
        let held = |domain| members.iter().filter(|&&node| self.domains.domain_of(node) == Some(domain)).count();
        let before = leaves.map_or(0, held);
        held(domain) < shape.tolerance().max(before).max(1)
    }

    /// What a chunk of a sealed stripe takes on its node.
    fn bytes_of_chunk(&self, stripe: StripeId) -> Option<u64> {
        let payload_bytes = match self.stripes.slot_of(stripe) {
            Some(_) => self.config.chunk_bytes,
            None => self.striped_of(stripe)?.1.manifest.piece_bytes,
        };
        Some(self.chunk_room_bytes(payload_bytes))
    }

    fn visit_chunk_bytes(&self, mut visit: impl FnMut(NodeId, u64)) {
        self.visit_chunks(|stripe, members, _, _| {
            let bytes = self.bytes_of_chunk(stripe).unwrap_or(0);
            members.iter().for_each(|&node| visit(node, bytes));
        });
    }

    /// Every stripe, its members, its code, and whether it is sealed.
    fn visit_chunks(&self, mut visit: impl FnMut(StripeId, &[NodeId], CodeShape, bool)) {
        for (_, stripe) in self.stripes.iter() {
            visit(stripe.id, &stripe.members, self.config.shape, self.is_to_stay_whole(stripe));
        }
        for object in self.striped.values() {
            for stripe in object.stripes() {
                visit(stripe, &object.members_of(stripe).1, object.manifest.shape, true);
            }
        }
    }
}

fn mean_of(group: &Group) -> u64 {
    group.iter().map(|&(_, used)| used).sum::<u64>() / group.len().max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::state::testing::engine_of_ready_nodes;

    /// As nothing of a stripe may be lost, whoever fails with others is no worse than who fails alone.
    #[test]
    fn of_a_code_without_parity_chunks_go_to_any_domain_that_has_none() {
        let shape = CodeShape::reed_solomon(3, 0).expect("a code");
        let mut engine = engine_of_ready_nodes(shape, 5);
        engine.handle_domain(NodeId(1), "a");
        engine.handle_domain(NodeId(3), "a");
        engine.handle_domain(NodeId(4), "b");
        let is_no_worse = |to| engine.is_no_worse(&[0, 1, 2].map(NodeId), NodeId(0), NodeId(to), shape);
        assert_eq!([3, 4].map(is_no_worse), [false, true]);
    }

    #[test]
    fn only_a_node_that_stays_off_the_mean_counts() {
        let mut off = Off::default();
        let mut look = |nodes: &[(u16, Side)]| off.look(nodes.iter().map(|&(id, side)| (NodeId(id), side)).collect());
        assert_eq!(look(&[(1, Side::Above), (2, Side::Below)]), 1);
        assert_eq!(look(&[(1, Side::Below), (3, Side::Above)]), 1, "others, or another side");
        assert_eq!(look(&[(1, Side::Below), (4, Side::Above)]), 2);
        assert_eq!(look(&[(4, Side::Above)]), 1, "4 came later");
        assert_eq!(look(&[]), 0);
        assert_eq!((0..3).map(|_| look(&[(7, Side::Below)])).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
