//! Every maximum of the measurements, with its unit and how it was chosen.

/// Longest key both protocols take, in bytes (memcached's limit).
pub const KEY_BYTES_MAX: usize = 250;

/// Largest value that may be asked for, in bytes: what a raised item limit of memcached is in practice.
pub const VALUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Where a distribution without an upper end is cut, in bytes: below memcached's default item size of 1 MiB.
pub const VALUE_TAIL_BYTES_MAX: usize = 1_000_000;

/// Longest time to live, in seconds: memcached takes a longer one for a date.
pub const TTL_SECONDS_MAX: u32 = 30 * 24 * 3_600;

/// Most requests of a trace that are read: 8 bytes each while it is replayed, 16 while it is read.
pub const TRACE_REQUESTS_MAX: usize = 50_000_000;

/// Most keys of one run: their history costs 12 bytes each.
pub const KEYS_MAX: u32 = 1_000_000_000;

/// Most connections of one run: below the usual hard limit of open files.
pub const CONNECTIONS_MAX: usize = 16_384;

/// Most operations in flight on one connection.
pub const PIPELINE_MAX: usize = 4_096;

/// Most client threads.
pub const THREADS_MAX: usize = 64;

/// Most keys of one multi-get.
pub const MULTI_GET_KEYS_MAX: usize = 1_024;

/// Highest rate of an open loop, operations a second: one every microsecond.
pub const RATE_MAX: f64 = 1_000_000.0;

/// Longest reply that a connection buffers, in bytes. A multi-get of the largest values does not fit: it is refused.
pub const REPLY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Longest line of a reply, in bytes: error texts are far shorter.
pub const LINE_BYTES_MAX: usize = 8 * 1024;

/// Bytes a connection reads at once: some hundred small replies.
pub const READ_BYTES: usize = 64 * 1024;

/// Pause before a lost connection is opened again, nanoseconds: long enough not to hammer a dead server.
pub const RECONNECT_PAUSE_NS: u64 = 50_000_000;

/// Connections lost in a row, without one reply between, after which a run gives up: ten seconds of pauses.
pub const RECONNECTS_MAX: u32 = 200;

/// How often the loop looks for operations that passed their deadline, nanoseconds.
pub const TIMEOUT_SWEEP_NS: u64 = 100_000_000;

/// Longest latency a histogram holds, nanoseconds (1000 s); longer ones are recorded as this.
pub const LATENCY_NS_MAX: u64 = 1_000_000_000_000;

/// Distinct error texts that are kept; later ones are counted under one name.
pub const ERROR_TEXTS_MAX: usize = 64;

/// Examples kept of each kind of wrong answer.
pub const EXAMPLES_MAX: usize = 10;

/// Buckets of the timeline; when they are full, neighbours are merged.
pub const TIMELINE_BUCKETS_MAX: usize = 4_096;

/// First width of a timeline bucket, nanoseconds.
pub const TIMELINE_BUCKET_NS: u64 = 100_000_000;

/// Writes of unknown outcome remembered for one key; a key with more is no longer judged.
pub const UNKNOWN_PER_KEY_MAX: usize = 64;

/// Versions tried for a value that is too short to carry its version.
pub const SHORT_VALUE_CANDIDATES_MAX: u32 = 256;

/// Largest HTTP answer of the admin address, in bytes.
pub const HTTP_ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Longest wait for an answer of the admin address, seconds.
pub const HTTP_TIMEOUT_SECONDS: u64 = 10;

/// Time after which a cluster's status must show what was stored, seconds: several heartbeats.
pub const STATUS_LAG_SECONDS: u64 = 10;

/// Longest wait until a started server answers, seconds.
pub const SERVER_START_SECONDS: u64 = 60;

/// Time a server gets to end after SIGTERM before it is killed, seconds.
pub const SERVER_STOP_SECONDS: u64 = 10;

/// Longest wait for a node to come from one state to the next, seconds: ten times what is usual on a busy machine.
pub const TRANSITION_SECONDS: u64 = 30;

/// Most rounds of a comparison.
pub const ROUNDS_MAX: usize = 1_000;
