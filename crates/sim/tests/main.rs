//! Simulated clusters. One program, as each one more takes seconds to link, and so that no file's tests wait for those
//! of another.

mod alike;
mod bounds;
mod coordinated;
mod coordinators;
mod corruption;
mod detect;
mod flush_later;
mod flushes_shared;
mod full;
mod groups;
mod hung;
mod hurt_messages;
mod members;
mod memory_file;
mod moves_half_told;
mod moves_not_made;
mod near;
mod outlived;
mod pieces;
mod placement;
mod repair;
mod rings;
mod rules;
mod seeds;
mod slow;
mod strategies;
mod stuck;
mod witnesses;
