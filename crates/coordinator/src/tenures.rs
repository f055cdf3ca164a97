//! Tenures: who should own which partitions, as of which epoch, proven by whom.
//!
//! ```text
//!            deal                serves                 let go, or its gateway died
//! partition ------> taking over --------> serving -------------------------------------> loose --deal--> ...
//!                     before: all         before: none                before: what the tenure was proven by, and
//!                                                                     what it still had in `before`
//! ```
//!
//! A tenure never grows and ends as a whole: what it had is dealt again under new epochs. Everything is persisted
//! before anybody is told. One planned hand-over is under way at a time (`handover.rs`).
//!
//! Deviation from "all known voters of a set": a life of a node that was followed by another life of the same node can
//! neither confirm an old owner nor accept a new one. So it is struck out of `before` once its last promise has run
//! out, which is the same as counting it among those that accepted.
//!
//! Source: rule R2 (docs/RULES.md), docs/decisions/0014-ownership.md.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shorttail_units::{Epoch, Incarnation, NodeId, Now};
use shorttail_wire::control::{FromCoordinator, NodeState, Standing, TenureEntry, TenureState, Terms, Voter};

use crate::coordinator::{ConnectionId, Coordinator, Output};
use crate::dealing::{Loose, deal, to_level};
use crate::durable::{Durable, DurableTenure, DurableVoter};
use crate::handover::HandOver;
use crate::limits::{
    DRAINS_MAX, ENDED_TOGETHER_MS, GATEWAY_RETURN_MS, GATEWAY_RETURN_SPREAD_MS, GATHER_MS, PROMISE_OVER_MS, SETTLED_MS,
    UNPROVEN_MS_MAX,
};
use crate::losses;
use crate::members::GatewayMember;

/// What the coordinator knows of tenures beyond what is durable.
#[derive(Debug, Default)]
pub(crate) struct Tenures {
    /// What owners reported last, by epoch.
    standings: BTreeMap<u32, Standing>,
    /// Since when owners report that they are not proven, by epoch.
    pub unproven_since_us: BTreeMap<u32, u64>,
    /// When voters of an owner that is long unproven were changed last, by epoch.
    widened_us: BTreeMap<u32, u64>,
    /// The hand-over that is planned or under way.
    pub hand_over: Option<HandOver>,
    /// When the last tenure began, or several were to become one in vain.
    pub settled_us: u64,
    /// Gateways that were not prepared in time to have one instead of several, since the last tenure began.
    pub not_united: BTreeSet<u16>,
    /// When the first gateway came while some partition was never owned.
    gathering_since_us: Option<u64>,
    /// When the first of all gateways was heard that were out of sight.
    returning_since_us: Option<u64>,
    /// Gateways whose terms changed since they were told.
    pub to_tell: BTreeSet<u16>,
    /// Those among them that are to own more.
    pub heirs: BTreeSet<u16>,
    /// What gateways were told of tenures that are served or not, by epoch.
    served_told: Vec<(u32, bool)>,
    /// Tenures that ended: in good order, and others.
    pub handed_over_total: u64,
    pub lost_total: u64,
    /// How often several became one.
    pub united_total: u64,
}

impl Tenures {
    /// Did it report that it serves?
    pub fn serves(&self, epoch: u32) -> bool {
        self.standings.get(&epoch).is_some_and(|standing| standing.state == TenureState::Serving)
    }

    /// Did the owner report that it has not served yet? One that ended may have.
    pub fn is_to_serve(&self, epoch: u32) -> bool {
        self.standings.get(&epoch).is_some_and(|standing| {
            matches!(standing.state, TenureState::TakingOver | TenureState::Preparing | TenureState::Prepared)
        })
    }

    /// Did it report that it has read what it took over?
    pub fn has_served(&self, epoch: u32) -> bool {
        self.standings.get(&epoch).is_some_and(|standing| standing.state.has_served())
    }
}

