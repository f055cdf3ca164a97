//! Which gateway serves which hash slots: what cluster-aware clients are told.
//!
//! ```text
//! partitions      0        1        2        3           contiguous ranges of slots, equally long
//! owners          g0       g0       g1       none
//! ranges       [0 ........ 8191] [8192..12287]           neighbours of one owner together; what nobody owns is in none
//! ```
//!
//! Clients are told of each slot that its owner has it, or, where they do not reach the owner, that another gateway
//! has, which stands in: the first one that they do reach, so that all gateways tell the same, and what masters tell
//! adds up.
//!
//! Must not know: how owners are chosen, or where a request really goes.

use std::collections::BTreeSet;

use shorttail_units::{ClusterId, PartitionId, Slot};

/// All gateways of a cluster and their slots, as one of them sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    cluster: ClusterId,
    me: u16,
    /// In order of their numbers.
    gateways: Vec<GatewayPlace>,
    /// Ascending, without overlaps.
    ranges: Vec<SlotRange>,
    /// By partition.
    holdings: Vec<Option<Holding>>,
    slots_served: usize,
    stand_in: u16,
    /// Gateways that own something which they do not serve, alive or not.
    behind: BTreeSet<u16>,
}

/// One gateway, for clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayPlace {
    pub id: u16,
    /// The highest epoch under which it owns something; 0: it owns nothing.
    pub epoch: u32,
    /// Where Redis clients connect; `None`: nowhere.
    pub redis: Option<ClientAddress>,
    pub is_alive: bool,
}

impl GatewayPlace {
    /// Do clients reach it?
    pub fn is_reached(&self) -> bool {
        self.is_alive && self.redis.is_some()
    }
}

/// Who has a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    pub gateway: u16,
    /// It answers requests for it: it took it over, and is sure to own it.
    pub is_served: bool,
}

/// An address for clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientAddress {
    /// Empty: on the machine of the gateway that tells, under the host by which the client reached that one.
    pub host: String,
    pub port: u16,
}

/// Neighbouring slots with one owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotRange {
    pub first: u16,
    pub last: u16,
    pub gateway: u16,
}

impl Topology {
    /// `owners`: for each partition of the cluster who has it. A gateway that is not among `gateways` counts as none.
    pub fn new(cluster: ClusterId, me: u16, mut gateways: Vec<GatewayPlace>, owners: &[Option<Holding>]) -> Self {
        gateways.sort_by_key(|gateway| gateway.id);
        let is_known = |holding: &Holding| gateways.iter().any(|place| place.id == holding.gateway);
        let holdings: Vec<_> = owners.iter().map(|owner| owner.filter(is_known)).collect();
        let stand_in = gateways.iter().find(|gateway| gateway.is_reached()).map_or(me, |gateway| gateway.id);
        let mut ranges: Vec<SlotRange> = Vec::new();
        let (mut slots_served, mut behind) = (0, BTreeSet::new());
        for (partition, owner) in (0..).map(PartitionId).zip(owners) {
            let slots = partition.slots(owners.len());
            let Some(holding) = owner.filter(|_| !slots.is_empty()) else { continue };
            let gateway = holding.gateway;
            let Some(place) = gateways.iter().find(|place| place.id == gateway) else { continue };
            match holding.is_served {
                true if place.is_alive => slots_served += slots.len(),
                true => {}
                false => _ = behind.insert(gateway),
            }
            match ranges.last_mut().filter(|range| range.gateway == gateway && range.last + 1 == slots.start) {
                Some(range) => range.last = slots.end - 1,
                None => ranges.push(SlotRange { first: slots.start, last: slots.end - 1, gateway }),
            }
        }
        Topology { cluster, me, gateways, ranges, holdings, slots_served, stand_in, behind }
    }

    /// One gateway that owns everything.
    pub fn single(cluster: ClusterId, me: u16, epoch: u32, redis: Option<ClientAddress>) -> Self {
        let place = GatewayPlace { id: me, epoch, redis, is_alive: true };
        Topology::new(cluster, me, vec![place], &[Some(Holding { gateway: me, is_served: true })])
    }

    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// The gateway that sees it so.
    pub fn me(&self) -> u16 {
        self.me
    }

    pub fn gateways(&self) -> &[GatewayPlace] {
        &self.gateways
    }

    pub fn gateway(&self, id: u16) -> Option<&GatewayPlace> {
        let index = self.gateways.binary_search_by_key(&id, |gateway| gateway.id).ok()?;
        Some(&self.gateways[index])
    }

    pub fn ranges(&self) -> &[SlotRange] {
        &self.ranges
    }

    /// Slots that somebody owns.
    pub fn slots_assigned(&self) -> usize {
        self.ranges.iter().map(|range| usize::from(range.last - range.first) + 1).sum()
    }

    /// Of these, those whose owner answers.
    pub fn slots_served(&self) -> usize {
        self.slots_served
    }

    /// Does a gateway serve all that it owns?
    pub fn serves_its_own(&self, id: u16) -> bool {
        !self.behind.contains(&id)
    }

    pub fn owner_of(&self, slot: Slot) -> Option<&GatewayPlace> {
        let after = self.ranges.partition_point(|range| range.first <= slot.number());
        let range = self.ranges[..after].last().filter(|range| slot.number() <= range.last)?;
        self.gateway(range.gateway)
    }

    /// Does its owner answer, as far as is known?
    pub fn is_served(&self, slot: Slot) -> bool {
        self.holding(slot.partition(self.holdings.len())).is_some_and(|holding| holding.is_served)
    }

    fn holding(&self, partition: PartitionId) -> Option<Holding> {
        self.holdings.get(usize::from(partition.0)).copied().flatten()
    }

