//! Coding sets: disjoint extended groups of nodes from which the members of a stripe are taken (Hydra 5).
//!
//! ```text
//! nodes in order of id             0 1 2 3 4 5 6 7 8 9 10 11 12 13
//! sets of k+m+l = 6                |----0----|----1-----|        12 and 13 are left
//! enough sets: some give one node  |  0:  five  |  1:  five  | ... | the last: those left, and who was given: five
//! too few: who is left joins them  |0:  six + 12|1:  six + 13|
//! ```
//! The larger a set, the more combinations of nodes may lose data; so no set has more than `k+m+l` nodes where there
//! are enough to fill one more with `k+m+l-1`, a spare one among them.
//!
//! A node gets its set from the nodes with lower ids alone, as far as labels allow: a node that joins moves one other at
//! most, except when those that were left over become enough for a set. With failure domains, each set takes so few
//! nodes of a domain that a stripe can do with as many as may be lost of each.
//!
//! Invariants: each node is in one set; a set has `k+m+l` nodes, one fewer or, where there are few nodes, some more.
//!
//! Must not know: loads, or who is there at the moment.

use std::collections::BTreeMap;

use shorttail_units::{CodeShape, NodeId};

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
    /// Sets for stripes of this shape that have `spare_count` (`l`) more nodes, and of each domain at most as many as
    /// a stripe can lose, if possible.
    pub fn new(nodes: &BTreeMap<N, Option<Domain>>, shape: CodeShape, spare_count: u8) -> Self {
        let size = shape.chunk_count() + usize::from(spare_count);
        let domains: std::collections::BTreeSet<Domain> = nodes.values().flatten().copied().collect();
        let domain_max = shape.tolerance().max(size.div_ceil(domains.len().max(1)));
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
        // Each keeps a spare node.
        if spare_count > 1 && !rest.is_empty() && rest.len() + full.len() >= size - 1 {
            let last = one_of_each(&mut full, rest, size - 1, |node| nodes[node], domain_max);
            full.push(last);
        } else {
            if full.is_empty() && !rest.is_empty() {
                full.push(Vec::new());
            }
            let count = full.len();
            for (place, node) in rest.into_iter().enumerate() {
                full[place % count].push(node);
            }
        }
        let count = full.len();
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

/// A set of `size` nodes: those that are left, and one of each of the last sets; of a domain that the set has not
/// enough of, if there is one in it.
fn one_of_each<N: Name>(
    sets: &mut [Vec<N>],
    left: Vec<N>,
    size: usize,
    domain_of: impl Fn(&N) -> Option<Domain>,
    domain_max: usize,
) -> Vec<N> {
    let mut last = left;
    let giving = size.saturating_sub(last.len());
    for set in sets.iter_mut().rev().take(giving) {
        let fits = |node: &N| {
            let domain = domain_of(node);
            domain.is_none() || last.iter().filter(|other| domain_of(other) == domain).count() < domain_max
        };
        let place = set.iter().rposition(fits).unwrap_or(set.len() - 1);
        last.push(set.remove(place));
    }
    last
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

    fn shape(data_count: usize, parity_count: usize) -> CodeShape {
        CodeShape::reed_solomon(data_count, parity_count).expect("small counts")
    }

    #[test]
    fn sets_are_disjoint_and_who_is_left_over_joins_them() {
        let sets = CodingSets::new(&nodes(&".".repeat(11)), shape(2, 2), 0);
        assert_eq!(members(&sets), [vec![0, 1, 2, 3, 8, 10], vec![4, 5, 6, 7, 9]]);
        assert_eq!(members(&CodingSets::new(&nodes("..."), shape(2, 2), 0)), [[0, 1, 2]]);
        assert_eq!(CodingSets::new(&nodes(""), shape(2, 2), 0).count(), 0);
    }

    #[test]
    fn who_is_left_over_gets_a_set_if_others_can_do_with_one_node_less() {
        let sets = CodingSets::new(&nodes(&".".repeat(17)), shape(1, 1), 2);
        let expected = [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9, 10], vec![12, 13, 14], vec![11, 15, 16]];
        assert_eq!(members(&sets), expected);
        // Without a second spare node nobody can be done without; and of few nodes no further set can be made.
        for (data_count, spare_count) in [(2, 0), (1, 1)] {
            assert_eq!(CodingSets::new(&nodes(&".".repeat(17)), shape(data_count, 2), spare_count).count(), 4);
        }
        assert_eq!(CodingSets::new(&nodes(&".".repeat(5)), shape(1, 1), 2).count(), 1);
        for count in 1..200 {
            let sets = CodingSets::new(&nodes(&".".repeat(count)), shape(4, 2), 2);
            let sizes: Vec<usize> = members(&sets).iter().map(Vec::len).collect();
            let is_enough = count >= count.div_ceil(8) * 7;
            assert!(!is_enough || sizes.iter().all(|size| (7..=8).contains(size)), "{count}: {sizes:?}");
            assert!(is_enough || sizes.len() == (count / 8).max(1), "{count}: {sizes:?}");
            assert_eq!(sizes.iter().sum::<usize>(), count);
        }
    }

    #[test]
    fn a_node_that_joins_moves_one_other_at_most() {
        for count in (56..64).chain(120..135) {
            let of = |count| CodingSets::new(&nodes(&".".repeat(count)), shape(4, 2), 2);
            let (before, after) = (of(count), of(count + 1));
            let mates = |sets: &CodingSets, node: u16| -> Vec<u16> {
                let set = sets.set_of(NodeId(node));
                (0..count as u16).filter(|&other| sets.set_of(NodeId(other)) == set).collect()
            };
            let moved = |node: &u16| {
                let (before, after) = (mates(&before, *node), mates(&after, *node));
                before.iter().filter(|other| !after.contains(other)).count() > 1
            };
            let makes_a_set = count % 8 == 0;
            assert!(makes_a_set || (0..count as u16).filter(moved).count() <= 1, "from {count}");
        }
    }

    #[test]
    fn a_node_that_joins_moves_nobody_of_a_full_set() {
        for count in 4..40 {
            let (before, after) = (nodes(&".".repeat(count)), nodes(&".".repeat(count + 1)));
            let (before, after) = (CodingSets::new(&before, shape(4, 2), 0), CodingSets::new(&after, shape(4, 2), 0));
            let first_full = count / 6 * 6;
            for node in (0..first_full as u16).map(NodeId) {
                assert_eq!(before.set_of(node), after.set_of(node), "node {} of {count}", node.0);
            }
        }
    }

    #[test]
    fn each_set_has_few_nodes_of_a_domain() {
        // Rack by rack, as nodes are installed.
        let sets = CodingSets::new(&nodes("aaaaaabbbbbbccccccddddddeeeeeeffffff"), shape(8, 2), 2);
        assert_eq!(sets.count(), 3);
        for set in sets.members() {
            for rack in 0..6 {
                assert_eq!(set.iter().filter(|node| node.0 / 6 == rack).count(), 2, "{set:?}");
            }
        }
    }

    #[test]
    fn a_set_of_who_is_left_over_has_few_nodes_of_a_domain() {
        // Seven racks of six: five sets of eight, and two nodes.
        let sets = CodingSets::new(&nodes(&"abcdefg".repeat(6)), shape(4, 2), 2);
        assert_eq!(sets.members().iter().map(Vec::len).max(), Some(7));
        for set in sets.members() {
            let most = (0..7).map(|rack| set.iter().filter(|node| node.0 % 7 == rack).count()).max();
            assert!(most <= Some(2), "{:?}", members(&sets));
        }
    }

    #[test]
    fn domains_of_unlike_sizes_leave_nobody_out() {
        for text in ["aaaaaaaaaaaaaaaaaaab", "aabbaabbaabbaab", "a.a.a.a.bbbb", "aaaaaaaaaaaa"] {
            for spare_count in 0..2 {
                let all = nodes(text);
                let sets = CodingSets::new(&all, shape(3, 1), spare_count);
                let mut found: Vec<NodeId> = sets.members().concat();
                found.sort();
                assert_eq!(found, all.keys().copied().collect::<Vec<_>>(), "{text}");
                assert!(sets.members().iter().all(|set| set.len() >= 4), "{text}: {:?}", members(&sets));
            }
        }
    }
}
