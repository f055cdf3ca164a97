//! Requests about all keys: counting, listing, flushing, statistics.
//!
//! A scan's cursor is a slot and a tag: what an earlier step returned does not come again because the index grew, and
//! an object that exists throughout is met. Slots are walked upwards over all engines of the cluster: a step ends where
//! another engine's slots begin, so that a scan goes on wherever partitions move meanwhile. Keys are in the records, so
//! each step reads the records that it lists. A step that lists an object that cannot be read is an error as a whole:
//! left out, the object would seem gone. The client may ask with the same cursor again; it gets on once the object is
//! readable, stored anew or deleted. If only its stripe is gone, as what was alive in it moved while a node kept the
//! step waiting, the step begins anew. So it does a few times if something was damaged that it read: on its way
//! perhaps.
//!
//! Until it is known which record a durable write replaces, the index names both. They are counted as one object, and
//! listed as one: both have one tag, so one step reads them.

use shorttail_codes::ChunkSet;
use shorttail_store::record::{Record, record_bytes};
use shorttail_units::{PartitionId, SLOT_COUNT, Slot, StripeId, UnixMs, Version};

use super::fetch::{Extent, FetchError, FetchPurpose, Wanted};
use crate::command::StoreError;
use crate::engine::limits::{RANDOM_LOOKS_MAX, READ_AGAIN_MAX, SCAN_KEYS_MAX};
use crate::engine::state::index::{Location, Tag};
use crate::engine::state::pool::PoolKey;
use crate::engine::write::lock::{LockPhase, Old};
use crate::engine::write::manifest::Manifest;
use crate::engine::{Engine, Token, Work};
use crate::request::{KeyspaceReply, KeyspaceRequest, Reply, ScannedKey};

const TAG_BITS: u32 = Tag::COUNT.trailing_zeros();

/// Times that a step begins anew: each takes a stripe that was emptied while it was read.
const STEP_TRIES_MAX: u32 = 16;

/// Which keys are asked for.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) enum Listing {
    Scan {
        cursor: u64,
        count: usize,
        /// It ends with the slot of its cursor.
        is_of_slot: bool,
    },
    /// Any key. The one that was drawn may be over: then the next ones from there on, until one is alive.
    Random(Option<Around>),
}

/// Where a walk once around all slots goes on, and how many of them are left to it.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Around {
    slot: usize,
    first: u32,
    left: usize,
}

/// One step of a scan whose records are being read.
#[derive(Debug)]
pub struct ScanStep {
    pub(in crate::engine) token: Token,
    listing: Listing,
    /// When the index was read. Who was alive then is there: what follows it may not be listed.
    listed_ms: UnixMs,
    tries: u32,
    next: u64,
    /// What is looked at next if no random key is alive here.
    around: Option<Around>,
    found: Vec<Found>,
    missing: usize,
    has_failed: bool,
    /// Something that was read was no record.
    met_damage: bool,
    /// Of what was listed something lay in a stripe that is gone.
    is_outdated: bool,
}

/// A record that was listed.
#[derive(Debug)]
struct Found {
    version: Version,
    is_over: bool,
    key: ScannedKey,
}

impl Engine {
    pub(in crate::engine) fn keyspace(&mut self, token: Token, request: KeyspaceRequest) {
        match request {
            KeyspaceRequest::Count => self.answer(token, KeyspaceReply::Count(self.object_count())),
            KeyspaceRequest::Stats => self.answer(token, KeyspaceReply::Stats(Box::new(self.stats()))),
            KeyspaceRequest::CountSlot { slot } => {
                let named = Slot::new(slot).map_or(0, |slot| self.index.count_of(slot));
                let count = named - self.named_twice().filter(|twice| twice.index() == usize::from(slot)).count();
                self.answer(token, KeyspaceReply::Count(count as u64));
            }
            KeyspaceRequest::Flush { at, of } => self.flush(token, at, &of),
            KeyspaceRequest::Scan { cursor, count } => self.list(token, Listing::scan(cursor, count, false), 1),
            KeyspaceRequest::ListSlot { cursor, count } => self.list(token, Listing::scan(cursor, count, true), 1),
            KeyspaceRequest::RandomKey => self.list(token, Listing::Random(None), 1),
            KeyspaceRequest::Own(request) => self.keyspace(token, *request),
        }
    }

