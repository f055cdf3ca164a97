//! Reclaiming memory: jobs empty a stripe, then it is declared void and freed.
//!
//! A job reads the stripe chunk by chunk (from the owner's memory, the nodes, or decoded) and looks at each record. One
//! that the index still names is alive: it is moved to the end of the log, with its version, or evicted. A tombstone or
//! control record is carried over while something older may still exist that it ended (rule R3). A record whose key is
//! locked is left for the next pass, so that records of a key never overtake each other.
//!
//! Which stripe: the emptiest one while there is garbage to gain; when all is alive and memory is short, the oldest one,
//! whose objects that were not read lately are evicted (a second chance for the others, as in CLOCK). The oldest, because
//! what it evicts cannot come back from an older stripe.

use shorttail_store::record::{Control, Record, RecordKind};
use shorttail_units::{OpNumber, PartitionId, Slot, StripeId};

use super::fetch::{Extent, FetchError, FetchPurpose, Wanted};
use super::index::{Location, StripeSlot};
use super::limits::{CLEAN_LIVE_SHARE_MAX, JOB_RETRY_US, JOBS_MAX, MOVES_IN_FLIGHT_BYTES};
use super::lock::{LockPhase, Move};
use super::log::{Purpose, Urgency};
use super::lookup::old_record;
use super::pool::PoolKey;
use super::round::Placed;
use super::stripes::{Stripe, StripePhase};
use super::{Engine, Tag, WhenFull, Work};
use crate::command::Command;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Everything alive is kept.
    Move,
    /// What was not read lately goes.
    Evict,
}

#[derive(Debug)]
enum Source {
    /// The next chunk is to be loaded.
    Next,
    Loading,
    Loaded {
        bytes: Vec<u8>,
        offset: usize,
    },
}

#[derive(Debug)]
pub struct Job {
    slot: StripeSlot,
    id: StripeId,
    partition: PartitionId,
    mode: Mode,
    data_index: usize,
    source: Source,
    in_flight_count: usize,
    in_flight_bytes: usize,
    /// Chunks were all walked, but something alive could not be dealt with: walk again, not before this time.
    again_us: u64,
    /// This walk found carried records already: a further walk must not carry them twice.
    has_carried: bool,
    /// Chunks that the bytes at hand were read without, because they proved damaged.
    excluded: u128,
}

/// What became of one record.
enum Step {
    Done,
    /// No place for it now.
    Wait,
    /// The bytes are not a record.
    Damaged,
}

impl<C: Command> Engine<C> {
    /// Starts emptying a stripe whose phase is Leaving.
    pub(super) fn start_leaving(&mut self, slot: StripeSlot) {
        self.start_job(slot, Mode::Move);
    }

    fn start_job(&mut self, slot: StripeSlot, mode: Mode) {
        let stripe = self.stripes.at(slot);
        let job = self.jobs.insert(Job {
            slot,
            id: stripe.id,
            partition: stripe.partition,
            mode,
            data_index: 0,
            source: Source::Next,
            in_flight_count: 0,
            in_flight_bytes: 0,
            again_us: 0,
            has_carried: false,
            excluded: 0,
        });
        self.work.push_back(Work::Job(job));
    }

    /// Starts jobs while there is something to gain, and lets waiting ones go on.
    pub(super) fn start_jobs(&mut self) {
        for key in self.jobs.iter().map(|(key, _)| key).collect::<Vec<_>>() {
            self.work.push_back(Work::Job(key));
        }
        self.evict_striped();
        while self.jobs.len() < JOBS_MAX {
            let Some((slot, mode)) = self.choose_victim() else { return };
            self.stripes.at_mut(slot).become_phase(StripePhase::Leaving);
            self.start_job(slot, mode);
        }
    }

