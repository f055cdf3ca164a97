//! `md`: deletes an object, empties it (`x`), or marks it as stale (`I`).

use serde::{Deserialize, Serialize};
use shorttail_wire::memcached::MetaFlags;

use super::command::Verb;
use super::expiry::expiry;
use super::key::Key;
use super::reply;
use super::tally::{Applied, Tally};
use crate::command::{Access, Amendment, ApplyContext, Attributes, Effect, NewObject, ObjectRef, Wants};

#[derive(Debug, Serialize, Deserialize)]
pub struct MetaDelete {
    pub key: Key,
    pub flags: MetaFlags,
}

impl MetaDelete {
    fn effect(&self, object: &ObjectRef<'_>, context: &ApplyContext) -> Effect {
        let (empties, invalidates) = (self.flags.has(b'x'), self.flags.has(b'I'));
        if !empties && !invalidates {
            return Effect::Delete;
        }
        // Only invalidation makes a new CAS token of its own accord.
        let kept_cas = if invalidates { context.version.raw() } else { object.cas };
        let cas = self.flags.new_cas().unwrap_or(kept_cas);
        let ttl = self.flags.ttl_exptime().map(|exptime| expiry(exptime, context.now));
        if empties {
            let stale = if invalidates { Attributes::STALE } else { 0 };
            return Effect::Put(NewObject {
                value: Vec::new(),
                flags: self.flags.client_flags(),
                expiry: ttl.flatten(),
                cas: Some(cas),
                attributes: Attributes::default().with(stale),
            });
        }
        let attributes = object.attributes.with(Attributes::STALE).without(Attributes::WIN_SENT);
        Effect::Amend(Amendment { expiry: ttl.unwrap_or(object.expiry), cas, attributes, ..object.amendment() })
    }
}

impl Verb for MetaDelete {
    fn access(&self) -> Access {
        Access::Write
    }

    fn wants(&self) -> Wants {
        Wants::Metadata
    }

    fn apply(&mut self, current: Option<ObjectRef<'_>>, context: &ApplyContext, reply: &mut Vec<u8>) -> Applied {
        let compare = self.flags.compare();
        let (status, effect, tally) = match current {
            None => ("NF", Effect::Keep, Tally::DeleteMiss),
            Some(object) if compare.is_some_and(|token| token != object.cas) => ("EX", Effect::Keep, Tally::DeleteMiss),
            Some(object) => {
                let tally = if self.flags.has(b'I') { Tally::Nothing } else { Tally::DeleteHit };
                ("HD", self.effect(&object, context), tally)
            }
        };
        if status != "HD" || !self.flags.has(b'q') {
            reply::bare_meta(status, &self.flags, self.key.bytes(), reply);
        }
        (effect, tally)
    }

    fn touches(&self) -> bool {
        false
    }
}
