//! A member's end of its connection to a coordinator: registers, comes again, says how it is, hears what it is told.
//!
//! Must not know: what a gateway or node does with what it hears.

use std::sync::Arc;

use shorttail_units::Incarnation;
use shorttail_wire::control::{
    CONTROL_PROTOCOL_VERSION, FromCoordinator, GatewayRegistration, GatewaySession, HEARTBEAT_MS, HURRIED_MS,
    NodeRegistration, NodeSession, Refusal, ToCoordinator, next_message, put_message,
};

use super::search::{BEAT_LATE_US, Look};
use super::{ControlEvent, Event, Who, World, endpoint_of_coordinator};
use crate::network::{SessionId, What};

/// Between two attempts to be let in: doubles from the first to the longest.
const AGAIN_US_FIRST: u64 = 20_000;
const AGAIN_US_MAX: u64 = 500_000;
/// From one coordinator that does not let it in to the next.
const NEXT_US: u64 = 1_000;
/// How long an answer to a registration is waited for.
pub(super) const PATIENCE_US: u64 = 2_000_000;
/// A process is there so long after it began.
const BEGINS_US: std::ops::Range<u64> = 100..5_000;
/// Until a process that was sent away for good is begun anew.
const ANEW_US: std::ops::Range<u64> = 10_000..500_000;

#[derive(Default)]
pub(super) struct Member {
    is_up: bool,
    /// Counts the lives of the process.
    life: u32,
    /// Which coordinator is tried or served, and how many were tried in vain.
    pub place: usize,
    failed_count: usize,
    pub connection: Option<SessionId>,
    pub input: Vec<u8>,
    pub is_welcome: bool,
    again_us: u64,
    /// Another coordinator is looked for beside, now or then.
    pub look: Option<Look>,
    pub look_at_us: u64,
    /// Between two heartbeats, and when the next is due.
    interval_us: u64,
    heartbeat_us: u64,
    /// What it was told before.
    gateway: Option<GatewaySession>,
    node: Option<NodeSession>,
}

impl Member {
    /// The number that the coordinator knows a gateway by.
    pub fn gateway_id(&self) -> Option<u16> {
        self.gateway.filter(|_| self.is_up).map(|session| session.gateway_id)
    }
}

impl World {
    pub(super) fn member(&mut self, who: Who) -> &mut Member {
        self.coordinators.members.entry(who).or_default()
    }

    /// The process begins.
    pub(in crate::world) fn member_starts(&mut self, who: Who) {
        if !self.config.coordinated {
            return;
        }
        let member = self.member(who);
        let life = member.life + 1;
        *member = Member { is_up: true, life, again_us: AGAIN_US_FIRST, ..Member::default() };
        let delay_us = self.rng.range(BEGINS_US);
        self.schedule.after(delay_us, Event::Control(ControlEvent::Register { who, life }));
    }

    /// The process died, and its connection with it.
    pub(in crate::world) fn member_stops(&mut self, who: Who) {
        if let Some(member) = self.coordinators.members.get_mut(&who) {
            *member = Member { life: member.life + 1, ..Member::default() };
            self.coordinators.member_of.retain(|_, of| *of != who);
        }
    }

    pub(super) fn register(&mut self, who: Who, life: u32) {
        let member = self.member(who);
        if !member.is_up || member.life != life || member.connection.is_some() {
            return;
        }
        let place = member.place;
        let session = self.ask_coordinator(who, place);
        let member = self.member(who);
        (member.connection, member.is_welcome) = (Some(session), false);
        member.input.clear();
    }

    /// Says who it is, on a connection of its own.
    pub(super) fn ask_coordinator(&mut self, who: Who, place: usize) -> SessionId {
        let registration = match who {
            Who::Gateway(gateway) => ToCoordinator::RegisterGateway(self.registration_of_gateway(gateway)),
            Who::Node(node) => ToCoordinator::RegisterNode(self.registration_of_node(node)),
        };
        let coordinator = endpoint_of_coordinator(place);
        let session = self.network.open(&mut self.schedule, who.endpoint(), coordinator);
        let session = session.expect("a member that lives bounds its sessions");
        self.coordinators.member_of.insert(session, who);
        self.send_on(who, session, &registration);
        self.schedule.after(PATIENCE_US, Event::Control(ControlEvent::Impatient { who, session }));
        session
    }

