//! Who is in trouble, who was lately, and whose memory is lost: so that what is promised of few troubles is asked of
//! few troubles only.
//!
//! Seen from outside, at events that may begin or end a trouble. Ends of troubles count for a while longer, as
//! everybody finds together again.
//!
//! Must not know: what is promised.

use std::collections::{BTreeMap, BTreeSet};

use super::coordinators::{ControlEvent, Who};
use super::{Event, World, endpoint_of, endpoint_of_gateway};

#[derive(Default)]
pub(super) struct Troubles {
    /// When each member was in trouble last.
    last_us: BTreeMap<Who, u64>,
    /// Gateways that are now, and those of which that is known.
    gateways: BTreeSet<usize>,
    known: BTreeSet<usize>,
    coordinators_us: Option<u64>,
    /// When the membership changed last, or a message was hurt; and how often that was.
    other_us: Option<u64>,
    other_count: u64,
    /// Nodes that lost their memory since everything was whole, and how many memories each had.
    lost: BTreeSet<usize>,
    memory_counts: BTreeMap<usize, usize>,
    /// Every partition was served when it was looked at last, before a fault.
    pub was_settled: bool,
}

impl Troubles {
    /// Nodes that were in trouble since, or miss what they had.
    pub fn nodes_since(&self, since_us: u64) -> BTreeSet<usize> {
        let is_late = |(who, last_us): (&Who, &u64)| match who {
            Who::Node(node) if *last_us >= since_us => Some(*node),
            _ => None,
        };
        self.last_us.iter().filter_map(is_late).chain(self.lost.iter().copied()).collect()
    }

    /// Was a gateway in trouble since, other than this one?
    pub fn is_gateway_since(&self, since_us: u64, but: Option<usize>) -> bool {
        let is_late = |(who, last_us): (&Who, &u64)| match who {
            Who::Gateway(gateway) => *last_us >= since_us && Some(*gateway) != but,
            Who::Node(_) => false,
        };
        self.last_us.iter().any(is_late)
    }

    /// Was a coordinator in trouble since, or something else than a member?
    pub fn is_other_since(&self, since_us: u64) -> bool {
        [self.coordinators_us, self.other_us].into_iter().flatten().any(|last_us| last_us >= since_us)
    }
}

impl Event {
    /// Does it disturb somebody, and not only what did so before?
    pub(super) fn is_fault(&self) -> bool {
        matches!(self, Event::Fault | Event::Control(ControlEvent::StopDrained { .. }))
    }

    /// May a trouble begin or end with it?
    pub(super) fn is_of_troubles(&self) -> bool {
        matches!(
            self,
            Event::Fault
                | Event::Restart { .. }
                | Event::Resume { .. }
                | Event::CoreGoesOn { .. }
                | Event::FullSpeed { .. }
                | Event::Mend { .. }
                | Event::GatewayRestart { .. }
                | Event::GatewayResume { .. }
                | Event::MendCoordinator { .. }
                | Event::Control(_)
        )
    }
}

impl World {
    /// Before what may be a trouble: is everything as it should be?
    pub(super) fn look_before(&mut self, is_fault: bool) {
        if !self.times_service() {
            return;
        }
        self.look_at_troubles();
        if is_fault {
            self.troubles.was_settled = self.is_settled();
            if !self.troubles.lost.is_empty() && self.is_whole() && self.knows_losses() {
                self.troubles.lost.clear();
            }
        }
    }

    /// Gateways whose trouble is new.
    pub(super) fn failing_gateways(&mut self) -> Vec<usize> {
        let known = std::mem::replace(&mut self.troubles.known, self.troubles.gateways.clone());
        self.troubles.gateways.difference(&known).copied().collect()
    }

    /// Looks at everybody.
    pub(super) fn look_at_troubles(&mut self) {
        let now_us = self.schedule.now_us();
        self.look_at_nodes(now_us);
        self.look_at_gateways(now_us);
        if !self.are_coordinators_well() {
            self.note_coordinators(now_us);
        }
        let counts = &self.counts;
        let others = counts.joins + counts.drains + counts.removals + self.network.flip_count();
        if std::mem::replace(&mut self.troubles.other_count, others) < others {
            self.troubles.other_us = Some(now_us);
        }
    }

    fn look_at_nodes(&mut self, now_us: u64) {
        let cut: Vec<_> = self.network.cuts().collect();
        let is_cut = |endpoint| cut.iter().any(|&(from, to)| from == endpoint || to == endpoint);
        for node in 0..self.nodes.len() {
            let is_faulty = self.nodes[node].slowness.is_active(now_us);
            let (host, endpoint) = (&self.nodes[node], endpoint_of(node));
            let is_here = self.is_member(node);
            let stands_still = self.network.is_stalled(endpoint) || host.stalled_core.is_some();
            let is_hampered = stands_still || self.network.is_slow(endpoint) || is_cut(endpoint);
            if is_here && (!host.is_up() || host.is_rotten || is_faulty || is_hampered) {
                self.troubles.last_us.insert(Who::Node(node), now_us);
            }
            let memories = host.retired.len();
            if self.troubles.memory_counts.insert(node, memories).unwrap_or(0) < memories {
                self.troubles.lost.insert(node);
            }
        }
    }

    /// One that loses sight of nodes is none: those are in trouble.
    fn look_at_gateways(&mut self, now_us: u64) {
        let is_in_trouble = |gateway: &usize| {
            let endpoint = endpoint_of_gateway(*gateway);
            !self.gateways[*gateway].is_up
                || self.network.is_stalled(endpoint)
                || self.is_cut_from_coordinator(*gateway)
        };
        let gateways: BTreeSet<usize> = (0..self.gateways.len()).filter(is_in_trouble).collect();
        for &gateway in &gateways {
            self.troubles.last_us.insert(Who::Gateway(gateway), now_us);
        }
        self.troubles.gateways = gateways;
    }

    /// Coordinators are in trouble until then.
    fn note_coordinators(&mut self, until_us: u64) {
        self.troubles.coordinators_us = self.troubles.coordinators_us.max(Some(until_us));
    }

    /// A coordinator waits for its store for longer than usual, and whoever waits for the coordinator does, too.
    pub(super) fn note_slow_store(&mut self, way_us: u64) {
        self.note_coordinators(self.schedule.now_us() + way_us);
    }

    /// A trouble that is over at once.
    pub(super) fn note_trouble_of(&mut self, node: usize) {
        self.troubles.last_us.insert(Who::Node(node), self.schedule.now_us());
    }
}
