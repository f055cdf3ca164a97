//! `me`: an object's metadata for people.

use super::command::Verb;
use super::expiry::seconds_left;
use super::key::Key;
use super::reply;
use super::store::object_bytes;
use super::tally::{Applied, Tally};
use crate::command::{Access, ApplyContext, Attributes, Effect, ObjectRef, Wants};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub struct MetaDebug {
    pub key: Key,
}

impl Verb for MetaDebug {
    fn access(&self) -> Access {
        Access::Read
    }

    fn wants(&self) -> Wants {
        Wants::Metadata
    }

    fn apply(&mut self, current: Option<ObjectRef<'_>>, context: &ApplyContext, reply: &mut Vec<u8>) -> Applied {
        let Some(object) = current else {
            reply::line("EN", reply);
            return (Effect::Keep, Tally::DebugGet);
        };
        reply.extend_from_slice(b"ME ");
        reply::key(self.key.bytes(), reply::shows_base64(&object, self.key.bytes()), reply);
        let left = object.expiry.map_or("-1".to_owned(), |expiry| seconds_left(expiry, context.now).to_string());
        let fetched = object.fetched || object.attributes.has(Attributes::READ_BEFORE);
        let fetched = if fetched { "yes" } else { "no" };
        let size = object_bytes(self.key.bytes().len(), object.flags, object.value_bytes);
        let text = format!(" exp={left} la={} cas={} fetch={fetched} cls=1 size={size}", object.idle_s, object.cas);
        reply::line(&text, reply);
        (Effect::Keep, Tally::DebugGet)
    }

    fn touches(&self) -> bool {
        false
    }
}
