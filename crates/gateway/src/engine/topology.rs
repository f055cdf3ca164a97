//! What places know of the nodes: which fail together, and which form a coding set.
//!
//! Must not know: who is there at the moment, loads.

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
    sets: CodingSets,
}

impl Topology {
    pub fn new(placement: Placement, shape: CodeShape) -> Self {
        let (labels, domains) = (Vec::new(), BTreeMap::new());
        Topology { placement, shape, labels, domains, sets: CodingSets::default() }
    }

    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// A node of the cluster; an empty label: it fails alone.
    pub fn add(&mut self, node: NodeId, label: Option<&str>) {
        let domain = label.map(|label| self.domain(label)).unwrap_or_else(|| self.domain_of(node));
        if self.domains.insert(node, domain) != Some(domain) {
            self.draw_sets();
        }
    }

    /// A node that is no part of the cluster any more.
    pub fn remove(&mut self, node: NodeId) {
        if self.domains.remove(&node).is_some() {
            self.draw_sets();
        }
    }

    fn draw_sets(&mut self) {
        if let Placement::CodingSets { spare_count } = self.placement {
            self.sets = CodingSets::new(&self.domains, self.shape, spare_count);
        }
    }

    pub fn domain_of(&self, node: NodeId) -> Option<Domain> {
        self.domains.get(&node).copied().flatten()
    }

    pub fn set_of(&self, node: NodeId) -> Option<usize> {
        self.sets.set_of(node)
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
    fn sets_grow_with_the_cluster() {
        let mut topology = Topology::new(Placement::CodingSets { spare_count: 1 }, CodeShape::default());
        (0..13).map(NodeId).for_each(|node| topology.add(node, None));
        assert!((0..13).map(NodeId).all(|node| topology.set_of(node) == Some(0)));
        topology.add(NodeId(13), None);
        assert_eq!((topology.set_of(NodeId(6)), topology.set_of(NodeId(13))), (Some(0), Some(1)));
    }
}
