//! A coordinator's process: drives its seat as the server's loop does.

use std::collections::BTreeMap;

use shorttail_coordinator::candidate::Candidate;
use shorttail_coordinator::claim::Claim;
use shorttail_coordinator::{ConnectionId, Input, Output, Seat, Settings};
use shorttail_units::Now;
use shorttail_wire::control::{FromCoordinator, HEARTBEAT_MS, Refusal, ToCoordinator, next_message, put_message};

use super::{ControlEvent, Event, World, endpoint_of_coordinator};
use crate::config::SimConfig;
use crate::network::{SessionId, What};
use crate::world::Counts;
use crate::world::clock::Clock;

/// Milliseconds after which a dead node is given up: longer than any fault but one lasts.
const RETIRE_AFTER_MS: u64 = 12_000;
/// Milliseconds since the last tenure began until several become one: a run is a minute.
const UNITE_AFTER_MS: u64 = 500;
/// From its start until it asks the store for the first time.
const BEGIN_US: std::ops::Range<u64> = 1_000..50_000;
/// A deadline that is over is looked at again after this much.
const DEADLINE_US_MIN: u64 = 100;

pub(super) struct Process {
    pub is_up: bool,
    /// Counts the lives of the process.
    pub life: u32,
    clock: Clock,
    pub seat: Seat,
    pub candidate: Candidate,
    pub claim: Claim,
    /// What the store was asked last and did not answer.
    pub asked: Option<u64>,
    deadline_us: Option<u64>,
    connections: BTreeMap<SessionId, Connection>,
}

#[derive(Default)]
struct Connection {
    input: Vec<u8>,
    /// It was told that it is let in.
    is_welcome: bool,
}

impl Process {
    pub fn new(config: &SimConfig) -> Self {
        let settings = Settings {
            code: config.code,
            partition_count: config.partition_count,
            node_count_expected: config.node_count - config.late_node_count,
            gateway_count_expected: config.gateway_count as u16,
            retire_after_ms: RETIRE_AFTER_MS,
            unite_after_ms: UNITE_AFTER_MS,
            allow_chaos: false,
        };
        Process {
            is_up: false,
            life: 0,
            clock: Clock::default(),
            seat: Seat::new(settings, Some(config.partition_count)),
            candidate: Candidate::default(),
            claim: Claim::default(),
            asked: None,
            deadline_us: None,
            connections: BTreeMap::new(),
        }
    }

    pub fn count(&self, counts: &mut Counts) {
        if let Some(machine) = self.seat.machine() {
            let status = machine.status();
            counts.tenures_handed_over += status.tenures_handed_over_total;
            counts.tenures_taken_over += status.tenures_lost_total;
            counts.tenures_united += machine.tenures_united_total();
        }
    }
}

impl World {
    /// All coordinators' processes begin that are not there.
    pub(in crate::world) fn start_coordinators(&mut self) {
        (0..self.coordinators.processes.len()).for_each(|place| self.start_coordinator(place));
    }

    pub(super) fn start_coordinator(&mut self, place: usize) {
        if self.coordinators.processes[place].is_up {
            return;
        }
        self.note(format_args!("coordinator {place} starts"));
        self.network.start(endpoint_of_coordinator(place));
        if self.config.coordinator_count == 1 {
            self.coordinators.store.forget_leader();
        }
        let process = Process::new(&self.config);
        let life = self.coordinators.processes[place].life + 1;
        let clock = self.new_clock();
        self.coordinators.processes[place] = Process { is_up: true, life, clock, ..process };
        let delay_us = self.rng.range(BEGIN_US);
        self.schedule.after(delay_us, Event::Control(ControlEvent::Keep { place, life }));
        self.schedule.after(HEARTBEAT_MS * 1_000, Event::Control(ControlEvent::Beat { place, life }));
    }

    /// The process dies with all that the store does not have.
    pub(super) fn stop_coordinator(&mut self, place: usize) {
        self.note(format_args!("coordinator {place} crashes"));
        self.network.crash(&mut self.schedule, endpoint_of_coordinator(place));
        self.coordinators.processes[place].connections.clear();
        self.end_reign(place);
        self.coordinators.processes[place].is_up = false;
        self.settle_questions_of(place);
    }

    pub(super) fn now_of_coordinator(&self, place: usize) -> Now {
        self.now_by(self.coordinators.processes[place].clock)
    }

    /// Does it surely lead, by its own clock?
    pub(super) fn leads(&self, place: usize) -> bool {
        let process = &self.coordinators.processes[place];
        process.is_up && process.seat.leads(self.now_of_coordinator(place).mono_us)
    }

    /// Members of the reign are sent away.
    pub(super) fn end_reign(&mut self, place: usize) {
        let process = &mut self.coordinators.processes[place];
        process.count(&mut self.coordinators.counts);
        if !process.seat.end_reign() {
            return;
        }
        self.note(format_args!("the reign of coordinator {place} is over"));
        for session in std::mem::take(&mut self.coordinators.processes[place].connections).into_keys() {
            self.network.close(&mut self.schedule, endpoint_of_coordinator(place), session);
        }
    }

    pub(super) fn coordinator_notice(&mut self, place: usize, session: SessionId, what: What) {
        let connections = &mut self.coordinators.processes[place].connections;
        match what {
            What::Accepted { .. } => _ = connections.insert(session, Connection::default()),
            What::Connected => {}
            What::Broken(_) => {
                if connections.remove(&session).is_some() {
                    self.coordinator_takes(place, Input::Closed { connection: ConnectionId(session.number()) });
                }
            }
            What::Received(bytes) => {
                let Some(connection) = connections.get_mut(&session) else { return };
                connection.input.extend_from_slice(&bytes);
                while let Some(message) = self.next_of_member(place, session) {
                    self.coordinator_hears(place, session, message);
                }
            }
        }
    }

