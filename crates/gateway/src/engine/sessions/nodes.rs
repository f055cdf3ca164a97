//! The owner's view of the nodes: sessions, what each was asked, who may be used.
//!
//! ```text
//!                        .----- answers ------.
//!                        v                    |
//! Away -> Greeting -> Ready <-> Suspect --> Hung
//!   ^________|__________|__________|_________|      (session lost)
//! ```
//! Away: no session. Greeting: hello, fence and scan are under way. Ready: used. Suspect: connected but late with an
//! answer; reads go round it, as long as there is a way, and writes leave it until it answers again. Hung: a core of it
//! says nothing for so long that nobody waits for it any more: as good as away, but for its session. A node has one
//! session per core of its own, and answers when each of them does.

use shorttail_units::{Incarnation, NodeId, StripeId};
use shorttail_wire::node::NodeRequest;

use shorttail_monitor::limits::HEDGE_US_MAX;

use super::node_session::Session;

/// A session: a node and one of its cores.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SessionId {
    pub node: NodeId,
    pub core: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodePhase {
    Away,
    Greeting,
    Ready,
    Suspect,
    Hung,
}

impl NodePhase {
    /// Some of its sessions are still to be opened or greeted.
    pub fn is_greeting(self) -> bool {
        matches!(self, NodePhase::Away | NodePhase::Greeting)
    }

    /// It is connected, and is asked for nothing but a sign of life, if there is any choice.
    pub fn is_silent(self) -> bool {
        matches!(self, NodePhase::Suspect | NodePhase::Hung)
    }
}

#[derive(Debug)]
pub struct Node {
    pub id: NodeId,
    pub phase: NodePhase,
    /// When the oldest of what it owed was asked, or a core that owed it was heard last, as of when it became suspect.
    pub silent_since_us: u64,
    pub incarnation: Option<Incarnation>,
    pub sessions: Vec<Session>,
    /// After how long a short read, and a write, is late.
    pub read_delay_us: u64,
    pub write_delay_us: u64,
    /// Since when it owes an append that is older than usual.
    pub write_late_us: Option<u64>,
    /// Chunks that it took in the place of slow nodes.
    pub redirect_count: u64,
}

impl Node {
    fn new(id: NodeId) -> Self {
        Node {
            id,
            phase: NodePhase::Away,
            silent_since_us: 0,
            incarnation: None,
            sessions: vec![Session::default()],
            read_delay_us: HEDGE_US_MAX,
            write_delay_us: HEDGE_US_MAX,
            write_late_us: None,
            redirect_count: 0,
        }
    }

    pub fn sessions_by_id(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        let node = self.id;
        self.sessions.iter().enumerate().map(move |(core, session)| (SessionId { node, core: core as u16 }, session))
    }

    pub fn sessions_by_id_mut(&mut self) -> impl Iterator<Item = (SessionId, &mut Session)> {
        let (node, sessions) = (self.id, self.sessions.iter_mut());
        sessions.enumerate().map(move |(core, session)| (SessionId { node, core: core as u16 }, session))
    }

    /// The core that holds a stripe's chunk.
    pub fn core_of(&self, stripe: StripeId) -> usize {
        (stripe.raw().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as usize % self.sessions.len()
    }

    /// How many of so many consecutive stripes one core of so many has at most: they spread nearly evenly.
    pub fn stripes_on_core(stripe_count: u64, core_count: usize) -> u64 {
        let even = stripe_count.div_ceil(core_count as u64);
        stripe_count.min(even + even / 16 + 3)
    }

    pub fn memory_bytes(&self) -> u64 {
        self.sessions.iter().map(|session| session.memory_bytes).sum()
    }

    /// All that its smallest core has.
    pub fn core_bytes(&self) -> u64 {
        self.sessions.iter().map(|session| session.memory_bytes).min().unwrap_or(0)
    }

    pub fn used_bytes(&self) -> u64 {
        self.sessions.iter().map(|session| session.used_bytes).sum()
    }

    /// What chunks take.
    pub fn held_bytes(&self) -> u64 {
        self.sessions.iter().map(|session| session.held_bytes).sum()
    }

    /// Bytes left on its fullest core: any stripe may fall on that one.
    pub fn free_bytes(&self) -> u64 {
        let free = |session: &Session| session.memory_bytes.saturating_sub(session.used_bytes);
        self.sessions.iter().map(free).min().unwrap_or(0)
    }
}

#[derive(Debug, Default)]
pub struct Nodes {
    places: Vec<Option<Node>>,
}

impl Nodes {
    pub fn add(&mut self, id: NodeId) {
        let place = usize::from(id.0);
        if self.places.len() <= place {
            self.places.resize_with(place + 1, || None);
        }
        self.places[place].get_or_insert_with(|| Node::new(id));
    }

