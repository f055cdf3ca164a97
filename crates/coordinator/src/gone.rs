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

    /// Of what one gateway counted until two moments, whichever is later: nothing becomes less.
    fn most(self, other: Self) -> Self {
        NodeCounted {
            flagged_us: self.flagged_us.max(other.flagged_us),
            redirect_count: self.redirect_count.max(other.redirect_count),
        }
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
        Counted { totals: gateway.status.totals.counters(), nodes: gateway.counted().collect() }
    }

    fn add(&mut self, other: Self) {
        self.totals = self.totals.plus(other.totals);
        add(&mut self.nodes, other.nodes);
    }
}

/// By node.
pub(crate) fn add(sums: &mut BTreeMap<u16, NodeCounted>, counted: impl IntoIterator<Item = (u16, NodeCounted)>) {
    for (id, counted) in counted {
        let sum = sums.entry(id).or_default();
        *sum = sum.plus(counted);
    }
}

impl GatewayMember {
    /// What it counted of nodes so far, each of them once.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (u16, NodeCounted)> {
        let mut counted = self.counted_before.clone();
        for seen in &self.status.nodes {
            let most = counted.entry(seen.id).or_default();
            *most = most.most(NodeCounted::of(seen));
        }
        counted.into_iter()
    }

    /// Its next report tells this of nodes. Cores that own nothing tell of none: what they counted stays.
    pub(crate) fn keep_counted(&mut self, next: &[NodeSeen]) {
        let next_of = |id: u16| next.binary_search_by_key(&id, |seen| seen.id).ok().map(|place| &next[place]);
        for seen in &self.status.nodes {
            let (counted, next) = (NodeCounted::of(seen), next_of(seen.id).map(NodeCounted::of));
            if next.is_none_or(|next| next.most(counted) != next) {
                let most = self.counted_before.entry(seen.id).or_default();
                *most = most.most(counted);
            }
        }
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

    /// By node.
    pub fn counted_of_nodes(&self) -> BTreeMap<u16, NodeCounted> {
        let mut sums = self.sum.nodes.clone();
        let last = self.last.iter().flat_map(|(_, counted)| &counted.nodes);
        add(&mut sums, last.map(|(&id, &counted)| (id, counted)));
        sums
    }
}
