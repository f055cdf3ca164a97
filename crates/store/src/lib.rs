//! A node's memory: arena, chunks, headers, records. Pure: no clock, no thread, no socket.
//!
//! [`ChunkStore`] is the whole of it: one memory budget, chunks by stripe. Refusals and descriptions are the node
//! protocol's own words, so nothing is translated between a request and what it does.

mod arena;
mod budget;
mod chunk;
mod chunk_store;
mod chunk_view;
mod chunks;
mod content;
mod counters;
mod freed;
mod header;
mod kept_ops;
pub mod limits;
mod mapping;
mod memory_file;
mod near;
mod notes;
mod open_state;
mod page_maker;
pub mod piece;
pub mod record;
mod restore;
mod ring;
mod room;
mod rooms_view;
mod rot;
mod scrub;
mod stripe_map;
mod table;

pub use chunk::{Append, ChunkMut};
pub use chunk_store::{ChunkStore, StoreError};
pub use chunk_view::{ChunkView, RangeBytes};
pub use chunks::{Place, Wanted};
pub use content::used_bytes;
pub use counters::Counters;
pub use header::HeaderBytes;
pub use mapping::Mapping;
pub use memory_file::{BootId, CoreMemory, MEMORY_FILE_LAYOUT, MemoryFile, MemoryFileError, MemoryIdentity};
pub use near::{NearReader, NearView, NearWriter, read_sealed, read_unproven, sealed_length};
pub use notes::{Notes, NotesDamaged};
pub use ring::{RingBroken, RingReader, RingWriter};
pub use room::{Room, Written};
pub use rooms_view::RoomsView;
pub use scrub::Looked;

#[cfg(test)]
mod tests;
