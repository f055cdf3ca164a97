//! `mg`: reads a value, its metadata, or both, and may vivify, touch, and hand out the right to recache.
//!
//! Most `mg` change nothing, so each is first a read, which waits for nobody. When one finds that it must change the
//! object after all, it answers its own request line with [`Tally::Again`], and the session issues it once more as a
//! write.

use serde::{Deserialize, Serialize};
use shorttail_wire::memcached::MetaFlags;

use super::command::Verb;
use super::expiry::expiry;
use super::key::Key;
use super::reply;
use super::tally::{Applied, Tally};
use crate::command::{Access, Amendment, ApplyContext, Attributes, Effect, NewObject, ObjectRef, Wants};

#[derive(Debug, Serialize, Deserialize)]
pub struct MetaGet {
    pub key: Key,
    pub flags: MetaFlags,
    /// Runs under the key's lock, so it may change the object.
    pub exclusive: bool,
    /// It only looked, and is to be issued again: that look does not count as a read.
    pub looked: bool,
    /// As a read: a large value too.
    pub takes_large: bool,
}

impl MetaGet {
    /// Could this request change an object (beside taking the right to recache a stale one)?
    pub fn may_change(flags: &MetaFlags) -> bool {
        [b'N', b'R', b'T'].into_iter().any(|flag| flags.has(flag))
    }

    /// Its opaque is too long: the client is told so at once, and the object is only looked at.
    fn is_refused(&self) -> bool {
        !self.flags.opaque_fits()
    }

    /// The request line that this command came from.
    fn write_request(&self, line: &mut Vec<u8>) {
        line.extend_from_slice(b"mg ");
        reply::key(self.key.bytes(), self.flags.has(b'b'), line);
        self.flags.write(line);
        line.extend_from_slice(b"\r\n");
    }

    /// Is this its request line?
    pub fn is_request(&self, line: &[u8]) -> bool {
        let mut own = Vec::new();
        self.write_request(&mut own);
        own == line && !self.is_refused()
    }

    fn answer(&self, object: ObjectRef<'_>, created: bool, context: &ApplyContext, reply: &mut Vec<u8>) -> Amendment {
        let with_value = self.flags.has(b'v') && self.flags.compare() != Some(object.cas);
        if with_value {
            reply.reserve(object.value.len() + self.key.bytes().len() + 96);
            reply.extend_from_slice(b"VA ");
            reply::length(object.value.len(), reply);
        } else {
            reply.extend_from_slice(b"HD");
        }
        let (changed, won) = self.write_flags(&object, created, context, reply);
        self.write_marks(changed.attributes, won, reply);
        let attributes = if won { changed.attributes.with(Attributes::WIN_SENT) } else { changed.attributes };
        reply.extend_from_slice(b"\r\n");
        if with_value {
            reply.extend_from_slice(object.value);
            reply.extend_from_slice(b"\r\n");
        }
        Amendment { attributes, ..changed }
    }

    /// Writes the return flags in the client's order. A new expiration time counts for the flags behind it, so a `t`
    /// before `T` still shows the old one.
    fn write_flags(
        &self,
        object: &ObjectRef<'_>,
        created: bool,
        context: &ApplyContext,
        reply: &mut Vec<u8>,
    ) -> (Amendment, bool) {
        let mut changed = object.amendment();
        let mut won = changed.attributes.has(Attributes::STALE) && !changed.attributes.has(Attributes::WIN_SENT);
        let time = |exptime: Option<i32>| exptime.and_then(|exptime| expiry(exptime, context.now));
        for &flag in self.flags.in_order() {
            match flag {
                b'T' => changed.expiry = time(self.flags.ttl_exptime()),
                b'N' if created => (changed.expiry, won) = (time(self.flags.vivify_exptime()), true),
                b'R' => {
                    let soon = time(self.flags.recache_exptime());
                    let expires_before = changed.expiry.zip(soon).is_some_and(|(expiry, soon)| expiry < soon);
                    won |= expires_before && !created && !changed.attributes.has(Attributes::WIN_SENT);
                }
                b's' => reply::flag(b's', object.value_bytes as u64, reply),
                b't' => reply::time_left(changed.expiry, context.now, reply),
                b'c' => reply::flag(b'c', object.cas, reply),
                b'f' => reply::flag(b'f', u64::from(object.flags), reply),
                b'l' => reply::flag(b'l', u64::from(object.idle_s), reply),
                b'h' => {
                    let fetched = object.fetched || object.attributes.has(Attributes::READ_BEFORE);
                    reply::flag(b'h', u64::from(fetched && !created), reply);
                }
                b'k' => reply::key_flag(self.key.bytes(), reply::shows_base64(object, self.key.bytes()), reply),
                _ => reply::opaque_or_key(flag, &self.flags, self.key.bytes(), reply),
            }
        }
        (changed, won)
    }

