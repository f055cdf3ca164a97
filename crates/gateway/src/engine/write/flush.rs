//! flush_all: a floor under each partition that it is of. Objects of a lower version are gone.
//!
//! ```text
//! declared: a floor record goes to each of these partitions' logs, if each has a place; from here on no round of any key begins
//!    |--all durable--> applied: the index is emptied, the client hears, rounds begin again
//!    '--one finds no place--> given up: the outcome is unknown, a later owner may find the floor and apply it (see `kept`)
//! ```
//! Nobody sees a flush before it is durable (rule R10): until then reads find what was there. Rounds wait, because one
//! that began on what the flush ends would write a version above the floor. Rounds under way have lower versions: what
//! they write is dead on arrival. So they end when the floor is applied, wherever their records are: as nothing of them
//! may be appended again above the floor's horizon (rule R3), they would wait for a slow node as long as it takes.
//!
//! A delayed flush is a control record too, so that it happens although the owner changes meanwhile. An immediate flush
//! cancels it: its version is below the floor.
//!
//! ```text
//! ordered --its time--> overdue: no round begins --declared, as above, where there is a place-->
//!                          '--no place for so long as a write waits for memory--> rounds begin, and nothing is stored by
//!                             them; declared when it can be
//! ```
//! An owner may notice late that it is time, as it slept or has just taken over: what was asked after that must not go
//! with a floor that it declares then. And it may have partitions of two earlier owners, of which one carried the order
//! out: so orders are kept by partition, and a floor goes to those alone that are overdue.

use std::collections::{BTreeMap, BTreeSet};

use shorttail_store::record::{Control, Record};
use shorttail_units::{PartitionId, SLOT_COUNT, Slot, StripeId, UnixMs, Version};

use super::lock::LockPhase;
use super::log::{PlaceError, Purpose};
use super::striped_objects::StripedObject;
use crate::command::StoreError;
use crate::engine::limits::{FLUSH_RETRY_US, STALL_US_MAX};
use crate::engine::reclaim::reserve::Urgency;
use crate::engine::state::pool::{Pool, PoolKey};
use crate::engine::{Engine, Token, Work};
use crate::request::{KeyspaceReply, Reply};

/// A control record for some partitions, on its way.
#[derive(Debug)]
struct Declaration {
    version: Version,
    control: Control,
    partitions: BTreeSet<PartitionId>,
    unconfirmed: BTreeSet<PartitionId>,
    waiting: Vec<Token>,
}

/// A flush that is to be declared.
#[derive(Clone, Debug)]
struct Postponed {
    token: Token,
    partitions: BTreeSet<PartitionId>,
    since_us: u64,
    /// Some partitions have a record of an earlier attempt: a later owner may take that for the flush.
    is_begun: bool,
}

/// A flush for later that is to be declared.
#[derive(Clone, Debug)]
struct Order {
    token: Token,
    partitions: BTreeSet<PartitionId>,
    at: UnixMs,
    since_us: u64,
}

/// Why a control record is not on its way to every partition.
#[derive(Clone, Copy, Debug)]
struct NotDeclared {
    error: PlaceError,
    /// No partition got it.
    is_untouched: bool,
    /// What is told who waited for a place in vain.
    in_vain: StoreError,
}

impl NotDeclared {
    fn store_error(&self) -> StoreError {
        match self.error {
            PlaceError::Refuse(error) if self.is_untouched => error,
            PlaceError::Wait if self.is_untouched => self.in_vain,
            _ => StoreError::OutcomeUnknown,
        }
    }
}

#[derive(Debug, Default)]
pub struct Flushes {
    floors: BTreeMap<PartitionId, Version>,
    /// By partition: the delayed flush that is to come, and the version of its declaration.
    due: BTreeMap<PartitionId, (Version, UnixMs)>,
    /// Since when some are overdue, once their floor was to be declared.
    overdue_us: Option<u64>,
    /// Their floor found no place for long: nobody waits for it. What would store anything is refused.
    is_given_up: bool,
    /// A floor reached some partitions and found no place in another: none is declared before, whoever waits for it.
    again_us: u64,
    declarations: Pool<Declaration>,
    /// The floor that is being declared.
    declaring: Option<PoolKey>,
    /// Locks and groups whose turn comes when it is applied.
    held_locks: Vec<PoolKey>,
    held_groups: Vec<PoolKey>,
    /// Flushes for later that were ordered meanwhile, or found no place yet.
    held_orders: Vec<Order>,
    /// Clients whose flush found no place yet.
    postponed: Vec<Postponed>,
}

