//! What gateways counted that are forgotten: no counter of the cluster falls while its coordinator leads.
//!
//! A gateway is told from others by its life, as its number may be another one's later: should it come back, it goes on
//! counting where it was, and is not counted twice.
//!
//! Must not know: why a gateway was forgotten.

use std::collections::{BTreeMap, VecDeque};

use shorttail_wire::control::{NodeSeen, StoreTotals};

use crate::limits::GONE_GATEWAYS_MAX;
use crate::members::GatewayMember;

/// What gateways counted of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct NodeCounted {
    pub flagged_us: u64,
    pub redirect_count: u64,
}

impl NodeCounted {
    fn of(seen: &NodeSeen) -> Self {
        NodeCounted { flagged_us: seen.flagged_us, redirect_count: seen.redirect_count }
    }

    /// What two gateways counted; they see the same node slow at the same time.
    pub fn plus(self, other: Self) -> Self {
        NodeCounted {
            flagged_us: self.flagged_us.max(other.flagged_us),
            redirect_count: self.redirect_count.saturating_add(other.redirect_count),
        }
    }
}

/// What a gateway counted, or several did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub totals: StoreTotals,
    pub nodes: BTreeMap<u16, NodeCounted>,
}

impl Counted {
    fn of(gateway: &GatewayMember) -> Self {
        let mut nodes = gateway.counted_before.clone();
        nodes.extend(gateway.status.nodes.iter().map(|seen| (seen.id, NodeCounted::of(seen))));
        Counted { totals: gateway.status.totals.counters(), nodes }
    }

    fn add(&mut self, other: Self) {
        self.totals = self.totals.plus(other.totals);
        for (id, counted) in other.nodes {
            let sum = self.nodes.entry(id).or_default();
            *sum = sum.plus(counted);
        }
    }
}

impl GatewayMember {
    /// What it counted of a node so far.
    pub(crate) fn counted_of(&self, node: u16) -> Option<NodeCounted> {
        let told = self.status.nodes.iter().find(|seen| seen.id == node);
        told.map(NodeCounted::of).or_else(|| self.counted_before.get(&node).copied())
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Gone {
    /// Of those that nobody waits for any more.
    sum: Counted,
    /// By life, of the last that were forgotten.
    last: VecDeque<(u64, Counted)>,
}

impl Gone {
    pub fn keep(&mut self, gateway: &GatewayMember) {
        self.last.push_back((gateway.registration.life, Counted::of(gateway)));
        if self.last.len() > GONE_GATEWAYS_MAX
            && let Some((_, oldest)) = self.last.pop_front()
        {
            self.sum.add(oldest);
        }
    }

    /// What this life counted, which is back.
    pub fn take(&mut self, life: u64) -> Option<Counted> {
        let place = self.last.iter().position(|(other, _)| *other == life)?;
        self.last.remove(place).map(|(_, counted)| counted)
    }

    pub fn counted(&self) -> StoreTotals {
        self.last.iter().fold(self.sum.totals, |sum, (_, counted)| sum.plus(counted.totals))
    }

    pub fn counted_of(&self, node: u16) -> NodeCounted {
        let all = self.last.iter().map(|(_, counted)| counted).chain([&self.sum]);
        let of_node = all.filter_map(|counted| counted.nodes.get(&node).copied());
        of_node.fold(NodeCounted::default(), NodeCounted::plus)
    }
}
