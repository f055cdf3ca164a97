//! Maxima and times that client sessions of both protocols have in common, with their units and reasons.

/// Bytes of a value above which it is *large*. What is packed beside others is shorter; of shorter values a connection
/// may have as many in flight as requests, which is as many bytes at most as it may have of large ones.
pub const LARGE_VALUE_BYTES: usize = 64 << 10;

/// Bytes of a request up to which it goes on while others are held up because clients store too much at once: of a
/// connection these are a mebibyte.
pub const SMALL_REQUEST_BYTES: usize = 4 << 10;

/// Bytes of keys and values that an owner is asked to store together: as much as one operation of its log takes.
pub const GROUP_BYTES_MAX: usize = 64 << 10;

/// Bytes of large values that a connection may have under way, and in replies that wait: enough to keep a fast network
/// busy. A value that is larger goes alone, so a connection takes at most this, one value, and the small ones.
pub const LARGE_BYTES_MAX: usize = 16 << 20;

/// Seconds without a word after which the system asks whether a client's machine is still there: as Redis has it.
pub const KEEPALIVE_S: u64 = 300;
