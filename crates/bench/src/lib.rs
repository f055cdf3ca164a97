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

mod choice;
mod codec;
mod connection;
mod driver;
mod engine;
mod history;
mod limits;
pub mod load;
mod names;
mod options;
mod pacer;
mod plan;
mod process;
mod progress;
mod recorder;
pub mod report;
mod sizes;
mod svg;
mod timeline;
mod workload;
