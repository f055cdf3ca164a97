//! Orders to rebuild chunks that this core took and that are not over.
//!
//! An order counts as long as its session lasts, its chunk is not freed, and the session orders none of another
//! configuration. What comes of one that does not count is dropped: so an order that outlasts the mark of a free (see
//! the store's `freed`) has no late effect (rule R11).
//!
//! Must not know: how a chunk is rebuilt, and by whom.

use std::collections::BTreeMap;

use shorttail_units::{Configuration, StripeId};
use shorttail_wire::node::ChunkDescription;

#[derive(Debug, Default)]
pub(crate) struct TakenOrders {
    /// Configuration and index of the chunk, by stripe and session.
    orders: BTreeMap<(StripeId, u64), (Configuration, u8)>,
}

impl TakenOrders {
    /// Is this very chunk being rebuilt for this session?
    pub fn has(&self, session: u64, chunk: &ChunkDescription) -> bool {
        self.orders.get(&(chunk.stripe, session)) == Some(&(chunk.configuration, chunk.index))
    }

    pub fn take(&mut self, session: u64, chunk: &ChunkDescription) {
        self.orders.insert((chunk.stripe, session), (chunk.configuration, chunk.index));
    }

    /// The order is over: did it count?
    pub fn end(&mut self, session: u64, chunk: &ChunkDescription) -> bool {
        self.has(session, chunk) && self.orders.remove(&(chunk.stripe, session)).is_some()
    }

    /// Chunks of `count` stripes from this one on are freed, up to this configuration.
    pub fn free(&mut self, first: StripeId, count: u32, up_to: Configuration) {
        let end = StripeId::from_raw(first.raw().saturating_add(u64::from(count)));
        self.orders.extract_if((first, 0)..(end, 0), |_, (configuration, _)| *configuration <= up_to).for_each(drop);
    }

    pub fn forget_session(&mut self, session: u64) {
        self.orders.retain(|&(_, other), _| other != session);
    }
}