impl Coordinator {
    /// Brings tenures closer to how they should be; part of every look.
    pub(crate) fn advance_tenures(&mut self, now: Now) {
        self.forget_ended();
        self.strike_out_replaced(now);
        self.note_losses_met();
        self.settle_voters();
        self.note_drained();
        self.change_voters(now);
        self.find_cut_off(now);
        self.deal_loose(now);
        self.hand_over(now);
    }

    /// When time alone changes something.
    pub(crate) fn tenures_deadline_us(&self) -> Option<u64> {
        let gathering = self.tenures.gathering_since_us.filter(|_| self.has_unowned());
        let gathering = gathering.map(|since_us| since_us + GATHER_MS * 1000);
        let returning = self.durable.tenures.values().any(|tenure| !self.is_owner_alive(tenure));
        let returning = returning.then_some(self.return_until_us());
        let dead = self.gateways.values().filter(|member| !member.presence.is_alive());
        let ended_together = dead.map(|member| member.presence.since_us + ENDED_TOGETHER_MS * 1000);
        let waits = |tenure: &DurableTenure| !tenure.before.is_empty() || tenure.voters.len() > 1;
        let replaced = self.durable.tenures.values().any(waits);
        let replaced = replaced.then(|| self.nodes.values().map(|node| node.since_us + PROMISE_OVER_MS * 1000));
        let settled = self.wants_level().then(|| self.alive_gateways().map(|id| self.settled_at_us(id)));
        let planned = self.tenures.hand_over.as_ref().and_then(HandOver::deadline_us);
        let times = gathering.into_iter().chain(planned).chain(returning).chain(ended_together);
        let times = times.chain(self.unite_deadline_us());
        let times = times.chain(replaced.into_iter().flatten()).chain(settled.into_iter().flatten());
        // What is over was looked at when it was.
        times.filter(|&at_us| at_us > self.now_us).min()
    }

    pub(crate) fn handle_standings(&mut self, now: Now, gateway: u16, standings: &[Standing]) {
        self.note_epochs(standings);
        for standing in standings {
            let epoch = standing.epoch.0;
            let is_heir = self.tenures.hand_over.as_ref().is_some_and(|plan| plan.is_heir(epoch, gateway));
            let is_owner = self.durable.tenures.get(&epoch).is_some_and(|tenure| tenure.gateway == gateway);
            if is_heir || is_owner {
                self.tenures.standings.insert(epoch, *standing);
            }
            if is_owner {
                self.note_proof(now, standing);
            }
        }
    }

    /// The operator wants a gateway to own nothing any more, or thought better of that.
    ///
    /// # Errors
    /// Why that cannot be.
    pub(crate) fn drain_gateway(&mut self, id: u16, cancel: bool) -> Result<String, String> {
        if cancel {
            return self.use_gateway_again(id);
        }
        if !self.alive_gateways().any(|known| known == id) {
            return Err(format!("there is no gateway {id}"));
        }
        let stays = |other: u16| other != id && !self.durable.draining.contains(&other);
        if !self.alive_gateways().any(stays) {
            return Err(format!("gateway {id} is the only one that may own partitions"));
        }
        if !self.alive_gateways().any(|other| stays(other) && self.may_own(other)) {
            return Err(format!(
                "gateway {id} cannot hand over what it owns: the others reach too few nodes to own it"
            ));
        }
        if self.durable.draining.insert(id) {
            self.make_room_for_drain();
            self.spare_heir(id);
            self.persist();
            self.mark_view_changed();
        }
        let count = self.loads_of(|gateway| gateway == id).values().sum::<usize>();
        Ok(format!("gateway {id} hands over {count} partition(s)"))
    }

    /// One whose process is told to end is drained, if others may own what it has. If not, it lets go by itself.
    pub(crate) fn note_leaving(&mut self, id: u16) {
        let leaves = self.gateways.get(&id).is_some_and(|member| member.status.leaves);
        if leaves && !self.rests() && !self.durable.draining.contains(&id) {
            let _ = self.drain_gateway(id, false);
        }
    }

