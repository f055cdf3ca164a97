//! Where requests go: who should own each partition, as the latest view says.
//!
//! ```text
//! partition -> tenure (epoch, gateway) -> this gateway: its core, partition % cores
//!                                      -> another gateway: its address, while it is alive
//!           -> none: nobody yet
//! ```
//!
//! Must not know: whether an owner really serves.

use std::collections::{BTreeMap, BTreeSet};

use shorttail_gateway::any::AnyCommand;
use shorttail_gateway::command::Command;
use shorttail_gateway::engine::cursor_slot;
use shorttail_gateway::forward::Ask;
use shorttail_gateway::request::{KeyspaceRequest, Request};
use shorttail_gateway::topology::{ClientAddress, GatewayPlace, Holding, Topology};
use shorttail_units::{ClusterId, Slot};
use shorttail_wire::control::{GatewayEntry, View};

use super::places::place_of;
use crate::config::Address;

/// Who should own a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    pub epoch: u32,
    pub gateway: u16,
}

/// The owners of all partitions, and where the other gateways are.
#[derive(Clone, Debug, Default)]
pub struct Table {
    owners: Vec<Option<Owner>>,
    /// Other gateways that are alive and can be asked, or are not heard of yet by a coordinator that has just begun to
    /// lead: such a one knows what they own, and tells once it takes them for dead.
    pub addresses: BTreeMap<u16, Address>,
    /// All that clients are told of: this gateway, those that the latest view names, and those not heard of yet, as
    /// above.
    gateways: Vec<GatewayEntry>,
    /// Tenures of the whole cluster.
    pub tenure_count: usize,
}

impl Table {
    pub fn new(partition_count: u16) -> Self {
        Table { owners: vec![None; usize::from(partition_count)], ..Table::default() }
    }

    /// This gateway as it knows itself, until a view tells of gateways; one without a coordinator is never told.
    pub fn begin_alone(&mut self, me: GatewayEntry) {
        self.gateways = vec![me];
    }

    pub fn take(&mut self, me: u16, view: &View) {
        self.owners.fill(None);
        for tenure in &view.tenures {
            for &partition in &tenure.partitions {
                if let Some(owner) = self.owners.get_mut(usize::from(partition)) {
                    *owner = Some(Owner { epoch: tenure.epoch.0, gateway: tenure.gateway });
                }
            }
        }
        let others = view.gateways.iter().filter(|gateway| gateway.id != me && gateway.is_alive);
        let reachable = others.filter_map(|gateway| Some((gateway.id, gateway.forward.as_ref()?.parse().ok()?)));
        let owners = &self.owners;
        let is_known = |id: u16| id == me || owners.iter().flatten().any(|owner| owner.gateway == id);
        let is_as_before = |id: u16| is_known(id) && view.gateways.iter().all(|gateway| gateway.id != id);
        self.addresses.retain(|&id, _| is_as_before(id));
        self.addresses.extend(reachable);
        self.gateways.retain(|gateway| is_as_before(gateway.id));
        self.gateways.extend(view.gateways.iter().cloned());
        self.tenure_count = view.tenures.len();
    }

    /// Has every partition an owner?
    pub fn is_complete(&self) -> bool {
        self.owners.iter().all(Option::is_some)
    }

    pub fn owner(&self, partition: u16) -> Option<Owner> {
        self.owners.get(usize::from(partition)).copied().flatten()
    }

    pub fn partition_count(&self) -> u16 {
        self.owners.len() as u16
    }

    pub fn partitions_of_epoch(&self, epoch: u32) -> Vec<u16> {
        let all = 0..self.partition_count();
        all.filter(|&partition| self.owner(partition).is_some_and(|owner| owner.epoch == epoch)).collect()
    }

    /// The partition that a request is about; `None`: all of them.
    pub fn partition_of(&self, request: &Request<AnyCommand>) -> Option<u16> {
        let of_key = |key: &[u8]| self.partition_of_slot(Slot::of_key(key));
        match request {
            Request::Key(command) => Some(of_key(command.key())),
            Request::Group(group) => Some(group.pairs.first().map_or(0, |(key, _)| of_key(key))),
            Request::Keyspace(KeyspaceRequest::Scan { cursor, .. } | KeyspaceRequest::ListSlot { cursor, .. }) => {
                Some(cursor_slot(*cursor).map_or(0, |slot| self.partition_of_slot(slot)))
            }
            Request::Keyspace(KeyspaceRequest::CountSlot { slot }) => {
                Some(Slot::new(*slot).map_or(0, |slot| self.partition_of_slot(slot)))
            }
            Request::Keyspace(_) => None,
        }
    }