    /// Objects that the index names, each once.
    pub(in crate::engine) fn object_count(&self) -> u64 {
        self.index.object_count() - self.named_twice().count() as u64
    }

    /// Slots of keys that were written, durably, while the record that this replaces is still compared. That record may
    /// be of another key that is alike, which is then counted a moment later.
    fn named_twice(&self) -> impl Iterator<Item = Slot> {
        self.locks.iter().filter_map(|(_, lock)| {
            let LockPhase::Writing(round) = &lock.phase else { return None };
            let (written, _) = round.confirmed.filter(|_| matches!(round.old, Old::Unverified | Old::Unreadable))?;
            let alike = || self.index.candidates(lock.slot, lock.tag());
            (alike().any(|it| it == written) && alike().any(|it| it != written)).then_some(lock.slot)
        })
    }

    fn answer(&mut self, token: Token, reply: KeyspaceReply) {
        self.reply(token, Reply::Keyspace(Ok(reply)));
    }

    pub(in crate::engine) fn list(&mut self, token: Token, listing: Listing, tries: u32) {
        // What is listed might be gone, and what is not might be there.
        if self.has_losses() || self.has_doubts() {
            return self.reply(token, Reply::Keyspace(Err(StoreError::Unreadable)));
        }
        let (found, next, around) = match listing {
            Listing::Scan { cursor, count, is_of_slot } => {
                let (found, next) = self.objects_from(cursor, count, is_of_slot);
                (found, next, None)
            }
            Listing::Random(None) => {
                let (drawn, around) = self.some_object().unzip();
                (drawn.into_iter().collect(), 0, around)
            }
            Listing::Random(Some(from)) => {
                let (found, around) = self.objects_around(from);
                (found, 0, around)
            }
        };
        let missing = found.len();
        let step = ScanStep {
            token,
            listing,
            listed_ms: self.now.unix_ms,
            tries,
            next,
            around,
            found: Vec::new(),
            missing,
            has_failed: false,
            met_damage: false,
            is_outdated: false,
        };
        self.read_listed(step, found);
    }

    /// Objects from a cursor on, and the cursor behind them; 0: there is none.
    fn objects_from(&self, cursor: u64, count: usize, is_of_slot: bool) -> (Vec<Location>, u64) {
        let mut slot = usize::try_from(cursor >> TAG_BITS).unwrap_or(SLOT_COUNT);
        let mut first = (cursor & u64::from(Tag::COUNT - 1)) as u32;
        let end = if is_of_slot { (slot + 1).min(SLOT_COUNT) } else { self.end_of_run(slot) };
        let mut found = Vec::new();
        while slot < end && found.len() < count {
            let number = Slot::new(slot as u16).expect("below the slot count");
            let (entries, more) = self.index.list(number, first, count - found.len());
            found.extend(entries.into_iter().map(|(_, location)| location));
            (slot, first) = match more {
                Some(tag) => (slot, tag),
                None => (slot + 1, 0),
            };
        }
        let is_over = slot >= if is_of_slot { end } else { SLOT_COUNT };
        let next = if !is_over { (slot as u64) << TAG_BITS | u64::from(first) } else { 0 };
        (found, next)
    }

    /// The first slot after this one that may be another engine's: where a step of a scan ends, and
    /// another owner goes on.
    fn end_of_run(&self, slot: usize) -> usize {
        let Some(number) = u16::try_from(slot).ok().and_then(Slot::new) else { return slot };
        let mut last = self.config.partition_of(number);
        while self.config.partitions.contains(&PartitionId(last.0 + 1)) {
            last.0 += 1;
        }
        usize::from(last.slots(usize::from(self.config.partition_count)).end)
    }

