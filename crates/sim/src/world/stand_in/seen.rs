//! What can be seen of owners from outside: who is to serve, who does, and how long nobody did.

use shorttail_gateway::engine::Standing;

use super::super::coordinators::coordinator_at;
use super::super::endpoint_of_gateway;
use super::World;
use crate::world::GatewayHost;

impl World {
    /// Is every partition served by who should, and does every gateway know who that is?
    pub fn is_settled(&self) -> bool {
        if self.is_alone() {
            return self.gateways[0].is_serving();
        }
        let table = self.table();
        let is_served =
            |place: &Option<(u32, usize)>| place.is_some_and(|(epoch, gateway)| self.is_serving(epoch, gateway));
        let knows = |host: &GatewayHost| !host.is_up || host.table == table;
        table.iter().all(is_served) && self.gateways.iter().all(knows)
    }

    /// Which gateway is to own the partition of a key.
    pub fn owner_of(&self, key: &str) -> Option<usize> {
        let partition = self.partition_of(key.as_bytes());
        self.table()[usize::from(partition.0)].map(|(_, gateway)| gateway)
    }

    /// Is somebody serving the partition of a key who should?
    pub fn serves(&self, key: &str) -> bool {
        let partition = self.partition_of(key.as_bytes());
        self.table()[usize::from(partition.0)].is_some_and(|(epoch, gateway)| self.is_serving(epoch, gateway))
    }

    fn is_serving(&self, epoch: u32, gateway: usize) -> bool {
        let (hosted, now) = (self.gateways[gateway].tenures.get(&epoch), self.now_of_gateway(gateway));
        hosted.is_some_and(|it| it.engine.standing() == Standing::Serving && it.engine.is_proven(now))
    }

    /// Packed stripes in a gateway's engine that owns a key, and how many of them it read under its fence.
    pub fn stripes_read(&self, gateway: usize, key: &str) -> Option<(usize, usize)> {
        let (epoch, _) = self.table()[usize::from(self.partition_of(key.as_bytes()).0)]?;
        let engine = &self.gateways[gateway].tenures.get(&epoch)?.engine;
        Some((engine.stripe_count(), engine.inherited_read()))
    }

    /// Does a coordinator neither hear a gateway nor reach it, or only one of them?
    pub(in crate::world) fn is_cut_from_coordinator(&self, gateway: usize) -> bool {
        let endpoint = endpoint_of_gateway(gateway);
        let is_of_both = |(from, to)| {
            from == endpoint && coordinator_at(to).is_some() || to == endpoint && coordinator_at(from).is_some()
        };
        self.stand_in.cut.contains(&gateway) || self.network.cuts().any(is_of_both)
    }

    /// How long nobody answered for partitions whose owner had let go, in the order of the ends.
    pub fn stretches(&self) -> &[u64] {
        &self.stand_in.stretches
    }

    pub(in crate::world) fn note_stretch(&mut self, gateway: usize, epoch: u32, standing: Standing) {
        let Some(hosted) = self.gateways[gateway].tenures.get(&epoch) else { return };
        let now_us = self.schedule.now_us();
        let is_short = hosted.engine.has_writes_without_memory();
        for partition in hosted.engine.config().partitions.clone() {
            match standing {
                // What waits for memory is waited for, up to a second.
                Standing::LettingGo if is_short => self.time_no_hand_over(partition),
                _ => self.time_hand_over(partition, standing),
            }
            match standing {
                Standing::LettingGo => _ = self.stand_in.since_us.entry(partition).or_insert(now_us),
                Standing::Serving => {
                    let since_us = self.stand_in.since_us.remove(&partition);
                    self.stand_in.stretches.extend(since_us.map(|since_us| now_us - since_us));
                }
                _ => {}
            }
        }
    }
}
