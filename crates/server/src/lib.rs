//! The only crate with sockets, clocks and threads: runs the roles.

pub mod admin;
pub mod config;
pub mod control;
pub mod coordinator;
