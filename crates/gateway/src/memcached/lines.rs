//! From a request line to commands: what a session does with each line that it understands.

use shorttail_units::Now;
use shorttail_wire::memcached::{MetaFlags, MetaKey, Refusal, Request, StoreLine, StoreVerb, next_token, parse_line};

use super::VERSION;
use super::arithmetic::Arithmetic;
use super::command::MemcachedCommand;
use super::delete::{Delete, DeleteReason};
use super::get::Get;
use super::key::Key;
use super::meta_arithmetic::MetaArithmetic;
use super::meta_debug::MetaDebug;
use super::meta_delete::MetaDelete;
use super::meta_get::MetaGet;
use super::session::{KeysLeft, MemcachedSession, Phase, Step};
use super::store::{Store, StoreReply, object_bytes};
use super::touch::Touch;
use crate::in_flight::{Fingerprint, Kind};
use crate::session::{RequestSink, Shared};

/// The command of an `mg`.
pub(super) fn meta_get(key: &MetaKey<'_>, flags: MetaFlags, exclusive: bool) -> MemcachedCommand {
    MemcachedCommand::MetaGet(Box::new(MetaGet {
        key: Key::new(key.bytes()),
        flags,
        exclusive,
        looked: false,
        takes_large: false,
    }))
}

impl MemcachedSession {
    /// Handles one whole line. Blocked: the line must be handled again later; nothing of it was done.
    pub(super) fn handle_line(
        &mut self,
        now: Now,
        shared: &mut Shared,
        line: &[u8],
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) -> Step {
        self.mark(now);
        let step = match parse_line(line) {
            Ok(request) => self.handle_request(now, shared, line, request, sink),
            Err(refusal) => {
                self.refuse(refusal);
                Step::Consumed(line.len())
            }
        };
        if matches!(step, Step::Consumed(_)) {
            shared.counters.commands_total += 1;
            self.line_number += 1;
        }
        step
    }

    fn refuse(&mut self, refusal: Refusal) {
        if refusal.close {
            self.phase = Phase::Closed;
            return;
        }
        if !refusal.quiet {
            self.say(refusal.line);
        }
        if refusal.skip_bytes > 0 {
            self.phase = Phase::Skip { bytes: refusal.skip_bytes };
        }
    }

    fn handle_request(
        &mut self,
        now: Now,
        shared: &mut Shared,
        line: &[u8],
        request: Request<'_>,
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) -> Step {
        let done = match request {
            Request::Get { with_cas, exptime, keys, long_key_at } => {
                let keys_bytes = long_key_at.unwrap_or(keys.len());
                let left = KeysLeft { with_cas, exptime, keys_bytes, end_bytes: 0, is_cut: long_key_at.is_some() };
                return self.get(shared, line, keys, left, sink);
            }
            Request::Store(store) => self.store(shared, &store, sink),
            Request::MetaSet { key, value_bytes, flags } => self.meta_set(shared, &key, value_bytes, flags, sink),
            Request::Delete { key, noreply } => {
                let done = self.give(key, Kind::Write, sink, |key| {
                    MemcachedCommand::Delete(Delete { key, noreply, reason: DeleteReason::Asked })
                });
                if done {
                    shared.counters.prefixes.count_delete(key, shared.settings.prefix_delimiter);
                }
                done
            }
            Request::Arithmetic { key, increment, delta, noreply } => self.give(key, Kind::Write, sink, |key| {
                MemcachedCommand::Arithmetic(Arithmetic { key, increment, delta, noreply })
            }),
            Request::Touch { key, exptime, noreply } => {
                self.give(key, Kind::Write, sink, |key| MemcachedCommand::Touch(Touch { key, exptime, noreply }))
            }
            Request::MetaGet { key, flags } if !flags.opaque_fits() => self.meta_get_refused(&key, flags, sink),
            Request::MetaGet { key, flags } => {
                let kind = if MetaGet::may_change(&flags) { Kind::ReadThenWrite } else { Kind::Read };
                self.give(key.bytes(), kind, sink, |_| meta_get(&key, flags, false))
            }
            Request::MetaDelete { key, flags } => self.give(key.bytes(), Kind::Write, sink, |key| {
                MemcachedCommand::MetaDelete(Box::new(MetaDelete { key, flags }))
            }),
            Request::MetaArithmetic { key, flags } => self.give(key.bytes(), Kind::Write, sink, |key| {
                MemcachedCommand::MetaArithmetic(Box::new(MetaArithmetic { key, flags }))
            }),
            Request::MetaDebug { key } => {
                self.give(key.bytes(), Kind::Read, sink, |key| MemcachedCommand::MetaDebug(Box::new(MetaDebug { key })))
            }
            Request::MetaNoop => self.said("MN"),
            Request::Version => self.said(&format!("VERSION {VERSION}")),
            Request::Quit => {
                self.phase = Phase::Closed;
                true
            }
            Request::Stats { arguments } => self.stats(now, shared, arguments, sink),
            Request::Admin { verb, arguments, noreply } => self.admin(now, shared, verb, arguments, noreply, sink),
        };
        if done { Step::Consumed(line.len()) } else { Step::Blocked }
    }

