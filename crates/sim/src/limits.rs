//! Every maximum of the simulator. A run that meets one is told so; nothing is dropped in silence.

/// Operations that one key's history may hold, final read included. The checker is exact and its worst case is
/// exponential in the operations that overlap, so that long runs spread over many keys instead.
pub const OPERATIONS_PER_KEY_MAX: usize = 2_000;

/// Bytes of a value in a history: what workloads store, and hundreds of appends to it. The checker hashes whole values,
/// so a workload with larger objects records their ids.
pub const VALUE_BYTES_MAX: usize = 16 << 10;

/// Configurations that the checker visits for one key before it gives up (about 64 B each, more with many unknown
/// outcomes), or as much work on fewer of them.
pub const CONFIGURATIONS_MAX: usize = 4_000_000;

/// Values that an explanation lists as possible before the operation that does not fit.
pub const POSSIBLE_VALUES_MAX: usize = 8;

/// Operations that the timeline of an explanation shows.
pub const TIMELINE_OPERATIONS_MAX: usize = 32;

/// Columns of the bars of a timeline.
pub const TIMELINE_COLUMNS: usize = 48;

/// Lines that a trace keeps for the failure report.
pub const TRACE_LINES_MAX: usize = 4_096;

/// Bytes kept of one line of a trace; the hash covers all of it.
pub const TRACE_LINE_BYTES_MAX: usize = 400;

/// Events that may wait in a schedule: far more than a sane run has, so reaching it is an event storm.
pub const SCHEDULE_EVENTS_MAX: usize = 1 << 20;

/// Endpoints and sessions of one simulated network.
pub const ENDPOINTS_MAX: usize = 4_096;
pub const SESSIONS_MAX: usize = 65_536;

/// Bytes under way in one direction of a session. A real writer would block here, so a role that meets it has
/// failed to bound what it sends.
pub const DIRECTION_BYTES_MAX: usize = 64 << 20;

/// Notices that wait for one stalled endpoint.
pub const STALLED_NOTICES_MAX: usize = 1 << 18;

/// Threads of a campaign.
pub const CAMPAIGN_THREADS_MAX: usize = 256;

/// Violations after which a campaign ends: more of them tell nothing new.
pub const CAMPAIGN_VIOLATIONS_MAX: u64 = 20;
