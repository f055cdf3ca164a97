//! The picture that a new owner makes of its partitions, and the index built from it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use shorttail_store::record::{Control, Record, RecordKind};
use shorttail_units::{Configuration, NodeId, PartitionId, StripeId, UnixMs, Version};
use shorttail_wire::node::ChunkKind;

use super::Engine;
use super::census::Census;
use super::control::VoidRecord;
use super::index::StripeSlot;
use super::kept::Kept;
use super::lookup::old_record;
use super::manifest::Manifest;
use super::open_stripe::OpenStripe;
use super::striped::StripedObject;
use super::stripes::{Stripe, StripePhase};
use crate::command::Command;

/// The newest record of a key.
#[derive(Debug)]
struct Newest {
    version: Version,
    /// `None`: a tombstone.
    live: Option<Live>,
}

#[derive(Debug)]
struct Live {
    stripe: StripeId,
    data_index: usize,
    offset: usize,
    record_bytes: usize,
    object_bytes: u64,
    expiry: Option<UnixMs>,
    manifest: Option<Manifest>,
}

#[derive(Debug)]
struct Inherited {
    partition: PartitionId,
    members: Arc<[NodeId]>,
    configuration: Configuration,
    chunk_bytes: usize,
    fills: Vec<usize>,
    kept: Kept,
    /// The bytes of a stripe that was never sealed.
    chunks: Option<Vec<Vec<u8>>>,
}

/// A stripe as it was read.
#[derive(Debug)]
pub struct Loaded {
    pub partition: PartitionId,
    pub members: Arc<[NodeId]>,
    pub configuration: Configuration,
    pub chunk_bytes: usize,
    /// Its data chunks, each as far as it is used.
    pub chunks: Vec<Vec<u8>>,
    pub is_sealed: bool,
}

/// Filled stripe by stripe, newest first.
#[derive(Debug, Default)]
pub struct Rebuild {
    keys: HashMap<Vec<u8>, Newest>,
    stripes: BTreeMap<StripeId, Inherited>,
    /// Stripes that hold something newer than a younger one does, and the youngest such (see `Stripe::reach`).
    reaches: BTreeMap<StripeId, StripeId>,
    /// Void stripes, and the record that says so: the oldest of several, as only one is kept.
    voids: BTreeMap<StripeId, VoidRecord>,
    floors: BTreeMap<PartitionId, Version>,
    /// The last delayed flush that was declared in each partition, and as of which version.
    flushes_due: BTreeMap<PartitionId, (Version, UnixMs)>,
    /// Stripes that cannot be read any more.
    lost: BTreeMap<StripeId, (PartitionId, Arc<[NodeId]>)>,
}

impl Rebuild {
    pub fn is_void(&self, stripe: StripeId) -> bool {
        self.voids.contains_key(&stripe)
    }

    /// Notes that nothing is to be had of a stripe any more.
    pub fn take_lost(&mut self, stripe: StripeId, partition: PartitionId, members: Arc<[NodeId]>) {
        if !self.is_void(stripe) {
            self.lost.insert(stripe, (partition, members));
        }
    }

    /// Takes a stripe; every younger one was taken before. `is_void_manifest`: does a manifest not make an object
    /// (rule R8)?
    pub fn take(&mut self, id: StripeId, loaded: Loaded, is_void_manifest: &dyn Fn(&Manifest) -> bool) {
        if self.is_void(id) {
            return;
        }
        let Loaded { partition, members, configuration, chunk_bytes, chunks, is_sealed } = loaded;
        let mut kept = Kept::default();
        for (data_index, chunk) in chunks.iter().enumerate() {
            let mut offset = 0;
            while let Ok((record, length)) = Record::parse(&chunk[offset..], id) {
                kept.add(&record, length);
                match record.kind {
                    RecordKind::Control => self.take_control(id, partition, &record, length),
                    _ => self.take_keyed(id, (data_index, offset, length), &record, is_void_manifest),
                }
                offset += length;
            }
        }
        let fills = chunks.iter().map(Vec::len).collect();
        let chunks = (!is_sealed).then_some(chunks);
        let inherited = Inherited { partition, members, configuration, chunk_bytes, fills, kept, chunks };
        self.stripes.insert(id, inherited);
    }

    fn take_control(&mut self, stripe: StripeId, partition: PartitionId, record: &Record<'_>, bytes: usize) {
        match Control::parse(record.value) {
            Some(Control::Void(void)) => {
                let younger = self.voids.insert(void, VoidRecord { at: stripe, bytes });
                if let Some(holder) = younger.and_then(|younger| self.stripes.get_mut(&younger.at)) {
                    holder.kept.drop_control(bytes);
                }
            }
            Some(Control::Floor { floor, .. }) => {
                let known = self.floors.entry(partition).or_default();
                *known = floor.max(*known);
            }
            Some(Control::FlushDue(at)) => {
                let known = self.flushes_due.entry(partition).or_default();
                *known = (record.version, at).max(*known);
            }
            None => tracing::error!(?stripe, "a control record of another version"),
        }
    }

    /// The delayed flush that is still to come: the one declared last, unless everything was flushed since.
    fn flush_due(&self) -> Option<(Version, UnixMs)> {
        let floor = |partition| self.floors.get(partition).copied().unwrap_or_default();
        let due = self.flushes_due.iter().filter(|(partition, (version, _))| *version > floor(partition));
        due.map(|(_, &due)| due).max()
    }

