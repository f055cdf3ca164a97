//! Rounds: the commands that wait for one key are applied one after the other, and what they leave
//! behind is written once.
//!
//! A round's commands take effect together at the moment its record is durable, in the order in which they came: each
//! saw what the one before it left. So a key that many clients write at once costs one append per round trip.

mod current;
mod state;
#[cfg(test)]
mod tests;

use shorttail_policy::Update;
use shorttail_store::record::{Record, RecordKind};
use shorttail_units::{PartitionId, UnixMs, Version};

use super::lock::{KeyBytes, Lock, LockPhase, Move, Old, Waiting};
use super::log::{PlaceError, Purpose};
use super::object::{Object, ObjectData, OldRecord};
use crate::command::{Access, ApplyContext, BoxCommand, Effect, StoreError, Wants};
use crate::engine::limits::{COMBINE_BYTES_MAX, COMBINE_MAX, KEY_QUEUE_MAX};
use crate::engine::read::lookup::LookupPurpose;
use crate::engine::reclaim::reserve::Urgency;
use crate::engine::state::index::{HashedKey, Location};
use crate::engine::state::pool::PoolKey;
use crate::engine::state::stripes::StripePhase;
use crate::engine::{Engine, KeyRef, Token, Work};
use current::Current;
pub use state::{End, Finished, FinishedCommands, Round};

impl Engine {
    /// A command that may change its key: the key's lock is taken, or waited for.
    pub(in crate::engine) fn write(&mut self, token: Token, command: BoxCommand) {
        let key = self.key_ref(command.key());
        self.index.prefetch(key.slot, key.tag());
        if let Some(found) = self.locks.find(key) {
            if let Err(error) = self.may_queue(found) {
                return self.refuse(token, &command, error);
            }
            self.deferred.press();
            let lock = self.locks.get_mut(found).expect("it was found");
            return lock.queue.push_back(Waiting::Command(token, command));
        }
        let lock = self.locks.insert(key, LockPhase::Starting);
        self.locks.get_mut(lock).expect("just inserted").queue.push_back(Waiting::Command(token, command));
        self.start(lock);
    }

    /// May one more that changes the key wait for its lock?
    pub(super) fn may_queue(&self, lock: PoolKey) -> Result<(), StoreError> {
        match self.locks.get(lock) {
            Some(lock) if lock.queue.len() >= KEY_QUEUE_MAX => Err(StoreError::Overloaded),
            Some(lock) if lock.is_doubtful() => Err(StoreError::Unreadable),
            _ => Ok(()),
        }
    }

    /// Begins the next round of a lock, or lets go of it when nobody waits.
    pub(in crate::engine) fn start(&mut self, key: PoolKey) {
        let Some(lock) = self.locks.get_mut(key) else { return };
        if !lock.queue.is_empty() && self.hold_for_flush(key) {
            return;
        }
        let Some(lock) = self.locks.get_mut(key) else { return };
        let first = match lock.queue.front() {
            None => return self.locks.remove(key),
            Some(&Waiting::Group(group)) => {
                lock.queue.pop_front();
                return self.group_granted(group, key);
            }
            Some(Waiting::Command(_, first)) => first,
        };
        if first.wants() == Wants::Nothing {
            let is_new = self.index.candidates(lock.slot, lock.tag()).next().is_none();
            return self.run_round(key, Current::Unseen, if is_new { Old::Absent } else { Old::Unverified });
        }
        lock.phase = LockPhase::Looking;
        let wants_value =
            |waiting: &Waiting| matches!(waiting, Waiting::Command(_, command) if command.wants() == Wants::Value);
        let wants_value = lock.queue.iter().take(COMBINE_MAX).any(wants_value);
        self.begin_lookup_of(key, LookupPurpose::Round { lock: key, wants_value });
    }

    /// A lock's next round begins once what is being handled is.
    pub(super) fn start_round_again(&mut self, key: PoolKey) {
        let Some(lock) = self.locks.get_mut(key) else { return };
        lock.phase = LockPhase::Starting;
        self.work.push_back(Work::Start(key));
    }

