//! The picture that a new owner makes of its partitions: index, stripe table, and what became of each key.
//!
//! ```text
//! stripe, as read --take--> records, one by one: is it the newest of its key? --> index, accounts of its stripe
//! stripe, gone or void --drop_stripe--> --settle--> its records leave index and accounts, or a copy stands in
//! ```
//! Stripes may come in any order. Of a key counts the record of the highest version, and of several copies the one in
//! the youngest stripe. The owner may have chosen another: a record that was raced lies in two stripes, of which either
//! is the one that its index names, and one that was moved may lie in an older stripe than before. So when a stripe
//! goes, a copy of the same version in another one takes the place of what was the newest in it; those are kept beside.
//! Nothing of a lower version does: what ended it lasts as long as anything older of the key exists (rule R3).
//!
//! Must not know: nodes, sessions, which stripes there should be.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use shorttail_store::record::{Control, Record, RecordKind, records};
use shorttail_units::{Configuration, NodeId, PartitionId, StripeId, UnixMs, Version};

use super::newest::{KeyId, Newest, NewestRecords};
use crate::engine::reclaim::freeing::VoidRecord;
use crate::engine::reclaim::kept::Kept;
use crate::engine::state::config::EngineConfig;
use crate::engine::state::index::{Index, Location, StripeSlot};
use crate::engine::state::stripes::{Stripe, StripePhase, Stripes};
use crate::engine::write::log::Purpose;
use crate::engine::write::manifest::Manifest;
use crate::engine::write::object::OldRecord;
use crate::engine::write::open_stripe::OpenStripe;

mod stand_ins;
#[cfg(test)]
mod tests;

use stand_ins::{StandIn, StandIns};

/// A striped object whose manifest is the newest record of its key.
#[derive(Debug)]
pub struct StripedFound {
    pub key: Vec<u8>,
    pub partition: PartitionId,
    pub manifest: Manifest,
    pub expiry: Option<UnixMs>,
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
    /// How much of each is certain (see `reconstruct`).
    pub certain_bytes: Vec<usize>,
    pub is_sealed: bool,
}

/// Where a record of a stripe lies.
#[derive(Clone, Copy)]
struct Place {
    stripe: StripeId,
    slot: StripeSlot,
    partition: PartitionId,
    location: Location,
    record_bytes: usize,
}

/// A delayed flush, as of which version, and the stripe that says so.
#[derive(Clone, Copy, Debug)]
struct FlushDue {
    version: Version,
    at: UnixMs,
    stripe: StripeId,
}

/// The highest floor of a partition, and the stripes that say so.
#[derive(Debug, Default)]
struct Floor {
    version: Version,
    stripes: BTreeSet<StripeId>,
}

#[derive(Debug)]
pub struct Picture {
    pub index: Index,
    pub stripes: Stripes<Purpose>,
    newest: NewestRecords,
    /// Of the keys whose newest record was found more than once: few.
    stand_ins: StandIns,
    striped: HashMap<KeyId, StripedFound>,
    /// Void stripes, with the stripes that say so and the length of the record there.
    voids: BTreeMap<StripeId, BTreeMap<StripeId, usize>>,
    floors: BTreeMap<PartitionId, Floor>,
    flushes_due: BTreeMap<PartitionId, Vec<FlushDue>>,
    /// Stripes that cannot be read any more.
    lost: BTreeMap<StripeId, PartitionId>,
    /// Bytes of what is alive, values of striped objects included.
    pub bytes_stored: u64,
    /// Stripes whose records are to go.
    dropped: BTreeSet<StripeSlot>,
    /// A floor rose above records that were taken.
    is_floor_new: bool,
    /// Of stripes that are not certain, how much of each data chunk is.
    certain_bytes: BTreeMap<StripeSlot, Vec<usize>>,
    /// Stripes that hold something which a record of another one replaces that is not certain.
    shadowed: BTreeSet<StripeId>,
}

impl Picture {
    pub fn new(data_count: usize) -> Self {
        Picture {
            index: Index::default(),
            stripes: Stripes::new(data_count),
            newest: NewestRecords::new(),
            stand_ins: StandIns::default(),
            striped: HashMap::new(),
            voids: BTreeMap::new(),
            floors: BTreeMap::new(),
            flushes_due: BTreeMap::new(),
            lost: BTreeMap::new(),
            bytes_stored: 0,
            dropped: BTreeSet::new(),
            is_floor_new: false,
            certain_bytes: BTreeMap::new(),
            shadowed: BTreeSet::new(),
        }
    }

