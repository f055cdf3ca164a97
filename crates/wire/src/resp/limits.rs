//! Every maximum of the RESP parser, with its unit and why.

/// Bytes of an inline command, and of a length line: what Redis allows (`PROTO_INLINE_MAX_SIZE`).
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// Bytes of one bulk string beyond which the connection is closed: Redis' `proto-max-bulk-len`.
pub const BULK_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Arguments of one request: the limit of Redis 6. It bounds the argument table to 8 MiB.
pub const ARGUMENTS_MAX: usize = 1024 * 1024;

/// Bytes of one request whatever the caller allows: offsets are 32 bits.
pub const REQUEST_BYTES_MAX: usize = 1 << 31;

/// Arguments of a request before authentication, as in Redis.
pub const UNAUTHENTICATED_ARGUMENTS_MAX: usize = 10;

/// Bytes of a bulk string before authentication, as in Redis.
pub const UNAUTHENTICATED_BULK_BYTES_MAX: usize = 16 * 1024;

/// Arguments for which the parser keeps room between requests: 1 KiB.
pub const ARGUMENTS_KEPT: usize = 128;

/// Bytes of unescaped words for which the parser keeps room between inline commands.
pub const WORDS_BYTES_KEPT: usize = 1024;
