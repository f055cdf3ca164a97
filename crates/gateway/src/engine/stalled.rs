//! Writes that wait for memory, and when they wait no longer.
//!
//! ```text
//! no place --> may anything be reclaimed? --yes--> waits --memory came free, or a tick--> tries again
//!                     |                             '--for too long--.
//!                     '--no------------------------------------------+--> a store is refused
//!                                                                    '--> a delete takes what cleaning was left
//! ```
//! Deletes wait in their own queue, as they are not refused for being many: each of them is what makes room.
//!
//! While the owner lets go they wait for a second at most, and what was never sent is handed back: the next owner is asked.
//!
//! Must not know: what makes room.

use std::collections::VecDeque;

use super::Engine;
use super::limits::{DELETE_STALL_US_MAX, STALL_US_MAX, STALLED_MAX, TICK_US};
use super::lock::End;
use super::pool::PoolKey;
use crate::command::{Command, StoreError};

/// Who waits for memory, in the order of their coming.
#[derive(Debug, Default)]
pub struct Stalled {
    writes: VecDeque<StalledWrite>,
    /// Rounds that delete. As many as connections may have requests under way.
    deletes: VecDeque<PoolKey>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StalledWrite {
    Round(PoolKey),
    Group(PoolKey),
}

impl Stalled {
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.deletes.is_empty()
    }

    /// This one is the next to be tried, if it waits.
    pub fn put_first(&mut self, round: PoolKey) {
        if let Some(place) = self.deletes.iter().position(|&other| other == round) {
            self.deletes.remove(place);
            self.deletes.push_front(round);
        }
    }

    pub fn has_deletes(&self) -> bool {
        !self.deletes.is_empty()
    }
}

impl<C: Command> Engine<C> {
    /// A round waits for memory; when none can be reclaimed, or not soon, it fails.
    pub(super) fn stall(&mut self, key: PoolKey) {
        let now_us = self.now.mono_us;
        let Some(round) = self.round_mut(key) else { return };
        let is_new = round.stalled_us.is_none();
        let since_us = *round.stalled_us.get_or_insert(now_us);
        if matches!(round.end, End::Delete) {
            if round.is_eviction && is_new {
                self.evictions.note_wait();
            }
            return self.stall_delete(key, since_us);
        }
        if !self.may_stall(StalledWrite::Round(key), since_us) {
            self.fail_round(key, self.no_memory());
        }
    }

    /// What a write hears that waited in vain: the next owner may have memory for it.
    pub(super) fn no_memory(&self) -> StoreError {
        if self.is_held_up() { StoreError::NotOwner } else { StoreError::OutOfMemory }
    }

    /// A delete that could wait for ever takes what is left to cleaning, before it fails.
    fn stall_delete(&mut self, key: PoolKey, since_us: u64) {
        self.stalled.deletes.push_back(key);
        let has_waited = self.now.mono_us.saturating_sub(since_us) > DELETE_STALL_US_MAX || self.is_held_up();
        if !has_waited && self.has_hope() {
            return;
        }
        self.stalled.deletes.retain(|&other| other != key);
        let Some(round) = self.round_mut(key) else { return };
        if std::mem::replace(&mut round.helps_cleaning, true) {
            return self.fail_round(key, self.no_memory());
        }
        self.send_round(key);
    }

    /// Lets a write wait for memory, if there is hope.
    pub(super) fn may_stall(&mut self, stalled: StalledWrite, since_us: u64) -> bool {
        let waited_us = self.now.mono_us.saturating_sub(since_us);
        if self.stalled.writes.len() >= STALLED_MAX || waited_us > STALL_US_MAX || self.is_held_up() {
            return false;
        }
        self.stalled.writes.push_back(stalled);
        let may_wait = self.has_hope();
        if !may_wait {
            self.stalled.writes.retain(|&other| other != stalled);
        }
        may_wait
    }

    /// Can memory be reclaimed for who waits?
    fn has_hope(&mut self) -> bool {
        if self.now.mono_us < self.hope_until_us {
            return true;
        }
        self.start_jobs();
        let has_hope = self.can_reclaim();
        if has_hope {
            self.hope_until_us = self.now.mono_us + TICK_US;
        }
        has_hope
    }

    pub(super) fn resume_stalled(&mut self) {
        self.resume_deletes();
        for stalled in std::mem::take(&mut self.stalled.writes) {
            match stalled {
                StalledWrite::Round(key) => self.send_round(key),
                StalledWrite::Group(group) => self.send_group(group),
            }
        }
    }

    /// Those that came first go first, and while there is nothing for deletes they alone are tried: who waits may be
    /// many.
    fn resume_deletes(&mut self) {
        let mut waiting = std::mem::take(&mut self.stalled.deletes);
        while let Some(key) = waiting.pop_front() {
            self.send_round(key);
            if self.is_kept_from_deletes {
                break;
            }
        }
        self.stalled.deletes.append(&mut waiting);
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::{CodeShape, Now};

    use super::*;
    use crate::any::AnyCommand;
    use crate::engine::limits::LET_GO_STALL_US_MAX;
    use crate::engine::lock::{LockPhase, Old, Round};
    use crate::engine::testing::{ask, engine_of_ready_nodes};

    /// Everybody else's requests wait for the next owner meanwhile.
    #[test]
    fn what_waits_for_memory_holds_up_a_hand_over_for_a_second() {
        let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
        engine.nodes.iter_mut().for_each(|node| node.sessions[0].memory_bytes = 0);
        engine.look_at_room();
        engine.hope_until_us = u64::MAX;
        ask(&mut engine, b"set key 0 0 1\r\nx\r\n");
        let round = Round::<AnyCommand>::new(Default::default(), End::Delete, Default::default(), Old::Absent);
        let round = Round { helps_cleaning: true, ..round };
        let key = engine.key_ref(b"other");
        let delete = engine.locks.insert(key, LockPhase::Writing(Box::new(round)));
        engine.stall(delete);
        engine.let_go(Now::default());
        let mut waiting_at = |mono_us: u64| {
            engine.set_now(Now { mono_us, ..Now::default() });
            for write in std::mem::take(&mut engine.stalled.writes) {
                let StalledWrite::Round(key) = write else { panic!("{write:?}") };
                engine.stall(key);
            }
            for key in std::mem::take(&mut engine.stalled.deletes) {
                engine.stall(key);
            }
            (engine.stalled.writes.len(), engine.stalled.deletes.len())
        };
        assert_eq!(waiting_at(0), (1, 1));
        assert_eq!(waiting_at(LET_GO_STALL_US_MAX - 1), (1, 1));
        assert_eq!(waiting_at(LET_GO_STALL_US_MAX), (0, 0));
        assert_eq!(engine.no_memory(), StoreError::NotOwner, "the next owner is asked");
        assert_eq!(engine.outstanding_count(), 0);
    }
}
