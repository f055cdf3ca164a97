//! What each owner tells of each node's absence, against MemEC's states and against what is there.
//!
//! - Steps come in the legal order ([`NodeState`]).
//! - *Intermediate* ends when nothing is under way any more of what was when the node left, nor anything newer while
//!   it is away: all of it was settled, or begun elsewhere.
//! - A node that is *degraded* is given nothing and asked for nothing. It is greeted and fenced again, and what it
//!   forgets, or who else is a member, it may be told by those of its cores whose sessions stand.
//! - *Normal* is told only when the nodes hold all that is to be there, of every node.
//!
//! Must not know: what the engine thinks of a node; how it comes to a step.

use std::collections::{BTreeMap, BTreeSet};

use shorttail_gateway::engine::{SessionId, Step};
use shorttail_units::{NodeId, StripeId};
use shorttail_wire::node::{NodeRequest, next_frame};

use super::{Violation, World};
use crate::node_state::NodeState;

/// A node on its way, as an owner told.
struct Watched {
    state: NodeState,
    /// What was under way with it when it left, as far as it is not settled.
    left: BTreeSet<StripeId>,
    /// Cores to which something was sent since: the first batch may have been queued before, on a session that stands.
    sent: BTreeSet<u16>,
}

/// By the owner's epoch; nodes that are in *normal* state are not there.
#[derive(Default)]
pub(super) struct Transitions(BTreeMap<u32, BTreeMap<NodeId, Watched>>);

impl Transitions {
    fn state(&self, epoch: u32, node: NodeId) -> NodeState {
        self.0.get(&epoch).and_then(|nodes| nodes.get(&node)).map_or(NodeState::Normal, |watched| watched.state)
    }

    /// An owner is over, and another one begins with what it finds.
    pub fn forget(&mut self, epoch: u32) {
        self.0.remove(&epoch);
    }
}

/// May an owner say this to a node that it does not use?
fn is_allowed(request: &NodeRequest<'_>) -> bool {
    matches!(
        request,
        NodeRequest::Hello(_)
            | NodeRequest::Fence { .. }
            | NodeRequest::Scan { .. }
            | NodeRequest::Renew { .. }
            | NodeRequest::Release { .. }
            | NodeRequest::Free { .. }
            | NodeRequest::Close { .. }
            | NodeRequest::Reconfigure { .. }
    )
}

impl World {
    /// To be called when the engines' turn ended, and nothing of it was sent.
    pub(super) fn watch_transitions(&mut self, gateway: usize) {
        for epoch in self.gateways[gateway].tenures.keys().copied().collect::<Vec<_>>() {
            let engine = |world: &mut World| world.gateways[gateway].tenures.get_mut(&epoch)?.engine.poll_step();
            while let Some((node, step)) = engine(self) {
                if let Err(text) = self.take_step(gateway, epoch, node, step) {
                    let text = format!("epoch {epoch} and {node}: {text}");
                    return self.fail(Violation::Transition(text));
                }
            }
            let is_right = self.stages_are_those_of_the_steps(gateway, epoch);
            if let Err(text) = is_right.and_then(|()| self.nothing_goes_to_the_degraded(gateway, epoch)) {
                return self.fail(Violation::Transition(format!("epoch {epoch}: {text}")));
            }
        }
    }

    fn take_step(&mut self, gateway: usize, epoch: u32, node: NodeId, step: Step) -> Result<(), String> {
        self.note(format_args!("epoch {epoch}: {step}: {node}"));
        let state = self.transitions.state(epoch, node).after(step).map_err(|illegal| illegal.to_string())?;
        self.counts.steps[step as usize] += 1;
        let unsettled = self.unsettled_with(gateway, epoch, node);
        let is_back = self.gateways[gateway].tenures.get(&epoch).is_some_and(|hosted| hosted.engine.reaches(node));
        let nodes = self.transitions.0.entry(epoch).or_default();
        match step {
            Step::Away => {
                // It may have been back before the turn ended: then what is under way with it may be newer.
                let left = if is_back { BTreeSet::new() } else { unsettled };
                nodes.insert(node, Watched { state, left, sent: BTreeSet::new() });
            }
            Step::Whole => {
                nodes.remove(&node);
                self.nothing_is_missing(gateway, epoch)?;
            }
            Step::GoneRound | Step::InUseAgain => {
                let watched = nodes.get_mut(&node).expect("a node that is not in normal state");
                watched.state = state;
                watched.left.retain(|stripe| unsettled.contains(stripe));
                if step == Step::GoneRound && !watched.left.is_empty() {
                    return Err(format!("it is gone round, and {:?} are under way with it", watched.left));
                }
            }
        }
        Ok(())
    }

