//! `incr` and `decr`, and the counting that `ma` shares with them.

use serde::{Deserialize, Serialize};
use shorttail_wire::memcached::leading_u64;

use super::command::Verb;
use super::key::Key;
use super::reply;
use super::tally::{Applied, Tally};
use crate::command::{Access, ApplyContext, Attributes, Effect, NewObject, ObjectRef, Wants};

pub const NOT_A_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";

#[derive(Debug, Serialize, Deserialize)]
pub struct Arithmetic {
    pub key: Key,
    pub increment: bool,
    pub delta: u64,
    pub noreply: bool,
}

/// Counts: up wraps at 64 bits, down stops at 0. Returns the number and the object that holds it, or `None` if the
/// value is not a number.
///
/// A number that got shorter keeps its length and is filled with spaces, as memcached's change in place does; one
/// that got longer makes a new object, which loses the marks of the old one, also that it was read.
pub fn count(object: &ObjectRef<'_>, increment: bool, delta: u64) -> Option<(u64, NewObject)> {
    let old = leading_u64(object.value)?;
    let number = if increment { old.wrapping_add(delta) } else { old.saturating_sub(delta) };
    let mut value = Vec::with_capacity(object.value.len().max(20));
    reply::number(number, &mut value);
    let in_place = value.len() <= object.value.len();
    if in_place {
        value.resize(object.value.len(), b' ');
    }
    let attributes = match (in_place, object.fetched) {
        (false, _) => Attributes::default(),
        (true, false) => object.attributes,
        (true, true) => object.attributes.with(Attributes::READ_BEFORE),
    };
    Some((number, NewObject { value, flags: object.flags, expiry: object.expiry, cas: None, attributes }))
}

pub fn hit(increment: bool) -> Tally {
    if increment { Tally::IncrHit } else { Tally::DecrHit }
}

pub fn miss(increment: bool) -> Tally {
    if increment { Tally::IncrMiss } else { Tally::DecrMiss }
}

impl Verb for Arithmetic {
    fn access(&self) -> Access {
        Access::Write
    }

    fn wants(&self) -> Wants {
        Wants::Value
    }

    fn apply(&mut self, current: Option<ObjectRef<'_>>, _: &ApplyContext, reply: &mut Vec<u8>) -> Applied {
        let Some(object) = current else {
            reply::line("NOT_FOUND", reply);
            return (Effect::Keep, miss(self.increment));
        };
        let Some((number, counter)) = count(&object, self.increment, self.delta) else {
            reply::line(NOT_A_NUMBER, reply);
            return (Effect::Keep, Tally::Nothing);
        };
        reply::number(number, reply);
        reply.extend_from_slice(b"\r\n");
        (Effect::Put(counter), hit(self.increment))
    }

    fn noreply(&self) -> bool {
        self.noreply
    }
}
