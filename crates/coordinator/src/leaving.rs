//! Nodes that leave: emptied first, then taken out; or given up with what they hold.
//!
//! ```text
//!          drain                all chunks moved            remove
//! member -------> draining ----------------------> drained --------> removed     (for good)
//!    ^---cancel------'  '--cancel-----------------------'               ^
//!    '--------------------------------remove --lost--------------------'
//! ```
//! That a node drains, and that it was removed, is durable: of the latter only the number, in the end. Whether it is
//! drained is what the node itself and all owners report: it holds nothing, and they know that it is to get nothing.
//! That it was is durable, too, until somebody reports that it is used: it has no voice in who owns a partition.
//!
//! Must not know: how chunks move.

use std::collections::BTreeSet;

use shorttail_units::Now;
use shorttail_wire::control::{
    DrainStatus, FromCoordinator, NodeSeen, NodeState, Refusal, TenureState, counted, counted_are,
};

use crate::coordinator::Coordinator;
use crate::lifecycle::Event;
use crate::members::{GatewayMember, NodeMember};
use crate::retiring::is_told;
use crate::told::ToldOfNodes;

impl Coordinator {
    pub(crate) fn is_draining(&self, id: u16) -> bool {
        self.durable.nodes.get(&id).is_some_and(|node| node.draining)
    }

    pub(crate) fn is_removed(&self, id: u16) -> bool {
        self.durable.removed.contains(id) || self.durable.nodes.get(&id).is_some_and(|node| node.removed)
    }

    /// Nodes that were not taken out.
    pub(crate) fn nodes_kept(&self) -> impl Iterator<Item = (&u16, &NodeMember)> {
        self.nodes.iter().filter(|(id, _)| !self.is_removed(**id))
    }

    /// Those of them that are alive.
    pub(crate) fn nodes_alive(&self) -> impl Iterator<Item = (&u16, &NodeMember)> {
        self.nodes_kept().filter(|(_, node)| node.presence.is_alive())
    }

    /// As many as the cluster began with, without those taken out, and at least those that are left and what a stripe
    /// needs.
    pub(crate) fn node_count_expected(&self) -> u16 {
        let removed = self.durable.nodes.values().filter(|node| node.removed).count() + self.durable.removed.count();
        let removed = u16::try_from(removed).unwrap_or(u16::MAX);
        let needed = (self.settings.code.chunk_count() as u16).min(self.settings.node_count_expected);
        let kept = u16::try_from(self.nodes_kept().count()).unwrap_or(u16::MAX);
        self.settings.node_count_expected.saturating_sub(removed).max(kept).max(needed)
    }

    /// Nodes that are to stay and are alive.
    fn staying_beside(&self, id: u16) -> impl Iterator<Item = &NodeMember> {
        let stays = move |(other, _): &(&u16, &NodeMember)| **other != id && !self.is_draining(**other);
        self.nodes_alive().filter(stays).map(|(_, node)| node)
    }

    /// Empties a node, or does so no more.
    ///
    /// # Errors
    /// Why that cannot be.
    pub(crate) fn drain_node(&mut self, id: u16, cancel: bool) -> Result<String, String> {
        let node =
            self.nodes.get(&id).filter(|_| !self.is_removed(id)).ok_or_else(|| format!("there is no node {id}"))?;
        let state = node.presence.state;
        if cancel && !self.is_draining(id) {
            return Err(format!("node {id} is not being drained"));
        }
        if !cancel {
            if !node.presence.is_alive() {
                let state = state.name();
                return Err(match self.is_waited_for(id) {
                    true => format!(
                        "node {id} is {state} and waited for, with what it holds: start it again, and drain it then; if its \
                         memory is gone, `shorttail remove node {id} --lost` takes it out"
                    ),
                    false => format!("node {id} is {state}: what it held is rebuilt elsewhere, it need not be drained"),
                });
            }
            if let Some(problem) = self.drain_problem(id) {
                return Err(format!("node {id} cannot be drained: {problem}"));
            }
        }
        let durable = self.durable.nodes.get_mut(&id).expect("every member is durable");
        (durable.draining, durable.drained) = (!cancel, false);
        self.persist();
        self.forget_counts_of(id);
        self.mark_view_changed();
        let chunks = counted(self.chunks_held(id), "chunk");
        Ok(match cancel {
            true => format!("node {id} is used again"),
            false => format!("node {id} drains: {chunks} to go elsewhere"),
        })
    }