    fn unsettled_with(&self, gateway: usize, epoch: u32, node: NodeId) -> BTreeSet<StripeId> {
        let hosted = self.gateways[gateway].tenures.get(&epoch);
        hosted.map_or_else(BTreeSet::new, |hosted| hosted.engine.unsettled_with(node))
    }

    /// What the coordinator is told of each node is where the steps led.
    fn stages_are_those_of_the_steps(&self, gateway: usize, epoch: u32) -> Result<(), String> {
        let Some(hosted) = self.gateways[gateway].tenures.get(&epoch) else { return Ok(()) };
        for node in self.nodes.iter().map(|node| node.id) {
            let stage = self.transitions.state(epoch, node).stage();
            if let Some(told) = hosted.engine.stage(node).filter(|&told| told != stage) {
                return Err(format!("{node} is told to be {}, and is {}", told.name(), stage.name()));
            }
        }
        Ok(())
    }

    fn nothing_goes_to_the_degraded(&self, gateway: usize, epoch: u32) -> Result<(), String> {
        let Some(nodes) = self.transitions.0.get(&epoch) else { return Ok(()) };
        for (&node, _) in nodes.iter().filter(|(_, watched)| watched.state == NodeState::Degraded) {
            let unsettled = self.unsettled_with(gateway, epoch, node);
            if !unsettled.is_empty() {
                return Err(format!("{node} is degraded, and {unsettled:?} are under way with it"));
            }
        }
        Ok(())
    }

    /// Bytes leave for a node: none that are for a node in use, if it is degraded.
    pub(super) fn check_sent(&mut self, epoch: u32, session: SessionId, bytes: &[u8]) {
        let watched = self.transitions.0.get_mut(&epoch).and_then(|nodes| nodes.get_mut(&session.node));
        let Some(watched) = watched else { return };
        let is_first = watched.sent.insert(session.core);
        if is_first || watched.state != NodeState::Degraded {
            return;
        }
        let mut at = 0;
        while let Some((frame, length)) = next_frame(&bytes[at..]).expect("an engine's own frames") {
            let request = NodeRequest::parse(&frame).expect("an engine's own requests");
            if !is_allowed(&request) {
                let text = format!("epoch {epoch} asks {}, which is degraded, for {request:?}", session.node);
                return self.fail(Violation::Transition(text));
            }
            at += length;
        }
    }

    /// Every owner says that nothing is missing: is it so?
    pub(super) fn audit_whole(&mut self) {
        let tenures = |(gateway, host): (usize, &super::GatewayHost)| {
            host.tenures.keys().map(move |&epoch| (gateway, epoch)).collect::<Vec<_>>()
        };
        for (gateway, epoch) in self.gateways.iter().enumerate().flat_map(tenures).collect::<Vec<_>>() {
            if let Err(text) = self.nothing_is_missing(gateway, epoch) {
                return self.fail(Violation::Audit(format!("epoch {epoch}: {text}")));
            }
        }
    }

    /// Every chunk of what is sealed is with the node that is to have it, unless that died or came back just now and
    /// the owner cannot know.
    fn nothing_is_missing(&mut self, gateway: usize, epoch: u32) -> Result<(), String> {
        let Some(hosted) = self.gateways[gateway].tenures.get(&epoch) else { return Ok(()) };
        let placed = hosted.engine.chunks_placed();
        let away: Vec<_> = placed.iter().filter(|(_, node)| !hosted.engine.reaches(*node)).collect();
        if let Some((stripe, node)) = away.first() {
            return Err(format!("nothing is missing, and {node} is not there, which has a chunk of {stripe:?}"));
        }
        let known: BTreeMap<NodeId, _> =
            placed.iter().map(|&(_, node)| (node, hosted.engine.incarnation_of(node))).collect();
        let held: BTreeSet<(StripeId, NodeId)> = self
            .scan_all()
            .into_iter()
            .flat_map(|(stripe, found)| found.into_iter().map(move |chunk| (stripe, chunk)))
            .filter(|(_, chunk)| chunk.report.sealed)
            .map(|(stripe, chunk)| (stripe, chunk.node))
            .map(|(stripe, node)| (stripe, self.nodes[node].id))
            .collect();
        let is_seen = |node: NodeId| {
            let host = &self.nodes[usize::from(node.0)];
            host.is_up() && !host.is_rotten && known[&node] == Some(host.incarnation)
        };
        let missing = placed.iter().find(|(stripe, node)| is_seen(*node) && !held.contains(&(*stripe, *node)));
        match missing {
            Some((stripe, node)) => Err(format!("nothing is missing, and {node} has no chunk of {stripe:?}")),
            None => Ok(()),
        }
    }
}
