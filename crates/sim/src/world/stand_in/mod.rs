//! A scripted coordinator: it deals partitions to gateways as tenures, one epoch each, and hears how far these are.
//!
//! ```text
//! gateway dies, or is silent --> its partitions are dealt to the others           a new tenure each
//! gateway comes              --> the fullest lets go of a tenure, then it is dealt
//! hand-over                  --> the heir prepares, then the owner lets go; in a part of them nobody prepares
//! node comes with new memory --> new voters beside the old ones, until the owner proves itself by the new
//! ```
//! What it says arrives in order and late, or not at all while it is cut off from the gateway. With one gateway and no
//! lease it deals everything at once: the gateway alone is simulated then.

mod deals;
mod hand_over;
mod seen;

use std::collections::{BTreeMap, BTreeSet};

use shorttail_gateway::engine::{Standing, Terms, Voter, VoterSet};
use shorttail_units::PartitionId;

use super::coordinators::Who;
use super::{Event, World, endpoint_of_gateway};

/// A gateway that says nothing for so long is taken for dead. It says something twenty times as often.
const SILENCE_US: u64 = 100_000;
const BEAT_US: u64 = 5_000;
/// Messages between coordinator and gateways take this long on average.
const DELAY_US: u64 = 1_000;

/// What the coordinator tells a gateway.
#[derive(Clone, Debug)]
pub(super) enum Order {
    Table(Vec<Option<(u32, usize)>>),
    Begin {
        epoch: u32,
        partitions: Vec<PartitionId>,
        terms: Terms,
    },
    Terms {
        epoch: u32,
        terms: Terms,
    },
    LetGo {
        epoch: u32,
    },
    Prepare {
        epoch: u32,
        partitions: Vec<PartitionId>,
    },
    /// What was to be prepared is not to come.
    Forget {
        epoch: u32,
    },
}

#[derive(Debug)]
struct Tenure {
    gateway: usize,
    /// Which life of its process.
    generation: u32,
    partitions: Vec<PartitionId>,
    /// Sets by which the owner may prove itself, the newest last.
    voters: Vec<VoterSet>,
    before: Vec<VoterSet>,
    is_served: bool,
    /// Who follows, once the owner let go.
    heir: Option<usize>,
    /// Under which epoch, if the heir prepares; and whether the owner was told to let go.
    heir_epoch: Option<u32>,
    lets_go: bool,
}

impl Tenure {
    fn terms(&self) -> Terms {
        Terms { voters: self.voters.last().cloned().unwrap_or_default(), before: self.before.clone() }
    }
}

#[derive(Debug, Default)]
pub(super) struct StandIn {
    tenures: BTreeMap<u32, Tenure>,
    epoch: u32,
    /// By gateway: when it was heard last; none while it is taken for dead.
    heard_us: BTreeMap<usize, u64>,
    /// Gateways that it neither hears nor reaches.
    cut: BTreeSet<usize>,
    /// When the last message to a gateway, and from it, arrives.
    last_us: BTreeMap<(usize, bool), u64>,
    /// Since when nobody answers for a partition, and for how long nobody did, when its owner had let go.
    since_us: BTreeMap<PartitionId, u64>,
    pub stretches: Vec<u64>,
    /// A scenario says when the owner lets go.
    is_held_back: bool,
}

impl World {
    fn is_alone(&self) -> bool {
        self.config.gateway_count == 1
    }

    /// Does the coordinator's own machine decide, so that nothing is to be done here?
    fn stands_by(&self) -> bool {
        self.config.coordinated
    }

    fn voters(&self) -> VoterSet {
        let members = self.members().into_iter().map(|node| &self.nodes[node]);
        members.map(|node| Voter { node: node.id, incarnation: node.incarnation }).collect()
    }

    /// A message to or from a gateway: when it arrives.
    fn delivery_us(&mut self, gateway: usize, is_order: bool) -> u64 {
        let delay_us = self.rng.exponential_us(DELAY_US, 20 * DELAY_US);
        let last_us = self.stand_in.last_us.entry((gateway, is_order)).or_default();
        *last_us = (*last_us + 1).max(self.schedule.now_us() + delay_us);
        *last_us
    }

    fn tell(&mut self, gateway: usize, order: Order) {
        if self.stand_in.cut.contains(&gateway) {
            return;
        }
        let at_us = self.delivery_us(gateway, true);
        let generation = self.gateways[gateway].generation;
        self.schedule.at(at_us, Event::Order { gateway, generation, order: Box::new(order) });
    }

    pub(super) fn order_arrives(&mut self, gateway: usize, generation: u32, order: Order) {
        if self.gateways[gateway].is_up && self.gateways[gateway].generation == generation {
            self.order_gateway(gateway, order);
        }
    }

