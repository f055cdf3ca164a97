//! Error replies: Redis' own texts, and how the engine's errors are told to Redis clients.
//!
//! Must not know: which command meets them.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use shorttail_wire::resp::encode;

use crate::command::StoreError;

/// An error reply, its code first. The text may repeat bytes of the client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CommandError(Cow<'static, [u8]>);

impl CommandError {
    pub const TOO_MANY_NAMES: CommandError = CommandError::fixed("ERR too many names in one request");
    pub const LONG_PATTERN: CommandError = CommandError::fixed("ERR pattern is too long");
    pub const SYNTAX: CommandError = CommandError::fixed("ERR syntax error");
    pub const NOT_AN_INTEGER: CommandError = CommandError::fixed("ERR value is not an integer or out of range");
    pub const NOT_AN_INT32: CommandError =
        CommandError::fixed("ERR value is out of range, value must between -2147483648 and 2147483647");
    pub const NOT_A_FLOAT: CommandError = CommandError::fixed("ERR value is not a valid float");
    pub const NOT_FINITE: CommandError = CommandError::fixed("ERR increment would produce NaN or Infinity");
    pub const INTEGER_OVERFLOW: CommandError = CommandError::fixed("ERR increment or decrement would overflow");
    pub const DECREMENT_OVERFLOW: CommandError = CommandError::fixed("ERR decrement would overflow");
    pub const OFFSET_RANGE: CommandError = CommandError::fixed("ERR offset is out of range");
    pub const DB_RANGE: CommandError = CommandError::fixed("ERR DB index is out of range");
    pub const CURSOR: CommandError = CommandError::fixed("ERR invalid cursor");
    pub const TOO_LARGE: CommandError =
        CommandError::fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    pub const TOO_LARGE_TOGETHER: CommandError =
        CommandError::fixed("ERR keys and values that are stored together or not at all must be shorter");
    pub const KEY_TOO_LARGE: CommandError = CommandError::fixed("ERR key exceeds maximum allowed size");
    pub const CROSS_SLOT: CommandError = CommandError::fixed("CROSSSLOT Keys in request don't hash to the same slot");
    pub const NO_AUTH: CommandError = CommandError::fixed("NOAUTH Authentication required.");
    pub const WRONG_PASSWORD: CommandError =
        CommandError::fixed("WRONGPASS invalid username-password pair or user is disabled.");
    pub const FLUSH_DISABLED: CommandError = CommandError::fixed("ERR flushing is disabled on this server");

    pub const fn fixed(text: &'static str) -> Self {
        CommandError(Cow::Borrowed(text.as_bytes()))
    }

    pub fn owned(text: Vec<u8>) -> Self {
        CommandError(Cow::Owned(text))
    }

    /// `name` as the command table spells it, `client|setname` for a subcommand.
    pub fn arity(name: &str) -> Self {
        CommandError::owned(format!("ERR wrong number of arguments for '{name}' command").into_bytes())
    }

    pub fn expire_time(name: &str) -> Self {
        CommandError::owned(format!("ERR invalid expire time in '{name}' command").into_bytes())
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        encode::error(out, &self.0);
    }
}

/// What a Redis client is told when the engine cannot do what it asked.
///
/// The codes are those that clients already act upon: `OOM` and `NOREPLICAS` as Redis has them, `TRYAGAIN` where
/// nothing was done and a retry is right. An unknown outcome is a plain `ERR`, so that no client retries by itself.
pub fn store_error(error: StoreError) -> CommandError {
    match error {
        StoreError::OutOfMemory => CommandError::fixed("OOM command not allowed when used memory > 'maxmemory'."),
        StoreError::TooLarge => CommandError::TOO_LARGE,
        StoreError::TooFewNodes { .. } => {
            CommandError::owned(format!("NOREPLICAS Not enough good replicas to write: {error}").into_bytes())
        }
        StoreError::Overloaded | StoreError::NotOwner => CommandError::owned(format!("TRYAGAIN {error}").into_bytes()),
        StoreError::Unreadable | StoreError::OutcomeUnknown => CommandError::owned(format!("ERR {error}").into_bytes()),
    }
}

/// The same with `--redis-cluster on`.
///
/// Clients ask the same gateway again that answers `TRYAGAIN`, which is of no use where another one owns the key. On
/// `CLUSTERDOWN`, which a Redis answers that is cut off from its cluster, they read the map anew, and then ask again.
pub fn store_error_in_cluster(error: StoreError) -> CommandError {
    match error {
        StoreError::NotOwner => CommandError::owned(format!("CLUSTERDOWN {error}").into_bytes()),
        _ => store_error(error),
    }
}

/// Turns the reply of a command, which knows of no switch, into what is told with `--redis-cluster on`.
pub fn retell_in_cluster(reply: &mut Vec<u8>) {
    if reply.first() != Some(&b'-') {
        return;
    }
    let mut not_owner = Vec::new();
    store_error(StoreError::NotOwner).encode(&mut not_owner);
    if *reply == not_owner {
        reply.clear();
        store_error_in_cluster(StoreError::NotOwner).encode(reply);
    }
}
