//! What sessions ask of the engine, and what comes back.

use serde::{Deserialize, Serialize};
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
    /// Some keys of one slot, at most `count`; answered as a scan that is complete.
    ListSlot {
        slot: u16,
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

/// Counters of the engine, summed over its cores.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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
    /// Stores, and deletes, that found no memory.
    pub stores_refused_total: u64,
    pub evicted_total: u64,
    pub expired_total: u64,
    /// Small objects that were read from a node's memory without asking it.
    pub near_reads_total: u64,
    /// Chunks that cleaning read from the memory of a node, without asking it.
    pub near_chunks_total: u64,
    /// Appends that nodes hold without a message.
    pub appends_put_total: u64,
    pub degraded_reads_total: u64,
    /// Look-ups that met an object whose time was over.
    pub met_expired_total: u64,
    /// Look-ups that met an object that a flush hides.
    pub met_flushed_total: u64,
    /// Requests sent beside one that was late, each for a token of the budget.
    pub hedges_sent_total: u64,
    /// Reads, and records of writes (a request may hold many), that a second way completed first, with a token or,
    /// because of a verdict, without.
    pub hedges_won_total: u64,
    /// Times that a hedge was wanted and the budget had none left.
    pub hedge_budget_exhausted_total: u64,
    /// Messages of nodes that were hurt on their way, and ended their session.
    pub messages_damaged_total: u64,
    /// Reads that asked for more than they needed and used the first answers.
    pub late_bound_total: u64,
    /// Requests that lost a race: withdrawn, or their answer was ignored.
    pub cancelled_total: u64,
    /// Writes placed elsewhere because the node meant for them was slow or down.
    pub redirected_writes_total: u64,
    /// Timeslices that the request monitor judged.
    pub slices_judged_total: u64,
    /// Renewals of promises that a node refused, or whose session ended before it answered.
    pub renewals_failed_total: u64,
    /// Chunks of sealed stripes that are lost, or on a node that is away; stripes with a lost one that no node can
    /// take.
    pub chunks_missing: u64,
    pub stripes_stranded: u64,
    /// Chunks that nodes rebuilt, and their payload bytes.
    pub chunks_rebuilt_total: u64,
    pub bytes_rebuilt_total: u64,
    /// Lost chunks that are being rebuilt or wait for their turn, and how fast that goes at present.
    pub chunks_to_rebuild: u64,
    pub repair_bytes_per_s: u64,
    /// Most chunks that one stripe lost; and of those that lost no more than the code survives.
    pub lost_of_stripe_max: u64,
    pub lost_of_readable_max: u64,
    /// Chunks that moved from node to node although nothing was lost, their payload bytes, and how fast
    /// it goes at present.
    pub chunks_moved_total: u64,
    pub bytes_moved_total: u64,
    pub move_bytes_per_s: u64,
    /// Chunks that should move and find no node with room that holds nothing of their stripe.
    pub moves_stranded: u64,
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
            objects: self.objects + other.objects,
            bytes_stored: self.bytes_stored + other.bytes_stored,
            stored_total: self.stored_total + other.stored_total,
            stores_refused_total: self.stores_refused_total + other.stores_refused_total,
            evicted_total: self.evicted_total + other.evicted_total,
            expired_total: self.expired_total + other.expired_total,
            near_reads_total: self.near_reads_total + other.near_reads_total,
            near_chunks_total: self.near_chunks_total + other.near_chunks_total,
            appends_put_total: self.appends_put_total + other.appends_put_total,
            degraded_reads_total: self.degraded_reads_total + other.degraded_reads_total,
            met_expired_total: self.met_expired_total + other.met_expired_total,
            met_flushed_total: self.met_flushed_total + other.met_flushed_total,
            hedges_sent_total: self.hedges_sent_total + other.hedges_sent_total,
            hedges_won_total: self.hedges_won_total + other.hedges_won_total,
            hedge_budget_exhausted_total: self.hedge_budget_exhausted_total + other.hedge_budget_exhausted_total,
            messages_damaged_total: self.messages_damaged_total + other.messages_damaged_total,
            late_bound_total: self.late_bound_total + other.late_bound_total,
            cancelled_total: self.cancelled_total + other.cancelled_total,
            redirected_writes_total: self.redirected_writes_total + other.redirected_writes_total,
            slices_judged_total: self.slices_judged_total + other.slices_judged_total,
            renewals_failed_total: self.renewals_failed_total + other.renewals_failed_total,
            chunks_missing: self.chunks_missing + other.chunks_missing,
            stripes_stranded: self.stripes_stranded + other.stripes_stranded,
            chunks_rebuilt_total: self.chunks_rebuilt_total + other.chunks_rebuilt_total,
            bytes_rebuilt_total: self.bytes_rebuilt_total + other.bytes_rebuilt_total,
            chunks_to_rebuild: self.chunks_to_rebuild + other.chunks_to_rebuild,
            repair_bytes_per_s: self.repair_bytes_per_s + other.repair_bytes_per_s,
            lost_of_stripe_max: self.lost_of_stripe_max.max(other.lost_of_stripe_max),
            lost_of_readable_max: self.lost_of_readable_max.max(other.lost_of_readable_max),
            chunks_moved_total: self.chunks_moved_total + other.chunks_moved_total,
            bytes_moved_total: self.bytes_moved_total + other.bytes_moved_total,
            move_bytes_per_s: self.move_bytes_per_s + other.move_bytes_per_s,
            moves_stranded: self.moves_stranded + other.moves_stranded,
            bytes_used: self.bytes_used,
            bytes_limit: self.bytes_limit,
            nodes_alive: self.nodes_alive,
            nodes_total: self.nodes_total,
        }
    }

    /// What was counted, without what is so at present only.
    #[must_use]
    pub fn counters(&self) -> Self {
        StoreStats {
            objects: 0,
            bytes_stored: 0,
            bytes_used: 0,
            bytes_limit: 0,
            chunks_missing: 0,
            stripes_stranded: 0,
            chunks_to_rebuild: 0,
            repair_bytes_per_s: 0,
            lost_of_stripe_max: 0,
            lost_of_readable_max: 0,
            move_bytes_per_s: 0,
            moves_stranded: 0,
            nodes_alive: 0,
            nodes_total: 0,
            ..self.clone()
        }
    }
}
