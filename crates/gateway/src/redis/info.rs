//! INFO: the gateway and its store in Redis' sections and field names, as monitoring tools expect them.
//!
//! Must not know: how the numbers are counted.

use std::fmt::Write;

use shorttail_units::Now;

use crate::request::StoreStats;
use crate::session::Shared;

/// The version of Redis whose behaviour clients may rely on.
pub const REDIS_VERSION: &str = "7.0.15";

const SECTION_NAMES: [&str; 8] =
    ["server", "clients", "memory", "persistence", "stats", "replication", "cluster", "keyspace"];

/// Those that tell something of the store beside other things, and those that tell nothing else.
const PARTLY_OF_STORE: [&str; 2] = ["stats", "replication"];
const OF_STORE: [&str; 2] = ["memory", "keyspace"];

/// Which sections a client wants, in the order in which they are told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sections([bool; SECTION_NAMES.len()]);

impl Sections {
    /// The sections named; all of them if none is. Unknown names add nothing.
    pub fn named<'a>(names: impl ExactSizeIterator<Item = &'a [u8]>) -> Self {
        let mut wanted = [names.len() == 0; SECTION_NAMES.len()];
        for name in names {
            let all = ["all", "default", "everything"].iter().any(|word| name.eq_ignore_ascii_case(word.as_bytes()));
            for (want, section) in wanted.iter_mut().zip(SECTION_NAMES) {
                *want |= all || name.eq_ignore_ascii_case(section.as_bytes());
            }
        }
        Sections(wanted)
    }

    /// Is the store to be asked?
    pub fn need_store(&self) -> bool {
        self.wanted().any(|section| OF_STORE.contains(&section) || PARTLY_OF_STORE.contains(&section))
    }

    /// Is there something to tell without it?
    pub fn need_more_than_store(&self) -> bool {
        self.wanted().any(|section| !OF_STORE.contains(&section))
    }

    fn wanted(&self) -> impl Iterator<Item = &'static str> {
        SECTION_NAMES.into_iter().zip(self.0).filter_map(|(section, is_wanted)| is_wanted.then_some(section))
    }
}

/// The text of the wanted sections. Without an answer of the store its numbers are left out, and sections that would be
/// empty: Redis answers whatever is the matter, and clients take an error for a server that is not ready.
pub fn render(sections: &Sections, stats: Option<&StoreStats>, now: Now, shared: &Shared) -> String {
    let mut text = String::new();
    for section in sections.wanted().filter(|section| stats.is_some() || !OF_STORE.contains(section)) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let mut fields = Fields { text: &mut text };
        match (section, stats) {
            ("server", _) => server(&mut fields, now, shared),
            ("clients", _) => clients(&mut fields, shared),
            ("memory", Some(stats)) => memory(&mut fields, stats, shared),
            ("persistence", _) => persistence(&mut fields),
            ("stats", stats) => counters(&mut fields, stats, shared),
            ("replication", stats) => replication(&mut fields, stats, shared),
            ("cluster", _) => {
                fields
                    .title("Cluster")
                    .field("cluster_enabled", u8::from(shared.settings.redis_cluster.sends_clients()));
            }
            ("keyspace", Some(stats)) => keyspace(&mut fields, stats),
            _ => {}
        }
    }
    text
}

struct Fields<'a> {
    text: &'a mut String,
}

impl Fields<'_> {
    fn title(&mut self, name: &str) -> &mut Self {
        self.text.push_str("# ");
        self.text.push_str(name);
        self.text.push_str("\r\n");
        self
    }

    fn field(&mut self, name: &str, value: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{name}:{value}\r\n");
    }
}

