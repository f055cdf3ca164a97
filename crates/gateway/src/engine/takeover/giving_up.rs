//! The last words of an owner that is over: everything that it was asked gets an answer.
//!
//! ```text
//! read, or nothing of it was sent     -> not the owner
//! a write that nodes may have got     -> outcome unknown
//! a reply that waited for the proof   -> as it becomes without one (see `replies`)
//! ```
//! After that the engine is only asked for replies, and dropped.
//!
//! Must not know: why the owner is over.

use shorttail_units::Now;

use crate::command::StoreError;
use crate::engine::Engine;
use crate::engine::read::lookup::LookupPurpose;
use crate::engine::write::lock::{LockPhase, Locks, Waiting};
use crate::request::Reply;

impl Engine {
    /// Answers all that is not answered; nothing is outstanding then. The engine takes no input any more.
    pub fn give_up_all(&mut self, now: Now) {
        self.set_now(now);
        self.ownership.is_deposed = true;
        self.give_up_locks();
        for lookup in self.lookups.take_all() {
            if let LookupPurpose::Read { token, command, .. } = lookup.purpose {
                self.refuse(token, &command, StoreError::NotOwner);
            }
        }
        for (token, command) in self.take_striped_readers() {
            self.refuse(token, &command, StoreError::NotOwner);
        }
        for group in self.groups.take_all() {
            let error = if group.may_be_sent() { StoreError::OutcomeUnknown } else { StoreError::NotOwner };
            self.reply(group.token, Reply::Group(Err(error)));
        }
        for step in self.scans.take_all() {
            self.reply(step.token, Reply::Keyspace(Err(StoreError::NotOwner)));
        }
        self.give_up_flushes();
    }

    fn give_up_locks(&mut self) {
        let keys: Vec<_> = self.locks.iter().map(|(key, _)| key).collect();
        for key in keys {
            let Some(lock) = self.locks.get_mut(key) else { continue };
            let (phase, queue) = (std::mem::replace(&mut lock.phase, LockPhase::Held), std::mem::take(&mut lock.queue));
            if let LockPhase::Writing(round) = phase {
                let is_sent = round.is_sent || round.was_sent;
                let error = if is_sent { StoreError::OutcomeUnknown } else { StoreError::NotOwner };
                for done in round.finished {
                    match done.is_independent {
                        true => self.answer_key(done.token, done.command, done.reply),
                        false => self.refuse(done.token, &done.command, error),
                    }
                }
            }
            for waiting in queue {
                // Groups are answered by themselves.
                if let Waiting::Command(token, command) = waiting {
                    self.refuse(token, &command, StoreError::NotOwner);
                }
            }
        }
        self.locks = Locks::default();
    }
}