    /// Is a request of another gateway about the partition that it names, with all its keys?
    pub fn is_about(&self, ask: &Ask) -> bool {
        let is_whole = match &ask.request {
            Request::Group(group) => {
                let mut slots = group.pairs.iter().map(|(key, _)| Slot::of_key(key));
                slots.next().is_some_and(|first| slots.all(|slot| slot == first))
            }
            Request::Key(_) | Request::Keyspace(_) => true,
        };
        is_whole && self.partition_of(&ask.request) == Some(ask.partition)
    }

    fn partition_of_slot(&self, slot: Slot) -> u16 {
        slot.partition(self.owners.len()).0
    }

    /// What cluster-aware clients are told.
    pub fn topology(&self, cluster: ClusterId, me: u16, served: &BTreeSet<u32>) -> Topology {
        let epoch_of = |id: u16| {
            let own = self.owners.iter().flatten().filter(|owner| owner.gateway == id);
            own.map(|owner| owner.epoch).max().unwrap_or(0)
        };
        let here = self.gateways.iter().find(|gateway| gateway.id == me);
        let mut places: Vec<GatewayPlace> = self
            .gateways
            .iter()
            .map(|gateway| GatewayPlace {
                id: gateway.id,
                epoch: epoch_of(gateway.id),
                redis: here.and_then(|here| place_of(here, gateway)),
                is_alive: gateway.is_alive,
            })
            .collect();
        // One that was started anew has another number until the earlier one is forgotten. Clients are to find one
        // there.
        let taken: Vec<ClientAddress> =
            places.iter().filter(|place| place.is_alive).filter_map(|it| it.redis.clone()).collect();
        for gone in places.iter_mut().filter(|place| !place.is_alive) {
            gone.redis = gone.redis.take().filter(|place| !taken.contains(place));
        }
        let holding = |owner: Owner| Holding { gateway: owner.gateway, is_served: served.contains(&owner.epoch) };
        let owners: Vec<Option<Holding>> = self.owners.iter().map(|owner| owner.map(holding)).collect();
        Topology::new(cluster, me, places, &owners)
    }
}

#[cfg(test)]
mod tests {
    use shorttail_gateway::request::GroupPut;
    use shorttail_units::{Epoch, SLOT_COUNT};
    use shorttail_wire::control::TenureEntry;

    use super::*;

    fn gateway(id: u16, is_alive: bool) -> GatewayEntry {
        let forward = Some(format!("unix:/run/g{id}"));
        let redis = Some(format!("0.0.0.0:{}", 6379 + id));
        GatewayEntry { id, is_alive, forward, redis, ..GatewayEntry::default() }
    }

    #[test]
    fn who_is_not_heard_of_yet_is_asked_for_what_it_owns() {
        let mut table = Table::new(2);
        let tenures = |owners: [u16; 2]| {
            let entry = |(partition, gateway)| TenureEntry { epoch: Epoch(7), gateway, partitions: vec![partition] };
            (0..).zip(owners).map(entry).collect::<Vec<_>>()
        };
        let mut told = |gateways: Vec<GatewayEntry>, owners| {
            table.take(0, &View { gateways, tenures: tenures(owners), ..View::default() });
            table.addresses.keys().copied().collect::<Vec<_>>()
        };
        let all = || (0..3).map(|id| gateway(id, true)).collect();
        assert_eq!(told(all(), [1, 0]), [1, 2]);
        assert_eq!(told(vec![gateway(0, true)], [1, 0]), [1], "another coordinator leads: 2 owns nothing");
        assert_eq!(told(all(), [1, 0]), [1, 2], "they came");
        assert_eq!(told(vec![gateway(0, true), gateway(1, false), gateway(2, true)], [1, 0]), [2], "it is dead");
        assert_eq!(told(all(), [1, 0]), [1, 2]);
        assert_eq!(told(vec![gateway(0, true)], [0, 0]), [0_u16; 0], "it did not come, and was followed");
    }

    #[test]
    fn clients_are_told_of_who_is_not_heard_of_yet_and_owns_something() {
        let tenure =
            |epoch, gateway, partition| TenureEntry { epoch: Epoch(epoch), gateway, partitions: vec![partition] };
        let tenures = vec![tenure(7, 0, 0), tenure(8, 1, 1)];
        let view = |gateways: Vec<GatewayEntry>| View { gateways, tenures: tenures.clone(), ..View::default() };
        let mut table = Table::new(2);
        table.begin_alone(gateway(0, true));
        let mut owner_of_last = |view: &View| {
            table.take(0, view);
            let topology = table.topology(ClusterId(5), 0, &BTreeSet::from([7, 8]));
            let ids: Vec<u16> = topology.gateways().iter().map(|gateway| gateway.id).collect();
            let last = Slot::new(SLOT_COUNT as u16 - 1).expect("a slot");
            (ids, topology.owner_of(last).map(|owner| (owner.id, owner.redis.is_some(), owner.is_alive)))
        };
        let whole = view((0..3).map(|id| gateway(id, true)).collect());
        assert_eq!(owner_of_last(&whole), (vec![0, 1, 2], Some((1, true, true))));
        let partial = view(vec![gateway(0, true)]);
        assert_eq!(owner_of_last(&partial), (vec![0, 1], Some((1, true, true))), "another coordinator leads");
        let dead = view(vec![gateway(0, true), gateway(1, false)]);
        assert_eq!(owner_of_last(&dead), (vec![0, 1], Some((1, true, false))), "as the view says");
        assert_eq!(owner_of_last(&partial), (vec![0, 1], Some((1, true, false))), "nobody heard anything else");
        let followed = View { tenures: vec![tenure(9, 0, 1)], ..partial };
        assert_eq!(owner_of_last(&followed), (vec![0], Some((0, true, true))));
    }

