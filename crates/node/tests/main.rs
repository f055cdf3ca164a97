//! Nodes, from outside. One program, as each one more takes seconds to link.

mod background;
mod corpus;
mod full;
mod giver;
mod memory;
mod near_sources;
mod nonsense;
mod rebuild;
mod rings;
mod rooms;
mod session;
mod setup;
