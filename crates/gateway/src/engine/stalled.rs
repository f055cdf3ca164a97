//! Writes that wait for memory, and when they wait no longer.
//!
//! ```text
//! no place --> may anything be reclaimed? --yes--> waits --memory came free, or a tick--> tries again
//!                     |                             '--for too long--.
//!                     '--no------------------------------------------+--> a store is refused
//!                                                                    '--> a delete takes what cleaning was left
//! ```
//! Deletes wait in their own queue, as they are not refused for being many: each of them is what makes room. They may wait for
//! long, so reads do not wait for one that was never sent: they are before it, but for those of a connection that asked for it.
//!
//! While the owner lets go they wait for a second at most. Of what was never sent the client hears that this is not the owner.
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

    /// What a write hears that waited in vain: the next owner may have memory for it, and is to be asked again.
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
            if self.is_kept_from_deletes && !self.is_held_up() {
                break;
            }
        }
        self.stalled.deletes.append(&mut waiting);
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::{CodeShape, Now, UnixMs};

    use super::*;
    use crate::any::AnyCommand;
    use crate::engine::index::StripeSlot;
    use crate::engine::limits::LET_GO_STALL_US_MAX;
    use crate::engine::lock::{LockPhase, Old, Round};
    use crate::engine::testing::{ask, ask_as, confirm_all, engine_of_ready_nodes, leave_no_room};
    use crate::request::Reply;

    const OVER: UnixMs = UnixMs(10_000);

    /// A delete that waits for memory, and a stripe of the key's partition that takes no appends.
    fn engine_with_stalled_delete() -> (Engine<AnyCommand>, StripeSlot) {
        let mut engine = engine_of_ready_nodes(CodeShape::default(), 8);
        ask(&mut engine, b"set a 0 10 1\r\n1\r\n");
        let slot = engine.stripes.unsealed()[0];
        confirm_all(&mut engine, slot);
        let partition = engine.stripes.at(slot).partition;
        leave_no_room(&mut engine, partition);
        engine.hope_until_us = u64::MAX;
        assert_eq!(told(&mut engine), ["STORED"]);
        ask(&mut engine, b"delete a\r\n");
        assert!(told(&mut engine).is_empty() && engine.stalled.has_deletes());
        let other = *engine.stripes.unsealed().iter().find(|&&other| other != slot).expect("they keep it from memory");
        (engine, other)
    }

    /// The first words of the answers.
    fn told(engine: &mut Engine<AnyCommand>) -> Vec<String> {
        engine.run_work();
        engine.flush_logs();
        let now = engine.now;
        let replies = std::iter::from_fn(|| engine.poll_reply(now)).map(|(_, reply)| match reply {
            Reply::Bytes(bytes) => String::from_utf8_lossy(&bytes).split_whitespace().next().unwrap_or("").to_owned(),
            other => panic!("{other:?}"),
        });
        replies.collect()
    }

    fn get(engine: &mut Engine<AnyCommand>, connection: u64) -> Vec<String> {
        ask_as(engine, connection, b"get a\r\n");
        told(engine)
    }

    /// Nobody knows of it yet: whoever reads beside it is before it. Who asked for it is not.
    #[test]
    fn reads_do_not_wait_for_a_delete_that_waits_for_memory() {
        let (mut engine, _) = engine_with_stalled_delete();
        assert_eq!(get(&mut engine, 2), ["VALUE"]);
        assert!(get(&mut engine, 1).is_empty(), "its own connection's are after it");
        assert!(get(&mut engine, 2).is_empty(), "and what comes after them is, too");
    }

    #[test]
    fn reads_wait_for_a_delete_that_found_memory() {
        let (mut engine, slot) = engine_with_stalled_delete();
        engine.abandon(slot);
        engine.run_work();
        assert!(!engine.stalled.has_deletes());
        assert!(get(&mut engine, 2).is_empty());
        for slot in engine.stripes.unsealed().to_vec() {
            confirm_all(&mut engine, slot);
        }
        assert_eq!(told(&mut engine), ["DELETED", "END"]);
    }

    /// A node may hold its tombstone.
    #[test]
    fn reads_wait_for_a_delete_that_was_sent_once() {
        let (mut engine, _) = engine_with_stalled_delete();
        let lock = engine.locks.find(engine.key_ref(b"a")).expect("a round");
        engine.round_mut(lock).expect("a round").was_sent = true;
        assert!(get(&mut engine, 2).is_empty());
    }

    #[test]
    fn what_is_over_is_gone_whatever_a_delete_waits_for() {
        let (mut engine, _) = engine_with_stalled_delete();
        engine.now.unix_ms = OVER;
        assert_eq!(get(&mut engine, 2), ["END"]);
    }

    fn engine_without_memory() -> Engine<AnyCommand> {
        let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
        engine.nodes.iter_mut().for_each(|node| node.sessions[0].memory_bytes = 0);
        engine.look_at_room();
        engine.hope_until_us = u64::MAX;
        engine
    }

    /// A delete waits that has nothing left to take from cleaning.
    fn stall_delete(engine: &mut Engine<AnyCommand>, key: &[u8]) {
        let round = Round::new(Default::default(), End::Delete, Default::default(), Old::Absent);
        let round = Round { helps_cleaning: true, ..round };
        let key = engine.key_ref(key);
        let delete = engine.locks.insert(key, LockPhase::Writing(Box::new(round)));
        engine.stall(delete);
    }

    /// Everybody else's requests wait for the next owner meanwhile.
    #[test]
    fn what_waits_for_memory_holds_up_a_hand_over_for_a_second() {
        let mut engine = engine_without_memory();
        ask(&mut engine, b"set key 0 0 1\r\nx\r\n");
        stall_delete(&mut engine, b"other");
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
        assert_eq!(engine.no_memory(), StoreError::NotOwner, "the next owner may have memory");
        assert_eq!(engine.outstanding_count(), 0);
    }

    /// While deletes are short of room one is tried at a time; who lets go waits for none of them.
    #[test]
    fn all_deletes_are_over_at_once_that_held_up_a_hand_over() {
        let mut engine = engine_without_memory();
        [&b"a"[..], b"b", b"c"].into_iter().for_each(|key| stall_delete(&mut engine, key));
        engine.let_go(Now::default());
        engine.set_now(Now { mono_us: LET_GO_STALL_US_MAX, ..Now::default() });
        engine.is_kept_from_deletes = true;
        engine.resume_stalled();
        assert!(!engine.stalled.has_deletes());
    }
}
