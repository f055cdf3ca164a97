//! Planned hand-over: who follows is decided first, and prepares; then the owner lets go.
//!
//! A gateway is drained, or has more than others, or has several tenures: these become one, which it hands to itself,
//! if nothing else is to be done.
//!
//! ```text
//! owner                       coordinator                             heirs
//!   |                            | chooses them, takes epochs           |
//!   |                            |-- terms to come ------------------->| read what they will inherit
//!   |                            |<-- prepared -------------------------|
//!   |<-- lets go ----------------|
//!   |-- let go ----------------->| persists their tenures               |
//!   |                            |-- terms ---------------------------->| fence, read the rest, serve
//! ```
//! The plan is not persisted, only the epochs are, so that none is used twice: whoever leads later plans anew. What
//! there is is saved once more before the owner is told to let go, so that it goes on while the store is away. A plan
//! is dropped when an heir is gone or reaches too few nodes for 2 s, or when the owner's drain is cancelled. Should the
//! owner die meanwhile, its heirs follow all the same. Only an owner that serves is told to let go. While nothing can
//! be saved no step is taken, and the time in which heirs are to be prepared does not run: they may not know of it.
//!
//! An owner that follows itself is told to only once it is prepared, and if nothing came up meanwhile: it is tried
//! again later. If it lets go of one tenure, and in 2 s not of the others, the one is dealt as that of a dead owner is.
//!
//! Must not know: what is read.

use std::collections::{BTreeMap, BTreeSet};

use shorttail_units::{Epoch, Now};
use shorttail_wire::control::{NodeState, TenureState, Terms};

use crate::coordinator::Coordinator;
use crate::dealing::{Loose, deal, to_unite};
use crate::durable::DurableTenure;
use crate::limits::{PREPARE_MS_MAX, UNPROVEN_MS_MAX};
use crate::members::{GatewayMember, NodeMember};

/// Who follows the owner of a tenure with some of its partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Heir {
    pub gateway: u16,
    /// Which process of that number.
    gateway_life: u64,
    pub partitions: Vec<u16>,
}

#[derive(Debug)]
pub(crate) struct HandOver {
    /// The tenures that end, all of one owner.
    pub epochs: Vec<u32>,
    /// By the epochs that follow.
    pub heirs: BTreeMap<u32, Heir>,
    begun_us: u64,
    /// The owner was told to let go.
    is_ordered: bool,
    /// Since when it has let go of some of the tenures.
    let_go_us: Option<u64>,
}

impl HandOver {
    pub fn is_heir(&self, epoch: u32, gateway: u16) -> bool {
        self.heirs.get(&epoch).is_some_and(|heir| heir.gateway == gateway)
    }

    fn gateways(&self) -> impl Iterator<Item = u16> {
        self.heirs.values().map(|heir| heir.gateway)
    }

    /// Does an owner follow itself, with one tenure instead of several?
    fn unites(&self) -> bool {
        self.epochs.len() > 1
    }

    /// Is the owner of this tenure to let go?
    pub fn is_ordered(&self, epoch: u32) -> bool {
        self.is_ordered && self.epochs.contains(&epoch)
    }

    /// When heirs that are not prepared are not waited for any longer; nor, then, what the owner has not let go of.
    pub fn deadline_us(&self) -> Option<u64> {
        match self.is_ordered {
            true => self.let_go_us.map(|at_us| at_us + UNPROVEN_MS_MAX * 1000),
            false => Some(self.begun_us + PREPARE_MS_MAX * 1000),
        }
    }

    fn is_due(&self, now: Now) -> bool {
        self.deadline_us().is_some_and(|at_us| now.mono_us >= at_us)
    }

    /// What a gateway is told of the tenures that it is to have.
    pub fn terms_to_come(&self, gateway: u16) -> Vec<Terms> {
        let own = self.heirs.iter().filter(|(_, heir)| heir.gateway == gateway);
        own.map(|(&epoch, heir)| Terms::to_come(Epoch(epoch), heir.partitions.clone())).collect()
    }
}

impl Coordinator {
    /// Takes the next step of a planned hand-over, or begins one if it is wanted and nothing else is under way. While
    /// nothing can be saved heirs may not have heard of theirs, and who lets go would have nobody to follow: that time
    /// is not theirs to prepare in.
    pub(crate) fn hand_over(&mut self, now: Now) {
        if self.rests() {
            return self.put_off_order(now);
        }
        let can_go_on = |plan: &HandOver| self.wanted(now).is_none() && self.may_unite(now) && !plan.is_due(now);
        let is_in_the_way = |plan: &HandOver| plan.unites() && !plan.is_ordered && !can_go_on(plan);
        if self.tenures.hand_over.as_ref().is_some_and(is_in_the_way) {
            let late = self.tenures.hand_over.iter().filter(|plan| plan.is_due(now)).flat_map(HandOver::gateways);
            let late: Vec<u16> = late.collect();
            self.tenures.not_united.extend(&late);
            if self.to_unite_in_time().is_none() {
                // All had their turn.
                self.tenures.not_united = late.into_iter().collect();
            }
            self.drop_plan();
            self.tenures.settled_us = now.mono_us;
        }
        if self.tenures.hand_over.is_some() {
            return self.order_when_prepared(now);
        }
        if !self.is_quiet() || !self.are_epochs_told() {
            return;
        }
        if let Some(epoch) = self.wanted(now) {
            let loads = self.loads_of(|id| self.may_own(id));
            self.plan(vec![epoch], loads, now);
        } else if self.may_unite(now)
            && let Some((gateway, epochs)) = self.to_unite()
        {
            self.plan(epochs, [(gateway, 0)].into(), now);
        }
    }