    fn take_keyed(
        &mut self,
        stripe: StripeId,
        (data_index, offset, length): (usize, usize, usize),
        record: &Record<'_>,
        is_void_manifest: &dyn Fn(&Manifest) -> bool,
    ) {
        let known = self.keys.get(record.key);
        if known.is_some_and(|newest| newest.version >= record.version) {
            return;
        }
        let old = old_record(record, super::index::Location { chunk_number: 0, offset: 0 }, length);
        if old.manifest.as_ref().is_some_and(is_void_manifest) {
            tracing::debug!(?stripe, offset, "a striped object that was never whole");
            return;
        }
        if let Some(younger) = known.and_then(|newest| newest.live.as_ref()).map(|live| live.stripe) {
            let beyond = self.reaches.get(&younger).copied().unwrap_or(younger).max(younger);
            let reach = self.reaches.entry(stripe).or_insert(stripe);
            *reach = beyond.max(*reach);
        }
        let live = (record.kind != RecordKind::Tombstone).then_some(Live {
            stripe,
            data_index,
            offset,
            record_bytes: length,
            object_bytes: old.object_bytes,
            expiry: record.expiry,
            manifest: old.manifest,
        });
        self.keys.insert(record.key.to_vec(), Newest { version: record.version, live });
    }
}

impl<C: Command> Engine<C> {
    /// Makes the picture this owner's own; answers which stripes are void. `away`: nodes that may come back with more.
    pub(super) fn rebuild(&mut self, rebuild: Rebuild, census: &Census, away: &BTreeSet<NodeId>) -> BTreeSet<StripeId> {
        for (&partition, &floor) in &rebuild.floors {
            self.inherit_floor(partition, floor);
        }
        if let Some((version, at)) = rebuild.flush_due() {
            self.inherit_flush_due(version, at);
        }
        for (id, (partition, members)) in rebuild.lost {
            self.note_loss(id, partition, members);
        }
        let slots = self.adopt_stripes(rebuild.stripes, &rebuild.reaches);
        for (key, newest) in rebuild.keys {
            if let Some(live) = newest.live {
                self.adopt_object(&key, newest.version, live, &slots, census);
            }
        }
        self.note_inherited_losses(census);
        let voids: BTreeSet<StripeId> = rebuild.voids.keys().copied().collect();
        for (void, record) in rebuild.voids {
            self.inherit_void(void, record, away.iter().copied().chain(census.holders(void)).collect());
        }
        let leaving = slots.values().filter(|&&slot| self.stripes.at(slot).phase() == StripePhase::Leaving);
        for slot in leaving.copied().collect::<Vec<_>>() {
            self.start_leaving(slot, HashSet::new());
        }
        tracing::info!(objects = self.index.object_count(), stripes = self.stripes.len(), "took over");
        voids
    }

    fn adopt_stripes(
        &mut self,
        inherited: BTreeMap<StripeId, Inherited>,
        reaches: &BTreeMap<StripeId, StripeId>,
    ) -> BTreeMap<StripeId, StripeSlot> {
        let mut slots = BTreeMap::new();
        for (id, stripe) in inherited {
            let fills = stripe.fills.iter().map(|&fill| fill as u32).collect();
            let mut adopted = Stripe::inherited(id, stripe.partition, stripe.members, fills);
            adopted.configuration = stripe.configuration;
            adopted.kept = stripe.kept;
            adopted.reach = reaches.get(&id).copied().unwrap_or(id);
            if let Some(chunks) = stripe.chunks {
                let open = OpenStripe::from_chunks(self.config.shape, &chunks, stripe.chunk_bytes);
                adopted.open = Some(Box::new(open));
                adopted.become_phase(StripePhase::Leaving);
            }
            slots.insert(id, self.stripes.insert(adopted));
        }
        slots
    }

    fn adopt_object(
        &mut self,
        bytes: &[u8],
        version: Version,
        live: Live,
        slots: &BTreeMap<StripeId, StripeSlot>,
        census: &Census,
    ) {
        let key = self.key_ref(bytes);
        let partition = self.config.partition_of(key.slot);
        if version < self.floor_of(partition) {
            return;
        }
        let Some(&slot) = slots.get(&live.stripe) else { return };
        let location = self.stripes.location(slot, live.data_index, live.offset);
        self.index.insert(key.slot, key.tag(), location);
        self.count_stored(location, live.record_bytes, live.object_bytes, live.expiry);
        if let Some(manifest) = live.manifest {
            let mut object = StripedObject::new(bytes.to_vec(), partition, manifest);
            object.expiry = live.expiry;
            for stripe in object.stripes() {
                if let Some(moved) = census.newest(stripe).filter(|told| !told.configuration.is_first()) {
                    object.move_to(stripe, moved.configuration, moved.members.0.clone().into());
                }
            }
            self.striped.insert(object);
        }
    }

    /// Chunks of void stripes, of members that are none any more, and pieces without a manifest are freed. Not so what is damaged: its place would look as if
    /// it had never held anything.
    pub(super) fn drop_leftovers(&mut self, census: &Census, voids: &BTreeSet<StripeId>) {
        for (stripe, node, report) in census.reports() {
            let partition = report.description.partition;
            let belongs = match report.description.kind {
                ChunkKind::Packed => {
                    !voids.contains(&stripe) && (self.stripes.slot_of(stripe).is_some() || self.is_lost(stripe))
                }
                ChunkKind::Striped => self.is_striped(stripe),
            };
            let is_member = census.newest(stripe).is_none_or(|newest| newest.members.0.contains(&node));
            if !belongs || !is_member {
                self.free_on(node, stripe, partition);
            }
        }
    }
}