    pub fn is_void(&self, stripe: StripeId) -> bool {
        self.voids.contains_key(&stripe)
    }

    /// Is this stripe in the picture?
    pub fn has(&self, stripe: StripeId) -> bool {
        self.stripes.slot_of(stripe).is_some_and(|slot| !self.dropped.contains(&slot))
    }

    /// The stripes that it is made of.
    pub fn stripe_ids(&self) -> Vec<StripeId> {
        let stripes = self.stripes.iter().filter(|(slot, _)| !self.dropped.contains(slot));
        stripes.map(|(_, stripe)| stripe.id).collect()
    }

    /// Is a newer record of the same key in the picture?
    pub fn has_newer(&self, record: &Record<'_>, config: &EngineConfig) -> bool {
        let key = KeyId::of(record.key, config);
        self.newest.get(key).is_some_and(|newest| {
            newest.version > record.version && (self.is_there(newest.location) || self.youngest_stand_in(key).is_some())
        })
    }

    /// Notes that nothing is to be had of a stripe any more.
    pub fn take_lost(&mut self, stripe: StripeId, partition: PartitionId) {
        if !self.is_void(stripe) {
            self.lost.insert(stripe, partition);
        }
    }

    /// Takes a stripe that is not void. `is_void_manifest`: does a manifest not make an object (rule R8)?
    pub fn take(
        &mut self,
        id: StripeId,
        loaded: Loaded,
        config: &EngineConfig,
        is_void_manifest: &dyn Fn(&Manifest) -> bool,
    ) {
        if self.is_void(id) {
            return;
        }
        let Loaded { partition, members, configuration, chunk_bytes, chunks, certain_bytes, is_sealed } = loaded;
        let fills = chunks.iter().map(|chunk| chunk.len() as u32).collect();
        let mut stripe = Stripe::inherited(id, partition, members, fills);
        stripe.configuration = configuration;
        if !is_sealed {
            stripe.open = Some(Box::new(OpenStripe::from_chunks(config.shape, &chunks, chunk_bytes)));
            stripe.become_phase(StripePhase::Leaving);
        }
        let slot = self.stripes.insert(stripe);
        if !chunks.iter().map(Vec::len).eq(certain_bytes.iter().copied()) {
            self.certain_bytes.insert(slot, certain_bytes);
        }
        let mut kept = Kept::default();
        for (data_index, chunk) in chunks.iter().enumerate() {
            for (offset, record, record_bytes) in records(chunk, id) {
                kept.add(&record, record_bytes, config.epoch, is_sealed);
                let location = self.stripes.location(slot, data_index, offset);
                let place = Place { stripe: id, slot, partition, location, record_bytes };
                match record.kind {
                    RecordKind::Control => self.take_control(place, &record),
                    _ => self.take_keyed(place, &record, config, is_void_manifest),
                }
            }
        }
        self.stripes.at_mut(slot).kept = kept;
    }

    fn take_control(&mut self, place: Place, record: &Record<'_>) {
        let Place { stripe, partition, record_bytes, .. } = place;
        match Control::parse(record.value) {
            Some(Control::Void(void)) => {
                self.voids.entry(void).or_default().insert(stripe, record_bytes);
                self.drop_stripe(void);
            }
            Some(Control::Floor { floor, .. }) => {
                let known = self.floors.entry(partition).or_default();
                if floor > known.version {
                    *known = Floor { version: floor, stripes: BTreeSet::new() };
                    self.is_floor_new = true;
                }
                if floor == known.version {
                    known.stripes.insert(stripe);
                }
            }
            Some(Control::FlushDue(at)) => {
                let due = FlushDue { version: record.version, at, stripe };
                self.flushes_due.entry(partition).or_default().push(due);
            }
            None => tracing::error!(?stripe, "a control record of another version"),
        }
    }

