//! Finding the record of a key: index, then the owner's memory or a fetch, then comparing the key in the record.

use shorttail_codes::ChunkSet;
use shorttail_policy::Update;
use shorttail_store::record::{Record, RecordKind};
use shorttail_units::{Now, StripeId, Version};
use smallvec::SmallVec;

use super::fetch::{Extent, FetchError, FetchPurpose, Wanted};
use crate::command::{ApplyContext, Attributes, BoxCommand, ObjectRef, StoreError, Wants};
use crate::engine::limits::{LOOKUP_RESTARTS_MAX, READ_AGAIN_MAX};
use crate::engine::state::index::{HashedKey, Location};
use crate::engine::state::pool::PoolKey;
use crate::engine::write::lock::{KeyBytes, LockPhase, Old, Waiting};
use crate::engine::write::manifest::Manifest;
use crate::engine::write::object::{Object, ObjectData, OldRecord};
use crate::engine::write::round::Round;
use crate::engine::write::striped_read::Reader;
use crate::engine::{Engine, KeyRef, Token};
use crate::request::Reply;

/// Who looks, and for what.
#[derive(Debug)]
pub enum LookupPurpose {
    /// A reading command. `is_next`: it waited for room for the value, which was replaced meanwhile.
    Read { token: Token, command: BoxCommand, is_next: bool },
    /// A round needs the current object.
    Round { lock: PoolKey, wants_value: bool },
    /// A round that replaces the object unseen needs to know which record it replaces.
    Verify { lock: PoolKey, version: Version },
    /// An eviction needs to know whether the key still holds the object whose first stripe this is.
    Evict { lock: PoolKey, first: StripeId },
    /// A group needs to know which record it replaces; unless it is blind, whether the key exists.
    Group { group: PoolKey, pair: u32, is_blind: bool },
}

#[derive(Debug)]
pub struct Lookup {
    pub purpose: LookupPurpose,
    hashed: HashedKey,
    /// Key, unless the purpose has it.
    key: KeyBytes,
    candidates: SmallVec<[Location; 2]>,
    restarts: u32,
    /// Something that was read is damaged, perhaps on its way only; and how often all was read again for that.
    met_damage: bool,
    rereads: u8,
    /// A candidate could not be read: absence cannot be claimed.
    is_doubtful: bool,
    /// A candidate never will be read.
    is_lost: bool,
}

impl Lookup {
    fn key_ref(&self) -> KeyRef<'_> {
        let bytes = match &self.purpose {
            LookupPurpose::Read { command, .. } => command.key(),
            _ => &self.key,
        };
        KeyRef { bytes, hashed: self.hashed }
    }

    fn new(purpose: LookupPurpose, key: KeyRef<'_>, candidates: SmallVec<[Location; 2]>) -> Self {
        let KeyRef { bytes, hashed } = key;
        let key = KeyBytes::from_slice(bytes);
        Lookup {
            purpose,
            hashed,
            key,
            candidates,
            restarts: 0,
            met_damage: false,
            rereads: 0,
            is_doubtful: false,
            is_lost: false,
        }
    }

    /// Does what it finds go beyond which record is to be replaced?
    fn shows(&self) -> bool {
        use LookupPurpose::{Evict, Group, Verify};
        !matches!(self.purpose, Verify { .. } | Evict { .. } | Group { is_blind: true, .. })
    }
}

/// What near memory says about a candidate.
enum Nearby {
    Found(OldRecord, Digest),
    OtherKey,
    /// It is not there, or not near.
    Unknown,
}

/// What a record means to a lookup.
enum Digest {
    /// The reading command is answered.
    Answer(Vec<u8>),
    /// The object for a round, or one whose value lies in stripes.
    Object(Object),
    /// The record is of this key and expired.
    Expired,
    /// Which record it is was all that was asked.
    Unseen,
}

impl Engine {
    /// Answers a reading command, or starts to find out what it reads.
    pub(in crate::engine) fn read(&mut self, token: Token, command: BoxCommand) {
        self.read_as(token, command, false);
    }