    /// A gateway that is forgotten may come back, however late: its drain stays, as far as there is room. Of too many
    /// those go first whose number was given first.
    fn make_room_for_drain(&mut self) {
        let Durable { draining, gateway_id_next, .. } = &mut self.durable;
        let gone = draining.iter().filter(|id| !self.gateways.contains_key(id));
        let first = gone.min_by_key(|id| id.wrapping_sub(*gateway_id_next)).copied();
        if let Some(first) = first.filter(|_| draining.len() > DRAINS_MAX) {
            draining.remove(&first);
        }
    }

    /// The processes of these gateways are over: a later one has another number.
    pub(crate) fn end_drains(&mut self, ids: &BTreeSet<u16>) {
        let count = self.durable.draining.len();
        self.durable.draining.retain(|id| !ids.contains(id));
        if self.durable.draining.len() != count {
            self.persist();
        }
    }

    /// What it has handed over it gets back as any gateway gets its share.
    fn use_gateway_again(&mut self, id: u16) -> Result<String, String> {
        if !self.durable.draining.remove(&id) {
            return Err(format!("gateway {id} is not being drained"));
        }
        self.persist();
        self.mark_view_changed();
        self.spare_owner(id);
        Ok(format!("gateway {id} is used again"))
    }

    /// Each change of an owner takes one, and they end.
    pub(crate) fn epochs_problem(&self) -> Option<String> {
        let (used, all) = (self.durable.epoch, Epoch::MAX.0);
        (used >= all / 2).then(|| {
            format!(
                "{used} of {all} epochs are used: when none is left nobody gets a partition whose owner is gone; copy over \
                 what is stored to a new cluster before that"
            )
        })
    }

    pub(crate) fn standing_of(&self, epoch: u32) -> Option<Standing> {
        self.tenures.standings.get(&epoch).copied()
    }

    pub(crate) fn tenure_entries(&self) -> Vec<TenureEntry> {
        let entries = self.durable.tenures.iter().map(|(&epoch, tenure)| TenureEntry {
            epoch: Epoch(epoch),
            gateway: tenure.gateway,
            partitions: tenure.partitions.clone(),
        });
        entries.collect()
    }

    /// Tells a gateway its terms with the next messages.
    pub(crate) fn tell_terms_to(&mut self, gateway: u16) {
        self.tenures.to_tell.insert(gateway);
    }

    pub(crate) fn tell_terms(&mut self, is_told: impl Fn(u16) -> bool) {
        let told: Vec<u16> = self.tenures.to_tell.extract_if(.., |&gateway| is_told(gateway)).collect();
        for gateway in told {
            let connection = self.gateways.get(&gateway).and_then(|member| member.presence.connection);
            let Some(connection) = connection else { continue };
            let terms = self.terms_of(gateway);
            self.put_out(Output::Send { connection, message: FromCoordinator::Terms(terms) });
        }
    }

    /// Their sets of voters are shared: nearly all tenures have the same few.
    fn terms_of(&self, gateway: u16) -> Vec<Terms> {
        let mut sets: BTreeMap<&[DurableVoter], Arc<[Voter]>> = BTreeMap::new();
        let mut shared = |set| Arc::clone(sets.entry(set).or_insert_with(|| told(set)));
        let own = self.durable.tenures.iter().filter(|(_, tenure)| tenure.gateway == gateway);
        let terms = own.map(|(&epoch, tenure)| Terms {
            epoch: Epoch(epoch),
            number: tenure.terms,
            partitions: tenure.partitions.clone(),
            voters: shared(tenure.voters_told()),
            before: tenure.before.iter().map(|set| shared(set.as_slice())).collect(),
            lets_go: self.tenures.hand_over.as_ref().is_some_and(|plan| plan.is_ordered(epoch)),
            prepares: false,
        });
        let to_come = self.tenures.hand_over.as_ref().map(|plan| plan.terms_to_come(gateway));
        let never_to_come = self.gateways.get(&gateway).and_then(|member| member.reach.terms());
        terms.chain(to_come.into_iter().flatten()).chain(never_to_come).collect()
    }