    fn take_keyed(
        &mut self,
        place: Place,
        record: &Record<'_>,
        config: &EngineConfig,
        is_void_manifest: &dyn Fn(&Manifest) -> bool,
    ) {
        if self.floors.get(&place.partition).is_some_and(|floor| record.version < floor.version) {
            return;
        }
        let key = KeyId::of(record.key, config);
        let known = self.known(key).map(|newest| (newest, self.stripes.place_of(newest.location).0));
        let record_bytes = u32::try_from(place.record_bytes).expect("records are shorter than chunks");
        let mut is_copy = false;
        if let Some((newest, at)) = known.filter(|(_, at)| !self.dropped.contains(at)) {
            let known_stripe = self.stripes.at(at).id;
            is_copy = newest.version == record.version;
            if (newest.version, known_stripe) >= (record.version, place.stripe) {
                self.shadow(place.slot, newest.location);
                if is_copy && known_stripe != place.stripe {
                    self.stand_ins.add(key, StandIn { location: place.location, record_bytes, expiry: record.expiry });
                } else if known_stripe < place.stripe {
                    self.reach_over(at, place.slot);
                }
                return;
            }
        }
        let old = OldRecord::of(record, place.location, place.record_bytes);
        if old.manifest.as_ref().is_some_and(is_void_manifest) {
            tracing::debug!(stripe = ?place.stripe, "a striped object that was never whole");
            return;
        }
        if let Some((newest, at)) = known {
            self.reach_over(place.slot, at);
            self.shadow(at, place.location);
            self.end_live(&newest);
            match is_copy {
                true => self.stand_ins.add(key, StandIn::of(&newest, record.expiry)),
                false => self.stand_ins.forget(key),
            }
        }
        let is_live = record.kind != RecordKind::Tombstone;
        let newest = Newest { key, version: record.version, location: place.location, record_bytes, is_live };
        self.newest.put(newest);
        if !is_live {
            return;
        }
        let hashed = key.hashed();
        self.index.insert(hashed.slot, hashed.tag(), place.location);
        self.count_live(&newest, record.expiry);
        self.bytes_stored += old.object_bytes;
        if let Some(manifest) = old.manifest {
            let (partition, expiry) = (place.partition, record.expiry);
            self.striped.insert(key, StripedFound { key: record.key.to_vec(), partition, manifest, expiry });
        }
    }

    /// A stripe holds something newer than another one does, which may be younger (see `Stripe::reach`).
    fn reach_over(&mut self, slot: StripeSlot, other: StripeSlot) {
        let beyond = self.stripes.at(other).reach;
        let stripe = self.stripes.at_mut(slot);
        stripe.reach = stripe.reach.max(beyond);
    }

    /// A record in the one stripe counts no more because of the one at `by`.
    fn shadow(&mut self, slot: StripeSlot, by: Location) {
        if self.stripes.place_of(by).0 != slot && !self.is_certain_at(by) {
            self.shadowed.insert(self.stripes.at(slot).id);
        }
    }

    fn is_certain_at(&self, location: Location) -> bool {
        let (slot, data_index) = self.stripes.place_of(location);
        let certain = self.certain_bytes.get(&slot).map(|certain| certain[data_index]);
        certain.is_none_or(|certain| usize::from(location.offset) < certain)
    }

    /// Does a stripe say so of which everything is certain? Of a floor: or that there is a higher one.
    pub fn is_said(&self, partition: PartitionId, version: Version, control: Control) -> bool {
        let slot_of = |&stripe: &StripeId| self.stripes.slot_of(stripe);
        let is_certain = |stripe| slot_of(stripe).is_some_and(|slot| !self.certain_bytes.contains_key(&slot));
        match control {
            Control::Void(void) => self.voids.get(&void).is_some_and(|records| records.keys().any(is_certain)),
            Control::Floor { floor, .. } => self
                .floors
                .get(&partition)
                .is_some_and(|known| known.version >= floor && known.stripes.iter().any(is_certain)),
            Control::FlushDue(at) => {
                let mut dues = self.flushes_due.get(&partition).into_iter().flatten();
                dues.any(|due| (due.version, due.at) == (version, at) && is_certain(&due.stripe))
            }
        }
    }

    /// What was the newest record of a key is not any more.
    fn end_live(&mut self, newest: &Newest) {
        let Newest { key, location, record_bytes, is_live, .. } = *newest;
        if !is_live {
            return;
        }
        let hashed = key.hashed();
        self.index.remove(hashed.slot, hashed.tag(), location);
        self.uncount_live(newest);
        let value_bytes = self.striped.remove(&key).map_or(0, |found| found.manifest.value_bytes as u64);
        self.bytes_stored -= u64::from(record_bytes) + value_bytes;
    }

    fn count_live(&mut self, newest: &Newest, expiry: Option<UnixMs>) {
        let (slot, _) = self.stripes.place_of(newest.location);
        self.stripes.at_mut(slot).add_live(newest.record_bytes as usize, expiry);
    }

    fn uncount_live(&mut self, newest: &Newest) {
        let (slot, _) = self.stripes.place_of(newest.location);
        self.stripes.at_mut(slot).drop_live(newest.record_bytes as usize);
    }

