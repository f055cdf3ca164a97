//! Orders to rebuild chunks that are under way: at most one for a stripe; how many each node has is counted.
//!
//! Must not know: how an order is carried out.

use std::collections::BTreeMap;

use shorttail_units::{NodeId, StripeId};

use super::rebuilding::Order;

#[derive(Debug, Default)]
pub struct Orders {
    by_stripe: BTreeMap<StripeId, Order>,
    /// Only nodes that have some.
    count_of: BTreeMap<NodeId, usize>,
}

impl Orders {
    /// In the place of any other one for the stripe.
    pub fn insert(&mut self, stripe: StripeId, order: Order) {
        self.remove(stripe);
        *self.count_of.entry(order.target()).or_default() += 1;
        self.by_stripe.insert(stripe, order);
    }

    pub fn remove(&mut self, stripe: StripeId) -> Option<Order> {
        let order = self.by_stripe.remove(&stripe)?;
        if let Some(count) = self.count_of.get_mut(&order.target()) {
            *count -= 1;
            if *count == 0 {
                self.count_of.remove(&order.target());
            }
        }
        Some(order)
    }

    pub fn get(&self, stripe: StripeId) -> Option<&Order> {
        self.by_stripe.get(&stripe)
    }

    pub fn get_mut(&mut self, stripe: StripeId) -> Option<&mut Order> {
        self.by_stripe.get_mut(&stripe)
    }

    pub fn contains(&self, stripe: StripeId) -> bool {
        self.by_stripe.contains_key(&stripe)
    }

    pub fn count(&self) -> usize {
        self.by_stripe.len()
    }

    pub fn count_of(&self, node: NodeId) -> usize {
        self.count_of.get(&node).copied().unwrap_or(0)
    }

    /// Stripes for which this node is to rebuild a chunk.
    pub fn stripes_of(&self, node: NodeId) -> Vec<StripeId> {
        self.by_stripe.iter().filter(|(_, order)| order.target() == node).map(|(&stripe, _)| stripe).collect()
    }

    /// Targets that are no members yet: those are being told of them.
    pub fn targets_told_of(&self) -> impl Iterator<Item = NodeId> {
        self.by_stripe.values().filter(|order| order.is_telling()).map(Order::target)
    }

    /// Orders whose targets were asked last before this time.
    pub fn asked_before(&self, before_us: u64) -> Vec<(StripeId, NodeId)> {
        let late =
            self.by_stripe.iter().filter(|(_, order)| order.asked_us().is_some_and(|asked_us| asked_us < before_us));
        late.map(|(&stripe, order)| (stripe, order.target())).collect()
    }

    pub fn stripes(&self) -> impl Iterator<Item = StripeId> {
        self.by_stripe.keys().copied()
    }

    pub fn check_invariants(&self) {
        for (&node, &count) in &self.count_of {
            assert_eq!(count, self.stripes_of(node).len(), "orders of node {} are counted", node.0);
        }
        assert_eq!(self.count_of.values().sum::<usize>(), self.by_stripe.len(), "orders are counted");
    }
}
