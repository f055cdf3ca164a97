//! The real coordinator in the simulated world: its machine, its records in a store, and the members' connections.
//!
//! ```text
//! store <--records, late-- coordinator's process <==control protocol over the network==> gateways, nodes
//!                             (seat.rs)                                                  (member.rs)
//! ```
//! What the machine says is done in its order, as the server does it: what comes after a `Persist` leaves when the
//! store has the records. A process that dies loses what the store does not have, and the next one begins with what
//! it has. Messages travel in the frames of the control protocol, over sessions that are cut and break as others do.
//!
//! Must not know: what the machine decides. Deviations from the server: there is one coordinator, which leads whenever
//! it can read its store.

mod disturb;
mod member;
mod report;
mod seat;
mod seen;
mod store;

use std::collections::{BTreeMap, BTreeSet};

use super::{Counts, Event, World, endpoint_of, endpoint_of_gateway};
use crate::network::{Endpoint, SessionId, What};
use member::Member;
use seat::{Connection, Reign};
use store::Store;

/// The coordinator's address, beyond those of gateways.
const COORDINATOR: Endpoint = Endpoint(20_000);
/// A process that stands still looks so often whether it goes on.
const STANDS_STILL_US: u64 = 5_000;

pub(super) fn is_coordinator(endpoint: Endpoint) -> bool {
    endpoint == COORDINATOR
}

/// A member of the cluster, by its number in the world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Who {
    Gateway(usize),
    Node(usize),
}

impl Who {
    fn endpoint(self) -> Endpoint {
        match self {
            Who::Gateway(gateway) => endpoint_of_gateway(gateway),
            Who::Node(node) => endpoint_of(node),
        }
    }
}

/// What is to happen; those of an earlier life, or of a session that ended, are void.
#[derive(Debug)]
pub(super) enum ControlEvent {
    /// The coordinator's process begins, unless one runs.
    Start,
    Resume,
    Die {
        life: u32,
    },
    /// It tries to read its records, and leads.
    Lead {
        life: u32,
    },
    Deadline {
        life: u32,
        at_us: u64,
    },
    Beat {
        life: u32,
    },
    /// The store has what it was given, and the coordinator hears of that.
    Written {
        life: u32,
    },
    Saved {
        life: u32,
    },
    /// A member asks to be let in, and waits for the answer for so long only.
    Register {
        who: Who,
        life: u32,
    },
    Impatient {
        who: Who,
        session: SessionId,
    },
    Heartbeat {
        who: Who,
        session: SessionId,
        at_us: u64,
    },
    /// A gateway that was to hand over everything is stopped, as at a rolling restart.
    StopDrained {
        gateway: usize,
        generation: u32,
    },
}

#[derive(Default)]
pub(super) struct Control {
    is_up: bool,
    /// Counts the lives of the process.
    life: u32,
    /// When it began, by the world's clock: its own begins then.
    started_us: u64,
    /// While it leads.
    reign: Option<Reign>,
    connections: BTreeMap<SessionId, Connection>,
    /// The process is to die while the next records are on their way to the store.
    dies_at_save: bool,
    store: Store,
    members: BTreeMap<Who, Member>,
    member_of: BTreeMap<SessionId, Who>,
    counts: Counts,
    /// Epochs that engines began: each is begun once.
    pub begun: BTreeSet<u32>,
    /// When a node's memory was lost last.
    pub lost_us: u64,
}

impl Control {
    /// Is a notice about a connection of the coordinator's?
    pub fn concerns(&self, at: Endpoint, session: SessionId) -> bool {
        at == COORDINATOR || self.member_of.contains_key(&session)
    }

    pub fn count(&self, counts: &mut Counts) {
        counts.add(&self.counts);
        if let Some(reign) = &self.reign {
            reign.count(counts);
        }
    }
}

impl World {
    pub(super) fn control_notice(&mut self, at: Endpoint, session: SessionId, what: What) {
        match self.control.member_of.get(&session).copied().filter(|_| at != COORDINATOR) {
            None => self.coordinator_notice(session, what),
            Some(who) => self.member_notice(who, session, what),
        }
    }

    pub(super) fn control_event(&mut self, event: ControlEvent) {
        let asleep = match &event {
            ControlEvent::Register { who, .. }
            | ControlEvent::Impatient { who, .. }
            | ControlEvent::Heartbeat { who, .. } => Some(who.endpoint()),
            ControlEvent::Lead { .. }
            | ControlEvent::Deadline { .. }
            | ControlEvent::Beat { .. }
            | ControlEvent::Saved { .. } => Some(COORDINATOR),
            // The store is another process, and the rest comes from outside.
            _ => None,
        };
        if asleep.is_some_and(|endpoint| self.network.is_stalled(endpoint)) {
            return self.schedule.after(STANDS_STILL_US, Event::Control(event));
        }
        let is_of_now = |life: u32| life == self.control.life && self.control.is_up;
        match event {
            ControlEvent::Start => self.start_coordinator(),
            ControlEvent::Resume => self.resume_coordinator(),
            ControlEvent::Die { life } if is_of_now(life) => self.die_at_save(),
            ControlEvent::Lead { life } if is_of_now(life) => self.lead(),
            ControlEvent::Deadline { life, at_us } if is_of_now(life) => self.coordinator_deadline(at_us),
            ControlEvent::Beat { life } if is_of_now(life) => self.beat_of_coordinator(),
            ControlEvent::Written { life } => self.records_written(life),
            ControlEvent::Saved { life } if is_of_now(life) => self.records_saved(),
            ControlEvent::Register { who, life } => self.register(who, life),
            ControlEvent::Impatient { who, session } => self.lose_patience(who, session),
            ControlEvent::Heartbeat { who, session, at_us } => self.heartbeat(who, session, at_us),
            ControlEvent::StopDrained { gateway, generation } => self.stop_drained(gateway, generation),
            _ => {}
        }
    }
}
