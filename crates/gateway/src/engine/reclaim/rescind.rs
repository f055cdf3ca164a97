//! Ending a stripe that was never sealed, without any memory: it is closed at operation 0 on every member.
//!
//! ```text
//! emptied --all members here: Close(epoch, 0) to each--> all did: gone, chunks are freed
//!    |                 '--one refuses or is lost--.
//!    '--a member is away--------------------------'--> declared void by a record, see `freeing`
//! ```
//! A void record needs room in a younger stripe. When memory is full and nodes come and go, each stripe that is opened
//! for it may have to be left in turn; then only this way gives memory back. It is also the cheaper one.
//!
//! One of an earlier owner was closed where its operations end; the same epoch may close it at 0 once it is emptied.
//!
//! Until every member has closed it the stripe exists. From then on whoever finds a chunk of it finds nothing in it
//! (rule R4), so that nothing returns from the dead.

use std::collections::BTreeSet;

use shorttail_units::{NodeId, OpNumber, StripeId};
use shorttail_wire::node::{NodeRequest, Refusal};

use crate::engine::state::index::StripeSlot;
use crate::engine::{Engine, What, Work};

impl Engine {
    /// Starts to close an emptied stripe on its members; false: it cannot be done now.
    pub(super) fn rescind(&mut self, slot: StripeSlot) -> bool {
        let stripe = self.stripes.at(slot);
        let (id, members) = (stripe.id, stripe.members.clone());
        let is_here = |node: &NodeId| self.nodes.is_ready(*node) || self.is_gone(*node);
        if stripe.open.is_none() || !members.iter().all(is_here) {
            return false;
        }
        let asked: BTreeSet<NodeId> = members.iter().copied().filter(|&node| !self.is_gone(node)).collect();
        let (epoch, last) = (self.config.epoch, OpNumber(0));
        for &node in &asked {
            self.ask(node, id, &NodeRequest::Close { stripe: id, epoch, last }, What::Rescind { stripe: id });
        }
        self.voids.await_closes(id, asked);
        self.work.push_back(Work::Rescinded(id));
        true
    }

    /// A member answered, or is lost (`None`). One that has no chunk has nothing to close.
    pub(in crate::engine) fn rescind_answered(
        &mut self,
        node: NodeId,
        id: StripeId,
        result: Result<(), Option<Refusal>>,
    ) {
        match result {
            Ok(()) | Err(Some(Refusal::NoChunk)) => self.voids.closed(id, node),
            // It is late or gone: tried again.
            Err(None) => self.voids.not_closed(id, true),
            // It sealed its chunk before the stripe was left, or lost the chunk's head: it will refuse again.
            Err(Some(_)) => self.voids.not_closed(id, false),
        }
        self.end_rescinding(id);
    }

    /// When every member has closed the stripe, it is gone.
    pub(in crate::engine) fn end_rescinding(&mut self, id: StripeId) {
        let Some((partition, members)) = self.voids.take_rescinded(id) else { return };
        self.forget_stripe(id);
        for &node in members.iter() {
            self.free_on(node, id, partition);
        }
        self.end_completing_when_done();
    }
}