    /// What was read, or was to be, was replaced: the key is looked up anew, and its value comes before all that wait.
    pub(in crate::engine) fn read_replaced(&mut self, token: Token, command: BoxCommand) {
        self.read_as(token, command, true);
    }

    fn read_as(&mut self, token: Token, command: BoxCommand, is_next: bool) {
        let key = self.key_ref(command.key());
        let hashed = key.hashed;
        let (slot, tag) = (hashed.slot, hashed.tag());
        let mut candidates: SmallVec<[Location; 2]> = SmallVec::new();
        if let Some(lock) = self.locks.find(key) {
            let lock = self.locks.get_mut(lock).expect("it was found");
            match &lock.phase {
                LockPhase::Moving(_) if lock.queue.is_empty() => {
                    candidates.extend(self.index.candidates(slot, tag));
                }
                LockPhase::Writing(round) if lock.queue.is_empty() && round.confirmed.is_some() => {
                    // A flush may have ended what was written; its stripe may be gone.
                    let written = round.confirmed.map(|(location, _)| location);
                    candidates.extend(written.filter(|&it| self.index.contains(slot, tag, it)));
                }
                LockPhase::Writing(round)
                    if lock.queue.is_empty() && round.is_delete_to_come() && !round.is_asked_by(token.connection) =>
                {
                    candidates.extend(self.index.candidates(slot, tag));
                }
                // A write of this key is under way: the read follows it (rule R10).
                _ => {
                    self.deferred.press();
                    return lock.queue.push_back(Waiting::Command(token, command));
                }
            }
        } else {
            candidates.extend(self.index.candidates(slot, tag));
        }
        let purpose = LookupPurpose::Read { token, command, is_next };
        self.advance_lookup(Lookup::new(purpose, KeyRef { bytes: &[], hashed }, candidates));
    }

    pub(in crate::engine) fn begin_lookup(&mut self, key: KeyRef<'_>, purpose: LookupPurpose) {
        let candidates = self.index.candidates(key.slot, key.tag()).collect();
        let mut lookup = Lookup::new(purpose, key, candidates);
        self.skip_own_record(&mut lookup);
        self.advance_lookup(lookup);
    }

    /// A round that looks for what it replaces does not mean the record that it has written.
    fn skip_own_record(&self, lookup: &mut Lookup) {
        let LookupPurpose::Verify { lock, .. } = lookup.purpose else { return };
        let Some(LockPhase::Writing(round)) = self.locks.get(lock).map(|lock| &lock.phase) else { return };
        if let Some((own, _)) = round.confirmed {
            lookup.candidates.retain(|candidate| *candidate != own);
        }
    }

    /// Goes on after a fetch. What is left was listed before it: a record may have moved since, and its stripe be gone.
    fn resume_lookup(&mut self, lookup: Lookup) {
        let (slot, tag) = (lookup.hashed.slot, lookup.hashed.tag());
        if lookup.candidates.iter().all(|&it| self.index.contains(slot, tag, it)) {
            self.advance_lookup(lookup);
        } else {
            self.restart_lookup(lookup);
        }
    }

    /// Looks at the candidates, all of which the index names, one by one until one is the key's record.
    fn advance_lookup(&mut self, mut lookup: Lookup) {
        while let Some(location) = lookup.candidates.pop() {
            let (slot, data_index) = self.stripes.place_of(location);
            let stripe = self.stripes.at(slot);
            let held = match &stripe.open {
                Some(open) => Some(&open.chunk(data_index)[usize::from(location.offset)..]),
                None => stripe.manifests.get(location),
            };
            let Some(bytes) = held else {
                match self.look_near(&mut lookup, location) {
                    Nearby::Found(old, digest) => return self.lookup_found(lookup, old, digest),
                    Nearby::OtherKey => continue,
                    Nearby::Unknown => return self.fetch_candidate(lookup, location),
                }
            };
            let (record, length) = Record::parse(bytes, stripe.id).expect("the owner's own bytes are a record");
            if record.key != lookup.key_ref().bytes {
                continue;
            }
            let old = OldRecord::of(&record, location, length);
            let digest = self.digest(&mut lookup, &record, location);
            return self.lookup_found(lookup, old, digest);
        }
        self.lookup_absent(lookup);
    }