impl Engine {
    /// `of`: these partitions; none: all that there are.
    pub(in crate::engine) fn flush(&mut self, token: Token, at: Option<UnixMs>, of: &[u16]) {
        let all = self.all_partitions();
        let partitions = match of {
            [] => all.clone(),
            named => named.iter().copied().map(PartitionId).collect(),
        };
        // Whoever asks takes all of them for flushed.
        if !partitions.is_subset(&all) {
            return self.answer_flush(token, Err(StoreError::NotOwner));
        }
        // A refusal leaves everything as it was: so it comes before the first change.
        if let Err(PlaceError::Refuse(error)) = self.too_few_nodes() {
            return self.answer_flush(token, Err(error));
        }
        let since_us = self.now.mono_us;
        match at {
            Some(at) => self.order_flush(Order { token, partitions, at, since_us }),
            None => self.flush_now(Postponed { token, partitions, since_us, is_begun: false }),
        }
    }

    fn order_flush(&mut self, order: Order) {
        let Order { token, ref partitions, at, since_us } = order;
        if at <= self.now.unix_ms {
            return self.flush_now(Postponed { token, partitions: order.partitions, since_us, is_begun: false });
        }
        // A floor that is declared, or should be, has a higher version than an order of now: it would end it.
        if self.is_flushing() || self.is_flush_overdue() {
            return self.flushes.held_orders.push(order);
        }
        let version = self.take_version();
        let declared = self.declare(version, Control::FlushDue(at), partitions.clone(), vec![token]);
        let Err(failed) = declared else { return };
        // It waits for a place as any write does, where nothing was sent.
        let has_waited = self.now.mono_us.saturating_sub(since_us) > STALL_US_MAX;
        if failed.error == PlaceError::Wait && failed.is_untouched && !has_waited {
            return self.flushes.held_orders.push(order);
        }
        self.answer_flush(token, Err(failed.store_error()));
    }

    /// One more client waits for the floor that is being declared, or a new one is.
    fn flush_now(&mut self, flush: Postponed) {
        let Postponed { token, ref partitions, since_us, is_begun } = flush;
        if let Some(declaration) = self.flushes.declaring.and_then(|key| self.flushes.declarations.get_mut(key)) {
            return match declaration.partitions.is_superset(partitions) {
                true => declaration.waiting.push(token),
                false => self.flushes.postponed.push(flush),
            };
        }
        let Err(failed) = self.declare_floor(partitions.clone(), vec![token]) else { return };
        let failed = NotDeclared { is_untouched: failed.is_untouched && !is_begun, ..failed };
        let has_waited = self.now.mono_us.saturating_sub(since_us) > STALL_US_MAX;
        if failed.error == PlaceError::Wait && !has_waited {
            let is_begun = !failed.is_untouched;
            return self.flushes.postponed.push(Postponed { is_begun, ..flush });
        }
        self.answer_flush(token, Err(failed.store_error()));
    }

    fn all_partitions(&self) -> BTreeSet<PartitionId> {
        self.config.partitions.iter().copied().collect()
    }

    fn declare_floor(&mut self, partitions: BTreeSet<PartitionId>, waiting: Vec<Token>) -> Result<(), NotDeclared> {
        if self.now.mono_us < self.flushes.again_us {
            return Err(NotDeclared { error: PlaceError::Wait, ..self.no_place(&partitions) });
        }
        let floor = self.take_version();
        let horizon = self.next_stripe_id();
        let declared = self.declare(floor, Control::Floor { floor, horizon }, partitions, waiting);
        // What left nothing behind may be tried at any time: others may have a place.
        if declared.as_ref().is_err_and(|failed| !failed.is_untouched) {
            self.flushes.again_us = self.now.mono_us + FLUSH_RETRY_US;
        }
        declared
    }

    /// Those of these partitions that have a place for a floor, as far as can be told.
    fn with_place(&self, partitions: &BTreeSet<PartitionId>) -> BTreeSet<PartitionId> {
        let value = Control::Floor { floor: Version::default(), horizon: StripeId::default() }.encode();
        let record = Record::control(&value, Version::default());
        let length = record.longest_bytes();
        let mut found = BTreeSet::new();
        for &partition in partitions {
            found.insert(partition);
            if !self.has_place_in(&found, length) {
                found.remove(&partition);
            }
        }
        found
    }