    fn write_marks(&self, attributes: Attributes, won: bool, reply: &mut Vec<u8>) {
        let marks =
            [(b'Z', attributes.has(Attributes::WIN_SENT)), (b'X', attributes.has(Attributes::STALE)), (b'W', won)];
        for (mark, _) in marks.into_iter().filter(|&(_, shown)| shown) {
            reply.extend_from_slice(&[b' ', mark]);
        }
    }

    fn vivify(&self, context: &ApplyContext, reply: &mut Vec<u8>) -> Effect {
        let cas = self.flags.new_cas();
        let empty = ObjectRef {
            value: b"",
            value_bytes: 0,
            flags: 0,
            expiry: None,
            cas: cas.unwrap_or(context.version.raw()),
            attributes: Attributes::default(),
            fetched: false,
            idle_s: 0,
        };
        let Amendment { expiry, attributes, .. } = self.answer(empty, true, context, reply);
        let attributes = attributes.with(Attributes::READ_BEFORE);
        Effect::Put(NewObject { value: Vec::new(), flags: 0, expiry, cas, attributes })
    }

    fn hit(&self, object: ObjectRef<'_>, context: &ApplyContext, reply: &mut Vec<u8>) -> Effect {
        let unchanged = object.amendment();
        let changed = self.answer(object, false, context, reply);
        // A touch is a write even if it sets the time that the object has already.
        if changed == unchanged && !self.flags.has(b'T') { Effect::Keep } else { Effect::Amend(changed) }
    }
}

impl Verb for MetaGet {
    fn access(&self) -> Access {
        if !self.is_refused() && (self.exclusive || self.flags.has(b'T')) { Access::Write } else { Access::Read }
    }

    fn wants(&self) -> Wants {
        if self.flags.has(b'v') && !self.is_refused() { Wants::Value } else { Wants::Metadata }
    }

    fn apply(&mut self, current: Option<ObjectRef<'_>>, context: &ApplyContext, reply: &mut Vec<u8>) -> Applied {
        if self.is_refused() {
            return (Effect::Keep, Tally::Nothing);
        }
        let start = reply.len();
        // memcached counts a vivified miss as a hit, and a miss with `T` as one of `get`.
        let hit = if self.flags.has(b'T') { Tally::TouchHit } else { Tally::GetHit };
        let (effect, tally) = match current {
            Some(object) => (self.hit(object, context, reply), hit),
            None if self.flags.has(b'N') => (self.vivify(context, reply), hit),
            None => {
                if !self.flags.has(b'q') {
                    reply::bare_meta("EN", &self.flags, self.key.bytes(), reply);
                }
                (Effect::Keep, Tally::GetMiss)
            }
        };
        if effect != Effect::Keep && self.access() == Access::Read {
            reply.truncate(start);
            self.write_request(reply);
            self.looked = true;
            return (Effect::Keep, Tally::Again);
        }
        (effect, tally)
    }

    fn touches(&self) -> bool {
        !self.flags.has(b'u') && !self.looked
    }
}
