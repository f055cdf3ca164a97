//! Every maximum of the store, with its unit and how it was chosen.

use shorttail_units::{GIB, KIB, MIB};

/// Unit of allocation: small enough that a striped piece of 1 KiB wastes at most its own size.
pub const UNIT_BYTES: usize = KIB;

/// Units of a block: one bit each in a `u64`.
pub const BLOCK_UNITS: usize = 64;

/// A block: the unit in which memory goes back to the kernel, and exactly one full chunk.
pub const BLOCK_BYTES: usize = BLOCK_UNITS * UNIT_BYTES;

/// Length of a chunk's header inside its allocation: 80 members of two bytes and 96 bytes of facts.
pub const HEADER_BYTES: usize = 256;

/// Largest payload of a chunk: with its header exactly one block.
pub const CHUNK_BYTES_MAX: usize = BLOCK_BYTES - HEADER_BYTES;

/// Smallest budget: a few chunks, so that a tiny test cluster works.
pub const MEMORY_BYTES_MIN: usize = 4 * BLOCK_BYTES;

/// Largest budget of one core; beyond it a typing error is likelier than the machine.
pub const MEMORY_BYTES_MAX: usize = 1024 * GIB;

/// Part of the budget that chunks may not take, so that a full node can still take the raw bytes of stripes that are
/// already open: one part in this many, and no more than [`RAW_RESERVE_BYTES_MAX`].
pub const RAW_RESERVE_PART: usize = 32;

/// Most bytes kept free for raw operations: 64 stripes with a full chunk of unstable bytes each.
pub const RAW_RESERVE_BYTES_MAX: usize = 4 * MIB;

/// Raw bytes of one parity chunk, book-keeping included; below the largest frame, so that an inspection fits in one.
pub const RAW_CHUNK_BYTES_MAX: usize = MIB;

/// Book-keeping of a raw operation of a parity chunk, in bytes, as the budget counts it.
pub const RAW_OP_BYTES: usize = 16;

/// Book-keeping of an unstable operation of a data chunk, in bytes, as the budget counts it.
pub const DATA_OP_BYTES: usize = 8;

/// A buffer for raw bytes larger than this is given back when it runs empty.
pub const RAW_BUFFER_KEPT_BYTES: usize = 64 * KIB;

/// Wholly free blocks that stay resident for the next chunk; more go back to the kernel. 4 MiB.
pub const RESIDENT_FREE_BLOCKS_MAX: usize = 64;

/// One copy of what a core keeps beside its chunks: fences of two thousand partitions.
pub const NOTES_BYTES: usize = 32 * KIB;

/// Operations of open chunks that outlive the process, in bytes: one part of the budget in [`RAW_RESERVE_PART`], as
/// much as is kept free for raw ones, and at least two chunks' worth.
pub const KEPT_OPS_BYTES_MIN: usize = 2 * BLOCK_BYTES;
pub const KEPT_OPS_BYTES_MAX: usize = RAW_RESERVE_BYTES_MAX;

/// The log of operations of open chunks is crowded when less than this part of it, and room for the longest, is free.
/// Then the oldest go, or are copied to the end. One is taken only if as much of it, or room for the longest, stays
/// free.
pub const KEPT_OPS_FREE_PART: usize = 8;

/// As many times an operation's own bytes may go to the end after it: twice what it takes to look at all of it while
/// that part is filled.
pub const KEPT_OPS_CARRIED: usize = 2 * KEPT_OPS_FREE_PART;

/// Stripes that one request may free: a value of 1 GiB in pieces of 16 KiB over four nodes.
pub const FREE_COUNT_MAX: usize = 16_384;

/// Freed ids that are remembered to refuse late installs. A late install overtaken by this many frees is one from
/// another session, which fencing refuses, or was ordered, and the order is dropped at the free. Each takes 32 bytes.
pub const FREED_MARKS_MAX: usize = 16_384;

/// Freed chunks that are remembered to tell owners what changed since they asked last. Each takes 24 bytes.
pub const FREES_REMEMBERED_MAX: usize = 16_384;

/// The same of sealed chunks that changed: what fast writers seal in some seconds. Each takes 16 bytes.
pub const TOUCHES_REMEMBERED_MAX: usize = 65_536;

/// Chunk reports in one answer to a scan: below the largest frame with 80 members each.
pub const SCAN_COUNT_MAX: usize = 4096;

const _: () = assert!(FREE_COUNT_MAX <= FREED_MARKS_MAX, "a free must not push out its own marks");

/// Bytes of a chunk beyond which it is written, and its pages are taken from the machine, by one system call: some
/// pages cost more one by one than asking.
pub const WRITE_BYTES_MIN: usize = 32 << 10;

/// Words of a ring for messages: a wake-up of the node for each half of it, some 150 small appends.
pub const RING_WORDS: usize = 64 * KIB / size_of::<u64>() - RING_HEAD_WORDS;

/// Words before them: what each side tells the other, each in cache lines of its own, and a bit for each partition.
pub const RING_HEAD_WORDS: usize = 24 + PARTITION_COUNT_MAX / u64::BITS as usize;

/// Partitions that a ring can be closed to, one by one.
pub const PARTITION_COUNT_MAX: usize = 1024;

/// Part of what is kept free for raw operations that may be promised to rings: one in this many; and the part of that
/// for one ring, so that in small memory a few owners have some.
pub const RING_RESERVE_PART: usize = 2;
pub const RING_SHARE_PART: usize = 8;

/// A ring with less room than this is none, in bytes: a few small appends.
pub const RING_ROOM_BYTES_MIN: usize = KIB;
