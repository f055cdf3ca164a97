//! What the engines of a core counted, those that are over included: tenures come and go, and no counter of a process
//! ever falls.
//!
//! Must not know: why an engine is over, who reads the numbers.

use std::collections::BTreeMap;

use shorttail_gateway::engine::Engine;
use shorttail_gateway::request::StoreStats;
use shorttail_wire::control::NodeSeen;

use super::seen::node_seen;

/// Counters of engines that are over; what is not a counter is neutral.
#[derive(Debug, Default)]
pub struct Counted {
    stats: Option<StoreStats>,
    nodes: BTreeMap<u16, NodeSeen>,
}

impl Counted {
    /// Keeps what an engine counted that is over.
    pub fn keep(&mut self, engine: &Engine) {
        let counters = engine.stats().counters();
        self.stats = Some(self.stats.as_ref().map_or(counters, |sum| sum.plus(&counters)));
        for node in seen_by(engine) {
            let now = NodeSeen { id: node.id, chunks_left: Some(0), ..NodeSeen::default() };
            let NodeSeen { flagged_us, redirect_count, read_latency, write_latency, .. } = node;
            add(&mut self.nodes, NodeSeen { flagged_us, redirect_count, read_latency, write_latency, ..now });
        }
    }

    /// Of these engines and those before them; `None`: there never was any.
    pub fn stats<'a>(&self, engines: impl Iterator<Item = &'a Engine>) -> Option<StoreStats> {
        engines.map(Engine::stats).chain(self.stats).reduce(|sum, stats| sum.plus(&stats))
    }

    /// The nodes that these engines see, with what engines before them counted.
    pub fn nodes<'a>(&self, engines: impl Iterator<Item = &'a Engine>) -> Vec<NodeSeen> {
        let mut seen = BTreeMap::new();
        engines.flat_map(seen_by).for_each(|node| add(&mut seen, node));
        let with_past = |(id, node): (u16, NodeSeen)| match self.nodes.get(&id) {
            Some(past) => node.plus(past),
            None => node,
        };
        seen.into_iter().map(with_past).collect()
    }
}

fn add(sum: &mut BTreeMap<u16, NodeSeen>, node: NodeSeen) {
    let node = match sum.remove(&node.id) {
        Some(known) => known.plus(&node),
        None => node,
    };
    sum.insert(node.id, node);
}

fn seen_by(engine: &Engine) -> impl Iterator<Item = NodeSeen> {
    let sessions = engine.wanted_sessions().into_iter().filter(|session| session.core == 0);
    sessions.map(|session| NodeSeen {
        id: session.node.0,
        connected: engine.hears(session.node),
        stage: engine.stage(session.node),
        chunks_left: engine.chunks_left(session.node),
        ..node_seen(&engine.watched(session.node))
    })
}
