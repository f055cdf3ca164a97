//! Writes that wait for memory, for seals or for a late node, and when they wait no longer.
//!
//! ```text
//! no place: is a seal or a late node waited for, or may something be reclaimed?
//!     yes --> waits --a place may be there--> tries again
//!               '--for too long--.
//!     no ------------------------+--> a store is refused
//!                                '--> a delete takes what cleaning was left
//! ```
//! They wait in *lanes*: those of one partition and kind have one order. Of each lane the first are tried, lanes by who
//! came first, and some in vain end it: who waits may be many, and those behind them wait for the same. What lies in
//! stripes of its own has a lane of its own, as it may need much where the others need little.
//!
//! Deletes go first, as they are not refused for being many: each of them is what makes room. They may wait for long,
//! so reads do not wait for one that was never sent: they are before it, but for those of a connection that asked for
//! it.
//!
//! While the owner lets go they wait for a second at most. Of what was never sent the client hears that this is not the
//! owner.
//!
//! Must not know: what makes room.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use shorttail_units::PartitionId;

use super::object::ObjectData;
use super::round::End;
use crate::command::StoreError;
use crate::engine::Engine;
use crate::engine::limits::{
    DELETE_STALL_US_MAX, STALL_US_MAX, STALLED_BYTES_MAX, STALLED_LOOKS_MAX, STALLED_WRITE_BYTES, TICK_US,
};
use crate::engine::state::pool::PoolKey;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::engine) enum Kind {
    Deletes,
    /// What is appended to the log.
    Packed,
    /// Values whose stripes find no members.
    Striped,
}

/// Who waits in one order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::engine) struct Lane {
    pub kind: Kind,
    pub partition: PartitionId,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::engine) enum StalledWrite {
    Round(PoolKey),
    Group(PoolKey),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    write: StalledWrite,
    /// In the order of their coming.
    number: u64,
    bytes: usize,
}

/// Who waits.
#[derive(Debug, Default)]
pub struct Stalled {
    lanes: BTreeMap<Lane, VecDeque<Entry>>,
    count: usize,
    bytes: usize,
    last_number: u64,
    /// Who is tried at the moment, and those that were and wait on.
    trying: Option<Entry>,
    tried_in_vain: Vec<(Lane, Entry)>,
    /// A place may be there.
    is_due: bool,
    /// Until then writes may wait for memory without a further look for some to reclaim.
    hope_until_us: u64,
    /// Since nothing was found to reclaim no object ended and no stripe was to be sealed: whether deletes waited then,
    /// for which emptier stripes are worth their while.
    found_nothing: Option<bool>,
    #[cfg(test)]
    tries: u64,
    /// Looks for something to reclaim.
    #[cfg(test)]
    looks: u64,
}

impl Stalled {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn has_deletes(&self) -> bool {
        self.waits_in(|lane| lane.kind == Kind::Deletes)
    }

    /// Does anybody wait in such a lane?
    pub(in crate::engine) fn waits_in(&self, is_such: impl Fn(&Lane) -> bool) -> bool {
        self.lanes.keys().chain(self.tried_in_vain.iter().map(|(lane, _)| lane)).any(is_such)
    }

    /// Those who wait are tried before the input's handling ends.
    pub fn press(&mut self) {
        self.is_due = true;
        self.hope_again();
    }

    /// There may be something to reclaim now: something is over, or a stripe is to be sealed.
    pub fn hope_again(&mut self) {
        self.found_nothing = None;
    }

    pub fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    fn is_tried(&self, write: StalledWrite) -> bool {
        self.trying.is_some_and(|entry| entry.write == write)
    }

    fn push(&mut self, lane: Lane, write: StalledWrite, bytes: usize) {
        let bytes = bytes + STALLED_WRITE_BYTES;
        self.count += 1;
        self.bytes += bytes;
        if let Some(Entry { number, .. }) = self.trying.take_if(|entry| entry.write == write) {
            return self.tried_in_vain.push((lane, Entry { write, number, bytes }));
        }
        self.last_number += 1;
        self.lanes.entry(lane).or_default().push_back(Entry { write, number: self.last_number, bytes });
    }

