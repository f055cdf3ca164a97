//! What a client knows about each of its keys, and which answers are therefore legal.
//!
//! Versions of a key grow in the order in which its writes (sets and deletes) are sent. Several may be in flight on
//! different connections, so an acknowledged write only makes those obsolete that had been answered before it was
//! sent: every older version than the oldest then in flight. The oldest version still legal is the key's `floor`.
//! A read is judged by the floor at the moment it was sent. The judgement has no false alarms; it misses only an
//! order of concurrent writes that contradicts itself.
//!
//! A write whose outcome is unknown (an error, a lost connection) may take effect at any later time and stays legal.
//!
//! Must not know: sockets, time, other threads' keys (each thread has its own part of the keys).

use std::collections::HashMap;

use crate::limits::{SHORT_VALUE_CANDIDATES_MAX, UNKNOWN_PER_KEY_MAX};
use crate::names::{Inscription, Names};

/// A write on its way; given back with its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    pub version: u32,
    /// Oldest legal version once this write is acknowledged.
    floor_then: u32,
    is_delete: bool,
}

/// Judgement of one answer. `floor` and `found` are versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A legal value.
    Hit,
    /// Legally absent: never written by this run, or deleted.
    Absent,
    /// Acknowledged, yet absent, in a store that may evict; version 0 is one of an earlier run.
    Missed { floor: u32 },
    /// The same in a store that must keep everything.
    Lost { floor: u32 },
    /// Older than a write acknowledged before the read was sent; version 0 is one of an earlier run.
    Stale { floor: u32, found: u32 },
    /// A value from before an acknowledged delete.
    Resurrected { deleted: u32, found: u32 },
    /// Not a value that was ever written to this key.
    Mismatch(Mismatch),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    Value(crate::names::Fault),
    NeverWritten {
        found: u32,
        newest: u32,
    },
    /// Shorter than a header and equal to none of the legal versions.
    Short {
        bytes: usize,
    },
    /// The reply names a key that was not asked for.
    Unasked,
}

#[derive(Clone, Copy, Default)]
struct KeyRecord {
    newest: u32,
    floor: u32,
    /// Newest delete that was sent; 0 if none.
    newest_delete: u32,
}

#[derive(Default)]
struct Unknown {
    versions: Vec<u32>,
    has_delete: bool,
    /// More than are remembered: any sound answer is legal.
    overflowed: bool,
}

/// The keys of one thread.
pub struct History {
    keys: Vec<KeyRecord>,
    in_flight: HashMap<u32, Vec<Write>>,
    unknown: HashMap<u32, Unknown>,
    absence: Absence,
    /// So many of the keys, the first ones, were stored by an earlier run.
    stored_count: u32,
}

/// Why an acknowledged key may be absent that nobody deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// The store must keep everything.
    Lost,
    /// It may evict.
    Evicted,
    /// Objects have a time to live. When it ends is not judged: the server's clock is not known here.
    Expired,
}

impl History {
    pub fn new(count: u32, absence: Absence) -> Self {
        let keys = vec![KeyRecord::default(); count as usize];
        History { keys, in_flight: HashMap::new(), unknown: HashMap::new(), absence, stored_count: 0 }
    }

    /// The same if an earlier run stored every key.
    pub fn stored_before(self) -> Self {
        History { stored_count: self.count(), ..self }
    }

    pub fn count(&self) -> u32 {
        u32::try_from(self.keys.len()).expect("limited by KEYS_MAX")
    }

    /// Adds a key and returns it.
    pub fn add_key(&mut self) -> u32 {
        self.keys.push(KeyRecord::default());
        self.count() - 1
    }

    /// Oldest legal version of a read that is sent now.
    pub fn floor(&self, key: u32) -> u32 {
        self.keys[key as usize].floor
    }

    pub fn begin_set(&mut self, key: u32) -> Write {
        self.begin(key, false)
    }

    pub fn begin_delete(&mut self, key: u32) -> Write {
        self.begin(key, true)
    }

    fn begin(&mut self, key: u32, is_delete: bool) -> Write {
        let record = &mut self.keys[key as usize];
        record.newest += 1;
        if is_delete {
            record.newest_delete = record.newest;
        }
        let others = self.in_flight.entry(key).or_default();
        let floor_then = others.iter().map(|other| other.version).min().unwrap_or(record.newest);
        let write = Write { version: record.newest, floor_then, is_delete };
        others.push(write);
        write
    }

    pub fn acknowledged(&mut self, key: u32, write: Write) {
        self.land(key, write);
        self.raise_floor(key, write.floor_then);
    }

    /// The outcome of a write is unknown.
    pub fn unknown(&mut self, key: u32, write: Write) {
        self.land(key, write);
        let unknown = self.unknown.entry(key).or_default();
        unknown.has_delete |= write.is_delete;
        if unknown.versions.len() < UNKNOWN_PER_KEY_MAX {
            unknown.versions.push(write.version);
        } else {
            unknown.overflowed = true;
        }
    }

    fn land(&mut self, key: u32, write: Write) {
        let others = self.in_flight.get_mut(&key).expect("a write lands once");
        others.retain(|other| other.version != write.version);
        if others.is_empty() {
            self.in_flight.remove(&key);
        }
    }

    fn raise_floor(&mut self, key: u32, floor: u32) {
        let record = &mut self.keys[key as usize];
        record.floor = record.floor.max(floor);
    }

