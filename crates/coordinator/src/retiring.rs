//! Nodes that stay dead are given up: none that may still be serving, and no more than may be missing.
//!
//! ```text
//!                                                         it holds nothing, or no stripe lacks too much without it,
//!      `retire_after` without an answer to anybody        and somebody could make up for it
//! dead -------------------------------------------> due ----------------------------------------------------------> retired
//!                                                    '--else: waited for, until it is back, or that holds,
//!                                                       or the operator takes it out
//! ```
//! What is given up is wiped when it is back. Nodes that are only out of reach, or stopped, have all that they held:
//! were more of them given up than the code survives, everything would be lost though no memory was. And while no
//! gateway reaches enough of them to own anything, this side of a cut may be the smaller one: nothing is gained by
//! giving up the other. While the metadata store is away nobody is given up either: owners would hear of it much later,
//! and rebuild nothing until then, and nodes that are back are not let in.
//!
//! Must not know: how chunks are rebuilt.

use shorttail_units::{Incarnation, Now};
use shorttail_wire::control::{NodeSeen, NodeState};

use crate::coordinator::Coordinator;
use crate::lifecycle::Event;
use crate::limits::{LOSS_TOLD_MS, REACH_TOLD_MS};
use crate::members::{GatewayMember, NodeMember};

/// What stripes may have lost at worst, of which each node may be a part.
struct LossesAtWorst {
    /// Chunks of one stripe that some gateway told of.
    told: usize,
    /// Nodes of whose loss owners may not have told.
    untold: usize,
    /// Nodes of which something may be missing, if nobody can tell now.
    doubtful: Option<usize>,
}

/// What becomes of nodes that are due depends on it, and changes it.
struct Prospects {
    could_be_rebuilt: bool,
    losses: LossesAtWorst,
}

impl Coordinator {
    /// The time after which a dead node is given up begins when no gateway has an answer of it any more.
    pub(crate) fn note_serving(&mut self, now: Now, seen: &[NodeSeen]) {
        for seen in seen.iter().filter(|seen| seen.connected) {
            let node = self.nodes.get_mut(&seen.id).filter(|node| node.presence.state == NodeState::Dead);
            node.into_iter().for_each(|node| {
                node.presence.since_us = now.mono_us;
                node.reached_since_us.get_or_insert(now.mono_us);
            });
        }
    }

    /// Is it out of the coordinator's own sight alone? What gateways told a moment after its death may be older.
    pub(crate) fn is_reached_elsewhere(&self, id: u16) -> bool {
        let is_old = |since_us: u64| self.now_us >= since_us + REACH_TOLD_MS * 1000;
        let node = self.nodes.get(&id).filter(|node| node.presence.state == NodeState::Dead);
        node.is_some_and(|node| node.reached_since_us.is_some_and(is_old)) && self.is_seen(id)
    }

    /// Does a gateway reach it, as it told last?
    fn is_seen(&self, id: u16) -> bool {
        let sees = |gateway: &GatewayMember| gateway.status.nodes.iter().any(|node| node.id == id && node.connected);
        self.living().any(|gateway| gateway.has_told && sees(gateway))
    }

    /// Gives up nodes that are due, those first that died first.
    pub(crate) fn retire_nodes(&mut self, now: Now) {
        if self.rests() {
            return;
        }
        let due = self.nodes.iter().filter(|(_, node)| self.is_due(node, now.mono_us));
        let mut due: Vec<(u64, u16)> = due.map(|(&id, node)| (node.presence.since_us, id)).collect();
        if due.is_empty() || !self.may_go_through_due(now) {
            return;
        }
        due.sort_unstable();
        let told = self.told_of_nodes();
        let mut prospects = None;
        for (_, id) in due {
            if told.may_be_serving(id) {
                self.nodes.get_mut(&id).expect("listed above").presence.since_us = now.mono_us;
            } else if self.is_empty_as(&told, id)
                || self.is_bearable(prospects.get_or_insert_with(|| self.prospects()), id)
            {
                self.retire(now, id);
                prospects = None;
            }
        }
    }

    /// The store is there again: who is dead may come back now, for which that time does not count, heirs hear only now
    /// of what they are to prepare for, and owners of what was given up before.
    pub(crate) fn end_rest(&mut self, now: Now, began_us: u64) {
        let rested = |since_us: u64| now.mono_us.saturating_sub(began_us.max(since_us));
        let nodes = self.nodes.values_mut().map(|node| &mut node.presence);
        let members = nodes.chain(self.gateways.values_mut().map(|gateway| &mut gateway.presence));
        let dead = members.filter(|presence| presence.state == NodeState::Dead);
        dead.for_each(|presence| presence.since_us += rested(presence.since_us));
        self.started_us += rested(self.started_us);
        self.put_off_order(now);
        self.count_losses_anew(now);
    }

