//! The striped objects that an owner knows, by their first stripe: whose they are, which stripes they have, and who
//! holds these.
//!
//! An object is among them from the moment its first piece is sent; it exists once its manifest is durable (rule R8).
//!
//! Must not know: how pieces are written or read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use shorttail_units::{Configuration, NodeId, PartitionId, StripeId, UnixMs};
use shorttail_wire::node::ChunkKind;

use super::manifest::Manifest;
use crate::engine::repair::queue::StripeFacts;

/// A striped object that exists, or is being written.
#[derive(Clone, Debug)]
pub struct StripedObject {
    pub key: Vec<u8>,
    pub partition: PartitionId,
    pub manifest: Manifest,
    /// As its manifest's record says, once that is durable.
    pub expiry: Option<UnixMs>,
    /// Stripes of which a chunk was rebuilt elsewhere, and who holds them now.
    pub(super) moved: BTreeMap<StripeId, (Configuration, Arc<[NodeId]>)>,
}

impl StripedObject {
    pub fn new(key: Vec<u8>, partition: PartitionId, manifest: Manifest) -> Self {
        StripedObject { key, partition, manifest, expiry: None, moved: BTreeMap::new() }
    }

    pub fn is_over(&self, now: UnixMs) -> bool {
        self.expiry.is_some_and(|expiry| expiry <= now)
    }

    pub fn stripes(&self) -> impl Iterator<Item = StripeId> + use<> {
        let (first, count) = (self.manifest.first, self.manifest.stripe_count);
        (0..count).map(move |number| first.plus(u64::from(number)))
    }

    /// Who holds a stripe, and under which configuration.
    pub fn members_of(&self, stripe: StripeId) -> (Configuration, Arc<[NodeId]>) {
        let moved = self.moved.get(&stripe).cloned();
        moved.unwrap_or_else(|| (Configuration::default(), self.manifest.members.clone()))
    }

    pub(in crate::engine) fn facts_of(&self, stripe: StripeId) -> StripeFacts {
        let (configuration, members) = self.members_of(stripe);
        StripeFacts {
            partition: self.partition,
            kind: ChunkKind::Striped,
            shape: self.manifest.shape,
            chunk_bytes: self.manifest.piece_bytes,
            configuration,
            members,
        }
    }

    pub fn move_to(&mut self, stripe: StripeId, configuration: Configuration, members: Arc<[NodeId]>) {
        self.moved.insert(stripe, (configuration, members));
    }
}

/// Striped objects by their first stripe: in the order in which they were written.
#[derive(Debug, Default)]
pub struct StripedObjects {
    by_first: BTreeMap<StripeId, StripedObject>,
    value_bytes: u64,
}

impl StripedObjects {
    pub fn insert(&mut self, object: StripedObject) {
        self.value_bytes += object.manifest.value_bytes as u64;
        let replaced = self.by_first.insert(object.manifest.first, object);
        assert!(replaced.is_none(), "stripe ids are used once");
    }

    pub fn remove(&mut self, first: StripeId) -> Option<StripedObject> {
        let object = self.by_first.remove(&first)?;
        self.value_bytes -= object.manifest.value_bytes as u64;
        Some(object)
    }

    /// Removes and returns the objects that match `goes`, except those in `kept`. `goes: None` removes all but `kept`,
    /// visiting only the kept ones.
    pub fn take(
        &mut self,
        kept: &BTreeSet<StripeId>,
        goes: Option<impl Fn(&StripedObject) -> bool>,
    ) -> BTreeMap<StripeId, StripedObject> {
        let taken = match goes {
            Some(goes) => {
                let is_taken = |first: &StripeId, object: &mut StripedObject| goes(object) && !kept.contains(first);
                self.by_first.extract_if(.., is_taken).collect()
            }
            None => {
                let mut all = std::mem::take(&mut self.by_first);
                self.by_first.extend(kept.iter().filter_map(|first| all.remove_entry(first)));
                all
            }
        };
        self.value_bytes = self.by_first.values().map(|object| object.manifest.value_bytes as u64).sum();
        taken
    }

    /// The manifest must stay what it is.
    pub fn get_mut(&mut self, first: &StripeId) -> Option<&mut StripedObject> {
        self.by_first.get_mut(first)
    }

    /// Bytes of all their values.
    pub fn value_bytes(&self) -> u64 {
        self.value_bytes
    }
}

impl Deref for StripedObjects {
    type Target = BTreeMap<StripeId, StripedObject>;

    fn deref(&self) -> &Self::Target {
        &self.by_first
    }
}
