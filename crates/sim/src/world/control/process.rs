//! The coordinator's process: drives the machine as the server's loop does.

use shorttail_coordinator::{ConnectionId, Coordinator, Durable, Input, Output, Settings};
use shorttail_units::{Now, UnixMs};
use shorttail_wire::control::{FromCoordinator, HEARTBEAT_MS, Refusal, ToCoordinator, next_message, put_message};

use super::{COORDINATOR, ControlEvent, Event, World};
use crate::command_of_model::UNIX_MS;
use crate::network::{SessionId, What};
use crate::world::{CLUSTER, Counts};

/// Milliseconds after which a dead node is given up: longer than any fault but one lasts.
const RETIRE_AFTER_MS: u64 = 12_000;
/// New members are sent away while a save takes longer.
const SAVING_LONG_US: u64 = 1_000_000;
/// From its start until it leads, and between two attempts at a store that is away.
const LEAD_US: std::ops::Range<u64> = 1_000..50_000;
const LEAD_AGAIN_US: u64 = 250_000;
/// A deadline that is over is looked at again after this much.
const DEADLINE_US_MIN: u64 = 100;

/// The time in which it leads.
pub(super) struct Reign {
    pub machine: Coordinator,
    /// Records are on their way to the store; what the machine says after them waits.
    saving_since_us: Option<u64>,
    deadline_us: Option<u64>,
}

impl Reign {
    pub fn count(&self, counts: &mut Counts) {
        let status = self.machine.status();
        counts.tenures_handed_over += status.tenures_handed_over_total;
        counts.tenures_taken_over += status.tenures_lost_total;
    }
}

#[derive(Default)]
pub(super) struct Connection {
    input: Vec<u8>,
    /// It was told that it is let in.
    is_welcome: bool,
}

impl World {
    /// The process begins, and leads once it has read its records.
    pub(in crate::world) fn start_coordinator(&mut self) {
        if !self.config.coordinated || self.control.is_up {
            return;
        }
        self.note(format_args!("the coordinator starts"));
        self.network.start(COORDINATOR);
        self.control.is_up = true;
        self.control.life += 1;
        self.control.started_us = self.schedule.now_us();
        let (life, delay_us) = (self.control.life, self.rng.range(LEAD_US));
        self.schedule.after(delay_us, Event::Control(ControlEvent::Lead { life }));
    }

    /// The process dies with all that the store does not have.
    pub(super) fn stop_coordinator(&mut self) {
        if !self.control.is_up {
            return;
        }
        self.note(format_args!("the coordinator crashes"));
        self.network.crash(&mut self.schedule, COORDINATOR);
        self.control.is_up = false;
        self.control.connections.clear();
        if let Some(reign) = self.control.reign.take() {
            reign.count(&mut self.control.counts);
        }
        self.settle_store();
    }

    pub(super) fn lead(&mut self) {
        let (now_us, life) = (self.schedule.now_us(), self.control.life);
        if now_us < self.control.store.away_until_us {
            return self.schedule.after(LEAD_AGAIN_US, Event::Control(ControlEvent::Lead { life }));
        }
        let read = self.control.store.read();
        let is_new = read.is_none();
        let mut durable = read.unwrap_or_else(|| Durable::new(CLUSTER.0));
        let partition_count = self.config.partition_count;
        durable.settle(self.config.code, Some(partition_count), partition_count).expect("the same cluster");
        self.note(format_args!("the coordinator leads from epoch {}", durable.epoch));
        if is_new {
            self.save(&durable);
        }
        let settings = Settings {
            code: self.config.code,
            partition_count,
            node_count_expected: self.config.node_count,
            gateway_count_expected: self.config.gateway_count as u16,
            retire_after_ms: RETIRE_AFTER_MS,
            admin: None,
            allow_chaos: false,
        };
        let machine = Coordinator::new(self.now_of_coordinator(), settings, durable);
        self.control.reign = Some(Reign { machine, saving_since_us: is_new.then_some(now_us), deadline_us: None });
        self.schedule.after(HEARTBEAT_MS * 1_000, Event::Control(ControlEvent::Beat { life }));
        self.await_coordinator_deadline();
    }

    /// By its own clock, which begins with the process.
    fn now_of_coordinator(&self) -> Now {
        let us = self.schedule.now_us();
        Now { mono_us: us - self.control.started_us, unix_ms: UnixMs(UNIX_MS + us / 1_000) }
    }

    pub(super) fn coordinator_notice(&mut self, session: SessionId, what: What) {
        match what {
            What::Accepted { .. } => _ = self.control.connections.insert(session, Connection::default()),
            What::Connected => {}
            What::Broken(_) => {
                if self.control.connections.remove(&session).is_some() {
                    self.coordinator_takes(Input::Closed { connection: ConnectionId(session.number()) });
                }
            }
            What::Received(bytes) => {
                let Some(connection) = self.control.connections.get_mut(&session) else { return };
                connection.input.extend_from_slice(&bytes);
                while let Some(message) = self.next_of_member(session) {
                    self.coordinator_hears(session, message);
                }
            }
        }
    }