    /// Tells all gateways which tenures are served, when that changed: what their clients are told of the cluster.
    pub(crate) fn tell_served(&mut self) {
        let reported = self.durable.tenures.iter().filter_map(|(&epoch, tenure)| {
            let standing = self.standing_of(epoch)?;
            Some((epoch, standing.is_served() && self.is_owner_alive(tenure)))
        });
        let served: Vec<(u32, bool)> = reported.collect();
        if served == self.tenures.served_told {
            return;
        }
        self.tenures.served_told = served;
        let connections: Vec<_> = self.gateways.values().filter_map(|member| member.presence.connection).collect();
        connections.into_iter().for_each(|connection| self.tell_served_to(connection));
    }

    pub(crate) fn tell_served_to(&mut self, connection: ConnectionId) {
        self.send(connection, FromCoordinator::Served(self.tenures.served_told.clone()));
    }

    fn forget_ended(&mut self) {
        self.forget_hand_over();
        let tenures = &self.durable.tenures;
        let plan = &self.tenures.hand_over;
        let is_to_come = |epoch: &u32| plan.as_ref().is_some_and(|plan| plan.heirs.contains_key(epoch));
        self.tenures.standings.retain(|epoch, _| tenures.contains_key(epoch) || is_to_come(epoch));
        self.tenures.unproven_since_us.retain(|epoch, _| tenures.contains_key(epoch));
        self.tenures.widened_us.retain(|epoch, _| tenures.contains_key(epoch));
    }

    /// Lives whose memory was followed by another life have no voice any more, once their promises have run out. By a
    /// set with too few others nobody is proven.
    fn strike_out_replaced(&mut self, now: Now) {
        let (nodes, tolerance) = (&self.nodes, self.settings.code.tolerance());
        let is_struck = |&(id, incarnation): &DurableVoter| {
            let node = nodes.get(&id);
            node.is_some_and(|node| {
                node.incarnation.0 > incarnation && node.since_us + PROMISE_OVER_MS * 1000 <= now.mono_us
            })
        };
        let mut changed = false;
        for tenure in self.durable.tenures.values_mut() {
            if tenure.voters_past().iter().flatten().any(is_struck) {
                let told = tenure.voters.pop().expect("a tenure has voters");
                tenure.voters.iter_mut().for_each(|set| set.retain(|voter| !is_struck(voter)));
                tenure.voters.retain(|set| set.len() > tolerance);
                tenure.voters.dedup();
                tenure.voters.push(told);
                changed = true;
            }
            if !tenure.before.iter().flatten().any(is_struck) {
                continue;
            }
            tenure.before.iter_mut().for_each(|set| set.retain(|voter| !is_struck(voter)));
            tenure.terms += 1;
            changed = true;
            self.tenures.to_tell.insert(tenure.gateway);
        }
        if changed {
            self.persist();
        }
    }

    /// Drops what the owner's report makes needless: `before` once it serves, old voters once it is proven by the new.
    fn settle_voters(&mut self) {
        let mut changed = false;
        for (epoch, tenure) in &mut self.durable.tenures {
            let Some(standing) = self.tenures.standings.get(epoch) else { continue };
            if standing.state.has_served() && !tenure.before.is_empty() {
                tenure.before.clear();
                changed = true;
            }
            if standing.proven_by == tenure.terms && tenure.voters.len() > 1 {
                tenure.voters.drain(..tenure.voters.len() - 1);
                changed = true;
            }
        }
        if changed {
            self.persist();
        }
    }

