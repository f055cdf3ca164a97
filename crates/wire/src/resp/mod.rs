//! RESP2 and RESP3, the protocol of Redis, as bytes: a request parser and reply encoders.
//!
//! Must not know: commands, sessions, sockets.
//!
//! Source: the Redis serialization protocol specification, versions 2 and 3; limits and error texts are those of
//! Redis 7.0. Deviations: at most [`limits::ARGUMENTS_MAX`] arguments (Redis 7: 2^31 - 1); a request larger than the
//! caller allows is discarded while it arrives and reported as [`Parsed::Oversized`], so that the connection lives on.

mod args;
pub mod encode;
mod inline;
pub mod limits;
mod number;
mod parser;
#[cfg(test)]
mod tests;

pub use args::{Args, Slice};
pub use encode::Protocol;
pub use number::parse_i64;
pub use parser::{Parsed, ProtocolError, RequestLimits, RequestParser};
