//! Repair: chunks that are lost, damaged or to move.
//!
//! Begin with `queue`, which chunks are lost and which of them are next, and `rebuilding`, how one comes back. A move
//! is planned by `levelling` and made by `moving`.
//!
//! | module | |
//! |---|---|
//! | `damage` | damaged chunks: the node looks at the whole chunk, and what it finds damaged is rebuilt |
//! | `levelling` | which chunks should move: all of nodes that drain, some of nodes that hold more than others |
//! | `losing` | what a node had becomes lost some stripes at a time |
//! | `missing` | what stripes lack: what nodes do not show, what a new owner finds to be lost, what is away |
//! | `moving` | chunks that move from one node to another |
//! | `orders` | orders to rebuild chunks that are under way: one for a stripe at most, counted by node |
//! | `queue` | which chunks are lost, and which of them are rebuilt first |
//! | `rate` | how fast something goes that comes and goes |
//! | `rebuilding` | orders to rebuild lost chunks: to whom, from what, and what comes of them |

mod damage;
mod levelling;
mod losing;
mod missing;
pub(super) mod moving;
mod orders;
pub(super) mod queue;
mod rate;
pub(super) mod rebuilding;