    /// Looks at a candidate in near memory.
    fn look_near(&mut self, lookup: &mut Lookup, location: Location) -> Nearby {
        let (slot, data_index) = self.stripes.place_of(location);
        let mut bytes = std::mem::take(&mut self.near.buffer);
        let mut nearby = Nearby::Unknown;
        if self.read_near(slot, data_index, location.offset, &mut bytes) {
            nearby = match Record::parse(&bytes, self.stripes.at(slot).id) {
                Ok((record, _)) if record.key != lookup.key_ref().bytes => Nearby::OtherKey,
                Ok((record, length)) => {
                    self.stats.totals.near_reads_total += 1;
                    self.record_guess.learn(length);
                    if record.kind == RecordKind::Manifest {
                        self.stripes.at_mut(slot).manifests.keep(location, &bytes[..length]);
                    }
                    Nearby::Found(OldRecord::of(&record, location, length), self.digest(lookup, &record, location))
                }
                Err(_) => {
                    self.forget_places(slot);
                    Nearby::Unknown
                }
            };
        }
        self.near.buffer = bytes;
        nearby
    }

    fn fetch_candidate(&mut self, lookup: Lookup, location: Location) {
        let (slot, data_index) = self.stripes.place_of(location);
        // Before a value is overwritten in place, its nodes must be known.
        let is_awaited = self.policy(self.stripes.at(slot).partition).update == Update::InPlace;
        let can_wait = matches!(lookup.purpose, LookupPurpose::Verify { .. }) && !is_awaited;
        let key = self.lookups.insert(lookup);
        let offset = u32::from(location.offset);
        let wanted = self.wanted(slot, data_index, offset, Extent::Record, FetchPurpose::Lookup(key));
        if can_wait { self.deferred.push(self.now, wanted) } else { self.start_fetch(wanted) }
    }

    pub(super) fn lookup_fetched(
        &mut self,
        key: PoolKey,
        wanted: Wanted,
        excluded: ChunkSet,
        result: Result<&[u8], FetchError>,
    ) {
        let Some(mut lookup) = self.lookups.remove(key) else { return };
        let location = self
            .stripes
            .slot_of(wanted.stripe)
            .map(|slot| self.stripes.location(slot, wanted.data_index, wanted.offset as usize));
        let (slot, tag) = (lookup.hashed.slot, lookup.hashed.tag());
        let is_current = location.is_some_and(|location| self.index.contains(slot, tag, location));
        let is_read = matches!(lookup.purpose, LookupPurpose::Read { .. });
        match result {
            Ok(bytes) => match Record::parse(bytes, wanted.stripe) {
                Ok((record, _)) if record.key != lookup.key_ref().bytes => self.resume_lookup(lookup),
                // A record that is no longer the committed one may still answer a read that began before, but not once
                // it is over: the key may have had a value all the time. Anything that goes on to change the key must
                // see the committed one.
                Ok((record, _)) if !is_current && (!is_read || record.is_over(self.now.unix_ms)) => {
                    self.restart_lookup(lookup);
                }
                Ok((record, length)) => {
                    self.record_guess.learn(length);
                    let location = location.unwrap_or(Location { chunk_number: 0, offset: 0 });
                    let old = OldRecord::of(&record, location, length);
                    if is_current && record.kind == RecordKind::Manifest {
                        let (slot, _) = self.stripes.place_of(location);
                        self.stripes.at_mut(slot).manifests.keep(location, &bytes[..length]);
                    }
                    let digest = self.digest(&mut lookup, &record, location);
                    if is_current {
                        self.locate(self.stripes.place_of(location).0);
                    }
                    self.lookup_found(lookup, old, digest);
                }
                Err(_) if !is_current => self.restart_lookup(lookup),
                Err(error) => {
                    // The bytes are not a record: an erasure. Decode it from the others, if that was not tried.
                    lookup.met_damage = true;
                    if !excluded.contains(wanted.data_index) {
                        tracing::warn!(stripe = ?wanted.stripe, offset = wanted.offset, %error, "damaged record");
                        self.suspect_chunk(wanted.holder(), wanted.stripe);
                        let key = self.lookups.insert(lookup);
                        let without = excluded | wanted.own();
                        let wanted = Wanted { purpose: FetchPurpose::Lookup(key), ..wanted };
                        return self.start_fetch_without(wanted, without);
                    }
                    self.candidate_unreadable(lookup, location);
                }
            },
            Err(_) if !is_current => self.restart_lookup(lookup),
            Err(FetchError::Gone) => {
                // The index still names it, so the node lost the chunk: decode it.
                let key = self.lookups.insert(lookup);
                let wanted = Wanted { purpose: FetchPurpose::Lookup(key), ..wanted };
                self.start_fetch_without(wanted, excluded);
            }
            Err(FetchError::Unreadable) => self.candidate_unreadable(lookup, location),
        }
    }

