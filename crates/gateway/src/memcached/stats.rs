//! `stats` and its kin: what is asked of the engine for them, and the answers.

use std::fmt::{Display, Write as _};

use shorttail_units::Now;
use shorttail_wire::memcached::{Refusal, Tokens, exact_u32};

use super::command::MemcachedCommand;
use super::limits::{CACHEDUMP_KEY_COUNT_MAX, ITEM_OVERHEAD_BYTES};
use super::session::MemcachedSession;
use super::{VERSION, reply, stats_settings};
use crate::command::StoreError;
use crate::request::{KeyspaceReply, KeyspaceRequest, ScannedKey, StoreStats};
use crate::session::{Counters, RequestSink, Shared};

/// Slab classes that memcached could have.
const SLAB_CLASS_COUNT_MAX: u32 = 64;
/// The only class that there is.
const SLAB_CLASS: u32 = 1;

/// Why the engine was asked about all keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    Flush {
        noreply: bool,
    },
    General,
    Items,
    Slabs,
    /// How many keys may follow, and the lines so far.
    Cachedump {
        keys_left: usize,
        lines: Vec<u8>,
    },
}

/// What comes of the engine's answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// The reply to the client.
    Reply(Vec<u8>),
    Ask(Question, KeyspaceRequest),
}

/// Lines `STAT name value`.
#[derive(Debug, Default)]
pub(super) struct StatLines(String);

impl StatLines {
    pub fn add(&mut self, name: impl Display, value: impl Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "STAT {name} {value}\r\n");
    }

    /// Gives the line of that name another value; adds one if there is none.
    pub fn replace(&mut self, name: &str, value: &str) {
        let lines = self.0.split_inclusive("\r\n");
        let named = |line: &&str| line.strip_prefix("STAT ").is_some_and(|line| line.split(' ').next() == Some(name));
        self.0 = lines.filter(|line| !named(line)).collect();
        self.add(name, value);
    }

    pub fn end(mut self) -> Vec<u8> {
        self.0.push_str("END\r\n");
        self.0.into_bytes()
    }
}

impl Question {
    pub fn take_answer(self, now: Now, shared: &Shared, answer: Result<KeyspaceReply, StoreError>) -> Next {
        let mut bytes = Vec::new();
        match (self, answer) {
            (Question::Flush { noreply: true }, _) => {}
            (_, Err(error)) => reply::refusal(error, &mut bytes),
            (Question::Flush { .. }, Ok(_)) => reply::line("OK", &mut bytes),
            (Question::General, Ok(KeyspaceReply::Stats(stats))) => bytes = general(now, shared, &stats),
            (Question::Items, Ok(KeyspaceReply::Stats(stats))) => bytes = items(&stats),
            (Question::Slabs, Ok(KeyspaceReply::Stats(stats))) => bytes = slabs(&shared.counted(), &stats),
            (Question::Cachedump { keys_left, mut lines }, Ok(KeyspaceReply::Scanned { next, keys })) => {
                list_keys(&keys, &mut lines);
                // A step ends with the partitions of one owner.
                let keys_left = keys_left.saturating_sub(keys.len());
                if next != 0 && keys_left > 0 {
                    let request = KeyspaceRequest::Scan { cursor: next, count: keys_left };
                    return Next::Ask(Question::Cachedump { keys_left, lines }, request);
                }
                lines.extend_from_slice(b"END\r\n");
                bytes = lines;
            }
            (question, Ok(other)) => unreachable!("{question:?} was answered with {other:?}"),
        }
        Next::Reply(bytes)
    }
}

