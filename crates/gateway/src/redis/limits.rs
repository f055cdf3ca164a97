//! Every maximum of a Redis session, with its unit and why.

use shorttail_units::{KIB, MIB};

/// Replies, and parts of requests, that may wait on one connection before it stops reading. Enough for the deepest
/// pipelines that load generators use; one connection then holds at most this many values in flight.
pub const REPLIES_WAITING_MAX: usize = 256;

/// Bytes of output that may wait for a slow client before its requests wait too.
pub const OUTPUT_BYTES_MAX: usize = MIB;

/// Bytes of arrays of values of one connection that are gathered before any of them leaves, so that an error of one
/// value is the whole reply; a longer array leaves as its values come.
pub const ARRAYS_BYTES_MAX: usize = 4 * MIB;

/// Bytes that one request may have beyond one value: the rest of a large MSET.
pub const REQUEST_SLACK_BYTES: usize = 64 * MIB;

/// Bytes of an argument that is accepted even where values must be shorter: keys, patterns, words.
pub const ARGUMENT_BYTES_MIN: usize = 64 * KIB;

/// Bytes of room for known replies that an idle connection keeps: ten thousand of them cost 10 MiB.
pub const SCRATCH_BYTES_KEPT: usize = KIB;

/// Words that one request may name of which each is answered with much: commands, connections, patterns of settings.
/// Clients name a few.
pub const NAMES_MAX: usize = 1_000;

/// Bytes of a pattern that keys are compared with, all keys of a step in one turn.
pub const PATTERN_BYTES_MAX: usize = KIB;

/// Keys per step of KEYS.
pub const KEYS_STEP_COUNT: usize = 1_000;

/// Bytes of keys that all KEYS of a core may gather, or have for clients that did not take them yet; one has at most
/// half of what others leave. Beyond it, SCAN is the way.
pub const LISTS_BYTES_MAX: usize = if cfg!(test) { 16 * MIB } else { 256 * MIB };

/// Bytes of a connection's name, library name and library version.
pub const NAME_BYTES_MAX: usize = KIB;

/// Bytes of a number that INCRBYFLOAT reads, as in Redis (`MAX_LONG_DOUBLE_CHARS`).
pub const FLOAT_BYTES_MAX: usize = 5 * KIB;

/// Bytes of a client's words that an error repeats, as in Redis.
pub const ERROR_ECHO_BYTES_MAX: usize = 128;