    /// A stripe that was taken is gone, or void.
    pub fn drop_stripe(&mut self, stripe: StripeId) {
        self.dropped.extend(self.stripes.slot_of(stripe));
    }

    /// A stripe's chunks lie elsewhere than when it was taken.
    pub fn move_stripe(&mut self, id: StripeId, configuration: Configuration, members: Arc<[NodeId]>) {
        if let Some(slot) = self.stripes.slot_of(id) {
            let stripe = self.stripes.at_mut(slot);
            (stripe.configuration, stripe.members) = (configuration, members);
        }
    }

    /// Takes out what stripes that were dropped, or records below a floor, left behind.
    pub fn settle(&mut self) {
        if self.dropped.is_empty() && !self.is_floor_new {
            return;
        }
        let mut newest = std::mem::take(&mut self.newest);
        newest.retain(|record| {
            let (slot, _) = self.stripes.place_of(record.location);
            let partition = self.stripes.at(slot).partition;
            let is_below = self.floors.get(&partition).is_some_and(|floor| record.version < floor.version);
            let stays = !is_below && (!self.dropped.contains(&slot) || self.let_stand_in(record));
            if !stays {
                self.end_live(record);
            }
            stays
        });
        (self.newest, self.is_floor_new) = (newest, false);
        self.settle_stand_ins();
        for slot in std::mem::take(&mut self.dropped) {
            let id = self.stripes.remove(slot).id;
            self.certain_bytes.remove(&slot);
            self.voids.retain(|_, records| {
                records.remove(&id);
                !records.is_empty()
            });
            self.flushes_due.values_mut().for_each(|dues| dues.retain(|due| due.stripe != id));
            self.floors.values_mut().for_each(|floor| _ = floor.stripes.remove(&id));
        }
    }

    /// Does a stripe say of each floor that it stands? Its owner may have given it up, and dropped it with the stripe:
    /// then what was left out as below it may be alive. To be asked when everything is settled.
    pub fn do_floors_hold(&self) -> bool {
        self.floors.values().all(|floor| !floor.stripes.is_empty())
    }

    /// The delayed flush that is still to come in each partition: the one declared last there, unless all of it was
    /// flushed since. Another partition may be past it: it had another owner.
    pub fn flushes_due(&self) -> impl Iterator<Item = (PartitionId, Version, UnixMs)> {
        let floor = |partition| self.floors.get(&partition).map(|floor| floor.version).unwrap_or_default();
        let last = |dues: &Vec<FlushDue>| dues.iter().map(|due| (due.version, due.at)).max();
        let due = self.flushes_due.iter().filter_map(move |(&partition, dues)| Some((partition, last(dues)?)));
        due.filter(move |&(partition, (version, _))| version > floor(partition))
            .map(|(partition, (version, at))| (partition, version, at))
    }

    pub fn floors(&self) -> impl Iterator<Item = (PartitionId, Version)> {
        self.floors.iter().map(|(&partition, floor)| (partition, floor.version))
    }

    pub fn striped(&self) -> impl Iterator<Item = &StripedFound> {
        self.striped.values()
    }

    pub fn take_striped(&mut self) -> impl Iterator<Item = StripedFound> + use<> {
        std::mem::take(&mut self.striped).into_values()
    }

    /// Stripes with what is replaced by something that is not certain, or of which the copy that counts is not.
    pub fn take_shadowed(&mut self) -> BTreeSet<StripeId> {
        self.shadow_stand_ins();
        std::mem::take(&mut self.shadowed)
    }

    /// Nothing is taken any more.
    pub fn take_newest(&mut self) -> NewestRecords {
        std::mem::take(&mut self.newest)
    }

    pub fn take_losses(&mut self) -> BTreeMap<StripeId, PartitionId> {
        std::mem::take(&mut self.lost)
    }

    /// Void stripes, each with the oldest record that says so: only that one is kept.
    pub fn take_voids(&mut self) -> BTreeMap<StripeId, VoidRecord> {
        let mut oldest = BTreeMap::new();
        for (void, records) in std::mem::take(&mut self.voids) {
            let mut records = records.into_iter();
            let Some((at, bytes)) = records.next() else { continue };
            oldest.insert(void, VoidRecord { at, bytes });
            for (at, bytes) in records {
                if let Some(slot) = self.stripes.slot_of(at) {
                    self.stripes.at_mut(slot).kept.drop_void(bytes);
                }
            }
        }
        oldest
    }
}
