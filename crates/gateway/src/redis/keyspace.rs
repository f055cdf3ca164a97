//! Commands about all keys: what they ask of the engine step by step, and what they make of the answers.
//!
//! Must not know: when they are issued (the session waits until everything before them is answered).

use std::collections::VecDeque;

use shorttail_units::{Now, Slot};
use shorttail_wire::resp::{Protocol, encode};

use super::error::{CommandError, store_error, store_error_in_cluster};
use super::glob::Glob;
use super::list_room::{NoRoom, Piece};
use super::{info, limits};
use crate::command::StoreError;
use crate::engine::{cursor_of, cursor_slot};
use crate::request::{KeyspaceReply, KeyspaceRequest, ScannedKey};
use crate::session::Shared;

/// One command about all keys, as far as it came.
#[derive(Debug)]
pub enum KeyspaceWork {
    Count,
    /// CLUSTER COUNTKEYSINSLOT.
    CountSlot {
        slot: u16,
    },
    Flush,
    RandomKey,
    Scan {
        cursor: u64,
        count: usize,
        filter: Filter,
    },
    /// KEYS: a scan from start to end. CLUSTER GETKEYSINSLOT: one of the cursor's slot, until so many keys are found.
    Keys {
        cursor: u64,
        filter: Filter,
        found: Found,
        of_slot: Option<usize>,
    },
    Info {
        sections: info::Sections,
    },
}

/// Keys as they are told, a piece for each step.
#[derive(Debug, Default)]
pub struct Found {
    count: usize,
    bytes: usize,
    pieces: VecDeque<Piece>,
}

/// Which keys a scan tells.
#[derive(Debug, Default)]
pub struct Filter {
    /// `None`: all.
    pub pattern: Option<Glob>,
    /// TYPE named something that is not stored here.
    pub other_type: bool,
}

impl Filter {
    fn admits(&self, shared: &Shared, key: &[u8]) -> bool {
        let is_wanted = !self.other_type && self.pattern.as_ref().is_none_or(|pattern| pattern.matches(key));
        is_wanted && (!shared.settings.redis_cluster.sends_clients() || shared.topology.is_mine(Slot::of_key(key)))
    }
}

/// Where a scan goes on that is to begin at a cursor: a master leaves out the slots of others, and waits for none of
/// them. `None`: nothing is left.
pub fn next_cursor(cursor: u64, shared: &Shared) -> Option<u64> {
    if !shared.settings.redis_cluster.sends_clients() {
        return Some(cursor);
    }
    let slot = cursor_slot(cursor)?;
    let next = shared.topology.next_of_mine(slot)?;
    Some(if next == slot { cursor } else { cursor_of(next) })
}

/// The cursor that a step's answer leads to; 0: it was the last.
fn cursor_behind(next: u64, shared: &Shared) -> u64 {
    if next == 0 { 0 } else { next_cursor(next, shared).unwrap_or(0) }
}

const KEYS_TOO_MANY: CommandError = CommandError::fixed("ERR too many keys match for one reply, use SCAN");
const KEYS_OF_OTHERS: CommandError = CommandError::fixed("ERR other clients list too many keys at present, use SCAN");
const UNEXPECTED: CommandError = CommandError::fixed("ERR the store gave an answer to another question");

impl KeyspaceWork {
    /// What to ask of the engine next. `is_of_cluster`: clients ask each master, and add up what they hear.
    pub fn request(&self, is_of_cluster: bool) -> KeyspaceRequest {
        let request = self.request_for_all();
        // The others go slot by slot, and leave out what belongs to other masters.
        let is_of_all = matches!(request, KeyspaceRequest::Count | KeyspaceRequest::Stats)
            || matches!(request, KeyspaceRequest::Flush { .. } | KeyspaceRequest::RandomKey);
        if is_of_cluster && is_of_all { KeyspaceRequest::Own(Box::new(request)) } else { request }
    }

    fn request_for_all(&self) -> KeyspaceRequest {
        match self {
            KeyspaceWork::Count => KeyspaceRequest::Count,
            KeyspaceWork::CountSlot { slot } => KeyspaceRequest::CountSlot { slot: *slot },
            KeyspaceWork::Flush => KeyspaceRequest::flush(None),
            KeyspaceWork::RandomKey => KeyspaceRequest::RandomKey,
            KeyspaceWork::Scan { cursor, count, .. } => KeyspaceRequest::Scan { cursor: *cursor, count: *count },
            KeyspaceWork::Keys { cursor, of_slot: None, .. } => {
                KeyspaceRequest::Scan { cursor: *cursor, count: limits::KEYS_STEP_COUNT }
            }
            KeyspaceWork::Keys { cursor, of_slot: Some(most), found, .. } => {
                let count = (most - found.count).min(limits::KEYS_STEP_COUNT);
                KeyspaceRequest::ListSlot { cursor: *cursor, count }
            }
            KeyspaceWork::Info { .. } => KeyspaceRequest::Stats,
        }
    }