    fn candidate_unreadable(&mut self, mut lookup: Lookup, location: Option<Location>) {
        if std::mem::take(&mut lookup.met_damage) && lookup.rereads < READ_AGAIN_MAX {
            lookup.rereads += 1;
            return self.restart_lookup(lookup);
        }
        match location.is_some_and(|location| self.is_lost_for_good(location)) {
            true => lookup.is_lost = true,
            false => lookup.is_doubtful = true,
        }
        self.resume_lookup(lookup);
    }

    /// The object moved or changed while it was looked for.
    fn restart_lookup(&mut self, mut lookup: Lookup) {
        lookup.restarts += 1;
        if lookup.restarts > LOOKUP_RESTARTS_MAX {
            lookup.is_doubtful = true;
            lookup.candidates.clear();
            return self.lookup_absent(lookup);
        }
        lookup.candidates = self.index.candidates(lookup.hashed.slot, lookup.hashed.tag()).collect();
        (lookup.is_doubtful, lookup.is_lost) = (false, false);
        self.skip_own_record(&mut lookup);
        self.skip_replaced(&mut lookup);
        self.advance_lookup(lookup);
    }

    /// A read that begins anew may have begun after a write was acknowledged whose comparison is not done: the index
    /// names what was replaced, too. It may see the write, whenever it began.
    fn skip_replaced(&self, lookup: &mut Lookup) {
        if !matches!(lookup.purpose, LookupPurpose::Read { .. }) {
            return;
        }
        let lock = self.locks.find(lookup.key_ref()).and_then(|lock| self.locks.get(lock));
        if let Some(LockPhase::Writing(round)) = lock.map(|lock| &lock.phase)
            && let Some((written, _)) = round.confirmed
        {
            lookup.candidates.retain(|candidate| *candidate == written);
        }
    }

    fn digest(&self, lookup: &mut Lookup, record: &Record<'_>, location: Location) -> Digest {
        if !lookup.shows() {
            return Digest::Unseen;
        }
        let key = lookup.hashed;
        let fetched = self.index.was_fetched(key.slot, key.tag(), location);
        let idle_s = self.recent.idle_s(key.hash, self.now.unix_ms.seconds());
        digest(lookup, record, fetched, idle_s, self.now)
    }

