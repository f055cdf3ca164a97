//! Sizes that the protocol itself fixes.

/// Longest key in bytes, as it is written on the line (so a base64 key decodes to at most 186 bytes).
pub const KEY_BYTES_MAX: usize = 250;

/// Longest decoded base64 key in bytes: 62 groups of four characters fit in 250.
pub const DECODED_KEY_BYTES_MAX: usize = KEY_BYTES_MAX / 4 * 3;

/// Tokens behind the command that are looked at; memcached ignores the rest.
pub const ARGUMENT_COUNT_MAX: usize = 22;

/// Tokens of a meta request, command and key included.
pub const META_TOKEN_COUNT_MAX: usize = 20;

/// Longest opaque token in bytes, its `O` included.
pub const OPAQUE_BYTES_MAX: usize = 32;

/// Largest value length that a line may declare: memcached counts the two bytes of the line end in an `int`.
pub const VALUE_BYTES_DECLARED_MAX: i32 = i32::MAX - 2;

/// Shortest request line in bytes, its end included.
pub const LINE_BYTES_MIN: usize = 4;