    fn said(&mut self, line: &str) -> bool {
        self.say(line);
        true
    }

    /// Gives the engine the command that `build` makes, unless an earlier command on the key must be answered first.
    fn give(
        &mut self,
        key: &[u8],
        kind: Kind,
        sink: &mut impl RequestSink<MemcachedCommand>,
        build: impl FnOnce(Key) -> MemcachedCommand,
    ) -> bool {
        let fingerprint = Fingerprint::new(key, kind);
        if self.in_flight.blocks(fingerprint) {
            return false;
        }
        self.issue(build(Key::new(key)), fingerprint, sink);
        true
    }

    fn get(
        &mut self,
        shared: &mut Shared,
        line: &[u8],
        keys: &[u8],
        left: KeysLeft,
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) -> Step {
        let (first, rest) = next_token(keys).expect("a get names a key");
        if next_token(rest).is_none() {
            let is_given = self.get_key(shared, first, left, true, sink);
            return if is_given { Step::Consumed(line.len()) } else { Step::Blocked };
        }
        if left.is_cut {
            // The keys have the number of the line that follows, see `keys`.
            self.say_instead(Refusal::LONG_KEY_OF_GET, self.line_number + 1);
        }
        let line_end_bytes = if line.ends_with(b"\r\n") { 2 } else { 1 };
        let end_bytes = keys.len() - left.keys_bytes + line_end_bytes;
        self.phase = Phase::Keys(KeysLeft { end_bytes, ..left });
        Step::Consumed(line.len() - keys.len() - line_end_bytes)
    }

    fn get_key(
        &mut self,
        shared: &mut Shared,
        key: &[u8],
        line: KeysLeft,
        last: bool,
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) -> bool {
        let KeysLeft { with_cas, exptime, .. } = line;
        let kind = if exptime.is_some() { Kind::Write } else { Kind::Read };
        let done = self.give(key, kind, sink, |key| {
            MemcachedCommand::Get(Get { key, with_cas, exptime, last, takes_large: false })
        });
        if done {
            shared.counters.prefixes.count_get(key, shared.settings.prefix_delimiter);
        }
        done
    }

    /// Asks for the next key of a `get` line.
    pub(super) fn keys(
        &mut self,
        shared: &mut Shared,
        left: KeysLeft,
        input: &[u8],
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) -> Step {
        // The caller keeps what is not consumed, so the rest of the line is still there.
        let Some(keys) = input.get(..left.keys_bytes) else { return Step::Short };
        let next = next_token(keys).filter(|_| left.is_cut || !self.current_get_failed());
        let Some((key, rest)) = next else {
            self.phase = Phase::Line;
            self.line_number += 1;
            return Step::Consumed(left.keys_bytes + left.end_bytes);
        };
        let last = next_token(rest).is_none();
        if !self.get_key(shared, key, left, last, sink) {
            return Step::Blocked;
        }
        self.phase = Phase::Keys(KeysLeft { keys_bytes: rest.len(), ..left });
        Step::Consumed(keys.len() - rest.len())
    }

