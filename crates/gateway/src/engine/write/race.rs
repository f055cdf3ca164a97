//! Records that are appended more than once, because the first time took long: the copy that is confirmed first counts.
//!
//! ```text
//! operation late --> its bytes again, same version, to participants that are not
//!   copy A confirmed --> the purpose hears of it, once; the index names this copy
//!   copy B confirmed --> garbage
//!   a copy's stripe is abandoned --> it leaves the race; the others are raced again when they are late, and the last
//!                                    one is appended again
//! ```
//! Each stripe's confirmed prefix (rule R1) and each participant's sequence (rule R7) are as ever: nothing that was
//! sent is taken back. A later owner may find several copies; they are one record, of one version.
//!
//! Must not know: what records say.

use std::collections::BTreeSet;

use shorttail_monitor::Class;
use shorttail_policy::Hedge;
use shorttail_store::record::Record;
use shorttail_units::{NodeId, PartitionId, StripeId};

use super::log::Purpose;
use super::open_stripe::Item;
use super::room::Room;
use crate::engine::Engine;
use crate::engine::limits::{HEDGE_RETRY_US, RACE_COPIES_MAX};
use crate::engine::reclaim::reserve::Urgency;
use crate::engine::state::index::{Location, StripeSlot};
use crate::engine::state::pool::PoolKey;

/// One record that was appended more than once.
#[derive(Debug)]
pub struct Race {
    purpose: Purpose,
    /// Where the first copy is.
    first: Location,
    /// Copies that are not confirmed.
    copies: u32,
    is_won: bool,
}

/// What a copy that left a race leaves behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Left {
    /// Another copy is there, or was.
    Nothing,
    /// It was the last, and nobody heard yet.
    Last(Purpose),
}

/// What became of the attempt to append an operation again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Start {
    Appended,
    /// Somebody has won already, or enough copies are under way.
    Useless,
    /// All places are slow now: it is tried again soon.
    NoRoom,
}

impl Engine {
    /// An operation of these participants may be raced when it is late.
    pub(super) fn note_raceable(&mut self, nodes: impl Iterator<Item = NodeId>, bytes: usize) {
        let delay_us = nodes.map(|node| self.write_delay_us(node, bytes)).max().unwrap_or(u64::MAX);
        self.hedging.look_at(self.now.mono_us.saturating_add(delay_us));
    }