    /// Looks for a lock's key.
    pub(super) fn begin_lookup_of(&mut self, key: PoolKey, purpose: LookupPurpose) {
        let Some(lock) = self.locks.get(key) else { return };
        let bytes = KeyBytes::from_slice(&lock.key);
        let looked_for = KeyRef { bytes: &bytes, hashed: lock.hashed };
        self.begin_lookup(looked_for, purpose);
    }

    /// The current object is known.
    pub(in crate::engine) fn round_current(&mut self, key: PoolKey, object: Option<Object>, old: Old) {
        let is_looking = self.locks.get(key).is_some_and(|lock| matches!(lock.phase, LockPhase::Looking));
        if is_looking && !self.hold_for_flush(key) {
            self.run_round(key, object.map_or(Current::Absent, Current::Present), old);
        }
    }

    /// The current object cannot be read: who waits for it is told, up to the first who needs not know it.
    pub(in crate::engine) fn round_unreadable(&mut self, key: PoolKey) {
        let Some(lock) = self.locks.get_mut(key) else { return };
        let needs_it =
            |waiting: &Waiting| matches!(waiting, Waiting::Command(_, command) if command.wants() != Wants::Nothing);
        let count = lock.queue.iter().take_while(|waiting| needs_it(waiting)).count();
        let in_vain: Vec<_> = lock.queue.drain(..count).collect();
        self.refuse_all(in_vain, StoreError::Unreadable);
        self.work.push_back(Work::Start(key));
    }

    fn refuse_queue(&mut self, key: PoolKey, error: StoreError) {
        let Some(lock) = self.locks.get_mut(key) else { return };
        let waiting = std::mem::take(&mut lock.queue);
        self.refuse_all(waiting, error);
    }

    fn refuse_all(&mut self, waiting: impl IntoIterator<Item = Waiting>, error: StoreError) {
        for waiting in waiting {
            match waiting {
                Waiting::Command(token, command) => self.refuse(token, &command, error),
                Waiting::Group(group) => self.fail_group(group, error),
            }
        }
    }

    fn run_round(&mut self, key: PoolKey, mut current: Current, old: Old) {
        let lock = self.locks.get_mut(key).expect("a lock that runs a round");
        let hash = lock.hash;
        let mut queue = std::mem::take(&mut lock.queue);
        let mut finished = FinishedCommands::new();
        let mut written: Option<Version> = None;
        let (mut mark_read, mut touched) = (false, false);
        let mut copied_bytes = 0;
        while let Some(waiting) = queue.pop_front() {
            let has_room = finished.len() < COMBINE_MAX && copied_bytes < COMBINE_BYTES_MAX;
            let (token, mut command) = match waiting {
                Waiting::Command(token, command) if has_room && current.suffices(command.wants()) => (token, command),
                other => {
                    queue.push_front(other);
                    break;
                }
            };
            // What an earlier command of the round left may be over already.
            if matches!(&current, Current::Present(object) if object.expiry.is_some_and(|at| at <= self.now.unix_ms)) {
                current = Current::Absent;
            }
            if let Some(large) = current.deferred(&command) {
                self.reply_error(token, large);
                continue;
            }
            let was_fetched = matches!(&current, Current::Present(object) if object.fetched);
            let version = self.take_version();
            let context = ApplyContext { now: self.now, version };
            let mut reply = Vec::new();
            let effect = command.apply(current.shown(&command), &context, &mut reply);
            let changes = effect != Effect::Keep;
            let is_delete = effect == Effect::Delete;
            copied_bytes += reply.len() + stored_bytes(&command, &effect);
            touched |= command.touches();
            mark_read = match &effect {
                Effect::Keep => mark_read || command.touches() && command.access() == Access::Read,
                Effect::Amend(_) => mark_read || command.touches() || was_fetched,
                Effect::Put(_) | Effect::Delete => false,
            };
            current = current.after(effect, version);
            written = if changes { Some(version) } else { written };
            finished.push(Finished { token, command, reply, is_independent: written.is_none(), is_delete });
        }
        if touched {
            self.recent.touch(hash, self.now.unix_ms.seconds());
        }
        let lock = self.locks.get_mut(key).expect("a lock that runs a round");
        if !queue.is_empty() {
            lock.queue = queue;
        }
        let end = match current {
            Current::Present(object) => End::Store(object),
            Current::Absent | Current::Unseen => End::Delete,
        };
        let Some(version) = written else { return self.finish_unwritten(key, finished, &old, mark_read) };
        self.write_round(key, Round { mark_read, ..Round::new(finished, end, version, old) });
    }

