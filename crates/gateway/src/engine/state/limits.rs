//! Every maximum of the owner engine, with its unit and how it was chosen.

/// Payload bytes of a packed chunk: with its 256-byte header it fills one 64 KiB block of a node's arena exactly.
pub const CHUNK_BYTES: usize = 65_536 - 256;

/// Bytes that a chunk takes on its node beside its payload, and the unit in which the node hands out memory.
pub const CHUNK_EXTRA_BYTES: u64 = 256;
pub const CHUNK_UNIT_BYTES: u64 = 1024;

/// Cores of a gateway: each has its own range of stripe ids, of 17 thousand million in an epoch. A power of two.
pub const CORE_COUNT_MAX: usize = 64;

/// Bytes of one append after which it is sent without waiting for the end of the turn.
pub const APPEND_BYTES_MAX: usize = 16 << 10;

/// Commands that may wait for one key before further ones that may change it are refused: 64 of each connection of a
/// gateway, as far as nothing else is said. Reads are not refused: connections bound them.
pub const KEY_QUEUE_MAX: usize = 1 << 20;

/// Keys whose older record is looked for again in one tick.
pub const COMPARED_MAX: usize = 64;

/// Commands that are combined into one write of a key.
pub const COMBINE_MAX: usize = 1024;

/// Bytes of their replies, and of values that they make of another, after which no more are combined: copying them is
/// what others wait for meanwhile. Eight times as many of values that they carry.
pub const COMBINE_BYTES_MAX: usize = 4 << 20;

/// Bytes of writes that wait for memory or for seals, above which no further ones may: as much as the longest value
/// has. And what each takes beside key and value.
pub const STALLED_BYTES_MAX: usize = 1 << 30;
pub const STALLED_WRITE_BYTES: usize = 512;

/// Writes of a lane that are tried in vain before the others wait on: a few that are too long for what is left keep
/// nobody from it.
pub const STALLED_LOOKS_MAX: usize = 8;

/// Times a lookup starts again because the object moved under it; each restart follows a completed move or write of
/// that very key, or of one that has the same tag, so this is never met in practice.
pub const LOOKUP_RESTARTS_MAX: u32 = 64;

/// Bytes asked of each source of a degraded read whose length is not known yet, before anything is known of the
/// records; and at most.
pub const DEGRADED_GUESS_BYTES: u32 = 512;
pub const DEGRADED_GUESS_BYTES_MAX: u32 = 8 << 10;

/// Requests and bytes that a node may owe answers to before it is treated as slow: far more than a batch, far less than
/// memory.
pub const OUTSTANDING_MAX: u32 = 4096;
pub const OUTSTANDING_BYTES_MAX: u64 = 32 << 20;

/// Requests of a session that one look for late ones goes through.
pub const HEDGE_LOOKS_MAX: usize = 32;

/// Microseconds after which a late request that found no token is looked at again.
pub const HEDGE_RETRY_US: u64 = 1_000;

/// Stripes of a partition that take appends at once, at most: one is usual, further ones while nodes are slow.
pub const OPEN_MAX: usize = 3;

/// Microseconds that a node may be late until a stripe is sealed only because the node hampers it: shorter pauses are
/// usual, and racing covers them.
pub const HICCUP_US: u64 = 10_000;

/// Copies of a record that may be under way at once.
pub const RACE_COPIES_MAX: u32 = 3;

/// Verdicts kept for whoever logs them.
pub const VERDICTS_KEPT_MAX: usize = 64;

/// Steps of nodes' absences that are kept until somebody takes them; more than a turn has.
pub const STEPS_KEPT_MAX: usize = 256;

/// Bytes of operations of a stripe that are not stable, above which no append of it is put into a ring: with their
/// book-keeping far below what a node keeps raw of a parity (`RAW_CHUNK_BYTES_MAX`), so that none is refused for that.
pub const PUT_UNSTABLE_BYTES_MAX: usize = 256 << 10;

/// Bytes of records that a cleaning job has in flight at most.
pub const MOVES_IN_FLIGHT_BYTES: usize = 128 << 10;

/// Bytes of records that all cleaning jobs of an engine look at in one turn: some hundred microseconds, which clients
/// then wait. More if more was written: so many times that, so that cleaning keeps up with any load.
pub const WALK_TURN_BYTES: usize = 16 << 10;
pub const WALK_PER_WRITTEN: usize = 8;

/// Cleaning jobs at once per engine.
pub const JOBS_MAX: usize = 4;

