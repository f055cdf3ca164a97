//! flush_all: a floor under each partition. Objects of a lower version are gone.
//!
//! The index is emptied at once; a control record makes the floor durable before the client hears of it. A delayed flush
//! is a control record too, so that it happens although the owner changes meanwhile.

use std::collections::BTreeMap;

use shorttail_store::record::{Control, Record, RecordKind};
use shorttail_units::{PartitionId, SLOT_COUNT, Slot, UnixMs, Version};

use super::log::{PlaceError, Purpose, Urgency};
use super::{Engine, Token};
use crate::command::{Command, StoreError};
use crate::request::{KeyspaceReply, Reply};

#[derive(Debug, Default)]
pub struct Flushes {
    floors: BTreeMap<PartitionId, Version>,
    due: Option<UnixMs>,
    /// Clients that wait for so many control records.
    waiting: Vec<(Token, usize)>,
    /// Control records to append again.
    interrupted: Vec<PartitionId>,
}

impl<C: Command> Engine<C> {
    pub(super) fn flush(&mut self, token: Token, at: Option<UnixMs>) {
        // A refusal leaves everything as it was: so it comes before the first change.
        if let Err(PlaceError::Refuse(error)) = self.too_few_nodes() {
            return self.answer_flush(token, Err(error));
        }
        match at.filter(|&at| at > self.now.unix_ms) {
            Some(at) => {
                self.flushes.due = Some(at);
                self.declare(Some(token), Control::FlushDue(at));
            }
            None => self.flush_now(Some(token)),
        }
    }

    fn flush_now(&mut self, token: Option<Token>) {
        self.flushes.due = None;
        let floor = self.take_version();
        let horizon = self.take_stripe_ids(0);
        for number in 0..SLOT_COUNT as u16 {
            let slot = Slot::new(number).expect("below the slot count");
            self.index.clear_slot(slot);
        }
        for slot in self.stripes.iter().map(|(slot, _)| slot).collect::<Vec<_>>() {
            let stripe = self.stripes.at_mut(slot);
            stripe.live_bytes = 0;
            stripe.live_count = 0;
        }
        let kept = self.striped_in_flight();
        let striped = self.striped.values().filter(|object| !kept.contains(&object.manifest.first));
        for object in striped.cloned().collect::<Vec<_>>() {
            self.free_striped(object.partition, &object.manifest);
        }
        self.stats.bytes_stored = 0;
        for partition in self.config.partitions() {
            self.flushes.floors.insert(partition, floor);
        }
        self.declare(token, Control::Floor { floor, horizon });
    }

    /// Appends a control record to every partition; the client hears when all are durable.
    fn declare(&mut self, token: Option<Token>, control: Control) {
        let partitions: Vec<_> = self.config.partitions().collect();
        let value = control.encode();
        for &partition in &partitions {
            self.append_control(partition, &value);
        }
        if let Some(token) = token {
            self.flushes.waiting.push((token, partitions.len()));
        }
    }

    /// What finds no place now is tried again at the next tick.
    fn append_control(&mut self, partition: PartitionId, value: &[u8]) {
        let version = self.take_version();
        let record = Record { kind: RecordKind::Control, ..Record::object(b"", value, version) };
        if self.append_record(partition, &record, Purpose::Floor { partition }, Urgency::Cleaning).is_err() {
            self.flushes.interrupted.push(partition);
        }
    }

    fn answer_flush(&mut self, token: Token, result: Result<KeyspaceReply, StoreError>) {
        self.reply(token, Reply::Keyspace(result));
    }

    pub(super) fn floor_confirmed(&mut self, _partition: PartitionId) {
        let Some((_, missing)) = self.flushes.waiting.first_mut() else { return };
        *missing -= 1;
        if *missing == 0 {
            let (token, _) = self.flushes.waiting.remove(0);
            self.answer_flush(token, Ok(KeyspaceReply::Flushed));
        }
    }

    pub(super) fn floor_interrupted(&mut self, partition: PartitionId) {
        self.flushes.interrupted.push(partition);
    }

    pub(super) fn floor_of(&self, partition: PartitionId) -> Version {
        self.flushes.floors.get(&partition).copied().unwrap_or_default()
    }

    pub(super) fn is_flush_due(&self, at: UnixMs) -> bool {
        self.flushes.due == Some(at)
    }

    /// What an earlier owner had declared.
    pub(super) fn inherit_floor(&mut self, partition: PartitionId, floor: Version) {
        let known = self.flushes.floors.entry(partition).or_default();
        *known = floor.max(*known);
    }

    pub(super) fn inherit_flush_due(&mut self, at: UnixMs) {
        self.flushes.due = Some(at);
    }

    pub(super) fn take_due_flush(&mut self) {
        for partition in std::mem::take(&mut self.flushes.interrupted) {
            let control = match self.flushes.due {
                Some(at) => Control::FlushDue(at),
                None => Control::Floor { floor: self.floor_of(partition), horizon: self.take_stripe_ids(0) },
            };
            self.append_control(partition, &control.encode());
        }
        if self.is_serving() && self.flushes.due.is_some_and(|at| at <= self.now.unix_ms) {
            self.flush_now(None);
        }
    }
}