    /// Owners may not have heard yet of what was given up and is not known to be rebuilt, whatever they tell first.
    pub(crate) fn count_losses_anew(&mut self, now: Now) {
        for (id, node) in &mut self.nodes {
            if self.durable.nodes[id].may_miss() {
                node.given_up_us = node.given_up_us.map(|_| now.mono_us);
            }
        }
    }

    /// For so long no report was handled: owners have that much more time to tell of what was given up, and to meet
    /// lives that are new to them.
    pub(crate) fn put_off_losses(&mut self, stood_us: u64) {
        for node in self.nodes.values_mut() {
            node.given_up_us = node.given_up_us.map(|since_us| since_us + stood_us);
            if !node.is_met {
                node.since_us += stood_us;
            }
        }
    }

    fn retire(&mut self, now: Now, id: u16) {
        self.note_given_up(now, id);
        let node = self.nodes.get_mut(&id).expect("a known node");
        node.presence.apply(now.mono_us, Event::GivenUp);
        node.is_met = true;
        let durable = self.durable.nodes.get_mut(&id).expect("every member is durable");
        durable.retired_through = durable.retired_through.max(node.incarnation.0);
        self.mark_view_changed();
        self.persist();
    }

    fn is_due(&self, node: &NodeMember, now_us: u64) -> bool {
        let deadline_us = node.presence.deadline_us(self.settings.retire_after_ms);
        node.presence.state == NodeState::Dead && deadline_us.is_some_and(|deadline_us| deadline_us <= now_us)
    }

    fn prospects(&self) -> Prospects {
        Prospects { could_be_rebuilt: self.could_be_rebuilt(), losses: self.losses_at_worst() }
    }

    /// Does the code survive it that what the node holds is lost, too, and would that be made up for?
    fn is_bearable(&self, prospects: &Prospects, id: u16) -> bool {
        let lost = || self.lost_beside(&prospects.losses, id);
        prospects.could_be_rebuilt && lost() < self.settings.code.tolerance()
    }

    /// Are there owners, or may there be some?
    fn could_be_rebuilt(&self) -> bool {
        self.partitions_served() == self.settings.partition_count || self.could_anybody_follow()
    }

    /// Nodes that are dead for so long that they would be given up, if they might.
    pub(crate) fn waited_for(&self) -> Vec<u16> {
        let due = self.nodes.iter().filter(|(_, node)| self.is_due(node, self.now_us));
        let mut due: Vec<u16> = due.map(|(&id, _)| id).collect();
        if !due.is_empty() {
            let (told, prospects) = (self.told_of_nodes(), self.prospects());
            due.retain(|&id| !self.is_empty_as(&told, id) && !self.is_bearable(&prospects, id));
        }
        due
    }

    pub(crate) fn is_waited_for(&self, id: u16) -> bool {
        self.waited_for().contains(&id)
    }

    /// What a node held is lost from now on.
    pub(crate) fn note_given_up(&mut self, now: Now, id: u16) {
        if self.is_empty(id) {
            return;
        }
        self.gateways.values_mut().for_each(|gateway| gateway.untold_losses += 1);
        self.nodes.get_mut(&id).expect("a known node").given_up_us = Some(now.mono_us);
    }

    /// A node registers with another memory: what the life before held is lost. Owners know of that when they know the
    /// new life, which may be over again by then.
    pub(crate) fn note_replaced(&mut self, now: Now, id: u16, incarnation: Incarnation) {
        let Some(node) = self.nodes.get(&id).filter(|node| node.incarnation != incarnation && node.is_met) else {
            return;
        };
        if self.is_empty(id) {
            return;
        }
        if node.presence.state != NodeState::Retired {
            self.note_given_up(now, id);
        }
        self.nodes.get_mut(&id).expect("looked up").is_met = false;
    }

    /// Owners that reach a node have greeted its present life; their reports may be a little older.
    pub(crate) fn note_met(&mut self, now: Now) {
        if self.nodes.values().all(|node| node.is_met) || !self.can_tell_losses() {
            return;
        }
        let owns = |id: &u16| self.durable.tenures.values().any(|tenure| tenure.gateway == *id);
        let owners: Vec<&GatewayMember> =
            self.gateways.iter().filter(|(id, _)| owns(id)).map(|(_, gateway)| gateway).collect();
        let is_reached = |id: u16| {
            let sees = |owner: &&GatewayMember| owner.status.nodes.iter().any(|seen| seen.id == id && seen.connected);
            !owners.is_empty() && owners.iter().all(sees)
        };
        let is_met = |&(&id, node): &(&u16, &NodeMember)| {
            !node.is_met && node.presence.is_alive() && is_told(node.since_us, now.mono_us) && is_reached(id)
        };
        let met: Vec<u16> = self.nodes.iter().filter(is_met).map(|(&id, _)| id).collect();
        for id in met {
            self.nodes.get_mut(&id).expect("listed above").is_met = true;
        }
    }

    /// How many chunks may be lost at most of a stripe that is not lost itself, node `beside` being left out of
    /// account.
    pub(crate) fn lost_at_worst(&self, beside: u16) -> usize {
        self.lost_beside(&self.losses_at_worst(), beside)
    }