    fn next_of_member(&mut self, session: SessionId) -> Option<ToCoordinator> {
        let connection = self.control.connections.get_mut(&session)?;
        let (message, taken) = next_message(&connection.input).expect("members send messages")?;
        connection.input.drain(..taken);
        Some(message)
    }

    fn coordinator_hears(&mut self, session: SessionId, message: ToCoordinator) {
        let is_new = matches!(message, ToCoordinator::RegisterNode(_) | ToCoordinator::RegisterGateway(_));
        let connection = ConnectionId(session.number());
        if is_new && !self.takes_members() {
            self.send_to_member(session, &FromCoordinator::Refused(Refusal::NotLeading("nobody does".into())));
            self.control.connections.remove(&session);
            self.network.close(&mut self.schedule, COORDINATOR, session);
            return self.coordinator_takes(Input::Closed { connection });
        }
        self.coordinator_takes(Input::Message { connection, message });
    }

    fn takes_members(&self) -> bool {
        let now_us = self.schedule.now_us();
        let waits = |reign: &Reign| reign.saving_since_us.is_some_and(|since_us| now_us - since_us > SAVING_LONG_US);
        self.control.reign.as_ref().is_some_and(|reign| !waits(reign))
    }

    /// Gives the machine an input and does what it says.
    pub(super) fn coordinator_takes(&mut self, input: Input) {
        let now = self.now_of_coordinator();
        let Some(reign) = &mut self.control.reign else { return };
        reign.machine.handle(now, input);
        reign.machine.check_invariants();
        self.put_out();
        self.await_coordinator_deadline();
    }

    /// In order, as far as everything before it is saved.
    fn put_out(&mut self) {
        while let Some(reign) = self.control.reign.as_mut().filter(|reign| reign.saving_since_us.is_none()) {
            match reign.machine.poll_output() {
                None => return,
                Some(Output::Persist(durable)) => {
                    reign.saving_since_us = Some(self.schedule.now_us());
                    self.save(&durable);
                    self.may_die_at_save();
                }
                Some(Output::Send { connection, message }) => {
                    if let Some(session) = self.session_of(connection) {
                        self.send_to_member(session, &message);
                    }
                }
                Some(Output::Close { connection }) => {
                    if let Some(session) = self.session_of(connection) {
                        self.control.connections.remove(&session);
                        self.network.close(&mut self.schedule, COORDINATOR, session);
                    }
                }
                Some(Output::Answer { ticket, outcome }) => self.note(format_args!("order {ticket}: {outcome:?}")),
            }
        }
    }

    fn session_of(&self, connection: ConnectionId) -> Option<SessionId> {
        self.control.connections.keys().copied().find(|session| session.number() == connection.0)
    }

    fn send_to_member(&mut self, session: SessionId, message: &FromCoordinator) {
        let Some(connection) = self.control.connections.get_mut(&session) else { return };
        connection.is_welcome |=
            matches!(message, FromCoordinator::NodeRegistered(_) | FromCoordinator::GatewayRegistered(_));
        let mut bytes = Vec::new();
        put_message(&mut bytes, message);
        // Of a connection that ended the notice is on its way.
        let _ = self.network.send(&mut self.schedule, COORDINATOR, session, bytes);
    }

    pub(super) fn records_saved(&mut self) {
        if let Some(reign) = &mut self.control.reign {
            reign.saving_since_us = None;
            self.put_out();
        }
    }

    pub(super) fn beat_of_coordinator(&mut self) {
        let life = self.control.life;
        self.schedule.after(HEARTBEAT_MS * 1_000, Event::Control(ControlEvent::Beat { life }));
        let welcome = self.control.connections.iter().filter(|(_, connection)| connection.is_welcome);
        for session in welcome.map(|(&session, _)| session).collect::<Vec<_>>() {
            self.send_to_member(session, &FromCoordinator::Beat);
        }
    }

    fn await_coordinator_deadline(&mut self) {
        let (now_us, started_us, life) = (self.schedule.now_us(), self.control.started_us, self.control.life);
        let Some(reign) = &mut self.control.reign else { return };
        let Some(at_us) = reign.machine.poll_deadline() else { return };
        let at_us = (at_us.saturating_add(started_us)).max(now_us + DEADLINE_US_MIN);
        if reign.deadline_us.is_none_or(|known_us| at_us < known_us) {
            reign.deadline_us = Some(at_us);
            self.schedule.at(at_us, Event::Control(ControlEvent::Deadline { life, at_us }));
        }
    }

    pub(super) fn coordinator_deadline(&mut self, at_us: u64) {
        let Some(reign) = self.control.reign.as_mut().filter(|reign| reign.deadline_us == Some(at_us)) else { return };
        reign.deadline_us = None;
        let own_us = self.schedule.now_us() - self.control.started_us;
        // The deadline may have moved on since.
        let is_due = reign.machine.poll_deadline().is_some_and(|due_us| due_us <= own_us);
        if is_due {
            self.coordinator_takes(Input::Deadline);
        } else {
            self.await_coordinator_deadline();
        }
    }
}
