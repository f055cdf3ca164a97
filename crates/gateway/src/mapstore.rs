//! The simplest engine: a map. It is the specification that protocol tests run against.

use std::collections::BTreeMap;

use shorttail_units::{Now, Slot, UnixMs, Version};
use shorttail_wire::control::StoreTotals;

use crate::command::{ApplyContext, Attributes, Command, Effect, ObjectRef};
use crate::engine::{cursor_of, cursor_slot};
use crate::request::{GroupPut, KeyspaceReply, KeyspaceRequest, Reply, Request, ScannedKey, StoreStats};

#[derive(Debug, Default)]
pub struct MapStore {
    objects: BTreeMap<Vec<u8>, MapObject>,
    version: u64,
    flush_at: Option<UnixMs>,
    stored_total: u64,
    met_expired_total: u64,
}

#[derive(Debug, Clone)]
struct MapObject {
    value: Vec<u8>,
    flags: u32,
    expiry: Option<UnixMs>,
    cas: u64,
    attributes: Attributes,
    fetched: bool,
    accessed_ms: u64,
}

impl MapStore {
    pub fn handle<C: Command>(&mut self, now: Now, request: Request<C>) -> Reply {
        self.apply_flush(now);
        match request {
            Request::Key(command) => {
                let value_bytes = self.objects.get(command.key()).map_or(0, |object| object.value.len());
                Reply::large(&command, value_bytes).unwrap_or_else(|| Reply::Bytes(self.handle_command(now, command)))
            }
            Request::Group(group) => Reply::Group(Ok(self.handle_group(now, group))),
            Request::Keyspace(keyspace) => Reply::Keyspace(Ok(self.handle_keyspace(now, keyspace))),
        }
    }

    fn handle_command<C: Command>(&mut self, now: Now, mut command: C) -> Vec<u8> {
        let mut reply = Vec::new();
        let key = command.key().to_vec();
        self.met_expired_total += u64::from(self.expire(now, &key));
        self.version += 1;
        let context = ApplyContext { now, version: Version::from_raw(self.version) };
        let current = self.objects.get(&key).map(|object| ObjectRef {
            value: &object.value,
            value_bytes: object.value.len(),
            flags: object.flags,
            expiry: object.expiry,
            cas: object.cas,
            attributes: object.attributes,
            fetched: object.fetched,
            idle_s: u32::try_from((now.unix_ms.0 - object.accessed_ms) / 1000).unwrap_or(u32::MAX),
        });
        let effect = command.apply(current, &context, &mut reply);
        match effect {
            Effect::Keep => {
                if let (Some(object), true) = (self.objects.get_mut(&key), command.touches()) {
                    object.fetched = true;
                    object.accessed_ms = now.unix_ms.0;
                }
            }
            Effect::Put(new) => {
                let object = MapObject {
                    value: new.value,
                    flags: new.flags,
                    expiry: new.expiry,
                    cas: new.cas.unwrap_or(self.version),
                    attributes: new.attributes,
                    fetched: false,
                    accessed_ms: now.unix_ms.0,
                };
                self.objects.insert(key, object);
                self.stored_total += 1;
            }
            Effect::Amend(amendment) => {
                let object = self.objects.get_mut(&key).expect("only an object that was shown is amended");
                object.flags = amendment.flags;
                object.expiry = amendment.expiry;
                object.cas = amendment.cas;
                object.attributes = amendment.attributes;
                if command.touches() {
                    object.fetched = true;
                    object.accessed_ms = now.unix_ms.0;
                }
            }
            Effect::Delete => {
                self.objects.remove(&key);
            }
        }
        reply
    }

    fn handle_group(&mut self, now: Now, group: GroupPut) -> bool {
        for (key, _) in &group.pairs {
            self.expire(now, key);
        }
        if group.only_if_absent && group.pairs.iter().any(|(key, _)| self.objects.contains_key(key)) {
            return false;
        }
        for (key, value) in group.pairs {
            self.version += 1;
            let object = MapObject {
                value,
                flags: 0,
                expiry: None,
                cas: self.version,
                attributes: Attributes::default(),
                fetched: false,
                accessed_ms: now.unix_ms.0,
            };
            self.objects.insert(key, object);
        }
        true
    }

    fn handle_keyspace(&mut self, now: Now, request: KeyspaceRequest) -> KeyspaceReply {
        let expired: Vec<_> = self.objects.keys().cloned().collect();
        for key in &expired {
            self.expire(now, key);
        }
        match request {
            KeyspaceRequest::Count => KeyspaceReply::Count(self.objects.len() as u64),
            KeyspaceRequest::Flush { at, .. } => {
                self.flush_at = Some(at.unwrap_or(now.unix_ms));
                self.apply_flush(now);
                KeyspaceReply::Flushed
            }
            KeyspaceRequest::Scan { cursor, count } => {
                let start = usize::try_from(cursor).unwrap_or(usize::MAX);
                let scanned = |(key, object): (&Vec<u8>, &MapObject)| ScannedKey {
                    key: key.clone(),
                    value_bytes: object.value.len(),
                    expiry: object.expiry,
                };
                let keys: Vec<_> = self.objects.iter().skip(start).take(count).map(scanned).collect();
                let end = start.saturating_add(keys.len());
                let next = if end >= self.objects.len() { 0 } else { end as u64 };
                KeyspaceReply::Scanned { next, keys }
            }
            KeyspaceRequest::CountSlot { slot } => {
                let in_slot = |key: &&Vec<u8>| Slot::of_key(key).number() == slot;
                KeyspaceReply::Count(self.objects.keys().filter(in_slot).count() as u64)
            }
            KeyspaceRequest::ListSlot { cursor, count } => {
                let slot = cursor_slot(cursor);
                let before = cursor - slot.map_or(0, cursor_of);
                let in_slot = self.objects.iter().filter(|(key, _)| Some(Slot::of_key(key)) == slot);
                let mut scanned = in_slot.skip(before as usize).map(|(key, object)| ScannedKey {
                    key: key.clone(),
                    value_bytes: object.value.len(),
                    expiry: object.expiry,
                });
                let keys: Vec<_> = scanned.by_ref().take(count).collect();
                let next = if scanned.next().is_some() { cursor + keys.len() as u64 } else { 0 };
                KeyspaceReply::Scanned { next, keys }
            }
            KeyspaceRequest::Own(request) => self.handle_keyspace(now, *request),
            KeyspaceRequest::RandomKey => KeyspaceReply::RandomKey(self.objects.keys().next().cloned()),
            KeyspaceRequest::Stats => {
                let stored = |(key, object): (&Vec<u8>, &MapObject)| (key.len() + object.value.len()) as u64;
                let totals = StoreTotals {
                    objects: self.objects.len() as u64,
                    bytes_stored: self.objects.iter().map(stored).sum(),
                    stored_total: self.stored_total,
                    ..StoreTotals::default()
                };
                let met_expired_total = self.met_expired_total;
                KeyspaceReply::Stats(Box::new(StoreStats { totals, met_expired_total, ..StoreStats::default() }))
            }
        }
    }

    /// Forgets the object if its time is over, and says whether it was.
    fn expire(&mut self, now: Now, key: &[u8]) -> bool {
        let gone = |object: &MapObject| object.expiry.is_some_and(|expiry| expiry <= now.unix_ms);
        let is_over = self.objects.get(key).is_some_and(gone);
        if is_over {
            self.objects.remove(key);
        }
        is_over
    }

    fn apply_flush(&mut self, now: Now) {
        if self.flush_at.is_some_and(|at| at <= now.unix_ms) {
            self.flush_at = None;
            self.objects.clear();
        }
    }
}
