//! What jobs appended lands, or finds no place when its stripe is abandoned; and the end of a walk.
//!
//! Must not know: which records jobs append.

use std::collections::HashSet;

use shorttail_store::record::{Control, Record, RecordKind};

use crate::engine::limits::TICK_US;
use crate::engine::reclaim::doomed::Doomed;
use crate::engine::reclaim::freeing::VoidRecord;
use crate::engine::state::index::Location;
use crate::engine::state::pool::PoolKey;
use crate::engine::{Engine, Work};

impl Engine {
    pub(super) fn count_in_flight(&mut self, key: PoolKey, bytes: usize) {
        let job = self.jobs.get_mut(key).expect("a job that walks");
        (job.has_moved, job.is_moving, job.vain_walks, job.awaited_bytes) = (true, true, 0, 1);
        job.in_flight_count += 1;
        job.in_flight_bytes += bytes;
    }

    pub(in crate::engine) fn count_landed(&mut self, key: PoolKey, bytes: usize) {
        if let Some(job) = self.jobs.get_mut(key) {
            job.in_flight_count -= 1;
            job.in_flight_bytes = job.in_flight_bytes.saturating_sub(bytes);
            if !std::mem::replace(&mut job.is_queued, true) {
                self.work.push_back(Work::Job(key));
            }
        }
    }

    pub(in crate::engine) fn move_confirmed(&mut self, lock: PoolKey, job: PoolKey, to: Location, record_bytes: usize) {
        let Some(held) = self.locks.get_mut(lock) else { return };
        let (slot, tag) = (held.slot, held.tag());
        let Some(moved) = held.take_moved() else { return };
        // A flush may have ended the object meanwhile: then the copy is dead on arrival.
        let is_there = self.index.relocate(slot, tag, moved.from, to);
        let copy = is_there.then_some((to, record_bytes));
        if is_there {
            let (from_slot, _) = self.stripes.place_of(moved.from);
            self.stripes.at_mut(from_slot).drop_live(moved.record_bytes);
            let (to_slot, _) = self.stripes.place_of(to);
            self.stripes.at_mut(to_slot).add_live(record_bytes, moved.expiry);
            // A record of an earlier epoch is longer in a stripe of this one.
            self.stats.totals.bytes_stored += record_bytes as u64;
            self.stats.totals.bytes_stored -= moved.record_bytes as u64;
            self.count_outlived(from_slot);
        }
        self.count_landed(job, moved.record_bytes);
        match self.round_mut(lock) {
            Some(_) => self.end_move_of_doubtful(lock, copy),
            None => self.release_lock(lock),
        }
    }

    /// The stripe that a moved record went to was abandoned: the record stays where it was, for the next walk.
    pub(in crate::engine) fn move_interrupted(&mut self, lock: PoolKey, job: PoolKey) {
        let Some(held) = self.locks.get_mut(lock) else { return };
        let Some(moved) = held.take_moved() else { return };
        if let Some(job) = self.jobs.get_mut(job) {
            job.copied.insert(moved.from);
        }
        self.count_landed(job, moved.record_bytes);
        match self.round_mut(lock) {
            Some(_) => self.end_move_of_doubtful(lock, None),
            None => self.work.push_back(Work::Start(lock)),
        }
    }

    pub(in crate::engine) fn carry_confirmed(&mut self, job: PoolKey, to: Location, bytes: usize) {
        let (slot, data_index) = self.stripes.place_of(to);
        let stripe = self.stripes.at(slot);
        let open = stripe.bytes();
        let record = Record::parse(open.item_bytes(data_index, usize::from(to.offset), bytes), stripe.id);
        let control = record.ok().filter(|(record, _)| record.kind == RecordKind::Control);
        let control = control.and_then(|(record, _)| Control::parse(record.value));
        if let Some(Control::Void(void)) = control {
            let at = stripe.id;
            self.void_carried(void, VoidRecord { at, bytes });
        }
        self.count_landed(job, bytes);
    }

    /// A carried record found no place when its stripe was abandoned: it is carried again by the next walk.
    pub(in crate::engine) fn carry_interrupted(&mut self, key: PoolKey, from: Location, bytes: usize) {
        if let Some(job) = self.jobs.get_mut(key) {
            job.settled.remove(&from);
            job.must_walk_again = true;
        }
        self.count_landed(key, bytes);
    }

    /// All chunks were walked: the stripe is empty, or what is left was locked and is met on the next walk.
    pub(super) fn end_walk(&mut self, key: PoolKey) {
        let job = self.jobs.get_mut(key).expect("a job that goes on");
        if job.in_flight_count > 0 {
            return;
        }
        let slot = job.slot;
        job.is_moving = std::mem::take(&mut job.has_moved);
        job.vain_walks = if job.is_moving { 0 } else { job.vain_walks.saturating_add(1) };
        let must_walk_again = std::mem::take(&mut job.must_walk_again);
        let doomed = std::mem::take(&mut job.doomed);
        job.doomed_bytes = 0;
        debug_assert!(is_each_once(&doomed), "what counts twice hides what is alive");
        let doomed_count = doomed.iter().filter(|one| self.is_in_place(one)).count();
        if must_walk_again || self.stripes.at(slot).live_count as usize > doomed_count {
            let job = self.jobs.get_mut(key).expect("a job that goes on");
            job.data_index = 0;
            job.again_us = self.now.mono_us + TICK_US;
            return;
        }
        self.jobs.remove(key);
        self.declare_void(slot, doomed);
    }
}

fn is_each_once(doomed: &[Doomed]) -> bool {
    let mut met = HashSet::new();
    doomed.iter().all(|one| met.insert(one.old.location))
}
