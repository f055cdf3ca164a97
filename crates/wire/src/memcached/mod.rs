//! The memcached text and meta protocols, as a client writes them: one request line becomes one [`Request`].
//!
//! The parser is pure and allocates nothing: a request borrows the line. A line that is not a request becomes a
//! [`Refusal`], which is the exact line that memcached 1.6.45 answers, and how many bytes of a value to skip.
//!
//! Must not know: objects, sessions, limits that an operator chooses.
//!
//! Source: `doc/protocol.txt` of memcached 1.6.45 and the behaviour of that server. Deviations:
//! * `delete <key> <words>` is refused unless the words begin with a number or `noreply`, as by memcached up to 1.6.18:
//!   `memccapable` wants it so;
//! * an opaque that is too long is refused before anything is changed.

pub mod base64;
pub mod limits;
mod line;
mod meta;
mod number;
mod request;
mod tokens;

pub use line::parse_line;
pub use meta::{MetaFlags, MetaKey};
pub use number::{exact_i32, exact_u32, exact_u64, leading_u64};
pub use request::{Admin, Refusal, Request, StoreLine, StoreVerb};
pub use tokens::{Tokens, next_token};

#[cfg(test)]
mod tests;
