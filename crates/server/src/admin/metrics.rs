//! The cluster's status in the text format of Prometheus.

use std::fmt::Write;

use shorttail_wire::control::{ClusterStatus, NodeState};

/// All metrics of a status.
pub fn text(status: &ClusterStatus) -> String {
    let mut out = String::new();
    cluster_metrics(&mut out, status);
    node_metrics(&mut out, status);
    gateway_metrics(&mut out, status);
    out
}

fn cluster_metrics(out: &mut String, status: &ClusterStatus) {
    for (name, kind, help, value) in [
        ("objects", "gauge", "Objects stored.", status.objects),
        ("stored_bytes", "gauge", "Key and value bytes of the objects stored.", status.bytes_stored),
        ("used_bytes", "gauge", "Node memory in use, redundancy included.", status.bytes_used),
        ("limit_bytes", "gauge", "Node memory of all live nodes.", status.bytes_limit),
        ("evicted_total", "counter", "Objects that made room for others.", status.evicted_total),
        ("expired_total", "counter", "Objects whose time was over.", status.expired_total),
        ("degraded_reads_total", "counter", "Reads answered by decoding.", status.degraded_reads_total),
        ("epoch", "gauge", "The last epoch that was handed out.", u64::from(status.epoch)),
        ("nodes_expected", "gauge", "Nodes the cluster is meant to have.", u64::from(status.nodes_expected)),
    ] {
        describe(out, name, kind, help);
        line(out, name, "", value);
    }
}

fn node_metrics(out: &mut String, status: &ClusterStatus) {
    describe(out, "node_up", "gauge", "1 while a node's heartbeats arrive.");
    for node in &status.nodes {
        let labels = format!("{{node=\"{}\",state=\"{}\"}}", node.id, node.state.name());
        line(out, "node_up", &labels, u64::from(node.state == NodeState::Normal));
    }
    describe(out, "node_memory_used_bytes", "gauge", "Memory of a node in use.");
    for node in &status.nodes {
        line(out, "node_memory_used_bytes", &format!("{{node=\"{}\"}}", node.id), node.memory_used_bytes);
    }
    describe(out, "node_memory_limit_bytes", "gauge", "Memory budget of a node.");
    for node in &status.nodes {
        line(out, "node_memory_limit_bytes", &format!("{{node=\"{}\"}}", node.id), node.memory_limit_bytes);
    }
}

fn gateway_metrics(out: &mut String, status: &ClusterStatus) {
    describe(out, "gateway_serving", "gauge", "1 while a gateway serves clients.");
    for gateway in &status.gateways {
        line(out, "gateway_serving", &format!("{{gateway=\"{}\"}}", gateway.id), u64::from(gateway.serving));
    }
}

fn describe(out: &mut String, name: &str, kind: &str, help: &str) {
    writeln!(out, "# HELP shorttail_{name} {help}\n# TYPE shorttail_{name} {kind}").expect("writing to memory");
}

fn line(out: &mut String, name: &str, labels: &str, value: u64) {
    writeln!(out, "shorttail_{name}{labels} {value}").expect("writing to memory");
}
