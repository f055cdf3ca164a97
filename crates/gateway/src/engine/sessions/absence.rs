//! The way of a node that went away, as this owner sees it: a log line for each step.
//!
//! ```text
//! used --session lost--> away --each stripe that it left unsealed is emptied--> gone round
//!                                                                                  | greeted, fenced, scanned
//! used, whole <--nothing is missing, and nobody else is away-- in use again <------'
//! ```
//! Who is not there when the owner begins to serve is away, too. From *away* on reads of its chunks are decoded and
//! nothing new goes there; what was under way was begun elsewhere. *Gone round*: only sealed stripes have it as a
//! member. It may be back before. Only an owner that is proven (rule R2) tells that nothing is missing: a later one may
//! have freed what this one believes to be there.
//!
//! Where that leaves the node is its stage ([`NodeStage`]), which the coordinator hears of every owner.
//!
//! Must not know: anything that follows from it. Nobody decides by these steps; they are told, and measured.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use shorttail_units::{NodeId, StripeId};
use shorttail_wire::control::NodeStage;

use super::nodes::{Node, NodePhase};
use crate::engine::Engine;
use crate::engine::limits::STEPS_KEPT_MAX;

/// What became of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Away,
    GoneRound,
    InUseAgain,
    Whole,
}

/// The log's words.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Away => "node is away",
            Step::GoneRound => "node is gone round",
            Step::InUseAgain => "node is in use again",
            Step::Whole => "nothing is missing since the node is back",
        })
    }
}

#[derive(Debug, Default)]
struct Absence {
    /// What it left unsealed, as far as it is not emptied.
    unsealed: Vec<StripeId>,
    is_gone_round: bool,
    is_back: bool,
    is_given_up: bool,
}

/// Nodes that went away, or never came, until nothing is missing any more.
#[derive(Debug, Default)]
pub struct Absences {
    of: BTreeMap<NodeId, Absence>,
    /// What was told, until somebody takes it.
    told: VecDeque<(NodeId, Step)>,
}

impl Absences {
    fn begin(&mut self, node: NodeId, unsealed: Vec<StripeId>) {
        self.of.insert(node, Absence { unsealed, ..Absence::default() });
    }

    /// The memory that it had is not waited for; it may come back with another.
    fn give_up(&mut self, node: NodeId) {
        if let Some(absence) = self.of.get_mut(&node) {
            absence.is_given_up = true;
        }
    }

    /// False: it was not away.
    fn end(&mut self, node: NodeId) -> bool {
        let Some(absence) = self.of.get_mut(&node).filter(|absence| !absence.is_back) else { return false };
        absence.is_back = true;
        true
    }

    /// Where the steps that were told leave a node.
    fn stage(&self, node: NodeId) -> NodeStage {
        match self.of.get(&node) {
            None => NodeStage::Normal,
            Some(absence) if !absence.is_gone_round => NodeStage::Intermediate,
            Some(absence) if absence.is_back => NodeStage::Coordinated,
            Some(_) => NodeStage::Degraded,
        }
    }

    /// Steps that were made since, given which stripes exist and whether a chunk may be missing.
    fn advance(&mut self, exists: impl Fn(StripeId) -> bool, may_miss: bool) -> Vec<(NodeId, Step)> {
        let mut steps = Vec::new();
        for (&node, absence) in &mut self.of {
            absence.unsealed.retain(|&stripe| exists(stripe));
            if absence.unsealed.is_empty() && !std::mem::replace(&mut absence.is_gone_round, true) {
                steps.push((node, Step::GoneRound));
            }
        }
        let is_there = |absence: &Absence| absence.is_back || absence.is_given_up;
        let are_gone_round = |absence: &Absence| absence.unsealed.is_empty();
        if !may_miss && self.of.values().all(|absence| is_there(absence) && are_gone_round(absence)) {
            let back: Vec<NodeId> =
                self.of.iter().filter(|(_, absence)| absence.is_back).map(|(&node, _)| node).collect();
            self.of.retain(|_, absence| !absence.is_back);
            steps.extend(back.into_iter().map(|node| (node, Step::Whole)));
        }
        steps
    }
}

impl Engine {
    /// A node's session is lost: to be called while its phase still tells whether it was used.
    pub(super) fn note_away(&mut self, id: NodeId) {
        let was_used = self.nodes.get(id).is_some_and(|node| !node.phase.is_greeting());
        if was_used {
            self.forget_left(id);
        }
        if was_used && self.is_serving() {
            self.begin_absence(id);
        }
    }

    /// This owner begins to serve: nodes that it did not meet are away for it from the beginning.
    pub(in crate::engine) fn note_who_never_came(&mut self) {
        let is_away = |node: &&Node| node.phase.is_greeting();
        for id in self.nodes.iter().filter(is_away).map(|node| node.id).collect::<Vec<_>>() {
            self.begin_absence(id);
            if self.is_gone(id) {
                self.note_given_up(id);
            }
        }
    }

