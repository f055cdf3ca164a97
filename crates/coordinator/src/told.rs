//! What gateways tell of nodes, looked up once for all nodes: with thousands of them each gateway's report is long, and
//! what is asked of every node at a look must not read it through for each.
//!
//! Must not know: what follows from it.

use std::collections::BTreeSet;

use shorttail_wire::control::NodeSeen;

use crate::coordinator::Coordinator;
use crate::members::GatewayMember;

/// As of the input at hand, and of nodes that are known.
pub(crate) struct ToldOfNodes {
    has_any_told: bool,
    reached: BTreeSet<u16>,
    uncounted: BTreeSet<u16>,
}

impl ToldOfNodes {
    /// One that answers a gateway, or any while no gateway tells, is only out of the coordinator's own sight.
    pub fn may_be_serving(&self, id: u16) -> bool {
        !self.has_any_told || self.reached.contains(&id)
    }

    /// Is everything served, and do all owners say that they have nothing there?
    pub fn is_uncounted(&self, id: u16) -> bool {
        self.uncounted.contains(&id)
    }
}

impl Coordinator {
    pub(crate) fn told_of_nodes(&self) -> ToldOfNodes {
        let telling = || self.living().filter(|gateway| gateway.has_told);
        let uncounted = if self.is_everything_served() { self.uncounted_by_owners() } else { BTreeSet::new() };
        ToldOfNodes {
            has_any_told: telling().next().is_some(),
            reached: telling().flat_map(|gateway| ids_where(gateway, |seen| seen.connected)).collect(),
            uncounted,
        }
    }

    /// Nodes of which every owner says that it has nothing there.
    fn uncounted_by_owners(&self) -> BTreeSet<u16> {
        let mut uncounted: BTreeSet<u16> = self.nodes.keys().copied().collect();
        for owner in self.living_owners() {
            let nothing: BTreeSet<u16> = ids_where(owner, |seen| seen.chunks_left == Some(0)).collect();
            uncounted.retain(|id| nothing.contains(id));
        }
        uncounted
    }
}

fn ids_where(gateway: &GatewayMember, holds: impl Fn(&NodeSeen) -> bool) -> impl Iterator<Item = u16> {
    gateway.status.nodes.iter().filter(move |seen| holds(seen)).map(|seen| seen.id)
}
