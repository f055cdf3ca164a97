//! Whether failure domains, coding sets and gateways are such that what was asked for can be had, in words.
//!
//! Must not know: what is stored, or who reads it.

use std::collections::BTreeSet;

use shorttail_placement::chunks_of_domain_max;
use shorttail_wire::control::NodeState;

use crate::coordinator::Coordinator;

impl Coordinator {
    pub(crate) fn layout_problems(&self) -> impl Iterator<Item = String> {
        [self.domains_problem(), self.coding_sets_problem(), self.idle_gateways_problem()].into_iter().flatten()
    }

    /// Labels of the nodes that chunks are put on or may return with.
    fn labels(&self) -> impl Iterator<Item = &str> {
        let counts = |id: u16, state| state != NodeState::Retired && !self.is_draining(id);
        let nodes = self.nodes_kept().filter(move |(id, node)| counts(**id, node.presence.state));
        nodes.map(|(id, _)| self.durable.nodes[id].domain.as_str())
    }

    fn domains_problem(&self) -> Option<String> {
        let code = self.settings.code;
        let chunks = chunks_of_domain_max(self.labels().map(|label| (!label.is_empty()).then_some(label)), code);
        // With fewer nodes than that nothing is stored.
        let is_full = self.labels().count() >= code.chunk_count();
        let count = self.labels().filter(|label| !label.is_empty()).collect::<BTreeSet<_>>().len();
        let tolerance = code.tolerance();
        (is_full && chunks > tolerance).then(|| {
            let domains = if count == 1 { "one failure domain".to_owned() } else { format!("{count} failure domains") };
            format!(
                "nodes are in {domains}, so one has to hold {chunks} chunks of each stripe, and {code} survives the loss of \
                 {tolerance}: without such a domain objects cannot be read; add nodes in others"
            )
        })
    }

    fn coding_sets_problem(&self) -> Option<String> {
        let alive = self.gateways.values().filter(|gateway| gateway.presence.is_alive());
        let wanted = alive.filter_map(|gateway| gateway.status.coding_set_nodes).max()?;
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