    /// Is there a place for a record of so many bytes in each of these partitions, as far as can be told?
    fn has_place_in(&self, partitions: &BTreeSet<PartitionId>, length: usize) -> bool {
        let partitions = partitions.iter().copied();
        let without: Vec<_> = partitions.filter(|&partition| !self.has_room_in_open(partition, length)).collect();
        let spare = self.spare_stripes().saturating_sub(self.stripes_left_by(Urgency::Cleaning));
        without.len() as u64 <= spare && !without.into_iter().any(|partition| self.waits_for_seals(partition))
    }

    fn no_place(&self, partitions: &BTreeSet<PartitionId>) -> NotDeclared {
        let waits_for_seals = partitions.iter().any(|&partition| self.waits_for_seals(partition));
        NotDeclared {
            error: self.too_few_nodes().err().unwrap_or(PlaceError::Wait),
            is_untouched: true,
            in_vain: self.why_no_place(waits_for_seals),
        }
    }

    /// Appends a control record to each of these partitions.
    ///
    /// # Errors
    /// One has no place. Almost always that is known before the first is appended; if not, a later owner may take those
    /// before it for a flush. Each is to be kept as long as anything older exists.
    fn declare(
        &mut self,
        version: Version,
        control: Control,
        partitions: BTreeSet<PartitionId>,
        waiting: Vec<Token>,
    ) -> Result<(), NotDeclared> {
        let value = control.encode();
        let is_floor = matches!(control, Control::Floor { .. });
        let record = Record::control(&value, version);
        if !self.has_place_in(&partitions, record.encoded_bytes(self.config.epoch)) {
            return Err(self.no_place(&partitions));
        }
        let unconfirmed = partitions.clone();
        let declaration = Declaration { version, control, partitions: partitions.clone(), unconfirmed, waiting };
        let key = self.flushes.declarations.insert(declaration);
        for (place, partition) in partitions.into_iter().enumerate() {
            let purpose = Purpose::Declared { declaration: key, partition };
            if let Err(error) = self.append_record(partition, &record, purpose, Urgency::Cleaning) {
                self.flushes.declarations.remove(key);
                let in_vain = self.why_no_place(self.waits_for_seals(partition));
                return Err(NotDeclared { error, is_untouched: place == 0, in_vain });
            }
        }
        if is_floor {
            self.flushes.declaring = Some(key);
        }
        Ok(())
    }

    fn answer_flush(&mut self, token: Token, result: Result<KeyspaceReply, StoreError>) {
        self.reply(token, Reply::Keyspace(result));
    }

    fn answer_flushes(&mut self, waiting: Vec<Token>, result: Result<KeyspaceReply, StoreError>) {
        waiting.into_iter().for_each(|token| self.answer_flush(token, result.clone()));
    }

    /// A partition's control record is durable.
    pub(super) fn declaration_confirmed(&mut self, key: PoolKey, partition: PartitionId) {
        let Some(declaration) = self.flushes.declarations.get_mut(key) else { return };
        declaration.unconfirmed.remove(&partition);
        if !declaration.unconfirmed.is_empty() {
            return;
        }
        let Some(declaration) = self.flushes.declarations.remove(key) else { return };
        match declaration.control {
            Control::FlushDue(at) if self.is_below_a_floor(&declaration) => {
                return self.declare_order_again(at, declaration.partitions, declaration.waiting);
            }
            Control::FlushDue(at) => {
                // One that was ordered later may be durable earlier: it takes the place of this one.
                let due = (declaration.version, at);
                for &partition in &declaration.partitions {
                    let known = self.flushes.due.entry(partition).or_insert(due);
                    *known = due.max(*known);
                }
                self.begin_waiting_for_due();
            }
            Control::Floor { horizon, .. } if horizon != self.next_stripe_id() => {
                return self.declare_floor_again(declaration.partitions, declaration.waiting);
            }
            _ => self.apply_floor_in(declaration.version, &declaration.partitions),
        }
        self.answer_flushes(declaration.waiting, Ok(KeyspaceReply::Flushed));
    }

    /// A partition's control record was in flight and found no other place.
    pub(super) fn declaration_interrupted(&mut self, key: PoolKey) {
        let Some(declaration) = self.flushes.declarations.remove(key) else { return };
        self.answer_flushes(declaration.waiting, Err(StoreError::OutcomeUnknown));
        if self.flushes.declaring == Some(key) {
            self.let_rounds_begin();
        }
    }

