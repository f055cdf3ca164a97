//! Nodes that join, are drained, and are taken out, while everything goes on.
//!
//! Owners learn of it at once, as they do of lost memory: the stand-in for the coordinator knows no delays here. In a
//! coordinated run the coordinators are asked instead ([`super::coordinators`]).

use std::collections::BTreeSet;

use shorttail_gateway::engine::Engine;
use shorttail_gateway::request::StoreStats;
use shorttail_units::{NodeId, StripeId};

use super::{GatewayHost, World, endpoint_of};

/// Who is a member, beyond being up.
#[derive(Debug, Default)]
pub(super) struct Membership {
    /// Not joined yet.
    pub absent: BTreeSet<usize>,
    pub draining: BTreeSet<usize>,
    /// Taken out for good.
    pub removed: BTreeSet<usize>,
}

impl World {
    /// Is the node part of the cluster?
    pub(super) fn is_member(&self, node: usize) -> bool {
        !self.membership.absent.contains(&node) && !self.membership.removed.contains(&node)
    }

    pub(super) fn members(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&node| self.is_member(node)).collect()
    }

    /// How many nodes the cluster began with.
    pub(super) fn node_count_at_first(&self) -> u16 {
        self.config.node_count - self.config.late_node_count
    }

    /// As many as the cluster began with, without those taken out, and at least what a stripe needs.
    pub(super) fn node_count_expected(&self) -> u16 {
        let needed = (self.config.code.chunk_count() as u16).min(self.node_count_at_first());
        self.node_count_at_first().saturating_sub(self.membership.removed.len() as u16).max(needed)
    }

    /// The label of its failure domain; empty: it fails alone.
    pub(super) fn domain_of(&self, node: usize) -> String {
        let domain = self.nodes[node].id.0.checked_rem(self.config.domain_count);
        domain.map_or_else(String::new, |domain| domain.to_string())
    }

    fn demand_turns(&mut self) {
        (0..self.gateways.len()).for_each(|gateway| self.demand_turn(gateway));
    }

    /// A node that was not there comes: a member from now on.
    pub fn join_node(&mut self, node: usize) {
        if !self.membership.absent.remove(&node) {
            return;
        }
        self.counts.joins += 1;
        self.note(format_args!("node {node} joins"));
        let (id, domain) = (self.nodes[node].id, self.domain_of(node));
        self.start_node(node);
        if self.config.coordinated {
            // Owners hear of it from the coordinator.
            return;
        }
        for engine in self.gateways.iter_mut().flat_map(GatewayHost::engines_mut) {
            engine.handle_nodes(&[id]);
            engine.handle_domain(id, &domain);
        }
        self.demand_turns();
    }

    /// The node is to be emptied, or not any more.
    pub fn drain_node(&mut self, node: usize, drains: bool) {
        let is_change = match drains {
            true => self.membership.draining.insert(node),
            false => self.membership.draining.remove(&node),
        };
        if is_change {
            self.counts.drains += u64::from(drains);
            self.note(format_args!("node {node} drains: {drains}"));
            self.tell_draining();
        }
    }

    fn tell_draining(&mut self) {
        let draining = self.draining_ids();
        for engine in self.gateways.iter_mut().flat_map(GatewayHost::engines_mut) {
            engine.handle_draining(&draining);
        }
        self.demand_turns();
    }

    pub(super) fn draining_ids(&self) -> BTreeSet<NodeId> {
        self.membership.draining.iter().map(|&node| self.nodes[node].id).collect()
    }

    /// Does the node hold nothing, and does every owner know that it is to get nothing?
    pub fn is_drained(&self, node: usize) -> bool {
        let id = self.nodes[node].id;
        let knows = |engine: &Engine| engine.chunks_left(id) == Some(0);
        let is_served = self.is_settled() && self.gateways.iter().flat_map(GatewayHost::engines).all(knows);
        self.membership.draining.contains(&node) && self.nodes[node].chunk_count() == 0 && is_served
    }

    /// Would a coordinator take the node out? Not before it is drained, and never more at once than may be missing when
    /// others are to own what is owned now.
    pub fn may_leave(&self, node: usize) -> bool {
        self.is_drained(node) && self.is_followable_without(node)
    }

    /// Does every owner say that all that a node held is elsewhere?
    pub fn is_rebuilt(&self, node: usize) -> bool {
        let id = self.nodes[node].id;
        let says_so = |engine: &Engine| engine.chunks_left(id) == Some(0);
        self.is_settled() && self.gateways.iter().flat_map(GatewayHost::engines).all(says_so)
    }

    /// The node is taken out for good, whatever it holds.
    pub fn remove_node(&mut self, node: usize) {
        if !self.is_member(node) {
            return;
        }
        self.counts.removals += 1;
        self.note(format_args!("node {node} is removed"));
        if self.nodes[node].is_up() {
            self.network.resume(endpoint_of(node));
            self.stop_node(node);
        }
        self.membership.removed.insert(node);
        self.membership.draining.remove(&node);
        let (id, incarnation) = (self.nodes[node].id, self.nodes[node].incarnation);
        let expected = self.node_count_expected();
        for engine in self.gateways.iter_mut().flat_map(GatewayHost::engines_mut) {
            engine.handle_node_count(expected);
            engine.handle_removed(id, incarnation);
        }
        self.tell_draining();
        self.renew_voters();
    }

    /// Bytes in use on each member.
    pub fn loads(&self) -> Vec<u64> {
        self.members().into_iter().map(|node| self.nodes[node].used_bytes()).collect()
    }

    /// What every engine counts.
    pub fn all_stats(&self) -> Vec<StoreStats> {
        self.gateways.iter().flat_map(GatewayHost::engines).map(Engine::stats).collect()
    }

    /// Stripes of which a node holds a chunk.
    pub fn stripes_held(&mut self) -> BTreeSet<StripeId> {
        self.scan_all().into_keys().collect()
    }

    /// The nodes that hold chunks of each stripe.
    pub fn stripe_nodes(&mut self) -> Vec<Vec<usize>> {
        self.scan_all().into_values().map(|found| found.into_iter().map(|chunk| chunk.node).collect()).collect()
    }

    /// One of those that may: a node joins, is drained, is drained no more, or is taken out once it may leave.
    pub(super) fn change_membership(&mut self) {
        let leaves = self.membership.draining.iter().copied().find(|&node| self.may_leave(node));
        if let Some(node) = leaves {
            return self.remove_node(node);
        }
        let absent: Vec<usize> = self.membership.absent.iter().copied().collect();
        if let Some(&node) = self.rng.choose(&absent).filter(|_| absent.len() > 1)
            && self.rng.chance_ppm(600_000)
        {
            return self.join_node(node);
        }
        if let Some(node) = self.membership.draining.first().copied() {
            if self.rng.chance_ppm(150_000) {
                self.drain_node(node, false);
            }
            return;
        }
        let members = self.members();
        // As many as a stripe needs stay, even while as many as may fail are away.
        if members.len() > self.config.code.chunk_count() + self.config.code.tolerance() + 1 {
            let node = members[self.rng.index(members.len())];
            self.drain_node(node, true);
        } else if let Some(&node) = absent.first() {
            self.join_node(node);
        }
    }
}
