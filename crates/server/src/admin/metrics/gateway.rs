//! What gateways report: of their engines, and of the nodes as they see them.

use shorttail_wire::control::{GatewayStatus, NodeSeen, StoreTotals, TenureState};

use super::text::{Kind, Text, seconds};

/// Metrics of these gateways, told apart by the label `gateway`; those of nodes as they see them also by `node`. Of
/// silent ones it is told only that they do not serve.
pub fn put(text: &mut Text, gateways: &[(u16, GatewayStatus)], silent: &[u16]) {
    let gateways: Vec<(String, &GatewayStatus)> =
        gateways.iter().map(|(id, status)| (id.to_string(), status)).collect();
    let mut family = text.family("gateway_serving", Kind::Gauge, "1 while a gateway serves clients.");
    for (id, status) in &gateways {
        family.sample(&[("gateway", id)], u64::from(status.serving));
    }
    for id in silent {
        family.sample(&[("gateway", &id.to_string())], 0);
    }
    for (name, help, value) in COUNTERS {
        let mut family = text.family(name, Kind::Counter, help);
        for (id, status) in &gateways {
            family.sample(&[("gateway", id)], value(&status.totals));
        }
    }
    put_tenures(text, &gateways);
    put_nodes(text, &gateways);
}

fn put_tenures(text: &mut Text, gateways: &[(String, &GatewayStatus)]) {
    let mut family = text.family("gateway_tenures", Kind::Gauge, "Tenures of a gateway, by how far it is with them.");
    for (id, status) in gateways {
        for state in TenureState::ALL {
            let count = status.standings.iter().filter(|standing| standing.state == state).count();
            family.sample(&[("gateway", id), ("state", state.name())], count);
        }
    }
    let mut family = text.family("gateway_epoch", Kind::Gauge, "The highest epoch of a gateway's tenures; 0: none.");
    for (id, status) in gateways {
        let epochs = status.standings.iter().map(|standing| standing.epoch.0);
        family.sample(&[("gateway", id)], epochs.max().unwrap_or(0));
    }
}

type Counter = (&'static str, &'static str, fn(&StoreTotals) -> u64);

const COUNTERS: [Counter; 16] = [
    ("gateway_stored_total", "Objects ever stored.", |totals| totals.stored_total),
    ("gateway_stores_refused_total", "Stores and deletes that found no memory.", |totals| totals.stores_refused_total),
    ("gateway_evicted_total", "Objects that made room for others.", |totals| totals.evicted_total),
    ("gateway_expired_total", "Objects whose time was over.", |totals| totals.expired_total),
    ("gateway_appends_put_total", "Appends put into memory shared with a node instead of being sent.", |totals| {
        totals.appends_put_total
    }),
    ("gateway_near_reads_total", "Reads of a node's memory that did not ask the node.", |totals| {
        totals.near_reads_total
    }),
    ("gateway_degraded_reads_total", "Reads answered by decoding.", |totals| totals.degraded_reads_total),
    (
        "gateway_hedges_sent_total",
        "Requests sent beside one that was late, each for a token of the budget.",
        |totals| totals.hedges_sent_total,
    ),
    (
        "gateway_hedges_won_total",
        "Reads and records of writes that a second way completed first, with a token or without.",
        |totals| totals.hedges_won_total,
    ),
    ("gateway_hedge_budget_exhausted_total", "Hedges that were wanted when the budget had none left.", |totals| {
        totals.hedge_budget_exhausted_total
    }),
    ("gateway_messages_damaged_total", "Messages of nodes and other gateways that were hurt on their way.", |totals| {
        totals.messages_damaged_total
    }),
    ("gateway_late_bound_reads_total", "Reads that asked for more than they needed.", |totals| totals.late_bound_total),
    ("gateway_cancelled_requests_total", "Requests to nodes that lost a race.", |totals| totals.cancelled_total),
    ("gateway_redirected_writes_total", "Writes placed elsewhere: their node was slow or down.", |totals| {
        totals.redirected_writes_total
    }),
    ("gateway_slices_judged_total", "Timeslices that the request monitor judged.", |totals| totals.slices_judged_total),
    ("gateway_renewals_failed_total", "Renewals of an owner's promises that nodes did not grant.", |totals| {
        totals.renewals_failed_total
    }),
];

fn put_nodes<'a>(text: &mut Text, gateways: &[(String, &'a GatewayStatus)]) {
    let of_gateway = |(gateway, status): &(String, &'a GatewayStatus)| {
        let gateway = gateway.clone();
        status.nodes.iter().map(move |node| (gateway.clone(), node.id.to_string(), node))
    };
    let seen: Vec<(String, String, &NodeSeen)> = gateways.iter().flat_map(of_gateway).collect();
    for (name, kind, help, value) in OF_NODES {
        let mut family = text.family(name, kind, help);
        for (gateway, id, node) in &seen {
            family.sample(&[("gateway", gateway), ("node", id)], value(node));
        }
    }
    let mut family =
        text.family("node_latency_seconds", Kind::Histogram, "Latency of a node's answers to a gateway, by operation.");
    for (gateway, id, node) in &seen {
        for (operation, histogram) in [("read", &node.read_latency), ("write", &node.write_latency)] {
            family.histogram(&[("gateway", gateway), ("node", id), ("operation", operation)], histogram);
        }
    }
}

type OfNode = (&'static str, Kind, &'static str, fn(&NodeSeen) -> String);

const OF_NODES: [OfNode; 5] = [
    ("node_reached", Kind::Gauge, "1 while a gateway reaches a node.", |node| u64::from(node.connected).to_string()),
    ("node_fail_slow", Kind::Gauge, "1 while a gateway goes round a node that is abnormally slow.", |node| {
        u64::from(node.fail_slow).to_string()
    }),
    ("node_fail_slow_seconds_total", Kind::Counter, "How long a gateway found a node abnormally slow.", |node| {
        seconds(node.flagged_us)
    }),
    ("node_redirects_total", Kind::Counter, "Writes placed on a node instead of a slow or dead one.", |node| {
        node.redirect_count.to_string()
    }),
    ("node_requests_in_flight", Kind::Gauge, "Requests that a node has not answered.", |node| {
        node.requests_in_flight.to_string()
    }),
];
