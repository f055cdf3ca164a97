//! The gateway's process: its engine, its sessions with nodes, its turns.

use std::collections::{BTreeMap, VecDeque};

use shorttail_gateway::engine::{Engine, EngineConfig, SessionId, Token};
use shorttail_gateway::request::{Reply, Request};
use shorttail_units::{Epoch, NodeId, PartitionId};

use super::{CLUSTER, Event, GATEWAY, World, endpoint_of};
use crate::command_of_model::SimCommand;
use crate::network;

/// Longest wait between an input and the turn that takes it: how many inputs meet in a turn.
const TURN_US_MAX: u64 = 60;
/// The engine's invariants look at every hash slot, which takes longer than a turn.
const TURNS_PER_CHECK: u64 = 16;
/// First and longest wait before a session is tried again.
const RETRY_US: std::ops::Range<u64> = 2_000..30_000;

enum Input {
    Opened(SessionId),
    Bytes(network::SessionId, Vec<u8>),
    Closed(network::SessionId),
    Request(Token, Request<SimCommand>),
}

struct Link {
    id: SessionId,
    input: Vec<u8>,
}

#[derive(Default)]
pub(super) struct GatewayHost {
    pub engine: Option<Engine<SimCommand>>,
    epoch: u32,
    /// Counts the lives of the process: events of an earlier one are void.
    pub generation: u32,
    inputs: VecDeque<Input>,
    turn_is_due: bool,
    deadline_us: Option<u64>,
    links: BTreeMap<network::SessionId, Link>,
    connecting: Vec<SessionId>,
    degraded_reads: u64,
    turns: u64,
}

impl GatewayHost {
    pub fn is_serving(&self) -> bool {
        self.engine.as_ref().is_some_and(Engine::is_serving)
    }

    pub fn degraded_reads(&self) -> u64 {
        self.degraded_reads + self.engine.as_ref().map_or(0, |engine| engine.stats().degraded_reads_total)
    }

    fn session_of(&self, id: SessionId) -> Option<network::SessionId> {
        self.links.iter().find(|(_, link)| link.id == id).map(|(&session, _)| session)
    }
}

impl World {
    pub(super) fn start_gateway(&mut self) {
        self.gateway.epoch += 1;
        self.gateway.generation += 1;
        let config = EngineConfig {
            partition_count: self.config.partition_count,
            partitions: (0..self.config.partition_count).map(PartitionId).collect(),
            chunk_bytes: self.config.chunk_bytes,
            block_bytes: self.config.block_bytes,
            when_full: self.config.when_full,
            gather_us: 500_000,
            policy: self.config.policy,
            placement: self.config.placement,
            ..EngineConfig::new(self.config.code, Epoch(self.gateway.epoch), CLUSTER, self.config.node_count)
        };
        let mut engine = Engine::new(config, self.now());
        let nodes: Vec<_> = (0..self.config.node_count).map(NodeId).collect();
        engine.handle_nodes(&nodes);
        for &node in &nodes {
            let domain = node.0.checked_rem(self.config.domain_count);
            engine.handle_domain(node, &domain.map_or_else(String::new, |domain| domain.to_string()));
        }
        for node in self.nodes.iter().filter(|node| !node.is_up()) {
            engine.handle_retired(node.id, node.incarnation);
        }
        self.gateway.engine = Some(engine);
        self.network.start(GATEWAY);
        let epoch = self.gateway.epoch;
        self.note(format_args!("gateway starts with epoch {epoch}"));
        self.demand_turn();
    }

    pub(super) fn stop_gateway(&mut self) {
        let Some(engine) = self.gateway.engine.take() else { return };
        self.note(format_args!("gateway crashes"));
        self.gateway.degraded_reads += engine.stats().degraded_reads_total;
        self.network.crash(&mut self.schedule, GATEWAY);
        let host = &mut self.gateway;
        host.generation += 1;
        host.inputs.clear();
        host.links.clear();
        host.connecting.clear();
        (host.turn_is_due, host.deadline_us) = (false, None);
        self.clients_lose_connections();
    }

    pub(super) fn restart_gateway(&mut self) {
        if self.gateway.engine.is_none() {
            self.start_gateway();
        }
    }

    pub(super) fn resume_gateway(&mut self) {
        if self.network.is_stalled(GATEWAY) {
            self.note(format_args!("gateway goes on"));
            self.network.resume(GATEWAY);
            self.demand_turn();
        }
    }

    pub(super) fn ask_gateway(&mut self, token: Token, request: Request<SimCommand>) {
        self.gateway.inputs.push_back(Input::Request(token, request));
        self.demand_turn();
    }

    pub(super) fn gateway_notice(&mut self, session: network::SessionId, what: network::What) {
        match what {
            network::What::Accepted { .. } | network::What::Connected => return,
            network::What::Received(bytes) => self.gateway.inputs.push_back(Input::Bytes(session, bytes)),
            network::What::Broken(_) => self.gateway.inputs.push_back(Input::Closed(session)),
        }
        self.demand_turn();
    }

