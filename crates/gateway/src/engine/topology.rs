//! What places know of the nodes: which fail together, and which form a coding set.
//!
//! Must not know: who is there at the moment, loads.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use shorttail_placement::{CodingSets, Domain, Placement};
use shorttail_units::{CodeShape, NodeId};

#[derive(Debug)]
pub(super) struct Topology {
    placement: Placement,
    shape: CodeShape,
    /// Labels of failure domains; the place of one is its number.
    labels: Vec<String>,
    domains: BTreeMap<NodeId, Option<Domain>>,
    /// Drawn when it is first asked for them after something changed: a view may tell of thousands of nodes, one by one.
    sets: OnceCell<CodingSets>,
}

impl Topology {
    pub fn new(placement: Placement, shape: CodeShape) -> Self {
        let (labels, domains) = (Vec::new(), BTreeMap::new());
        Topology { placement, shape, labels, domains, sets: OnceCell::new() }
    }

    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// A node of the cluster; an empty label: it fails alone.
    pub fn add(&mut self, node: NodeId, label: Option<&str>) {
        let domain = label.map(|label| self.domain(label)).unwrap_or_else(|| self.domain_of(node));
        if self.domains.insert(node, domain) != Some(domain) {
            self.sets.take();
        }
    }

    /// A node that is no part of the cluster any more.
    pub fn remove(&mut self, node: NodeId) {
        if self.domains.remove(&node).is_some() {
            self.sets.take();
        }
    }

    fn draw_sets(&self) -> CodingSets {
        match self.placement {
            Placement::CodingSets { spare_count } => CodingSets::new(&self.domains, self.shape, spare_count),
            _ => CodingSets::default(),
        }
    }

    pub fn domain_of(&self, node: NodeId) -> Option<Domain> {
        self.domains.get(&node).copied().flatten()
    }

    pub fn set_of(&self, node: NodeId) -> Option<usize> {
        self.sets.get_or_init(|| self.draw_sets()).set_of(node)
    }

    fn domain(&mut self, label: &str) -> Option<Domain> {
        if label.is_empty() {
            return None;
        }
        let place = self.labels.iter().position(|known| known == label).unwrap_or_else(|| {
            self.labels.push(label.to_owned());
            self.labels.len() - 1
        });
        Some(Domain(u16::try_from(place).expect("there are fewer domains than nodes")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_one_label_are_one_domain_and_labels_may_change() {
        let mut topology = Topology::new(Placement::LeastLoaded, CodeShape::default());
        for (node, label) in [(0, "red"), (1, "blue"), (2, "red"), (3, "")] {
            topology.add(NodeId(node), Some(label));
        }
        let domain_of = |topology: &Topology, node| topology.domain_of(NodeId(node));
        assert_eq!(domain_of(&topology, 0), domain_of(&topology, 2));
        assert_ne!(domain_of(&topology, 0), domain_of(&topology, 1));
        assert_eq!((domain_of(&topology, 3), domain_of(&topology, 9)), (None, None));
        topology.add(NodeId(0), None);
        assert_eq!(domain_of(&topology, 0), domain_of(&topology, 2), "nothing was said of it");
        topology.add(NodeId(0), Some("blue"));
        assert_eq!(domain_of(&topology, 0), domain_of(&topology, 1));
        assert_eq!(topology.set_of(NodeId(0)), None, "there are no sets");
    }

    #[test]
    fn sets_are_drawn_once_for_a_whole_view() {
        let nodes: Vec<NodeId> = (0..1000).map(NodeId).collect();
        let mut topology = Topology::new(Placement::CodingSets { spare_count: 1 }, CodeShape::default());
        for round in 0..3 {
            nodes.iter().for_each(|&node| topology.add(node, None));
            nodes.iter().for_each(|&node| topology.add(node, Some(&format!("rack {}", (node.0 + round) / 20))));
            assert!(topology.sets.get().is_none(), "nobody asked for them");
            assert!(nodes.iter().all(|&node| topology.set_of(node).is_some()));
            nodes.iter().for_each(|&node| topology.add(node, None));
            assert!(topology.sets.get().is_some(), "nothing changed since");
        }
        topology.remove(NodeId(7));
        assert_eq!(topology.set_of(NodeId(7)), None);
    }

    #[test]
    fn sets_grow_with_the_cluster() {
        let mut topology = Topology::new(Placement::CodingSets { spare_count: 1 }, CodeShape::default());
        (0..13).map(NodeId).for_each(|node| topology.add(node, None));
        assert!((0..13).map(NodeId).all(|node| topology.set_of(node) == Some(0)));
        topology.add(NodeId(13), None);
        assert_eq!((topology.set_of(NodeId(6)), topology.set_of(NodeId(13))), (Some(0), Some(1)));
    }
}