    /// Nodes that came or were given up: the new set goes beside the old one. Another one follows once the owner is
    /// proven by it; at once if it cannot be, as more nodes than may be lost came back with nothing; or when it was not
    /// for long: nodes that are heard here may be out of its reach, and it asks none for a promise that no set names.
    ///
    /// An owner may store on a node before any set names it, as views tell of it at once. Sets decide who may answer,
    /// not what is read: beside them a take-over hears all nodes of its view but as many as may be lost
    /// (`is_heard_enough` of the engine), and that view is told before its terms.
    fn change_voters(&mut self, now: Now) {
        let wanted = self.voters_wanted();
        if wanted.len() <= self.settings.code.tolerance() {
            return;
        }
        let of_living = self.durable.tenures.iter().filter(|(_, tenure)| self.is_owner_alive(tenure));
        let is_settled = |epoch: &u32, tenure: &DurableTenure| {
            tenure.voters.len() == 1 || !self.can_prove(tenure.voters_told()) || self.may_widen(*epoch, now)
        };
        let outdated = of_living.filter(|(epoch, tenure)| tenure.voters_told() != wanted && is_settled(epoch, tenure));
        let outdated: Vec<u32> = outdated.map(|(&epoch, _)| epoch).collect();
        for epoch in &outdated {
            if self.is_long_unproven(*epoch, now) {
                self.tenures.widened_us.insert(*epoch, now.mono_us);
            }
            let tenure = self.durable.tenures.get_mut(epoch).expect("listed above");
            tenure.voters.push(wanted.clone());
            tenure.terms += 1;
            self.tenures.to_tell.insert(tenure.gateway);
        }
        if !outdated.is_empty() {
            self.persist();
        }
    }

    /// Is an owner unproven for long, though it had as long to be proven by the voters that it was told of last? Each
    /// change costs a set of all, and nodes may come one by one.
    fn may_widen(&self, epoch: u32, now: Now) -> bool {
        let had_time = |widened_us: &u64| now.mono_us >= widened_us + UNPROVEN_MS_MAX * 1000;
        self.is_long_unproven(epoch, now) && self.tenures.widened_us.get(&epoch).is_none_or(had_time)
    }

    /// Do so many of these live that an owner can be proven by them?
    fn can_prove(&self, set: &[DurableVoter]) -> bool {
        let is_alive = |&&(id, incarnation): &&DurableVoter| {
            let node = self.nodes.get(&id);
            node.is_some_and(|node| node.presence.is_alive() && node.incarnation.0 == incarnation)
        };
        set.iter().filter(is_alive).count() > self.settings.code.tolerance()
    }

    /// Lives that are not given up, but who is drained: it can then be taken out, or stopped, however few may be
    /// missing. If the others are too few to prove anybody, all.
    pub(crate) fn voters_wanted(&self) -> Vec<DurableVoter> {
        let nodes = self.durable.nodes.iter().filter(|(_, node)| !node.is_given_up(node.incarnation));
        let (drained, others): (Vec<_>, Vec<_>) = nodes.partition(|(_, node)| node.draining && node.drained);
        let chosen = if others.len() > self.settings.code.tolerance() { others } else { [drained, others].concat() };
        let mut voters: Vec<DurableVoter> = chosen.into_iter().map(|(&id, node)| (id, node.incarnation)).collect();
        voters.sort_unstable();
        voters
    }