    /// Stripes were opened since the floor was declared: what was in flight may lie in them, above its horizon, and
    /// would come back when the floor is no longer kept (rule R3).
    fn declare_floor_again(&mut self, partitions: BTreeSet<PartitionId>, waiting: Vec<Token>) {
        if self.declare_floor(partitions, waiting.clone()).is_err() {
            self.answer_flushes(waiting, Err(StoreError::OutcomeUnknown));
            self.let_rounds_begin();
        }
    }

    fn is_below_a_floor(&self, declaration: &Declaration) -> bool {
        declaration.partitions.iter().any(|&partition| self.floor_of(partition) > declaration.version)
    }

    /// Some of it was flushed while a flush for later was declared: the next owner would take that for one that was
    /// cancelled.
    fn declare_order_again(&mut self, at: UnixMs, partitions: BTreeSet<PartitionId>, waiting: Vec<Token>) {
        let version = self.take_version();
        if self.declare(version, Control::FlushDue(at), partitions, waiting.clone()).is_err() {
            self.answer_flushes(waiting, Err(StoreError::OutcomeUnknown));
        }
    }

    pub(in crate::engine) fn apply_floor_in(&mut self, floor: Version, partitions: &BTreeSet<PartitionId>) {
        for number in 0..SLOT_COUNT as u16 {
            let slot = Slot::new(number).expect("below the slot count");
            if partitions.contains(&self.config.partition_of(slot)) {
                self.index.clear_slot(slot);
            }
        }
        // What is touched is there, and goes with its round.
        let kept: BTreeSet<StripeId> = self.striped_in_flight().into_iter().collect();
        let is_all = partitions.len() == self.config.partitions.len();
        let mut gone_bytes = if is_all { 0 } else { self.counted_striped_bytes(partitions, &kept) };
        let flushed = self.stripes.iter().filter(|(_, stripe)| partitions.contains(&stripe.partition));
        for slot in flushed.map(|(slot, _)| slot).collect::<Vec<_>>() {
            let stripe = self.stripes.at_mut(slot);
            // Not `drop_live` of each: all of the stripe goes at once, and nobody looks at its records.
            gone_bytes += std::mem::take(&mut stripe.live_bytes);
            stripe.live_count = 0;
        }
        let is_flushed = |object: &StripedObject| partitions.contains(&object.partition);
        let flushed = self.striped.take(&kept, (!is_all).then_some(is_flushed));
        self.note_flushed(flushed);
        self.stats.totals.bytes_stored =
            if is_all { 0 } else { self.stats.totals.bytes_stored.saturating_sub(gone_bytes) };
        for &partition in partitions {
            self.flushes.floors.insert(partition, floor);
        }
        self.flushes.due.retain(|partition, &mut (version, _)| !partitions.contains(partition) || version > floor);
        self.begin_waiting_for_due();
        self.end_losses(partitions);
        self.settle_all_of(partitions);
        self.end_outlived(partitions);
        self.end_what_was_flushed(partitions);
        // What could not be compared is gone.
        self.verify_all_doubtful();
        self.let_rounds_begin();
    }

    /// Bytes of the striped values of these partitions that are counted as stored.
    fn counted_striped_bytes(&self, partitions: &BTreeSet<PartitionId>, kept: &BTreeSet<StripeId>) -> u64 {
        let uncounted = self.unsettled_values();
        let is_counted = |&(first, object): &(&StripeId, &StripedObject)| {
            let is_made = || kept.contains(first) && self.is_in_the_making(*first);
            partitions.contains(&object.partition) && !uncounted.contains(first) && !is_made()
        };
        self.striped.iter().filter(is_counted).map(|(_, object)| object.manifest.value_bytes as u64).sum()
    }

    /// What is under way and flushed concerns nobody any more: who waits for it has the answer.
    fn end_what_was_flushed(&mut self, partitions: &BTreeSet<PartitionId>) {
        let mut ended = self.end_flushed_races(partitions);
        for slot in self.stripes.unsealed().to_vec() {
            let mut open = self.stripes.at_mut(slot).open.take().expect("an unsealed stripe has its bytes");
            for item in open.unconfirmed_mut().filter(|item| self.is_flushed(item.purpose, partitions)) {
                ended.push(std::mem::replace(&mut item.purpose, Purpose::Flushed));
            }
            self.stripes.at_mut(slot).open = Some(open);
        }
        for purpose in ended {
            match purpose {
                Purpose::Write(lock) => self.finish_round(lock),
                Purpose::Move { lock, job } => self.move_interrupted(lock, job),
                Purpose::Group { group, .. } => self.end_group(group, Ok(true)),
                _ => {}
            }
        }
    }

