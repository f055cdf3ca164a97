//! What a handler returns: the reply, or what to ask of the engine for it.
//!
//! Must not know: how requests are issued and replies gathered (the session does).

use shorttail_units::Now;
use shorttail_wire::resp::{Args, Protocol, encode};

use super::connection::Connection;
use super::error::CommandError;
use super::fanout::EachKey;
use super::key_command::{KeyCommand, Verb};
use super::keyspace::KeyspaceWork;
use super::table::CommandSpec;
use super::verbs::{Moment, TimeUnit};
use crate::request::GroupPut;
use crate::session::{Settings, Shared};

/// What is to be done for one request.
#[derive(Debug)]
pub enum Plan {
    /// The reply was written.
    Answered,
    /// The reply was written; then the connection ends.
    AnsweredLast,
    /// One command on one key.
    Key(KeyCommand),
    /// One part for each key among the arguments.
    EachKey(EachKey),
    /// Several stores at once.
    Group(GroupPut),
    /// Something about all keys.
    Keyspace(KeyspaceWork),
}

pub type Handled = Result<Plan, CommandError>;

/// One request in its surroundings, as handlers see it.
pub struct Call<'a> {
    pub args: Args<'a>,
    /// The entry of the command table that was found; a subcommand's own.
    pub spec: &'static CommandSpec,
    pub connection: &'a mut Connection,
    pub shared: &'a mut Shared,
    pub now: Now,
    /// Takes the reply of [`Plan::Answered`].
    pub out: &'a mut Vec<u8>,
}

impl Call<'_> {
    pub fn protocol(&self) -> Protocol {
        self.connection.protocol
    }

    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// When an object is to expire of which the argument at `index` says it, in this unit; `None` beyond what 64 bits
    /// of milliseconds hold.
    pub fn moment(&self, index: usize, unit: TimeUnit, is_absolute: bool) -> Result<Option<Moment>, CommandError> {
        let scale = if unit == TimeUnit::Seconds { 1000 } else { 1 };
        let Some(ms) = self.integer(index)?.checked_mul(scale) else { return Ok(None) };
        let moment = if is_absolute { Moment::At(ms) } else { Moment::In(ms) };
        let now_ms = i64::try_from(self.now.unix_ms.0).unwrap_or(i64::MAX);
        Ok((is_absolute || ms.checked_add(now_ms).is_some()).then_some(moment))
    }

    /// Answers with OK.
    pub fn ok(&mut self) -> Handled {
        self.out.extend_from_slice(encode::OK);
        Ok(Plan::Answered)
    }

    /// The command on the key at `index`.
    pub fn on_key(&self, index: usize, verb: impl Into<Verb>) -> Handled {
        let key = &self.args[index];
        if key.len() > self.settings().key_bytes_max {
            return Err(CommandError::KEY_TOO_LARGE);
        }
        Ok(Plan::Key(KeyCommand::new(key.to_vec(), verb.into(), self.connection)))
    }

    /// The value at `index`, if it is not too long.
    pub fn value(&self, index: usize) -> Result<Vec<u8>, CommandError> {
        let value = &self.args[index];
        if value.len() > self.settings().value_bytes_max {
            return Err(CommandError::TOO_LARGE);
        }
        Ok(value.to_vec())
    }

    pub fn integer(&self, index: usize) -> Result<i64, CommandError> {
        shorttail_wire::resp::parse_i64(&self.args[index]).ok_or(CommandError::NOT_AN_INTEGER)
    }

    /// An integer of 32 bits; Redis has a text of its own for larger ones.
    pub fn integer32(&self, index: usize) -> Result<i32, CommandError> {
        i32::try_from(self.integer(index)?).map_err(|_| CommandError::NOT_AN_INT32)
    }

    pub fn is(&self, index: usize, word: &str) -> bool {
        self.args.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }
}
