//! The cluster's status in the text format of Prometheus.
//!
//! Must not know: where the numbers come from.

mod clients;
mod gateway;
#[cfg(test)]
pub(crate) mod strict;
mod text;

use shorttail_gateway::session::Counters;
use shorttail_wire::control::{ClusterStatus, GatewayStatus, NodeStage, NodeState, NodeStatusEntry};

use text::{Kind, Text};

/// All metrics of a coordinator: of the cluster, its nodes, and what living gateways reported. One that stands by knows
/// nothing of that.
pub fn of_cluster(status: &ClusterStatus, gateways: &[(u16, GatewayStatus)]) -> String {
    let mut text = begun();
    text.gauge("coordinator_leads", "1 while this coordinator leads.", u64::from(status.coordinator.leading));
    text.gauge(
        "coordinator_metadata_usable",
        "1 while this coordinator can use the metadata store.",
        u64::from(status.coordinator.metadata_problem.is_none()),
    );
    if status.is_standby() {
        return text.into_string();
    }
    put_cluster(&mut text, status);
    put_nodes(&mut text, &status.nodes);
    let silent = status.gateways.iter().map(|gateway| gateway.id);
    let silent: Vec<u16> = silent.filter(|id| gateways.iter().all(|(other, _)| other != id)).collect();
    gateway::put(&mut text, gateways, &silent);
    text.into_string()
}

/// All metrics of one gateway: what it reports to the coordinator, and of its clients.
pub fn of_gateway(id: u16, status: &GatewayStatus, counters: &Counters) -> String {
    let mut text = begun();
    gateway::put(&mut text, &[(id, status.clone())], &[]);
    clients::put(&mut text, id, counters);
    text.into_string()
}

/// All metrics of a gateway that was not let in yet, and has no number: it does not serve.
pub fn of_stranger() -> String {
    let mut text = begun();
    text.gauge("gateway_serving", "1 while a gateway serves clients.", 0);
    text.into_string()
}

/// What all tell.
fn begun() -> Text {
    let mut text = Text::default();
    let mut family = text.family("build_info", Kind::Gauge, "1, of the version that runs.");
    family.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    text
}

/// What is so at present of what is stored, which gateways know.
fn put_stored(text: &mut Text, status: &ClusterStatus) {
    text.gauge("objects", "Objects stored.", status.objects);
    text.gauge("stored_bytes", "Key and value bytes of the objects stored.", status.bytes_stored);
    text.gauge("chunks_missing", "Chunks lost or on a node that is away.", status.repair.chunks_missing);
    text.gauge("stripes_stranded", "Stripes with a lost chunk that no node can take.", status.repair.stripes_stranded);
}

fn put_cluster(text: &mut Text, status: &ClusterStatus) {
    // Zeros would be read as an empty cluster that lacks nothing.
    if status.gateways.iter().any(|gateway| gateway.state.is_alive()) {
        put_stored(text, status);
    }
    text.gauge("problems", "Problems that the status tells.", status.problems.len());
    text.gauge("used_bytes", "Node memory in use, redundancy included.", status.bytes_used);
    text.gauge("limit_bytes", "Node memory of all live nodes.", status.bytes_limit);
    text.gauge("epoch", "The last epoch that was handed out.", status.epoch);
    text.gauge("partitions", "Partitions of the key space.", status.partitions);
    text.gauge("partitions_served", "Partitions whose owner serves them.", status.partitions_served);
    text.gauge(
        "partitions_lossy",
        "Partitions of which acknowledged writes may be gone, until that is acknowledged.",
        status.partitions_lossy,
    );
    text.counter("tenures_handed_over_total", "Tenures that ended in good order.", status.tenures_handed_over_total);
    text.counter("tenures_lost_total", "Tenures that ended without being handed over.", status.tenures_lost_total);
    text.gauge("nodes_expected", "Nodes the cluster is meant to have.", status.nodes_expected);
    text.counter("stores_refused_total", "Stores and deletes that found no memory.", status.stores_refused_total);
    text.counter("evicted_total", "Objects that made room for others.", status.evicted_total);
    text.counter("expired_total", "Objects whose time was over.", status.expired_total);
    text.counter("degraded_reads_total", "Reads answered by decoding.", status.degraded_reads_total);
    let repair = &status.repair;
    text.gauge(
        "stripe_chunks_lacking_max",
        "Chunks that some stripe may lack, lost or on a node that is away.",
        repair.lacking_of_stripe_max,
    );
    text.counter("chunks_rebuilt_total", "Chunks that repair rebuilt.", repair.chunks_rebuilt_total);
    text.counter("rebuilt_bytes_total", "Bytes of chunks that repair rebuilt.", repair.bytes_rebuilt_total);
    text.gauge("repair_bytes_per_second", "How fast repair goes.", repair.bytes_per_s);
    let moves = &status.moves;
    text.counter(
        "chunks_moved_total",
        "Chunks that moved between nodes, nothing being lost.",
        moves.chunks_moved_total,
    );
    text.counter("moved_bytes_total", "Bytes of chunks that moved.", moves.bytes_moved_total);
    text.gauge("move_bytes_per_second", "How fast chunks move.", moves.bytes_per_s);
}

