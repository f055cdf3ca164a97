//! Commands of both client protocols as one type, so that one engine serves them on the same keys.

use crate::command::{Access, ApplyContext, Command, Effect, ObjectRef, StoreError, Wants};
use crate::memcached::MemcachedCommand;
use crate::redis::KeyCommand;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub enum AnyCommand {
    Memcached(MemcachedCommand),
    Redis(KeyCommand),
}

impl From<MemcachedCommand> for AnyCommand {
    fn from(command: MemcachedCommand) -> Self {
        AnyCommand::Memcached(command)
    }
}

impl From<KeyCommand> for AnyCommand {
    fn from(command: KeyCommand) -> Self {
        AnyCommand::Redis(command)
    }
}

macro_rules! either {
    ($self:ident, $command:ident => $call:expr) => {
        match $self {
            AnyCommand::Memcached($command) => $call,
            AnyCommand::Redis($command) => $call,
        }
    };
}

impl AnyCommand {
    /// Could one of our own sessions have made it? Asked of what comes from outside.
    pub fn is_well_formed(&self) -> bool {
        either!(self, command => command.is_well_formed())
    }

    /// Is it a read that takes a value of any length?
    pub fn reads_any_length(&self) -> bool {
        self.access() == Access::Read && either!(self, command => command.takes_any_length())
    }

    /// Could it have written this reply? Asked of what comes from outside.
    pub fn is_answered_by(&self, reply: &[u8]) -> bool {
        match self {
            AnyCommand::Memcached(command) => command.is_answered_by(reply),
            // Any bytes go to the client as they are.
            AnyCommand::Redis(_) => true,
        }
    }
}

impl Command for AnyCommand {
    fn key(&self) -> &[u8] {
        either!(self, command => command.key())
    }

    fn access(&self) -> Access {
        either!(self, command => command.access())
    }

    fn wants(&self) -> Wants {
        either!(self, command => command.wants())
    }

    fn apply(&mut self, current: Option<ObjectRef<'_>>, context: &ApplyContext, reply: &mut Vec<u8>) -> Effect {
        either!(self, command => command.apply(current, context, reply))
    }

    fn refuse(&self, error: StoreError, reply: &mut Vec<u8>) {
        either!(self, command => command.refuse(error, reply));
    }

    fn deferred(&self) -> Option<Vec<u8>> {
        either!(self, command => command.deferred())
    }

    fn touches(&self) -> bool {
        either!(self, command => command.touches())
    }
}