    fn table(&self) -> Vec<Option<(u32, usize)>> {
        if self.stands_by() {
            return self.table_of_coordinator();
        }
        let mut table = vec![None; usize::from(self.config.partition_count)];
        for (&epoch, tenure) in &self.stand_in.tenures {
            for partition in &tenure.partitions {
                table[usize::from(partition.0)] = Some((epoch, tenure.gateway));
            }
        }
        table
    }

    fn tell_table(&mut self) {
        for gateway in self.stand_in.heard_us.keys().copied().collect::<Vec<_>>() {
            self.tell(gateway, Order::Table(self.table()));
        }
    }

    /// Everything that concerns a gateway, as it may have missed some of it.
    fn tell_all(&mut self, gateway: usize) {
        let own = self.stand_in.tenures.iter().filter(|(_, tenure)| tenure.gateway == gateway);
        let begin = |(&epoch, tenure): (&u32, &Tenure)| {
            let begin = Order::Begin { epoch, partitions: tenure.partitions.clone(), terms: tenure.terms() };
            let let_go = tenure.lets_go.then_some(Order::LetGo { epoch });
            std::iter::once(begin).chain(let_go).collect::<Vec<_>>()
        };
        for order in own.flat_map(begin).collect::<Vec<_>>() {
            self.tell(gateway, order);
        }
        self.tell(gateway, Order::Table(self.table()));
    }

    /// The process began, or began anew: what an earlier one owned is ownerless.
    pub(super) fn gateway_joins(&mut self, gateway: usize) {
        if self.stands_by() {
            return self.member_starts(Who::Gateway(gateway));
        }
        if self.is_alone() {
            return self.deal_all_at_once();
        }
        let generation = self.gateways[gateway].generation;
        let at_us = self.delivery_us(gateway, false);
        self.schedule.at(at_us, Event::Joined { gateway, generation });
        self.schedule.at(at_us + BEAT_US, Event::Beat { gateway, generation });
    }

    pub(super) fn gateway_joined(&mut self, gateway: usize, generation: u32) {
        if self.gateways[gateway].generation != generation || self.stand_in.cut.contains(&gateway) {
            return;
        }
        self.give_up(gateway);
        self.stand_in.heard_us.insert(gateway, self.schedule.now_us());
        if !self.deal_first() {
            self.deal_ownerless();
            self.balance(gateway);
        }
        self.tell_all(gateway);
    }

    /// Deals all partitions as soon as all gateways are there; false: it did so before this.
    fn deal_first(&mut self) -> bool {
        let is_first_deal = self.stand_in.epoch == 0;
        if is_first_deal && self.stand_in.heard_us.len() == self.config.gateway_count {
            let partitions: Vec<_> = (0..self.config.partition_count).map(PartitionId).collect();
            self.deal(partitions, Vec::new());
        }
        is_first_deal
    }

    /// Its connection ended.
    pub(super) fn gateway_leaves(&mut self, gateway: usize) {
        if self.stands_by() {
            self.member_stops(Who::Gateway(gateway));
        } else if !self.is_alone() {
            let at_us = self.delivery_us(gateway, false);
            let generation = self.gateways[gateway].generation;
            self.schedule.at(at_us, Event::Left { gateway, generation });
        }
    }

    pub(super) fn gateway_left(&mut self, gateway: usize, generation: u32) {
        if self.gateways[gateway].generation == generation && !self.stand_in.cut.contains(&gateway) {
            self.give_up(gateway);
        }
    }

    /// The gateway shows that it lives, and the coordinator looks at who does not.
    pub(super) fn beat(&mut self, gateway: usize, generation: u32) {
        if self.gateways[gateway].generation != generation {
            return;
        }
        let now_us = self.schedule.now_us();
        self.schedule.after(BEAT_US, Event::Beat { gateway, generation });
        if !self.gateways[gateway].waiting.is_empty() {
            // A gateway without tenures has no other reason to look.
            self.demand_turn(gateway);
        }
        if !self.network.is_stalled(endpoint_of_gateway(gateway)) && !self.stand_in.cut.contains(&gateway) {
            let was_dead = self.stand_in.heard_us.insert(gateway, now_us).is_none();
            if was_dead {
                self.note(format_args!("the coordinator hears gateway {gateway} again"));
                if !self.deal_first() {
                    self.deal_ownerless();
                }
                self.tell_all(gateway);
            }
        }
        let silent = self.stand_in.heard_us.iter().filter(|(_, heard_us)| now_us - **heard_us > SILENCE_US);
        for gateway in silent.map(|(&gateway, _)| gateway).collect::<Vec<_>>() {
            self.note(format_args!("gateway {gateway} is silent"));
            self.give_up(gateway);
        }
    }