fn put_nodes(text: &mut Text, nodes: &[NodeStatusEntry]) {
    let mut family = text.family("node_up", Kind::Gauge, "1 while a node's heartbeats arrive.");
    for node in nodes {
        family.sample(&[("node", &node.id.to_string())], u64::from(node.state == NodeState::Normal));
    }
    let mut family = text.family("node_state", Kind::Gauge, "1 of the state that a node is in, 0 of the others.");
    for node in nodes {
        for state in NodeState::ALL {
            let labels = [("node", &*node.id.to_string()), ("state", state.name())];
            family.sample(&labels, u64::from(node.state == state));
        }
    }
    let mut family =
        text.family("node_stage", Kind::Gauge, "1 of the stage that owners see a node in, 0 of the others.");
    for (node, at) in nodes.iter().filter_map(|node| Some((node, node.stage?))) {
        for stage in NodeStage::ALL {
            let labels = [("node", &*node.id.to_string()), ("stage", stage.name())];
            family.sample(&labels, u64::from(at == stage));
        }
    }
    for (name, kind, help, value) in OF_NODES {
        let mut family = text.family(name, kind, help);
        for node in nodes {
            family.sample(&[("node", &node.id.to_string())], value(node));
        }
    }
    let mut family = text.family("node_chaos_replies_total", Kind::Counter, "Replies that suffered on purpose.");
    for node in nodes {
        let (id, chaos) = (node.id.to_string(), &node.chaos);
        for (effect, count) in
            [("delayed", chaos.delayed_total), ("dropped", chaos.dropped_total), ("corrupted", chaos.corrupted_total)]
        {
            family.sample(&[("node", &id), ("effect", effect)], count);
        }
    }
}

type OfNode = (&'static str, Kind, &'static str, fn(&NodeStatusEntry) -> u64);

const OF_NODES: [OfNode; 11] = [
    ("node_rebuilt", Kind::Gauge, "1 while a node is dead or given up and all that it held is on others.", |node| {
        u64::from(node.rebuilt)
    }),
    ("node_memory_used_bytes", Kind::Gauge, "Memory of a node in use.", |node| node.memory_used_bytes),
    ("node_memory_limit_bytes", Kind::Gauge, "Memory budget of a node.", |node| node.memory_limit_bytes),
    ("node_chunks_open", Kind::Gauge, "Chunks of a node that take appends.", |node| node.chunks_open),
    ("node_chunks_sealed", Kind::Gauge, "Chunks of a node that are immutable.", |node| node.chunks_sealed),
    ("node_chunks_damaged", Kind::Gauge, "Chunks of a node that are known to be damaged.", |node| node.chunks_damaged),
    ("node_scrubbed_bytes_total", Kind::Counter, "What a node's scrubber looked at.", |node| node.scrubbed_bytes_total),
    ("node_corruptions_found_total", Kind::Counter, "Damaged chunks of a node.", |node| node.corruptions_found_total),
    (
        "node_corruptions_repaired_total",
        Kind::Counter,
        "Damaged chunks of a node that were rebuilt in place.",
        |node| node.corruptions_repaired_total,
    ),
    ("node_messages_damaged_total", Kind::Counter, "Messages to a node that were hurt on their way.", |node| {
        node.messages_damaged_total
    }),
    ("node_chaos_faults", Kind::Gauge, "Faults that a node has on purpose.", |node| node.chaos.faults.len() as u64),
];