/// Walks in vain, one each tick, after which a job is not waited for: all that it meets is locked, perhaps by writes
/// that wait for the memory which it is to free.
pub const VAIN_WALKS_MAX: u32 = 8;

/// Jobs in all: beside these, as many others are begun as there are jobs whose stripes cannot be read at the moment, or
/// that wait for locks, up to this number.
pub const JOBS_ALL_MAX: usize = 64;

/// Striped stripes of one write that are being installed at once.
pub const INSTALLS_IN_FLIGHT: usize = 8;

/// Bytes of striped values that are read at once, as far as nothing else is said: keeps every node of a large cluster
/// busy. They can all arrive in one turn, and putting them together takes others' time: some milliseconds. The pieces
/// of a value that are under way take up to as much again.
pub const READ_BYTES_MAX: usize = 16 << 20;

/// Unsealed stripes of one partition, sealing ones included: bounds the owner's buffers. Further writes wait.
pub const UNSEALED_MAX: usize = 8;

/// Microseconds that a read waits at most for a message to its node that it can leave with, and how many may wait.
pub const DEFER_US: u64 = TICK_US;
pub const DEFERRED_MAX: usize = 256;

/// Stripes' memories that are kept for the next stripes, and microseconds without a new stripe until they go back. Half
/// of the partitions' stripes may fill up together; beyond that the kernel serves.
pub const SPARE_MAX: usize = 2;
pub const SPARE_US: u64 = 1_000_000;

/// Microseconds between two looks at deadlines while something is outstanding.
pub const TICK_US: u64 = 5_000;

/// Microseconds without a turn and without work that are this process' own pause: ticks come far more often.
pub const PAUSE_US: u64 = 4 * TICK_US;

/// Microseconds after which members are told of stability although nothing else is sent to them.
pub const IDLE_STABLE_US: u64 = 10_000;

/// Keys that one step of a scan returns at most, whatever COUNT says.
pub const SCAN_KEYS_MAX: usize = 4096;

/// Objects that are looked at together for a random key, once the first one was over.
pub const RANDOM_LOOKS_MAX: usize = 64;

/// Direct-mapped places of the recent-access table (8 bytes each).
pub const RECENT_PLACES: usize = 1 << 15;

/// Microseconds after which a job that could not read a chunk tries again.
pub const JOB_RETRY_US: u64 = 500_000;

/// With no more stripes than this to open, clients wait and one job at a time goes on, so that it can end.
pub const CRAMPED_STRIPES: u64 = 1;

/// Microseconds of that after which the oldest stripe is evicted beside the job, if anything may be evicted.
pub const RELIEF_US: u64 = 50_000;

/// Stripes of which it is looked at in a tick how much is over.
pub const EXPIRED_LOOKS: usize = 64;

/// Stripes whose shares are looked at for each choice of one to clean.
pub const SHARE_LOOKS_MAX: usize = 512;

/// Stripes that cannot be rebuilt which are looked at each time, whether anything of them is needed. Repair looks at as
/// many in one turn, and these stay together: with fewer looks some would never have their turn.
pub const HOPELESS_LOOKS_MAX: usize = REPAIR_LOOKS_MAX;

/// Microseconds between two looks at tombstones where there are more stripes than that.
pub const TOMBSTONE_LOOK_US: u64 = 100_000;

/// A stripe whose live share is above this is not worth cleaning.
pub const CLEAN_LIVE_SHARE_MAX: f64 = 0.92;

/// While deletes wait for memory, and nothing may be evicted, a stripe is worth cleaning that has half the garbage that
/// what is left to them makes of each.
pub const CLEAN_LIVE_SHARE_MAX_OF_DELETES: f64 = 1.0 - 0.5 / DELETE_PART as f64;

/// Where nothing may be evicted, one part in this many of all memory is left to deletes, and a stripe for each log; at
/// most one part in the second many, where there is little.
pub const DELETE_PART: u64 = 64;
pub const DELETE_PART_MAX: u64 = 8;

/// Tombstones and floors that take more than one part in this many of a partition's packed stripes are worth moving the
/// oldest stripe for, and the next, until nothing is left that they end: at most this many bytes moved for each gained.
pub const CLEAN_KEPT_PART: u64 = 8;

/// Microseconds between two askings of every node for its memory in use.
pub const USAGE_US: u64 = 1_000_000;

/// Bytes for a node that leave at once although an earlier batch is not answered: larger batches save no wake-ups.
pub const BATCH_BYTES_MAX: usize = 64 << 10;

/// Striped objects that a tick looks at whether they are over: some ten thousand a second.
pub const EXPIRY_LOOKS_MAX: usize = 64;