    /// The first object at or after a place that changes from call to call, and a walk that begins there.
    fn some_object(&mut self) -> Option<(Location, Around)> {
        if self.index.object_count() == 0 {
            return None;
        }
        self.next_version += 1;
        let start = (self.next_version.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
        let mut slots = (0..SLOT_COUNT).map(|step| (start + step) % SLOT_COUNT);
        let is_used = |slot: &usize| self.index.count_of(Slot::new(*slot as u16).expect("below")) > 0;
        let slot = slots.find(is_used)?;
        let number = Slot::new(slot as u16).expect("below");
        let drawn = self.index.nth(number, start % self.index.count_of(number))?;
        Some((drawn, Around { slot, first: 0, left: SLOT_COUNT }))
    }

    /// The next objects of a walk, and where it goes on, if there may be more.
    fn objects_around(&self, from: Around) -> (Vec<Location>, Option<Around>) {
        let Around { mut slot, mut first, mut left } = from;
        let mut found = Vec::new();
        while left > 0 && found.len() < RANDOM_LOOKS_MAX {
            let number = Slot::new(slot as u16).expect("below the slot count");
            let (entries, more) = self.index.list(number, first, RANDOM_LOOKS_MAX - found.len());
            found.extend(entries.into_iter().map(|(_, location)| location));
            (slot, first, left) = match more {
                Some(tag) => (slot, tag, left),
                None => ((slot + 1) % SLOT_COUNT, 0, left - 1),
            };
        }
        (found, (left > 0).then_some(Around { slot, first, left }))
    }

    fn read_listed(&mut self, step: ScanStep, found: Vec<Location>) {
        let key = self.scans.insert(step);
        if found.is_empty() {
            return self.end_scan(key);
        }
        for location in found {
            let (slot, data_index) = self.stripes.place_of(location);
            let stripe = self.stripes.at(slot);
            if let Some(open) = &stripe.open {
                let held = &open.chunk(data_index)[usize::from(location.offset)..];
                let length = record_bytes(held).map_or(held.len(), |length| length.min(held.len()));
                let (record, id) = (held[..length].to_vec(), stripe.id);
                self.scan_listed(key, &record, id);
                continue;
            }
            let offset = u32::from(location.offset);
            self.start_fetch(self.wanted(slot, data_index, offset, Extent::Record, FetchPurpose::Scan(key)));
        }
    }

    pub(super) fn scan_fetched(
        &mut self,
        key: PoolKey,
        wanted: Wanted,
        excluded: ChunkSet,
        result: Result<&[u8], FetchError>,
    ) {
        let (is_direct, without) = (!excluded.contains(wanted.data_index), excluded | wanted.own());
        let is_record = |bytes: &[u8]| Record::parse(bytes, wanted.stripe).is_ok();
        if let (Some(step), Ok(bytes)) = (self.scans.get_mut(key), result) {
            step.met_damage |= !is_record(bytes);
        }
        if is_direct && result.is_ok_and(|bytes| !is_record(bytes)) {
            self.suspect_chunk(wanted.holder(), wanted.stripe);
        }
        match result {
            Ok(bytes) if is_record(bytes) => self.scan_listed(key, bytes, wanted.stripe),
            Ok(_) if is_direct => self.start_fetch_without(wanted, without),
            // The object was moved, replaced or deleted since the step began: it may be left out only if it is gone.
            Err(FetchError::Gone) if self.stripes.slot_of(wanted.stripe).is_some() => {
                self.start_fetch_without(wanted, without);
            }
            Ok(_) | Err(_) => {
                let is_gone = self.stripes.slot_of(wanted.stripe).is_none();
                if let Some(step) = self.scans.get_mut(key) {
                    step.is_outdated |= is_gone;
                    step.has_failed |= !is_gone;
                    step.missing -= 1;
                }
                self.end_scan(key);
            }
        }
    }

    fn scan_listed(&mut self, key: PoolKey, bytes: &[u8], stripe: StripeId) {
        let Some(step) = self.scans.get_mut(key) else { return };
        step.missing -= 1;
        if let Ok((record, _)) = Record::parse(bytes, stripe) {
            let manifest = Manifest::of(&record);
            let key = ScannedKey {
                key: record.key.to_vec(),
                value_bytes: manifest.map_or(record.value.len(), |manifest| manifest.value_bytes),
                expiry: record.expiry,
            };
            step.found.push(Found { version: record.version, is_over: record.is_over(step.listed_ms), key });
        }
        self.end_scan(key);
    }

    fn end_scan(&mut self, key: PoolKey) {
        if self.scans.get(key).is_none_or(|step| step.missing > 0) {
            return;
        }
        let mut step = self.scans.remove(key).expect("it was there");
        let mut keys = alive(std::mem::take(&mut step.found));
        if matches!(step.listing, Listing::Random(_)) && !keys.is_empty() {
            let key = keys.swap_remove(0).key;
            return self.answer(step.token, KeyspaceReply::RandomKey(Some(key)));
        }
        if step.tries < step.tries_max() {
            return self.list(step.token, step.listing.again(step.is_outdated), step.tries + 1);
        }
        let result = match step.listing {
            _ if step.has_failed => Err(StoreError::Unreadable),
            _ if step.is_outdated => Err(StoreError::Overloaded),
            Listing::Random(_) => match step.around {
                Some(_) => return self.work.push_back(Work::List(step.token, Listing::Random(step.around))),
                None => Ok(KeyspaceReply::RandomKey(None)),
            },
            Listing::Scan { .. } => Ok(KeyspaceReply::Scanned { next: step.next, keys }),
        };
        self.reply(step.token, Reply::Keyspace(result));
    }
}

impl Listing {
    fn scan(cursor: u64, count: usize, is_of_slot: bool) -> Self {
        Listing::Scan { cursor, count: count.clamp(1, SCAN_KEYS_MAX), is_of_slot }
    }

