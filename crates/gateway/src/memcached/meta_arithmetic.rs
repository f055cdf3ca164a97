//! `ma`: counts up or down, and may create the counter.

use serde::{Deserialize, Serialize};
use shorttail_units::UnixMs;
use shorttail_wire::memcached::MetaFlags;

use super::arithmetic::{NOT_A_NUMBER, count, hit, miss};
use super::command::Verb;
use super::expiry::expiry;
use super::key::Key;
use super::reply;
use super::tally::{Applied, Tally};
use crate::command::{Access, ApplyContext, Attributes, Effect, NewObject, ObjectRef, Wants};

#[derive(Debug, Serialize, Deserialize)]
pub struct MetaArithmetic {
    pub key: Key,
    pub flags: MetaFlags,
}

impl MetaArithmetic {
    fn increment(&self) -> bool {
        !matches!(self.flags.mode(), b'D' | b'-')
    }

    fn created(&self) -> (u64, NewObject) {
        let number = self.flags.initial();
        let mut value = Vec::with_capacity(20);
        reply::number(number, &mut value);
        (number, NewObject { value, flags: 0, expiry: None, cas: None, attributes: Attributes::default() })
    }

    /// Writes the reply for a counter that was counted or created, and completes the object with `E`, `T` and `N`.
    fn finish(
        &self,
        (number, mut counter): (u64, NewObject),
        created: bool,
        context: &ApplyContext,
        reply: &mut Vec<u8>,
    ) -> Effect {
        counter.cas = self.flags.new_cas();
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        let start = reply.len();
        let with_value = self.flags.has(b'v');
        if with_value {
            reply.extend_from_slice(b"VA ");
            reply::length(digits.len(), reply);
        } else {
            reply.extend_from_slice(b"HD");
        }
        let time =
            |exptime: Option<i32>| -> Option<UnixMs> { exptime.and_then(|exptime| expiry(exptime, context.now)) };
        for &flag in self.flags.in_order() {
            match flag {
                b'c' => reply::flag(b'c', counter.cas.unwrap_or(context.version.raw()), reply),
                b't' => reply::time_left(counter.expiry, context.now, reply),
                b'T' => counter.expiry = time(self.flags.ttl_exptime()),
                b'N' if created => counter.expiry = time(self.flags.vivify_exptime()),
                _ => reply::opaque_or_key(flag, &self.flags, self.key.bytes(), reply),
            }
        }
        reply.extend_from_slice(b"\r\n");
        if with_value {
            reply.extend_from_slice(digits);
            reply.extend_from_slice(b"\r\n");
        }
        if self.flags.has(b'q') {
            reply.truncate(start);
        }
        Effect::Put(counter)
    }
}

impl Verb for MetaArithmetic {
    fn access(&self) -> Access {
        Access::Write
    }

    fn wants(&self) -> Wants {
        Wants::Value
    }

    fn apply(&mut self, current: Option<ObjectRef<'_>>, context: &ApplyContext, reply: &mut Vec<u8>) -> Applied {
        let Some(object) = current else {
            if self.flags.has(b'N') {
                return (self.finish(self.created(), true, context, reply), Tally::Nothing);
            }
            reply::bare_meta("NF", &self.flags, self.key.bytes(), reply);
            return (Effect::Keep, miss(self.increment()));
        };
        let differs = self.flags.compare().is_some_and(|token| token != 0 && token != object.cas);
        if differs && !object.value.is_empty() {
            reply::bare_meta("EX", &self.flags, self.key.bytes(), reply);
            return (Effect::Keep, Tally::Nothing);
        }
        match count(&object, self.increment(), self.flags.delta()) {
            Some(counted) => (self.finish(counted, false, context, reply), hit(self.increment())),
            None => {
                reply::line(NOT_A_NUMBER, reply);
                (Effect::Keep, Tally::Nothing)
            }
        }
    }
}