/// Striped objects that were flushed of which a turn frees so many, and frees that a node has not answered with which
/// it frees none: some hundred microseconds each, of a turn and of a node. So a million take half a minute.
pub const FLUSHED_FREES_MAX: usize = 256;

/// Frees that a node is asked for and has not answered; what is to be freed beyond that waits, and of that it is asked
/// for so many in a turn. What a flush frees fits, so that no node is behind for that alone.
pub const FREES_ASKED_MAX: usize = 2 * FLUSHED_FREES_MAX;
pub const FREES_OF_TURN_MAX: usize = 256;

/// Striped objects that are being evicted at once.
pub const EVICTIONS_MAX: usize = 8;

/// Request deadlines after which a node that owes an answer is suspect even if no other could take its place, and one
/// that has answered nothing at all is hung: longer than any pause that is usual, and what a client can be asked to
/// wait.
pub const HUNG_DEADLINES: u64 = 20;

/// A suspect node that goes on talking, but does not give the sign of life that it is asked for, is hung after so many:
/// that may be behind what fills a link for as long as made the node suspect, and as much again. What others have is
/// read from these meanwhile.
pub const TALKING_DEADLINES: u64 = 2 * HUNG_DEADLINES;

/// Request deadlines after which a node that owes an answer is suspect while this owner takes over.
pub const TAKE_OVER_DEADLINES: u64 = 5;

/// Microseconds until a part of a greeting that is not answered is taken for lost.
pub const GREETING_US_MAX: u64 = 2_000_000;

/// Orders to rebuild chunks that an engine has out at once, and those of them to one node. Most of them wait to be
/// gathered, twice here and once with the node.
pub const REPAIR_ORDERS_MAX: usize = 256;
pub const REPAIR_ORDERS_OF_NODE_MAX: usize = 32;

/// For how long what nobody waits for is gathered, in microseconds.
pub const GATHER_US: u64 = 5_000;

/// Orders that are given in one turn, and those that are sent because the members know of them: some tens of
/// microseconds that clients wait. The next turn follows at once.
pub const REPAIR_GIVEN_MAX: usize = 2;
pub const REPAIR_SENT_MAX: usize = 4;

/// For how long repair puts off what it has to do while each turn serves clients, in microseconds: less than what it
/// says is gathered for.
pub const GIVE_WAY_US_MAX: u64 = 2_000;

/// Stripes with lost chunks that are looked at for it.
pub const REPAIR_LOOKS_MAX: usize = 32;

/// Of the most urgent stripes, those that wait for busy nodes after which no more are looked at; instead so many of all
/// others, in turn: they may need other nodes.
pub const REPAIR_BUSY_MAX: usize = 4;
pub const REPAIR_BEHIND_MAX: usize = 8;

/// Stripes for which no order could be given that are looked at in turn while there are others: some hundred a second.
pub const REPAIR_STUCK_LOOKS: usize = 4;

/// Microseconds after which an order to rebuild or copy a chunk is sent again: a node answers one that it began within
/// five seconds.
pub const REBUILD_ASK_US: u64 = 6_000_000;

/// Microseconds after which a stripe that could not be repaired is looked at again.
pub const REPAIR_REST_US: u64 = 100_000;

/// Microseconds that a stripe waits for slow nodes to take a chunk where placement would have it, before any node takes
/// it: what most hiccups take.
pub const REPAIR_SLOW_US: u64 = 5_000_000;

/// Microseconds within which a node that loses its memory twice is unsteady, and for how long it is: some times what
/// its chunks take to be rebuilt.
pub const UNSTEADY_US: u64 = 60_000_000;

/// Orders for a stripe that have failed one after the other when it is told: after ten seconds, if it rests after each.
pub const REPAIR_FAILURES_TOLD: u32 = 100;

/// Microseconds between two looks at how fast repair and moves go.
pub const RATE_LOOK_US: u64 = 1_000_000;
/// So many looks make a rate: with a low bandwidth a chunk takes some seconds.
pub const RATE_LOOKS: usize = 8;

/// Microseconds between two counts of the chunks on nodes that are away, unless one of them comes or goes.
pub const AWAY_COUNT_US: u64 = 10_000_000;

/// Stripes that such a count looks at each time.
pub const AWAY_LOOKS_MAX: usize = 128;

/// Stripes that a turn looks at for chunks of a node that was given up: some ten microseconds.
pub const LOSING_LOOKS_MAX: usize = 32;

