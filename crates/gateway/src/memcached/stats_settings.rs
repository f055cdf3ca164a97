//! `stats settings` and `stats conns`.

use shorttail_units::Now;

use super::limits::LINE_BYTES_MAX;
use super::stats::StatLines;
use crate::roster::ClientProtocol;
use crate::session::Shared;

fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

/// memcached's names; what has no meaning here has the value that says so, or memcached's default.
pub(super) fn settings(shared: &Shared) -> Vec<u8> {
    let settings = &shared.settings;
    let mut stats = StatLines::default();
    stats.add("maxbytes", settings.memory_limit_bytes);
    stats.add("maxconns", settings.connection_count_max);
    stats.add("tcpport", settings.memcached_port);
    stats.add("udpport", 0);
    stats.add("inter", if settings.listen.is_empty() { "NULL" } else { &settings.listen });
    stats.add("verbosity", settings.verbosity);
    stats.add("oldest", 0);
    stats.add("evictions", if settings.evict_when_full { "on" } else { "off" });
    stats.add("domain_socket", settings.unix_socket.as_deref().unwrap_or("NULL"));
    stats.add("umask", 700);
    stats.add("shutdown_command", yes_no(settings.shutdown_enabled));
    stats.add("growth_factor", "1.25");
    stats.add("chunk_size", 48);
    stats.add("num_threads", settings.thread_count);
    stats.add("num_threads_per_udp", settings.thread_count);
    stats.add("stat_key_prefix", char::from(settings.prefix_delimiter));
    stats.add("detail_enabled", yes_no(shared.counters.prefixes.enabled));
    stats.add("reqs_per_event", settings.pipeline_count_max);
    stats.add("cas_enabled", yes_no(!settings.cas_disabled));
    stats.add("tcp_backlog", settings.backlog);
    stats.add("binding_protocol", "ascii");
    stats.add("auth_enabled_sasl", "no");
    stats.add("auth_enabled_ascii", yes_no(!settings.credentials.is_empty()));
    stats.add("item_size_max", settings.value_bytes_max);
    stats.add("maxconns_fast", "yes");
    stats.add("hashpower_init", 0);
    stats.add("slab_reassign", "no");
    stats.add("slab_automove", 0);
    stats.add("slab_automove_ratio", "0.80");
    stats.add("slab_automove_window", 30);
    stats.add("slab_chunk_max", settings.value_bytes_max);
    stats.add("lru_crawler", "no");
    stats.add("lru_crawler_sleep", 100);
    stats.add("lru_crawler_tocrawl", 0);
    stats.add("tail_repair_time", 0);
    stats.add("flush_enabled", yes_no(!settings.flush_disabled));
    stats.add("dump_enabled", "yes");
    stats.add("hash_algorithm", "xxh3");
    stats.add("lru_maintainer_thread", "no");
    stats.add("lru_segmented", "no");
    stats.add("temp_lru", "no");
    stats.add("temporary_ttl", 61);
    stats.add("idle_timeout", settings.idle_timeout_s);
    stats.add("read_buf_mem_limit", 0);
    stats.add("track_sizes", "no");
    stats.add("inline_ascii_response", "no");
    stats.add("line_length_max", LINE_BYTES_MAX);
    stats.add("ssl_enabled", "no");
    stats.add("client_flags_size", size_of::<u32>());
    settings.reported.iter().for_each(|(name, value)| stats.replace(name, value));
    stats.end()
}

/// Where the gateway listens, and the memcached clients of all its cores; `asking` is one of them.
pub(super) fn connections(now: Now, shared: &Shared, asking: Option<u64>) -> Vec<u8> {
    let settings = &shared.settings;
    let mut stats = StatLines::default();
    let listen = match (&settings.unix_socket, settings.listen.as_str()) {
        (Some(path), _) => format!("unix:{path}"),
        (None, "") => format!("tcp:0.0.0.0:{}", settings.memcached_port),
        (None, address) => format!("tcp:{address}:{}", settings.memcached_port),
    };
    stats.add("0:addr", &listen);
    stats.add("0:state", "conn_listening");
    stats.add("0:secs_since_last_cmd", now.mono_us.saturating_sub(settings.started_us) / 1_000_000);
    for member in shared.roster.of_protocol(ClientProtocol::Memcached) {
        let mut add = |name: &str, value: &str| stats.add(format_args!("{}:{name}", member.id), value);
        add("addr", if member.peer.is_empty() { "unknown" } else { &member.peer });
        add("listen_addr", if member.local.is_empty() { &listen } else { &member.local });
        // As in memcached: one waits for input unless it is being served.
        add("state", if asking == Some(member.id) { "conn_parse_cmd" } else { "conn_read" });
        add("secs_since_last_cmd", &member.idle_s(now).to_string());
    }
    stats.end()
}
