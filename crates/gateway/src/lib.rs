//! The gateway role as synchronous state machines: client sessions on one side, the owner engine on the other.
//!
//! Sessions turn bytes into [`request::Request`]s and replies back into bytes in the client's order; the engine
//! decides what each request does to the keys, and makes it durable on the nodes.
//!
//! Must not know: sockets, clocks, threads, operating-system randomness.

pub mod any;
pub mod command;
pub mod engine;
pub mod forward;
pub mod gather;
pub mod in_flight;
pub mod large;
pub mod latency;
pub mod limits;
pub mod mapstore;
pub mod memcached;
pub mod redis;
pub mod reply_queue;
pub mod request;
pub mod roster;
pub mod session;
pub mod terms;
pub mod topology;