    #[test]
    fn one_that_was_started_anew_is_found_where_it_was_and_its_earlier_life_nowhere() {
        let mut table = Table::new(1);
        let again = GatewayEntry { redis: gateway(1, false).redis, ..gateway(2, true) };
        for (gateways, expected) in [
            (vec![gateway(0, true), gateway(1, false)], vec![true, true]),
            (vec![gateway(0, true), gateway(1, false), again], vec![true, false, true]),
        ] {
            table.take(0, &View { gateways, ..View::default() });
            let topology = table.topology(ClusterId(5), 0, &BTreeSet::new());
            assert_eq!(topology.gateways().iter().map(|it| it.redis.is_some()).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn what_another_gateway_asks_must_be_about_the_partition_that_it_names() {
        let table = Table::new(4);
        let group = |keys: &[&str], partition| {
            let pairs = keys.iter().map(|key| (key.as_bytes().to_vec(), Vec::new())).collect();
            Ask { partition, epoch: 0, request: Request::Group(GroupPut { pairs, only_if_absent: false }) }
        };
        let own = table.partition_of(&group(&["{a}1"], 0).request).expect("a key's");
        assert!(table.is_about(&group(&["{a}1", "{a}2"], own)));
        assert!(!table.is_about(&group(&["{a}1", "{a}2"], (own + 1) % 4)), "another partition");
        assert!(!table.is_about(&group(&["{a}1", "{b}2"], own)), "two slots");
        assert!(!table.is_about(&group(&[], 0)));
        let count = Ask { partition: 0, epoch: 0, request: Request::Keyspace(KeyspaceRequest::Count) };
        assert!(!table.is_about(&count), "all keys are a tenure's, which it must name");
    }

    #[test]
    fn a_view_says_who_owns_what_and_where_to_ask() {
        let tenure = |epoch, gateway, partitions: &[u16]| TenureEntry {
            epoch: Epoch(epoch),
            gateway,
            partitions: partitions.to_vec(),
        };
        let mut table = Table::new(4);
        let mut view = View {
            gateways: vec![gateway(1, true), gateway(2, true), gateway(3, false)],
            tenures: vec![tenure(7, 1, &[0, 3]), tenure(9, 2, &[1])],
            ..View::default()
        };
        table.take(1, &view);
        assert!(!table.is_complete());
        assert_eq!(table.owner(3), Some(Owner { epoch: 7, gateway: 1 }));
        assert_eq!((table.owner(2), table.owner(4)), (None, None));
        assert_eq!(table.addresses.keys().copied().collect::<Vec<_>>(), [2], "itself and the dead are not asked");
        assert_eq!(table.partitions_of_epoch(7), [0, 3]);
        let topology = table.topology(ClusterId(5), 1, &BTreeSet::from([7]));
        assert_eq!(topology.gateway(1).map(|gateway| gateway.epoch), Some(7));
        assert_eq!((topology.slots_assigned(), topology.slots_served()), (SLOT_COUNT / 4 * 3, SLOT_COUNT / 2));
        assert!(topology.serves_its_own(1) && !topology.serves_its_own(2));
        view.tenures = vec![tenure(10, 1, &[0, 1, 2, 3])];
        table.take(1, &view);
        assert!(table.is_complete());
        let get = |cursor| Request::Keyspace(KeyspaceRequest::Scan { cursor, count: 1 });
        assert_eq!(table.partition_of(&get(0)), Some(0));
        assert_eq!(table.partition_of(&get(u64::MAX)), Some(0), "a cursor that nobody gave");
        assert_eq!(table.partition_of(&Request::Keyspace(KeyspaceRequest::Count)), None);
        let in_slot = Request::Keyspace(KeyspaceRequest::CountSlot { slot: SLOT_COUNT as u16 - 1 });
        assert_eq!(table.partition_of(&in_slot), Some(3));
    }
}
