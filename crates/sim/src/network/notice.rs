//! The words between the network and its users: addresses, settings, what endpoints are told, why calls fail.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

use crate::limits::{DIRECTION_BYTES_MAX, SESSIONS_MAX};

/// Something with an address: a process, or a client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Endpoint(pub u32);

/// Name of a session, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SessionId(pub(super) u64);

/// How the network behaves. Times in microseconds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// No message is faster.
    pub delay_us_min: u64,
    /// The mean of what comes on top, exponentially distributed, drawn for each session from `0..=this`.
    pub delay_us_mean_max: u64,
    /// No message is slower, unless its endpoint was slowed down.
    pub delay_us_max: u64,
    /// How long a message may wait in a cut direction before its session breaks.
    pub cut_timeout_us: u64,
    /// How often a message arrives in two pieces, as streams may.
    pub split_ppm: u32,
    /// How often a break spares a random first part of what is under way in a direction; else all of it is lost.
    pub spare_ppm: u32,
    /// How often a bit of a message turns over on its way, and the sum of its segment lets it pass.
    pub flip_ppm: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            delay_us_min: 20,
            delay_us_mean_max: 200,
            delay_us_max: 20_000,
            cut_timeout_us: 1_000_000,
            split_ppm: 20_000,
            spare_ppm: 500_000,
            flip_ppm: 0,
        }
    }
}

/// What an endpoint is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    pub at: Endpoint,
    pub session: SessionId,
    pub what: What,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// Another endpoint opened this session.
    Accepted {
        peer: Endpoint,
    },
    /// The session that this endpoint opened stands.
    Connected,
    Received(Vec<u8>),
    /// The session is over; its name means nothing from now on.
    Broken(Reason),
}

/// Why a session is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The endpoint that was to accept it is not up.
    Refused,
    /// The other end closed it.
    Closed,
    /// The other end crashed, or the session was broken.
    Reset,
    /// A message waited too long in a cut.
    TimedOut,
}

/// Why bytes were not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    #[error("the session is over for this endpoint, or was never its own")]
    NotOpen,
    #[error("{DIRECTION_BYTES_MAX} B are under way already")]
    Full,
}

/// Why a session was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    #[error("endpoint {} is not up", .0.0)]
    NotUp(Endpoint),
    #[error("an endpoint opens no session to itself")]
    Itself,
    #[error("there are {SESSIONS_MAX} sessions already")]
    TooMany,
}

impl SessionId {
    /// The same name as a number, for roles that number their sessions.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// For a trace: bytes are told by their count and hash.
impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "endpoint {} {}: ", self.at.0, self.session)?;
        match &self.what {
            What::Accepted { peer } => write!(f, "accepted from endpoint {}", peer.0),
            What::Connected => f.write_str("connected"),
            What::Received(bytes) => write!(f, "received {} B {:016x}", bytes.len(), xxh3_64(bytes)),
            What::Broken(reason) => write!(f, "broken ({reason:?})"),
        }
    }
}
