//! Shared state: what all groups of the engine use.
//!
//! Begin with `index`, where each object's record lies, and `stripes`, what each stripe is and holds.
//!
//! | module | |
//! |---|---|
//! | `arrays` | memory for many small arrays that grow one entry at a time |
//! | `config` | what one engine is told when it is made |
//! | `expiries` | when the objects of a stripe are over |
//! | `index` | for every object eight bytes that say where its record lies |
//! | `invariants` | what must hold after every event; checked in tests and in the simulator |
//! | `limits` | every maximum of the owner engine, with its unit and how it was chosen |
//! | `placed` | what an owner has put where, for those who compare it with what is there |
//! | `pool` | things in flight, named by keys that are never valid for a later thing |
//! | `replies` | replies on their way out: they leave while this owner is proven, and wait while it is not |
//! | `stripes` | the table of packed stripes: members, life cycle, what in them is alive |
//! | `testing` | what unit tests of the engine's parts begin with |

mod arrays;
pub(super) mod config;
mod expiries;
pub(super) mod index;
mod invariants;
pub mod limits;
mod placed;
pub(super) mod pool;
pub(super) mod replies;
pub(super) mod stripes;
#[cfg(test)]
pub(super) mod testing;
