//! Read: how a record or a piece is found and read, also from other chunks; hedges; requests about all keys.
//!
//! Begin with `lookup`, from a key to its record; it asks `fetch` for bytes of a chunk. `pieces` reads the values of
//! striped objects. Both ask `sources` which way to take.
//!
//! | module | |
//! |---|---|
//! | `again` | reads go back to chunks whose nodes were late, or away, when they were asked |
//! | `budget` | how many hedges there may be: a bucket that every read and every operation fills a little |
//! | `deferred` | reads that nobody waits for yet: they leave with the next message to their node |
//! | `distrust` | decoding when a source may be damaged: other sets of sources are tried |
//! | `fetch` | bytes of a chunk: from its node, by decoding them from other chunks of the stripe, or both |
//! | `hedge` | what is late gets a second way, within the budget |
//! | `kept_manifests` | manifests that the owner keeps when it lets go of a sealed stripe's bytes |
//! | `keyspace` | requests about all keys: counting, listing, flushing, statistics |
//! | `lookup` | the record of a key: index, then the owner's memory or a fetch, then the key is compared |
//! | `near` | small objects are read straight from the memory of a node on the same machine |
//! | `pieces` | the pieces of one stripe of a striped object, together |
//! | `read_room` | room for the values of striped objects that are read: so many bytes at once |
//! | `sources` | which way a read takes, and from which chunks a degraded one decodes |

mod again;
mod budget;
pub(super) mod deferred;
mod distrust;
pub(super) mod fetch;
pub(super) mod hedge;
pub(super) mod kept_manifests;
pub(super) mod keyspace;
pub(super) mod lookup;
pub(super) mod near;
pub(super) mod pieces;
pub(super) mod read_room;
pub(super) mod sources;