    /// Takes out who was put there a moment ago.
    fn take_back(&mut self, lane: Lane, write: StalledWrite) {
        let tried = self.tried_in_vain.iter().rposition(|(_, entry)| entry.write == write);
        let entry = match tried {
            Some(place) => {
                let (_, entry) = self.tried_in_vain.remove(place);
                self.trying = Some(entry);
                Some(entry)
            }
            None => self.lanes.get_mut(&lane).and_then(|waiting| {
                let place = waiting.iter().rposition(|entry| entry.write == write)?;
                waiting.remove(place)
            }),
        };
        self.note_gone(lane, entry);
    }

    fn take_first(&mut self, lane: Lane) -> Option<Entry> {
        let entry = self.lanes.get_mut(&lane)?.pop_front();
        self.note_gone(lane, entry);
        entry
    }

    fn note_gone(&mut self, lane: Lane, entry: Option<Entry>) {
        let Some(entry) = entry else { return };
        self.count -= 1;
        self.bytes -= entry.bytes;
        if self.lanes.get(&lane).is_some_and(VecDeque::is_empty) {
            self.lanes.remove(&lane);
        }
    }

    /// Who is first in a lane, by number.
    fn first_of(&self, lane: Lane) -> Option<Reverse<(u64, Lane)>> {
        self.lanes.get(&lane)?.front().map(|entry| Reverse((entry.number, lane)))
    }

    /// Those that were tried in vain are the first again.
    fn put_back(&mut self) {
        self.trying = None;
        while let Some((lane, entry)) = self.tried_in_vain.pop() {
            self.lanes.entry(lane).or_default().push_front(entry);
        }
    }
}

impl Engine {
    /// A round waits for a place for its record; when none can be had, or not soon, it fails.
    pub(super) fn stall(&mut self, key: PoolKey) {
        self.stall_as(key, Kind::Packed);
    }

    /// The same of a round whose value found no members for its stripes.
    pub(super) fn stall_striped(&mut self, key: PoolKey) {
        self.stall_as(key, Kind::Striped);
    }

    fn stall_as(&mut self, key: PoolKey, kind: Kind) {
        let now_us = self.now.mono_us;
        let Some(lock) = self.locks.get(key) else { return };
        let (partition, key_bytes) = (self.config.partition_of(lock.slot), lock.key.len());
        // It may have been tried out of its turn, which comes all the same.
        let Some(round) = self.round_mut(key).filter(|round| !round.is_in_lane) else { return };
        let is_new = round.stalled_us.is_none();
        let since_us = *round.stalled_us.get_or_insert(now_us);
        let was_sent = round.was_sent;
        let bytes = match &round.end {
            End::Delete => {
                if round.is_eviction && is_new {
                    self.evictions.note_wait();
                }
                return self.stall_delete(key, Lane { kind: Kind::Deletes, partition }, since_us);
            }
            End::Store(object) => match &object.data {
                ObjectData::Inline(value) => key_bytes + value.len(),
                ObjectData::Striped { .. } => key_bytes,
            },
        };
        let write = StalledWrite::Round(key);
        if let Err(error) = self.let_wait(write, Lane { kind, partition }, since_us, bytes, was_sent) {
            self.fail_round(key, error);
        }
    }

    /// A delete that could wait for ever takes what is left to cleaning, before it fails.
    fn stall_delete(&mut self, key: PoolKey, lane: Lane, since_us: u64) {
        let has_waited = self.now.mono_us.saturating_sub(since_us) > DELETE_STALL_US_MAX || self.is_held_up();
        self.put_in_lane(StalledWrite::Round(key), lane, 0);
        if !has_waited && self.has_hope() {
            return;
        }
        self.take_from_lane(StalledWrite::Round(key), lane);
        let error = if self.is_held_up() { StoreError::NotOwner } else { self.why_no_place(false) };
        let Some(round) = self.round_mut(key) else { return };
        if std::mem::replace(&mut round.helps_cleaning, true) {
            return self.fail_round(key, error);
        }
        self.send_round(key);
    }