    /// The tenure that is to have another owner, if one is: a drained gateway's first.
    fn wanted(&self, now: Now) -> Option<u32> {
        let drained = self.durable.tenures.iter().find(|(_, tenure)| !self.may_own(tenure.gateway));
        let others = self.loads_of(|id| self.may_own(id));
        match drained {
            Some((&epoch, _)) if !others.is_empty() => Some(epoch),
            _ => self.level(&others, now),
        }
    }

    /// Who was not prepared in time may never be, and is not to keep the others from it.
    fn to_unite(&self) -> Option<(u16, Vec<u32>)> {
        self.to_unite_in_time().or_else(|| to_unite(&self.unitable().collect::<Vec<_>>()))
    }

    fn to_unite_in_time(&self) -> Option<(u16, Vec<u32>)> {
        let in_time = self.unitable().filter(|(gateway, _)| !self.tenures.not_united.contains(gateway));
        to_unite(&in_time.collect::<Vec<_>>())
    }

    /// Tenures, as (gateway, epoch), of owners that live, and stay; that have memory for what they own twice; and that
    /// know of no loss, as who follows may not find what is lost.
    fn unitable(&self) -> impl Iterator<Item = (u16, u32)> {
        let tenures = &self.durable.tenures;
        let lossy: BTreeSet<u16> =
            tenures.values().filter(|tenure| tenure.lost > 0).map(|tenure| tenure.gateway).collect();
        let owns_few = |id: u16| self.gateways.get(&id).is_some_and(GatewayMember::owns_few_objects);
        let stays = |tenure: &DurableTenure| self.is_owner_alive(tenure) && self.may_own(tenure.gateway);
        let may =
            move |tenure: &DurableTenure| stays(tenure) && owns_few(tenure.gateway) && !lossy.contains(&tenure.gateway);
        let may_unite = tenures.iter().filter(move |(_, tenure)| may(tenure));
        may_unite.map(|(&epoch, tenure)| (tenure.gateway, epoch))
    }

    /// Did owners stay as they are for some time, is no node away, which would be waited for, and no gateway that gets
    /// a share when it is well again?
    fn may_unite(&self, now: Now) -> bool {
        let is_there = |(id, node): (&u16, &NodeMember)| {
            let is_given_up = self.durable.nodes.get(id).is_some_and(|known| known.is_given_up(node.incarnation.0));
            is_given_up || node.presence.state == NodeState::Normal
        };
        let is_time = now.mono_us >= self.unites_at_us();
        is_time && self.nodes.iter().all(is_there) && !self.alive_gateways().any(|id| self.is_cut_off(id))
    }

    fn unites_at_us(&self) -> u64 {
        self.started_us.max(self.tenures.settled_us) + self.settings.unite_after_ms * 1000
    }

    /// When tenures are united, if some are to be.
    pub(crate) fn unite_deadline_us(&self) -> Option<u64> {
        self.to_unite().map(|_| self.unites_at_us())
    }

    /// `loads`: what those have that may follow.
    fn plan(&mut self, epochs: Vec<u32>, mut loads: BTreeMap<u16, usize>, now: Now) {
        if loads.is_empty() || self.durable.epoch > Epoch::MAX.0 - loads.len() as u32 {
            return;
        }
        let mut loose = Vec::new();
        for tenure in epochs.iter().map(|epoch| &self.durable.tenures[epoch]) {
            if let Some(load) = loads.get_mut(&tenure.gateway) {
                *load = load.saturating_sub(tenure.partitions.len());
            }
            loose.extend(tenure.partitions.iter().map(|&partition| Loose { partition, owner: Some(tenure.gateway) }));
        }
        let dealt = deal(&loose, &loads);
        let mut heirs = BTreeMap::new();
        for (gateway, partitions) in dealt {
            self.durable.epoch += 1;
            let gateway_life = self.gateways[&gateway].registration.life;
            heirs.insert(self.durable.epoch, Heir { gateway, gateway_life, partitions });
            self.tenures.to_tell.insert(gateway);
        }
        let begun_us = now.mono_us;
        self.tenures.hand_over = Some(HandOver { epochs, heirs, begun_us, is_ordered: false, let_go_us: None });
        self.persist();
    }

