//! Load generator and measurements.
//!
//! A run, from the flags to the report:
//!
//! ```text
//! options -> plan -> engine (workload, choice, names, history, pacer, recorder)   sans-IO, one per thread
//!                      ^ |
//!                replies requests
//!                      | v
//!                    driver (codec, connection)                                   sockets and clocks
//!                      |
//!                    report -> table, JSON, svg
//! ```
//!
//! Must not know: anything of a cluster but its addresses, its process ids and its status; what is measured here is
//! seen from outside, so that memcached and Redis are measured by the same code.

mod admin;
mod beside;
mod child;
mod choice;
mod codec;
pub mod codes;
mod command;
pub mod compare;
mod connection;
mod driver;
mod engine;
mod faults;
mod history;
pub mod interrupt;
mod json;
pub mod kill;
mod lifetimes;
mod limits;
mod linked;
pub mod load;
mod login;
mod median;
pub mod memory;
mod metrics;
mod names;
mod options;
mod output;
pub mod overwrite;
mod pacer;
pub mod paper;
mod peers;
mod plan;
mod preset;
mod process;
mod progress;
mod recorder;
pub mod repair;
pub mod report;
mod samples;
mod scene;
mod scheduling;
mod scratch;
mod sizes;
mod svg;
pub mod tail;
mod timeline;
mod trace;
pub mod transitions;
mod undo;
mod window;
mod workload;

pub use command::Command;
