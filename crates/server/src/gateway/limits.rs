//! Maxima and times of a gateway's part in ownership, each with its unit and reason.

/// Microseconds after which what a core said of itself holds no more: nobody's promise to it does, and it says
/// something twenty times a second.
pub const REPORT_US_MAX: u64 = 1_500_000;

/// Connections taken from one listening socket, to be served or refused, before all else has its turn: some
/// milliseconds' work. Clients that are refused may come again at once, without end.
pub const ACCEPTED_PER_TURN: usize = 64;

/// Requests that one gateway may have asked another on one connection, and their bytes: beyond, requests wait at the
/// asker, where they are bounded too.
pub const ASKED_MAX: usize = 16_384;
pub const ASKED_BYTES_MAX: usize = 64 << 20;

/// Answers that are handed out in one pass, a long one counting as several: what is asked in turn is often answered at
/// once, and a request of a million keys would hold up all others until its end. Some milliseconds' work.
pub const ANSWERS_PER_PASS: usize = 4096;

/// Requests that waited for an owner and are handed to it in one turn: some ten thousands may have waited, and all else
/// has its turn between. Some milliseconds' work.
pub const PLACED_PER_TURN: usize = 2048;

/// Bytes of a reply that count as one answer, as does a key that was listed; and what statistics count as, which are
/// written out for the client.
pub const ANSWER_BYTES: usize = 16 << 10;
pub const ANSWERS_OF_STATS: usize = 64;

/// Bytes that may wait for the socket to another gateway, and the request that passes them: some turns of a fast link.
/// What waits beyond that waits where it can be refused for sure (`waiting.rs`).
pub const NEIGHBOUR_OUTBOX_BYTES_MAX: usize = 1 << 20;

/// Microseconds between two attempts to connect to another gateway: the first follows soon, later ones more slowly.
pub const CONNECT_FIRST_US: u64 = 5_000;
pub const CONNECT_MAX_US: u64 = 500_000;

/// Milliseconds after which a connection to another gateway that confirms nothing is broken, and begun anew: by then
/// the coordinator would have found that gateway silent, too.
pub const UNCONFIRMED_MS_MAX: u32 = 2_000;

/// Microseconds after which it is so, too, if the socket takes nothing of what there is to send: within one machine
/// nothing is confirmed.
pub const STUCK_US_MAX: u64 = UNCONFIRMED_MS_MAX as u64 * 1_000;

/// Connections from other gateways: one from each core of each of them, within reason.
pub const GUEST_COUNT_MAX: usize = 4096;

/// Microseconds within which one that connected has said that it is a gateway: much longer than that takes.
pub const GREETING_US_MAX: u64 = 5_000_000;

/// Bytes of answers that may wait for another gateway before nothing more is read of what it asks: as much as it may
/// ask at once.
pub const GUEST_ANSWERS_BYTES_MAX: usize = ASKED_BYTES_MAX;

/// What is counted beforehand for each read of a value of any length that another gateway asks while it does not take
/// its answers: the largest usual one.
pub const GUEST_READ_BYTES: usize = 1 << 20;

/// Bytes taken of one other gateway in a turn. A client's are 256 KiB; it speaks for many.
pub const GUEST_TURN_BYTES_MAX: usize = if cfg!(test) { 128 << 10 } else { 1 << 20 };

/// More than the system keeps of a connection that is not read, unless it was told to keep more.
pub const SOCKET_BYTES_MAX: usize = 8 << 20;

/// Bytes of answers that may wait after another long one: the longest value that a gateway may be told to take. A read
/// that would make it more is given back. Answers to writes that tell what was there cannot be; who has twice as much
/// waiting takes none of it, and is let go.
pub const GUEST_OUTBOX_BYTES_MAX: usize = if cfg!(test) { 80 << 20 } else { 1 << 30 };
