//! What the schedule of a world holds, and who takes each of it.

use shorttail_gateway::engine::{SessionId, Standing, Token, VoterSet};
use shorttail_gateway::gather::Answer;
use shorttail_gateway::request::Request;

use super::{World, clients, coordinators, endpoint_of, gateway, stand_in};
use crate::command_of_model::SimCommand;
use crate::network::{Endpoint, NetworkEvent};

#[derive(Debug)]
pub(super) enum Event {
    Network(NetworkEvent),
    GatewayTurn {
        gateway: usize,
        generation: u32,
    },
    GatewayDeadline {
        gateway: usize,
        generation: u32,
        at_us: u64,
    },
    Connect {
        gateway: usize,
        generation: u32,
        epoch: u32,
        id: SessionId,
    },
    Forwarded {
        gateway: usize,
        token: Token,
        request: Box<Request<SimCommand>>,
    },
    /// A part of a flush, on its way between gateways, and back.
    PartAsked {
        gateway: usize,
        generation: u32,
        asking: Box<gateway::Asking>,
    },
    PartAnswered {
        gateway: usize,
        token: Token,
        answer: Box<Option<Answer>>,
    },
    GatherDue {
        gateway: usize,
        generation: u32,
    },
    Order {
        gateway: usize,
        generation: u32,
        order: Box<stand_in::Order>,
    },
    Told {
        gateway: usize,
        epoch: u32,
        standing: Standing,
        voters: VoterSet,
    },
    Joined {
        gateway: usize,
        generation: u32,
    },
    Left {
        gateway: usize,
        generation: u32,
    },
    Beat {
        gateway: usize,
        generation: u32,
    },
    /// An heir had time enough to prepare for the end of this epoch.
    PrepareOver {
        epoch: u32,
    },
    MendCoordinator {
        gateway: usize,
    },
    Control(coordinators::ControlEvent),
    NodeTurn {
        node: usize,
    },
    NodeDeadline {
        node: usize,
        at_us: u64,
    },
    BackgroundTurn {
        node: usize,
        core: usize,
    },
    BackgroundDeadline {
        node: usize,
        core: usize,
        at_us: u64,
    },
    Held {
        node: usize,
    },
    ClientTick {
        client: u32,
    },
    Request {
        op: u64,
    },
    Reply {
        op: u64,
        reply: clients::Received,
    },
    ConnectionLost {
        op: u64,
    },
    /// A lifetime of a key's value ends.
    Expire {
        key: Vec<u8>,
    },
    /// The flush that an operation asked for is due.
    FlushDue {
        op: u64,
    },
    Fault,
    Restart {
        node: usize,
    },
    Resume {
        node: usize,
    },
    CoreGoesOn {
        node: usize,
    },
    FullSpeed {
        node: usize,
    },
    Mend {
        from: Endpoint,
        to: Endpoint,
    },
    GatewayRestart {
        gateway: usize,
    },
    GatewayResume {
        gateway: usize,
    },
}

impl From<NetworkEvent> for Event {
    fn from(event: NetworkEvent) -> Self {
        Event::Network(event)
    }
}

impl World {
    pub(super) fn handle(&mut self, event: Event) {
        match event {
            Event::Network(event) => self.network.handle(&mut self.schedule, event),
            Event::GatewayTurn { gateway, generation } => self.gateway_turn(gateway, generation),
            Event::GatewayDeadline { gateway, generation, at_us } => self.gateway_deadline(gateway, generation, at_us),
            Event::Connect { gateway, generation, epoch, id } => self.connect(gateway, generation, epoch, id),
            Event::Forwarded { gateway, token, request } => self.forwarded_arrives(gateway, token, *request),
            Event::PartAsked { gateway, generation, asking } => self.part_arrives(gateway, generation, *asking),
            Event::PartAnswered { gateway, token, answer } => self.part_is_answered(gateway, token, *answer),
            Event::GatherDue { gateway, generation } => self.gather_is_due(gateway, generation),
            Event::Order { gateway, generation, order } => self.order_arrives(gateway, generation, *order),
            Event::Told { gateway, epoch, standing, voters } => self.standing_told(gateway, epoch, standing, &voters),
            Event::Joined { gateway, generation } => self.gateway_joined(gateway, generation),
            Event::Left { gateway, generation } => self.gateway_left(gateway, generation),
            Event::Beat { gateway, generation } => self.beat(gateway, generation),
            Event::PrepareOver { epoch } => self.order_let_go(epoch),
            Event::MendCoordinator { gateway } => self.mend_coordinator(gateway),
            Event::Control(event) => self.control_event(event),
            Event::NodeTurn { node } => self.node_turn(node),
            Event::NodeDeadline { node, at_us } => self.node_deadline(node, at_us),
            Event::BackgroundTurn { node, core } => self.background_turn(node, core),
            Event::BackgroundDeadline { node, core, at_us } => self.background_deadline(node, core, at_us),
            Event::Held { node } => self.held_leaves(node),
            Event::ClientTick { client } => self.client_tick(client),
            Event::Request { op } => self.request_arrives(op),
            Event::Reply { op, reply } => self.reply_arrives(op, reply),
            Event::ConnectionLost { op } => self.connection_lost(op),
            Event::Expire { key } => self.lifetime_ends(&key),
            Event::FlushDue { op } => self.flush_is_due(op),
            Event::Fault => self.fault(),
            Event::Restart { node } => self.restart_node(node),
            Event::Resume { node } => self.resume_node(node),
            Event::CoreGoesOn { node } => self.core_stall_ends(node),
            Event::FullSpeed { node } => self.network.slow_down(endpoint_of(node), 1),
            Event::Mend { from, to } => self.network.mend(&mut self.schedule, from, to),
            Event::GatewayRestart { gateway } => self.restart_gateway(gateway),
            Event::GatewayResume { gateway } => self.resume_gateway(gateway),
        }
    }
}
