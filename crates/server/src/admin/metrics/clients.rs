//! What a gateway counts of its clients.

use shorttail_gateway::session::Counters;

use super::text::{Kind, Text, seconds};

/// Metrics of one gateway's clients.
pub fn put(text: &mut Text, id: u16, counters: &Counters) {
    let gateway = id.to_string();
    for (name, kind, help, value) in COUNTED {
        text.family(name, kind, help).sample(&[("gateway", &gateway)], value(counters));
    }
    let mut family = text.family("client_requests_total", Kind::Counter, "Requests of clients, by what came of them.");
    for (request, outcome, value) in REQUESTS {
        family.sample(&[("gateway", &gateway), ("request", request), ("outcome", outcome)], value(counters));
    }
    let mut family = text.family(
        "client_latency_seconds",
        Kind::Histogram,
        "From when a client's command was read until its reply went to the socket, by operation.",
    );
    for (operation, latency) in [("read", &counters.latencies.reads), ("write", &counters.latencies.writes)] {
        let labels = [("gateway", &*gateway), ("operation", operation)];
        family.buckets(&labels, latency.within(), latency.count(), latency.sum_us);
    }
    let mut family = text.family("process_cpu_seconds_total", Kind::Counter, "CPU time of the gateway's process.");
    for (mode, us) in [("user", counters.cpu_user_us), ("system", counters.cpu_system_us)] {
        family.sample(&[("gateway", &gateway), ("mode", mode)], seconds(us));
    }
}

type Counted = (&'static str, Kind, &'static str, fn(&Counters) -> u64);

const COUNTED: [Counted; 7] = [
    ("client_connections", Kind::Gauge, "Connections of clients now.", |counters| counters.connections_current),
    ("client_connections_total", Kind::Counter, "Connections of clients so far.", |counters| {
        counters.connections_total
    }),
    ("client_connections_rejected_total", Kind::Counter, "Connections beyond the maximum.", |counters| {
        counters.connections_rejected
    }),
    (
        "client_connections_late_total",
        Kind::Counter,
        "Connections closed as they hardly went on while others waited for room.",
        |counters| counters.late_kicks,
    ),
    ("client_received_bytes_total", Kind::Counter, "Bytes that clients sent.", |counters| counters.bytes_read),
    ("client_sent_bytes_total", Kind::Counter, "Bytes sent to clients.", |counters| counters.bytes_written),
    ("client_commands_total", Kind::Counter, "Commands of Redis clients.", |counters| counters.commands_total),
];

type Request = (&'static str, &'static str, fn(&Counters) -> u64);

const REQUESTS: [Request; 12] = [
    ("get", "hit", |counters| counters.get_hits),
    ("get", "miss", |counters| counters.get_misses),
    ("set", "any", |counters| counters.set_commands),
    ("touch", "hit", |counters| counters.touch_hits),
    ("touch", "miss", |counters| counters.touch_misses),
    ("delete", "hit", |counters| counters.delete_hits),
    ("delete", "miss", |counters| counters.delete_misses),
    ("incr", "hit", |counters| counters.incr_hits),
    ("incr", "miss", |counters| counters.incr_misses),
    ("cas", "hit", |counters| counters.cas_hits),
    ("cas", "miss", |counters| counters.cas_misses),
    ("cas", "other_version", |counters| counters.cas_badval),
];