    /// What a round leaves is known: it is written.
    pub(super) fn write_round(&mut self, key: PoolKey, round: Round) {
        let lock = self.locks.get_mut(key).expect("a lock that runs a round");
        let (version, needs_verification) = (round.version, matches!(round.old, Old::Unverified));
        if matches!(round.end, End::Delete) || !lock.queue.is_empty() {
            self.deferred.press();
        }
        lock.phase = LockPhase::Writing(Box::new(round));
        if needs_verification {
            self.begin_lookup_of(key, LookupPurpose::Verify { lock: key, version });
        }
        self.send_round(key);
    }

    /// Nothing changed: the replies leave at once.
    fn finish_unwritten(&mut self, key: PoolKey, finished: FinishedCommands, old: &Old, mark_read: bool) {
        let lock = self.locks.get_mut(key).expect("a lock that runs a round");
        lock.phase = LockPhase::Starting;
        let (slot, tag) = (lock.slot, lock.tag());
        if let (true, Old::Present(old)) = (mark_read, old) {
            self.index.mark_read(slot, tag, old.location);
        }
        for done in finished {
            self.answer_key(done.token, done.command, done.reply);
        }
        self.work.push_back(Work::Start(key));
    }

    /// Hands a round's record to the log, unless it waits for something.
    pub(in crate::engine) fn send_round(&mut self, key: PoolKey) {
        let Some(lock) = self.locks.get_mut(key) else { return };
        let partition = self.config.partition_of(lock.slot);
        // A round that waited for memory may have been sent by its verification, and be over.
        if !matches!(lock.phase, LockPhase::Writing(_)) {
            return;
        }
        let LockPhase::Writing(round) = std::mem::replace(&mut lock.phase, LockPhase::Starting) else { return };
        let bytes = std::mem::take(&mut lock.key);
        let outcome = self.place_round(key, partition, &bytes, &round);
        let lock = self.locks.get_mut(key).expect("nothing removed it");
        lock.key = bytes;
        lock.phase = LockPhase::Writing(round);
        match outcome {
            Placed::Sent => {
                let round = self.round_mut(key).expect("just put back");
                round.is_sent = true;
                // Should it need another place later, it may wait for that as long.
                let has_waited = round.stalled_us.take().is_some();
                if has_waited && round.is_eviction {
                    self.evictions.note_waited();
                }
            }
            Placed::Later => {}
            Placed::Nothing => self.finish_round(key),
            Placed::Striped => {
                self.round_mut(key).expect("just put back").is_sent = true;
                self.start_striped_write(key);
            }
            Placed::Failed(PlaceError::Wait) => self.stall(key),
            Placed::Failed(PlaceError::Refuse(error)) => self.fail_round(key, error),
        }
    }