    fn begin_absence(&mut self, id: NodeId) {
        let unsealed = self.stripes.unsealed().iter().copied().map(|slot| self.stripes.at(slot));
        // Those that others left before are being emptied, and it is a member of them until that is done.
        let ending = self.voids.emptied().filter_map(|stripe| self.stripes.slot_of(stripe));
        let emptied = self.stripes_emptied().chain(ending).map(|slot| self.stripes.at(slot));
        let unsealed = unsealed.chain(emptied.filter(|stripe| stripe.open.is_some()));
        let left = unsealed.filter(|stripe| stripe.member_of(id).is_some());
        let left = left.map(|stripe| stripe.id).collect();
        self.absences.begin(id, left);
        self.tell(id, Step::Away);
    }

    /// All its sessions are greeted.
    pub(super) fn note_back(&mut self, id: NodeId) {
        debug_assert!(self.nodes.get(id).is_some_and(|node| node.phase == NodePhase::Ready));
        if self.absences.end(id) {
            self.tell(id, Step::InUseAgain);
        }
    }

    pub(super) fn note_given_up(&mut self, id: NodeId) {
        self.absences.give_up(id);
    }

    pub(super) fn forget_absence(&mut self, id: NodeId) {
        self.absences.of.remove(&id);
    }

    /// `None`: it is no member, or was taken out; or this owner does not serve yet, and knows of no absence.
    pub fn stage(&self, id: NodeId) -> Option<NodeStage> {
        let is_taken_out = || self.is_gone(id) && !self.absences.of.contains_key(&id);
        let is_known = self.is_serving() && self.nodes.get(id).is_some() && !is_taken_out();
        is_known.then(|| self.absences.stage(id))
    }

    /// Tells what changed in this turn.
    pub(in crate::engine) fn watch_absences(&mut self) {
        if self.absences.of.is_empty() {
            return;
        }
        // Who is not proven does not know what others freed.
        let may_miss = self.repair.may_miss() || !self.is_proven(self.now);
        let stripes = &self.stripes;
        for (node, step) in self.absences.advance(|stripe| stripes.slot_of(stripe).is_some(), may_miss) {
            self.tell(node, step);
        }
    }

    fn tell(&mut self, node: NodeId, step: Step) {
        tracing::info!(node = node.0, epoch = self.config.epoch.0, "{step}");
        if self.absences.told.len() >= STEPS_KEPT_MAX {
            self.absences.told.pop_front();
        }
        self.absences.told.push_back((node, step));
    }

    /// The next step that was told. If nobody takes them, the newest are kept.
    pub fn poll_step(&mut self) -> Option<(NodeId, Step)> {
        self.absences.told.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const NOTHING: [(NodeId, Step); 0] = [];

    fn stripe(number: u64) -> StripeId {
        StripeId::from_raw(number)
    }

    fn away(nodes: &[(NodeId, &[u64])]) -> Absences {
        let mut absences = Absences::default();
        for (node, left) in nodes {
            absences.begin(*node, left.iter().copied().map(stripe).collect());
        }
        absences
    }

    #[test]
    fn a_node_is_gone_round_when_the_last_of_its_stripes_is_emptied() {
        let mut absences = away(&[(A, &[1, 2]), (B, &[])]);
        assert_eq!(absences.advance(|_| true, true), [(B, Step::GoneRound)]);
        assert_eq!([A, B].map(|node| absences.stage(node)), [NodeStage::Intermediate, NodeStage::Degraded]);
        assert_eq!(absences.advance(|id| id == stripe(2), true), NOTHING);
        assert_eq!(absences.advance(|_| false, true), [(A, Step::GoneRound)]);
        assert_eq!(absences.advance(|_| false, true), NOTHING, "told once");
    }

    #[test]
    fn nothing_is_whole_while_another_is_away_or_a_chunk_is_missing() {
        let mut absences = away(&[(A, &[]), (B, &[])]);
        absences.advance(|_| false, true);
        assert!(absences.end(A) && !absences.end(A), "back once");
        assert_eq!([A, B].map(|node| absences.stage(node)), [NodeStage::Coordinated, NodeStage::Degraded]);
        assert_eq!(absences.advance(|_| false, false), NOTHING, "B is away");
        assert!(absences.end(B));
        assert_eq!(absences.advance(|_| false, true), NOTHING, "something is missing");
        assert_eq!(absences.advance(|_| false, false), [(A, Step::Whole), (B, Step::Whole)]);
        assert_eq!([A, B].map(|node| absences.stage(node)), [NodeStage::Normal; 2]);
        assert!(absences.of.is_empty() && !absences.end(A), "nothing is known of those that are there");
    }

    #[test]
    fn what_is_given_up_is_not_waited_for_and_may_come_back() {
        let mut absences = away(&[(A, &[]), (B, &[7])]);
        absences.give_up(B);
        absences.end(A);
        assert_eq!(absences.advance(|_| true, false), [(A, Step::GoneRound)], "B left a stripe that is not emptied");
        assert_eq!(absences.advance(|_| false, false), [(B, Step::GoneRound), (A, Step::Whole)]);
        assert!(absences.end(B));
        assert_eq!(absences.advance(|_| false, false), [(B, Step::Whole)]);
    }
}
