//! Whether failure domains, coding sets and gateways are such that what was asked for can be had, in words.
//!
//! Must not know: what is stored, or who reads it.

use std::collections::{BTreeMap, BTreeSet};

use shorttail_placement::{CodingSets, Domain, chunks_of_domain_max};
use shorttail_units::NodeId;
use shorttail_wire::control::NodeState;

use crate::coordinator::Coordinator;

impl Coordinator {
    /// Each with its kind.
    pub(crate) fn layout_problems(&self) -> impl Iterator<Item = (&'static str, String)> {
        let domains = self.domains_problem().map(|text| ("domains", text));
        let coding_sets = self.coding_sets_problem().map(|text| ("coding-sets", text));
        let idle = self.idle_gateways_problem().map(|text| ("idle-gateways", text));
        [domains, coding_sets, idle].into_iter().flatten()
    }

    /// Nodes that chunks are put on, or that may return with some: those of each coding set by themselves.
    fn groups(&self) -> Vec<Vec<u16>> {
        let sets = self.coding_sets();
        let counts = |id: u16, state| state != NodeState::Retired && !self.is_draining(id);
        let mut groups: BTreeMap<Option<usize>, Vec<u16>> = BTreeMap::new();
        for (&id, _) in self.nodes_kept().filter(|(id, node)| counts(**id, node.presence.state)) {
            groups.entry(sets.as_ref().and_then(|sets| sets.set_of(NodeId(id)))).or_default().push(id);
        }
        groups.into_values().collect()
    }

    /// As owners draw them. `None`: there are none.
    fn coding_sets(&self) -> Option<CodingSets> {
        let (code, size) = (self.settings.code, usize::from(self.coding_set_nodes()?));
        let spare_count = u8::try_from(size.checked_sub(code.chunk_count())?).ok()?;
        let labels: BTreeSet<&str> = self.nodes_kept().map(|(&id, _)| self.label(id)).collect();
        let domains: BTreeMap<&str, Domain> = labels.into_iter().zip((0..).map(Domain)).collect();
        let domain_of = |id| Some(self.label(id)).filter(|label| !label.is_empty()).map(|label| domains[label]);
        Some(CodingSets::new(
            &self.nodes_kept().map(|(&id, _)| (NodeId(id), domain_of(id))).collect(),
            code,
            spare_count,
        ))
    }

    /// Nodes that a set is to have, as gateways were started.
    fn coding_set_nodes(&self) -> Option<u16> {
        self.living().filter_map(|gateway| gateway.status.coding_set_nodes).max()
    }

    fn label(&self, id: u16) -> &str {
        &self.durable.nodes[&id].domain
    }

    /// Chunks of a stripe that some domain has to hold if it lies on these nodes.
    fn chunks_of_domain_max(&self, nodes: &[u16]) -> usize {
        let labels = nodes.iter().map(|&id| self.label(id));
        chunks_of_domain_max(labels.map(|label| (!label.is_empty()).then_some(label)), self.settings.code)
    }

    fn domains_problem(&self) -> Option<String> {
        let code = self.settings.code;
        let groups = self.groups();
        // On fewer nodes than that nothing is stored.
        let full = groups.iter().filter(|nodes| nodes.len() >= code.chunk_count());
        let worst = full.max_by_key(|nodes| self.chunks_of_domain_max(nodes))?;
        let chunks = self.chunks_of_domain_max(worst);
        let labels: BTreeSet<&str> = worst.iter().map(|&id| self.label(id)).filter(|label| !label.is_empty()).collect();
        let tolerance = code.tolerance();
        (chunks > tolerance).then(|| {
            let domains = match labels.len() {
                1 => "one failure domain".to_owned(),
                count => format!("{count} failure domains"),
            };
            let are_in = match groups.len() {
                1 => format!("nodes are in {domains}"),
                _ => format!("nodes {} are a coding set, and in {domains}", listed(worst)),
            };
            format!(
                "{are_in}, so one has to hold {chunks} chunks of each stripe, and {code} survives the loss of \
                 {tolerance}: without such a domain objects cannot be read; add nodes in others"
            )
        })
    }

    fn coding_sets_problem(&self) -> Option<String> {
        let wanted = self.coding_set_nodes()?;
        // Those that are expected may be on their way.
        let count = self.nodes_kept().count().max(usize::from(self.node_count_expected()));
        let chunks = self.settings.code.chunk_count();
        (count < usize::from(wanted)).then(|| {
            format!(
                "coding sets of {wanted} nodes are asked for and there are {count} nodes: stripes lie on all of them, as if \
                 there were no sets; add nodes, or start gateways with less than --placement coding-sets:{}",
                usize::from(wanted).saturating_sub(chunks)
            )
        })
    }

    fn idle_gateways_problem(&self) -> Option<String> {
        let count = self.alive_gateways().filter(|id| !self.durable.draining.contains(id)).count();
        let partitions = usize::from(self.settings.partition_count);
        (count > partitions).then(|| {
            let idle = match count - partitions {
                1 => "1 owns nothing and only passes".to_owned(),
                idle => format!("{idle} own nothing and only pass"),
            };
            format!("there are {count} gateways and {partitions} partitions: {idle} requests on; run fewer gateways")
        })
    }
}

fn listed(ids: &[u16]) -> String {
    ids.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}
