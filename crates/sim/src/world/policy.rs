//! The policy, changed while the store serves, and what nodes hold of striped objects.

use std::collections::BTreeMap;

use shorttail_policy::{Policy, SmallWrite, Update};
use shorttail_units::{CodeShape, NodeId, PartitionId, StripeId};
use shorttail_wire::node::ChunkKind;

use super::World;
use crate::config::draw_policy;

/// A stripe of a striped object, as its chunks describe it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StripeSeen {
    pub shape: CodeShape,
    pub chunk_bytes: u32,
    pub members: Vec<NodeId>,
    /// Chunks that nodes hold.
    pub chunk_count: usize,
}

impl World {
    pub fn set_small_write(&mut self, small_write: SmallWrite) {
        self.set_policy(Policy { small_write, ..self.config.policy });
    }

    pub fn set_update(&mut self, update: Update) {
        self.set_policy(Policy { update, ..self.config.policy });
    }

    fn set_policy(&mut self, policy: Policy) {
        self.config.policy = policy;
        self.note(format_args!("policy: {policy}"));
        for engine in self.gateways.iter_mut().flat_map(super::GatewayHost::engines_mut) {
            let partitions = (0..self.config.partition_count).map(PartitionId);
            partitions.for_each(|partition| engine.set_policy(partition, policy));
        }
    }

    /// Now and then the operator changes it.
    pub(super) fn switch_policy(&mut self) {
        if self.config.switch_ppm > 0 && self.rng.chance_ppm(self.config.switch_ppm) {
            let policy = draw_policy(&mut self.rng);
            self.set_policy(policy);
        }
    }

    /// The stripes of striped objects.
    pub fn striped_seen(&mut self) -> BTreeMap<StripeId, StripeSeen> {
        let mut seen = BTreeMap::new();
        for (id, found) in self.scan_all() {
            let description = &found[0].report.description;
            if description.kind == ChunkKind::Striped {
                let (shape, chunk_bytes) = (description.shape, description.chunk_bytes);
                let members = description.members.0.clone();
                seen.insert(id, StripeSeen { shape, chunk_bytes, members, chunk_count: found.len() });
            }
        }
        seen
    }
}
