//! The only crate with sockets, clocks and threads: runs the roles.

pub mod config;
