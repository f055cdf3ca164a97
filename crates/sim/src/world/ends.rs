//! What ends by itself: lifetimes of values, and flushes that were ordered for later.
//!
//! The end of a lifetime is an operation of nobody that begins and ends at that very moment: whoever asks later must
//! not see the value, whoever was answered before must not miss it. A flush for later is one of every key that begins
//! when it is due, and is over some time after healing; if it may have been cancelled or never ordered, it may never
//! happen. One that is sure when it is due comes before everything that is asked for later and stores.

use std::collections::{BTreeMap, BTreeSet};

use super::{Event, World};
use crate::command_of_model::{Heard, expiry_at};
use crate::history::OperationId;
use crate::model::{Action, Answer};

/// The client of what nobody asked for.
const NOBODY: u32 = u32::MAX;
/// An owner that serves has flushed what is due after this much virtual time.
const FLUSHED_US: u64 = 2_000_000;

/// Flushes for later, by their operation.
#[derive(Default)]
pub(super) struct OrderedFlushes {
    ordered: BTreeMap<u64, OrderedFlush>,
    /// The outcome of one is unknown: a gateway that stands still may do its part of it at any time.
    is_one_lost: bool,
}

#[derive(Default)]
struct OrderedFlush {
    /// The client was told that it will happen, and nothing was asked since that may cancel it.
    is_sure: bool,
    is_refused: bool,
    was_cancelled: bool,
    due_us: u64,
    /// Once it is due: one of each key.
    records: Vec<OperationId>,
}

impl OrderedFlushes {
    /// Nobody will know whether a flush happened, or will.
    pub fn is_lost(&mut self) {
        self.is_one_lost = true;
    }

    /// Another flush was asked for.
    pub fn may_be_cancelled(&mut self) {
        for flush in self.ordered.values_mut() {
            (flush.was_cancelled, flush.is_sure) = (true, false);
        }
    }
}

impl World {
    /// So many milliseconds from now, in whole milliseconds.
    pub(super) fn moment_after(&self, delay_ms: u64) -> u64 {
        (self.schedule.now_us() / 1_000 + delay_ms) * 1_000
    }

    pub(super) fn lifetime_ends(&mut self, key: &[u8]) {
        let now_us = self.schedule.now_us();
        let record = self.history.invoke(now_us, NOBODY, key, Action::Expire(now_us)).expect("room in the history");
        self.history.answer(now_us, &record, Answer::Done);
    }

    /// A client orders a flush for later, unless some key's history is full: all are to have room for it.
    pub fn order_flush(&mut self, client: u32, delay_ms: u64) {
        if self.history.keys().any(|key| !self.has_room(key)) {
            return;
        }
        self.clients.flushes.may_be_cancelled();
        let due_us = self.moment_after(delay_ms);
        // One that is under way may come after it.
        let was_cancelled = self.clients.flushes_under_way() || self.clients.flushes.is_one_lost;
        let op = self.send_flush_for_later(client, expiry_at(due_us));
        self.clients.flushes.ordered.insert(op, OrderedFlush { due_us, was_cancelled, ..OrderedFlush::default() });
        self.note(format_args!("client {client} orders a flush at {due_us} us: operation {op}"));
        self.schedule.at(due_us, Event::FlushDue { op });
    }

    pub(super) fn flush_was_ordered(&mut self, op: u64, heard: &Heard) {
        let Some(flush) = self.clients.flushes.ordered.get_mut(&op) else { return };
        match heard {
            Heard::Answer { .. } => flush.is_sure = !flush.was_cancelled,
            Heard::Refused => flush.is_refused = true,
            Heard::Unknown => {}
        }
    }

    /// From now on it may happen.
    pub(super) fn flush_is_due(&mut self, op: u64) {
        let now_us = self.schedule.now_us();
        let Some(flush) = self.clients.flushes.ordered.get(&op).filter(|flush| !flush.is_refused) else { return };
        let action = if flush.is_sure { Action::ClearDue } else { Action::Clear };
        self.counts.flushes_due += u64::from(flush.is_sure);
        let mut keys: BTreeSet<Vec<u8>> = self.clients.keys().into_iter().collect();
        keys.extend(self.history.keys().map(<[u8]>::to_vec));
        let invoke =
            |key: Vec<u8>| self.history.invoke(now_us, NOBODY, &key, action.clone()).expect("room in the history");
        let records = keys.into_iter().map(invoke).collect();
        if let Some(flush) = self.clients.flushes.ordered.get_mut(&op) {
            flush.records = records;
        }
    }

    /// After healing: all flushes that were ordered and not cancelled have happened.
    pub(super) fn settle_flushes(&mut self) {
        let last_us = self.clients.flushes.ordered.values().map(|flush| flush.due_us).max();
        let Some(last_us) = last_us else { return };
        self.run_until(last_us.max(self.now_us()) + FLUSHED_US);
        let now_us = self.schedule.now_us();
        for flush in std::mem::take(&mut self.clients.flushes.ordered).into_values() {
            for record in flush.records {
                if flush.is_sure {
                    self.history.answer(now_us, &record, Answer::Done);
                } else {
                    self.history.lose(&record);
                }
            }
        }
    }
}
