//! Maxima of one memcached session.

/// Replies that may wait on one connection before its input is left unread.
pub const REPLY_WAITING_MAX: usize = 256;

/// Output bytes that may wait for the client before its input is left unread.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// A line without end that is longer than this closes the connection, as in memcached.
pub const LINE_BYTES_MAX: usize = 2048;

/// The same for `get` and `gets`, whose lines name many keys. memcached has no limit here; 1 MiB holds more than
/// 4 000 keys of the longest kind.
pub const GET_LINE_BYTES_MAX: usize = 1 << 20;

/// A value up to this size is taken from the input when all of it is there; of a larger one each piece is taken as
/// it comes, so that the connection's input buffer stays small.
pub const VALUE_BYTES_WHOLE_MAX: usize = 64 << 10;

/// Bytes that memcached counts for an object beside key, value and client flags: its header (48), the CAS token (8),
/// the ends of key and value (3). The largest item is a limit on the sum, so clients meet it at the same size here.
pub const ITEM_OVERHEAD_BYTES: usize = 59;

/// Bytes that memcached counts for client flags other than 0.
pub const ITEM_FLAGS_BYTES: usize = 4;

/// Longest value that the authentication `set` may carry, in bytes; memcached's.
pub const AUTH_VALUE_BYTES_MAX: usize = 16_384;

/// Longest unfinished line before authentication, in bytes; memcached's.
pub const AUTH_LINE_BYTES_MAX: usize = 2048;

/// Shortest authentication line in bytes; a shorter one closes the connection.
pub const AUTH_LINE_BYTES_MIN: usize = 6;

/// Key prefixes that `stats detail` counts; memcached's.
pub const PREFIX_COUNT_MAX: usize = 256;

/// Keys that one `stats cachedump` lists.
pub const CACHEDUMP_KEY_COUNT_MAX: usize = 1024;

/// Largest verbosity.
pub const VERBOSITY_MAX: u8 = 2;
