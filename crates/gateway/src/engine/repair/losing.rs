//! What a node had becomes lost some stripes at a time: there are tens of thousands, and clients wait for each look.
//!
//! ```text
//! given up --begin--> losing --each turn some stripes are looked at: lost-- all of them--> nothing pends
//!                        '-- it greets with another memory: the rest at once
//! ```
//! A stripe whose turn has not come has its chunk on a node that is not there: reads and orders go round it all the
//! same, and the node counts as missing something.
//!
//! Invariant: only stripes older than the loss are looked at; a younger one may be on the memory that the node has now.
//!
//! Must not know: what is done about what is lost.

use std::collections::VecDeque;

use shorttail_units::{CodeShape, NodeId, StripeId};
use smallvec::SmallVec;

use crate::engine::limits::LOSING_LOOKS_MAX;
use crate::engine::state::index::StripeSlot;
use crate::engine::{Engine, Phase};

/// How far a look at all stripes got: packed ones by their slots, then those of striped objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Walk {
    slot: usize,
    first: StripeId,
}

#[derive(Debug)]
struct Losing {
    node: NodeId,
    /// The first id that no stripe had yet.
    end: StripeId,
    walk: Walk,
}

/// Nodes whose chunks are becoming lost.
#[derive(Debug, Default)]
pub(in crate::engine) struct AllLosing(VecDeque<Losing>);

impl AllLosing {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }
}

impl Engine {
    /// The memory that a node had is gone, and with it the chunks of every stripe that it is a member of.
    pub(in crate::engine) fn lose_chunks_of(&mut self, node: NodeId) {
        if matches!(self.phase, Phase::Gathering(_)) {
            // What is inherited is looked at when all of it is known.
            return self.note_lost_of(node);
        }
        let end = self.next_stripe_id();
        // As many as on any other node: to grow the table of what is lost would keep clients waiting, too.
        self.repair
            .expect(self.stripes.slot_count() * self.config.shape.chunk_count() / self.nodes.iter().count().max(1));
        self.repair.losing.0.push_back(Losing { node, end, walk: Walk::default() });
        self.repair.is_away_stale = true;
    }

    /// As [`Engine::lose_chunks_of`], all of it at once: the node has another memory already.
    pub(in crate::engine) fn note_lost_of(&mut self, node: NodeId) {
        self.repair.losing.0.retain(|losing| losing.node != node);
        let lost = self.chunks_of(node);
        self.repair.mark_all(&lost);
        lost.into_iter().for_each(|(id, chunk, _)| self.note_had_by_unknown(id, chunk));
        // What is lost is not away.
        self.repair.is_away_stale = true;
    }

    /// Looks at some stripes of a node that was given up.
    pub(super) fn lose_some(&mut self) {
        let Some(mut losing) = self.repair.losing.0.pop_front() else { return };
        let mut lost = SmallVec::<[_; LOSING_LOOKS_MAX]>::new();
        let is_over = self.walk_stripes(&mut losing.walk, LOSING_LOOKS_MAX, |id, members, shape| {
            let place = members.iter().position(|&member| member == losing.node);
            lost.extend(place.filter(|_| id < losing.end).map(|place| (id, place, shape)));
        });
        lost.into_iter().for_each(|(id, place, shape)| self.repair.mark(id, place, shape));
        match is_over {
            true => self.repair.is_away_stale = true,
            false => self.repair.losing.0.push_front(losing),
        }
    }

    /// Looks at the next stripes that are sealed or of a striped object; true: those were the last.
    pub(super) fn walk_stripes(
        &self,
        walk: &mut Walk,
        looks_max: usize,
        mut look: impl FnMut(StripeId, &[NodeId], CodeShape),
    ) -> bool {
        let end = self.stripes.slot_count().min(walk.slot + looks_max);
        let mut looks = looks_max - (end - walk.slot.min(end));
        for stripe in (walk.slot..end).filter_map(|at| self.stripes.get(StripeSlot(at as u32))) {
            if self.is_to_stay_whole(stripe) {
                look(stripe.id, &stripe.members, self.config.shape);
            }
        }
        walk.slot = end;
        let mut objects = self.striped.range(walk.first..).peekable();
        while let Some((&first, object)) = objects.next_if(|_| looks > 0) {
            object.stripes().for_each(|id| look(id, &object.members_of(id).1, object.manifest.shape));
            walk.first = first.plus(1);
            looks -= object.stripes().count().min(looks);
        }
        end == self.stripes.slot_count() && objects.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shorttail_units::{Epoch, Incarnation, PartitionId};

    use super::*;
    use crate::engine::state::stripes::Stripe;
    use crate::engine::state::testing::engine_of_ready_nodes;

    /// The coordinator gives up no more nodes than may be missing, by what it is told.
    #[test]
    fn what_is_not_marked_yet_is_told() {
        let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
        let members: Arc<[NodeId]> = (0..6).map(NodeId).collect();
        for number in 0..100 {
            let id = StripeId::new(Epoch(1), number);
            engine.stripes.insert(Stripe::inherited(id, PartitionId(0), members.clone(), Box::from([0; 4])));
        }
        let told = |engine: &Engine| {
            let stats = engine.stats();
            (stats.totals.lost_of_readable_max, stats.totals.lost_of_stripe_max)
        };
        engine.handle_retired(NodeId(0), Incarnation(1));
        engine.handle_retired(NodeId(1), Incarnation(1));
        assert_eq!(told(&engine), (2, 2), "nothing was looked at");
        for looks in 0..7 {
            engine.lose_some();
            let (readable, all) = told(&engine);
            assert!(readable >= 2 && all >= 2, "after {looks} looks: {readable}, {all}");
        }
        while engine.repair.losing.count() > 0 {
            engine.lose_some();
        }
        assert_eq!(told(&engine), (2, 2), "all of it is marked");
    }
}