    /// The gateway that clients are told has what `owner` owns.
    pub fn told_of(&self, owner: u16) -> u16 {
        if self.gateway(owner).is_some_and(GatewayPlace::is_reached) { owner } else { self.stand_in }
    }

    /// Are clients told that this gateway has it?
    pub fn is_mine(&self, slot: Slot) -> bool {
        self.owner_of(slot).is_some_and(|owner| self.told_of(owner.id) == self.me)
    }

    /// The same of a partition's slots.
    pub fn is_my_partition(&self, partition: u16) -> bool {
        self.holding(PartitionId(partition)).is_some_and(|holding| self.told_of(holding.gateway) == self.me)
    }

    /// The first slot from this one on that clients are told this gateway has.
    pub fn next_of_mine(&self, from: Slot) -> Option<Slot> {
        let mut mine = self.ranges.iter().filter(|range| self.told_of(range.gateway) == self.me);
        let range = mine.find(|range| range.last >= from.number())?;
        Slot::new(range.first.max(from.number()))
    }

    /// The highest epoch of any gateway.
    pub fn epoch(&self) -> u32 {
        self.gateways.iter().map(|gateway| gateway.epoch).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::SLOT_COUNT;

    use super::*;

    fn gateway(id: u16) -> GatewayPlace {
        let redis = Some(ClientAddress { host: String::new(), port: 7000 + id });
        GatewayPlace { id, epoch: u32::from(id) + 1, redis, is_alive: true }
    }

    #[test]
    fn neighbours_of_one_owner_are_one_range() {
        let owner = |gateway| Some(Holding { gateway, is_served: true });
        let owners = [owner(0), owner(0), owner(1), None, owner(1), owner(9), owner(0), owner(0)];
        let topology = Topology::new(ClusterId(1), 0, vec![gateway(1), gateway(0)], &owners);
        let ranges: Vec<_> = topology.ranges().iter().map(|range| (range.first, range.last, range.gateway)).collect();
        assert_eq!(ranges, [(0, 4095, 0), (4096, 6143, 1), (8192, 10239, 1), (12288, 16383, 0)]);
        assert_eq!(topology.slots_assigned(), 6 * 2048);
        assert_eq!(topology.epoch(), 2);
        let owner = |slot| topology.owner_of(Slot::new(slot).expect("a slot")).map(|gateway| gateway.id);
        assert_eq!((owner(0), owner(4095), owner(4096), owner(6143)), (Some(0), Some(0), Some(1), Some(1)));
        assert_eq!((owner(6144), owner(8191), owner(10240)), (None, None, None), "nobody, or nobody known");
        assert_eq!((owner(8192), owner(16383)), (Some(1), Some(0)));
        let next = |slot| topology.next_of_mine(Slot::new(slot).expect("a slot")).map(Slot::number);
        assert_eq!((next(0), next(4095), next(4096), next(12288)), (Some(0), Some(4095), Some(12288), Some(12288)));
        let other = Topology::new(ClusterId(1), 1, vec![gateway(1), gateway(0)], &owners);
        assert_eq!(other.next_of_mine(Slot::new(10240).expect("a slot")), None);
    }

    #[test]
    fn one_gateway_stands_in_for_all_that_clients_do_not_reach() {
        let owners = [0, 1, 2, 3].map(|gateway| Some(Holding { gateway, is_served: true }));
        let gateways = || {
            let nowhere = GatewayPlace { redis: None, ..gateway(0) };
            let dead = GatewayPlace { is_alive: false, ..gateway(3) };
            vec![dead, gateway(2), nowhere, gateway(1)]
        };
        let told: Vec<Vec<bool>> = [1, 2]
            .map(|me| {
                let topology = Topology::new(ClusterId(1), me, gateways(), &owners);
                assert_eq!([0, 1, 2, 3].map(|owner| topology.told_of(owner)), [1, 1, 2, 1], "all tell the same");
                let begins = (0..4).map(|partition| Slot::new(partition * 4096).expect("a slot"));
                let mine: Vec<bool> = begins.map(|slot| topology.is_mine(slot)).collect();
                assert_eq!((0..4).map(|partition| topology.is_my_partition(partition)).collect::<Vec<_>>(), mine);
                let first = topology.next_of_mine(Slot::new(0).expect("a slot")).map(Slot::number);
                assert_eq!(first, mine.iter().position(|&is_mine| is_mine).map(|partition| partition as u16 * 4096));
                mine
            })
            .into();
        assert_eq!(told, [[true, true, false, true], [false, false, true, false]]);
        let mut nobody = gateways();
        nobody.iter_mut().for_each(|gateway| gateway.redis = None);
        assert!(Topology::new(ClusterId(1), 2, nobody, &owners).is_my_partition(0), "whoever asks was here");
    }

    #[test]
    fn each_partition_is_served_or_not() {
        let owner = |gateway, is_served| Some(Holding { gateway, is_served });
        let owners = [owner(0, true), owner(0, false), None, owner(1, true)];
        let topology = Topology::new(ClusterId(1), 0, vec![gateway(0), gateway(1)], &owners);
        let is_served = |slot| topology.is_served(Slot::new(slot).expect("a slot"));
        assert_eq!(
            [0, 4095, 4096, 8191, 8192, 12287, 12288, 16383].map(is_served),
            [true, true, false, false, false, false, true, true]
        );
        assert_eq!(topology.ranges().len(), 2, "clients ask for both where they are");
    }

    #[test]
    fn a_single_gateway_owns_every_slot() {
        let topology = Topology::single(ClusterId(7), 3, 5, None);
        assert_eq!(topology.ranges(), [SlotRange { first: 0, last: 16383, gateway: 3 }]);
        assert_eq!((topology.me(), topology.epoch(), topology.slots_assigned()), (3, 5, SLOT_COUNT));
    }
}
