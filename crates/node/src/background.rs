//! Beside a core of a node: rebuilds chunks, and gives those of the core to nodes that rebuild.
//!
//! ```text
//! owners <--> core --ToBackground---> background: Rebuilds --requests--> backgrounds of other nodes
//!             core <--FromBackground--            Giver <--requests-----
//! ```
//! The caller carries what they say to each other, and what comes and leaves over the sessions of both parts. In a turn
//! it passes on what arrived, then has done what is due ([`Rebuilds::advance`]), sends what there is to send, and last
//! tells the core ([`Background::end_turn`]).
//!
//! Must not know: sockets, threads, how a chunk is rebuilt or given.

use shorttail_store::Room;
use shorttail_units::StripeId;
use shorttail_wire::node::{ChunkDescription, Source};

use crate::giver::{Found, Giver, Wanted};
use crate::limits::REBUILT_GATHER_US;
use crate::rebuild::{Rebuilds, Rebuilt};

/// A message from the core.
#[derive(Debug)]
pub enum ToBackground {
    Order {
        session: u64,
        description: ChunkDescription,
        sources: Vec<Source>,
        room: Option<Room>,
    },
    /// Nobody wants what this session ordered.
    Forget {
        session: u64,
    },
    /// The buffer a rebuilt chunk arrived in, returned for reuse.
    Buffer(Vec<u8>),
    /// Where a chunk lies that was wanted, or a copy of it.
    Found(Found),
    /// What may be fetched from now on, in bytes a second.
    RepairPace(u64),
}

/// A message to the core.
#[derive(Debug)]
pub enum FromBackground {
    Rebuilt(Rebuilt),
    /// Orders that are not carried out, by the rooms for them.
    Forgotten(Vec<Option<Room>>),
    Wanted(Wanted),
    /// A copy of this chunk was damaged.
    Damaged(StripeId),
    /// So many messages of other nodes were hurt on their way.
    MessagesDamaged(u64),
    /// What an order came in, which goes back to the heap that it is from: to give it back to the core's heap from
    /// here may take that heap's lock.
    Spent(Vec<Source>),
}

/// What works beside a core.
#[derive(Debug)]
pub struct Background {
    pub rebuilds: Rebuilds,
    pub giver: Giver,
    spent: Vec<Vec<Source>>,
    /// When the core is to be woken for what it was told.
    core_due_us: Option<u64>,
}

impl Background {
    pub(crate) fn new(rebuilds: Rebuilds, giver: Giver) -> Self {
        Background { rebuilds, giver, spent: Vec::new(), core_due_us: None }
    }

    /// Takes what the core says; returns the giver's session that something can be sent to now.
    pub fn handle(&mut self, message: ToBackground) -> Option<u64> {
        match message {
            ToBackground::Order { session, description, sources, room } => {
                self.rebuilds.order(session, description, &sources, room);
                self.spent.push(sources);
            }
            ToBackground::Forget { session } => self.rebuilds.forget_session(session),
            ToBackground::Buffer(buffer) => self.rebuilds.keep_buffer(buffer),
            ToBackground::RepairPace(bytes_per_s) => self.rebuilds.set_pace(bytes_per_s),
            ToBackground::Found(found) => return self.giver.handle_found(found),
        }
        None
    }

    /// When there is something to do although nothing arrived, in microseconds.
    pub fn poll_deadline(&self) -> Option<u64> {
        [self.rebuilds.deadline_us(), self.core_due_us].into_iter().flatten().min()
    }

    /// Ends a turn: tells the core what there is to say. Is it to be woken now?
    pub fn end_turn(&mut self, now_us: u64, mut tell: impl FnMut(FromBackground)) -> bool {
        // The core is not woken for these.
        self.spent.drain(..).for_each(|sources| tell(FromBackground::Spent(sources)));
        let core_due_us = &mut self.core_due_us;
        let mut tell = |said| {
            // Nobody waits for a single chunk.
            let wait_us = if matches!(said, FromBackground::Rebuilt(_)) { REBUILT_GATHER_US } else { 0 };
            *core_due_us = Some(core_due_us.unwrap_or(u64::MAX).min(now_us + wait_us));
            tell(said);
        };
        self.rebuilds.said.drain(..).for_each(&mut tell);
        let damaged = std::mem::take(&mut self.rebuilds.messages_damaged);
        let damaged = damaged + std::mem::take(&mut self.giver.messages_damaged);
        if damaged > 0 {
            tell(FromBackground::MessagesDamaged(damaged));
        }
        while let Some(said) = self.giver.poll_said() {
            tell(said);
        }
        self.wakes_core(now_us)
    }

    /// Is the core to be woken, if it is this late? That is said once.
    pub fn wakes_core(&mut self, now_us: u64) -> bool {
        self.core_due_us.take_if(|due_us| *due_us <= now_us).is_some()
    }
}