    /// Partitions that nobody owns, or whose owner is gone or has let them go, get new owners.
    fn deal_loose(&mut self, now: Now) {
        let mut loads = self.loads_to_deal();
        let voters = self.voters_wanted();
        if !loads.is_empty() {
            self.tenures.gathering_since_us.get_or_insert(now.mono_us);
        }
        if loads.is_empty() || voters.len() <= self.settings.code.tolerance() || !self.are_epochs_told() {
            return;
        }
        let mut ended: Vec<u32> = self.ended_tenures(now);
        let planned = self.take_plan_of(&mut ended, now);
        let mut loose = Vec::new();
        for epoch in &ended {
            let tenure = &self.durable.tenures[epoch];
            if planned.as_ref().is_none_or(|plan| !plan.epochs.contains(epoch)) {
                let of_tenure = tenure.partitions.iter();
                loose.extend(of_tenure.map(|&partition| Loose { partition, owner: Some(tenure.gateway) }));
            }
            if let Some(load) = loads.get_mut(&tenure.gateway) {
                *load -= tenure.partitions.len();
            }
        }
        if self.is_gathered(now) {
            loose.extend(self.unowned().into_iter().map(|partition| Loose { partition, owner: None }));
        }
        let mut dealt = deal(&loose, &loads);
        if self.durable.epoch > Epoch::MAX.0 - dealt.len() as u32 {
            // What is planned has its epochs.
            dealt.clear();
            ended.retain(|epoch| planned.as_ref().is_some_and(|plan| plan.epochs.contains(epoch)));
        }
        if dealt.is_empty() && planned.is_none() {
            return;
        }
        for &epoch in &ended {
            let is_let_go = self.standing_of(epoch).is_some_and(|standing| standing.state == TenureState::LetGo);
            self.tenures.handed_over_total += u64::from(is_let_go);
            self.tenures.lost_total += u64::from(!is_let_go);
        }
        self.note_known_losses(&ended);
        let predecessors: Vec<(u32, DurableTenure)> =
            ended.iter().filter_map(|epoch| self.durable.tenures.remove_entry(epoch)).collect();
        for (epoch, heir) in planned.into_iter().flat_map(|plan| plan.heirs) {
            self.begin_tenure(epoch, heir.gateway, heir.partitions, &predecessors, voters.clone());
        }
        for (gateway, partitions) in dealt {
            self.durable.epoch += 1;
            self.begin_tenure(self.durable.epoch, gateway, partitions, &predecessors, voters.clone());
        }
        self.persist();
        self.mark_view_changed();
        self.forget_ended();
    }

    /// Of those that are dealt to. With nobody else to own, one that is to be drained goes on, or one that nodes do not
    /// hear.
    fn loads_to_deal(&self) -> BTreeMap<u16, usize> {
        let drains = |id: u16| self.durable.draining.contains(&id);
        let loads = self.loads_of(|id| self.is_proven(id) && !drains(id));
        let loads = if loads.is_empty() { self.loads_of(|id| self.is_proven(id)) } else { loads };
        let loads = if loads.is_empty() { self.loads_of(|id| !drains(id)) } else { loads };
        if loads.is_empty() { self.loads_of(|_| true) } else { loads }
    }

    fn begin_tenure(
        &mut self,
        epoch: u32,
        gateway: u16,
        partitions: Vec<u16>,
        predecessors: &[(u32, DurableTenure)],
        voters: Vec<DurableVoter>,
    ) {
        let is_of = |(_, tenure): &&(u32, DurableTenure)| {
            tenure.partitions.iter().any(|partition| partitions.contains(partition))
        };
        let mut before: Vec<Vec<DurableVoter>> = Vec::new();
        let mut stored_on: Vec<Vec<DurableVoter>> = Vec::new();
        for (epoch, predecessor) in predecessors.iter().filter(is_of) {
            for set in predecessor.voters.iter().chain(&predecessor.before) {
                if !before.contains(set) {
                    before.push(set.clone());
                }
            }
            let sets = losses::stored_on(*epoch, predecessor, &self.tenures);
            stored_on.extend(sets.into_iter().filter(|set| !stored_on.contains(set)).collect::<Vec<_>>());
            self.tenures.to_tell.insert(predecessor.gateway);
        }
        let gateway_life = self.gateways[&gateway].registration.life;
        let voters = vec![voters];
        let tenure = DurableTenure { gateway, gateway_life, partitions, terms: 1, voters, before, stored_on, lost: 0 };
        self.durable.tenures.insert(epoch, tenure);
        self.tenures.to_tell.insert(gateway);
        self.tenures.heirs.insert(gateway);
        self.tenures.settled_us = self.now_us;
        self.tenures.not_united.clear();
    }

