//! `delete`; and the removal of the old object when a `set` is too large to take its place, so that no stale value
//! stays behind.

use super::command::Verb;
use super::key::Key;
use super::reply;
use super::tally::{Applied, Tally};
use crate::command::{Access, ApplyContext, Effect, ObjectRef, Wants};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub struct Delete {
    pub key: Key,
    pub noreply: bool,
    pub reason: DeleteReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeleteReason {
    /// The client said `delete`.
    Asked,
    /// The client said `set`, with a value that is too large.
    ValueTooLarge,
}

impl Verb for Delete {
    fn access(&self) -> Access {
        Access::Write
    }

    fn wants(&self) -> Wants {
        Wants::Metadata
    }

    fn apply(&mut self, current: Option<ObjectRef<'_>>, _: &ApplyContext, reply: &mut Vec<u8>) -> Applied {
        let (line, tally) = match (self.reason, current.is_some()) {
            (DeleteReason::ValueTooLarge, _) => ("SERVER_ERROR object too large for cache", Tally::TooLarge),
            (DeleteReason::Asked, true) => ("DELETED", Tally::DeleteHit),
            (DeleteReason::Asked, false) => ("NOT_FOUND", Tally::DeleteMiss),
        };
        reply::line(line, reply);
        (if current.is_some() { Effect::Delete } else { Effect::Keep }, tally)
    }

    fn noreply(&self) -> bool {
        self.noreply
    }

    fn touches(&self) -> bool {
        false
    }
}
