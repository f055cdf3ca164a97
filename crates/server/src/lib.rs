//! The only crate with sockets, clocks and threads: runs the roles.

pub mod admin;
pub mod clock;
pub mod config;
pub mod control;
pub mod coordinator;
pub mod footprint;
pub mod gateway;
mod locks;
mod near;
pub mod net;
pub mod node;
pub mod panics;
mod random;
mod scheduling;
pub mod single;