    /// Tenures whose partitions are to be dealt again.
    fn ended_tenures(&self, now: Now) -> Vec<u32> {
        let may_return = now.mono_us < self.return_until_us() && !self.are_as_many_here();
        // If nobody was heard since, nor was the end of the others', it may be this coordinator that is cut off.
        let heard_us = self.heard_gateways().map(|member| member.presence.since_us).max();
        let is_ended = |epoch: &u32, tenure: &DurableTenure| {
            let state = self.standing_of(*epoch).map(|standing| standing.state);
            let left = state.is_some_and(TenureState::is_over);
            let member = self.gateways.get(&tenure.gateway);
            let was_seen = member.is_some_and(|member| !member.is_missed);
            let died_us =
                member.filter(|member| !member.presence.is_alive()).map_or(0, |member| member.presence.since_us);
            let is_alone = now.mono_us >= died_us + ENDED_TOGETHER_MS * 1000;
            let is_any_heard = heard_us.is_some_and(|heard_us| is_alone || heard_us >= died_us);
            let is_gone = is_any_heard && !self.is_owner_alive(tenure) && (was_seen || !may_return);
            left || is_gone || self.is_out_of_reach(*epoch, tenure, now)
        };
        self.durable.tenures.iter().filter(|(epoch, tenure)| is_ended(epoch, tenure)).map(|(&epoch, _)| epoch).collect()
    }

    /// Are as many gateways alive as were announced, and as many as own something? Then others came in the place of
    /// those that are gone.
    fn are_as_many_here(&self) -> bool {
        let tenures = self.durable.tenures.values();
        let owners: BTreeSet<(u16, u64)> = tenures.map(|tenure| (tenure.gateway, tenure.gateway_life)).collect();
        self.alive_gateways().count() >= owners.len().max(usize::from(self.settings.gateway_count_expected))
    }

    /// A gateway is heard. If none was lately it was this coordinator that was gone, or out of sight, and those that
    /// are dead will follow.
    pub(crate) fn await_gateways(&mut self, now: Now) {
        if self.heard_gateways().next().is_some() {
            return;
        }
        self.tenures.returning_since_us = Some(now.mono_us);
        let dead = self.gateways.values_mut().filter(|member| !member.presence.is_alive());
        dead.for_each(|member| member.is_missed = true);
    }

    /// Those that were heard in the last two heartbeats.
    fn heard_gateways(&self) -> impl Iterator<Item = &GatewayMember> {
        self.gateways.values().filter(|member| member.presence.state == NodeState::Normal)
    }

    /// Until when gateways may come back that were not heard of since this coordinator began, or since all were out of
    /// sight.
    fn return_until_us(&self) -> u64 {
        let first_us = self.tenures.returning_since_us;
        let spread_us = first_us.map_or(0, |first_us| first_us + GATEWAY_RETURN_SPREAD_MS * 1000);
        spread_us.max(self.started_us + GATEWAY_RETURN_MS * 1000)
    }

    pub(crate) fn is_owner_alive(&self, tenure: &DurableTenure) -> bool {
        let member = self.gateways.get(&tenure.gateway);
        member.is_some_and(|member| member.registration.life == tenure.gateway_life && member.presence.is_alive())
    }

    /// Is everybody there who is to share partitions that were never owned, or was there time to come?
    fn is_gathered(&self, now: Now) -> bool {
        let nodes = self.nodes.values().filter(|node| node.presence.is_alive()).count();
        let gateways = self.alive_gateways().count();
        nodes >= usize::from(self.settings.node_count_expected)
            && gateways >= usize::from(self.settings.gateway_count_expected)
            || self.tenures.gathering_since_us.is_some_and(|since_us| now.mono_us >= since_us + GATHER_MS * 1000)
    }

    fn unowned(&self) -> Vec<u16> {
        let owned: BTreeSet<u16> =
            self.durable.tenures.values().flat_map(|tenure| tenure.partitions.iter().copied()).collect();
        (0..self.settings.partition_count).filter(|partition| !owned.contains(partition)).collect()
    }

    fn has_unowned(&self) -> bool {
        let owned: usize = self.durable.tenures.values().map(|tenure| tenure.partitions.len()).sum();
        owned < usize::from(self.settings.partition_count)
    }

    /// `loads`: of those that may own.
    pub(crate) fn level(&self, loads: &BTreeMap<u16, usize>, now: Now) -> Option<u32> {
        let is_settled = loads.keys().all(|&id| self.settled_at_us(id) <= now.mono_us);
        if !is_settled {
            return None;
        }
        let tenures = self.durable.tenures.iter();
        let tenures: Vec<_> =
            tenures.map(|(&epoch, tenure)| (tenure.gateway, epoch, tenure.partitions.len())).collect();
        to_level(loads, &tenures)
    }

