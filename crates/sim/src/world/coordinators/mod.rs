//! Real coordinators in the simulated world: their machines, the metadata store between them, and the members'
//! connections.
//!
//! ```text
//! store <--questions, late-- coordinators' processes <==control protocol over the network==> gateways, nodes
//! (store.rs)   (keeper.rs)    (process.rs)                                                    (member.rs, search.rs)
//! ```
//! One of them leads, as the server decides it: by a key in the store that ends with a lease. What the machine says is
//! done in its order: what comes after a `Persist` leaves when the store has the records. A process that dies loses
//! what the store does not have, and whoever leads next begins with what it has. Messages travel in the frames of the
//! control protocol, over sessions that are cut and break as others do.
//!
//! Must not know: what the machine decides. Deviations from the server: a single coordinator leads whenever it can read
//! its store, as over a directory; members look for another coordinator by code of their own.

mod disturb;
mod keeper;
mod member;
mod operate;
mod process;
mod report;
mod search;
mod seen;
mod store;

use std::collections::{BTreeMap, BTreeSet};

use shorttail_coordinator::claim::{Answer, Question};

use super::{Counts, Event, World, endpoint_of, endpoint_of_gateway};
use crate::config::SimConfig;
use crate::network::{Endpoint, SessionId, What};
use member::Member;
use process::Process;
use store::Store;

/// Addresses of coordinators, beyond those of gateways; that of their store, beyond these.
const COORDINATORS_FIRST: u32 = 20_000;
const STORE: Endpoint = Endpoint(30_000);
/// A process that stands still looks so often whether it goes on.
const STANDS_STILL_US: u64 = 5_000;

fn endpoint_of_coordinator(place: usize) -> Endpoint {
    Endpoint(COORDINATORS_FIRST + place as u32)
}

/// Which coordinator an endpoint is, if it is one.
pub(super) fn coordinator_at(endpoint: Endpoint) -> Option<usize> {
    endpoint.0.checked_sub(COORDINATORS_FIRST).map(|place| place as usize)
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

/// A question that is on its way to the store.
struct Asked {
    place: usize,
    life: u32,
    question: Question,
}

/// What is to happen; those of an earlier life, or of a session that ended, are void.
#[derive(Debug)]
pub(super) enum ControlEvent {
    /// A coordinator's process begins, unless one runs.
    Start {
        place: usize,
    },
    Resume {
        place: usize,
    },
    Die {
        place: usize,
        life: u32,
    },
    /// It may be time to ask the store something.
    Keep {
        place: usize,
        life: u32,
    },
    Deadline {
        place: usize,
        life: u32,
        at_us: u64,
    },
    Beat {
        place: usize,
        life: u32,
    },
    /// A question is at the store, and its answer at the coordinator.
    AtStore {
        number: u64,
    },
    Answered {
        place: usize,
        life: u32,
        number: u64,
        answer: Answer,
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
pub(super) struct Coordinators {
    /// The coordinators; none unless the run is coordinated.
    processes: Vec<Process>,
    /// The process that saves next is to die while its records are on their way.
    dies_at_save: bool,
    /// It is to stand still for so long before they leave.
    stalls_at_save_us: Option<u64>,
    store: Store,
    /// Questions to the store, by number.
    on_its_way: BTreeMap<u64, Asked>,
    number_next: u64,
    members: BTreeMap<Who, Member>,
    member_of: BTreeMap<SessionId, Who>,
    counts: Counts,
    /// Epochs that engines began: each is begun once.
    pub begun: BTreeSet<u32>,
    /// When a node's memory was lost last.
    pub lost_us: u64,
}

impl Coordinators {
    pub fn new(config: &SimConfig) -> Self {
        let count = if config.coordinated { config.coordinator_count } else { 0 };
        Coordinators { processes: (0..count).map(|_| Process::new(config)).collect(), ..Coordinators::default() }
    }

    /// Is a notice about a connection of a coordinator's?
    pub fn concerns(&self, at: Endpoint, session: SessionId) -> bool {
        coordinator_at(at).is_some() || self.member_of.contains_key(&session)
    }

    pub fn count(&self, counts: &mut Counts) {
        counts.add(&self.counts);
        self.processes.iter().for_each(|process| process.count(counts));
    }
}

impl World {
    pub(super) fn control_notice(&mut self, at: Endpoint, session: SessionId, what: What) {
        match coordinator_at(at) {
            Some(place) => self.coordinator_notice(place, session, what),
            None => {
                let who = self.coordinators.member_of[&session];
                self.member_notice(who, session, what);
            }
        }
    }

    pub(super) fn control_event(&mut self, event: ControlEvent) {
        let asleep = match &event {
            ControlEvent::Register { who, .. }
            | ControlEvent::Impatient { who, .. }
            | ControlEvent::Heartbeat { who, .. } => Some(who.endpoint()),
            ControlEvent::Keep { place, .. }
            | ControlEvent::Deadline { place, .. }
            | ControlEvent::Beat { place, .. }
            | ControlEvent::Answered { place, .. } => Some(endpoint_of_coordinator(*place)),
            // The store is another process, and the rest comes from outside.
            _ => None,
        };
        if asleep.is_some_and(|endpoint| self.network.is_stalled(endpoint)) {
            return self.schedule.after(STANDS_STILL_US, Event::Control(event));
        }
        let is_of_now = |place: usize, life: u32| {
            let process = &self.coordinators.processes[place];
            process.is_up && process.life == life
        };
        match event {
            ControlEvent::Start { place } => self.start_coordinator(place),
            ControlEvent::Resume { place } => self.resume_coordinator(place),
            ControlEvent::Die { place, life } if is_of_now(place, life) => self.die_at_save(place),
            ControlEvent::Keep { place, life } if is_of_now(place, life) => self.turn_of_keeper(place),
            ControlEvent::Deadline { place, life, at_us } if is_of_now(place, life) => {
                self.coordinator_deadline(place, at_us);
            }
            ControlEvent::Beat { place, life } if is_of_now(place, life) => self.beat_of_coordinator(place),
            ControlEvent::AtStore { number } => self.question_arrives(number),
            ControlEvent::Answered { place, life, number, answer } if is_of_now(place, life) => {
                self.answer_arrives(place, number, answer);
            }
            ControlEvent::Register { who, life } => self.register(who, life),
            ControlEvent::Impatient { who, session } => self.lose_patience(who, session),
            ControlEvent::Heartbeat { who, session, at_us } => self.heartbeat(who, session, at_us),
            ControlEvent::StopDrained { gateway, generation } => self.stop_drained(gateway, generation),
            _ => {}
        }
    }
}