    /// An `mg` whose opaque is too long: an error, but the object counts as read.
    fn meta_get_refused(
        &mut self,
        key: &MetaKey<'_>,
        flags: MetaFlags,
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) -> bool {
        if self.in_flight.blocks(Fingerprint::new(key.bytes(), Kind::Read)) {
            return false;
        }
        self.say_instead(Refusal::LONG_OPAQUE, self.line_number);
        self.give(key.bytes(), Kind::Read, sink, |_| meta_get(key, flags, false))
    }

    fn store(
        &mut self,
        shared: &mut Shared,
        line: &StoreLine<'_>,
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) -> bool {
        let store = Store {
            key: Key::new(line.key),
            mode: line.verb,
            value: Vec::new(),
            flags: line.flags,
            exptime: line.exptime,
            compare: line.compare,
            object_bytes_max: shared.settings.value_bytes_max,
            reply: StoreReply::Text { noreply: line.noreply },
        };
        // Only a `set` that fails takes the old value with it.
        self.receive(shared, store, line.value_bytes, line.verb == StoreVerb::Set, line.noreply, sink)
    }

    fn meta_set(
        &mut self,
        shared: &mut Shared,
        key: &MetaKey<'_>,
        value_bytes: usize,
        flags: MetaFlags,
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) -> bool {
        let mode = match flags.mode() {
            b'E' => StoreVerb::Add,
            b'A' => StoreVerb::Append,
            b'P' => StoreVerb::Prepend,
            _ if flags.compare().is_some() => StoreVerb::Cas,
            b'R' => StoreVerb::Replace,
            _ => StoreVerb::Set,
        };
        let store = Store {
            key: Key::new(key.bytes()),
            mode,
            value: Vec::new(),
            flags: flags.client_flags(),
            exptime: flags.ttl_exptime().unwrap_or(0),
            compare: flags.compare(),
            object_bytes_max: shared.settings.value_bytes_max,
            reply: StoreReply::Meta(Box::new(flags)),
        };
        self.receive(shared, store, value_bytes, true, false, sink)
    }

    /// Begins to receive a value, or refuses it for its size and skips it.
    fn receive(
        &mut self,
        shared: &mut Shared,
        store: Store,
        value_bytes: usize,
        removes_old: bool,
        noreply: bool,
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) -> bool {
        let key = store.key.bytes();
        if object_bytes(key.len(), store.flags, value_bytes) <= store.object_bytes_max {
            // The value gets its memory when its bytes come, not when they are announced.
            self.phase = Phase::Value { store, value_bytes };
            return true;
        }
        if removes_old {
            let reason = DeleteReason::ValueTooLarge;
            let build = |key| MemcachedCommand::Delete(Delete { key, noreply, reason });
            if !self.give(key, Kind::Write, sink, build) {
                return false;
            }
        } else {
            shared.counters.store_too_large += 1;
            if !noreply {
                self.say("SERVER_ERROR object too large for cache");
            }
        }
        self.phase = Phase::Skip { bytes: value_bytes + 2 };
        true
    }

    /// The value is there.
    pub(super) fn finish_store(
        &mut self,
        shared: &mut Shared,
        store: Store,
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) {
        if matches!(store.reply, StoreReply::Text { .. }) {
            shared.counters.prefixes.count_set(store.key.bytes(), shared.settings.prefix_delimiter);
        }
        let fingerprint = Fingerprint::new(store.key.bytes(), Kind::Write);
        self.issue(MemcachedCommand::Store(store), fingerprint, sink);
        self.line_number += 1;
    }
}