    /// Is a record that is under way for this below the floor that was just applied in these partitions?
    pub(super) fn is_flushed(&self, purpose: Purpose, partitions: &BTreeSet<PartitionId>) -> bool {
        let lock = match purpose {
            Purpose::Write(lock) => lock,
            Purpose::Group { group, .. } => return self.is_group_flushed(group),
            Purpose::Move { lock, .. } => {
                // None began since the floor was declared.
                let moved = self.locks.get(lock);
                return moved.is_none_or(|lock| partitions.contains(&self.config.partition_of(lock.slot)));
            }
            _ => return false,
        };
        let Some(lock) = self.locks.get(lock) else { return false };
        let LockPhase::Writing(round) = &lock.phase else { return false };
        round.version < self.floor_of(self.config.partition_of(lock.slot))
    }

    fn let_rounds_begin(&mut self) {
        self.flushes.declaring = None;
        self.stalled.hope_again();
        for lock in std::mem::take(&mut self.flushes.held_locks) {
            self.work.push_back(Work::Start(lock));
        }
        for group in std::mem::take(&mut self.flushes.held_groups) {
            if let Some(held) = self.groups.get_mut(group) {
                held.is_held = false;
            }
            self.look_up_when_held(group);
        }
        for order in std::mem::take(&mut self.flushes.held_orders) {
            self.order_flush(order);
        }
    }

    /// What was not declared is given back: it may wait for what an owner that lets go does not begin any more.
    pub(in crate::engine) fn give_back_flushes(&mut self) {
        for Order { token, .. } in std::mem::take(&mut self.flushes.held_orders) {
            self.answer_flush(token, Err(StoreError::NotOwner));
        }
        for Postponed { token, is_begun, .. } in std::mem::take(&mut self.flushes.postponed) {
            let error = if is_begun { StoreError::OutcomeUnknown } else { StoreError::NotOwner };
            self.answer_flush(token, Err(error));
        }
    }

    /// As [`Engine::give_up_all`], for flushes: of those that were declared nodes may hold some of the records.
    pub(in crate::engine) fn give_up_flushes(&mut self) {
        self.give_back_flushes();
        for declaration in self.flushes.declarations.take_all() {
            self.answer_flushes(declaration.waiting, Err(StoreError::OutcomeUnknown));
        }
    }

    /// Is any partition overdue?
    fn is_flush_overdue(&self) -> bool {
        self.flushes.due.values().any(|&(_, at)| at <= self.now.unix_ms)
    }

    fn is_overdue_in(&self, partition: PartitionId) -> bool {
        self.flushes.due.get(&partition).is_some_and(|&(_, at)| at <= self.now.unix_ms)
    }

    /// Is nothing to be stored in a partition, as its floor, which found no place for long, will be above it?
    pub(super) fn is_flush_late(&self, partition: PartitionId) -> bool {
        self.flushes.is_given_up && self.is_overdue_in(partition)
    }

    /// What a store hears there.
    pub(super) fn late_error(&self, partition: PartitionId) -> StoreError {
        self.why_no_place(self.waits_for_seals(partition))
    }

    /// Is a flush for later being declared? It takes the place of the one that is to come.
    fn is_ordering(&self) -> bool {
        let is_order = |declaration: &Declaration| matches!(declaration.control, Control::FlushDue(_));
        self.flushes.declarations.iter().any(|(_, declaration)| is_order(declaration))
    }

    /// Flushes for later that are to come in a partition: the one that counts, and those that are being declared. These
    /// count as soon as they are everywhere; where one is durable already it is kept.
    pub(in crate::engine) fn orders(&self, partition: PartitionId) -> impl Iterator<Item = Version> {
        let due = self.flushes.due.get(&partition).map(|&(version, _)| version);
        let declarations = self.flushes.declarations.iter().map(|(_, declaration)| declaration);
        let declared = declarations.filter(move |it| it.partitions.contains(&partition)).map(|it| it.version);
        due.into_iter().chain(declared)
    }

    pub(in crate::engine) fn first_order(&self, partition: PartitionId) -> Option<Version> {
        self.orders(partition).min()
    }