    /// As it is asked again. Of fewer objects fewer are moved while they are read.
    fn again(self, is_outdated: bool) -> Self {
        match self {
            Listing::Scan { cursor, count, is_of_slot } if is_outdated => {
                Listing::Scan { cursor, count: count.div_ceil(2), is_of_slot }
            }
            other => other,
        }
    }
}

impl ScanStep {
    /// How often it may begin in all; 0: what it found, or that it failed, is the answer.
    fn tries_max(&self) -> u32 {
        match (self.has_failed, self.met_damage, self.is_outdated) {
            (true, true, _) => 1 + u32::from(READ_AGAIN_MAX),
            (false, _, true) => STEP_TRIES_MAX,
            (true, false, _) | (false, _, false) => 0,
        }
    }
}

/// What of these is the newest of its key, and not over.
fn alive(mut found: Vec<Found>) -> Vec<ScannedKey> {
    found.sort_unstable_by(|one, other| one.key.key.cmp(&other.key.key).then(other.version.cmp(&one.version)));
    found.dedup_by(|later, first| later.key.key == first.key.key);
    found.into_iter().filter(|it| !it.is_over).map(|it| it.key).collect()
}

/// The slot at which a scan with this cursor goes on; `None`: no step answered such a cursor.
pub fn cursor_slot(cursor: u64) -> Option<Slot> {
    u16::try_from(cursor >> TAG_BITS).ok().and_then(Slot::new)
}

/// The cursor with which a scan begins at a slot.
pub fn cursor_of(slot: Slot) -> u64 {
    (slot.index() as u64) << TAG_BITS
}

#[cfg(test)]
mod tests;
