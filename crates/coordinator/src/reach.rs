//! Gateways that reach too few nodes, while the coordinator hears them: they are relieved of what they own, and dealt
//! nothing until they reach enough nodes again.
//!
//! ```text
//!         a tenure is not proven for 2 s, and another gateway could follow: the tenure ends
//! sound ------------------------------------------------------------------------------------> cut off
//!   | ^                                                                                        ^ |
//!   | '----- reaches enough nodes for 2 s, and is proven in all that it serves ----------------|-'
//!   '-- reaches too few to read or to store all for 5 s, and another one enough ---------------'
//! ```
//! A few nodes prove a tenure, more are needed to read and to store everything. What a gateway still answers for that
//! reaches too few for that it hands over as planned, as when it is drained.
//!
//! Who answers for a partition is the nodes' to decide, as in any take-over (rule R2). If nobody reaches enough nodes,
//! nodes are away, and nothing moves.
//!
//! A gateway without tenures asks nodes nothing. So one that is cut off is to *prepare*, for a tenure that never comes:
//! what it reaches then it tells. All of it is looked at with each report. None of it is persisted but the epochs:
//! whoever leads later finds it out anew.
//!
//! Must not know: how a gateway reaches a node.

use std::collections::BTreeSet;

use shorttail_units::{Epoch, Now};
use shorttail_wire::control::{GatewayStatus, Standing, TenureState, Terms};

use crate::coordinator::Coordinator;
use crate::durable::{DurableTenure, DurableVoter};
use crate::limits::{REACH_TOLD_MS, SHORT_MS_MAX, UNPROVEN_MS_MAX};

/// What a gateway tells of nodes, over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    /// Since when it told every time that it reaches enough nodes, and is proven in what it serves.
    sound_since_us: Option<u64>,
    /// Since when it told every time that it reaches enough also to read and to store everything, or that it does not.
    fit_since_us: Option<u64>,
    short_since_us: Option<u64>,
    /// Since when it told every time of nodes, and of too few to follow any owner.
    too_few_since_us: Option<u64>,
    /// It is cut off; the epoch of the tenure that never comes.
    cut_off: Option<u32>,
}

impl Reach {
    pub fn is_cut_off(&self) -> bool {
        self.cut_off.is_some()
    }

    fn is_sound(&self, now: Now) -> bool {
        !self.is_cut_off() && is_over(self.sound_since_us, now)
    }

    /// The coordinator stood still itself: nobody is to follow an owner before that one told anew how it is.
    pub fn begin_anew(&mut self, now: Now) {
        let told =
            [&mut self.sound_since_us, &mut self.fit_since_us, &mut self.short_since_us, &mut self.too_few_since_us];
        for since_us in told {
            *since_us = since_us.map(|_| now.mono_us);
        }
    }

    /// The tenure that a gateway is to prepare for, and that never comes.
    pub fn terms(&self) -> Option<Terms> {
        self.cut_off.map(|epoch| Terms::to_come(Epoch(epoch), vec![0]))
    }
}

/// Has it lasted for as long as a tenure may be unproven?
fn is_over(since_us: Option<u64>, now: Now) -> bool {
    since_us.is_some_and(|since_us| now.mono_us >= since_us + UNPROVEN_MS_MAX * 1000)
}

fn reached(status: &GatewayStatus) -> BTreeSet<u16> {
    status.nodes.iter().filter(|seen| seen.connected).map(|seen| seen.id).collect()
}

impl Coordinator {
    /// Takes a gateway's latest report into account.
    pub(crate) fn note_reach(&mut self, now: Now, id: u16) {
        let status = &self.gateways[&id].status;
        let is_sound = self.reaches_enough(status) && !status.standings.iter().any(Standing::is_unproven);
        let is_short = self.is_short_of_nodes(status);
        let tells_of_too_few = self.tells_of_too_few(id);
        let reach = &mut self.gateways.get_mut(&id).expect("looked up").reach;
        let since_us = |holds: bool, known_us: Option<u64>| holds.then(|| known_us.unwrap_or(now.mono_us));
        reach.sound_since_us = since_us(is_sound, reach.sound_since_us);
        reach.fit_since_us = since_us(is_sound && !is_short, reach.fit_since_us);
        reach.short_since_us = since_us(is_short, reach.short_since_us);
        reach.too_few_since_us = since_us(tells_of_too_few, reach.too_few_since_us);
        if is_over(reach.fit_since_us, now) && reach.cut_off.take().is_some() {
            self.tell_terms_to(id);
        }
    }

