//! memcached clients: sessions that speak the text and meta protocols, and the commands that they give the engine.
//!
//! One file per verb family decides effects ([`get`], [`store`], [`delete`], [`touch`], [`arithmetic`], `meta_*`);
//! [`session`] turns bytes into commands and keeps the answers in order.
//!
//! Must not know: Redis, the owner engine, sockets.
//!
//! Source: behaviour of memcached 1.6.45. Deviations, each on purpose:
//! * a key that would break a line is always echoed in base64 (memcached may send it raw), and no other is left out of
//!   `stats cachedump` (memcached leaves out what was stored under a base64 key);
//! * `get_expired` and `get_flushed` are the engine's counts, of all look-ups and not of `get` alone;
//! * a `set` or `ms` that finds no memory (`-M`) leaves what was stored before (memcached deletes that);
//! * `total_items` counts writes that are durable, touches too, and several of a key that were done together once;
//!   that, evictions, expired and connections in all are not reset by `stats reset`;
//! * `verbosity` is of the thread that serves the connection;
//! * `delete` refuses a word behind its key that is neither a number nor `noreply`, as memcached did up to 1.6.18;
//! * a meta command whose opaque is too long changes nothing (memcached carries out `mg` and `ma`, and tells the
//!   error);
//! * `stats conns` numbers connections in the order in which they came, not by their descriptors;
//! * there is one slab class, 1, and no LRU crawler, watcher or memory-limit change;
//! * when a key of a multi-key `get` cannot be read, the values before it have already been sent: the error line
//!   then ends the answer in place of `END`.

mod admin;
mod arithmetic;
mod auth;
mod binary;
mod command;
mod delete;
mod detail;
mod expiry;
pub mod fuzz;
mod get;
mod key;
pub mod limits;
mod lines;
mod loopback;
mod meta_arithmetic;
mod meta_debug;
mod meta_delete;
mod meta_get;
mod reply;
mod session;
mod stats;
mod stats_settings;
mod store;
mod tally;
mod touch;
mod without_cas;

pub use command::MemcachedCommand;
pub use detail::PrefixStats;
pub use session::MemcachedSession;

/// What `version` answers: clients parse it, so it is memcached's, whose behaviour this is.
pub const VERSION: &str = "1.6.45";

#[cfg(test)]
mod tests;