    /// A gateway's report that came after a node was given up may have been made before. While some partition is not
    /// served nobody can tell of it: then nothing counts as rebuilt that was given up and of which nobody told before,
    /// whatever became of its node.
    fn losses_at_worst(&self) -> LossesAtWorst {
        let told = self.living().map(|gateway| gateway.status.totals.lost_of_readable_max as usize);
        let doubtful = || self.nodes.keys().filter(|id| self.is_doubtful(**id)).count();
        LossesAtWorst {
            told: told.max().unwrap_or(0),
            untold: self.nodes.values().filter(|node| self.is_loss_untold(node)).count(),
            doubtful: (!self.can_tell_losses()).then(doubtful),
        }
    }

    fn lost_beside(&self, losses: &LossesAtWorst, beside: u16) -> usize {
        let is_untold = self.nodes.get(&beside).is_some_and(|node| self.is_loss_untold(node));
        let sure = losses.told + losses.untold - usize::from(is_untold);
        let Some(doubtful) = losses.doubtful else { return sure };
        let doubtful = doubtful - usize::from(self.is_doubtful(beside));
        doubtful.min(self.settings.code.tolerance()).max(sure)
    }

    /// May something be missing, as long as nobody can tell, of what a known node had?
    fn is_doubtful(&self, id: u16) -> bool {
        self.nodes.get(&id).is_some_and(|node| self.may_miss(id) || self.is_loss_untold(node))
    }

    /// May something be missing of what a node had that was given up?
    fn may_miss(&self, id: u16) -> bool {
        self.durable.nodes[&id].may_miss()
    }

    /// Owners tell that nothing is missing that could be rebuilt: that is kept, as nobody can tell while they are
    /// replaced.
    pub(crate) fn note_rebuilt(&mut self, now: Now) {
        if self.rests() || !self.nodes.keys().any(|&id| self.may_miss(id)) || !self.is_all_rebuilt() {
            return;
        }
        let is_rebuilt = |&(&id, node): &(&u16, &NodeMember)| {
            self.may_miss(id) && is_told(node.since_us, now.mono_us) && !self.is_loss_untold(node)
        };
        let rebuilt: Vec<u16> = self.nodes.iter().filter(is_rebuilt).map(|(&id, _)| id).collect();
        for id in &rebuilt {
            let node = self.durable.nodes.get_mut(id).expect("every member is durable");
            node.rebuilt_through = node.retired_through;
        }
        if !rebuilt.is_empty() {
            self.persist();
        }
    }

    /// May owners not have told yet of what was lost with this life, or with the one before?
    pub(crate) fn is_loss_untold(&self, node: &NodeMember) -> bool {
        !node.is_met || node.given_up_us.is_some_and(|since_us| !is_told(since_us, self.now_us))
    }

    /// An owner that takes over counts nothing yet, and of a dead one nothing counts. Nor does what one said last that
    /// is not proven: its core may stand still, and know nothing of what was given up.
    pub(crate) fn can_tell_losses(&self) -> bool {
        self.is_quiet() && self.partitions_served() == self.settings.partition_count
    }

    /// Do owners tell that nothing is missing that could be rebuilt?
    pub(crate) fn is_all_rebuilt(&self) -> bool {
        let is_missing = |gateway: &GatewayMember| gateway.status.totals.lost_of_readable_max > 0;
        self.can_tell_losses() && !self.living().any(is_missing)
    }

    pub(crate) fn waiting_problem(&self) -> Option<String> {
        let waited_for = self.waited_for();
        let first = waited_for.first()?;
        let names: Vec<String> = waited_for.iter().map(u16::to_string).collect();
        let (who, them, first_lost) = match waited_for.len() {
            1 => (format!("node {first} is away for long and is"), "it", "if its memory is gone"),
            _ => (
                format!("nodes {} are away for long and are", names.join(", ")),
                "them",
                "of each whose memory is gone",
            ),
        };
        let code = self.settings.code;
        let why = if self.could_be_rebuilt() {
            // Owners may have told of what was given up a moment ago, or not: then it counts twice.
            let lost = self.lost_at_worst(*first);
            format!(
                "stripes may have lost up to {lost} chunks already and {code} survives the loss of {}: start {them} again",
                code.tolerance()
            )
        } else {
            let (needed, nodes) = self.reach_needed();
            format!(
                "no gateway reaches {needed} of {nodes} nodes, which it takes to own partitions: start {them} again, or see \
                 to the network"
            )
        };
        let lost = match self.unfollowable_without(*first) {
            None => format!("`shorttail remove node {first} --lost`"),
            Some(_) => format!("start node {first} empty (`--id {first}`)"),
        };
        Some(format!("{who} not given up, as {why}; {lost} {first_lost}"))
    }
}

/// Is it so long ago that owners have told of it?
pub(crate) fn is_told(since_us: u64, now_us: u64) -> bool {
    now_us.saturating_sub(since_us) / 1000 >= LOSS_TOLD_MS
}