fn server(fields: &mut Fields<'_>, now: Now, shared: &Shared) {
    let settings = &shared.settings;
    let uptime_s = now.mono_us.saturating_sub(settings.started_us) / 1_000_000;
    fields.title("Server").field("redis_version", REDIS_VERSION);
    fields.field("shorttail_version", env!("CARGO_PKG_VERSION"));
    fields.field("redis_mode", if settings.redis_cluster.sends_clients() { "cluster" } else { "standalone" });
    fields.field("os", std::env::consts::OS);
    fields.field("arch_bits", usize::BITS);
    fields.field("process_id", settings.process_id);
    fields.field("tcp_port", settings.redis_port);
    fields.field("server_time_usec", now.unix_ms.0.saturating_mul(1000));
    fields.field("uptime_in_seconds", uptime_s);
    fields.field("uptime_in_days", uptime_s / 86_400);
    fields.field("io_threads_active", u8::from(settings.thread_count > 1));
}

fn clients(fields: &mut Fields<'_>, shared: &Shared) {
    fields.title("Clients").field("connected_clients", shared.counters.connections_current);
    fields.field("maxclients", shared.settings.connection_count_max);
    fields.field("blocked_clients", 0);
}

fn memory(fields: &mut Fields<'_>, stats: &StoreStats, shared: &Shared) {
    let policy = if shared.settings.evict_when_full { "allkeys-lru" } else { "noeviction" };
    fields.title("Memory").field("used_memory", stats.bytes_used);
    fields.field("used_memory_human", human(stats.bytes_used));
    fields.field("used_memory_dataset", stats.totals.bytes_stored);
    fields.field("maxmemory", stats.bytes_limit);
    fields.field("maxmemory_human", human(stats.bytes_limit));
    fields.field("maxmemory_policy", policy);
}

/// Nothing is written to disk; fields that tools look for say so.
fn persistence(fields: &mut Fields<'_>) {
    fields.title("Persistence").field("loading", 0);
    fields.field("rdb_bgsave_in_progress", 0);
    fields.field("aof_enabled", 0);
    fields.field("aof_rewrite_in_progress", 0);
}

fn counters(fields: &mut Fields<'_>, stats: Option<&StoreStats>, shared: &Shared) {
    let counters = &shared.counted();
    fields.title("Stats").field("total_connections_received", counters.connections_total);
    fields.field("total_commands_processed", counters.commands_total);
    fields.field("total_net_input_bytes", counters.bytes_read);
    fields.field("total_net_output_bytes", counters.bytes_written);
    fields.field("rejected_connections", counters.connections_rejected);
    if let Some(stats) = stats {
        fields.field("expired_keys", stats.totals.expired_total);
        fields.field("evicted_keys", stats.totals.evicted_total);
    }
    fields.field("keyspace_hits", counters.get_hits);
    fields.field("keyspace_misses", counters.get_misses);
    if let Some(stats) = stats {
        fields.field("degraded_reads", stats.totals.degraded_reads_total);
    }
}

/// Parity takes the place of replicas: there are none, and WAIT tells the holders.
fn replication(fields: &mut Fields<'_>, stats: Option<&StoreStats>, shared: &Shared) {
    fields.title("Replication").field("role", "master");
    fields.field("connected_slaves", 0);
    fields.field("erasure_code", shared.settings.code);
    if let Some(stats) = stats {
        fields.field("nodes_alive", stats.nodes_alive);
        fields.field("nodes_total", stats.nodes_total);
    }
}

fn keyspace(fields: &mut Fields<'_>, stats: &StoreStats) {
    fields.title("Keyspace");
    if stats.totals.objects > 0 {
        fields.field("db0", format_args!("keys={},expires=0,avg_ttl=0", stats.totals.objects));
    }
}

/// Bytes with a unit, two decimals.
fn human(bytes: u64) -> String {
    let units = [("G", 1u64 << 30), ("M", 1 << 20), ("K", 1 << 10)];
    match units.into_iter().find(|(_, size)| bytes >= *size) {
        Some((unit, size)) => format!("{:.2}{unit}", bytes as f64 / size as f64),
        None => format!("{bytes}B"),
    }
}