    fn choose_victim(&self) -> Option<(StripeSlot, Mode)> {
        let is_short = self.is_short_of_memory();
        if !is_short && !self.has_much_garbage() {
            return None;
        }
        let now = self.now.unix_ms;
        let sealed = self.stripes.iter().filter(|(_, stripe)| stripe.phase() == StripePhase::Sealed);
        let emptiest = sealed.min_by_key(|(_, stripe)| stripe.live_estimate(now) + stripe.kept_bytes)?;
        if self.live_share(emptiest.1) <= CLEAN_LIVE_SHARE_MAX {
            return Some((emptiest.0, Mode::Move));
        }
        if let Some(worn) = self.choose_worn() {
            return Some((worn, Mode::Move));
        }
        if !is_short || self.config.when_full == WhenFull::Error || self.jobs.len() > 1 {
            return None;
        }
        let oldest = self.logs.keys().filter_map(|&partition| self.stripes.by_age(partition).next());
        let oldest = oldest.filter(|&(_, slot)| self.stripes.at(slot).phase() == StripePhase::Sealed);
        // Where a striped object is older still, it goes first.
        let oldest = oldest.min_by_key(|&(id, _)| id).filter(|&(id, _)| self.oldest_striped().is_none_or(|it| it > id));
        oldest.map(|(_, slot)| (slot, Mode::Evict))
    }

    /// The oldest stripe of a partition, if little in it is alive: nothing older is left that its tombstones end.
    fn choose_worn(&self) -> Option<StripeSlot> {
        let capacity = (self.config.data_count() * self.config.chunk_bytes) as f64;
        let oldest = self.logs.keys().filter_map(|&partition| self.stripes.by_age(partition).next());
        let mut oldest = oldest.map(|(_, slot)| (slot, self.stripes.at(slot)));
        let is_worn = |stripe: &Stripe<Purpose>| {
            let live_share = stripe.live_estimate(self.now.unix_ms) as f64 / capacity;
            stripe.phase() == StripePhase::Sealed && stripe.kept_bytes > 0 && live_share <= CLEAN_LIVE_SHARE_MAX
        };
        oldest.find(|(_, stripe)| is_worn(stripe)).map(|(slot, _)| slot)
    }

    pub(super) fn is_short_of_memory(&self) -> bool {
        !self.stalled.is_empty() || self.spare_stripes() <= self.reserved_stripes() * 2
    }

    /// Share of a stripe's records that cleaning would have to keep. The unused tails of its chunks do not count: the same
    /// records would leave such tails again.
    fn live_share(&self, stripe: &Stripe<Purpose>) -> f64 {
        let used: u64 = stripe.fills.iter().map(|&fill| u64::from(fill)).sum();
        // A stripe that was sealed early gains its room.
        let used = used.max((self.config.data_count() * self.config.chunk_bytes) as u64 * 3 / 4);
        (stripe.live_estimate(self.now.unix_ms) + stripe.kept_bytes) as f64 / used.max(1) as f64
    }

    /// Do packed stripes take much more memory than what is stored in them?
    fn has_much_garbage(&self) -> bool {
        let stripe_bytes = (self.config.data_count() * self.config.chunk_bytes) as f64;
        let slack = (self.stripes.unsealed().len() + self.jobs.len() + 1) as f64;
        let taken = (self.stripes.len() as f64 - slack) * stripe_bytes;
        let striped: u64 = self.striped.values().map(|object| object.manifest.value_bytes as u64).sum();
        taken > self.config.clean_above * self.stats.bytes_stored.saturating_sub(striped) as f64
    }

    /// Can a write that waits for memory hope?
    pub(super) fn can_reclaim(&self) -> bool {
        !self.jobs.is_empty()
            || self.is_reclaiming()
            || self.choose_victim().is_some()
            || self.evictions > 0
            || self.stripes.unsealed().iter().any(|&slot| self.stripes.at(slot).phase() == StripePhase::Sealing)
    }