    /// Judges an absent key, of a read or delete that was sent when the floor was `floor`.
    pub fn judge_absent(&self, key: u32, floor: u32) -> Verdict {
        let record = self.keys[key as usize];
        let forgiven = self.unknown.get(&key).is_some_and(|unknown| unknown.has_delete || unknown.overflowed);
        let was_stored = floor > 0 || key < self.stored_count;
        let was_deleted = record.newest_delete > 0 && record.newest_delete >= floor;
        if !was_stored || was_deleted || forgiven {
            return Verdict::Absent;
        }
        match self.absence {
            Absence::Lost => Verdict::Lost { floor },
            Absence::Evicted => Verdict::Missed { floor },
            Absence::Expired => Verdict::Absent,
        }
    }

    /// Judges a value of `name` (the key's number in all the run), of a read that was sent when the floor was `floor`.
    pub fn judge_value(&mut self, names: &Names, key: u32, name: u32, floor: u32, value: &[u8]) -> Verdict {
        match names.inspect(name, value) {
            Inscription::Version(found) => self.judge_version(key, floor, found),
            Inscription::OtherRun if floor == 0 => Verdict::Hit,
            Inscription::OtherRun => self.too_old(key, floor, 0),
            Inscription::TooShort => self.judge_short(names, key, name, floor, value),
            Inscription::Wrong(fault) => Verdict::Mismatch(Mismatch::Value(fault)),
        }
    }

    fn judge_version(&mut self, key: u32, floor: u32, found: u32) -> Verdict {
        let newest = self.keys[key as usize].newest;
        if found > newest || found == 0 {
            return Verdict::Mismatch(Mismatch::NeverWritten { found, newest });
        }
        if found < floor && !self.is_unknown(key, found) {
            return self.too_old(key, floor, found);
        }
        self.observed(key, found);
        Verdict::Hit
    }

    fn is_unknown(&self, key: u32, version: u32) -> bool {
        self.unknown.get(&key).is_some_and(|unknown| unknown.overflowed || unknown.versions.contains(&version))
    }

    /// A write that a read saw has taken effect: what it makes obsolete must not be seen again.
    fn observed(&mut self, key: u32, version: u32) {
        let seen = self.in_flight.get(&key).and_then(|writes| writes.iter().find(|write| write.version == version));
        if let Some(floor) = seen.map(|write| write.floor_then) {
            self.raise_floor(key, floor);
        }
    }

    fn too_old(&self, key: u32, floor: u32, found: u32) -> Verdict {
        let deleted = self.keys[key as usize].newest_delete;
        if deleted > found && deleted <= floor {
            Verdict::Resurrected { deleted, found }
        } else {
            Verdict::Stale { floor, found }
        }
    }

    fn judge_short(&self, names: &Names, key: u32, name: u32, floor: u32, value: &[u8]) -> Verdict {
        let newest = self.keys[key as usize].newest;
        let oldest = floor.max(newest.saturating_sub(SHORT_VALUE_CANDIDATES_MAX)).max(1);
        let unknown = self.unknown.get(&key);
        let forgiven = floor == 0 || unknown.is_some_and(|unknown| unknown.overflowed);
        let mut candidates = (oldest..=newest).chain(unknown.iter().flat_map(|unknown| unknown.versions.clone()));
        if forgiven || candidates.any(|version| names.is_version(name, version, value)) {
            return Verdict::Hit;
        }
        let older = (1..floor).rev().take(SHORT_VALUE_CANDIDATES_MAX as usize);
        match older.into_iter().find(|&version| names.is_version(name, version, value)) {
            Some(found) => self.too_old(key, floor, found),
            None => Verdict::Mismatch(Mismatch::Short { bytes: value.len() }),
        }
    }
}

impl Verdict {
    /// Whether the store broke a promise.
    pub fn is_fault(self) -> bool {
        !matches!(self, Verdict::Hit | Verdict::Absent | Verdict::Missed { .. })
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Verdict::Hit => f.write_str("right"),
            Verdict::Absent => f.write_str("absent"),
            Verdict::Missed { floor: 0 } => f.write_str("missed: an earlier run stored the key"),
            Verdict::Lost { floor: 0 } => f.write_str("lost: an earlier run stored the key, which is absent"),
            Verdict::Missed { floor } => write!(f, "missed: version {floor} was acknowledged"),
            Verdict::Lost { floor } => write!(f, "lost: version {floor} was acknowledged, the key is absent"),
            Verdict::Stale { floor, found: 0 } => {
                write!(f, "stale: version {floor} was acknowledged, the value is of an earlier run")
            }
            Verdict::Stale { floor, found } => {
                write!(f, "stale: version {floor} was acknowledged before the read was sent, found {found}")
            }
            Verdict::Resurrected { deleted, found } => {
                write!(f, "resurrected: found version {found} after acknowledged delete {deleted}")
            }
            Verdict::Mismatch(Mismatch::Value(fault)) => write!(f, "wrong: {fault}"),
            Verdict::Mismatch(Mismatch::NeverWritten { found, newest }) => {
                write!(f, "wrong: version {found} was never written, the newest is {newest}")
            }
            Verdict::Mismatch(Mismatch::Short { bytes }) => {
                write!(f, "wrong: {bytes} bytes that are the front of no legal version")
            }
            Verdict::Mismatch(Mismatch::Unasked) => f.write_str("wrong: the reply names a key that was not asked for"),
        }
    }
}

#[cfg(test)]
mod tests;