    fn lookup_found(&mut self, mut lookup: Lookup, old: OldRecord, digest: Digest) {
        let is_gone = matches!(digest, Digest::Expired) && self.is_unsettled(lookup.hashed.hash);
        if lookup.shows() && (is_gone || self.may_be_another(&lookup, Some(old.version))) {
            lookup.is_doubtful = true;
            return self.lookup_absent(lookup);
        }
        if matches!(digest, Digest::Expired)
            && let Some(newer) = self.written_beside(&lookup, old.location)
        {
            lookup.candidates.clear();
            lookup.candidates.push(newer);
            return self.advance_lookup(lookup);
        }
        match (lookup.purpose, digest) {
            (LookupPurpose::Read { token, command, is_next }, digest) => {
                let found = (lookup.hashed, old.location);
                self.read_found(token, command, is_next, found, digest);
            }
            (LookupPurpose::Round { lock, .. }, Digest::Expired) => {
                self.round_current(lock, None, Old::Present(old));
            }
            (LookupPurpose::Round { lock, wants_value }, Digest::Object(object)) => {
                if wants_value && matches!(object.data, ObjectData::Striped { .. }) {
                    self.load_striped(Reader::Round { lock, old }, object, false);
                } else {
                    self.round_current(lock, Some(object), Old::Present(old));
                }
            }
            (LookupPurpose::Evict { lock, first }, _) => self.eviction_found(lock, first, Old::Present(old)),
            (LookupPurpose::Verify { lock, version }, _) => self.round_verified(lock, version, Old::Present(old)),
            (LookupPurpose::Group { group, pair, .. }, digest) => {
                let exists = !matches!(digest, Digest::Expired);
                self.group_current(group, pair, exists, Old::Present(old));
            }
            (LookupPurpose::Round { .. }, Digest::Answer(_)) => unreachable!("only reads are answered by a digest"),
            (LookupPurpose::Round { .. }, Digest::Unseen) => unreachable!("rounds see what they find"),
        }
    }

    /// The record that a command reads is found, of this key at this place.
    fn read_found(
        &mut self,
        token: Token,
        command: BoxCommand,
        is_next: bool,
        found: (HashedKey, Location),
        digest: Digest,
    ) {
        match digest {
            Digest::Expired if self.is_written_now(&command) => self.read(token, command),
            Digest::Expired => {
                self.stats.met_expired_total += 1;
                self.answer_absent(token, command);
            }
            Digest::Answer(reply) => {
                self.note_read(&command, found);
                self.answer_key(token, command, reply);
            }
            Digest::Object(object) => {
                if let Some(large) = Reply::large(&*command, object.data.value_bytes()) {
                    return self.reply_error(token, large);
                }
                self.note_read(&command, found);
                self.load_striped(Reader::Command { token, command }, object, is_next);
            }
            Digest::Unseen => unreachable!("reads see what they find"),
        }
    }

    fn note_read(&mut self, command: &BoxCommand, (key, location): (HashedKey, Location)) {
        if command.touches() {
            self.index.mark_read(key.slot, key.tag(), location);
            self.recent.touch(key.hash, self.now.unix_ms.seconds());
        }
    }

    /// What was written to the key while the index still names the record that was found, as it was not yet compared:
    /// a read that began before may show that one, but not its end. The key may have had a value all the time.
    fn written_beside(&self, lookup: &Lookup, found: Location) -> Option<Location> {
        let key = lookup.key_ref();
        let lock = self.locks.find(key).and_then(|lock| self.locks.get(lock))?;
        let LockPhase::Writing(round) = &lock.phase else { return None };
        let (written, _) = round.confirmed?;
        // It is not there if it was a removal, or has been flushed.
        (written != found && self.index.contains(key.slot, key.tag(), written)).then_some(written)
    }

    /// Is a write of the key under way that began after the read? It may have seen the value before its end: then there
    /// is one all the time, if it succeeds. So the read follows it.
    fn is_written_now(&self, command: &BoxCommand) -> bool {
        let lock = self.locks.find(self.key_ref(command.key())).and_then(|lock| self.locks.get(lock));
        // A delete that is to come leaves none.
        let is_followed = |round: &Round| round.confirmed.is_none() && !round.is_delete_to_come();
        lock.is_some_and(|lock| matches!(&lock.phase, LockPhase::Writing(round) if is_followed(round)))
    }

