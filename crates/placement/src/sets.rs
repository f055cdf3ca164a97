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
//! A node gets its set from the nodes with lower ids alone, as far as labels allow: a node that joins moves one other
//! at most, except when those that were left over become enough for a set. With failure domains, each set takes so few
//! nodes of a domain that a stripe can do with as many as may be lost of each.
//!
//! Invariants: each node is in one set; a set has `k+m+l` nodes, one fewer or, where there are few nodes, some more.
//!
//! Must not know: loads, or who is there at the moment.

use std::collections::{BTreeMap, BTreeSet};

use shorttail_units::{CodeShape, NodeId};

use crate::{Domain, Name, chunks_of_domain_max};

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
        let builder = Builder::new(nodes, shape, spare_count);
        let (full, rest) = builder.fill();
        let joined = builder.join(full.clone(), &rest);
        let sets = match builder.make_one_more(full, rest) {
            Some(more) if builder.most_of_domain(&more) <= builder.most_of_domain(&joined) => more,
            _ => joined,
        };
        let count = sets.len();
        let set_of = sets.iter().enumerate().flat_map(|(set, nodes)| nodes.iter().map(move |&node| (node, set)));
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

/// Makes sets of nodes.
struct Builder<'a, N> {
    nodes: &'a BTreeMap<N, Option<Domain>>,
    shape: CodeShape,
    spare_count: usize,
    /// Nodes of a full set: `k+m+l`.
    size: usize,
    /// As many nodes of one domain are in a full set, unless labels leave too many over.
    domain_max: usize,
}

impl<'a, N: Name> Builder<'a, N> {
    fn new(nodes: &'a BTreeMap<N, Option<Domain>>, shape: CodeShape, spare_count: u8) -> Self {
        let spare_count = usize::from(spare_count);
        let size = shape.chunk_count() + spare_count;
        let domains: BTreeSet<Domain> = nodes.values().flatten().copied().collect();
        let domain_max = shape.tolerance().max(size.div_ceil(domains.len().max(1)));
        Builder { nodes, shape, spare_count, size, domain_max }
    }

    /// Full sets, and who is left over.
    fn fill(&self) -> (Vec<Vec<N>>, Vec<N>) {
        let mut sets: Vec<Vec<N>> = Vec::new();
        // The first set that is not full: before it there is no need to look.
        let mut first_open = 0;
        for &node in self.nodes.keys() {
            let fits = |set: &usize| sets[*set].len() < self.size && self.has_room_for(&sets[*set], node);
            let set = (first_open..sets.len()).find(fits).unwrap_or(sets.len());
            if set == sets.len() {
                sets.push(Vec::new());
            }
            sets[set].push(node);
            while sets.get(first_open).is_some_and(|set| set.len() == self.size) {
                first_open += 1;
            }
        }
        let (mut full, open): (Vec<_>, Vec<_>) = sets.into_iter().partition(|set| set.len() == self.size);
        let mut left: Vec<N> = open.into_iter().flatten().collect();
        left.sort_unstable();
        // Labels left too many over: sets without regard to them.
        let rest = left.split_off(left.len() / self.size * self.size);
        full.extend(left.chunks(self.size).map(<[N]>::to_vec));
        (full, rest)
    }

    /// Who is left over joins the sets, in turn.
    fn join(&self, mut sets: Vec<Vec<N>>, rest: &[N]) -> Vec<Vec<N>> {
        if sets.is_empty() && !rest.is_empty() {
            sets.push(Vec::new());
        }
        let count = sets.len();
        rest.iter().enumerate().for_each(|(place, &node)| sets[place % count].push(node));
        sets
    }

    /// One set more, of who is left over and one node of each of the last sets, if there are enough, and each set keeps
    /// a spare node. A set gives of the domain of which it has most, if the new one takes it.
    fn make_one_more(&self, mut sets: Vec<Vec<N>>, rest: Vec<N>) -> Option<Vec<Vec<N>>> {
        let giving = (self.size - 1).saturating_sub(rest.len());
        if self.spare_count < 2 || rest.is_empty() || giving > sets.len() {
            return None;
        }
        let mut more = rest;
        for set in sets.iter_mut().rev().take(giving) {
            let able = (0..set.len()).filter(|&place| self.has_room_for(&more, set[place]));
            let place = able.max_by_key(|&place| (self.mates_in(set, set[place]), place)).unwrap_or(set.len() - 1);
            more.push(set.remove(place));
        }
        sets.push(more);
        Some(sets)
    }

    /// Nodes of a set in the domain of this one.
    fn mates_in(&self, set: &[N], node: N) -> usize {
        let domain = self.nodes[&node];
        set.iter().filter(|other| domain.is_some() && self.nodes[other] == domain).count()
    }

    fn has_room_for(&self, set: &[N], node: N) -> bool {
        self.mates_in(set, node) < self.domain_max
    }

    /// How many chunks of a stripe the domains must take in that of the sets where they must take most; at least as
    /// many as may be lost.
    fn most_of_domain(&self, sets: &[Vec<N>]) -> usize {
        let needed = |set: &Vec<N>| chunks_of_domain_max(set.iter().map(|node| self.nodes[node]), self.shape);
        sets.iter().map(needed).max().unwrap_or(0)
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
    fn no_set_is_made_that_has_more_of_a_domain_than_joining_would() {
        let racks_of = |text: &str| -> Vec<String> {
            let sets = CodingSets::new(&nodes(text), shape(4, 2), 2);
            let rack = |node: &u16| char::from(text.as_bytes()[usize::from(*node)]);
            members(&sets).iter().map(|set| set.iter().map(rack).collect()).collect()
        };
        assert_eq!(racks_of("aaaaabbbbbcccc"), ["aaabbcc", "aabbbcc"]);
        // Of the rack that all are in none can be done without.
        assert_eq!(racks_of("aaaabbbbbbbbbb").len(), 1);
        let mut more_count = 0;
        for (code, spare_count) in [(shape(4, 2), 2), (shape(8, 2), 2), (shape(6, 3), 4), (shape(10, 4), 2)] {
            for (count, racks) in (6..100).flat_map(|count| (2..9).map(move |racks| (count, racks))) {
                let letter = |rack: usize| char::from(b'a' + rack as u8);
                let blocks: String = (0..count).map(|node| letter(node * racks / count)).collect();
                let in_turn: String = (0..count).map(|node| letter(node % racks)).collect();
                for text in [blocks, in_turn] {
                    let all = nodes(&text);
                    let builder = Builder::new(&all, code, spare_count);
                    let (full, rest) = builder.fill();
                    let joined = builder.most_of_domain(&builder.join(full.clone(), &rest));
                    let sets = CodingSets::new(&all, code, spare_count);
                    assert!(builder.most_of_domain(&sets.members()) <= joined, "{text}: {:?}", members(&sets));
                    more_count += usize::from(sets.count() > full.len().max(1));
                }
            }
        }
        assert!(more_count > 1_000, "{more_count} with a set more");
    }

    #[test]
    fn what_domains_must_take_is_counted() {
        let of = |text: &str| {
            let all = nodes(text);
            Builder::new(&all, shape(4, 2), 2).most_of_domain(&[all.keys().copied().collect()])
        };
        let expected =
            [("aaabbbcc", 2), ("aaabbbc", 3), ("eeeeeed", 5), ("aaaaaaaa", 6), ("aaaa..bb", 2), ("......", 2)];
        expected.iter().for_each(|&(text, most)| assert_eq!(of(text), most, "{text}"));
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
