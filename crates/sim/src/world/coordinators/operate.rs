//! What an operator asks of the coordinators: gateways that hand over everything, nodes that join, drain, and go.

use shorttail_coordinator::{Input, Wanted};

use super::{ControlEvent, Event, Member, Who, World, endpoint_of_coordinator};

/// When a gateway that hands over everything is stopped.
const DRAINED_US: std::ops::Range<u64> = 200_000..6_000_000;
const AWAY_US: std::ops::Range<u64> = 5_000..400_000;

/// Orders are told apart by their tickets: what it is, times this, and the member's number.
const TICKETS: u64 = 1 << 16;
const HAND_OVER: u64 = 0;
const DRAIN: u64 = 1;
const DRAIN_NO_MORE: u64 = 2;
const REMOVE: u64 = 3;

impl World {
    /// An operator has a gateway hand over everything, and stops it a little later.
    pub(in crate::world) fn drain_any(&mut self) {
        let gateway = self.rng.index(self.gateways.len());
        self.drain_gateway(gateway);
        let (generation, delay_us) = (self.gateways[gateway].generation, self.rng.range(DRAINED_US));
        self.schedule.after(delay_us, Event::Control(ControlEvent::StopDrained { gateway, generation }));
    }

    /// A gateway is to hand over everything that it owns.
    pub fn drain_gateway(&mut self, gateway: usize) {
        let member = self.coordinators.members.get(&Who::Gateway(gateway));
        if let Some(id) = member.and_then(Member::gateway_id) {
            self.note(format_args!("gateway {gateway} is to hand over everything"));
            self.order(HAND_OVER, id, Wanted::DrainGateway { cancel: false });
        }
    }

    /// The operator thought better of it.
    pub fn cancel_drain_of_gateway(&mut self, gateway: usize) {
        let member = self.coordinators.members.get(&Who::Gateway(gateway));
        if let Some(id) = member.and_then(Member::gateway_id) {
            self.note(format_args!("gateway {gateway} is used again"));
            self.order(HAND_OVER, id, Wanted::DrainGateway { cancel: true });
        }
    }

    pub(super) fn stop_drained(&mut self, gateway: usize, generation: u32) {
        if self.is_active && self.gateways[gateway].generation == generation {
            let away_us = self.draw_length(AWAY_US);
            self.crash_gateway_number(gateway, away_us);
        }
    }

    /// Asked of one that believes to lead, and may be wrong.
    fn order(&mut self, kind: u64, member: u16, wanted: Wanted) {
        let can_be_asked = |&place: &usize| {
            let is_stalled = self.network.is_stalled(endpoint_of_coordinator(place));
            self.coordinators.processes[place].seat.machine().is_some() && !is_stalled
        };
        let places: Vec<usize> = (0..self.coordinators.processes.len()).filter(can_be_asked).collect();
        if let Some(&place) = self.rng.choose(&places) {
            self.coordinator_takes(place, Input::Order { ticket: kind * TICKETS + u64::from(member), member, wanted });
        }
    }

    pub(super) fn order_answered(&mut self, ticket: u64, outcome: &Result<String, String>) {
        self.note(format_args!("order {ticket}: {outcome:?}"));
        match ticket / TICKETS {
            DRAIN if outcome.is_ok() => self.counts.drains += 1,
            REMOVE if outcome.is_ok() => self.counts.removals += 1,
            _ => {}
        }
    }

    /// A node that is to be emptied, or not any more.
    pub fn order_drain(&mut self, node: usize, cancel: bool) {
        let (kind, id) = (if cancel { DRAIN_NO_MORE } else { DRAIN }, self.nodes[node].id.0);
        self.order(kind, id, Wanted::DrainNode { cancel });
    }

    /// A node is to be taken out; `lost`: whatever it holds.
    pub fn order_removal(&mut self, node: usize, lost: bool) {
        self.order(REMOVE, self.nodes[node].id.0, Wanted::RemoveNode { lost });
    }

    /// Did it hear that it is taken out?
    pub fn is_removed(&self, node: usize) -> bool {
        self.membership.removed.contains(&node)
    }

    /// It was told that it is taken out: it ends for good.
    pub(super) fn node_is_removed(&mut self, node: usize) {
        self.note(format_args!("node {node} is removed"));
        self.stop_node(node);
        self.membership.removed.insert(node);
    }

    /// One of those that may: a node joins, is drained, is drained no more, or is taken out. Whether it can be is the
    /// coordinators' to say.
    pub(in crate::world) fn order_membership(&mut self) {
        let absent: Vec<usize> = self.membership.absent.iter().copied().collect();
        if let Some(&node) = self.rng.choose(&absent).filter(|_| self.rng.chance_ppm(500_000)) {
            return self.join_node(node);
        }
        let Some(machine) = self.leader().and_then(|place| self.coordinators.processes[place].seat.machine()) else {
            return;
        };
        let view = machine.view();
        let kept: Vec<_> = view.nodes.iter().filter(|entry| !entry.removed).collect();
        let (draining, others): (Vec<_>, Vec<_>) = kept.into_iter().partition(|entry| entry.draining);
        let place_of = |entry: &shorttail_wire::control::NodeEntry| usize::from(entry.id.0);
        if let Some(entry) = self.rng.choose(&draining) {
            return match self.rng.chance_ppm(150_000) {
                true => self.order_drain(place_of(entry), true),
                false => self.order_removal(place_of(entry), false),
            };
        }
        // As many as a stripe needs stay, even while as many as may fail are away.
        if others.len() <= self.config.code.chunk_count() + self.config.code.tolerance() + 1 {
            return;
        }
        let victims: Vec<usize> = self.victims.iter().copied().filter(|&node| self.is_member(node)).collect();
        // What is given up counts as lost: that may befall some nodes only.
        if let Some(&node) = self.rng.choose(&victims).filter(|_| self.rng.chance_ppm(200_000)) {
            return self.order_removal(node, true);
        }
        if let Some(entry) = self.rng.choose(&others) {
            self.order_drain(place_of(entry), false);
        }
    }
}