impl MemcachedSession {
    /// Runs `stats`; `false` if it must wait. Subcommands may be shortened, as in memcached.
    pub(super) fn stats(
        &mut self,
        now: Now,
        shared: &mut Shared,
        arguments: &[u8],
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) -> bool {
        let mut tokens = Tokens::new(arguments);
        let Some(subcommand) = tokens.next() else {
            return self.ask(Question::General, KeyspaceRequest::Stats, sink);
        };
        // What is counted must be what came before, so the answer waits for all of that.
        if self.replies.waiting_count() > 0 {
            return false;
        }
        let is = |name: &str| name.as_bytes().starts_with(subcommand);
        let answer = match subcommand {
            _ if is("reset") => {
                shared.counters.reset();
                shared.elsewhere.reset();
                b"RESET\r\n".to_vec()
            }
            _ if is("detail") => detail(shared, tokens.next()),
            _ if is("settings") => stats_settings::settings(shared),
            _ if is("cachedump") => match cachedump_count(tokens.next(), tokens.next()) {
                Ok(0) => b"END\r\n".to_vec(),
                Ok(count) => {
                    let question = Question::Cachedump { keys_left: count, lines: Vec::new() };
                    return self.ask(question, KeyspaceRequest::Scan { cursor: 0, count }, sink);
                }
                Err(line) => [line.as_bytes(), b"\r\n"].concat(),
            },
            _ if is("conns") => stats_settings::connections(now, shared, self.number()),
            b"items" => return self.ask(Question::Items, KeyspaceRequest::Stats, sink),
            b"slabs" => return self.ask(Question::Slabs, KeyspaceRequest::Stats, sink),
            b"sizes" => b"STAT sizes_status disabled\r\nEND\r\n".to_vec(),
            _ => b"ERROR\r\n".to_vec(),
        };
        self.replies.push(&answer);
        true
    }
}

fn detail(shared: &mut Shared, switch: Option<&[u8]>) -> Vec<u8> {
    let is = |name: &str| switch.is_some_and(|switch| name.as_bytes().starts_with(switch));
    if is("on") {
        shared.counters.prefixes.enabled = true;
    } else if is("off") {
        shared.counters.prefixes.enabled = false;
    } else if is("dump") {
        return shared.counted().prefixes.dump();
    } else {
        return b"CLIENT_ERROR usage: stats detail on|off|dump\r\n".to_vec();
    }
    b"OK\r\n".to_vec()
}

/// How many keys a `cachedump` is to list.
fn cachedump_count(class: Option<&[u8]>, limit: Option<&[u8]>) -> Result<usize, &'static str> {
    let (Some(class), Some(limit)) = (class, limit) else { return Err("CLIENT_ERROR bad command line") };
    let (Some(class), Some(limit)) = (exact_u32(class), exact_u32(limit)) else { return Err(Refusal::BAD_FORMAT) };
    if class >= SLAB_CLASS_COUNT_MAX {
        return Err("CLIENT_ERROR Illegal slab id");
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let limit = if limit == 0 { CACHEDUMP_KEY_COUNT_MAX } else { limit.min(CACHEDUMP_KEY_COUNT_MAX) };
    Ok(if class == SLAB_CLASS { limit } else { 0 })
}

