//! Coding sets: disjoint extended groups of nodes from which the members of a stripe are taken (Hydra 5).
//!
//! ```text
//! nodes in order of id       0 1 2 3 4 5 6 7 8 9 10 11 12 13
//! sets of k+m+l = 6          |----0----|----1-----|           the two that are left join the sets there are
//!                            |12       |13        |
//! ```
//! A node gets its set from the nodes with lower ids alone, as far as labels allow: a node that joins moves no other
//! one, except when those that were left over become enough for a set. With failure domains, each set takes so few
//! nodes of a domain that a stripe can do with as many as may be lost of each.
//!
//! Invariants: each node is in one set; a set has at least `size` nodes, or is the only one.
//!
//! Must not know: loads, or who is there at the moment.

use std::collections::BTreeMap;

use shorttail_units::NodeId;

use crate::{Domain, Name};

/// Which node belongs to which set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodingSets<N = NodeId> {
    set_of: BTreeMap<N, usize>,
    count: usize,
}

impl<N> Default for CodingSets<N> {
    fn default() -> Self {
        CodingSets { set_of: BTreeMap::new(), count: 0 }
    }
}

impl<N: Name> CodingSets<N> {
    /// Sets of `size` nodes or a few more; `domain_max`: of each domain, at most so many, if possible.
    ///
    /// # Panics
    /// If `size` is 0.
    pub fn new(nodes: &BTreeMap<N, Option<Domain>>, size: usize, domain_max: usize) -> Self {
        assert!(size > 0, "a set has nodes");
        let domains: std::collections::BTreeSet<Domain> = nodes.values().flatten().copied().collect();
        let domain_max = domain_max.max(size.div_ceil(domains.len().max(1)));
        let mut sets: Vec<Vec<N>> = Vec::new();
        // Of each set, how many of each domain.
        let mut held: Vec<BTreeMap<Domain, usize>> = Vec::new();
        // The first set that is not full: before it there is no need to look.
        let mut first_open = 0;
        for (&node, &domain) in nodes {
            let fits = |set: usize| {
                let of_domain = domain.map_or(0, |domain| held[set].get(&domain).copied().unwrap_or(0));
                sets[set].len() < size && of_domain < domain_max
            };
            let set = (first_open..sets.len()).find(|&set| fits(set)).unwrap_or(sets.len());
            if set == sets.len() {
                sets.push(Vec::new());
                held.push(BTreeMap::new());
            }
            sets[set].push(node);
            if let Some(domain) = domain {
                *held[set].entry(domain).or_default() += 1;
            }
            while sets.get(first_open).is_some_and(|set| set.len() == size) {
                first_open += 1;
            }
        }
        let (mut full, open): (Vec<_>, Vec<_>) = sets.into_iter().partition(|set| set.len() == size);
        let mut left: Vec<N> = open.into_iter().flatten().collect();
        left.sort_unstable();
        // Labels left too many over: sets without regard to them.
        let rest = left.split_off(left.len() / size * size);
        full.extend(left.chunks(size).map(<[N]>::to_vec));
        if full.is_empty() && !rest.is_empty() {
            full.push(Vec::new());
        }
        let count = full.len();
        for (place, node) in rest.into_iter().enumerate() {
            full[place % count].push(node);
        }
        let set_of = full.iter().enumerate().flat_map(|(set, nodes)| nodes.iter().map(move |&node| (node, set)));
        CodingSets { set_of: set_of.collect(), count }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn set_of(&self, node: N) -> Option<usize> {
        self.set_of.get(&node).copied()
    }

    /// The nodes of each set, in order of id.
    pub fn members(&self) -> Vec<Vec<N>> {
        let mut sets = vec![Vec::new(); self.count];
        self.set_of.iter().for_each(|(&node, &set)| sets[set].push(node));
        sets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes from 0, the domain of each by its letter; a dot: none.
    fn nodes(domains: &str) -> BTreeMap<NodeId, Option<Domain>> {
        let domain = |letter: u8| (letter != b'.').then_some(Domain(u16::from(letter)));
        (0..).map(NodeId).zip(domains.bytes().map(domain)).collect()
    }

    fn members(sets: &CodingSets) -> Vec<Vec<u16>> {
        sets.members().iter().map(|set| set.iter().map(|node| node.0).collect()).collect()
    }

    #[test]
    fn sets_are_disjoint_and_who_is_left_over_joins_them() {
        let sets = CodingSets::new(&nodes(&".".repeat(11)), 4, 2);
        assert_eq!(members(&sets), [vec![0, 1, 2, 3, 8, 10], vec![4, 5, 6, 7, 9]]);
        assert_eq!(members(&CodingSets::new(&nodes("..."), 4, 2)), [[0, 1, 2]]);
        assert_eq!(CodingSets::new(&nodes(""), 4, 2).count(), 0);
    }

    #[test]
    fn a_node_that_joins_moves_nobody_of_a_full_set() {
        for count in 4..40 {
            let (before, after) = (nodes(&".".repeat(count)), nodes(&".".repeat(count + 1)));
            let (before, after) = (CodingSets::new(&before, 6, 2), CodingSets::new(&after, 6, 2));
            let first_full = count / 6 * 6;
            for node in (0..first_full as u16).map(NodeId) {
                assert_eq!(before.set_of(node), after.set_of(node), "node {} of {count}", node.0);
            }
        }
    }

    #[test]
    fn each_set_has_few_nodes_of_a_domain() {
        // Rack by rack, as nodes are installed.
        let sets = CodingSets::new(&nodes("aaaaaabbbbbbccccccddddddeeeeeeffffff"), 12, 2);
        assert_eq!(sets.count(), 3);
        for set in sets.members() {
            for rack in 0..6 {
                assert_eq!(set.iter().filter(|node| node.0 / 6 == rack).count(), 2, "{set:?}");
            }
        }
    }

    #[test]
    fn domains_of_unlike_sizes_leave_nobody_out() {
        for text in ["aaaaaaaaaaaaaaaaaaab", "aabbaabbaabbaab", "a.a.a.a.bbbb", "aaaaaaaaaaaa"] {
            let all = nodes(text);
            let sets = CodingSets::new(&all, 4, 1);
            let mut found: Vec<NodeId> = sets.members().concat();
            found.sort();
            assert_eq!(found, all.keys().copied().collect::<Vec<_>>(), "{text}");
            assert!(sets.members().iter().all(|set| set.len() >= 4), "{text}: {:?}", members(&sets));
        }
    }
}