    /// So many nodes that it could follow any owner.
    fn reaches_enough(&self, status: &GatewayStatus) -> bool {
        !status.nodes.is_empty() && self.are_enough(&reached(status), &self.voters_wanted())
    }

    /// Does some gateway reach so many nodes that it could follow any owner, as it told last?
    pub(crate) fn could_anybody_follow(&self) -> bool {
        let voters = self.voters_wanted();
        self.living().any(|gateway| gateway.has_told && self.are_enough(&reached(&gateway.status), &voters))
    }

    /// So few of the nodes that live that it cannot read everything, or store anything.
    fn is_short_of_nodes(&self, status: &GatewayStatus) -> bool {
        let alive: BTreeSet<u16> = self.nodes_alive().map(|(&id, _)| id).collect();
        let reached = reached(status);
        let needed = self.settings.code.chunk_count().min(alive.len());
        let stores = alive.intersection(&reached).count() >= needed;
        let suffices = alive.is_subset(&reached) || stores && self.reaches_enough(status);
        !status.nodes.is_empty() && !suffices
    }

    /// Nodes that are heard and take new chunks.
    pub(crate) fn nodes_to_store_on(&self) -> BTreeSet<u16> {
        self.nodes_alive().map(|(&id, _)| id).filter(|&id| !self.is_draining(id)).collect()
    }

    /// Those of these that a gateway reaches, as it told last.
    pub(crate) fn reached_of(&self, id: u16, nodes: &BTreeSet<u16>) -> BTreeSet<u16> {
        self.gateways.get(&id).map(|member| &reached(&member.status) & nodes).unwrap_or_default()
    }

    /// Does it serve something, tell of nodes, and has it had the time to connect with them?
    pub(crate) fn is_settled_owner(&self, id: u16) -> bool {
        self.gateways.get(&id).is_some_and(|member| {
            let serves = member.status.standings.iter().any(|standing| standing.state == TenureState::Serving);
            serves && !member.status.nodes.is_empty() && self.now_us >= member.since_us + REACH_TOLD_MS * 1000
        })
    }

    /// How many nodes a gateway must reach to own something, and of how many.
    pub(crate) fn reach_needed(&self) -> (usize, usize) {
        let (voters, tolerance) = (self.voters_wanted().len(), self.settings.code.tolerance());
        let stores = self.settings.code.chunk_count().min(self.nodes_alive().count());
        (voters.saturating_sub(tolerance).max(stores), voters)
    }

    /// Has it told for long that it reaches too few nodes?
    pub(crate) fn is_short(&self, id: u16, now_us: u64) -> bool {
        let since_us = self.gateways.get(&id).and_then(|member| member.reach.short_since_us);
        since_us.is_some_and(|since_us| now_us >= since_us + SHORT_MS_MAX * 1000)
    }

    /// Could it read and store everything, as it told for a while?
    fn is_fit(&self, id: u16, now: Now) -> bool {
        self.may_own(id) && self.gateways.get(&id).is_some_and(|member| is_over(member.reach.fit_since_us, now))
    }

    /// Could these accept an owner? Of a node that came back with another memory the earlier one accepts anybody.
    fn are_enough(&self, reached: &BTreeSet<u16>, set: &[DurableVoter]) -> bool {
        set.iter().filter(|(node, _)| reached.contains(node)).count() + self.settings.code.tolerance() >= set.len()
    }

    /// The last report told of nodes, and of too few of them.
    pub(crate) fn tells_of_too_few(&self, id: u16) -> bool {
        let member = self.gateways.get(&id);
        member.is_some_and(|member| !member.status.nodes.is_empty() && !self.reaches_enough(&member.status))
    }

    /// Has it told of too few nodes for so long that it is no pause?
    pub(crate) fn tells_long_of_too_few(&self, id: u16, now: Now) -> bool {
        self.gateways.get(&id).is_some_and(|member| is_over(member.reach.too_few_since_us, now))
    }

    /// Has it told for a while that it reaches enough nodes to follow any owner?
    pub(crate) fn is_sound(&self, id: u16, now: Now) -> bool {
        self.gateways.get(&id).is_some_and(|member| member.reach.is_sound(now))
    }

