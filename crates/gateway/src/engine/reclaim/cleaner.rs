//! Reclaiming memory: jobs empty a stripe, then it is declared void and freed.
//!
//! A job reads the stripe chunk by chunk (from the owner's memory, the nodes, or decoded) and looks at each record. One
//! that the index still names is alive: it is moved to the end of the log, with its version, or evicted. A tombstone or
//! control record is carried over while something older may still exist that it ended (rule R3). A record whose key is
//! locked is left for the next pass, so that records of a key never overtake each other; but not what a doubtful lock
//! wrote.
//!
//! Which stripe (see `choosing`): one that cannot be repaired; else the emptiest one while there is garbage to gain;
//! when all is alive and memory is short, the oldest one, whose objects that were not read lately are evicted (a second
//! chance for the others, as in CLOCK). The oldest, because what it evicts cannot come back from an older stripe: it
//! goes when the stripe does (see `doomed`). So an eviction needs no memory but for a void record: when jobs wait for
//! memory that there is not, one begins beside them, and gives nothing a second chance.

mod landing;

use std::collections::HashSet;

use shorttail_codes::ChunkSet;
use shorttail_store::record::{Control, Record, RecordKind};
use shorttail_units::{PartitionId, StripeId};

use super::doomed::{Doomed, Gone};
use super::reserve::Urgency;
use crate::engine::limits::{
    JOB_RETRY_US, JOBS_ALL_MAX, JOBS_MAX, MOVES_IN_FLIGHT_BYTES, RELIEF_US, VAIN_WALKS_MAX, WALK_PER_WRITTEN,
    WALK_TURN_BYTES,
};
use crate::engine::read::fetch::{Extent, FetchError, FetchPurpose, Wanted};
use crate::engine::state::index::{Location, StripeSlot};
use crate::engine::state::pool::PoolKey;
use crate::engine::state::stripes::StripePhase;
use crate::engine::write::lock::{LockPhase, Move};
use crate::engine::write::log::Purpose;
use crate::engine::write::object::OldRecord;
use crate::engine::write::round::{Placed, Round};
use crate::engine::{Engine, KeyRef, WhenFull, Work};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
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
        /// From near memory: if it is not what it should be, that need not mean damage.
        is_near: bool,
    },
}

/// How much of what was written jobs may look at: they are not to hold up clients, nor to fall behind them.
#[derive(Debug, Default)]
pub struct Walks {
    /// Bytes of records in this turn.
    left_bytes: usize,
    /// They would have looked at more.
    pub is_cut: bool,
    /// Bytes of records that others than cleaning appended since the turn began.
    pub written_bytes: usize,
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
    /// It is its turn soon, however many of its records land until then.
    is_queued: bool,
    /// Chunks were all walked, but something alive could not be dealt with: walk again, not before this time.
    again_us: u64,
    /// Tombstones and control records that are not this job's to carry, or not again: under way, or carried; and what
    /// was not confirmed when the stripe was abandoned, which went elsewhere as what it was.
    settled: HashSet<Location>,
    /// What is evicted with the stripe, as far as it was walked.
    doomed: Vec<Doomed>,
    doomed_bytes: u64,
    /// Moved, but the stripe that it went to was left: a copy may be found there, so it is not to be evicted.
    copied: HashSet<Location>,
    /// Something carried found no place: walk again.
    must_walk_again: bool,
    /// The length of the record that found no place; else of the shortest there may be.
    awaited_bytes: usize,
    /// This walk has put something on its way; the last whole one has.
    has_moved: bool,
    is_moving: bool,
    /// Whole walks, one after the other, that put nothing on its way.
    vain_walks: u32,
    /// A chunk could not be read: others are begun meanwhile.
    is_parked: bool,
    /// Chunks that the bytes at hand were read without, because they proved damaged.
    excluded: ChunkSet,
}

