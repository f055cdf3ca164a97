//! A core's orders to rebuild are carried out beside it, where whoever does it may wait.
//!
//! ```text
//! core --Order, Forget-----> background (see there)
//!      <--Rebuilt, Forgotten--
//! ```
//! Every order that was passed on is answered by one or the other, so the core bounds how many there are. With an order
//! goes room for the chunk in the core's memory, if that can be written beside the core, and comes back with the
//! answer.
//!
//! Must not know: threads, how a chunk is decoded.

use std::collections::VecDeque;

use shorttail_store::Room;
use shorttail_wire::node::{ChunkDescription, Refusal, Source};

use crate::background::ToBackground;
use crate::limits::REBUILDS_MAX;
use crate::rebuild::check_order;

/// The core's part.
#[derive(Debug, Default)]
pub(crate) struct Rebuilding {
    /// Orders that were passed on and are not over.
    pub order_count: usize,
    /// Somebody carries them out.
    pub is_begun: bool,
    /// Whoever carries them out cannot write to this node's memory.
    pub has_no_room: bool,
    pub said: VecDeque<ToBackground>,
}

impl Rebuilding {
    /// Passes an order on; `reserve` is asked for room.
    ///
    /// # Errors
    /// `Busy`. `Invalid`: nothing proven can come of it. `Unreachable`: nobody carries it out.
    pub fn order(
        &mut self,
        session: u64,
        description: ChunkDescription,
        sources: Vec<Source>,
        reserve: impl FnOnce(&ChunkDescription) -> Option<Room>,
    ) -> Result<(), Refusal> {
        check_order(&description, &sources)?;
        if !self.is_begun {
            return Err(Refusal::Unreachable);
        }
        if self.order_count >= REBUILDS_MAX {
            return Err(Refusal::Busy);
        }
        self.order_count += 1;
        let room = if self.has_no_room { None } else { reserve(&description) };
        self.said.push_back(ToBackground::Order { session, description, sources, room });
        Ok(())
    }

    /// Nobody wants what the session ordered.
    pub fn forget_session(&mut self, session: u64) {
        if self.order_count > 0 {
            self.said.push_back(ToBackground::Forget { session });
        }
    }
}
