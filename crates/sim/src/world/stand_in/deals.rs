//! Who is dealt which partitions: a new tenure with an epoch of its own, for the heir if there is one.

use std::collections::BTreeMap;

use shorttail_gateway::engine::{Terms, VoterSet};
use shorttail_units::PartitionId;

use super::{Order, Tenure, World};

impl World {
    /// One gateway, no lease: the coordinator is not part of what is simulated.
    pub(super) fn deal_all_at_once(&mut self) {
        self.stand_in.epoch += 1;
        let epoch = self.stand_in.epoch;
        let partitions: Vec<_> = (0..self.config.partition_count).map(PartitionId).collect();
        self.gateways[0].table = vec![Some((epoch, 0)); partitions.len()];
        self.begin_tenure(0, epoch, partitions, Terms::default());
    }

    pub(super) fn deal_ownerless(&mut self) {
        if self.stand_in.heard_us.is_empty() {
            return;
        }
        let alive = |tenure: &Tenure| {
            let is_same = self.gateways[tenure.gateway].generation == tenure.generation;
            is_same && self.stand_in.heard_us.contains_key(&tenure.gateway)
        };
        let ownerless = self.stand_in.tenures.iter().filter(|(_, tenure)| !alive(tenure));
        for epoch in ownerless.map(|(&epoch, _)| epoch).collect::<Vec<_>>() {
            let Some(tenure) = self.stand_in.tenures.remove(&epoch) else { continue };
            self.deal_to_heir(tenure);
        }
    }

    /// Deals partitions to all gateways that live, in turn.
    pub(super) fn deal(&mut self, partitions: Vec<PartitionId>, before: Vec<VoterSet>) {
        let alive: Vec<usize> = self.stand_in.heard_us.keys().copied().collect();
        let mut shares: BTreeMap<usize, Vec<PartitionId>> = BTreeMap::new();
        let first = self.stand_in.epoch as usize;
        for (place, partition) in partitions.into_iter().enumerate() {
            shares.entry(alive[(first + place) % alive.len()]).or_default().push(partition);
        }
        shares.into_iter().for_each(|(gateway, partitions)| self.deal_to(gateway, partitions, before.clone()));
        self.tell_table();
    }

    fn deal_to(&mut self, gateway: usize, partitions: Vec<PartitionId>, before: Vec<VoterSet>) {
        let epoch = self.next_epoch();
        self.deal_as(epoch, gateway, partitions, before);
    }

    pub(super) fn next_epoch(&mut self) -> u32 {
        self.stand_in.epoch += 1;
        self.stand_in.epoch
    }

    /// What a tenure left goes to its heir, who may have prepared for it; to all, if that one is gone.
    pub(super) fn deal_to_heir(&mut self, tenure: Tenure) {
        let before = tenure.voters.into_iter().chain(tenure.before).collect();
        let heir = tenure.heir.filter(|heir| self.stand_in.heard_us.contains_key(heir));
        match (heir, tenure.heir_epoch) {
            (Some(heir), Some(epoch)) => self.deal_as(epoch, heir, tenure.partitions, before),
            (Some(heir), None) => self.deal_to(heir, tenure.partitions, before),
            (None, epoch) => {
                if let Some((epoch, heir)) = epoch.zip(tenure.heir) {
                    self.tell(heir, Order::Forget { epoch });
                }
                self.deal(tenure.partitions, before);
            }
        }
        self.tell_table();
    }

    fn deal_as(&mut self, epoch: u32, gateway: usize, partitions: Vec<PartitionId>, before: Vec<VoterSet>) {
        self.note(format_args!("epoch {epoch}: {partitions:?} for gateway {gateway}"));
        let voters = vec![self.voters()];
        let generation = self.gateways[gateway].generation;
        let tenure = Tenure {
            gateway,
            generation,
            partitions,
            voters,
            before,
            is_served: false,
            heir: None,
            heir_epoch: None,
            lets_go: false,
        };
        let begin = Order::Begin { epoch, partitions: tenure.partitions.clone(), terms: tenure.terms() };
        self.stand_in.tenures.insert(epoch, tenure);
        self.tell(gateway, begin);
    }
}