    fn place_round(&mut self, key: PoolKey, partition: PartitionId, bytes: &[u8], round: &Round) -> Placed {
        if round.is_sent {
            return Placed::Later;
        }
        if round.version < self.floor_of(partition) {
            // Flushed while it waited: in a stripe above the flush's horizon it would come back (rule R3).
            return Placed::Nothing;
        }
        if matches!(round.end, End::Store(_)) && self.is_flush_late(partition) {
            return Placed::Failed(PlaceError::Refuse(self.late_error(partition)));
        }
        let urgency = self.urgency_of(round);
        let record = match (&round.end, &round.old) {
            (End::Delete, Old::Absent) if !self.may_be_present(key) => return Placed::Nothing,
            (End::Delete, Old::Unverified) => return Placed::Later,
            (End::Delete, Old::Unreadable) => return Placed::Failed(PlaceError::Refuse(StoreError::Unreadable)),
            (End::Delete, Old::Present(_) | Old::Lost | Old::Absent) => {
                return self.place_tombstone(partition, bytes, round.version, Purpose::Write(key), urgency);
            }
            (End::Store(object), old) => match &object.data {
                ObjectData::Inline(value) => {
                    let record = object.record(RecordKind::Object, bytes, value, round.version);
                    let policy = self.policy(partition);
                    if !self.config.packs(policy.small_write, record.longest_bytes()) {
                        // In place, it must be known of which object.
                        let is_known = policy.update == Update::Log || !matches!(old, Old::Unverified);
                        return if is_known { Placed::Striped } else { Placed::Later };
                    }
                    return self.append_record(partition, &record, Purpose::Write(key), urgency).into();
                }
                ObjectData::Striped { manifest, .. } => (object, manifest.encode()),
            },
        };
        let (object, manifest) = record;
        let record = object.record(RecordKind::Manifest, bytes, &manifest, round.version);
        self.append_record(partition, &record, Purpose::Write(key), urgency).into()
    }

    /// May a later owner find something of a key that the index does not name? Whoever wrote it unseen and removed it
    /// in one round was not told.
    fn may_be_present(&self, key: PoolKey) -> bool {
        self.locks.get(key).is_some_and(|lock| self.is_absence_doubtful(lock.hashed))
    }

    /// A round that replaces what a job would have to move takes no more of the reserve than the job would.
    fn urgency_of(&self, round: &Round) -> Urgency {
        let replaces_leaving = match &round.old {
            Old::Present(old) => {
                let (slot, _) = self.stripes.place_of(old.location);
                self.stripes.get(slot).is_some_and(|stripe| stripe.phase() == StripePhase::Leaving)
            }
            Old::Absent | Old::Unverified | Old::Unreadable | Old::Lost => false,
        };
        match round.end {
            _ if replaces_leaving || round.helps_cleaning => Urgency::Replacing,
            End::Delete => Urgency::Deleting,
            End::Store(_) => Urgency::Client,
        }
    }

    /// Appends a tombstone. Its value is the horizon: the stripes that may hold what it ended are not
    /// younger (rule R3).
    pub(in crate::engine) fn place_tombstone(
        &mut self,
        partition: PartitionId,
        key: &[u8],
        version: Version,
        purpose: Purpose,
        urgency: Urgency,
    ) -> Placed {
        // The tombstone may open a stripe of its own: that one is not older than the horizon.
        let horizon = self.next_stripe_id();
        let value = horizon.raw().to_le_bytes();
        let record = Record::tombstone(key, &value, version);
        self.append_record(partition, &record, purpose, urgency).into()
    }

    pub(in crate::engine) fn round_mut(&mut self, key: PoolKey) -> Option<&mut Round> {
        match &mut self.locks.get_mut(key)?.phase {
            LockPhase::Writing(round) => Some(round),
            _ => None,
        }
    }

    /// Which record the round replaces is known. The round of this version may be over: it was flushed.
    pub(in crate::engine) fn round_verified(&mut self, key: PoolKey, version: Version, old: Old) {
        let Some(round) = self.round_mut(key).filter(|round| round.version == version) else { return };
        let is_unreadable = matches!(old, Old::Unreadable);
        round.old = old;
        if round.confirmed.is_none() {
            return self.send_round(key);
        }
        if is_unreadable {
            return self.keep_doubtful(key);
        }
        if round.moved.is_none() {
            self.end_doubt(key);
        }
    }