    pub(super) fn write_delay_us(&self, node: NodeId, bytes: usize) -> u64 {
        self.hedge_delay_us(node, Class::Write, u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// Races what is late now, oldest first.
    pub(in crate::engine) fn hedge_late_writes(&mut self) {
        for slot in self.stripes.unsealed().to_vec() {
            if self.races_late(self.stripes.at(slot).partition) {
                self.race_late(slot);
            }
        }
    }

    /// Are late operations of this partition raced?
    pub(super) fn races_late(&self, partition: PartitionId) -> bool {
        let policy = self.policy(partition);
        policy.write_sidestep && policy.hedge == Hedge::Adaptive || policy.log_is_metadata()
    }

    fn race_late(&mut self, slot: StripeSlot) {
        loop {
            let stripe = self.stripes.at(slot);
            let Some(open) = &stripe.open else { return };
            let Some(op) = open.next_to_race() else { return };
            let late: Vec<_> = op.laggards.iter().map(|&member| stripe.members[member]).collect();
            let delay_us = late.iter().map(|&node| self.write_delay_us(node, op.length)).max().unwrap_or(0);
            let due_us = op.sent_us.saturating_add(delay_us);
            if due_us > self.now.mono_us {
                self.hedging.look_at(due_us);
                return;
            }
            self.note_late_writers(&late, op.sent_us);
            // What a verdict causes takes no token.
            let is_known = late.iter().any(|&node| self.monitor.is_fail_slow(node));
            if !is_known && !self.hedging.budget.has_token() {
                self.stats.totals.hedge_budget_exhausted_total += 1;
                self.hedging.look_at(self.now.mono_us + HEDGE_RETRY_US);
                return;
            }
            match self.race(slot) {
                Start::Appended if !is_known => _ = self.take_token(),
                Start::Appended | Start::Useless => {}
                Start::NoRoom => return,
            }
        }
    }

    /// These owe writes that are older than usual: others are preferred until they have answered.
    pub(super) fn note_late_writers(&mut self, late: &[NodeId], since_us: u64) {
        let mut has_changed = false;
        for &node in late {
            let node = self.nodes.get_mut(node).filter(|node| node.write_late_us.is_none());
            has_changed |= node.map(|node| node.write_late_us = Some(since_us)).is_some();
        }
        if has_changed {
            self.refresh_hampered();
        }
    }

    /// Nodes that have answered what they owed too long are as good as any.
    pub(in crate::engine) fn forgive_writers(&mut self) {
        let late: Vec<_> = self.nodes.iter().filter(|node| node.write_late_us.is_some()).map(|node| node.id).collect();
        let mut has_changed = false;
        for id in late {
            let before_us = self.now.mono_us.saturating_sub(self.write_delay_us(id, 0));
            let owes = |slot: &StripeSlot| {
                let stripe = self.stripes.at(*slot);
                let member = stripe.member_of(id);
                member.zip(stripe.open.as_ref()).is_some_and(|(member, open)| open.owes_since(member, before_us))
            };
            if !self.stripes.unsealed().iter().any(owes) && !self.owes_install(id, before_us) {
                self.nodes.get_mut(id).expect("a node").write_late_us = None;
                has_changed = true;
            }
        }
        if has_changed {
            self.refresh_hampered();
        }
    }

    /// Everything that waits for a fail-slow node is raced, without a token.
    pub(in crate::engine) fn race_all_of(&mut self, node: NodeId) {
        for slot in self.stripes.unsealed().to_vec() {
            let stripe = self.stripes.at(slot);
            let Some(member) = stripe.member_of(node) else { continue };
            if !self.log_sidesteps(stripe.partition) {
                continue;
            }
            let waits = |engine: &Self| {
                let open = engine.stripes.at(slot).open.as_ref();
                let op = open.and_then(|open| open.next_to_race());
                op.is_some_and(|op| op.laggards.contains(&member))
            };
            while waits(self) && self.race(slot) != Start::NoRoom {}
        }
    }

    /// Appends the oldest operation of a stripe that is not raced again, where nobody is slow.
    fn race(&mut self, from: StripeSlot) -> Start {
        let stripe = self.stripes.at(from);
        let partition = stripe.partition;
        let open = stripe.bytes();
        let Some(op) = open.next_to_race() else { return Start::Useless };
        let lateness_us = op.laggards.iter().map(|&member| self.lateness_us(stripe.members[member])).max();
        let items = open.items_to_race();
        // The records of a group only ever lie together.
        let is_group = |item: &Item<Purpose>| matches!(self.purpose_of(item.purpose), Purpose::Group { .. });
        let raced: Vec<_> = items.iter().map(|item| self.may_race(&item.purpose)).collect();
        let lengths = items.iter().zip(&raced).filter(|(_, raced)| **raced).map(|(item, _)| item.length);
        let length = lengths.sum();
        if !raced.contains(&true) || raced.contains(&false) && items.iter().any(is_group) {
            self.stripes.at_mut(from).open.as_mut().and_then(|open| open.begin_race());
            return Start::Useless;
        }
        let room = self.make_room(partition, length, Urgency::Client, StripeId::default());
        // Among slow nodes, one that is hardly late is better than one that will not answer soon.
        let is_better = |room: &Room| room.lateness_us == 0 || room.lateness_us < lateness_us.unwrap_or(0) / 2;
        let Some(room) = room.ok().filter(is_better) else {
            self.hedging.look_at(self.now.mono_us + HEDGE_RETRY_US);
            return Start::NoRoom;
        };
        // An operation of its own, as the first one was: durable as a whole.
        self.flush_stripe(room.slot);
        let stripe = self.stripes.at_mut(from);
        let from_id = stripe.id;
        let open = stripe.bytes_mut();
        let (items, bytes) = open.begin_race().expect("it was found above");
        let mut start = 0;
        let mut wrapped = Vec::with_capacity(items.len());
        for (item, is_raced) in items.iter().zip(raced) {
            let bytes = &bytes[start..start + item.length];
            start += item.length;
            if !is_raced {
                wrapped.push(item.purpose);
                continue;
            }
            let race = match item.purpose {
                Purpose::Raced(race) => {
                    self.races.get_mut(race).expect("a copy of it is under way").copies += 1;
                    race
                }
                purpose => {
                    let first = self.stripes.location(from, item.data_index, item.offset);
                    self.races.insert(Race { purpose, first, copies: 2, is_won: false })
                }
            };
            wrapped.push(Purpose::Raced(race));
            let stripe = self.stripes.at_mut(room.slot);
            let open = stripe.open.as_mut().expect("it has room");
            let place = open.append(room.data_index, item.length, Purpose::Raced(race)).1;
            // Of the same epoch, so as long.
            let (record, _) = Record::parse(bytes, from_id).expect("the owner's own bytes are a record");
            record.encode(stripe.id, place);
        }
        self.flush_stripe(room.slot);
        self.has_unsent = true;
        let open = self.stripes.at_mut(from).bytes_mut();
        open.set_purposes(items[0].data_index, items[0].offset, &wrapped);
        self.stats.totals.redirected_writes_total += items.len() as u64;
        Start::Appended
    }

    /// A copy is held by all its participants: who is to hear of it, if it is the first.
    pub(super) fn race_confirmed(&mut self, key: PoolKey, at: Location) -> Option<Purpose> {
        let race = self.races.get_mut(key)?;
        race.copies -= 1;
        let first = (!race.is_won).then_some(race.purpose);
        self.stats.totals.hedges_won_total += u64::from(!race.is_won && at != race.first);
        race.is_won = true;
        if race.copies == 0 {
            self.races.remove(key);
        }
        first
    }

    /// A copy's stripe was abandoned before it was confirmed.
    pub(super) fn leave_race(&mut self, key: PoolKey) -> Left {
        let Some(race) = self.races.get_mut(key) else { return Left::Nothing };
        race.copies -= 1;
        if race.copies > 0 {
            if !race.is_won {
                self.race_again(key);
            }
            return Left::Nothing;
        }
        let race = self.races.remove(key).expect("it was there");
        if race.is_won { Left::Nothing } else { Left::Last(race.purpose) }
    }

    /// The copies that go on may be late as well by now, and have been for long: they are raced as if they never were.
    fn race_again(&mut self, key: PoolKey) {
        for slot in self.stripes.unsealed().to_vec() {
            self.stripes.at_mut(slot).bytes_mut().race_again(Purpose::Raced(key));
        }
        self.hedging.due_us = self.now.mono_us;
    }

    /// What a record is for, raced or not.
    fn purpose_of(&self, purpose: Purpose) -> Purpose {
        match purpose {
            Purpose::Raced(race) => self.races.get(race).map_or(purpose, |race| race.purpose),
            purpose => purpose,
        }
    }

    /// Is another copy of this record of any use?
    fn may_race(&self, purpose: &Purpose) -> bool {
        match purpose {
            Purpose::Raced(race) => {
                self.races.get(*race).is_some_and(|race| !race.is_won && race.copies < RACE_COPIES_MAX)
            }
            // Nobody waits for these; and a record that is carried must not become two each time a node is slow.
            Purpose::Carry { .. } | Purpose::Void { .. } | Purpose::Flushed => false,
            _ => true,
        }
    }

    /// Races about what was flushed are over: nobody waits for a copy. Who did.
    pub(super) fn end_flushed_races(&mut self, partitions: &BTreeSet<PartitionId>) -> Vec<Purpose> {
        let mut races = std::mem::take(&mut self.races);
        let mut ended = Vec::new();
        for race in races.values_mut().filter(|race| !race.is_won && self.is_flushed(race.purpose, partitions)) {
            race.is_won = true;
            ended.push(race.purpose);
        }
        self.races = races;
        ended
    }
}

#[cfg(test)]
mod tests {
    use shorttail_units::{CodeShape, Version};

    use super::*;
    use crate::engine::state::testing::{ask, confirm_all, engine_of_ready_nodes};
    use crate::engine::write::lock::LockPhase;

    fn races(engine: &mut Engine) -> u64 {
        engine.now.mono_us += 1_000_000;
        engine.hedge_late();
        engine.stats.totals.hedges_sent_total
    }

    #[test]
    fn a_copy_that_goes_on_alone_is_raced_again() {
        let mut engine = engine_of_ready_nodes(CodeShape::default(), 18);
        let lock = engine.locks.insert(engine.key_ref(b"a"), LockPhase::Held);
        let record = Record::object(b"a", b"1", Version::default());
        let partition = PartitionId(0);
        engine.append_record(partition, &record, Purpose::Write(lock), Urgency::Client).expect("room");
        engine.flush_logs();
        let [first] = engine.stripes.unsealed().to_vec()[..] else { panic!("one stripe") };
        assert_eq!(races(&mut engine), 1);
        let slots = engine.stripes.unsealed().to_vec();
        let [second] = slots.into_iter().filter(|&slot| slot != first).collect::<Vec<_>>()[..] else {
            panic!("a copy")
        };
        engine.abandon(second);
        assert_eq!(races(&mut engine), 2);
    }

    /// What is evicted from there without a tombstone would come back from a copy beyond.
    #[test]
    fn the_stripe_of_the_copy_that_counts_reaches_over_all_others() {
        let mut engine = engine_of_ready_nodes(CodeShape::default(), 18);
        ask(&mut engine, b"set a 0 0 1\r\n1\r\n");
        let [first] = engine.stripes.unsealed().to_vec()[..] else { panic!("one stripe") };
        assert_eq!([(); 2].map(|()| races(&mut engine)), [1, 2]);
        let copies = engine.stripes.unsealed().iter().map(|&slot| engine.stripes.at(slot).id);
        let last = copies.max().expect("three copies");
        assert_eq!(engine.stripes.unsealed().len(), 3);
        confirm_all(&mut engine, first);
        assert_eq!((engine.index.object_count(), engine.stripes.at(first).reach), (1, last));
    }
}
