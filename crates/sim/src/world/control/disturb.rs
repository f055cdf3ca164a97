//! What befalls the coordinator, its store, and the ways to it; and what an operator asks of it.

use shorttail_coordinator::Input;
use shorttail_units::Incarnation;
use shorttail_wire::control::Order;

use super::{COORDINATOR, ControlEvent, Event, Who, World};
use crate::world::Violation;

/// Lengths of faults, in microseconds, as in [`crate::world::faults`]: ten times longer in these runs.
const AWAY_US: std::ops::Range<u64> = 5_000..400_000;
const STALL_US: std::ops::Range<u64> = 5_000..300_000;
const CUT_US: std::ops::Range<u64> = 10_000..600_000;
const STORE_AWAY_US: std::ops::Range<u64> = 10_000..500_000;
/// How soon after records left for the store it dies, if it is to.
const DIES_US: u64 = 5_000;
/// How many of the crashes of nodes last until the node is given up, and how long these take.
const LONG_PPM: u32 = 150_000;
const LONG_US: std::ops::Range<u64> = 13_000_000..25_000_000;
/// When a gateway that hands over everything is stopped.
const DRAINED_US: std::ops::Range<u64> = 200_000..6_000_000;

impl World {
    /// One of the faults that there are with a real coordinator only; `node`: the one that may lose sight of it.
    pub(in crate::world) fn disturb_coordinator(&mut self, node: usize) {
        match self.rng.below(8) {
            0 | 1 => {
                let away_us = self.draw_length(AWAY_US);
                self.crash_coordinator(away_us);
            }
            2..=4 => self.crash_coordinator_at_save(),
            5 => {
                let stall_us = self.draw_length(STALL_US);
                self.stall_coordinator(stall_us);
            }
            6 => {
                let away_us = self.draw_length(STORE_AWAY_US);
                self.lose_store(away_us);
            }
            _ => {
                let cut_us = self.draw_length(CUT_US);
                self.cut_member(Who::Node(node), cut_us);
            }
        }
    }

    /// The coordinator's process dies; another one begins after so long, with what the store has.
    pub fn crash_coordinator(&mut self, away_us: u64) {
        if self.control.is_up {
            self.control.counts.coordinator_crashes += 1;
            self.stop_coordinator();
            self.schedule.after(away_us, Event::Control(ControlEvent::Start));
        }
    }

    /// The coordinator's process dies while records are on their way to the store, the next time.
    pub fn crash_coordinator_at_save(&mut self) {
        self.control.dies_at_save = true;
    }

    pub(super) fn may_die_at_save(&mut self) {
        if std::mem::take(&mut self.control.dies_at_save) {
            let (life, delay_us) = (self.control.life, self.rng.below(DIES_US));
            self.schedule.after(delay_us, Event::Control(ControlEvent::Die { life }));
        }
    }

    pub(super) fn die_at_save(&mut self) {
        let away_us = self.draw_length(AWAY_US);
        self.crash_coordinator(away_us);
    }

    /// The coordinator's process stands still.
    pub fn stall_coordinator(&mut self, stall_us: u64) {
        if self.control.is_up {
            self.counts.stalls += 1;
            self.counts.coordinator_stalls += 1;
            self.note(format_args!("the coordinator stalls for {stall_us} us"));
            self.network.stall(COORDINATOR);
            self.schedule.after(stall_us, Event::Control(ControlEvent::Resume));
        }
    }

    pub(super) fn resume_coordinator(&mut self) {
        if self.network.is_stalled(COORDINATOR) {
            self.note(format_args!("the coordinator goes on"));
            self.network.resume(COORDINATOR);
        }
    }

    /// The metadata store does not answer for so long.
    pub fn lose_store(&mut self, away_us: u64) {
        self.note(format_args!("the metadata store is away for {away_us} us"));
        self.control.counts.store_absences += 1;
        let until_us = self.schedule.now_us() + away_us;
        self.control.store.away_until_us = self.control.store.away_until_us.max(until_us);
    }

    /// The coordinator and a member lose sight of each other for so long, or one of them does.
    pub(in crate::world) fn cut_member(&mut self, who: Who, cut_us: u64) {
        let (to_member, to_coordinator) = [(true, true), (true, false), (false, true)][self.rng.index(3)];
        if to_member {
            self.cut(COORDINATOR, who.endpoint(), cut_us);
        }
        if to_coordinator {
            self.cut(who.endpoint(), COORDINATOR, cut_us);
        }
    }

    /// These gateways and nodes reach each other only, until all is mended.
    pub fn divide(&mut self, gateways: &[usize], nodes: &[usize]) {
        let members = |is_here: bool| {
            let gateways = (0..self.gateways.len()).filter(move |gateway| gateways.contains(gateway) == is_here);
            let nodes = (0..self.nodes.len()).filter(move |node| nodes.contains(node) == is_here);
            gateways.map(Who::Gateway).chain(nodes.map(Who::Node)).map(Who::endpoint)
        };
        let here: Vec<_> = members(true).collect();
        let there: Vec<_> = members(false).chain([COORDINATOR]).collect();
        self.note(format_args!("gateways {gateways:?} and nodes {nodes:?} are cut off from everybody else"));
        self.network.partition(&here, &there);
    }

    /// How long a node stays away that lost its memory: now and then until it is given up.
    pub(in crate::world) fn length_of_absence(&mut self, usual_us: u64) -> u64 {
        let is_long = self.config.coordinated && self.rng.chance_ppm(LONG_PPM);
        if is_long { self.rng.range(LONG_US) } else { usual_us }
    }

    /// An operator has a gateway hand over everything, and stops it a little later.
    pub(in crate::world) fn drain_any(&mut self) {
        let gateway = self.rng.index(self.gateways.len());
        self.drain_gateway(gateway);
        let (generation, delay_us) = (self.gateways[gateway].generation, self.rng.range(DRAINED_US));
        self.schedule.after(delay_us, Event::Control(ControlEvent::StopDrained { gateway, generation }));
    }

    /// A gateway is to hand over everything that it owns.
    pub fn drain_gateway(&mut self, gateway: usize) {
        let member = self.control.members.get(&Who::Gateway(gateway));
        let Some(id) = member.and_then(super::Member::gateway_id) else { return };
        if self.network.is_stalled(COORDINATOR) {
            return;
        }
        self.note(format_args!("gateway {gateway} is to hand over everything"));
        self.coordinator_takes(Input::Order { ticket: u64::from(id), member: id, order: Order::Drain });
    }

    pub(super) fn stop_drained(&mut self, gateway: usize, generation: u32) {
        if self.is_active && self.gateways[gateway].generation == generation {
            let away_us = self.draw_length(AWAY_US);
            self.crash_gateway_number(gateway, away_us);
        }
    }

    /// A node that came back hears that its memory counts as lost; it wipes it.
    pub(super) fn node_is_given_up(&mut self, node: usize, through: Incarnation) {
        if !self.victims.contains(&node) {
            let text = format!("node {node} lost nothing, and incarnations through {} are given up", through.0);
            self.fail(Violation::Audit(text));
        }
        self.stop_node(node);
    }

    pub(in crate::world) fn end_faults_of_coordinator(&mut self) {
        if !self.config.coordinated {
            return;
        }
        self.control.dies_at_save = false;
        self.control.store.away_until_us = 0;
        self.start_coordinator();
        self.resume_coordinator();
    }
}