    /// Is a floor being declared? Then nothing that it may end is moved.
    pub(in crate::engine) fn is_flushing(&self) -> bool {
        self.flushes.declaring.is_some()
    }

    /// Is a floor being declared, or is one to be in this partition that everybody waits for?
    fn holds_rounds_in(&self, partition: PartitionId) -> bool {
        self.is_flushing() || self.is_overdue_in(partition) && !self.flushes.is_given_up
    }

    /// Do writes wait for a flush that finds no place?
    pub(in crate::engine) fn holds_writes_for_overdue(&self) -> bool {
        let is_any_held = !self.flushes.held_locks.is_empty() || !self.flushes.held_groups.is_empty();
        is_any_held && self.is_flush_overdue() && !self.flushes.is_given_up
    }

    /// Does a flush keep rounds from beginning? Then the lock's turn comes afterwards.
    pub(super) fn hold_for_flush(&mut self, lock: PoolKey) -> bool {
        let partition = self.locks.get(lock).map(|held| self.config.partition_of(held.slot));
        if !partition.is_some_and(|partition| self.holds_rounds_in(partition)) {
            return false;
        }
        if let Some(held) = self.locks.get_mut(lock) {
            held.phase = LockPhase::Starting;
            self.flushes.held_locks.push(lock);
        }
        true
    }

    /// As [`Engine::hold_for_flush`], for a group that has all its locks.
    pub(super) fn hold_group_for_flush(&mut self, group: PoolKey) -> bool {
        if !self.partition_of_group(group).is_some_and(|partition| self.holds_rounds_in(partition)) {
            return false;
        }
        if let Some(held) = self.groups.get_mut(group).filter(|held| !held.is_held) {
            held.is_held = true;
            self.flushes.held_groups.push(group);
        }
        true
    }

    pub(in crate::engine) fn floor_of(&self, partition: PartitionId) -> Version {
        self.flushes.floors.get(&partition).copied().unwrap_or_default()
    }

    /// What an earlier owner had declared.
    pub(in crate::engine) fn inherit_floor(&mut self, partition: PartitionId, floor: Version) {
        let known = self.flushes.floors.entry(partition).or_default();
        *known = floor.max(*known);
    }

    pub(in crate::engine) fn inherit_flush_due(&mut self, partition: PartitionId, version: Version, at: UnixMs) {
        self.flushes.due.insert(partition, (version, at));
        self.begin_waiting_for_due();
    }

    /// What is to come is another flush, unless some partitions are overdue still.
    fn begin_waiting_for_due(&mut self) {
        if !self.is_flush_overdue() {
            (self.flushes.overdue_us, self.flushes.is_given_up) = (None, false);
        }
    }

    /// Flushes when it is time, and tries again what found no memory.
    pub(in crate::engine) fn advance_flushes(&mut self) {
        if !self.is_serving() {
            return;
        }
        for flush in std::mem::take(&mut self.flushes.postponed) {
            self.flush_now(flush);
        }
        if self.is_flushing() || self.is_ordering() {
            return;
        }
        if self.is_flush_overdue() {
            return self.declare_overdue();
        }
        // Whoever waited for one that was overdue: another took its place.
        self.let_rounds_begin();
    }

    /// A floor goes to those that have a place. What finds none now is tried again soon; who waits for it does so for a
    /// while.
    fn declare_overdue(&mut self) {
        let now_us = self.now.mono_us;
        let since_us = *self.flushes.overdue_us.get_or_insert(now_us);
        let overdue = self.flushes.due.iter().filter(|(_, (_, at))| *at <= self.now.unix_ms);
        let overdue = overdue.map(|(&partition, _)| partition).collect();
        let placed = self.with_place(&overdue);
        let declared = match placed.is_empty() {
            true => Err(self.no_place(&overdue)),
            false => self.declare_floor(placed, Vec::new()),
        };
        let Err(failed) = declared else { return };
        let has_waited = |since_us: u64| now_us.saturating_sub(since_us) > STALL_US_MAX;
        // Of an order itself nothing was sent.
        let error = NotDeclared { is_untouched: true, ..failed }.store_error();
        let orders = self.flushes.held_orders.extract_if(.., |order| has_waited(order.since_us));
        for Order { token, .. } in orders.collect::<Vec<_>>() {
            self.answer_flush(token, Err(error));
        }
        if has_waited(since_us) && !self.flushes.is_given_up {
            self.flushes.is_given_up = true;
            self.let_rounds_begin();
        }
    }
}

#[cfg(test)]
mod tests;
