//! What a request line can ask, and how a line that asks nothing is answered.

use serde::{Deserialize, Serialize};

use super::meta::{MetaFlags, MetaKey};

/// One request line, understood. Slices borrow the line.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// `get`, `gets`, `gat`, `gats`. `keys` starts at the first key.
    Get {
        with_cas: bool,
        exptime: Option<i32>,
        keys: &'a [u8],
        /// Where among the keys the first one is that is too long: the answer is an error, but those before it count as
        /// read, or get their expiration time.
        long_key_at: Option<usize>,
    },
    Store(StoreLine<'a>),
    Delete {
        key: &'a [u8],
        noreply: bool,
    },
    Arithmetic {
        key: &'a [u8],
        increment: bool,
        delta: u64,
        noreply: bool,
    },
    Touch {
        key: &'a [u8],
        exptime: i32,
        noreply: bool,
    },
    /// Its opaque may be too long: the answer is an error then, but the object counts as read.
    MetaGet {
        key: MetaKey<'a>,
        flags: MetaFlags,
    },
    MetaSet {
        key: MetaKey<'a>,
        value_bytes: usize,
        flags: MetaFlags,
    },
    MetaDelete {
        key: MetaKey<'a>,
        flags: MetaFlags,
    },
    MetaArithmetic {
        key: MetaKey<'a>,
        flags: MetaFlags,
    },
    MetaDebug {
        key: MetaKey<'a>,
    },
    MetaNoop,
    Version,
    Quit,
    /// `stats` and its arguments.
    Stats {
        arguments: &'a [u8],
    },
    Admin {
        verb: Admin,
        arguments: &'a [u8],
        noreply: bool,
    },
}

/// A text storage command; `value_bytes` of value and a line end follow the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreLine<'a> {
    pub verb: StoreVerb,
    pub key: &'a [u8],
    pub flags: u32,
    pub exptime: i32,
    pub value_bytes: usize,
    /// The token of `cas`.
    pub compare: Option<u64>,
    pub noreply: bool,
}

/// Goes from gateway to gateway, too: verbs keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreVerb {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Cas,
}

/// Commands for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admin {
    FlushAll,
    Verbosity,
    Shutdown,
    Slabs,
    Lru,
    LruCrawler,
    CacheMemlimit,
    Watch,
    /// Of memcached's debug build.
    Debugtime,
}

/// A line that is no request: what to answer and what to skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The answer, without line end.
    pub line: &'static str,
    /// The client said `noreply`: nothing is answered.
    pub quiet: bool,
    /// Bytes of value and line end that follow and are to be ignored.
    pub skip_bytes: usize,
    /// The connection is to be closed instead (a web browser speaks here).
    pub close: bool,
}

impl Refusal {
    pub const BAD_FORMAT: &'static str = "CLIENT_ERROR bad command line format";
    /// A key of `get` and its kin is too long: memcached ends this line twice.
    pub const LONG_KEY_OF_GET: &'static str = "CLIENT_ERROR bad command line format\r\n";
    pub const LONG_OPAQUE: &'static str = "CLIENT_ERROR opaque token too long";
    pub const BAD_EXPTIME: &'static str = "CLIENT_ERROR invalid exptime argument";

    pub(super) fn new(line: &'static str) -> Self {
        Refusal { line, quiet: false, skip_bytes: 0, close: false }
    }

    pub(super) fn bad_format() -> Self {
        Self::new(Self::BAD_FORMAT)
    }

    pub(super) fn quiet(self, quiet: bool) -> Self {
        Refusal { quiet, ..self }
    }

    pub(super) fn skipping(self, value_bytes: usize) -> Self {
        Refusal { skip_bytes: value_bytes + 2, ..self }
    }
}
