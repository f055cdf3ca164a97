//! `shorttail chaos`: faults on purpose in a cluster that was started for it.
//!
//! Must not know: how a node does what it is ordered.

mod options;
#[cfg(test)]
mod tests;
mod values;

use std::fmt::Write;

use anyhow::{Context, anyhow};
use shorttail_server::admin::{ChaosRequest, OrderOutcome};
use shorttail_wire::control::ClusterStatus;

use crate::admin::Admin;
use crate::exit::Failure;
use crate::output::{columns, print};
pub use options::{ChaosCommand, EXAMPLES};
use values::Nodes;

pub fn run(command: ChaosCommand) -> Result<(), Failure> {
    let admin = Admin::new(command.admin);
    let Some((nodes, order)) = command.verb.order() else {
        return print(&table(&admin.status()?));
    };
    order.check().map_err(|error| Failure::Usage(error.to_string()))?;
    let nodes = match nodes {
        Nodes::All => None,
        Nodes::Some(nodes) => Some(nodes),
    };
    let request = serde_json::to_string(&ChaosRequest { nodes, order }).context("an order is JSON")?;
    let answer = admin.post("/chaos", &request)?;
    let outcomes: Vec<OrderOutcome> =
        serde_json::from_str(&answer).with_context(|| format!("{} answers something else", command.admin))?;
    report(&outcomes)
}

/// Says what every node did; fails if one did not.
fn report(outcomes: &[OrderOutcome]) -> Result<(), Failure> {
    let (done, refused): (Vec<_>, Vec<_>) = outcomes.iter().partition(|outcome| outcome.is_done);
    let lines = |outcomes: Vec<&OrderOutcome>| {
        let lines = outcomes.iter().map(|outcome| format!("node {}: {}", outcome.member, outcome.text));
        lines.collect::<Vec<_>>().join("\n")
    };
    if !done.is_empty() {
        print(&(lines(done) + "\n"))?;
    }
    match (refused.is_empty(), outcomes.is_empty()) {
        (true, false) => Ok(()),
        (true, true) => Err(Failure::Failed(anyhow!("no node is alive"))),
        (false, _) => Err(Failure::Failed(anyhow!("{}", lines(refused)))),
    }
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
    out.push_str(&columns(heads, rows.collect()));
    if !status.chaos_allowed {
        writeln!(out, "the cluster was not started with --allow-chaos").expect("writing to memory");
    }
    out
}