    /// May there be something else of the key than a record of this version, or than nothing?
    fn may_be_another(&self, lookup: &Lookup, found: Option<Version>) -> bool {
        self.is_overshadowed(lookup.hashed.slot, found) || self.is_in_doubt(lookup.hashed, found)
    }

    /// May there be something of a key that the index does not name?
    pub(in crate::engine) fn is_absence_doubtful(&self, key: HashedKey) -> bool {
        self.may_be_outlived(key)
            || self.is_unsettled(key.hash)
            || self.is_overshadowed(key.slot, None)
            || self.is_in_doubt(key, None)
    }

    fn lookup_absent(&mut self, mut lookup: Lookup) {
        lookup.is_lost |= self.may_be_outlived(lookup.hashed);
        lookup.is_doubtful |= lookup.shows() && (lookup.is_lost || self.is_absence_doubtful(lookup.hashed));
        let old = if lookup.is_doubtful {
            Old::Unreadable
        } else if lookup.is_lost {
            Old::Lost
        } else {
            Old::Absent
        };
        match lookup.purpose {
            LookupPurpose::Read { token, command, .. } if lookup.is_doubtful => {
                self.refuse(token, &command, StoreError::Unreadable);
            }
            LookupPurpose::Read { token, command, .. } => self.answer_absent(token, command),
            LookupPurpose::Round { lock, .. } if lookup.is_doubtful => {
                self.round_unreadable(lock);
            }
            LookupPurpose::Round { lock, .. } => self.round_current(lock, None, old),
            LookupPurpose::Verify { lock, version } => self.round_verified(lock, version, old),
            LookupPurpose::Evict { lock, first } => self.eviction_found(lock, first, old),
            LookupPurpose::Group { group, .. } if lookup.is_doubtful => {
                self.fail_group(group, StoreError::Unreadable);
            }
            LookupPurpose::Group { group, pair, .. } => self.group_current(group, pair, false, old),
        }
    }

    fn answer_absent(&mut self, token: Token, mut command: BoxCommand) {
        let mut reply = Vec::new();
        let context = ApplyContext { now: self.now, version: Default::default() };
        command.apply(None, &context, &mut reply);
        self.answer_key(token, command, reply);
    }

    pub(in crate::engine) fn refuse(&mut self, token: Token, command: &BoxCommand, error: StoreError) {
        let mut reply = Vec::new();
        command.refuse(error, &mut reply);
        self.count_refused(error);
        self.reply_error(token, Reply::Bytes(reply));
    }
}

fn digest(lookup: &mut Lookup, record: &Record<'_>, fetched: bool, idle_s: u32, now: Now) -> Digest {
    if record.is_over(now.unix_ms) {
        return Digest::Expired;
    }
    let manifest = Manifest::of(record);
    let value_bytes = manifest.as_ref().map_or(record.value.len(), |manifest| manifest.value_bytes);
    let has_all = |command: &BoxCommand| manifest.is_none() || command.wants() != Wants::Value;
    if let LookupPurpose::Read { command, .. } = &mut lookup.purpose
        && has_all(command)
    {
        let object = ObjectRef {
            value: if manifest.is_none() { record.value } else { &[] },
            value_bytes,
            flags: record.flags,
            expiry: record.expiry,
            cas: record.cas_token(),
            attributes: Attributes(record.attributes),
            fetched,
            idle_s,
        };
        let mut reply = Vec::new();
        command.apply(Some(object), &ApplyContext { now, version: record.version }, &mut reply);
        return Digest::Answer(reply);
    }
    let data = match manifest {
        Some(manifest) => ObjectData::Striped { manifest, value: None },
        None => ObjectData::Inline(record.value.to_vec()),
    };
    Digest::Object(Object {
        data,
        flags: record.flags,
        expiry: record.expiry,
        cas: record.cas_token(),
        attributes: Attributes(record.attributes),
        fetched,
        idle_s,
    })
}

#[cfg(test)]
mod tests;
