//! Which lives of nodes have a voice in who owns a partition.
//!
//! ```text
//!          lives for a while, or all owners reach it; holds something
//! no voice ---------------------------------------------------------> voice
//!    ^------------- owners count nothing there, and it drains or is dead --'
//! ```
//! A set with many dead proves an owner as well as any other, but no later owner may be accepted by what is left of it. So
//! nobody has a voice who only came and went, or is to go. A number that sets of voters name has a voice in its next life
//! at once.
//!
//! While some tenure is not served nobody can tell that a node holds nothing: who was left out until then stays out.
//!
//! Must not know: how sets of voters follow each other.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use crate::coordinator::Coordinator;
use crate::durable::DurableVoter;
use crate::members::GatewayMember;
use crate::retiring::is_told;

impl Coordinator {
    /// Lives that are not given up, and may hold something. If the others are too few to prove anybody, all.
    pub(crate) fn voters_wanted(&self) -> Vec<DurableVoter> {
        let named = OnceCell::new();
        let nodes = self.durable.nodes.iter().filter(|(_, node)| node.incarnation > node.retired_through);
        let lives = nodes.map(|(&id, node)| (id, node.incarnation));
        let (voters, others): (Vec<_>, Vec<_>) =
            lives.partition(|&(id, _)| self.has_voice(id, || named.get_or_init(|| self.named()).contains(&id)));
        if voters.len() > self.settings.code.tolerance() {
            return voters;
        }
        let mut all = [voters, others].concat();
        all.sort_unstable();
        all
    }

    /// `is_named`: do owners go by a set with this number?
    fn has_voice(&self, id: u16, is_named: impl Fn() -> bool) -> bool {
        let Some(node) = self.nodes.get(&id) else { return true };
        let (is_alive, drains) = (node.presence.is_alive(), self.is_draining(id));
        // Nothing was ever stored.
        if self.durable.tenures.is_empty() {
            return is_alive && !(drains && self.is_empty(id));
        }
        match is_alive && !drains {
            true => is_told(node.since_us, self.now_us) || is_named() || self.holds(id) || self.is_reached(id),
            false if is_named() => !self.is_empty(id),
            // It was left out as it held nothing, or never had a voice. The dead accept nobody.
            false => (is_alive || !drains) && self.holds(id),
        }
    }

    /// Numbers in the sets that owners were told.
    fn named(&self) -> BTreeSet<u16> {
        let mut named = BTreeSet::new();
        let mut before: &[DurableVoter] = &[];
        // Nearly all tell the same.
        for told in self.durable.tenures.values().map(|tenure| tenure.voters_told()) {
            if told != before {
                named.extend(told.iter().map(|voter| voter.0));
                before = told;
            }
        }
        named
    }

    /// Does the node or an owner tell of a chunk there? What a dead one told last may be rebuilt.
    fn holds(&self, id: u16) -> bool {
        let counts = |gateway: &GatewayMember| {
            gateway.status.nodes.iter().any(|seen| seen.id == id && seen.chunks_left.is_some_and(|left| left > 0))
        };
        let is_alive = self.nodes.get(&id).is_some_and(|node| node.presence.is_alive() && node.has_told);
        is_alive && self.chunks_held(id) > 0 || self.living().any(counts)
    }

    /// Do all owners that live reach the node?
    pub(crate) fn is_reached(&self, id: u16) -> bool {
        let owns = |id: &u16| self.durable.tenures.values().any(|tenure| tenure.gateway == *id);
        let owners = self.gateways.iter().filter(|(id, gateway)| gateway.presence.is_alive() && owns(id));
        let mut owners = owners.map(|(_, gateway)| gateway).peekable();
        let sees = |owner: &GatewayMember| owner.status.nodes.iter().any(|seen| seen.id == id && seen.connected);
        owners.peek().is_some() && owners.all(sees)
    }
}