    /// The node is no part of the cluster any more.
    pub fn remove(&mut self, id: NodeId) {
        if let Some(place) = self.places.get_mut(usize::from(id.0)) {
            *place = None;
        }
    }

    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.places.get(usize::from(id.0))?.as_ref()
    }

    pub fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.places.get_mut(usize::from(id.0))?.as_mut()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.places.iter().flatten()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.places.iter_mut().flatten()
    }

    pub fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.get_mut(id.node)?.sessions.get_mut(usize::from(id.core))
    }

    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.get(id.node)?.sessions.get(usize::from(id.core))
    }

    pub fn sessions_by_id(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.iter().flat_map(Node::sessions_by_id)
    }

    /// Sessions with something queued that leaves when it was gathered.
    pub fn gathering(&self) -> impl Iterator<Item = SessionId> {
        self.sessions_by_id().filter(|(_, session)| session.is_gathering()).map(|(id, _)| id)
    }

    /// Sessions that owe something.
    pub fn busy_sessions(&self) -> impl Iterator<Item = SessionId> {
        self.sessions_by_id().filter(|(_, session)| !session.asked.is_empty()).map(|(id, _)| id)
    }

    /// The sessions of a node.
    pub fn sessions_of(&self, node: NodeId) -> impl Iterator<Item = SessionId> + use<> {
        let core_count = self.get(node).map_or(0, |node| node.sessions.len());
        (0..core_count).map(move |core| SessionId { node, core: core as u16 })
    }

    pub fn session_of(&self, node: NodeId, stripe: StripeId) -> SessionId {
        let core = self.get(node).map_or(0, |node| node.core_of(stripe));
        SessionId { node, core: core as u16 }
    }

    pub fn is_ready(&self, id: NodeId) -> bool {
        self.get(id).is_some_and(|node| node.phase == NodePhase::Ready)
    }

    /// Did a core of the node tell all that it holds?
    pub fn has_told(&self, id: SessionId) -> bool {
        let session = self.get(id.node).and_then(|node| node.sessions.get(usize::from(id.core)));
        session.is_some_and(|session| session.greeted)
    }

    /// Did the core that a stripe falls on tell all that it holds, while its node waits for another one to do so?
    pub fn has_told_already(&self, id: NodeId, stripe: StripeId) -> bool {
        self.get(id).is_some_and(|node| node.phase.is_greeting()) && self.has_told(self.session_of(id, stripe))
    }

    /// Did a core tell all that it holds of the memory that was met there last, be it away now?
    pub fn has_told_once(&self, id: SessionId) -> bool {
        let Some(node) = self.get(id.node) else { return false };
        let told = node.sessions.get(usize::from(id.core)).and_then(|session| session.told);
        told.is_some() && told == node.incarnation
    }

    /// In use, even if late: the last resort of a degraded read.
    pub fn is_reachable(&self, id: NodeId) -> bool {
        self.get(id).is_some_and(|node| matches!(node.phase, NodePhase::Ready | NodePhase::Suspect))
    }

    pub fn ready_count(&self) -> usize {
        self.iter().filter(|node| node.phase == NodePhase::Ready).count()
    }

    pub fn count(&self) -> usize {
        self.iter().count()
    }

    /// The session, if its node lets its owners put appends.
    pub fn ringed_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.session_mut(id).filter(|session| session.connected && session.ring.is_some())
    }

    /// Puts a request in a session's outbox; where in the session's stream it begins. `None`, with nothing sent, when
    /// there is no session.
    pub fn send(&mut self, id: SessionId, request: &NodeRequest<'_>, tag: u64) -> Option<u64> {
        Some(self.session_mut(id).filter(|session| session.connected)?.put(request, tag))
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::Epoch;

    use super::*;

    #[test]
    fn consecutive_stripes_spread_over_the_cores_nearly_evenly() {
        let mut node = Node::new(NodeId(0));
        for core_count in [1, 2, 3, 4, 6, 8, 12, 16, 32, 64] {
            node.sessions.resize_with(core_count, Session::default);
            for (start, stripe_count) in (0..200).map(|it| (it * 7_919_333, 1 << (it % 11))) {
                let mut counts = vec![0; core_count];
                let first = StripeId::new(Epoch(1 + start as u32 % 97), start);
                (0..stripe_count).for_each(|it| counts[node.core_of(first.plus(it))] += 1);
                let most = counts.into_iter().max().unwrap_or(0);
                let at_most = Node::stripes_on_core(stripe_count, core_count);
                assert!(most <= at_most, "{most} of {stripe_count} on one of {core_count}, from {start}");
            }
        }
    }
}
