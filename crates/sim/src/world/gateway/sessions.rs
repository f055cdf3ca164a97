//! A gateway's sessions with the cores of nodes: one for each engine, opened again when they end.

use shorttail_gateway::engine::SessionId;

use super::{Input, Link};
use crate::network;
use crate::world::{Event, World, endpoint_of, endpoint_of_gateway};

/// First and longest wait before a session is tried again; and with several gateways, where take-overs are timed,
/// before it is tried first.
const RETRY_US: std::ops::Range<u64> = 2_000..30_000;
const CONNECT_US: std::ops::Range<u64> = 100..500;

impl World {
    pub(super) fn send_to_nodes(&mut self, gateway: usize) {
        let host = &mut self.gateways[gateway];
        let mut outputs = Vec::new();
        for (&session, link) in &host.links {
            let Some(hosted) = host.tenures.get_mut(&link.epoch) else { continue };
            let output = hosted.engine.session_output(link.id).filter(|output| !output.is_empty());
            outputs.extend(output.map(|output| (session, link.epoch, link.id, std::mem::take(output))));
        }
        for (session, epoch, id, bytes) in outputs {
            self.check_sent(epoch, id, &bytes);
            match self.network.send(&mut self.schedule, endpoint_of_gateway(gateway), session, bytes) {
                // It ended, and the notice of that is on its way.
                Ok(()) | Err(network::SendError::NotOpen) => {}
                Err(error @ network::SendError::Full) => panic!("the engine does not bound what it sends: {error}"),
            }
        }
    }

    /// Sessions that should exist and do not are tried, now or after a while. What an engine left is closed.
    pub(super) fn keep_sessions(&mut self, gateway: usize) {
        self.close_hung_sessions(gateway);
        self.close_left_sessions(gateway);
        let host = &self.gateways[gateway];
        let generation = host.generation;
        let mut wanted = Vec::new();
        for (&epoch, hosted) in &host.tenures {
            let missing = hosted.engine.wanted_sessions().into_iter();
            let missing = missing.filter(|id| !host.has_session(epoch, *id) && !hosted.connecting.contains(id));
            wanted.extend(missing.map(|id| (epoch, id)));
        }
        for (epoch, id) in wanted {
            let Some(hosted) = self.gateways[gateway].tenures.get_mut(&epoch) else { continue };
            hosted.connecting.push(id);
            let is_first = hosted.tried.insert(id) && self.config.gateway_count > 1;
            let delay_us = self.rng.range(if is_first { CONNECT_US } else { RETRY_US });
            self.schedule.after(delay_us, Event::Connect { gateway, generation, epoch, id });
        }
    }

    /// As the server does: a greeting may have been lost.
    fn close_hung_sessions(&mut self, gateway: usize) {
        let host = &self.gateways[gateway];
        let tenures = host.tenures.iter();
        let hung: Vec<_> = tenures
            .flat_map(|(&epoch, hosted)| hosted.engine.hung_greetings().into_iter().map(move |id| (epoch, id)))
            .collect();
        if hung.is_empty() {
            return;
        }
        let links = host.links.iter().filter(|(_, link)| hung.contains(&(link.epoch, link.id)));
        for session in links.map(|(&session, _)| session).collect::<Vec<_>>() {
            self.network.close(&mut self.schedule, endpoint_of_gateway(gateway), session);
            self.take_input(gateway, Input::Closed(session));
            self.demand_turn(gateway);
        }
    }

    fn close_left_sessions(&mut self, gateway: usize) {
        let host = &self.gateways[gateway];
        let is_left = |link: &Link| {
            let is_new = host
                .inputs
                .iter()
                .any(|input| matches!(input, Input::Opened(epoch, id) if (*epoch, *id) == (link.epoch, link.id)));
            let hosted = host.tenures.get(&link.epoch);
            !is_new && hosted.is_some_and(|hosted| !hosted.engine.is_connected(link.id))
        };
        let left = host.links.iter().filter(|(_, link)| is_left(link)).map(|(&session, _)| session);
        for session in left.collect::<Vec<_>>() {
            self.gateways[gateway].links.remove(&session);
            self.network.close(&mut self.schedule, endpoint_of_gateway(gateway), session);
        }
    }

    pub(in crate::world) fn connect(&mut self, gateway: usize, generation: u32, epoch: u32, id: SessionId) {
        if generation != self.gateways[gateway].generation {
            return;
        }
        let Some(hosted) = self.gateways[gateway].tenures.get_mut(&epoch) else { return };
        hosted.connecting.retain(|other| *other != id);
        let node = endpoint_of(usize::from(id.node.0));
        let session = self.network.open(&mut self.schedule, endpoint_of_gateway(gateway), node);
        let session = session.expect("the gateway is up and bounds its sessions");
        self.core_of_session.insert(session.number(), id.core);
        let host = &mut self.gateways[gateway];
        host.links.insert(session, Link { epoch, id, input: Vec::new() });
        host.inputs.push_back(Input::Opened(epoch, id));
        self.demand_turn(gateway);
    }
}