fn list_keys(keys: &[ScannedKey], lines: &mut Vec<u8>) {
    for scanned in keys.iter().filter(|scanned| !reply::breaks_line(&scanned.key)) {
        lines.extend_from_slice(b"ITEM ");
        lines.extend_from_slice(&scanned.key);
        let expires_s = scanned.expiry.map_or(0, |expiry| expiry.seconds());
        lines.extend_from_slice(format!(" [{} b; {expires_s} s]\r\n", scanned.value_bytes).as_bytes());
    }
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// The general statistics: the names and the order of a memcached without LRU crawler and maintainer.
fn general(now: Now, shared: &Shared, store: &StoreStats) -> Vec<u8> {
    let (settings, counters) = (&shared.settings, &shared.counted());
    let mut stats = StatLines::default();
    stats.add("pid", settings.process_id);
    stats.add("uptime", now.mono_us.saturating_sub(settings.started_us) / 1_000_000);
    stats.add("time", now.unix_ms.seconds());
    stats.add("version", VERSION);
    stats.add("libevent", "none");
    stats.add("pointer_size", usize::BITS);
    stats.add("rusage_user", seconds(counters.cpu_user_us));
    stats.add("rusage_system", seconds(counters.cpu_system_us));
    stats.add("max_connections", settings.connection_count_max);
    stats.add("curr_connections", counters.connections_current);
    stats.add("total_connections", counters.connections_total);
    stats.add("rejected_connections", counters.connections_rejected);
    stats.add("connection_structures", counters.connections_current);
    let absent = ["response_obj_oom", "response_obj_count", "response_obj_bytes", "read_buf_count", "read_buf_bytes"];
    zeros(&mut stats, &absent);
    zeros(&mut stats, &["read_buf_bytes_free", "read_buf_oom", "reserved_fds"]);
    commands(&mut stats, counters, store);
    if settings.idle_timeout_s > 0 {
        stats.add("idle_kicks", counters.idle_kicks);
    }
    stats.add("bytes_read", counters.bytes_read);
    stats.add("bytes_written", counters.bytes_written);
    stats.add("limit_maxbytes", settings.memory_limit_bytes);
    stats.add("accepting_conns", 1);
    zeros(&mut stats, &["listen_disabled_num", "time_in_listen_disabled_us"]);
    stats.add("threads", settings.thread_count);
    stats.add("conn_yields", counters.connection_yields);
    zeros(&mut stats, &["hash_power_level", "hash_bytes", "hash_is_expanding"]);
    zeros(&mut stats, &["slab_reassign_rescues", "slab_reassign_chunk_rescues", "slab_reassign_inline_reclaim"]);
    zeros(&mut stats, &["slab_reassign_busy_items", "slab_reassign_busy_deletes", "slab_reassign_busy_nomem"]);
    stats.add("slab_reassign_last_busy_status", "none");
    zeros(&mut stats, &["slab_reassign_running", "slabs_moved", "malloc_fails"]);
    zeros(&mut stats, &["log_worker_dropped", "log_worker_written"]);
    zeros(&mut stats, &["log_watcher_skipped", "log_watcher_sent", "log_watchers"]);
    zeros(&mut stats, &["unexpected_napi_ids", "round_robin_fallback"]);
    stored(&mut stats, store);
    stats.end()
}

/// Statistics of machinery that does not exist here.
fn zeros(stats: &mut StatLines, names: &[&str]) {
    names.iter().for_each(|name| stats.add(name, 0));
}

fn commands(stats: &mut StatLines, counters: &Counters, store: &StoreStats) {
    stats.add("cmd_get", counters.get_commands);
    stats.add("cmd_set", counters.set_commands);
    stats.add("cmd_flush", counters.flush_commands);
    stats.add("cmd_touch", counters.touch_commands);
    stats.add("cmd_meta", counters.meta_commands);
    stats.add("get_hits", counters.get_hits);
    stats.add("get_misses", counters.get_misses);
    stats.add("get_expired", counters.get_expired + store.met_expired_total);
    stats.add("get_flushed", counters.get_flushed + store.met_flushed_total);
    stats.add("delete_misses", counters.delete_misses);
    stats.add("delete_hits", counters.delete_hits);
    stats.add("incr_misses", counters.incr_misses);
    stats.add("incr_hits", counters.incr_hits);
    stats.add("decr_misses", counters.decr_misses);
    stats.add("decr_hits", counters.decr_hits);
    stats.add("cas_misses", counters.cas_misses);
    stats.add("cas_hits", counters.cas_hits);
    stats.add("cas_badval", counters.cas_badval);
    stats.add("touch_hits", counters.touch_hits);
    stats.add("touch_misses", counters.touch_misses);
    stats.add("store_too_large", counters.store_too_large);
    stats.add("store_no_memory", counters.store_no_memory);
    stats.add("auth_cmds", counters.auth_commands);
    stats.add("auth_errors", counters.auth_errors);
}

fn stored(stats: &mut StatLines, store: &StoreStats) {
    stats.add("bytes", store.totals.bytes_stored);
    stats.add("curr_items", store.totals.objects);
    stats.add("total_items", store.totals.stored_total);
    zeros(stats, &["slab_global_page_pool", "expired_unfetched", "evicted_unfetched"]);
    stats.add("evictions", store.totals.evicted_total);
    stats.add("reclaimed", store.totals.expired_total);
    zeros(stats, &["crawler_reclaimed", "crawler_items_checked", "lrutail_reflocked"]);
}

/// What memcached would have asked its slabs for.
fn requested_bytes(store: &StoreStats) -> u64 {
    store.totals.bytes_stored + store.totals.objects * ITEM_OVERHEAD_BYTES as u64
}

fn items(store: &StoreStats) -> Vec<u8> {
    let mut stats = StatLines::default();
    if store.totals.objects > 0 {
        let mut add = |name: &str, value: u64| stats.add(format_args!("items:{SLAB_CLASS}:{name}"), value);
        add("number", store.totals.objects);
        add("age", 0);
        add("mem_requested", requested_bytes(store));
        add("evicted", store.totals.evicted_total);
        let zero = ["evicted_nonzero", "evicted_time", "outofmemory", "tailrepairs"];
        zero.into_iter().for_each(|name| add(name, 0));
        add("reclaimed", store.totals.expired_total);
        let zero = ["expired_unfetched", "evicted_unfetched", "crawler_reclaimed", "crawler_items_checked"];
        zero.into_iter().chain(["lrutail_reflocked"]).for_each(|name| add(name, 0));
    }
    stats.end()
}

fn slabs(counters: &Counters, store: &StoreStats) -> Vec<u8> {
    let mut stats = StatLines::default();
    let used = u64::from(store.totals.objects > 0);
    if used > 0 {
        let mut add = |name: &str, value: u64| stats.add(format_args!("{SLAB_CLASS}:{name}"), value);
        for (name, value) in [
            // memcached's chunks are larger than the objects in them, by less than eight bytes here.
            ("chunk_size", (requested_bytes(store) / store.totals.objects / 8 + 1) * 8),
            ("chunks_per_page", store.totals.objects),
            ("total_pages", 1),
            ("total_chunks", store.totals.objects),
            ("used_chunks", store.totals.objects),
            ("free_chunks", 0),
            ("free_chunks_end", 0),
            ("get_hits", counters.get_hits),
            ("cmd_set", counters.set_commands),
            ("delete_hits", counters.delete_hits),
            ("incr_hits", counters.incr_hits),
            ("decr_hits", counters.decr_hits),
            ("cas_hits", counters.cas_hits),
            ("cas_badval", counters.cas_badval),
            ("touch_hits", counters.touch_hits),
        ] {
            add(name, value);
        }
    }
    stats.add("active_slabs", used);
    // The nodes take their memory when they start, all at once.
    stats.add("total_malloced", store.bytes_limit);
    stats.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Settings;

    #[test]
    fn a_dump_goes_on_until_every_owner_was_asked_or_it_is_full() {
        let shared = Shared::new(Settings::default());
        let scanned = |next: u64, keys: &[&str]| {
            let key = |key: &&str| ScannedKey { key: key.as_bytes().to_vec(), value_bytes: 1, expiry: None };
            Ok(KeyspaceReply::Scanned { next, keys: keys.iter().map(key).collect() })
        };
        let mut question = Question::Cachedump { keys_left: 3, lines: Vec::new() };
        for (next, keys, keys_left) in [(5, &[][..], 3), (9, &["a", "b"], 1)] {
            let went_on = question.take_answer(Now::default(), &shared, scanned(next, keys));
            let Next::Ask(asked, request) = went_on else { panic!("an end after {keys:?}: {went_on:?}") };
            assert_eq!(request, KeyspaceRequest::Scan { cursor: next, count: keys_left });
            question = asked;
        }
        let lines = b"ITEM a [1 b; 0 s]\r\nITEM b [1 b; 0 s]\r\n".as_slice();
        let full = [lines, b"ITEM c [1 b; 0 s]\r\nEND\r\n"].concat();
        let ended = question.clone().take_answer(Now::default(), &shared, scanned(11, &["c"]));
        assert_eq!(ended, Next::Reply(full));
        let ended = question.take_answer(Now::default(), &shared, scanned(0, &[]));
        assert_eq!(ended, Next::Reply([lines, b"END\r\n"].concat()));
    }
}