    /// What a durable round replaces is known.
    fn end_doubt(&mut self, key: PoolKey) {
        let Some(own) = self.round_mut(key).map(|round| round.confirmed.map(|(location, _)| location)) else { return };
        let lock = self.locks.get(key).expect("it has a round");
        self.outlive_lost(lock.hashed, own);
        self.drop_old(key, None);
        self.release_round(key);
    }

    /// Is a record that is to be moved what a doubtful lock wrote? Such a lock may be kept for long, and no stripe
    /// waits for it. It is not released before the copy is there, so that nothing newer of the key overtakes that.
    pub(in crate::engine) fn begin_move_of_doubtful(&mut self, key: PoolKey, moved: &Move) -> bool {
        if !self.locks.get(key).is_some_and(Lock::is_doubtful) {
            return false;
        }
        let Some(round) = self.round_mut(key).filter(|round| round.moved.is_none()) else { return false };
        let is_its_own = round.confirmed.is_some_and(|(at, _)| at == moved.from);
        round.moved = is_its_own.then(|| moved.clone());
        is_its_own
    }

    /// The copy of what a doubtful lock wrote is there, at `to`, or is not to be.
    pub(in crate::engine) fn end_move_of_doubtful(&mut self, key: PoolKey, to: Option<(Location, usize)>) {
        let Some(round) = self.round_mut(key) else { return };
        round.confirmed = to.or(round.confirmed);
        if !matches!(round.old, Old::Unreadable) {
            self.end_doubt(key);
        }
    }

    /// The round's record is held by `m+1` nodes: the index flips, and the replies leave.
    pub(super) fn round_confirmed(&mut self, key: PoolKey, location: Location, record_bytes: usize) {
        let Some(lock) = self.locks.get(key) else { return };
        let hashed = lock.hashed;
        let (slot, tag) = (hashed.slot, hashed.tag());
        self.settle(hashed.hash);
        let partition = self.config.partition_of(slot);
        let floor = self.floor_of(partition);
        let Some(round) = self.round_mut(key) else { return };
        round.confirmed = Some((location, record_bytes));
        let (is_unverified, is_unreadable) =
            (matches!(round.old, Old::Unverified), matches!(round.old, Old::Unreadable));
        let (mark_read, version) = (round.mark_read, round.version);
        let stored = match &round.end {
            End::Store(object) => {
                let manifest = round.manifest();
                let striped_bytes = manifest.map_or(0, |manifest| manifest.value_bytes);
                let first = manifest.map(|manifest| manifest.first);
                Some(((record_bytes + striped_bytes) as u64, object.expiry, first))
            }
            End::Delete => None,
        };
        let (finished, group) = (std::mem::take(&mut round.finished), round.group.take());
        let is_current = version >= floor;
        let next = (stored.is_some() && is_current).then_some(location);
        let is_in_place = !is_unverified && self.drop_old(key, next);
        match stored {
            Some((object_bytes, expiry, first)) if is_current => {
                if let Some(object) = first.and_then(|first| self.striped.get_mut(&first)) {
                    object.expiry = expiry;
                }
                if !is_in_place {
                    self.index.insert(slot, tag, location);
                }
                if mark_read {
                    self.index.mark_read(slot, tag, location);
                }
                self.count_stored(location, record_bytes, object_bytes, expiry);
                self.stats.totals.stored_total += 1;
            }
            Some(_) => self.free_flushed_stripes(key),
            None => {
                self.count_kept(location, record_bytes);
            }
        }
        self.outlive_lost(hashed, Some(location));
        self.answer_all(finished, group);
        if is_unreadable {
            self.keep_doubtful(key);
        } else if !is_unverified {
            self.release_round(key);
        }
    }