    fn registration_of_gateway(&mut self, gateway: usize) -> GatewayRegistration {
        let generation = self.gateways[gateway].generation;
        GatewayRegistration {
            protocol_version: CONTROL_PROTOCOL_VERSION,
            pid: generation,
            life: u64::from(generation) << 16 | gateway as u64,
            forward: Some(address_of_gateway(gateway)),
            memcached: Some(address_of_gateway(gateway)),
            redis: None,
            redis_advertise: None,
            unix_socket: None,
            admin: None,
            session: self.member(Who::Gateway(gateway)).gateway,
        }
    }

    fn registration_of_node(&mut self, node: usize) -> NodeRegistration {
        let (id, incarnation) = (self.nodes[node].id, self.nodes[node].incarnation);
        let core_count = self.config.node_core_count;
        NodeRegistration {
            protocol_version: CONTROL_PROTOCOL_VERSION,
            address: format!("node-{node}"),
            incarnation,
            pid: 1,
            memory_limit_bytes: u64::from(core_count) * self.memory_of(node) as u64,
            core_count,
            wanted_id: Some(id.0),
            domain: self.domain_of(node),
            allows_chaos: false,
            session: self.member(Who::Node(node)).node,
        }
    }

    fn send_to_coordinator(&mut self, who: Who, message: &ToCoordinator) {
        if let Some(session) = self.member(who).connection {
            self.send_on(who, session, message);
        }
    }

    fn send_on(&mut self, who: Who, session: SessionId, message: &ToCoordinator) {
        let mut bytes = Vec::new();
        put_message(&mut bytes, message).expect("clusters are small here");
        // Of a connection that ended the notice is on its way.
        let _ = self.network.send(&mut self.schedule, who.endpoint(), session, bytes);
    }

    pub(super) fn lose_patience(&mut self, who: Who, session: SessionId) {
        let member = self.member(who);
        if member.connection == Some(session) && !member.is_welcome {
            return self.leave_connection(who, session);
        }
        self.look_on_without(who, session);
    }

    /// Ends a connection from this side, and comes again.
    fn leave_connection(&mut self, who: Who, session: SessionId) {
        self.network.close(&mut self.schedule, who.endpoint(), session);
        self.connection_is_gone(who, session);
    }

    fn connection_is_gone(&mut self, who: Who, session: SessionId) {
        self.coordinators.member_of.remove(&session);
        let member = self.member(who);
        member.connection = None;
        let was_let_in = std::mem::take(&mut member.is_welcome);
        if was_let_in && member.look.is_some() {
            return self.finish_look(who);
        }
        self.come_again(who, was_let_in);
    }

    /// Who led a moment ago is asked again first; the others one after the other, until all were tried.
    pub(super) fn come_again(&mut self, who: Who, was_let_in: bool) {
        let count = self.config.coordinator_count;
        let member = self.member(who);
        member.failed_count += 1;
        if !was_let_in {
            member.place = (member.place + 1) % count;
        }
        let (life, mut delay_us) = (member.life, NEXT_US);
        if was_let_in || member.failed_count >= count {
            member.failed_count = 0;
            delay_us = member.again_us;
            member.again_us = (2 * delay_us).min(AGAIN_US_MAX);
        }
        self.schedule.after(delay_us, Event::Control(ControlEvent::Register { who, life }));
    }

    pub(super) fn member_notice(&mut self, who: Who, session: SessionId, what: What) {
        if self.member(who).connection != Some(session) {
            return self.look_notice(who, session, what);
        }
        match what {
            What::Accepted { .. } | What::Connected => {}
            What::Broken(_) => self.connection_is_gone(who, session),
            What::Received(bytes) => {
                self.member(who).input.extend_from_slice(&bytes);
                self.hear_coordinator(who, session);
            }
        }
    }

    pub(super) fn hear_coordinator(&mut self, who: Who, session: SessionId) {
        while let Some(message) = self.next_of_coordinator(who, session) {
            self.member_hears(who, session, message);
        }
    }

    fn next_of_coordinator(&mut self, who: Who, session: SessionId) -> Option<FromCoordinator> {
        let member = self.member(who);
        if member.connection != Some(session) {
            return None;
        }
        match next_message(&member.input) {
            Ok(next) => {
                let (message, taken) = next?;
                member.input.drain(..taken);
                Some(message)
            }
            Err(error) => {
                self.end_hurt(who.endpoint(), session, &error);
                self.connection_is_gone(who, session);
                None
            }
        }
    }