    /// Heirs have the whole time to prepare from now on.
    pub(crate) fn put_off_order(&mut self, now: Now) {
        if let Some(plan) = self.tenures.hand_over.as_mut().filter(|plan| !plan.is_ordered) {
            plan.begun_us = now.mono_us;
        }
    }

    fn order_when_prepared(&mut self, now: Now) {
        let Some(plan) = &self.tenures.hand_over else { return };
        let is_prepared =
            |epoch: &u32| self.standing_of(*epoch).is_some_and(|standing| standing.state == TenureState::Prepared);
        // An owner that let go before it was accepted would say, too, that it let go.
        let serves = plan.epochs.iter().all(|&epoch| self.serves(epoch));
        if plan.is_ordered || !serves || !plan.is_due(now) && !plan.heirs.keys().all(is_prepared) {
            return;
        }
        // One that reaches too few nodes would serve nothing: it may be a pause, or it is waited for in vain.
        let heirs = plan.heirs.values().map(|heir| heir.gateway);
        let short: Vec<u16> = heirs.filter(|&id| self.tells_of_too_few(id)).collect();
        if !short.is_empty() {
            let cut_off: Vec<u16> = short.into_iter().filter(|&id| self.tells_long_of_too_few(id, now)).collect();
            // If nobody reaches more, nodes are away: then the owner goes on.
            if !cut_off.is_empty() && self.alive_gateways().any(|id| self.is_sound(id, now)) {
                self.drop_plan();
                cut_off.into_iter().for_each(|id| self.cut_off(id));
            }
            return;
        }
        let owner = self.durable.tenures[&plan.epochs[0]].gateway;
        if let Some(plan) = &mut self.tenures.hand_over {
            plan.is_ordered = true;
        }
        // Nobody would own what it lets go until the store has its heirs' tenures: the store is to answer first.
        self.persist();
        self.tenures.to_tell.insert(owner);
    }

    /// It lives, and is not known to reach too few nodes.
    fn is_heir_fit(&self, heir: &Heir) -> bool {
        let member = self.gateways.get(&heir.gateway);
        let is_alive =
            |member: &GatewayMember| member.registration.life == heir.gateway_life && member.presence.is_alive();
        member.is_some_and(is_alive) && !self.is_cut_off(heir.gateway)
    }

    /// The plan for tenures that ended, if it can be carried out. While the owner lets go of the plan's other tenures,
    /// none of them counts as ended.
    pub(crate) fn take_plan_of(&mut self, ended: &mut Vec<u32>, now: Now) -> Option<HandOver> {
        let plan = self.tenures.hand_over.as_ref()?;
        let left = plan.epochs.iter().filter(|epoch| !ended.contains(epoch)).count();
        if left == plan.epochs.len() {
            return None;
        }
        let is_over = left > 0 && (!plan.is_ordered || plan.is_due(now));
        if is_over || !plan.heirs.values().all(|heir| self.is_heir_fit(heir)) {
            self.drop_plan();
            return None;
        }
        if left == 0 {
            self.tenures.united_total += u64::from(plan.unites());
            return self.tenures.hand_over.take();
        }
        let plan = self.tenures.hand_over.as_mut().expect("looked at above");
        plan.let_go_us.get_or_insert(now.mono_us);
        ended.retain(|epoch| !plan.epochs.contains(epoch));
        None
    }

    /// Drops a plan that does not hold any more.
    pub(crate) fn forget_hand_over(&mut self) {
        let holds = |plan: &HandOver| {
            let has_owner = plan.epochs.iter().all(|epoch| self.durable.tenures.contains_key(epoch));
            has_owner && (plan.is_ordered || plan.heirs.values().all(|heir| self.is_heir_fit(heir)))
        };
        if self.tenures.hand_over.as_ref().is_some_and(|plan| !holds(plan)) {
            self.drop_plan();
        }
    }

    /// What it was not told to let go of it keeps.
    pub(crate) fn spare_owner(&mut self, gateway: u16) {
        let is_owner = |epoch| self.durable.tenures.get(&epoch).is_some_and(|tenure| tenure.gateway == gateway);
        let plan = self.tenures.hand_over.as_ref();
        if plan.is_some_and(|plan| !plan.is_ordered && plan.epochs.iter().copied().any(is_owner)) {
            self.drop_plan();
        }
    }

    /// It is to own nothing: what it was to have goes to others, unless the owner lets go already.
    pub(crate) fn spare_heir(&mut self, gateway: u16) {
        let is_heir = |plan: &HandOver| plan.heirs.values().any(|heir| heir.gateway == gateway);
        if self.tenures.hand_over.as_ref().is_some_and(|plan| !plan.is_ordered && is_heir(plan)) {
            self.drop_plan();
        }
    }

    fn drop_plan(&mut self) {
        let plan = self.tenures.hand_over.take();
        let heirs = plan.into_iter().flat_map(|plan| plan.heirs.into_values());
        let gateways: Vec<u16> = heirs.map(|heir| heir.gateway).collect();
        self.tenures.to_tell.extend(gateways);
    }
}
