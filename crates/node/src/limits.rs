//! Every maximum of the node, with its unit and how it was chosen.

use shorttail_units::{KIB, MIB};

/// Replies waiting for a session, in bytes; beyond it the peer does not read, and the session ends. An owner keeps
/// far fewer outstanding.
pub const OUTPUT_BYTES_MAX: usize = 32 * MIB;

/// An output buffer that ran empty keeps no more than this, in bytes: a batch of ordinary replies.
pub const OUTPUT_KEPT_BYTES: usize = 256 * KIB;

/// Sessions of one core, greeted or not: every core of a hundred gateways, ten times over.
pub const SESSIONS_MAX: usize = 16_384;

/// Acknowledgements gathered in a turn that are searched backwards for the same stripe: an owner appends to a few
/// stripes at a time.
pub const ACK_SEARCH_DEPTH: usize = 16;

/// Blocks that are given back to the kernel in a turn: it takes some 15 us for each, and requests come in between.
pub const GIVEN_BACK_TURN_MAX: usize = 8;

/// Orders to rebuild a chunk that wait or are under way: of sixteen owners, as many as each gives to one node.
pub const REBUILDS_MAX: usize = 512;

/// Orders that fetch at once: enough to hide the round trips of nodes that give only while nothing else is to be done,
/// few enough that what they hold (`k` chunks each) stays small.
pub const REBUILDS_ACTIVE_MAX: usize = 8;

/// Chunks that are rebuilt in one turn without waiting for anybody: half a millisecond, after which who waits for them
/// is told.
pub const REBUILDS_TURN_MAX: usize = 2;

/// Buffers of chunks that are kept for the next orders: what those of eight sources hold.
pub const REBUILD_BUFFERS_MAX: usize = 8 * REBUILDS_ACTIVE_MAX;

/// Microseconds by which orders may begin before those before them are paid for: timers are no finer than one
/// millisecond.
pub const REBUILD_AHEAD_US: u64 = 2_000;

/// Copies of chunks for other nodes that are made or looked at, at once: half a MiB.
pub const GIVE_COPIES_MAX: usize = 8;

/// Copies of chunks for other nodes that a core makes in one turn: some twenty microseconds, which requests then wait.
pub const GIVE_COPIES_TURN_MAX: usize = 2;

/// For how long chunks that are rebuilt are gathered before the core is woken for them, in microseconds: nobody waits
/// for one.
pub const REBUILT_GATHER_US: u64 = 5_000;

/// Bytes of chunks that another node has not taken from its connection, after which no more are copied for it.
pub const GIVE_UNSENT_BYTES_MAX: usize = 1 << 20;

/// Requests of another node that wait for a copy; whoever asks for more is cut off. It asks for twice as many chunks as
/// it rebuilds at once.
pub const GIVE_WAITING_MAX: usize = 1024;

/// Sessions of other nodes' cores.
pub const GIVE_SESSIONS_MAX: usize = 4096;

/// Microseconds after which an order that still misses something has failed: its owner orders again, from others.
pub const REBUILD_US_MAX: u64 = 5_000_000;

/// Between two looks whether a file system that was full has room again, in microseconds: owners ask as often what is
/// in use.
pub const PAGES_ASK_US: u64 = 1_000_000;

/// Longest promise to an owner, in microseconds: so long may a partition be without one after its owner died.
pub const LEASE_US_MAX: u64 = 10_000_000;

/// Chunks that are scrubbed in one turn: a quarter of a MiB takes some twenty microseconds, which requests then wait.
pub const SCRUB_TURN_CHUNKS: usize = 4;

/// From the beginning of a pass to that of the next one, at least: a node with little memory in use is not to look at
/// it over and over.
pub const SCRUB_PASS_US: u64 = 10_000_000;
