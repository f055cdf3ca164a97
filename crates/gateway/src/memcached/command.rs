//! All memcached commands on one key, as one type: what the engine runs.

use super::arithmetic::Arithmetic;
use super::delete::Delete;
use super::get::Get;
use super::meta_arithmetic::MetaArithmetic;
use super::meta_debug::MetaDebug;
use super::meta_delete::MetaDelete;
use super::meta_get::MetaGet;
use super::store::{Store, StoreReply};
use super::tally::{Applied, Tally};
use super::touch::Touch;
use crate::command::{Access, ApplyContext, Command, Effect, ObjectRef, StoreError, Wants};
use serde::{Deserialize, Deserializer, Serialize};

/// One verb on one key, as the files of the verbs implement it.
pub(super) trait Verb {
    fn access(&self) -> Access;
    fn wants(&self) -> Wants;

    /// Decides the effect and writes the client's reply.
    fn apply(&mut self, current: Option<ObjectRef<'_>>, context: &ApplyContext, reply: &mut Vec<u8>) -> Applied;

    /// `noreply`: nothing goes to the client, errors included.
    fn noreply(&self) -> bool {
        false
    }

    fn touches(&self) -> bool {
        true
    }

    /// As [`apply`](Verb::apply), with the tally behind the reply.
    fn run(&mut self, current: Option<ObjectRef<'_>>, context: &ApplyContext, reply: &mut Vec<u8>) -> Effect {
        let start = reply.len();
        let (effect, tally) = self.apply(current, context, reply);
        if self.noreply() {
            reply.truncate(start);
        }
        tally.put(reply);
        effect
    }
}

/// Meta commands are boxed: they are rarer than `get` and `set`, and their flags are large.
#[derive(Debug, Serialize, Deserialize)]
pub enum MemcachedCommand {
    Get(Get),
    Store(Store),
    Delete(Delete),
    Arithmetic(Arithmetic),
    Touch(Touch),
    MetaGet(Box<MetaGet>),
    MetaDelete(Box<MetaDelete>),
    MetaArithmetic(Box<MetaArithmetic>),
    MetaDebug(Box<MetaDebug>),
    /// `-C`: another command, to which no CAS token is shown.
    WithoutCas(#[serde(deserialize_with = "plain")] Box<MemcachedCommand>),
}

/// Every command but `WithoutCas`, in the same order: one that wraps itself for ever is not even read.
#[derive(Deserialize)]
enum Plain {
    Get(Get),
    Store(Store),
    Delete(Delete),
    Arithmetic(Arithmetic),
    Touch(Touch),
    MetaGet(Box<MetaGet>),
    MetaDelete(Box<MetaDelete>),
    MetaArithmetic(Box<MetaArithmetic>),
    MetaDebug(Box<MetaDebug>),
}

fn plain<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<MemcachedCommand>, D::Error> {
    let command = Plain::deserialize(deserializer)?;
    Ok(Box::new(match command {
        Plain::Get(verb) => MemcachedCommand::Get(verb),
        Plain::Store(verb) => MemcachedCommand::Store(verb),
        Plain::Delete(verb) => MemcachedCommand::Delete(verb),
        Plain::Arithmetic(verb) => MemcachedCommand::Arithmetic(verb),
        Plain::Touch(verb) => MemcachedCommand::Touch(verb),
        Plain::MetaGet(verb) => MemcachedCommand::MetaGet(verb),
        Plain::MetaDelete(verb) => MemcachedCommand::MetaDelete(verb),
        Plain::MetaArithmetic(verb) => MemcachedCommand::MetaArithmetic(verb),
        Plain::MetaDebug(verb) => MemcachedCommand::MetaDebug(verb),
    }))
}

/// What is asked of the verb, or of the command of `WithoutCas`.
macro_rules! each_verb {
    ($command:expr, $verb:ident => $answer:expr) => {
        each_verb!($command, $verb => $answer, $verb => $answer)
    };
    ($command:expr, $verb:ident => $answer:expr, $hidden:ident => $without_cas:expr) => {
        match $command {
            MemcachedCommand::Get($verb) => $answer,
            MemcachedCommand::Store($verb) => $answer,
            MemcachedCommand::Delete($verb) => $answer,
            MemcachedCommand::Arithmetic($verb) => $answer,
            MemcachedCommand::Touch($verb) => $answer,
            MemcachedCommand::MetaGet($verb) => $answer,
            MemcachedCommand::MetaDelete($verb) => $answer,
            MemcachedCommand::MetaArithmetic($verb) => $answer,
            MemcachedCommand::MetaDebug($verb) => $answer,
            MemcachedCommand::WithoutCas($hidden) => $without_cas,
        }
    };
}

impl MemcachedCommand {
    /// Could a session have made it?
    pub fn is_well_formed(&self) -> bool {
        let flags = match self {
            MemcachedCommand::Store(Store { reply: StoreReply::Meta(flags), .. }) => flags,
            MemcachedCommand::MetaGet(verb) => &verb.flags,
            MemcachedCommand::MetaDelete(verb) => &verb.flags,
            MemcachedCommand::MetaArithmetic(verb) => &verb.flags,
            MemcachedCommand::WithoutCas(command) => return command.is_well_formed(),
            _ => return true,
        };
        flags.is_well_formed()
    }