    /// Both records stay in the index, and the lock stays, until it is known which key the older one is of. Nothing
    /// changes the key until then; who reads it sees what was written.
    fn keep_doubtful(&mut self, key: PoolKey) {
        self.doubtful.keep(key);
        let Some(lock) = self.locks.get_mut(key) else { return };
        let is_read =
            |waiting: &Waiting| matches!(waiting, Waiting::Command(_, command) if command.access() == Access::Read);
        let (reads, others): (Vec<_>, _) = std::mem::take(&mut lock.queue).into_iter().partition(is_read);
        lock.queue = others.into();
        self.refuse_queue(key, StoreError::Unreadable);
        for waiting in reads {
            if let Waiting::Command(token, command) = waiting {
                self.read(token, command);
            }
        }
    }

    /// The round's object does not exist: its stripes go, unless they are the old object's, or a later owner may find
    /// the manifest.
    fn leave_stripes(&mut self, key: PoolKey, is_unknown: bool) {
        let Some(Lock { hashed, phase: LockPhase::Writing(round), .. }) = self.locks.get(key) else { return };
        let Some(manifest) = round.new_manifest() else { return };
        match is_unknown {
            true => self.note_unsettled_value(*hashed, manifest.clone()),
            false => self.free_striped(manifest.first),
        }
    }

    /// The round's object was flushed before it existed: its stripes go, even if they are the old object's, as
    /// that one is gone too.
    fn free_flushed_stripes(&mut self, key: PoolKey) {
        let Some(Lock { phase: LockPhase::Writing(round), .. }) = self.locks.get(key) else { return };
        if let Some(manifest) = round.manifest() {
            self.free_striped(manifest.first);
        }
    }

    pub(in crate::engine) fn count_stored(
        &mut self,
        location: Location,
        record_bytes: usize,
        object_bytes: u64,
        expiry: Option<UnixMs>,
    ) {
        let (slot, _) = self.stripes.place_of(location);
        self.stripes.at_mut(slot).add_live(record_bytes, expiry);
        self.stats.totals.bytes_stored += object_bytes;
    }

    /// Takes the record that a round replaced out of the accounts and the index, where `next` takes its place. Whether
    /// it did: there may have been no old record.
    fn drop_old(&mut self, key: PoolKey, next: Option<Location>) -> bool {
        let Some(lock) = self.locks.get(key) else { return false };
        let hashed = lock.hashed;
        let Some(round) = self.round_mut(key) else { return false };
        let Old::Present(old) = round.old.clone() else { return false };
        let kept = round.manifest().map(|manifest| manifest.first);
        let is_replaced = next.is_some_and(|next| self.index.replace(hashed.slot, hashed.tag(), old.location, next));
        if is_replaced {
            self.count_dropped(&old);
        } else {
            self.drop_record(hashed, &old);
        }
        if let Some(manifest) = old.manifest.filter(|manifest| Some(manifest.first) != kept) {
            self.free_striped(manifest.first);
        }
        is_replaced
    }

    pub(in crate::engine) fn drop_record(&mut self, key: HashedKey, old: &OldRecord) {
        // A flush may have emptied the index since the record was looked at.
        if self.index.remove(key.slot, key.tag(), old.location) {
            self.count_dropped(old);
        }
    }

    fn count_dropped(&mut self, old: &OldRecord) {
        let (slot, _) = self.stripes.place_of(old.location);
        let stripe = self.stripes.at_mut(slot);
        stripe.manifests.forget(old.location);
        stripe.drop_live(old.record_bytes);
        self.stats.totals.bytes_stored -= old.object_bytes;
        self.stalled.hope_again();
        self.count_outlived(slot);
    }

    /// A round that has nothing to write.
    pub(super) fn finish_round(&mut self, key: PoolKey) {
        let Some(round) = self.round_mut(key) else { return };
        let (finished, group) = (std::mem::take(&mut round.finished), round.group.take());
        self.free_flushed_stripes(key);
        self.answer_all(finished, group);
        self.release_round(key);
    }

    /// Whoever waits for a round that is durable, or need not be.
    fn answer_all(&mut self, finished: FinishedCommands, group: Option<PoolKey>) {
        for done in finished {
            self.answer_key(done.token, done.command, done.reply);
        }
        if let Some(group) = group {
            self.part_ended(group, Ok(()));
        }
    }

