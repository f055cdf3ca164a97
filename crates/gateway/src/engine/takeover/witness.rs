//! Memories that are younger than the store and yet lack nothing: they are told so.
//!
//! ```text
//! fenced: joined late --> nothing is missing anywhere --> told: as if it had been there from the first stripe on
//! ```
//! A new owner may take a memory that joined late for one that lost its chunks, and waits for every node that may tell
//! of these alone (see `recovery`). Of a store in which each node lost its memory once, or came later, it would wait
//! for the last node at every take-over, however long ago everything was rebuilt. When an owner misses no chunk, such a
//! memory has all that it was to have: a stripe that it holds nothing of it was never given, or has freed.
//!
//! The word goes to the memory that is meant or to none: it goes by a session whose node was scanned, and ends with it.
//!
//! Must not know: what a new owner concludes.

use shorttail_units::StripeId;
use shorttail_wire::node::NodeRequest;

use crate::engine::limits::WITNESSES_EVERY_US;
use crate::engine::sessions::nodes::{Node, SessionId};
use crate::engine::{CORE_SHIFT, Engine, What};

/// Is there no older id? Then a memory that joined at it can have lost nothing.
pub(in crate::engine) fn is_first_id(id: StripeId) -> bool {
    id.epoch().0 <= 1 && id.counter() & ((1 << CORE_SHIFT) - 1) <= 1
}

impl Engine {
    /// Tells those that joined late, if nothing is missing: looked at now and then.
    pub(super) fn tell_witnesses(&mut self) {
        if self.now.mono_us < self.ownership.witnesses_due_us {
            return;
        }
        self.ownership.witnesses_due_us = self.now.mono_us + WITNESSES_EVERY_US;
        let late = self.joined_late();
        // Of a lost stripe chunks are missing for good, and nobody looks for them. Nor for those of an emptied one,
        // which counts until it is known to be void.
        let may_lack = self.has_losses() || self.voids.emptied().next().is_some() || self.repair.may_miss();
        if late.is_empty() || may_lack || !self.is_whole() {
            return;
        }
        let (epoch, next) = (self.config.epoch, StripeId::from_raw(0));
        for id in late {
            let partitions = self.nodes.session_mut(id).map(|session| std::mem::take(&mut session.joined_late));
            for partition in partitions.into_iter().flatten() {
                // What it answers changes nothing here. If it is not answered, the next session tells it again.
                let fence = NodeRequest::Fence { partition: partition.0, epoch, next };
                self.ask_session(id, &fence, What::Nothing);
            }
        }
    }

    fn joined_late(&self) -> Vec<SessionId> {
        let ready = self.nodes.iter().filter(|node| self.nodes.is_ready(node.id));
        let late = ready.flat_map(Node::sessions_by_id).filter(|(_, session)| !session.joined_late.is_empty());
        late.map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::{CodeShape, Epoch, NodeId, PartitionId};

    use super::*;
    use crate::engine::reclaim::freeing::VoidRecord;
    use crate::engine::state::testing::engine_of_ready_nodes;

    #[test]
    fn nobody_is_told_while_an_emptied_stripe_may_lack_a_chunk() {
        let shape = CodeShape::reed_solomon(1, 1).expect("a code");
        let mut engine = engine_of_ready_nodes(shape, 2);
        let late = SessionId { node: NodeId(0), core: 0 };
        engine.nodes.session_mut(late).expect("a session").joined_late = vec![PartitionId(0)];
        let (emptied, members) = (StripeId::new(Epoch(1), 5), [NodeId(0), NodeId(1)].into());
        engine.declare_void_of(emptied, PartitionId(0), members);
        engine.tell_witnesses();
        assert_eq!(engine.joined_late(), [late], "the record that says so is not durable");
        engine.void_confirmed(emptied, VoidRecord { at: StripeId::new(Epoch(2), 9), bytes: 30 });
        engine.ownership.witnesses_due_us = 0;
        engine.tell_witnesses();
        assert_eq!(engine.joined_late(), []);
    }
}
