//! Reads that nobody waits for yet: they leave with the next message to their node, for no wake-up of its own.
//!
//! A blind SET is answered before the record that it replaces was compared; only the next change of the same key needs
//! the outcome. Each read by itself would wake a node. Beside an append, or beside others of its kind, it costs a few
//! dozen bytes.

use shorttail_units::Now;

use super::fetch::Wanted;
use crate::engine::Engine;
use crate::engine::limits::{DEFER_US, DEFERRED_MAX};

#[derive(Debug, Default)]
pub struct Deferred {
    waiting: Vec<Wanted>,
    /// When the oldest began to wait.
    since_us: u64,
    /// Somebody waits now.
    is_pressing: bool,
}

impl Deferred {
    pub fn push(&mut self, now: Now, wanted: Wanted) {
        if self.waiting.is_empty() {
            self.since_us = now.mono_us;
        }
        self.waiting.push(wanted);
    }

    pub fn wanted_mut(&mut self) -> impl Iterator<Item = &mut Wanted> {
        self.waiting.iter_mut()
    }

    pub fn press(&mut self) {
        self.is_pressing = true;
    }

    fn is_due(&self, now: Now) -> bool {
        self.is_pressing || self.waiting.len() >= DEFERRED_MAX || now.mono_us >= self.since_us + DEFER_US
    }
}

impl Engine {
    /// Starts what is due, or goes to nodes that are sent something anyway.
    pub(in crate::engine) fn start_deferred(&mut self) {
        let is_due = self.deferred.is_due(self.now);
        self.deferred.is_pressing = false;
        if self.deferred.waiting.is_empty() {
            return;
        }
        let nodes = &self.nodes;
        let goes = |wanted: &mut Wanted| {
            let session = nodes.session_of(wanted.holder(), wanted.stripe);
            is_due || nodes.session(session).is_none_or(|session| !session.outbox.is_empty() || !session.connected)
        };
        let starting: Vec<_> = self.deferred.waiting.extract_if(.., goes).collect();
        for wanted in starting {
            self.start_fetch(wanted);
        }
        self.run_work();
    }
}
