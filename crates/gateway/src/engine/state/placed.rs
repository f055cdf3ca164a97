//! What an owner has put where, for those who compare it with what is there: simulation and tests.
//!
//! Must not know: nodes beyond their numbers. Nothing is decided by what is told here.

use std::collections::BTreeSet;

use shorttail_units::{Incarnation, NodeId, StripeId};

use crate::engine::{Engine, What};

impl Engine {
    /// What is under way with a node: stripes that have it as a member and were never sealed, be it that they are
    /// emptied, and those of which it owes an answer to an open, an install or a seal.
    pub fn unsettled_with(&self, node: NodeId) -> BTreeSet<StripeId> {
        let unsealed = self.stripes.iter().map(|(_, stripe)| stripe).filter(|stripe| stripe.open.is_some());
        let of_node = unsealed.filter(|stripe| stripe.member_of(node).is_some()).map(|stripe| stripe.id);
        let owed = self.awaited.iter().filter(|(_, awaited)| awaited.session.node == node);
        let owed = owed.filter_map(|(_, awaited)| match awaited.what {
            What::Open { stripe } | What::Seal { stripe } => Some(stripe),
            What::Install { write, number } => {
                let write = self.striped_writes.get(write)?;
                Some(StripeId::from_raw(write.manifest.first.raw() + u64::from(number)))
            }
            _ => None,
        });
        of_node.chain(owed).collect()
    }

    /// Whose memory it is that a node answered with last.
    pub fn incarnation_of(&self, node: NodeId) -> Option<Incarnation> {
        self.nodes.get(node)?.incarnation
    }

    /// Chunks of what is sealed, with the nodes that are to hold them.
    pub fn chunks_placed(&self) -> Vec<(StripeId, NodeId)> {
        let packed = self.stripes.iter().map(|(_, stripe)| stripe).filter(|stripe| self.is_to_stay_whole(stripe));
        let packed = packed.flat_map(|stripe| stripe.members.iter().map(|&node| (stripe.id, node)));
        let in_flight = self.striped_in_flight();
        let objects = self.striped.iter().filter(|(first, _)| !in_flight.contains(first)).map(|(_, object)| object);
        let striped = objects.flat_map(|object| {
            let stripes = object.stripes();
            stripes.flat_map(|id| object.members_of(id).1.iter().map(|&node| (id, node)).collect::<Vec<_>>())
        });
        packed.chain(striped).collect()
    }
}