    /// Others are to own what the gateway did.
    fn give_up(&mut self, gateway: usize) {
        self.stand_in.heard_us.remove(&gateway);
        self.deal_ownerless();
    }

    pub(super) fn tell_coordinator(&mut self, gateway: usize, epoch: u32, standing: Standing, voters: VoterSet) {
        if self.is_alone() || self.stands_by() {
            return;
        }
        let at_us = self.delivery_us(gateway, false);
        self.schedule.at(at_us, Event::Told { gateway, epoch, standing, voters });
    }

    pub(super) fn standing_told(&mut self, gateway: usize, epoch: u32, standing: Standing, voters: &VoterSet) {
        if self.stand_in.cut.contains(&gateway) {
            // It is told again once it can be.
            if let Some(hosted) = self.gateways[gateway].tenures.get_mut(&epoch) {
                hosted.forget_told();
            }
            return;
        }
        if standing == Standing::Prepared {
            let is_for = |(_, tenure): &(&u32, &Tenure)| tenure.heir_epoch == Some(epoch);
            let ending = self.stand_in.tenures.iter().find(is_for).map(|(&ending, _)| ending);
            return ending.into_iter().for_each(|ending| self.order_let_go(ending));
        }
        let Some(tenure) = self.stand_in.tenures.get_mut(&epoch).filter(|it| it.gateway == gateway) else { return };
        if let Some(place) = tenure.voters.iter().position(|set| set == voters) {
            tenure.voters.drain(..place);
        }
        match standing {
            Standing::Serving => {
                tenure.is_served = true;
                tenure.before.clear();
            }
            // Nobody is there to follow: it is told again when somebody is.
            Standing::Released | Standing::Deposed if self.stand_in.heard_us.is_empty() => {}
            Standing::Released | Standing::Deposed => {
                let Some(tenure) = self.stand_in.tenures.remove(&epoch) else { return };
                self.deal_to_heir(tenure);
            }
            Standing::Preparing | Standing::Prepared | Standing::Waiting | Standing::LettingGo => {}
        }
    }

    /// A node has a new memory: it becomes a voter of everything.
    pub(super) fn renew_voters(&mut self) {
        if self.stands_by() {
            return;
        }
        let voters = self.voters();
        for epoch in self.stand_in.tenures.keys().copied().collect::<Vec<_>>() {
            let Some(tenure) = self.stand_in.tenures.get_mut(&epoch) else { continue };
            tenure.voters.push(voters.clone());
            let (gateway, terms) = (tenure.gateway, tenure.terms());
            self.tell(gateway, Order::Terms { epoch, terms });
        }
    }

    /// Could a later owner be accepted if this node were taken out now? Lives that were taken out never accept one, and
    /// stay in a set of voters until the present owner is proven without them.
    pub(super) fn is_followable_without(&self, node: usize) -> bool {
        let is_gone = |voter: &&Voter| {
            let place = usize::from(voter.node.0);
            place == node || self.membership.removed.contains(&place)
        };
        let suffices = |set: &VoterSet| set.iter().filter(is_gone).count() <= self.config.code.tolerance();
        let tenures = self.stand_in.tenures.values();
        tenures.flat_map(|tenure| tenure.voters.iter().chain(&tenure.before)).all(suffices)
    }

    /// The coordinator and a gateway lose sight of each other for so long.
    pub fn cut_coordinator(&mut self, gateway: usize, cut_us: u64) {
        self.note(format_args!("the coordinator is cut off from gateway {gateway} for {cut_us} us"));
        self.counts.coordinator_cuts += 1;
        if self.stands_by() {
            return self.cut_member(Who::Gateway(gateway), cut_us);
        }
        self.counts.cuts += 1;
        self.stand_in.cut.insert(gateway);
        self.schedule.after(cut_us, Event::MendCoordinator { gateway });
    }

    pub(super) fn mend_coordinator(&mut self, gateway: usize) {
        if !self.stand_in.cut.remove(&gateway) || !self.gateways[gateway].is_up {
            return;
        }
        let generation = self.gateways[gateway].generation;
        let owns = self.stand_in.tenures.iter().filter(|(_, tenure)| tenure.gateway == gateway);
        let lost = owns.map(|(&epoch, _)| epoch).filter(|epoch| !self.gateways[gateway].tenures.contains_key(epoch));
        // It may have begun anew meanwhile, and then it has nothing; or an order was lost, which is the same to it.
        if lost.count() > 0 || !self.stand_in.heard_us.contains_key(&gateway) {
            return self.gateway_joined_again(gateway, generation);
        }
        self.tell_all(gateway);
    }

    fn gateway_joined_again(&mut self, gateway: usize, generation: u32) {
        let at_us = self.delivery_us(gateway, false);
        self.schedule.at(at_us, Event::Joined { gateway, generation });
    }
}
