//! Sessions between nodes: what one rebuilds it fetches from others.

use shorttail_node::PeerId;

use super::nodes::Link;
use super::{Event, World, endpoint_of};

impl World {
    /// Opens the sessions that a node's cores want and do not have, and closes those that they have and do not want.
    pub(super) fn keep_peers(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        let (links, cores) = (&mut host.links, &host.cores);
        let is_unwanted =
            |link: &Link| link.peer.is_some_and(|peer| cores[link.core].wanted_peers().all(|wanted| wanted != peer));
        let unwanted = links.extract_if(.., |_, link| is_unwanted(link)).map(|(session, _)| session);
        for session in unwanted.collect::<Vec<_>>() {
            self.network.close(&mut self.schedule, endpoint_of(node), session);
        }
        let host = &self.nodes[node];
        let has =
            |core: usize, peer: PeerId| host.links.values().any(|link| link.core == core && link.peer == Some(peer));
        let of_core = |(core, machine): (usize, &shorttail_node::Node)| {
            machine.wanted_peers().filter(|&peer| !has(core, peer)).map(|peer| (core, peer)).collect::<Vec<_>>()
        };
        let wanted: Vec<_> = host.cores.iter().enumerate().flat_map(of_core).collect();
        for (core, peer) in wanted {
            let target = endpoint_of(usize::from(peer.node.0));
            let session = self.network.open(&mut self.schedule, endpoint_of(node), target);
            let session = session.expect("a node that has turns is up and bounds its sessions");
            self.core_of_session.insert(session.number(), peer.core);
            self.nodes[node].links.insert(session, Link { core, input: Vec::new(), peer: Some(peer) });
        }
    }

    pub(super) fn await_node_deadline(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        let running = host.cores.iter().enumerate().filter(|&(core, _)| Some(core) != host.stalled_core);
        let Some(at_us) = running.filter_map(|(_, core)| core.poll_deadline()).min() else { return };
        let at_us = host.clock.world_us(at_us).max(self.schedule.now_us() + 1);
        if host.deadline_us.is_none_or(|known| at_us < known) {
            host.deadline_us = Some(at_us);
            self.schedule.at(at_us, Event::NodeDeadline { node, at_us });
        }
    }

    pub(super) fn node_deadline(&mut self, node: usize, at_us: u64) {
        if self.nodes[node].deadline_us == Some(at_us) {
            self.nodes[node].deadline_us = None;
            self.demand_node_turn(node);
        }
    }
}
