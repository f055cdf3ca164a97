//! The commands of one connection that the engine has not answered yet.
//!
//! Clients expect a connection's commands to run one after the other. The engine runs reads beside writes, so a
//! session holds back a write while a read of its own connection on the same key is in flight, and one of memcached a
//! read while a write is, too. Writes on one key stay in order by themselves: the engine locks keys first come, first
//! served. A command that reads and may then write has its key for itself.

use std::collections::VecDeque;

use crate::request::RequestId;

#[derive(Debug, Default)]
pub struct InFlight {
    /// In the order of their places; answered ones leave when they reach the front.
    entries: VecDeque<Entry>,
    /// Unanswered ones per kind.
    counts: [usize; 3],
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    id: RequestId,
    fingerprint: Fingerprint,
    answered: bool,
    line: u64,
}

/// What is remembered of a command: a hash of its key, and its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    hash: u64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    /// Runs as a read and perhaps, later, as a write.
    ReadThenWrite,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Read, Kind::Write, Kind::ReadThenWrite];

    fn conflicts(self, other: Kind) -> bool {
        self != other || self == Kind::ReadThenWrite
    }
}

impl Fingerprint {
    pub fn kind(self) -> Kind {
        self.kind
    }

    pub fn new(key: &[u8], kind: Kind) -> Self {
        // Not against attackers: a collision only holds a command back for a moment.
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let mix = |hash: u64, bytes: &[u8]| (hash.rotate_left(5) ^ word(bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Fingerprint { hash: key.chunks(8).fold(key.len() as u64, mix), kind }
    }
}

impl InFlight {
    /// Must a command wait for one that is in flight?
    pub fn blocks(&self, next: Fingerprint) -> bool {
        let any_in_flight = |kind: Kind| next.kind.conflicts(kind) && self.counts[kind as usize] > 0;
        let conflicts = |entry: &Entry| {
            let other = entry.fingerprint;
            !entry.answered && other.hash == next.hash && next.kind.conflicts(other.kind)
        };
        Kind::ALL.into_iter().any(any_in_flight) && self.entries.iter().any(conflicts)
    }

    /// Is an earlier command on the key of this one still unanswered?
    pub fn is_behind(&self, id: RequestId) -> bool {
        let index = self.entries.partition_point(|entry| entry.id < id);
        let hash = self.entries.get(index).map(|entry| entry.fingerprint.hash);
        let earlier = self.entries.iter().take(index);
        earlier.filter(|entry| !entry.answered).any(|entry| Some(entry.fingerprint.hash) == hash)
    }

    /// Remembers a command, behind those before it, that came from the request line numbered `line`.
    pub fn add(&mut self, id: RequestId, fingerprint: Fingerprint, line: u64) {
        self.counts[fingerprint.kind as usize] += 1;
        self.entries.push_back(Entry { id, fingerprint, answered: false, line });
    }

    /// Notes the answer to a command and returns the number of its request line.
    ///
    /// # Panics
    /// If no such command is in flight.
    pub fn answered(&mut self, id: RequestId) -> u64 {
        let index = self.entries.partition_point(|entry| entry.id < id);
        let entry = self.entries.get_mut(index).filter(|entry| entry.id == id && !entry.answered);
        let entry = entry.expect("an answer to a command that is in flight");
        entry.answered = true;
        let (fingerprint, line) = (entry.fingerprint, entry.line);
        self.counts[fingerprint.kind as usize] -= 1;
        while self.entries.front().is_some_and(|entry| entry.answered) {
            self.entries.pop_front();
        }
        line
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Notes the answer to what is perhaps a command in flight.
    pub fn answered_if_any(&mut self, id: RequestId) {
        if self.entries.binary_search_by_key(&id, |entry| entry.id).is_ok_and(|index| !self.entries[index].answered) {
            self.answered(id);
        }
    }

    /// Places of answered commands of the request line of this one, behind it: their replies wait for it.
    pub fn answered_behind(&self, id: RequestId) -> impl Iterator<Item = u64> {
        let index = self.entries.partition_point(|entry| entry.id < id);
        let line = self.entries.get(index).map(|entry| entry.line);
        let of_line = move |entry: &&Entry| Some(entry.line) == line && entry.answered;
        self.entries.iter().skip(index + 1).filter(of_line).map(|entry| entry.id.seq)
    }

    pub fn has_line(&self, line: u64) -> bool {
        self.entries.iter().any(|entry| entry.line == line)
    }
}