/// A record that a job has come to.
struct Met<'a> {
    record: Record<'a>,
    length: usize,
    key: KeyRef<'a>,
}

impl Job {
    /// The stripe that it empties.
    pub(in crate::engine) fn id(&self) -> StripeId {
        self.id
    }

    /// Does it go on, or will it once there is memory?
    fn is_at_work(&self) -> bool {
        self.is_moving && !self.is_parked
    }

    /// It came to what is not locked, and there is no place for so many bytes.
    fn wait_for_place(&mut self, bytes: usize) {
        (self.awaited_bytes, self.vain_walks) = (bytes, 0);
    }

    /// It waits for locks, whose holders may wait for memory: others are begun meanwhile.
    fn is_stuck(&self) -> bool {
        self.vain_walks >= VAIN_WALKS_MAX
    }

    /// A part of the chunk was walked and proved to be damaged further on. What is doomed in it is met again, and
    /// counts once.
    fn begin_chunk_again(&mut self, data_count: usize) {
        let data_index = self.data_index;
        let is_elsewhere = |one: &Doomed| one.old.location.chunk_number as usize % data_count != data_index;
        self.doomed.retain(is_elsewhere);
        self.doomed_bytes = self.doomed.iter().map(|one| one.old.record_bytes as u64).sum();
    }
}

/// What became of one record.
enum Step {
    Done,
    /// No place for it now.
    Wait,
    /// The bytes are not a record.
    Damaged,
}

impl Engine {
    /// Starts emptying a stripe whose phase is Leaving. `settled`: what in it is dealt with already.
    pub(in crate::engine) fn start_leaving(&mut self, slot: StripeSlot, settled: HashSet<Location>) {
        self.start_job(slot, Mode::Move, settled);
    }

    /// Stripes that jobs are at.
    pub(in crate::engine) fn stripes_emptied(&self) -> impl Iterator<Item = StripeSlot> {
        self.jobs.iter().map(|(_, job)| job.slot)
    }