    fn demand_turn(&mut self) {
        let host = &mut self.gateway;
        if host.engine.is_none() || host.turn_is_due {
            return;
        }
        host.turn_is_due = true;
        let generation = host.generation;
        let delay_us = self.rng.below(TURN_US_MAX);
        self.schedule.after(delay_us, Event::GatewayTurn { generation });
    }

    pub(super) fn gateway_deadline(&mut self, generation: u32, at_us: u64) {
        if generation != self.gateway.generation || self.gateway.deadline_us != Some(at_us) {
            return;
        }
        self.gateway.deadline_us = None;
        if !self.gateway.turn_is_due {
            self.gateway.turn_is_due = true;
            self.gateway_turn(generation);
        }
    }

    pub(super) fn gateway_turn(&mut self, generation: u32) {
        if generation != self.gateway.generation {
            return;
        }
        self.gateway.turn_is_due = false;
        if self.network.is_stalled(GATEWAY) {
            return;
        }
        while let Some(input) = self.gateway.inputs.pop_front() {
            self.take_input(input);
        }
        self.pass_replies();
        let now = self.now();
        let engine = self.gateway.engine.as_mut().expect("a gateway that has turns");
        engine.end_turn(now);
        self.pass_replies();
        self.note_verdicts();
        self.gateway.turns += 1;
        if self.gateway.turns.is_multiple_of(TURNS_PER_CHECK) {
            self.check_engine();
        }
        self.send_to_nodes();
        self.keep_sessions();
        self.await_deadline();
    }

    pub(super) fn check_engine(&self) {
        if let Some(engine) = &self.gateway.engine {
            engine.check_invariants();
        }
    }

    fn take_input(&mut self, input: Input) {
        let now = self.now();
        let host = &mut self.gateway;
        let engine = host.engine.as_mut().expect("a gateway that has turns");
        match input {
            Input::Opened(id) => engine.handle_session_opened(now, id),
            Input::Closed(session) => {
                if let Some(link) = host.links.remove(&session) {
                    engine.handle_session_closed(now, link.id);
                }
            }
            Input::Request(token, request) => engine.handle_request(now, token, request),
            Input::Bytes(session, bytes) => {
                let Some(link) = host.links.get_mut(&session) else { return };
                link.input.extend_from_slice(&bytes);
                let consumed = engine.handle_session_input(now, link.id, &link.input).expect("nodes send messages");
                link.input.drain(..consumed);
            }
        }
    }

    fn pass_replies(&mut self) {
        let now = self.now();
        while let Some((token, reply)) = self.gateway.engine.as_mut().and_then(|engine| engine.poll_reply(now)) {
            self.gateway_replies(token, reply);
        }
    }

    fn gateway_replies(&mut self, token: Token, reply: Reply) {
        self.reply_leaves(token.id.seq, reply);
    }

    fn send_to_nodes(&mut self) {
        let host = &mut self.gateway;
        let engine = host.engine.as_mut().expect("a gateway that has turns");
        for (&session, link) in &host.links {
            let Some(output) = engine.session_output(link.id).filter(|output| !output.is_empty()) else { continue };
            let bytes = std::mem::take(output);
            match self.network.send(&mut self.schedule, GATEWAY, session, bytes) {
                // It ended, and the notice of that is on its way.
                Ok(()) | Err(network::SendError::NotOpen) => {}
                Err(error @ network::SendError::Full) => panic!("the engine does not bound what it sends: {error}"),
            }
        }
    }

    /// Sessions that should exist and do not are tried, now or after a while.
    fn keep_sessions(&mut self) {
        let host = &mut self.gateway;
        let generation = host.generation;
        for id in host.engine.as_ref().expect("a gateway that has turns").wanted_sessions() {
            if host.session_of(id).is_none() && !host.connecting.contains(&id) {
                host.connecting.push(id);
                let delay_us = self.rng.range(RETRY_US);
                self.schedule.after(delay_us, Event::Connect { generation, node: id.node.0, core: id.core });
            }
        }
    }

    pub(super) fn connect(&mut self, generation: u32, node: u16, core: u16) {
        if generation != self.gateway.generation {
            return;
        }
        let id = SessionId { node: NodeId(node), core };
        self.gateway.connecting.retain(|other| *other != id);
        let session = self.network.open(&mut self.schedule, GATEWAY, endpoint_of(usize::from(node)));
        let session = session.expect("the gateway is up and bounds its sessions");
        self.core_of_session.insert(session.number(), core);
        self.gateway.links.insert(session, Link { id, input: Vec::new() });
        self.gateway.inputs.push_back(Input::Opened(id));
        self.demand_turn();
    }

    fn await_deadline(&mut self) {
        let host = &mut self.gateway;
        let Some(at_us) = host.engine.as_ref().and_then(Engine::poll_deadline) else { return };
        let at_us = at_us.saturating_sub(super::MONO_US).max(self.schedule.now_us() + 1);
        if host.deadline_us.is_none_or(|known| at_us < known) {
            host.deadline_us = Some(at_us);
            let generation = host.generation;
            self.schedule.at(at_us, Event::GatewayDeadline { generation, at_us });
        }
    }
}