    fn wants_level(&self) -> bool {
        let loads = self.loads_of(|id| self.may_own(id));
        let (least, most) = (loads.values().min(), loads.values().max());
        least.zip(most).is_some_and(|(least, most)| most - least >= 2)
    }

    /// A gateway that has just come may be one of several.
    fn settled_at_us(&self, gateway: u16) -> u64 {
        self.gateways.get(&gateway).map_or(u64::MAX, |member| member.since_us + SETTLED_MS * 1000)
    }

    /// Is every partition served?
    pub(crate) fn is_quiet(&self) -> bool {
        !self.has_unowned() && self.durable.tenures.keys().all(|&epoch| self.serves(epoch))
    }

    pub(crate) fn serves(&self, epoch: u32) -> bool {
        self.tenures.serves(epoch)
    }

    pub(crate) fn alive_gateways(&self) -> impl Iterator<Item = u16> + '_ {
        self.gateways.iter().filter(|(_, member)| member.presence.is_alive()).map(|(&id, _)| id)
    }

    /// A gateway that no later owner could follow if this node left now: of some set of voters that is still to accept
    /// one, more lives would be gone than may be missing. One that was given up can be followed by another life of its
    /// number, until that is taken out.
    pub(crate) fn unfollowable_without(&self, id: u16) -> Option<u16> {
        let is_gone = |&(node, incarnation): &DurableVoter| {
            let known = self.durable.nodes.get(&node);
            known.is_none_or(|known| known.is_given_up(incarnation))
        };
        let incarnation = self.durable.nodes.get(&id).map(|known| known.incarnation);
        let is_it = |voter: &DurableVoter| voter.0 == id && Some(voter.1) == incarnation;
        let is_short = |set: &Vec<DurableVoter>| {
            let gone = set.iter().filter(|voter| is_it(voter) || is_gone(voter)).count();
            set.iter().any(is_it) && gone > self.settings.code.tolerance()
        };
        let mut tenures = self.durable.tenures.values();
        tenures.find(|tenure| tenure.voters.iter().chain(&tenure.before).any(is_short)).map(|tenure| tenure.gateway)
    }

    /// How many partitions each of these living gateways has.
    pub(crate) fn loads_of(&self, wanted: impl Fn(u16) -> bool) -> BTreeMap<u16, usize> {
        let mut loads: BTreeMap<u16, usize> =
            self.alive_gateways().filter(|&id| wanted(id)).map(|id| (id, 0)).collect();
        for tenure in self.durable.tenures.values().filter(|tenure| self.is_owner_alive(tenure)) {
            if let Some(load) = loads.get_mut(&tenure.gateway) {
                *load += tenure.partitions.len();
            }
        }
        loads
    }

    pub(crate) fn invariant_partition_has_one_tenure(&self) {
        let mut seen = BTreeSet::new();
        for (epoch, tenure) in &self.durable.tenures {
            assert!(!tenure.partitions.is_empty(), "tenure {epoch} of nothing");
            for partition in &tenure.partitions {
                assert!(seen.insert(*partition), "partition {partition} is in two tenures");
                assert!(*partition < self.settings.partition_count, "partition {partition} does not exist");
            }
        }
    }

    pub(crate) fn invariant_epochs_are_behind_the_last(&self) {
        let last = self.durable.tenures.keys().next_back().copied().unwrap_or(0);
        assert!(last <= self.durable.epoch, "epoch {last} is beyond the last one handed out, {}", self.durable.epoch);
        for (epoch, tenure) in &self.durable.tenures {
            assert!(!tenure.voters.is_empty(), "tenure {epoch} has no voters");
        }
    }
}

fn told(set: &[DurableVoter]) -> Arc<[Voter]> {
    set.iter().map(|&(node, incarnation)| Voter { node: NodeId(node), incarnation: Incarnation(incarnation) }).collect()
}