    /// Lets a write wait for a place, if there is hope. `was_sent`: it takes the place that it had; there are no more
    /// of these than stripes that are not sealed hold.
    ///
    /// # Errors
    /// What it hears instead. The next owner may have memory for it, and is to be asked again.
    pub(in crate::engine) fn let_wait(
        &mut self,
        write: StalledWrite,
        lane: Lane,
        since_us: u64,
        bytes: usize,
        was_sent: bool,
    ) -> Result<(), StoreError> {
        if self.is_held_up() {
            return Err(StoreError::NotOwner);
        }
        let waits_for_seals = lane.kind == Kind::Packed && self.waits_for_seals(lane.partition);
        let error = self.why_no_place(waits_for_seals);
        if self.now.mono_us.saturating_sub(since_us) > STALL_US_MAX {
            return Err(error);
        }
        if self.stalled.bytes >= STALLED_BYTES_MAX && !was_sent && !self.stalled.is_tried(write) {
            return Err(StoreError::Overloaded);
        }
        self.put_in_lane(write, lane, bytes);
        if waits_for_seals || self.has_hope() {
            return Ok(());
        }
        self.take_from_lane(write, lane);
        Err(error)
    }

    fn put_in_lane(&mut self, write: StalledWrite, lane: Lane, bytes: usize) {
        self.note_in_lane(write, true);
        self.stalled.push(lane, write, bytes);
    }

    fn take_from_lane(&mut self, write: StalledWrite, lane: Lane) {
        self.note_in_lane(write, false);
        self.stalled.take_back(lane, write);
    }

    fn note_in_lane(&mut self, write: StalledWrite, is_in_lane: bool) {
        if let StalledWrite::Round(key) = write
            && let Some(round) = self.round_mut(key)
        {
            round.is_in_lane = is_in_lane;
        }
    }

    /// Can memory be reclaimed for who waits, or may nodes come back that are late?
    fn has_hope(&mut self) -> bool {
        if self.awaits_suspects() {
            return true;
        }
        if self.now.mono_us < self.stalled.hope_until_us {
            return true;
        }
        // A look goes over many stripes, and in a full store each write asks for one.
        let is_of_deletes = self.stalled.has_deletes();
        if self.stalled.found_nothing.is_some_and(|had_deletes| had_deletes || !is_of_deletes) {
            return self.is_making_room();
        }
        #[cfg(test)]
        (self.stalled.looks += 1);
        self.start_jobs();
        let has_hope = self.can_reclaim();
        if has_hope {
            self.stalled.hope_until_us = self.now.mono_us + TICK_US;
        }
        self.stalled.found_nothing = (!has_hope).then_some(is_of_deletes);
        has_hope
    }

    pub(in crate::engine) fn resume_stalled(&mut self) {
        self.resume_lanes(true);
        self.resume_lanes(false);
    }

    /// Tries those that came first. While there is nothing for deletes, it is one of them at a time that may take
    /// something.
    fn resume_lanes(&mut self, of_deletes: bool) {
        let lanes = self.stalled.lanes.keys().filter(|lane| (lane.kind == Kind::Deletes) == of_deletes);
        let mut firsts: BinaryHeap<_> = lanes.filter_map(|&lane| self.stalled.first_of(lane)).collect();
        let mut vain_tries: BTreeMap<Lane, usize> = BTreeMap::new();
        while let Some(Reverse((_, lane))) = firsts.pop() {
            let Some(entry) = self.stalled.take_first(lane) else { continue };
            let before = self.stalled.tried_in_vain.len();
            self.stalled.trying = Some(entry);
            self.note_in_lane(entry.write, false);
            #[cfg(test)]
            (self.stalled.tries += 1);
            match entry.write {
                StalledWrite::Round(key) => self.send_round(key),
                StalledWrite::Group(group) => self.send_group(group),
            }
            // One that is over took nothing.
            let is_over = matches!(entry.write, StalledWrite::Round(key) if self.round_mut(key).is_none());
            if of_deletes && self.shortage.is_kept_from_deletes && !self.is_held_up() && !is_over {
                break;
            }
            let vain = vain_tries.entry(lane).or_default();
            *vain += self.stalled.tried_in_vain.len() - before;
            if *vain < STALLED_LOOKS_MAX {
                firsts.extend(self.stalled.first_of(lane));
            }
        }
        self.stalled.put_back();
    }
}

#[cfg(test)]
mod tests;
