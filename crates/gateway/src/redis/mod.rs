//! Redis clients: a session that speaks RESP2 and RESP3, and the commands for strings, keys, expiry and the server.
//!
//! One table ([`table::COMMANDS`]) drives dispatch, arity errors and COMMAND. A handler looks at the arguments and
//! returns a [`plan::Plan`]: the reply itself, or what to ask of the engine. What a command does to its key is a
//! [`key_command::KeyCommand`], applied by the engine under the key's lock.
//!
//! Source: the behaviour of Redis 7.0.15, byte for byte where a client can tell. Deviations:
//! - MSET over several hash slots stores each key atomically, not all at once; MSETNX answers CROSSSLOT there.
//! - One database. Every value is a string; commands of other types are unknown.
//! - No transactions: after MULTI nothing is done of what comes before EXEC, which is answered EXECABORT,
//!   or DISCARD. WATCH is unknown outside of one.
//! - A value above the operator's limit is refused with the text of `proto-max-bulk-len`, the connection lives on.
//! - An expiry beyond the year 10889, which 48 bits of milliseconds do not hold, is kept as the last moment that they
//!   hold.
//! - OBJECT ENCODING tells what Redis would choose for the value now, not how it came about.
//! - CLUSTER and MOVED as Redis Cluster has them, of gateways instead of masters; without `--redis-cluster on` any key
//!   may be asked of any gateway and CLUSTER answers nevertheless. Nothing moves slots, and a gateway has no replicas.
//! - What memcached's `decr` shortened ends with spaces, as it does there, and is no number here.
//! - INFO tells of no key that it expires; CONFIG RESETSTAT leaves what the engine counts. STRLEN of an empty value and
//!   GETRANGE that finds nothing count as misses.
//! - COMMAND DOCS and HELP tell it in words of their own, without arguments and history. A request has 1 048 576
//!   arguments at most, as with Redis before 7.0.
//! - In an inline request a zero byte is one like others; Redis does not see the end of its line.
//! - CLIENT LIST shows the Redis clients of one gateway, without the sizes of their buffers; WAIT answers the parity
//!   count, see `handlers::server`.
//!
//! Must not know: sockets, clocks, nodes.

mod clustering;
mod connection;
mod error;
mod fanout;
pub mod fuzz;
mod glob;
mod handlers;
mod info;
mod key_command;
mod keyspace;
pub mod limits;
mod list_room;
mod long_double;
mod plan;
mod replies;
mod session;
mod table;
#[cfg(test)]
mod tests;
mod verbs;

pub use clustering::RedisCluster;
pub use key_command::KeyCommand;
pub use list_room::ListRoom;
pub use session::RedisSession;
