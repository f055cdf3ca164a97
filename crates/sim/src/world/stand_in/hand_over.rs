//! Hand-overs: one gateway is to let go of a tenure, for another one that prepares or does not.

use super::{Event, Order, Tenure, World};

/// How many hand-overs nobody prepares for, and after what time the owner lets go of all the same.
const UNPREPARED_PPM: u32 = 250_000;
const PREPARE_US_MAX: u64 = 100_000;

impl World {
    /// A gateway without partitions takes over a tenure of one that has several.
    pub(super) fn balance(&mut self, gateway: usize) {
        let of = |gateway: usize| self.stand_in.tenures.values().filter(|it| it.gateway == gateway).count();
        let fullest = self.stand_in.heard_us.keys().copied().max_by_key(|&other| of(other));
        if let Some(other) = fullest.filter(|&other| of(other) > 1 && of(gateway) == 0) {
            self.hand_over_from(other, gateway);
        }
    }

    /// A tenure of one gateway is handed over to another.
    pub fn hand_over_from(&mut self, from: usize, to: usize) {
        let tenures = &mut self.stand_in.tenures;
        let own =
            tenures.iter_mut().find(|(_, tenure)| tenure.gateway == from && tenure.heir.is_none() && tenure.is_served);
        let Some((&epoch, tenure)) = own else { return };
        tenure.heir = Some(to);
        let partitions = tenure.partitions.clone();
        self.counts.handovers += 1;
        self.note(format_args!("gateway {from} is to let go of epoch {epoch}, for gateway {to}"));
        if self.rng.chance_ppm(UNPREPARED_PPM) {
            return self.order_let_go(epoch);
        }
        let next = self.next_epoch();
        if let Some(tenure) = self.stand_in.tenures.get_mut(&epoch) {
            tenure.heir_epoch = Some(next);
        }
        self.tell(to, Order::Prepare { epoch: next, partitions });
        self.schedule.after(PREPARE_US_MAX, Event::PrepareOver { epoch });
    }

    /// As [`World::hand_over_from`]; the heir prepares, and the owner lets go when the scenario says so.
    pub fn prepare_hand_over(&mut self, from: usize, to: usize) {
        let of_owner = |tenure: &&mut Tenure| tenure.gateway == from && tenure.heir.is_none();
        let next = self.next_epoch();
        let Some(tenure) = self.stand_in.tenures.values_mut().find(of_owner) else { return };
        (tenure.heir, tenure.heir_epoch) = (Some(to), Some(next));
        let partitions = tenure.partitions.clone();
        self.stand_in.is_held_back = true;
        self.tell(to, Order::Prepare { epoch: next, partitions });
    }

    /// See [`World::prepare_hand_over`].
    pub fn go_on_with_hand_over(&mut self) {
        self.stand_in.is_held_back = false;
        let planned = self.stand_in.tenures.iter().find(|(_, tenure)| tenure.heir_epoch.is_some());
        if let Some(epoch) = planned.map(|(&epoch, _)| epoch) {
            self.order_let_go(epoch);
        }
    }

    /// The heir is prepared, or was not for long.
    pub(in crate::world) fn order_let_go(&mut self, epoch: u32) {
        let is_held_back = self.stand_in.is_held_back;
        let Some(tenure) = self.stand_in.tenures.get_mut(&epoch).filter(|it| !it.lets_go && !is_held_back) else {
            return;
        };
        tenure.lets_go = true;
        let gateway = tenure.gateway;
        self.tell(gateway, Order::LetGo { epoch });
    }

    pub(in crate::world) fn hand_over_any(&mut self) {
        if self.config.coordinated {
            return self.drain_any();
        }
        let alive: Vec<usize> = self.stand_in.heard_us.keys().copied().collect();
        if alive.len() > 1 {
            let from = self.rng.index(alive.len());
            let to = (from + 1 + self.rng.index(alive.len() - 1)) % alive.len();
            self.hand_over_from(alive[from], alive[to]);
        }
    }
}