    /// How many of the nodes that count in [`Coordinator::reach_needed`] a gateway reaches, as it told last.
    pub(crate) fn reached_count(&self, id: u16) -> usize {
        self.reached_of(id, &self.voters_wanted().into_iter().map(|(node, _)| node).collect()).len()
    }

    pub(crate) fn is_cut_off(&self, id: u16) -> bool {
        self.gateways.get(&id).is_some_and(|member| member.reach.is_cut_off())
    }

    /// May partitions be given to this gateway, as far as is known?
    pub(crate) fn may_own(&self, id: u16) -> bool {
        !self.durable.draining.contains(&id) && !self.is_cut_off(id)
    }

    /// Would it answer for what it is dealt now?
    pub(crate) fn is_proven(&self, id: u16) -> bool {
        let member = self.gateways.get(&id);
        member.is_some_and(|member| {
            !member.reach.is_cut_off() && !member.status.standings.iter().any(Standing::is_unproven)
        })
    }

    /// Gateways that lose a tenure since they reach too few nodes get no other; those that reach too few to serve well
    /// hand over what they have.
    pub(crate) fn find_cut_off(&mut self, now: Now) {
        let lost = self.durable.tenures.iter().filter(|&(&epoch, tenure)| self.is_out_of_reach(epoch, tenure, now));
        let mut lost: BTreeSet<u16> = lost.map(|(_, tenure)| tenure.gateway).collect();
        if self.alive_gateways().any(|id| self.is_fit(id, now)) {
            lost.extend(self.alive_gateways().filter(|&id| self.is_short(id, now.mono_us)));
        }
        lost.into_iter().for_each(|id| self.cut_off(id));
    }

    pub(crate) fn cut_off(&mut self, id: u16) {
        if self.is_cut_off(id) || !self.are_epochs_told() || self.durable.epoch >= Epoch::MAX.0 {
            return;
        }
        self.durable.epoch += 1;
        let reach = &mut self.gateways.get_mut(&id).expect("a living gateway").reach;
        reach.cut_off = Some(self.durable.epoch);
        (reach.sound_since_us, reach.fit_since_us) = (None, None);
        self.persist();
        self.tell_terms_to(id);
    }

    /// Is the owner of a tenure heard here, but not by the nodes, and could another gateway follow it? While it takes
    /// over, it may have to wait for the owner before: then it counts whether it reaches those that are to accept it.
    pub(crate) fn is_out_of_reach(&self, epoch: u32, tenure: &DurableTenure, now: Now) -> bool {
        let owner = tenure.gateway;
        let takes_over = self.standing_of(epoch).is_none_or(|standing| standing.state == TenureState::TakingOver);
        self.is_long_unproven(epoch, now)
            && self.is_owner_alive(tenure)
            && (!takes_over || self.is_cut_off(owner) || !self.could_be_accepted(owner, tenure))
            && self.alive_gateways().any(|other| other != owner && self.could_follow(other, tenure, now))
    }

    fn could_follow(&self, id: u16, tenure: &DurableTenure, now: Now) -> bool {
        !self.durable.draining.contains(&id) && self.is_sound(id, now) && self.could_be_accepted(id, tenure)
    }

    /// Does a gateway reach enough nodes to follow whoever owned these partitions?
    fn could_be_accepted(&self, id: u16, tenure: &DurableTenure) -> bool {
        let reached = reached(&self.gateways[&id].status);
        let mut sets = tenure.voters.iter().chain(&tenure.before);
        sets.all(|set| self.are_enough(&reached, set))
    }

    /// Does the owner say for long that nodes do not prove it?
    pub(crate) fn is_long_unproven(&self, epoch: u32, now: Now) -> bool {
        is_over(self.tenures.unproven_since_us.get(&epoch).copied(), now)
    }

    /// Notes since when a tenure is not proven. An heir of which a core stands still says for ever that it prepares.
    pub(crate) fn note_proof(&mut self, now: Now, standing: &Standing) {
        let is_ended = standing.state.is_over();
        // It is not told that it is to begin while nothing can be saved.
        let prepares = matches!(standing.state, TenureState::Preparing | TenureState::Prepared);
        let waits = !(is_ended || prepares && self.rests());
        let unproven = &mut self.tenures.unproven_since_us;
        match standing.proven_by {
            0 if waits => _ = unproven.entry(standing.epoch.0).or_insert(now.mono_us),
            _ => _ = unproven.remove(&standing.epoch.0),
        }
    }
}