    fn member_hears(&mut self, who: Who, session: SessionId, message: FromCoordinator) {
        match message {
            FromCoordinator::NodeRegistered(welcome) => {
                self.member(who).node = Some(welcome.session);
                self.member_is_welcome(who);
            }
            FromCoordinator::GatewayRegistered(welcome) => {
                self.member(who).gateway = Some(welcome.session);
                self.member_is_welcome(who);
            }
            FromCoordinator::Refused(refusal) => self.member_is_refused(who, session, &refusal),
            FromCoordinator::View(view) => {
                if let Who::Gateway(gateway) = who {
                    self.tell_view(gateway, Arc::unwrap_or_clone(view));
                }
            }
            FromCoordinator::Terms(terms) => {
                let Who::Gateway(gateway) = who else { panic!("a node is told terms") };
                self.tell_terms(gateway, terms);
                // What becomes of them is waited for.
                self.heartbeat_within(who, HURRIED_MS * 1_000);
            }
            FromCoordinator::Beat => self.member(who).look_at_us = self.schedule.now_us() + BEAT_LATE_US,
            other => panic!("{other:?} was not asked for"),
        }
    }

    fn member_is_welcome(&mut self, who: Who) {
        let look_at_us = self.schedule.now_us() + BEAT_LATE_US;
        let member = self.member(who);
        (member.is_welcome, member.again_us, member.failed_count) = (true, AGAIN_US_FIRST, 0);
        member.look_at_us = look_at_us;
        // At first more often.
        self.heartbeat_within(who, HURRIED_MS * 1_000);
    }

    /// The next heartbeat is sent then, and from there they become rarer.
    fn heartbeat_within(&mut self, who: Who, interval_us: u64) {
        let at_us = self.schedule.now_us() + interval_us;
        let member = self.member(who);
        let Some(session) = member.connection else { return };
        (member.interval_us, member.heartbeat_us) = (interval_us, at_us);
        self.schedule.at(at_us, Event::Control(ControlEvent::Heartbeat { who, session, at_us }));
    }

    pub(super) fn heartbeat(&mut self, who: Who, session: SessionId, at_us: u64) {
        let member = self.member(who);
        if member.connection != Some(session) || member.heartbeat_us != at_us {
            return;
        }
        let last_us = member.interval_us;
        let interval_us = match who {
            Who::Node(node) => {
                let status = self.status_of_node(node);
                self.send_to_coordinator(who, &ToCoordinator::NodeStatus(status));
                (2 * last_us).min(HEARTBEAT_MS * 1_000)
            }
            Who::Gateway(gateway) => {
                let status = self.status_of_gateway(gateway);
                let within_us = status.next_within_us(last_us);
                self.send_to_coordinator(who, &ToCoordinator::GatewayStatus(status));
                if !self.gateways[gateway].waiting.is_empty() {
                    // A gateway without tenures has no other reason to look.
                    self.demand_turn(gateway);
                }
                within_us
            }
        };
        self.heartbeat_within(who, interval_us);
        self.look_round_if_late(who);
    }

    fn member_is_refused(&mut self, who: Who, session: SessionId, refusal: &Refusal) {
        self.note(format_args!("{who:?} is not let in: {refusal}"));
        let anew_us = self.rng.range(ANEW_US);
        match (who, refusal) {
            (Who::Gateway(gateway), Refusal::Superseded(_)) => {
                self.stop_gateway(gateway);
                self.schedule.after(anew_us, Event::GatewayRestart { gateway });
            }
            (Who::Node(node), Refusal::Removed(_)) => self.node_is_removed(node),
            (Who::Node(node), Refusal::Retired { retired_through }) => {
                self.node_is_given_up(node, Incarnation(*retired_through));
                self.schedule.after(anew_us, Event::Restart { node });
            }
            _ => self.leave_connection(who, session),
        }
    }
}

pub(super) fn address_of_gateway(gateway: usize) -> String {
    format!("gateway-{gateway}")
}

/// The gateway at an address.
pub(super) fn gateway_of_address(address: &str) -> Option<usize> {
    address.strip_prefix("gateway-")?.parse().ok()
}
