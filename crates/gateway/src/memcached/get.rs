//! `get`, `gets`, `gat`, `gats`: one key of them. The last key of a line writes the `END`.

use super::command::Verb;
use super::expiry::expiry;
use super::key::Key;
use super::reply;
use super::tally::{Applied, Tally};
use crate::command::{Access, Amendment, ApplyContext, Effect, ObjectRef, Wants};
use serde::{Deserialize, Serialize};

/// Room for everything of a reply but key and value: words, three numbers, line ends, tally.
const REPLY_FRAME_BYTES: usize = 72;

#[derive(Debug, Serialize, Deserialize)]
pub struct Get {
    pub key: Key,
    pub with_cas: bool,
    /// `gat`, `gats`: the expiration time to set.
    pub exptime: Option<i32>,
    /// Last key of its line.
    pub last: bool,
    /// As a read: a large value too.
    pub takes_large: bool,
}

impl Get {
    fn write_value(&self, object: &ObjectRef<'_>, reply: &mut Vec<u8>) {
        let key = self.key.bytes();
        reply.reserve(REPLY_FRAME_BYTES + key.len() + object.value.len());
        reply.extend_from_slice(b"VALUE ");
        reply.extend_from_slice(key);
        reply.push(b' ');
        reply::number(u64::from(object.flags), reply);
        reply.push(b' ');
        reply::length(object.value.len(), reply);
        if self.with_cas {
            reply.push(b' ');
            reply::number(object.cas, reply);
        }
        reply.extend_from_slice(b"\r\n");
        reply.extend_from_slice(object.value);
        reply.extend_from_slice(b"\r\n");
    }
}

impl Verb for Get {
    fn access(&self) -> Access {
        if self.exptime.is_some() { Access::Write } else { Access::Read }
    }

    fn wants(&self) -> Wants {
        Wants::Value
    }

    fn apply(&mut self, current: Option<ObjectRef<'_>>, context: &ApplyContext, reply: &mut Vec<u8>) -> Applied {
        if let Some(object) = &current {
            self.write_value(object, reply);
        }
        if self.last {
            reply.extend_from_slice(b"END\r\n");
        }
        match (current, self.exptime) {
            (Some(_), None) => (Effect::Keep, Tally::GetHit),
            (None, None) => (Effect::Keep, Tally::GetMiss),
            (None, Some(_)) => (Effect::Keep, Tally::TouchMiss),
            (Some(object), Some(exptime)) => {
                let amendment = Amendment { expiry: expiry(exptime, context.now), ..object.amendment() };
                (Effect::Amend(amendment), Tally::TouchHit)
            }
        }
    }
}
