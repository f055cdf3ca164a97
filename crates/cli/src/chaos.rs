//! `shorttail chaos`: faults on purpose in a cluster that was started for it.
//!
//! Must not know: how a node does what it is ordered.

mod options;
#[cfg(test)]
mod tests;
mod values;

use std::fmt::Write;

use shorttail_server::admin::ChaosRequest;
use shorttail_wire::control::ClusterStatus;

use crate::admin::{Admin, report};
use crate::exit::Failure;
use crate::output::{columns, print};
pub use options::{ChaosCommand, EXAMPLES};
use values::Nodes;

pub fn run(command: ChaosCommand) -> Result<(), Failure> {
    let admin = Admin::new(&command.admin);
    let Some((nodes, order)) = command.verb.order() else {
        return print(&table(&admin.cluster()?));
    };
    order.check().map_err(|error| Failure::Usage(error.to_string()))?;
    let nodes = match nodes {
        Nodes::All => None,
        Nodes::Some(nodes) => Some(nodes),
    };
    report("node", &admin.order("/chaos", &ChaosRequest { nodes, order })?)
}

/// The faults of all nodes as lines and columns.
fn table(status: &ClusterStatus) -> String {
    let mut out = String::new();
    let rows = status.nodes.iter().map(|node| {
        let chaos = &node.chaos;
        let faults: Vec<String> = chaos.faults.iter().map(ToString::to_string).collect();
        let faults = match (faults.is_empty(), node.chaos_allowed) {
            (true, true) => "none".to_owned(),
            (true, false) => "not allowed".to_owned(),
            (false, _) => faults.join("; "),
        };
        [
            node.id.to_string(),
            node.state.name().to_owned(),
            chaos.delayed_total.to_string(),
            chaos.dropped_total.to_string(),
            chaos.corrupted_total.to_string(),
            chaos.bits_flipped_total.to_string(),
            faults,
        ]
    });
    let heads = ["node", "state", "delayed", "dropped", "corrupted", "bits flipped", "faults"];
    out.push_str(&columns(&heads, rows));
    if !status.chaos_allowed {
        writeln!(out, "the cluster was not started with --allow-chaos").expect("writing to memory");
    }
    out
}
