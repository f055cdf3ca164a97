//! Where a core's orders to rebuild are carried out: here, in its own turns, or beside it, where whoever does it may
//! wait.
//!
//! ```text
//! core --Order, Forget--> beside it: [`Rebuilds`]
//!      <--Rebuilt, Forgotten------
//! ```
//! Every order that was passed on is answered by one or the other, so the core bounds how many there are. With an order
//! goes room for the chunk in the core's memory, if that can be written beside the core, and comes back with the
//! answer.
//!
//! Must not know: threads, how a chunk is decoded.

use std::collections::VecDeque;

use shorttail_store::Room;
use shorttail_wire::node::{ChunkDescription, Refusal, Source};

use crate::limits::REBUILDS_MAX;
use crate::rebuild::{Rebuilds, Rebuilt, check_order};

/// What a core tells whoever rebuilds for it.
#[derive(Debug)]
pub enum ToRebuilds {
    Order {
        session: u64,
        description: ChunkDescription,
        sources: Vec<Source>,
        room: Option<Room>,
    },
    Forget {
        session: u64,
    },
    /// What a rebuilt chunk came in: room for the next.
    Buffer(Vec<u8>),
}

/// What it is told.
#[derive(Debug)]
pub enum FromRebuilds {
    Rebuilt(Rebuilt),
    /// Orders that are not carried out, by the rooms for them.
    Forgotten(Vec<Option<Room>>),
}

#[derive(Debug)]
pub(crate) enum Rebuilding {
    Here(Box<Rebuilds>),
    Elsewhere(Elsewhere),
}

/// Orders that are carried out beside the core.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    pub order_count: usize,
    /// Whoever carries them out cannot write to this node's memory.
    pub has_no_room: bool,
    pub said: VecDeque<ToRebuilds>,
}

impl Rebuilding {
    /// Takes an order; `reserve` is asked for room if it is carried out beside the core.
    ///
    /// # Errors
    /// `Busy`. `Invalid`: nothing proven can come of it.
    pub fn order(
        &mut self,
        session: u64,
        description: ChunkDescription,
        sources: Vec<Source>,
        reserve: impl FnOnce(&ChunkDescription) -> Option<Room>,
    ) -> Result<(), Refusal> {
        check_order(&description, &sources)?;
        let count = match self {
            Rebuilding::Here(rebuilds) => rebuilds.order_count(),
            Rebuilding::Elsewhere(elsewhere) => elsewhere.order_count,
        };
        if count >= REBUILDS_MAX {
            return Err(Refusal::Busy);
        }
        match self {
            Rebuilding::Here(rebuilds) => rebuilds.order(session, description, &sources, None),
            Rebuilding::Elsewhere(elsewhere) => {
                elsewhere.order_count += 1;
                let room = if elsewhere.has_no_room { None } else { reserve(&description) };
                elsewhere.said.push_back(ToRebuilds::Order { session, description, sources, room });
            }
        }
        Ok(())
    }

    /// Nobody wants what the session ordered.
    pub fn forget_session(&mut self, session: u64) {
        match self {
            Rebuilding::Here(rebuilds) => _ = rebuilds.forget_session(session),
            Rebuilding::Elsewhere(elsewhere) if elsewhere.order_count == 0 => {}
            Rebuilding::Elsewhere(elsewhere) => elsewhere.said.push_back(ToRebuilds::Forget { session }),
        }
    }

    pub fn give_back(&mut self, buffer: Vec<u8>) {
        match self {
            Rebuilding::Here(rebuilds) => rebuilds.keep_buffer(buffer),
            Rebuilding::Elsewhere(elsewhere) => elsewhere.said.push_back(ToRebuilds::Buffer(buffer)),
        }
    }

    /// What is done in the core's own turns.
    pub fn here(&mut self) -> Option<&mut Rebuilds> {
        match self {
            Rebuilding::Here(rebuilds) => Some(rebuilds),
            Rebuilding::Elsewhere(_) => None,
        }
    }

    pub fn elsewhere(&mut self) -> Option<&mut Elsewhere> {
        match self {
            Rebuilding::Here(_) => None,
            Rebuilding::Elsewhere(elsewhere) => Some(elsewhere),
        }
    }
}

impl Rebuilds {
    /// Takes what the core says; answers what it is to be told.
    pub fn handle(&mut self, message: ToRebuilds) -> Option<FromRebuilds> {
        match message {
            ToRebuilds::Order { session, description, sources, room } => {
                self.order(session, description, &sources, room);
                None
            }
            ToRebuilds::Buffer(buffer) => {
                self.keep_buffer(buffer);
                None
            }
            ToRebuilds::Forget { session } => Some(FromRebuilds::Forgotten(self.forget_session(session))),
        }
    }
}