/// Chunks that are to move of which a tick looks at so many, and of which one look at the whole store notes so many.
pub const MOVE_LOOKS_MAX: usize = 64;
pub const MOVE_PLAN_MAX: usize = 4096;

/// Percent of the mean by which a node's bytes may be off before chunks move, a little less than is promised, and down
/// to which they do; a few chunks are borne anyway.
pub const LEVEL_BEGIN_PERCENT: u64 = 9;
pub const LEVEL_END_PERCENT: u64 = 2;

/// Looks in a row at which the same node must be off: placement evens out what a burst of writes or cleaning causes
/// before the third one.
pub const LEVEL_BEGIN_LOOKS: u32 = 3;
pub const LEVEL_BEGIN_CHUNKS: u64 = 4;
pub const LEVEL_END_CHUNKS: u64 = 2;

/// Microseconds from the last move to the next look at what should move: meanwhile every node told what it has in use.
/// And when nothing that may be moved would help.
pub const LEVEL_LOOK_US: u64 = 2 * USAGE_US;
pub const LEVEL_REST_US: u64 = 10 * USAGE_US;

/// Stripes that an owner goes over in a microsecond, as it does to count what nodes that are away hold; and the part of
/// its time that this may take.
pub const LOOKS_PER_US: u64 = 8;
pub const LEFT_LOOK_PART: u64 = 1000;

/// Microseconds for which it was told that a node is needed which drains and was told to be empty, before it is used
/// again. The coordinator may be taking it out: it goes by what was told up to 1.5 s ago, which may be half a second
/// older. The rest is for saving that.
pub const USE_AGAIN_US: u64 = 6_000_000;

/// Microseconds that a reply waits for the owner to be proven until it becomes an error: renewals are answered
/// four times as often.
pub const HELD_US_MAX: u64 = 1_000_000;

/// Replies that wait so at most, and their bytes.
pub const HELD_COUNT_MAX: usize = 65_536;
pub const HELD_BYTES_MAX: usize = 64 << 20;

/// Versions and stripe ids of one epoch that a core gives before it ends its ownership: of the 2^40 and 2^34 that there
/// are, an hour's and minutes' are left to what is under way then.
pub const VERSIONS_MAX: u64 = (1 << 40) - (1 << 30);
pub const STRIPE_IDS_MAX: u64 = (1 << 34) - (1 << 24);

/// Microseconds that an owner waits for its stripes to be sealed before it hands its partitions over all the same.
pub const LET_GO_US_MAX: u64 = 50_000;

/// Microseconds that it waits for the last nodes to release them, once so many did that the next owner is accepted:
/// some turns of a busy node. That owner would wait for the others' promises to run out, which takes a lease; for so
/// long it waits if fewer did.
pub const RELEASE_US_MAX: u64 = 20_000;

/// Microseconds after which it is looked again whether a life of a node may be fenced that began while this owner was
/// not proven: its terms name it soon, or it is proven.
pub const FENCE_AGAIN_US: u64 = 10_000;

/// Microseconds that one who prepared waits for nodes that do not answer, before it serves without them.
pub const PREPARED_GATHER_US: u64 = 50_000;

/// Microseconds between two looks at whether nodes that lost their memory lack nothing any more: each goes over all
/// stripes, and only while there are such nodes.
pub const WITNESSES_EVERY_US: u64 = 200_000;

/// Microseconds that a write waits for memory to be reclaimed, or for a late node, before its client hears that there
/// is none.
pub const STALL_US_MAX: u64 = 2_000_000;

/// The same while the owner lets go, in microseconds since it does: everybody else's requests wait for the next owner,
/// and are refused after 4 s.
pub const LET_GO_STALL_US_MAX: u64 = 1_000_000;

/// The same of a delete, which should not be refused for that: for one stripe whose memory comes free, at worst as many
/// are moved as `CLEAN_LIVE_SHARE_MAX_OF_DELETES` says, 32 MiB.
pub const DELETE_STALL_US_MAX: u64 = 10_000_000;

/// Microseconds after which a flush is tried again that reached some partitions, and found no place in another.
pub const FLUSH_RETRY_US: u64 = 100_000;

/// Chunks that nodes are asked to look at, at once: a node that hurts all that it answers is not to be
/// asked without end.
pub const SUSPECTED_MAX: usize = 64;

/// Sets of sources that a read leaves out in turn when what it decoded is wrong: all of one, two and three of fourteen.
pub const DISTRUSTED_SETS_MAX: usize = 512;

/// Times that a read asks chunks again whose nodes were late or away, before it is refused.
pub const READ_AGAIN_MAX: u8 = 3;