    pub(super) fn advance_job(&mut self, key: PoolKey) {
        let is_flushing = self.is_flushing();
        loop {
            let Some(job) = self.jobs.get_mut(key) else { return };
            if job.in_flight_bytes >= MOVES_IN_FLIGHT_BYTES || job.again_us > self.now.mono_us || is_flushing {
                return;
            }
            match &mut job.source {
                Source::Loading => return,
                Source::Next if job.data_index == self.config.data_count() => return self.end_walk(key),
                Source::Next => self.load_chunk(key),
                Source::Loaded { bytes, offset } => {
                    let (bytes, start) = (std::mem::take(bytes), *offset);
                    let (offset, step) = self.walk(key, &bytes, start);
                    if matches!(step, Step::Damaged) {
                        return self.load_without_damaged(key);
                    }
                    let Some(job) = self.jobs.get_mut(key) else { return };
                    let is_over = offset >= bytes.len();
                    job.source = if is_over { Source::Next } else { Source::Loaded { bytes, offset } };
                    job.data_index += usize::from(is_over);
                    if matches!(step, Step::Wait) {
                        return;
                    }
                }
            }
        }
    }

    /// A chunk proved damaged: its content is decoded from the others. What was dealt with is not met again, because the
    /// index no longer names it there.
    fn load_without_damaged(&mut self, key: PoolKey) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        let bit = 1 << job.data_index;
        if job.excluded & bit != 0 {
            return self.retry_later(key);
        }
        tracing::warn!(stripe = ?job.id, data_index = job.data_index, "damaged chunk");
        job.excluded |= bit;
        self.load_chunk(key);
    }

    fn load_chunk(&mut self, key: PoolKey) {
        let job = self.jobs.get_mut(key).expect("a job that goes on");
        let (slot, data_index) = (job.slot, job.data_index);
        let excluded = job.excluded & 1 << data_index;
        let stripe = self.stripes.at(slot);
        if let Some(open) = &stripe.open {
            job.source = Source::Loaded { bytes: open.chunk(data_index).to_vec(), offset: 0 };
            return;
        }
        let length = stripe.fills[data_index];
        if length == 0 {
            job.data_index += 1;
            return;
        }
        job.source = Source::Loading;
        let wanted = Wanted {
            stripe: stripe.id,
            shape: self.config.shape,
            partition: stripe.partition,
            members: stripe.members.clone(),
            data_index,
            chunk_bytes: self.config.chunk_bytes as u32,
            offset: 0,
            extent: Extent::Bytes(length),
            op: OpNumber(0),
            purpose: FetchPurpose::Job { job: key, data_index: data_index as u8 },
        };
        self.start_fetch_without(wanted, excluded);
    }

    pub(super) fn job_fetched(&mut self, wanted: Wanted, excluded: u128, result: Result<&[u8], FetchError>) {
        let FetchPurpose::Job { job: key, .. } = wanted.purpose else { return };
        let Some(job) = self.jobs.get_mut(key) else { return };
        match result {
            Ok(bytes) => {
                job.source = Source::Loaded { bytes: bytes.to_vec(), offset: 0 };
                job.excluded = excluded;
                self.work.push_back(Work::Job(key));
            }
            Err(_) => self.retry_later(key),
        }
    }

    fn retry_later(&mut self, key: PoolKey) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        job.source = Source::Next;
        job.again_us = self.now.mono_us + JOB_RETRY_US;
    }

    /// Deals with the records of a chunk from `offset` on; where it stopped.
    fn walk(&mut self, key: PoolKey, bytes: &[u8], mut offset: usize) -> (usize, Step) {
        while offset < bytes.len() {
            let Some(job) = self.jobs.get(key) else { return (bytes.len(), Step::Done) };
            if job.in_flight_bytes >= MOVES_IN_FLIGHT_BYTES {
                return (offset, Step::Wait);
            }
            let Ok((record, length)) = Record::parse(&bytes[offset..], job.id) else { return (offset, Step::Damaged) };
            let step = match record.kind {
                RecordKind::Object | RecordKind::Manifest => {
                    self.deal_with_object(key, &record, offset, &bytes[offset..offset + length])
                }
                RecordKind::Tombstone | RecordKind::Control => self.carry(key, &record, length),
            };
            if matches!(step, Step::Wait) {
                return (offset, Step::Wait);
            }
            offset += length;
        }
        (offset, Step::Done)
    }

    fn deal_with_object(&mut self, key: PoolKey, record: &Record<'_>, offset: usize, bytes: &[u8]) -> Step {
        let length = bytes.len();
        let job = self.jobs.get(key).expect("a job that walks");
        let (mode, partition, id) = (job.mode, job.partition, job.id);
        let from = self.stripes.location(job.slot, job.data_index, offset);
        let looked_at = self.key_ref(record.key);
        let (slot, tag) = (looked_at.slot, looked_at.tag());
        if !self.index.contains(slot, tag, from) {
            return Step::Done;
        }
        if let Some(lock) = self.locks.find(looked_at) {
            // Left for the next walk. A round that waits for memory may go on now: it replaces what would be moved.
            if self.round_mut(lock).is_some_and(|round| !round.is_sent) {
                self.work.push_back(Work::Resume);
            }
            return Step::Done;
        }
        let is_expired = record.expiry.is_some_and(|expiry| expiry <= self.now.unix_ms);
        let is_cold = mode == Mode::Evict && !self.index.was_recent(slot, tag, from);
        if is_expired || is_cold {
            return self.end_object(key, record, from, length, is_expired);
        }
        let moving = LockPhase::Moving(Move { from, record_bytes: length, expiry: record.expiry });
        let lock = self.locks.insert(looked_at, moving);
        match self.append_moved(partition, id, record, bytes, Purpose::Move { lock, job: key }) {
            Ok(()) => self.count_in_flight(key, length),
            Err(_) => {
                self.locks.remove(lock);
                return Step::Wait;
            }
        }
        Step::Done
    }

    /// An object ends: expired, or evicted. A tombstone is needed only if an older record of it may exist.
    fn end_object(
        &mut self,
        key: PoolKey,
        record: &Record<'_>,
        from: Location,
        length: usize,
        is_expired: bool,
    ) -> Step {
        let job = self.jobs.get(key).expect("a job that walks");
        let (partition, slot) = (job.partition, job.slot);
        if self.stripes.may_hold_older(slot) {
            let version = self.take_version();
            let purpose = Purpose::Carry { job: key };
            match self.place_tombstone(partition, record.key, version, purpose, Urgency::Cleaning) {
                Placed::Sent => self.count_in_flight(key, 0),
                _ => return Step::Wait,
            }
        }
        let (slot, hash) = (Slot::of_key(record.key), self.key_ref(record.key).hash);
        let old = old_record(record, from, length);
        self.drop_record(slot, Tag::of_hash(hash), &old);
        if let Some(manifest) = old.manifest {
            self.free_striped(partition, &manifest);
        }
        if is_expired {
            self.stats.expired_total += 1;
        } else {
            self.stats.evicted_total += 1;
        }
        Step::Done
    }

    /// Tombstones and control records move on while something older may exist that they end.
    fn carry(&mut self, key: PoolKey, record: &Record<'_>, length: usize) -> Step {
        let job = self.jobs.get(key).expect("a job that walks");
        if job.has_carried || !self.is_needed(job.partition, job.id, record) {
            return Step::Done;
        }
        let partition = job.partition;
        match self.append_record(partition, record, Purpose::Carry { job: key }, Urgency::Cleaning) {
            Ok(()) => self.count_in_flight(key, length),
            Err(_) => return Step::Wait,
        }
        Step::Done
    }

    fn is_needed(&self, partition: PartitionId, own: StripeId, record: &Record<'_>) -> bool {
        let exists_below = |horizon: StripeId| {
            self.stripes.by_age(partition).map(|(id, _)| id).find(|&id| id != own).is_some_and(|id| id < horizon)
        };
        match record.kind {
            RecordKind::Tombstone => {
                let horizon = record.value.try_into().map(|bytes| StripeId::from_raw(u64::from_le_bytes(bytes)));
                horizon.map_or(true, exists_below)
            }
            RecordKind::Control => match Control::parse(record.value) {
                Some(Control::Floor { floor, horizon }) => floor >= self.floor_of(partition) && exists_below(horizon),
                Some(Control::FlushDue(at)) => self.is_flush_due(at),
                Some(Control::Void(stripe)) => self.is_void_needed(stripe),
                None => true,
            },
            RecordKind::Object | RecordKind::Manifest => false,
        }
    }

    fn count_in_flight(&mut self, key: PoolKey, bytes: usize) {
        let job = self.jobs.get_mut(key).expect("a job that walks");
        job.in_flight_count += 1;
        job.in_flight_bytes += bytes;
    }

    fn count_landed(&mut self, key: PoolKey, bytes: usize) {
        if let Some(job) = self.jobs.get_mut(key) {
            job.in_flight_count -= 1;
            job.in_flight_bytes = job.in_flight_bytes.saturating_sub(bytes);
            self.work.push_back(Work::Job(key));
        }
    }

    pub(super) fn move_confirmed(&mut self, lock: PoolKey, job: PoolKey, to: Location, record_bytes: usize) {
        let Some(held) = self.locks.get_mut(lock) else { return };
        let (slot, tag) = (held.slot, Tag::of_hash(held.hash));
        let LockPhase::Moving(moved) = std::mem::replace(&mut held.phase, LockPhase::Starting) else { return };
        // A flush may have ended the object meanwhile: then the copy is dead on arrival.
        if self.index.relocate(slot, tag, moved.from, to) {
            let (from, _) = self.stripes.place_of(moved.from);
            let from = self.stripes.at_mut(from);
            from.live_bytes -= moved.record_bytes as u64;
            from.live_count -= 1;
            let (to, _) = self.stripes.place_of(to);
            let to = self.stripes.at_mut(to);
            to.live_bytes += record_bytes as u64;
            to.live_count += 1;
            // A record of an earlier epoch is longer in a stripe of this one.
            self.stats.bytes_stored += record_bytes as u64;
            self.stats.bytes_stored -= moved.record_bytes as u64;
            if let Some(expiry) = moved.expiry {
                to.expiry.add(expiry, record_bytes);
            }
        }
        self.count_landed(job, moved.record_bytes);
        self.work.push_back(Work::Start(lock));
    }

    /// The stripe that a moved record went to was abandoned: the record stays where it was, for the next walk.
    pub(super) fn move_interrupted(&mut self, lock: PoolKey, job: PoolKey) {
        let Some(held) = self.locks.get_mut(lock) else { return };
        let LockPhase::Moving(moved) = std::mem::replace(&mut held.phase, LockPhase::Starting) else { return };
        self.count_landed(job, moved.record_bytes);
        self.work.push_back(Work::Start(lock));
    }

    pub(super) fn carry_confirmed(&mut self, job: PoolKey, bytes: usize) {
        self.count_landed(job, bytes);
    }

    /// A carried record found no place when its stripe was abandoned: all are carried again by the next walk.
    pub(super) fn carry_interrupted(&mut self, job: PoolKey) {
        if let Some(job) = self.jobs.get_mut(job) {
            job.has_carried = false;
            job.again_us = self.now.mono_us + JOB_RETRY_US;
            job.data_index = 0;
            job.source = Source::Next;
        }
        self.count_landed(job, 0);
    }

    /// All chunks were walked: the stripe is empty, or what is left was locked and is met on the next walk.
    fn end_walk(&mut self, key: PoolKey) {
        let job = self.jobs.get_mut(key).expect("a job that goes on");
        if job.in_flight_count > 0 {
            return;
        }
        let slot = job.slot;
        job.has_carried = true;
        if self.stripes.at(slot).live_count > 0 {
            job.data_index = 0;
            job.again_us = self.now.mono_us + 1;
            return;
        }
        self.jobs.remove(key);
        self.declare_void(slot);
    }
}
