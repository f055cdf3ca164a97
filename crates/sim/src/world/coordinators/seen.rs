//! Who should own what, as the coordinator or a member sees it.

use shorttail_gateway::engine::Standing;
use shorttail_wire::control::{GatewayEntry, View};

use super::member::gateway_of_address;
use super::{STORE, World, endpoint_of_coordinator};
use crate::world::{GatewayHost, NodeHost};

/// Longer than a session that ended in a cut looks as if it stood.
const KNOWN_US: u64 = 10_000_000;

impl World {
    /// By partition: the epoch and the gateway, if that one can be reached.
    pub(in crate::world) fn table_of_view(&self, view: &View) -> Vec<Option<(u32, usize)>> {
        let mut table = vec![None; usize::from(self.config.partition_count)];
        let place = |id: u16| {
            let entry = view.gateways.iter().find(|entry: &&GatewayEntry| entry.id == id && entry.is_alive)?;
            gateway_of_address(entry.forward.as_ref()?)
        };
        for tenure in &view.tenures {
            for &partition in &tenure.partitions {
                table[usize::from(partition)] = place(tenure.gateway).map(|gateway| (tenure.epoch.0, gateway));
            }
        }
        table
    }

    /// As the coordinator that leads has it now; nobody owns anything while none does.
    pub(in crate::world) fn table_of_coordinator(&self) -> Vec<Option<(u32, usize)>> {
        let leader = self.leader().and_then(|place| self.coordinators.processes[place].seat.machine());
        match leader {
            Some(machine) => self.table_of_view(&machine.view()),
            None => vec![None; usize::from(self.config.partition_count)],
        }
    }

    /// Does one of the coordinators lead, and are all of them there, and the store to all of them?
    pub(in crate::world) fn are_coordinators_well(&self) -> bool {
        let is_well = |place: usize| {
            let endpoint = endpoint_of_coordinator(place);
            let is_cut = self.network.is_cut(endpoint, STORE) || self.network.is_cut(STORE, endpoint);
            self.coordinators.processes[place].is_up && !self.network.is_stalled(endpoint) && !is_cut
        };
        let is_store_there = self.schedule.now_us() >= self.coordinators.store.away_until_us;
        !self.config.coordinated
            || is_store_there && self.leader().is_some() && (0..self.coordinators.processes.len()).all(is_well)
    }

    /// The coordinator that surely leads.
    pub fn leader(&self) -> Option<usize> {
        (0..self.coordinators.processes.len()).find(|&place| self.leads(place))
    }

    /// What the coordinator that leads tells operators.
    pub fn problems(&self) -> Vec<String> {
        let machine = self.leader().and_then(|place| self.coordinators.processes[place].seat.machine());
        machine.map_or_else(Vec::new, |machine| machine.status().problems)
    }

    /// Why a node that drains is not empty yet, as the coordinator that leads says.
    pub fn drain_problem(&self, node: usize) -> Option<String> {
        let status = self.coordinators.processes[self.leader()?].seat.machine()?.status();
        let entry = status.nodes.into_iter().find(|entry| entry.id == self.nodes[node].id.0)?;
        entry.drain?.problem
    }

    /// May a gateway answer for a key, whoever should?
    pub fn answers_for(&self, gateway: usize, key: &str) -> bool {
        let (partition, now) = (self.partition_of(key.as_bytes()), self.now_of_gateway(gateway));
        let mut engines = self.gateways[gateway].engines();
        engines.any(|it| it.is_serving() && it.is_proven(now) && it.config().partitions.contains(&partition))
    }

    /// Has a gateway read what it is to inherit in a hand-over?
    pub fn is_prepared(&self, gateway: usize) -> bool {
        self.gateways[gateway].engines().any(|engine| engine.standing() == Standing::Prepared)
    }

    /// Whoever lost memory lost it so long ago that all owners know, and everybody is there.
    pub(in crate::world) fn knows_losses(&self) -> bool {
        if !self.config.coordinated {
            return true;
        }
        let engines = || self.gateways.iter().flat_map(GatewayHost::engines);
        let is_reached = |node: &NodeHost| engines().all(|engine| engine.reaches(node.id));
        self.schedule.now_us() > self.coordinators.lost_us + KNOWN_US
            && self.members().iter().all(|&node| is_reached(&self.nodes[node]))
    }
}
