//! `touch`: a new expiration time, nothing else.

use super::command::Verb;
use super::expiry::expiry;
use super::key::Key;
use super::reply;
use super::tally::{Applied, Tally};
use crate::command::{Access, Amendment, ApplyContext, Effect, ObjectRef, Wants};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub struct Touch {
    pub key: Key,
    pub exptime: i32,
    pub noreply: bool,
}

impl Verb for Touch {
    fn access(&self) -> Access {
        Access::Write
    }

    fn wants(&self) -> Wants {
        Wants::Metadata
    }

    fn apply(&mut self, current: Option<ObjectRef<'_>>, context: &ApplyContext, reply: &mut Vec<u8>) -> Applied {
        let Some(object) = current else {
            reply::line("NOT_FOUND", reply);
            return (Effect::Keep, Tally::TouchMiss);
        };
        reply::line("TOUCHED", reply);
        let amendment = Amendment { expiry: expiry(self.exptime, context.now), ..object.amendment() };
        (Effect::Amend(amendment), Tally::TouchHit)
    }

    fn noreply(&self) -> bool {
        self.noreply
    }
}
