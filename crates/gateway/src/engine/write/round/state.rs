//! One combined write of a key: what it leaves, who waits for it, and how far it has come.
//!
//! Must not know: who decides what becomes of it.

use shorttail_units::Version;
use smallvec::SmallVec;

use crate::command::BoxCommand;
use crate::engine::Token;
use crate::engine::reclaim::doomed::Gone;
use crate::engine::state::index::Location;
use crate::engine::state::pool::PoolKey;
use crate::engine::write::lock::{Move, Old};
use crate::engine::write::manifest::Manifest;
use crate::engine::write::object::{Object, ObjectData, OldRecord};

/// How a round leaves the key.
#[derive(Clone, Debug)]
pub enum End {
    Store(Object),
    Delete,
}

/// A command that was applied and waits for the round to be durable.
#[derive(Debug)]
pub struct Finished {
    pub token: Token,
    pub command: BoxCommand,
    pub reply: Vec<u8>,
    /// Nothing before it in the round, nor itself, changed the key: it may be answered whatever becomes of the write.
    pub is_independent: bool,
    /// It took the object away.
    pub is_delete: bool,
}

/// Those of a round: usually one.
pub type FinishedCommands = SmallVec<[Finished; 1]>;

/// One combined write of a key.
#[derive(Debug)]
pub struct Round {
    pub finished: FinishedCommands,
    pub end: End,
    pub version: Version,
    pub old: Old,
    /// The last effect kept the value and counts as a read.
    pub mark_read: bool,
    /// Where the new record is and its length, once it is durable.
    pub confirmed: Option<(Location, usize)>,
    /// Cleaning copies that record elsewhere, while what it replaces cannot be read.
    pub moved: Option<Move>,
    /// It was handed to the log (or to a striped write).
    pub is_sent: bool,
    /// Nodes may hold its record although it is to be sent (again): if it fails, its outcome is unknown.
    pub was_sent: bool,
    /// It frees more than it takes: it may use memory that is reserved for cleaning.
    pub helps_cleaning: bool,
    /// The job that ends the object, and the bytes of its record.
    pub job: Option<(PoolKey, usize)>,
    /// It ends a striped object, of which not many go at once.
    pub is_eviction: bool,
    /// What is counted once it is durable.
    pub gone: Option<Gone>,
    /// The group of which it is one pair.
    pub group: Option<PoolKey>,
    /// Since when it waits for memory.
    pub stalled_us: Option<u64>,
    /// Its turn among those that wait comes.
    pub is_in_lane: bool,
}

impl Round {
    /// A round that ends an object for want of memory, or because its time is over.
    pub fn ending(old: OldRecord, version: Version, job: Option<(PoolKey, usize)>) -> Self {
        let round = Round::new(FinishedCommands::new(), End::Delete, version, Old::Present(old));
        Round { helps_cleaning: true, job, ..round }
    }

    /// A round that stores one pair of a group.
    pub fn of_group(group: PoolKey, object: Object, version: Version, old: Old) -> Self {
        let round = Round::new(FinishedCommands::new(), End::Store(object), version, old);
        Round { group: Some(group), ..round }
    }

    /// Does it only take the object away, and waits for memory without anything of it having been sent? Nodes know
    /// nothing of it, nor does a client: a read beside it is before it (rule R10), as long as that takes.
    pub fn is_delete_to_come(&self) -> bool {
        matches!(self.end, End::Delete) && self.stalled_us.is_some() && !self.is_sent && !self.was_sent
    }

    /// Is one of its commands of this connection? What that asks afterwards is after them.
    pub fn is_asked_by(&self, connection: u64) -> bool {
        self.finished.iter().any(|done| done.token.connection == connection)
    }

    /// What these commands leave.
    pub fn new(finished: FinishedCommands, end: End, version: Version, old: Old) -> Self {
        Round {
            finished,
            end,
            version,
            old,
            mark_read: false,
            confirmed: None,
            moved: None,
            is_sent: false,
            was_sent: false,
            helps_cleaning: false,
            job: None,
            is_eviction: false,
            gone: None,
            group: None,
            stalled_us: None,
            is_in_lane: false,
        }
    }

    pub(in crate::engine::write) fn manifest(&self) -> Option<&Manifest> {
        match &self.end {
            End::Store(Object { data: ObjectData::Striped { manifest, .. }, .. }) => Some(manifest),
            _ => None,
        }
    }

    /// That of a value which is no object yet; a round that keeps the value, as a touch does, has the old object's.
    pub(in crate::engine::write) fn new_manifest(&self) -> Option<&Manifest> {
        let old = match &self.old {
            Old::Present(old) => old.manifest.as_ref().map(|manifest| manifest.first),
            _ => None,
        };
        self.manifest().filter(|manifest| Some(manifest.first) != old)
    }
}