    fn next_of_member(&mut self, place: usize, session: SessionId) -> Option<ToCoordinator> {
        let connection = self.coordinators.processes[place].connections.get_mut(&session)?;
        match next_message(&connection.input) {
            Ok(next) => {
                let (message, taken) = next?;
                connection.input.drain(..taken);
                Some(message)
            }
            Err(error) => {
                self.coordinators.processes[place].connections.remove(&session);
                self.end_hurt(endpoint_of_coordinator(place), session, &error);
                self.coordinator_takes(place, Input::Closed { connection: ConnectionId(session.number()) });
                None
            }
        }
    }

    fn coordinator_hears(&mut self, place: usize, session: SessionId, message: ToCoordinator) {
        let is_new = matches!(message, ToCoordinator::RegisterNode(_) | ToCoordinator::RegisterGateway(_));
        let connection = ConnectionId(session.number());
        let now_us = self.now_of_coordinator(place).mono_us;
        let seat = &self.coordinators.processes[place].seat;
        if is_new && (!seat.takes_members(now_us) || seat.is_to_ask_again(&message)) {
            let refusal = FromCoordinator::Refused(Refusal::NotLeading("another one may".into()));
            self.send_to_member(place, session, &refusal);
            self.close_connection(place, session);
            return self.coordinator_takes(place, Input::Closed { connection });
        }
        self.coordinator_takes(place, Input::Message { connection, message });
    }

    fn close_connection(&mut self, place: usize, session: SessionId) {
        self.coordinators.processes[place].connections.remove(&session);
        self.network.close(&mut self.schedule, endpoint_of_coordinator(place), session);
    }

    /// Gives the machine an input and does what it says.
    pub(super) fn coordinator_takes(&mut self, place: usize, input: Input) {
        let now = self.now_of_coordinator(place);
        let seat = &mut self.coordinators.processes[place].seat;
        seat.handle(now, input);
        if let Some(machine) = seat.machine() {
            machine.check_invariants();
        }
        self.put_out(place);
    }

    /// In order, as far as everything before it is saved.
    pub(super) fn put_out(&mut self, place: usize) {
        let now_us = self.now_of_coordinator(place).mono_us;
        while let Some(output) = self.coordinators.processes[place].seat.poll_output(now_us) {
            match output {
                Output::Persist(durable) => {
                    let process = &mut self.coordinators.processes[place];
                    let reign = process.seat.reign_number().expect("its machine persists");
                    process.candidate.save(reign, durable);
                    self.turn_of_keeper(place);
                }
                // What clients are told of slots: none of those here asks for it.
                Output::Send { message: FromCoordinator::Served(_), .. } => {}
                Output::Send { connection, message } => {
                    if let Some(session) = self.session_of(place, connection) {
                        self.send_to_member(place, session, &message);
                    }
                }
                Output::Close { connection } => {
                    if let Some(session) = self.session_of(place, connection) {
                        self.close_connection(place, session);
                    }
                }
                Output::Answer { ticket, outcome } => self.order_answered(ticket, &outcome),
            }
        }
        self.await_coordinator_deadline(place);
    }

    fn session_of(&self, place: usize, connection: ConnectionId) -> Option<SessionId> {
        let mut sessions = self.coordinators.processes[place].connections.keys().copied();
        sessions.find(|session| session.number() == connection.0)
    }

    fn send_to_member(&mut self, place: usize, session: SessionId, message: &FromCoordinator) {
        let Some(connection) = self.coordinators.processes[place].connections.get_mut(&session) else { return };
        connection.is_welcome |=
            matches!(message, FromCoordinator::NodeRegistered(_) | FromCoordinator::GatewayRegistered(_));
        let mut bytes = Vec::new();
        put_message(&mut bytes, message).expect("clusters are small here");
        // Of a connection that ended the notice is on its way.
        let _ = self.network.send(&mut self.schedule, endpoint_of_coordinator(place), session, bytes);
    }

    pub(super) fn beat_of_coordinator(&mut self, place: usize) {
        let process = &self.coordinators.processes[place];
        let life = process.life;
        let welcome = process.connections.iter().filter(|(_, connection)| connection.is_welcome);
        let welcome: Vec<SessionId> = welcome.map(|(&session, _)| session).collect();
        self.schedule.after(HEARTBEAT_MS * 1_000, Event::Control(ControlEvent::Beat { place, life }));
        if self.leads(place) {
            welcome.into_iter().for_each(|session| self.send_to_member(place, session, &FromCoordinator::Beat));
        }
    }

    fn await_coordinator_deadline(&mut self, place: usize) {
        let now_us = self.schedule.now_us();
        let process = &mut self.coordinators.processes[place];
        let Some(at_us) = process.seat.poll_deadline() else { return };
        let at_us = process.clock.world_us(at_us).max(now_us + DEADLINE_US_MIN);
        if process.deadline_us.is_none_or(|known_us| at_us < known_us) {
            process.deadline_us = Some(at_us);
            let life = process.life;
            self.schedule.at(at_us, Event::Control(ControlEvent::Deadline { place, life, at_us }));
        }
    }

    pub(super) fn coordinator_deadline(&mut self, place: usize, at_us: u64) {
        let own_us = self.now_of_coordinator(place).mono_us;
        let process = &mut self.coordinators.processes[place];
        if process.deadline_us != Some(at_us) {
            return;
        }
        process.deadline_us = None;
        // The deadline may have moved on since.
        match process.seat.poll_deadline().is_some_and(|due_us| due_us <= own_us) {
            true => self.coordinator_takes(place, Input::Deadline),
            false => self.await_coordinator_deadline(place),
        }
    }
}
