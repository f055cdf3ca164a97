//! What sessions ask of the engine, and what comes back.

use shorttail_units::UnixMs;

use crate::command::StoreError;

/// Names one part of one client request on its connection: replies carry it back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RequestId {
    /// Place in the connection's reply order (see `ReplyQueue`).
    pub seq: u64,
    /// Which of the request's parts, from 0.
    pub part: u32,
}

/// One thing asked of the engine. `C` is the command type of the protocol.
#[derive(Debug)]
pub enum Request<C> {
    /// One command on one key.
    Key(C),
    /// Several stores that happen together or not at all; all keys in one hash slot.
    Group(GroupPut),
    /// Something about all keys.
    Keyspace(KeyspaceRequest),
}

impl<C> Request<C> {
    /// The same request with another command type.
    pub fn map<D>(self, wrap: impl FnOnce(C) -> D) -> Request<D> {
        match self {
            Request::Key(command) => Request::Key(wrap(command)),
            Request::Group(group) => Request::Group(group),
            Request::Keyspace(keyspace) => Request::Keyspace(keyspace),
        }
    }
}

/// Stores all pairs atomically.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupPut {
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// MSETNX: only if none of the keys exists.
    pub only_if_absent: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyspaceRequest {
    Count,
    /// Makes every object stored before `at` (now, if `None`) invisible.
    Flush {
        at: Option<UnixMs>,
    },
    /// Keys from `cursor` on (0: from the start), about `count` of them.
    Scan {
        cursor: u64,
        count: usize,
    },
    RandomKey,
    Stats,
}

/// A key met by a scan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScannedKey {
    pub key: Vec<u8>,
    pub value_bytes: usize,
    pub expiry: Option<UnixMs>,
}

/// What comes back for one part of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Bytes that `Command::apply` or `Command::refuse` wrote.
    Bytes(Vec<u8>),
    /// Whether a `GroupPut` stored.
    Group(Result<bool, StoreError>),
    Keyspace(Result<KeyspaceReply, StoreError>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyspaceReply {
    Count(u64),
    Flushed,
    /// `next` is 0 when the scan is complete.
    Scanned {
        next: u64,
        keys: Vec<ScannedKey>,
    },
    RandomKey(Option<Vec<u8>>),
    Stats(Box<StoreStats>),
}

/// Counters of the engine, summed over its cores.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoreStats {
    /// Objects that the index names (expired ones count until they are reclaimed).
    pub objects: u64,
    /// Bytes of those objects: key, value and the eleven or more bytes of a record's header.
    pub bytes_stored: u64,
    /// Bytes of node memory in use for this engine's stripes, all roles of a chunk counted.
    pub bytes_used: u64,
    /// Bytes of node memory in all.
    pub bytes_limit: u64,
    /// Objects ever stored.
    pub stored_total: u64,
    pub evicted_total: u64,
    pub expired_total: u64,
    pub degraded_reads_total: u64,
    /// Look-ups that met an object whose time was over.
    pub met_expired_total: u64,
    /// Look-ups that met an object that a flush hides.
    pub met_flushed_total: u64,
    /// Value length histogram: objects per 32-byte class, keyed by the class's upper bound; filled only on request.
    pub nodes_alive: u16,
    pub nodes_total: u16,
}