    fn start_job(&mut self, slot: StripeSlot, mode: Mode, settled: HashSet<Location>) {
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
            is_queued: false,
            again_us: 0,
            settled,
            doomed: Vec::new(),
            doomed_bytes: 0,
            copied: HashSet::new(),
            must_walk_again: false,
            awaited_bytes: 1,
            has_moved: false,
            is_moving: true,
            vain_walks: 0,
            is_parked: false,
            excluded: ChunkSet::EMPTY,
        });
        self.work.push_back(Work::Job(job));
    }

    /// Starts jobs while there is something to gain, and lets waiting ones go on.
    pub(in crate::engine) fn start_jobs(&mut self) {
        // What is begun may find no memory and ask for some: that is being done.
        if std::mem::replace(&mut self.is_starting_jobs, true) {
            return;
        }
        self.start_what_helps();
        self.is_starting_jobs = false;
    }

    fn start_what_helps(&mut self) {
        for key in self.jobs.iter().map(|(key, _)| key).collect::<Vec<_>>() {
            self.work.push_back(Work::Job(key));
        }
        if !self.may_reclaim() {
            return;
        }
        self.evict_striped();
        self.expire_striped();
        let fit = usize::try_from(self.spare_stripes()).unwrap_or(usize::MAX).saturating_sub(1);
        while self.jobs_at_work() < JOBS_MAX.min(fit).max(1) && self.jobs.len() < JOBS_ALL_MAX {
            let Some((slot, mode)) = self.choose_victim() else { break };
            self.begin_emptying(slot, mode);
        }
        self.relieve();
    }

    /// Jobs whose stripes can be read, and that do not wait for locks.
    pub(super) fn jobs_at_work(&self) -> usize {
        self.jobs.iter().filter(|(_, job)| !job.is_parked && !job.is_stuck()).count()
    }

    /// Stripes whose jobs wait for locks.
    pub(super) fn stripes_stuck(&self) -> impl Iterator<Item = StripeSlot> {
        self.jobs.iter().filter(|(_, job)| job.is_stuck()).map(|(_, job)| job.slot)
    }

    /// Memory has been cramped for a while: what is to be evicted whatever the other jobs do.
    fn relieve(&mut self) {
        let may_evict =
            self.is_cramped_for_long() && self.config.when_full == WhenFull::Evict && self.too_few_nodes().is_ok();
        let evicting = self.jobs.iter().filter(|(_, job)| job.mode == Mode::Evict && !job.is_parked && !job.is_stuck());
        let (count, moving) =
            evicting.fold((0, 0), |(all, moving), (_, job)| (all + 1, moving + usize::from(job.is_moving)));
        if !may_evict || moving > 0 || count >= JOBS_MAX || self.jobs.len() >= JOBS_ALL_MAX {
            return;
        }
        if let Some(slot) = self.choose_relief() {
            return self.begin_emptying(slot, Mode::Evict);
        }
        // The oldest stripes wait to be moved, for which there is no memory.
        let is_oldest = |job: &Job| self.stripes.by_age(job.partition).next().is_some_and(|(id, _)| id == job.id);
        let moves = |job: &Job| job.mode == Mode::Move && self.stripes.at(job.slot).open.is_none();
        let waits = |job: &Job| !job.is_parked && moves(job) && is_oldest(job);
        let waiting = self.jobs.iter().filter(|(_, job)| waits(job)).min_by_key(|(_, job)| job.id);
        if let Some(key) = waiting.map(|(key, _)| key) {
            self.jobs.get_mut(key).expect("found above").mode = Mode::Evict;
            self.work.push_back(Work::Job(key));
        }
    }

    /// Has memory been short for long?
    fn is_cramped_for_long(&self) -> bool {
        self.shortage.cramped_us.is_some_and(|since_us| self.now.mono_us >= since_us + RELIEF_US)
    }

    /// A turn begins: jobs that the one before cut short go on.
    pub(in crate::engine) fn begin_walks(&mut self) {
        let written_bytes = std::mem::take(&mut self.walks.written_bytes);
        self.walks.left_bytes = WALK_TURN_BYTES.max(written_bytes * WALK_PER_WRITTEN);
        if std::mem::take(&mut self.walks.is_cut) {
            self.work.extend(self.jobs.iter().map(|(key, _)| Work::Job(key)));
        }
    }

    pub(super) fn begin_emptying(&mut self, slot: StripeSlot, mode: Mode) {
        if mode == Mode::Evict {
            self.note_packed_eviction();
        }
        self.expired.note_emptied(slot, self.expired_bytes(slot));
        self.stripes.at_mut(slot).become_phase(StripePhase::Leaving);
        self.start_job(slot, mode, HashSet::new());
    }

    /// Is memory on its way to be free, or may it be made so at once? The cheaper part of [`Engine::can_reclaim`].
    pub(in crate::engine) fn is_making_room(&self) -> bool {
        let may_evict = self.config.when_full == WhenFull::Evict && self.index.object_count() > 0;
        may_evict
            || self.jobs.iter().any(|(_, job)| !job.is_parked)
            || self.is_reclaiming()
            || !self.flushed.is_empty()
            || self.evictions.goes_on()
    }

    /// Can a write that waits for memory hope?
    ///
    /// A store that evicts always has something to give up, though between two steps of an eviction nothing shows it.
    pub(in crate::engine) fn can_reclaim(&mut self) -> bool {
        self.is_making_room()
            || self.choose_victim().is_some()
            || !self.emptiest.has_seen_all(self.stripes.slot_count())
            || self.stripes.unsealed().iter().any(|&slot| self.stripes.at(slot).phase() == StripePhase::Sealing)
    }

    pub(in crate::engine) fn advance_job(&mut self, key: PoolKey) {
        let is_held = self.is_flushing() || !self.may_reclaim();
        let data_count = self.config.data_count();
        if let Some(job) = self.jobs.get_mut(key) {
            job.is_queued = false;
        }
        loop {
            let Some(job) = self.jobs.get_mut(key) else { return };
            if job.in_flight_bytes >= MOVES_IN_FLIGHT_BYTES || job.again_us > self.now.mono_us || is_held {
                return;
            }
            if self.walks.left_bytes == 0 {
                self.walks.is_cut = true;
                return;
            }
            match &mut job.source {
                Source::Loading => return,
                Source::Next if job.data_index == self.config.data_count() => return self.end_walk(key),
                Source::Next => self.load_chunk(key),
                Source::Loaded { bytes, offset, is_near } => {
                    let (bytes, start, is_near) = (std::mem::take(bytes), *offset, *is_near);
                    let (offset, step) = self.walk(key, &bytes, start);
                    if matches!(step, Step::Damaged) && !is_near {
                        return self.load_without_damaged(key);
                    }
                    let Some(job) = self.jobs.get_mut(key) else { return };
                    if matches!(step, Step::Damaged) {
                        // The chunk is asked of its node.
                        job.source = Source::Next;
                        job.begin_chunk_again(data_count);
                        let slot = job.slot;
                        self.forget_places(slot);
                        continue;
                    }
                    let is_over = offset >= bytes.len();
                    self.stats.near_chunks_total += u64::from(is_over && is_near);
                    job.source = if is_over { Source::Next } else { Source::Loaded { bytes, offset, is_near } };
                    job.data_index += usize::from(is_over);
                    if matches!(step, Step::Wait) {
                        return;
                    }
                }
            }
        }
    }

    /// A chunk proved damaged: its content is decoded from the others.
    fn load_without_damaged(&mut self, key: PoolKey) {
        let data_count = self.config.data_count();
        let Some(job) = self.jobs.get_mut(key) else { return };
        job.begin_chunk_again(data_count);
        if job.excluded.contains(job.data_index) {
            // Neither way: the next time both are tried.
            job.excluded = ChunkSet::EMPTY;
            return self.retry_later(key);
        }
        tracing::warn!(stripe = ?job.id, data_index = job.data_index, "damaged chunk");
        job.excluded.insert(job.data_index);
        let (slot, data_index) = (job.slot, job.data_index);
        let stripe = self.stripes.at(slot);
        let (id, node) = (stripe.id, stripe.members[data_index]);
        self.suspect_chunk(node, id);
        self.load_chunk(key);
    }

    fn load_chunk(&mut self, key: PoolKey) {
        let job = self.jobs.get_mut(key).expect("a job that goes on");
        let (slot, data_index) = (job.slot, job.data_index);
        let excluded = job.excluded & ChunkSet::of(data_index);
        let stripe = self.stripes.at(slot);
        if let Some(open) = &stripe.open {
            job.is_parked = false;
            job.source = Source::Loaded { bytes: open.chunk(data_index).to_vec(), offset: 0, is_near: false };
            return;
        }
        let length = stripe.fills[data_index];
        if length == 0 {
            job.data_index += 1;
            return;
        }
        let near = if excluded.is_empty() { self.read_chunk_near(slot, data_index, length as usize) } else { None };
        let job = self.jobs.get_mut(key).expect("a job that goes on");
        if let Some(bytes) = near {
            job.is_parked = false;
            job.source = Source::Loaded { bytes, offset: 0, is_near: true };
            return;
        }
        job.source = Source::Loading;
        let wanted = self.wanted(slot, data_index, 0, Extent::Bytes(length), FetchPurpose::Job(key));
        self.start_fetch_without(wanted, excluded);
    }

    pub(in crate::engine) fn job_fetched(
        &mut self,
        key: PoolKey,
        wanted: Wanted,
        excluded: ChunkSet,
        result: Result<&[u8], FetchError>,
    ) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        match result {
            Ok(bytes) => {
                assert_eq!(job.data_index, wanted.data_index, "a job loads one chunk at a time");
                job.source = Source::Loaded { bytes: bytes.to_vec(), offset: 0, is_near: false };
                job.excluded = excluded;
                job.is_parked = false;
                self.work.push_back(Work::Job(key));
            }
            Err(_) => self.retry_later(key),
        }
    }

    /// A chunk cannot be read. If nothing in the stripe is needed, it need not be; else the job waits, and leaves its
    /// place to another.
    fn retry_later(&mut self, key: PoolKey) {
        let Some(slot) = self.jobs.get(key).map(|job| job.slot) else { return };
        let is_void = self.is_void_anyway(self.stripes.at(slot));
        let Some(job) = self.jobs.get_mut(key) else { return };
        job.source = Source::Next;
        if is_void {
            job.data_index = self.config.data_count();
            return self.work.push_back(Work::Job(key));
        }
        job.is_parked = true;
        job.again_us = self.now.mono_us + JOB_RETRY_US;
    }

    /// Deals with the records of a chunk from `offset` on; where it stopped.
    fn walk(&mut self, key: PoolKey, bytes: &[u8], mut offset: usize) -> (usize, Step) {
        let Some(id) = self.jobs.get(key).map(|job| job.id) else { return (bytes.len(), Step::Done) };
        let mut next = self.meet(&bytes[offset..], id);
        while offset < bytes.len() {
            let Some(job) = self.jobs.get(key) else { return (bytes.len(), Step::Done) };
            if job.in_flight_bytes >= MOVES_IN_FLIGHT_BYTES {
                return (offset, Step::Wait);
            }
            if self.walks.left_bytes == 0 {
                self.walks.is_cut = true;
                return (offset, Step::Wait);
            }
            let Some(met) = next else { return (offset, Step::Damaged) };
            let length = met.length;
            // The next one's place in the index is on its way while this one is dealt with.
            next = self.meet(&bytes[offset + length..], id);
            let step = match met.record.kind {
                RecordKind::Object | RecordKind::Manifest => self.deal_with_object(key, &met, offset),
                RecordKind::Tombstone | RecordKind::Control => self.carry(key, &met.record, offset, length),
            };
            if matches!(step, Step::Wait) {
                return (offset, Step::Wait);
            }
            offset += length;
            self.walks.left_bytes = self.walks.left_bytes.saturating_sub(length);
        }
        (offset, Step::Done)
    }

    /// How a job may append now. While memory is cramped one job goes on, the one with the least to move, so that what
    /// room there is ends a stripe; and what fits into one stripe for sure may take the last.
    fn urgency_of_job(&mut self, key: PoolKey) -> Option<Urgency> {
        if !self.shortage.is_cramped {
            return Some(Urgency::Cleaning);
        }
        // What must be emptied before anybody is served is the only way then.
        let is_alone = self.completing.is_some() && !self.can_evict();
        let left = |job: &Job| {
            let stripe = self.stripes.at(job.slot);
            let live_bytes = stripe.live_bytes.saturating_sub(job.doomed_bytes);
            live_bytes + self.needed_bytes(stripe)
        };
        // One that met only what is locked keeps nobody waiting; this one has come to something else.
        let goes_on = |it: PoolKey, job: &Job| (job.is_at_work() || it == key) && job.again_us <= self.now.mono_us;
        let jobs = self.jobs.iter().filter(|&(it, job)| goes_on(it, job));
        let spare = self.spare_stripes();
        let has_place = |job: &Job, urgency: Urgency| {
            self.has_room_in_open(job.partition, job.awaited_bytes) || spare > self.stripes_left_by(urgency)
        };
        // One whose stripe must stay all the same gives nothing back; one that finds no place keeps nobody waiting.
        let jobs = jobs.map(|(key, job)| {
            let left = left(job);
            let is_only_way = is_alone && self.is_uncertain(job.id);
            let is_much = left > self.stripe_data_bytes() * 3 / 4 && !is_only_way;
            let urgency = if is_much { Urgency::Cleaning } else { Urgency::Freeing };
            let lacks_place = !has_place(job, urgency);
            ((lacks_place, self.is_held_back(job.id), is_much, left, job.id), key, urgency)
        });
        let (_, first, urgency) = jobs.min_by_key(|&(rank, ..)| rank)?;
        (first == key).then_some(urgency)
    }

    /// Is something being evicted, or can it be?
    fn can_evict(&mut self) -> bool {
        let is_evicting = self.jobs.iter().any(|(_, job)| job.mode == Mode::Evict);
        self.config.when_full == WhenFull::Evict && (is_evicting || self.choose_relief().is_some())
    }

    /// The record at the front of these bytes, if there is one.
    fn meet<'a>(&self, bytes: &'a [u8], stripe: StripeId) -> Option<Met<'a>> {
        let (record, length) = Record::parse(bytes, stripe).ok()?;
        let key = self.key_ref(record.key);
        self.index.prefetch(key.slot, key.tag());
        Some(Met { record, length, key })
    }

    fn deal_with_object(&mut self, key: PoolKey, met: &Met<'_>, offset: usize) -> Step {
        let job = self.jobs.get(key).expect("a job that walks");
        let mode = job.mode;
        let from = self.stripes.location(job.slot, job.data_index, offset);
        let &Met { ref record, length, key: looked_at } = met;
        let (slot, tag) = (looked_at.slot, looked_at.tag());
        if !self.index.contains(slot, tag, from) {
            return Step::Done;
        }
        let moved = Move { from, record_bytes: length, expiry: record.expiry };
        let lock = match self.locks.find(looked_at) {
            Some(lock) if self.begin_move_of_doubtful(lock, &moved) => lock,
            Some(lock) => {
                // Left for the next walk. A round that waits for memory may go on now: it replaces what would be moved.
                if self.round_mut(lock).is_some_and(|round| !round.is_sent) {
                    self.work.push_back(Work::Retry(lock));
                }
                return Step::Done;
            }
            None => {
                let is_expired = record.is_over(self.now.unix_ms);
                let may_evict = mode == Mode::Evict && self.config.when_full == WhenFull::Evict;
                let may_evict = may_evict && !self.jobs.get(key).is_some_and(|job| job.copied.contains(&from));
                let is_cold = may_evict && (self.is_cramped_for_long() || !self.index.was_recent(slot, tag, from));
                if is_expired || is_cold {
                    return self.end_object(key, met, from, if is_expired { Gone::Expired } else { Gone::Evicted });
                }
                self.locks.insert(looked_at, LockPhase::Moving(moved))
            }
        };
        let step = self.append_for_job(key, record, Purpose::Move { lock, job: key }, length);
        if matches!(step, Step::Wait) {
            let held = self.locks.get_mut(lock).expect("it holds the record");
            held.take_moved();
            if matches!(held.phase, LockPhase::Starting) {
                self.locks.remove(lock);
            }
        }
        step
    }

    /// Puts a record that a job moves or carries, of so many bytes there, to the end of the log.
    fn append_for_job(&mut self, key: PoolKey, record: &Record<'_>, purpose: Purpose, length: usize) -> Step {
        let partition = self.jobs.get(key).expect("a job that walks").partition;
        let Some(urgency) = self.urgency_of_job(key) else { return Step::Wait };
        if self.append_record(partition, record, purpose, urgency).is_err() {
            let epoch = self.config.epoch;
            self.jobs.get_mut(key).expect("a job that walks").wait_for_place(record.encoded_bytes(epoch));
            return Step::Wait;
        }
        self.count_in_flight(key, length);
        Step::Done
    }

    /// An object ends: expired, or evicted. A tombstone is needed only if an older record of it may exist; it is
    /// written in a round of the key, which takes the object out of the index when it is durable. Without one, a packed
    /// object that is over goes at once, and what has pieces or is evicted when its stripe is void.
    fn end_object(&mut self, key: PoolKey, met: &Met<'_>, from: Location, gone: Gone) -> Step {
        let job = self.jobs.get(key).expect("a job that walks");
        let (partition, stripe) = (job.partition, job.slot);
        let &Met { ref record, length, key: ended } = met;
        let old = OldRecord::of(record, from, length);
        if self.may_hold_older(stripe) {
            let round = Round { gone: Some(gone), ..Round::ending(old, self.take_version(), Some((key, length))) };
            let version = round.version;
            let lock = self.locks.insert(ended, LockPhase::Writing(Box::new(round)));
            let urgency = self.urgency_of_job(key);
            let place = |urgency| self.place_tombstone(partition, record.key, version, Purpose::Write(lock), urgency);
            let Some(Placed::Sent) = urgency.map(place) else {
                self.locks.remove(lock);
                if urgency.is_some() {
                    let tombstone = Record::tombstone(record.key, &[0; size_of::<StripeId>()], version);
                    let job = self.jobs.get_mut(key).expect("a job that walks");
                    job.wait_for_place(tombstone.encoded_bytes(self.config.epoch));
                }
                return Step::Wait;
            };
            self.round_mut(lock).expect("just inserted").is_sent = true;
            self.count_in_flight(key, length);
        } else if gone == Gone::Evicted || old.manifest.is_some() {
            // Without its pieces a manifest is taken for one that never made an object, and hides nothing older beside
            // it.
            let doomed = Doomed { key: record.key.to_vec(), old, gone };
            let job = self.jobs.get_mut(key).expect("a job that walks");
            job.doomed_bytes += doomed.old.record_bytes as u64;
            job.doomed.push(doomed);
            return Step::Done;
        } else {
            self.drop_record(ended.hashed, &old);
            self.count_gone(gone);
        }
        Step::Done
    }

    /// Tombstones and control records move on while something older may exist that they end. Each moves once.
    fn carry(&mut self, key: PoolKey, record: &Record<'_>, offset: usize, length: usize) -> Step {
        let job = self.jobs.get(key).expect("a job that walks");
        let (partition, from) = (job.partition, self.stripes.location(job.slot, job.data_index, offset));
        if job.settled.contains(&from) || !self.is_needed(partition, job.id, record) {
            return Step::Done;
        }
        let purpose = Purpose::Carry { job: key, from };
        let id = job.id;
        let horizon = self.horizon_in(id, record).map(|horizon| horizon.raw().to_le_bytes());
        let horizon = horizon.as_ref().filter(|_| record.kind == RecordKind::Tombstone);
        let record = &Record { value: horizon.map_or(record.value, |horizon| horizon.as_slice()), ..*record };
        let step = self.append_for_job(key, record, purpose, length);
        if matches!(step, Step::Done) {
            self.jobs.get_mut(key).expect("a job that walks").settled.insert(from);
        }
        step
    }

    pub(in crate::engine) fn is_needed(&self, partition: PartitionId, own: StripeId, record: &Record<'_>) -> bool {
        let oldest = self.oldest_beside(partition, own);
        let horizon = self.horizon_in(own, record);
        let ends_something = horizon.zip(oldest).is_some_and(|(horizon, oldest)| oldest < horizon);
        match record.kind {
            RecordKind::Tombstone => ends_something,
            RecordKind::Control => match Control::parse(record.value) {
                Some(Control::Floor { floor, .. }) => floor >= self.floor_of(partition) && ends_something,
                Some(Control::FlushDue(_)) => self.orders(partition).any(|order| order == record.version),
                Some(Control::Void(stripe)) => self.is_void_needed(stripe, own),
                None => true,
            },
            RecordKind::Object | RecordKind::Manifest => false,
        }
    }
}

#[cfg(test)]
mod tests;