    /// The round did not become durable: commands that changed something, or saw the change, are refused. If surely
    /// nothing of it happened, reads come once more, and so do deletes if it was what is stored that failed: these need
    /// less memory.
    pub(super) fn fail_round(&mut self, key: PoolKey, error: StoreError) {
        let Some(round) = self.round_mut(key) else { return };
        let error = if round.was_sent { StoreError::OutcomeUnknown } else { error };
        let (finished, group) = (std::mem::take(&mut round.finished), round.group.take());
        let is_void = !matches!(error, StoreError::OutcomeUnknown | StoreError::NotOwner);
        let is_store = matches!(round.end, End::Store(_));
        let comes_again =
            |done: &Finished| is_void && (done.command.access() == Access::Read || is_store && done.is_delete);
        let changes_object = matches!((&round.end, &round.old), (End::Store(_), Old::Present(_)));
        if changes_object && error == StoreError::OutcomeUnknown {
            let lock = self.locks.get(key).expect("it has a round");
            self.note_unsettled(lock.hashed);
        }
        self.leave_stripes(key, error == StoreError::OutcomeUnknown);
        let mut again = Vec::new();
        for done in finished {
            if done.is_independent {
                self.answer_key(done.token, done.command, done.reply);
            } else if comes_again(&done) {
                again.push(Waiting::Command(done.token, done.command));
            } else {
                self.refuse(done.token, &done.command, error);
            }
        }
        if let Some(lock) = self.locks.get_mut(key) {
            again.into_iter().rev().for_each(|waiting| lock.queue.push_front(waiting));
        }
        if let Some(group) = group {
            self.part_ended(group, Err(error));
        }
        self.release_round(key);
    }

    fn release_round(&mut self, key: PoolKey) {
        let Some(lock) = self.locks.get_mut(key) else { return };
        let ended = std::mem::replace(&mut lock.phase, LockPhase::Starting);
        self.release_lock(key);
        let LockPhase::Writing(round) = ended else { return };
        if let Some((job, bytes)) = round.job {
            self.count_landed(job, bytes);
        }
        if let Some(gone) = round.gone.filter(|_| round.confirmed.is_some()) {
            self.count_gone(gone);
        }
        if round.is_eviction {
            if round.stalled_us.is_some() {
                self.evictions.note_waited();
            }
            self.evictions.note_end(round.confirmed.is_some());
        }
    }

    /// Who held a key is done: it is free, or the turn of those that waited.
    pub(in crate::engine) fn release_lock(&mut self, key: PoolKey) {
        match self.locks.get(key) {
            Some(lock) if lock.queue.is_empty() => self.locks.remove(key),
            Some(_) => self.work.push_back(Work::Start(key)),
            None => {}
        }
    }

    /// A round whose record was under way, and now has no place, waits for one.
    pub(super) fn send_again(&mut self, key: PoolKey) {
        let Some(round) = self.round_mut(key) else { return };
        (round.is_sent, round.was_sent) = (false, true);
        self.stall(key);
    }
}

/// Bytes of a value that a command stores, all of which was copied. What it carries counts less: each round may wait
/// for memory by itself, so these are not to be many.
fn stored_bytes(command: &BoxCommand, effect: &Effect) -> usize {
    match effect {
        Effect::Put(object) if command.wants() == Wants::Value => object.value.len(),
        Effect::Put(object) => object.value.len() / 8,
        Effect::Keep | Effect::Amend(_) | Effect::Delete => 0,
    }
}

/// What became of a round's record.
pub(in crate::engine) enum Placed {
    Sent,
    /// It is sent already, or waits for a verification.
    Later,
    /// There is nothing to write.
    Nothing,
    /// The value is to be striped first.
    Striped,
    Failed(PlaceError),
}

impl From<Result<(), PlaceError>> for Placed {
    fn from(result: Result<(), PlaceError>) -> Self {
        result.map_or_else(Placed::Failed, |()| Placed::Sent)
    }
}