    /// What was told of an earlier drain says nothing of this one.
    fn forget_counts_of(&mut self, id: u16) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.has_told = false;
        }
        let seen = self.gateways.values_mut().flat_map(|gateway| &mut gateway.status.nodes);
        seen.filter(|seen| seen.id == id).for_each(|seen| seen.chunks_left = None);
    }

    /// Why the node could not be emptied now.
    fn drain_problem(&self, id: u16) -> Option<String> {
        let (others, needed) = (self.staying_beside(id).count(), self.settings.code.chunk_count());
        if others < needed {
            return Some(format!("{others} other nodes would stay, and a stripe needs {needed}"));
        }
        let free = |node: &NodeMember| node.memory_limit_bytes.saturating_sub(node.status.memory_used_bytes);
        let free: u64 = self.staying_beside(id).map(free).sum();
        let held = self.nodes.get(&id).map_or(0, |node| node.status.memory_used_bytes);
        (held > free).then(|| format!("it holds {held} bytes, and the others have {free} left"))
    }

    /// How far a node is that drains.
    pub(crate) fn drain_status(&self, id: u16, told: &ToldOfNodes) -> Option<DrainStatus> {
        if !self.is_draining(id) {
            return None;
        }
        let node = self.nodes.get(&id)?;
        let (rate, stranded) = self.living().fold((0, 0), |(rate, stranded), gateway| {
            let totals = &gateway.status.totals;
            (rate + totals.move_bytes_per_s, stranded + totals.moves_stranded)
        });
        let bytes_left = node.status.memory_used_bytes;
        let drained = self.is_empty_as(told, id);
        let stuck = format!("{stranded} chunks find no node that has room and holds nothing of their stripe");
        let problem = self.drain_problem(id).or((stranded > 0).then_some(stuck)).or(self.remains_problem(id));
        let problem = problem.filter(|_| !drained);
        // The rate is of all that drain: they are emptied together.
        let drains = |other: u16, node: &NodeMember| self.is_draining(other) && node.presence.is_alive();
        let all = self.nodes.iter().filter(|&(&other, node)| drains(other, node) && !self.is_empty_as(told, other));
        let bytes: u64 = all.map(|(_, node)| node.status.memory_used_bytes).sum();
        let seconds_left = bytes.checked_div(rate).filter(|_| !drained);
        Some(DrainStatus { drained, chunks_left: self.chunks_held(id), bytes_left, seconds_left, problem })
    }

    /// What stays of stripes that are lost. A later owner learns of the loss by it, and no owner counts it.
    fn remains_problem(&self, id: u16) -> Option<String> {
        let node = self.nodes.get(&id)?;
        let tolerance = self.settings.code.tolerance() as u64;
        let is_some_lost = self.living().any(|gateway| gateway.status.totals.lost_of_stripe_max > tolerance);
        let holds = node.has_told && self.chunks_held(id) > 0;
        (holds && is_some_lost && self.do_owners_count_nothing(id)).then(|| {
            format!(
                "{} left of stripes that are lost, until all is flushed: `shorttail remove node {id} --lost` takes the node out",
                counted_are(self.chunks_held(id), "chunk")
            )
        })
    }

    fn chunks_held(&self, id: u16) -> u64 {
        self.nodes.get(&id).map_or(0, |node| node.status.chunks_open + node.status.chunks_sealed)
    }

    /// Does the node hold nothing that counts, nor did it hold what is not rebuilt yet, as all who would know say?
    /// While a partition is being taken over nobody knows: its last owner's word is over, and the next one has not
    /// counted.
    pub(crate) fn is_empty(&self, id: u16) -> bool {
        self.says_nothing_held(id) && (!self.nodes.contains_key(&id) || self.do_owners_count_nothing(id))
    }

    /// The same, by what was looked up of all nodes.
    pub(crate) fn is_empty_as(&self, told: &ToldOfNodes, id: u16) -> bool {
        self.says_nothing_held(id) && (!self.nodes.contains_key(&id) || told.is_uncounted(id))
    }

    /// Of a dead node only owners can tell.
    fn says_nothing_held(&self, id: u16) -> bool {
        let says = |node: &NodeMember| !node.presence.is_alive() || node.has_told && self.chunks_held(id) == 0;
        self.nodes.get(&id).is_none_or(says)
    }

    /// Is everything served, and do all owners say that they have nothing there?
    fn do_owners_count_nothing(&self, id: u16) -> bool {
        let counts_nothing = |seen: &NodeSeen| seen.id == id && seen.chunks_left == Some(0);
        let mut owners = self.living_owners();
        self.is_everything_served() && owners.all(|owner| owner.status.nodes.iter().any(counts_nothing))
    }

    /// One of which some cores let go says that it serves, proven by nothing: what these had it counts no more.
    pub(crate) fn is_everything_served(&self) -> bool {
        let is_served = |epoch: u32| self.standing_of(epoch).is_some_and(|standing| standing.is_served());
        let mut tenures = self.durable.tenures.iter();
        tenures.all(|(&epoch, tenure)| self.is_owner_alive(tenure) && is_served(epoch))
    }

    pub(crate) fn living_owners(&self) -> impl Iterator<Item = &GatewayMember> {
        let owners: BTreeSet<u16> = self.durable.tenures.values().map(|tenure| tenure.gateway).collect();
        let owners = self.gateways.iter().filter(move |(id, _)| owners.contains(id));
        owners.map(|(_, gateway)| gateway).filter(|gateway| gateway.presence.is_alive())
    }

    /// That a node was drained is kept, as nobody can tell of it while owners follow each other. It ends when the node
    /// is used all the same, as too few others are there.
    pub(crate) fn note_drained(&mut self) {
        let draining = self.durable.nodes.iter().filter(|(_, node)| node.draining);
        let changed = draining.filter(|&(&id, node)| match node.drained {
            true => self.is_used(id),
            false => self.is_empty(id) && !self.is_used(id),
        });
        let changed: Vec<u16> = changed.map(|(&id, _)| id).collect();
        for id in &changed {
            let node = self.durable.nodes.get_mut(id).expect("listed above");
            node.drained = !node.drained;
        }
        if !changed.is_empty() {
            self.persist();
        }
    }

    /// Does the node that drains, or an owner, tell of a chunk there? Who reaches it and serves counts, unless it uses
    /// the node.
    fn is_used(&self, id: u16) -> bool {
        let is_there = self.nodes.get(&id).is_some_and(|node| node.presence.is_alive() && node.has_told);
        let uses = |gateway: &GatewayMember| {
            let standings = &gateway.status.standings;
            let serves = gateway.has_told && standings.iter().all(|standing| standing.state == TenureState::Serving);
            let has_some = |seen: &NodeSeen| match seen.chunks_left {
                Some(left) => left > 0,
                None => seen.connected && serves && !standings.is_empty(),
            };
            gateway.status.nodes.iter().any(|seen| seen.id == id && has_some(seen))
        };
        is_there && self.chunks_held(id) > 0 || self.living().any(uses)
    }

    /// Takes a node out for good.
    ///
    /// # Errors
    /// Why that cannot be, and what to do.
    pub(crate) fn remove_node(&mut self, now: Now, id: u16, lost: bool) -> Result<String, String> {
        if self.is_removed(id) {
            return Err(format!("node {id} was removed already"));
        }
        let node = self.nodes.get(&id).ok_or_else(|| format!("there is no node {id}"))?;
        let others = self.nodes_alive().filter(|(other, _)| **other != id).count();
        let needed = self.settings.code.chunk_count();
        if node.presence.is_alive() && others < needed {
            return Err(format!("node {id} is needed: {others} others would be left, and a stripe needs {needed}"));
        }
        if !lost {
            self.why_not_empty(id).map_or(Ok(()), Err)?;
        } else if !self.is_empty(id) && node.presence.state != NodeState::Retired && !self.is_waited_for(id) {
            // With one that was given up nothing more is lost; of one that is waited for the operator knows better.
            self.check_bearable(id)?;
        }
        if let Some(gateway) = self.unfollowable_without(id) {
            return Err(format!(
                "gateway {gateway} is not confirmed yet without the nodes that left lately, and no more than {} may leave \
                 before it is: try again in a few seconds; if that lasts, start node {id} empty instead (`--id {id}`)",
                self.settings.code.tolerance()
            ));
        }
        self.take_out(now, id);
        Ok(format!("node {id} is removed"))
    }

    /// Why a node is not to be taken out without `--lost`: it is used, or what it held is not elsewhere yet.
    fn why_not_empty(&self, id: u16) -> Option<String> {
        let (node, is_empty) = (self.nodes.get(&id)?, self.is_empty(id));
        if !node.presence.is_alive() {
            let state = node.presence.state.name();
            if self.is_waited_for(id) {
                return Some(format!(
                    "node {id} is {state} and waited for, and nothing that it holds is rebuilt (`shorttail status` tells \
                     why): start it again, or give it up with --lost if its memory is gone"
                ));
            }
            return (!is_empty).then(|| {
                format!(
                    "node {id} is {state}, and not all that it held is elsewhere yet: wait until it is rebuilt, or give it up \
                     at once with --lost"
                )
            });
        }
        let count = self.chunks_held(id);
        let held = counted(count, "chunk");
        if !self.is_draining(id) {
            return Some(format!(
                "node {id} holds {held}: `shorttail drain node {id}` empties it; --lost gives them up at once"
            ));
        }
        if is_empty {
            return None;
        }
        Some(match self.remains_problem(id) {
            Some(remains) => format!("node {id} is not empty: {remains}"),
            None if count == 0 => {
                format!("node {id} is being drained, and owners have not counted it yet: wait until it is drained")
            }
            None => format!("node {id} is being drained and still holds {held}: wait until it is drained"),
        })
    }

    /// May what a node holds be lost, beside what is lost already?
    fn check_bearable(&self, id: u16) -> Result<(), String> {
        if !self.can_tell_losses() {
            return Err(format!(
                "node {id} may be the last to hold some data, and no owner can tell what is lost now: wait until all \
                 partitions are served (`shorttail status`)"
            ));
        }
        let lacking = self.lacking_at_worst(id);
        let tolerance = self.settings.code.tolerance();
        if lacking < tolerance {
            return Ok(());
        }
        Err(format!(
            "node {id} may be the last to hold some data: stripes may lack {lacking} chunks already, and {} survives the loss \
             of {tolerance}. Wait until they are rebuilt (`shorttail status`)",
            self.settings.code
        ))
    }

    fn take_out(&mut self, now: Now, id: u16) {
        if self.nodes.get(&id).is_some_and(|node| node.presence.state != NodeState::Retired) {
            self.note_given_up(now, id);
        }
        let durable = self.durable.nodes.get_mut(&id).expect("every member is durable");
        (durable.draining, durable.drained, durable.removed) = (false, false, true);
        durable.retired_through = durable.retired_through.max(durable.incarnation);
        self.persist();
        if let Some(connection) = self.nodes.get(&id).and_then(|node| node.presence.connection) {
            self.send(connection, FromCoordinator::Refused(Refusal::Removed(id)));
            self.close(now, connection);
        }
        let node = self.nodes.get_mut(&id).expect("looked up");
        node.is_met = true;
        let presence = &mut node.presence;
        if presence.is_alive() {
            presence.apply(now.mono_us, Event::ConnectionClosed);
        }
        presence.apply(now.mono_us, Event::GivenUp);
        self.mark_view_changed();
    }

    /// Of nodes that were taken out only the number is kept once no tenure asks for one of their lives, and all that
    /// they had is rebuilt, as owners told: until then they count as losses.
    pub(crate) fn forget_removed(&mut self, now: Now) {
        if self.rests() || !self.durable.nodes.values().any(|node| node.removed) || !self.is_all_rebuilt() {
            return;
        }
        let tenures = self.durable.tenures.values();
        let sets = tenures.flat_map(|tenure| tenure.voters.iter().chain(&tenure.before).chain(&tenure.stored_on));
        let named: BTreeSet<u16> = sets.flatten().map(|&(id, _)| id).collect();
        let is_over = |&(&id, node): &(&u16, &NodeMember)| {
            let is_told = is_told(node.presence.since_us, now.mono_us) && !self.is_loss_untold(node);
            self.is_removed(id) && is_told && !named.contains(&id)
        };
        let over: Vec<u16> = self.nodes.iter().filter(is_over).map(|(&id, _)| id).collect();
        for id in &over {
            self.nodes.remove(id);
            self.durable.nodes.remove(id);
            self.durable.removed.insert(*id);
        }
        if !over.is_empty() {
            self.persist();
        }
    }
}
