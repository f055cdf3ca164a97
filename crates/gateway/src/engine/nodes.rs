//! The owner's view of the nodes: sessions, what each was asked, who may be used.
//!
//! ```text
//! Away -> Greeting -> Ready <-> Suspect
//!   ^________|__________|__________|      (session lost)
//! ```
//! Away: no session. Greeting: hello, fence and scan are under way. Ready: used. Suspect: connected but late with an
//! answer; reads go round it and writes leave it until it answers again. A node has one session per core of its own.

use std::collections::VecDeque;

use shorttail_units::{Incarnation, NodeId, StripeId};
use shorttail_wire::node::NodeRequest;

use super::limits::BATCH_BYTES_MAX;
use super::pool::PoolKey;

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
}

#[derive(Debug, Default)]
pub struct Session {
    /// Bytes for the server to send.
    pub outbox: Vec<u8>,
    pub connected: bool,
    /// The outbox holds a request that is answered.
    expects_answer: bool,
    /// A batch was sent, and nothing came back since.
    is_batch_out: bool,
    /// Hello, fence and scan are done.
    pub greeted: bool,
    /// Tags in the order in which they were sent, with the time; answered ones are dropped lazily.
    pub asked: VecDeque<(u64, PoolKey)>,
    pub memory_bytes: u64,
    pub used_bytes: u64,
}

impl Session {
    /// The outbox, if it is to be sent now. One batch is out at a time: what comes up meanwhile leaves together when the
    /// node answered, for one wake-up of it (a busy node is not asked sooner by being asked more often). A batch that
    /// grows large leaves at once.
    pub fn batch(&mut self) -> Option<&mut Vec<u8>> {
        if self.outbox.is_empty() || self.is_batch_out && self.outbox.len() < BATCH_BYTES_MAX {
            return None;
        }
        self.is_batch_out = std::mem::take(&mut self.expects_answer);
        Some(&mut self.outbox)
    }

    pub fn answered(&mut self) {
        self.is_batch_out = false;
    }

    /// A new connection begins: nothing of the old one is left.
    pub fn restart(&mut self, connected: bool) {
        self.connected = connected;
        self.greeted = false;
        self.expects_answer = false;
        self.is_batch_out = false;
        self.outbox.clear();
    }
}

#[derive(Debug)]
pub struct Node {
    pub id: NodeId,
    pub phase: NodePhase,
    pub incarnation: Option<Incarnation>,
    pub sessions: Vec<Session>,
}

impl Node {
    fn new(id: NodeId) -> Self {
        Node { id, phase: NodePhase::Away, incarnation: None, sessions: vec![Session::default()] }
    }

    /// The core that holds a stripe's chunk.
    pub fn core_of(&self, stripe: StripeId) -> usize {
        (stripe.raw().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as usize % self.sessions.len()
    }

    pub fn memory_bytes(&self) -> u64 {
        self.sessions.iter().map(|session| session.memory_bytes).sum()
    }

    pub fn used_bytes(&self) -> u64 {
        self.sessions.iter().map(|session| session.used_bytes).sum()
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

    pub fn session_of(&self, node: NodeId, stripe: StripeId) -> SessionId {
        let core = self.get(node).map_or(0, |node| node.core_of(stripe));
        SessionId { node, core: core as u16 }
    }

    pub fn is_ready(&self, id: NodeId) -> bool {
        self.get(id).is_some_and(|node| node.phase == NodePhase::Ready)
    }

    /// Connected, even if late: the last resort of a degraded read.
    pub fn is_reachable(&self, id: NodeId) -> bool {
        self.get(id).is_some_and(|node| matches!(node.phase, NodePhase::Ready | NodePhase::Suspect))
    }

    pub fn ready_count(&self) -> usize {
        self.iter().filter(|node| node.phase == NodePhase::Ready).count()
    }

    pub fn count(&self) -> usize {
        self.iter().count()
    }

    /// Puts a request in a session's outbox. Returns false, with nothing sent, when there is no session.
    pub fn send(&mut self, id: SessionId, request: &NodeRequest<'_>, tag: u64) -> bool {
        let Some(session) = self.session_mut(id).filter(|session| session.connected) else { return false };
        request.encode(tag, &mut session.outbox);
        session.expects_answer |= !matches!(request, NodeRequest::Stable { .. });
        true
    }
}