    /// What follows the reply: where it is long, that is its beginning only.
    pub fn take_rest(&mut self) -> VecDeque<Piece> {
        match self {
            KeyspaceWork::Keys { found, .. } => std::mem::take(&mut found.pieces),
            _ => VecDeque::new(),
        }
    }

    /// Takes the engine's answer; the reply to the client, or `None` if there is more to ask.
    pub fn handle(
        &mut self,
        result: Result<KeyspaceReply, StoreError>,
        now: Now,
        shared: &Shared,
        protocol: Protocol,
    ) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        if let (KeyspaceWork::Keys { found, .. }, Err(_)) = (&mut *self, &result) {
            *found = Found::default();
        }
        match (&mut *self, result) {
            (KeyspaceWork::Info { sections }, Err(_)) if sections.need_more_than_store() => {
                encode::verbatim_text(&mut out, protocol, info::render(sections, None, now, shared).as_bytes());
            }
            (_, Err(error)) if shared.settings.redis_cluster.sends_clients() => {
                store_error_in_cluster(error).encode(&mut out)
            }
            (_, Err(error)) => store_error(error).encode(&mut out),
            (KeyspaceWork::Count | KeyspaceWork::CountSlot { .. }, Ok(KeyspaceReply::Count(count))) => {
                encode::count(&mut out, count);
            }
            (KeyspaceWork::Flush, Ok(KeyspaceReply::Flushed)) => out.extend_from_slice(encode::OK),
            (KeyspaceWork::RandomKey, Ok(KeyspaceReply::RandomKey(Some(key)))) => encode::bulk(&mut out, &key),
            (KeyspaceWork::RandomKey, Ok(KeyspaceReply::RandomKey(None))) => encode::null(&mut out, protocol),
            (KeyspaceWork::Scan { filter, .. }, Ok(KeyspaceReply::Scanned { next, keys })) => {
                let admitted = keys.iter().map(|scanned| scanned.key.as_slice());
                let admitted: Vec<_> = admitted.filter(|key| filter.admits(shared, key)).collect();
                encode_scan(&mut out, cursor_behind(next, shared), &admitted);
            }
            (KeyspaceWork::Keys { .. }, Ok(KeyspaceReply::Scanned { next, keys })) => {
                return self.gather_keys(shared, next, keys);
            }
            (KeyspaceWork::Info { sections }, Ok(KeyspaceReply::Stats(stats))) => {
                encode::verbatim_text(&mut out, protocol, info::render(sections, Some(&stats), now, shared).as_bytes());
            }
            (_, Ok(_)) => UNEXPECTED.encode(&mut out),
        }
        Some(out)
    }

    fn gather_keys(&mut self, shared: &Shared, next: u64, keys: Vec<ScannedKey>) -> Option<Vec<u8>> {
        let KeyspaceWork::Keys { cursor, filter, found, of_slot } = self else { return None };
        let keys = keys.into_iter().map(|scanned| scanned.key);
        // A step lists a key once, and no later step lists it again: its place in the scan does not change.
        let most = of_slot.map_or(usize::MAX, |most| most - found.count);
        let added = found.add(shared, keys.filter(|key| filter.admits(shared, key)).collect(), most);
        let mut out = Vec::new();
        if let Err(why) = added {
            *found = Found::default();
            let error = if why == NoRoom::Taken { KEYS_OF_OTHERS } else { KEYS_TOO_MANY };
            error.encode(&mut out);
            return Some(out);
        }
        *cursor = match of_slot {
            Some(most) if found.count == *most => 0,
            Some(_) => next,
            None => cursor_behind(next, shared),
        };
        if *cursor != 0 {
            return None;
        }
        encode::array(&mut out, found.count);
        Some(out)
    }
}

impl Found {
    /// Adds what one step listed, so many keys at most.
    fn add(&mut self, shared: &Shared, mut keys: Vec<Vec<u8>>, most: usize) -> Result<(), NoRoom> {
        keys.sort_unstable();
        keys.dedup();
        keys.truncate(most);
        let mut piece = Vec::new();
        keys.iter().for_each(|key| encode::bulk(&mut piece, key));
        if !piece.is_empty() {
            let piece = shared.list_room.take(self.bytes, piece)?;
            self.count += keys.len();
            self.bytes += piece.len();
            self.pieces.push_back(piece);
        }
        Ok(())
    }
}

/// The reply to a step of SCAN.
pub fn encode_scan(out: &mut Vec<u8>, next: u64, keys: &[&[u8]]) {
    encode::array(out, 2);
    encode::bulk(out, itoa::Buffer::new().format(next).as_bytes());
    encode::array(out, keys.len());
    keys.iter().for_each(|key| encode::bulk(out, key));
}
