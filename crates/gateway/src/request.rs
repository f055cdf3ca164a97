//! What sessions ask of the engine, and what comes back.

use serde::{Deserialize, Serialize};
use shorttail_units::UnixMs;
use shorttail_wire::control::StoreTotals;

use crate::command::{Access, Command, StoreError, Wants};
use crate::limits::LARGE_VALUE_BYTES;

/// Names one part of one client request on its connection: replies carry it back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RequestId {
    /// Place in the connection's reply order (see `ReplyQueue`).
    pub seq: u64,
    /// Which of the request's parts, from 0.
    pub part: u32,
}

/// One thing asked of the engine. `C` is the command type of the protocol.
#[derive(Debug, Serialize, Deserialize)]
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
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupPut {
    pub pairs: Vec<(Vec<u8>, Vec<u8>)>,
    /// MSETNX: only if none of the keys exists.
    pub only_if_absent: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum KeyspaceRequest {
    Count,
    /// Makes every object stored before `at` (now, if `None`) invisible.
    Flush {
        #[serde(with = "crate::forward::maybe_unix_ms")]
        at: Option<UnixMs>,
        /// Of these partitions alone, if any are named.
        of: Vec<u16>,
    },
    /// Keys from `cursor` on (0: from the start), about `count` of them.
    Scan {
        cursor: u64,
        count: usize,
    },
    /// Keys of one slot.
    CountSlot {
        slot: u16,
    },
    /// As a scan that ends with the slot of its cursor.
    ListSlot {
        cursor: u64,
        count: usize,
    },
    RandomKey,
    Stats,
    /// The same of what clients are told this gateway has, and of nothing else: as a master of Redis Cluster. It is
    /// asked of no other, so it has no bytes: it would nest as deeply as a message is long. The last, so that no other
    /// has its number.
    #[serde(skip)]
    Own(Box<KeyspaceRequest>),
}

impl KeyspaceRequest {
    /// Everything is flushed.
    pub fn flush(at: Option<UnixMs>) -> Self {
        KeyspaceRequest::Flush { at, of: Vec::new() }
    }

    /// The partitions that it is about; `None`: all that whoever is asked has.
    pub fn named(&self) -> Option<&[u16]> {
        match self {
            KeyspaceRequest::Flush { of, .. } if !of.is_empty() => Some(of),
            _ => None,
        }
    }

    /// The part of it that is about these partitions, if it can say so: what does a thing twice must.
    pub fn part(&self, partitions: &[u16]) -> Self {
        match self {
            KeyspaceRequest::Flush { at, .. } => KeyspaceRequest::Flush { at: *at, of: partitions.to_vec() },
            _ => self.clone(),
        }
    }
}

/// A key met by a scan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScannedKey {
    #[serde(with = "crate::forward::bytes")]
    pub key: Vec<u8>,
    pub value_bytes: usize,
    #[serde(with = "crate::forward::maybe_unix_ms")]
    pub expiry: Option<UnixMs>,
}

/// What comes back for one part of a request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Bytes that `Command::apply` or `Command::refuse` wrote.
    Bytes(#[serde(with = "crate::forward::bytes")] Vec<u8>),
    /// Whether a `GroupPut` stored.
    Group(Result<bool, StoreError>),
    Keyspace(Result<KeyspaceReply, StoreError>),
    /// A read that takes no large value met one of this length: what [`Command::deferred`] said, to be asked again.
    ///
    /// [`Command::deferred`]: crate::command::Command::deferred
    Large {
        value_bytes: usize,
        #[serde(with = "crate::forward::bytes")]
        command: Vec<u8>,
    },
}

impl Reply {
    /// The reply to a read that takes no large value and meets a value of this length; `None`: it has its value.
    pub fn large(command: &(impl Command + ?Sized), value_bytes: usize) -> Option<Self> {
        let reads_value = command.access() == Access::Read && command.wants() == Wants::Value;
        let command = if reads_value && value_bytes > LARGE_VALUE_BYTES { command.deferred()? } else { return None };
        Some(Reply::Large { value_bytes, command })
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
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

/// What a core of a gateway counts, or all of them: what the coordinator is told, and what clients ask for besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StoreStats {
    pub totals: StoreTotals,
    /// Bytes of node memory in use for this engine's stripes, all roles of a chunk counted.
    pub bytes_used: u64,
    /// Bytes of node memory in all.
    pub bytes_limit: u64,
    /// Chunks that cleaning read from the memory of a node, without asking it.
    pub near_chunks_total: u64,
    /// Look-ups that met an object whose time was over.
    pub met_expired_total: u64,
    /// Look-ups that met an object that a flush hides.
    pub met_flushed_total: u64,
    /// Nodes in use, and nodes known.
    pub nodes_alive: u16,
    pub nodes_total: u16,
}

impl StoreStats {
    /// What two cores of a gateway count together. What every core sees alike, the nodes and their
    /// memory, is taken once.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        StoreStats {
            totals: self.totals.plus(other.totals),
            near_chunks_total: self.near_chunks_total + other.near_chunks_total,
            met_expired_total: self.met_expired_total + other.met_expired_total,
            met_flushed_total: self.met_flushed_total + other.met_flushed_total,
            ..*self
        }
    }

    /// What was counted, without what is so at present only.
    #[must_use]
    pub fn counters(&self) -> Self {
        let totals = self.totals.counters();
        StoreStats { totals, bytes_used: 0, bytes_limit: 0, nodes_alive: 0, nodes_total: 0, ..*self }
    }
}
