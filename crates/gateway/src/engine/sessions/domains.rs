//! What places know of the nodes: which fail together, and which form a coding set.
//!
//! Must not know: who is there at the moment, loads.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use shorttail_placement::{CodingSets, Domain, Placement};
use shorttail_units::{CodeShape, NodeId};

#[derive(Debug)]
pub(in crate::engine) struct Domains {
    placement: Placement,
    shape: CodeShape,
    /// Labels of failure domains, and how many nodes have each; the place of one is its number. One that no node has
    /// leaves its place to the next.
    labels: Vec<(String, usize)>,
    by_node: BTreeMap<NodeId, Option<Domain>>,
    /// Drawn when it is first asked for them after something changed: a view may tell of thousands of nodes, one by
    /// one.
    sets: OnceCell<CodingSets>,
}

impl Domains {
    pub fn new(placement: Placement, shape: CodeShape) -> Self {
        let (labels, by_node) = (Vec::new(), BTreeMap::new());
        Domains { placement, shape, labels, by_node, sets: OnceCell::new() }
    }

    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// A node of the cluster; an empty label: it fails alone.
    pub fn add(&mut self, node: NodeId, label: Option<&str>) {
        let domain = match label {
            Some(label) => self.domain(label),
            None => self.domain_of(node),
        };
        let before = self.by_node.insert(node, domain);
        if before == Some(domain) {
            return;
        }
        self.sets.take();
        if let Some(Domain(place)) = domain {
            self.labels[usize::from(place)].1 += 1;
        }
        self.leave(before.flatten());
    }

    /// A node that is no part of the cluster any more.
    pub fn remove(&mut self, node: NodeId) {
        if let Some(domain) = self.by_node.remove(&node) {
            self.sets.take();
            self.leave(domain);
        }
    }

    fn leave(&mut self, domain: Option<Domain>) {
        if let Some(Domain(place)) = domain {
            self.labels[usize::from(place)].1 -= 1;
        }
    }

    fn draw_sets(&self) -> CodingSets {
        match self.placement {
            Placement::CodingSets { spare_count } => CodingSets::new(&self.by_node, self.shape, spare_count),
            _ => CodingSets::default(),
        }
    }

    pub fn domain_of(&self, node: NodeId) -> Option<Domain> {
        self.by_node.get(&node).copied().flatten()
    }

    pub fn set_of(&self, node: NodeId) -> Option<usize> {
        self.sets.get_or_init(|| self.draw_sets()).set_of(node)
    }

    fn domain(&mut self, label: &str) -> Option<Domain> {
        if label.is_empty() {
            return None;
        }
        let place_where = |holds: &dyn Fn(&(String, usize)) -> bool| self.labels.iter().position(holds);
        let known = place_where(&|(known, node_count)| *node_count > 0 && known == label);
        let place = known.or_else(|| place_where(&|&(_, node_count)| node_count == 0)).unwrap_or(self.labels.len());
        if known.is_none() {
            self.labels.resize(self.labels.len().max(place + 1), (String::new(), 0));
            self.labels[place].0 = label.to_owned();
        }
        Some(Domain(u16::try_from(place).expect("there are fewer domains than nodes")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_one_label_are_one_domain_and_labels_may_change() {
        let mut domains = Domains::new(Placement::LeastLoaded, CodeShape::default());
        for (node, label) in [(0, "red"), (1, "blue"), (2, "red"), (3, "")] {
            domains.add(NodeId(node), Some(label));
        }
        let domain_of = |domains: &Domains, node| domains.domain_of(NodeId(node));
        assert_eq!(domain_of(&domains, 0), domain_of(&domains, 2));
        assert_ne!(domain_of(&domains, 0), domain_of(&domains, 1));
        assert_eq!((domain_of(&domains, 3), domain_of(&domains, 9)), (None, None));
        domains.add(NodeId(0), None);
        assert_eq!(domain_of(&domains, 0), domain_of(&domains, 2), "nothing was said of it");
        domains.add(NodeId(0), Some("blue"));
        assert_eq!(domain_of(&domains, 0), domain_of(&domains, 1));
        assert_eq!(domains.set_of(NodeId(0)), None, "there are no sets");
    }

    #[test]
    fn labels_that_no_node_has_take_no_place() {
        let mut domains = Domains::new(Placement::LeastLoaded, CodeShape::default());
        domains.add(NodeId(1), Some("blue"));
        let blue = domains.domain_of(NodeId(1));
        for round in 0..70_000 {
            domains.add(NodeId(0), Some(&format!("rack {round}")));
            assert!(domains.domain_of(NodeId(0)).is_some_and(|domain| Some(domain) != blue));
        }
        assert!(domains.labels.len() <= 3, "{} places", domains.labels.len());
        domains.add(NodeId(0), Some("blue"));
        domains.remove(NodeId(1));
        assert_eq!(domains.domain_of(NodeId(0)), blue, "a node of it is left");
        domains.add(NodeId(0), Some(""));
        domains.add(NodeId(2), Some("rack 69999"));
        domains.add(NodeId(3), Some("blue"));
        let of = |node| domains.domain_of(NodeId(node));
        assert!(of(0).is_none() && of(2).is_some() && of(3).is_some() && of(2) != of(3));
    }

    #[test]
    fn sets_are_drawn_once_for_a_whole_view() {
        let nodes: Vec<NodeId> = (0..1000).map(NodeId).collect();
        let mut domains = Domains::new(Placement::CodingSets { spare_count: 1 }, CodeShape::default());
        for round in 0..3 {
            nodes.iter().for_each(|&node| domains.add(node, None));
            nodes.iter().for_each(|&node| domains.add(node, Some(&format!("rack {}", (node.0 + round) / 20))));
            assert!(domains.sets.get().is_none(), "nobody asked for them");
            assert!(nodes.iter().all(|&node| domains.set_of(node).is_some()));
            nodes.iter().for_each(|&node| domains.add(node, None));
            assert!(domains.sets.get().is_some(), "nothing changed since");
        }
        domains.remove(NodeId(7));
        assert_eq!(domains.set_of(NodeId(7)), None);
    }

    #[test]
    fn sets_grow_with_the_cluster() {
        let mut domains = Domains::new(Placement::CodingSets { spare_count: 1 }, CodeShape::default());
        (0..13).map(NodeId).for_each(|node| domains.add(node, None));
        assert!((0..13).map(NodeId).all(|node| domains.set_of(node) == Some(0)));
        domains.add(NodeId(13), None);
        assert_eq!((domains.set_of(NodeId(6)), domains.set_of(NodeId(13))), (Some(0), Some(1)));
    }
}