    /// Could it have written this reply? It ends with a tally, and only a lookup that would have changed the object
    /// answers with its own line.
    pub fn is_answered_by(&self, reply: &[u8]) -> bool {
        let Some((&byte, line)) = reply.split_last() else { return false };
        match (Tally::of(byte), self) {
            (Some(Tally::Again), MemcachedCommand::MetaGet(verb)) => verb.is_request(line),
            (Some(Tally::Again), MemcachedCommand::WithoutCas(command)) => command.is_answered_by(reply),
            (tally, _) => tally.is_some_and(|tally| tally != Tally::Again),
        }
    }

    fn noreply(&self) -> bool {
        each_verb!(self, verb => verb.noreply())
    }

    /// As a read: takes a large value too.
    pub(super) fn take_large(&mut self) {
        if let Some(takes_large) = self.takes_large() {
            *takes_large = true;
        }
    }

    fn takes_large(&mut self) -> Option<&mut bool> {
        match self {
            MemcachedCommand::Get(verb) => Some(&mut verb.takes_large),
            MemcachedCommand::MetaGet(verb) => Some(&mut verb.takes_large),
            MemcachedCommand::WithoutCas(command) => command.takes_large(),
            _ => None,
        }
    }

    /// As a read.
    pub(crate) fn takes_any_length(&self) -> bool {
        match self {
            MemcachedCommand::Get(verb) => verb.takes_large,
            MemcachedCommand::MetaGet(verb) => verb.takes_large,
            MemcachedCommand::WithoutCas(command) => command.takes_any_length(),
            _ => true,
        }
    }

    /// The command that came back as [`Command::deferred`] said, to be asked again.
    pub(super) fn again(bytes: &[u8]) -> Option<Self> {
        let mut command: Self = postcard::from_bytes(bytes).ok()?;
        command.take_large();
        Some(command)
    }

    /// Bytes that it carries, that a value may have which it makes of another, or that its reply may have although it
    /// writes.
    pub(super) fn bytes_charged(&self, value_bytes_max: usize) -> usize {
        match self {
            MemcachedCommand::Store(store) => match store.wants() {
                Wants::Value => value_bytes_max,
                Wants::Nothing | Wants::Metadata => store.value.len(),
            },
            MemcachedCommand::Get(_) | MemcachedCommand::MetaGet(_)
                if self.access() == Access::Write && self.wants() == Wants::Value =>
            {
                value_bytes_max
            }
            MemcachedCommand::WithoutCas(command) => command.bytes_charged(value_bytes_max),
            _ => 0,
        }
    }
}

impl Command for MemcachedCommand {
    fn key(&self) -> &[u8] {
        each_verb!(self, verb => verb.key.bytes(), command => command.key())
    }

    fn access(&self) -> Access {
        each_verb!(self, verb => verb.access())
    }

    fn wants(&self) -> Wants {
        each_verb!(self, verb => verb.wants())
    }

    fn apply(&mut self, current: Option<ObjectRef<'_>>, context: &ApplyContext, reply: &mut Vec<u8>) -> Effect {
        each_verb!(
            self,
            verb => verb.run(current, context, reply),
            command => super::without_cas::apply(command, current, context, reply)
        )
    }

    fn refuse(&self, error: StoreError, reply: &mut Vec<u8>) {
        if !self.noreply() {
            super::reply::refusal(error, reply);
        }
        Tally::of_error(error).put(reply);
    }

    fn deferred(&self) -> Option<Vec<u8>> {
        let bytes = || postcard::to_allocvec(self).expect("commands serialise into memory");
        (!self.takes_any_length()).then(bytes)
    }

    fn touches(&self) -> bool {
        each_verb!(self, verb => verb.touches())
    }
}
