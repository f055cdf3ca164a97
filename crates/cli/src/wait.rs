//! `shorttail wait`: until everything is served and nothing is missing.
//!
//! Must not know: how that comes about.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use clap::Args;
use shorttail_wire::control::{ClusterStatus, NodeState};

use crate::admin::{Admin, AdminPort};
use crate::drain::parse_patience;
use crate::exit::Failure;
use crate::lines;
use crate::output::print;
use crate::status::chunks_missing;

pub const EXAMPLES: &str = "\
Examples:
  shorttail wait                  before the next node is restarted
  shorttail wait --within 0       is all there, as far as is known by now?

All is there when for 3 s every gateway serves, every partition is served, no chunk is missing, and each node is normal or \
all that it had is rebuilt: any m nodes may die then. A gateway that was stopped for good is forgotten after a minute.

Exit code 1: something is missing, or acknowledged writes may be gone (see shorttail acknowledge).";

/// For so long all must be there: a node that stands still or is cut off is missed after two seconds, and told of half
/// a second later.
const SETTLE: Duration = Duration::from_secs(3);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// Between two lines about what is still missing.
const TOLD_EVERY: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
pub struct WaitCommand {
    #[command(flatten)]
    pub admin: AdminPort,
    /// Seconds until it is said what is still missing, with exit code 1. 0: ask once
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = parse_patience)]
    pub within: u64,
}

pub fn run(command: &WaitCommand) -> Result<(), Failure> {
    let admin = Admin::new(&command.admin);
    let deadline = Instant::now() + Duration::from_secs(command.within);
    let mut told: Option<(String, Instant)> = None;
    let mut whole_since: Option<Instant> = None;
    loop {
        // The coordinator may be on its way as well.
        let missing = admin.cluster().map_or_else(|error| format!("{error:#}"), |status| missing(&status).join("; "));
        let is_over = Instant::now() >= deadline;
        whole_since = missing.is_empty().then(|| whole_since.unwrap_or_else(Instant::now));
        if whole_since.is_some_and(|since| command.within == 0 || since.elapsed() >= SETTLE) {
            return print("all is there\n");
        }
        if is_over && whole_since.is_none() {
            return Err(Failure::Failed(anyhow!("{missing}")));
        }
        let is_news = told.as_ref().is_none_or(|(known, at)| *known != missing && at.elapsed() >= TOLD_EVERY);
        if is_news && whole_since.is_none() {
            lines::warn(&format!("shorttail: {missing}; waiting"));
            told = Some((missing, Instant::now()));
        }
        std::thread::sleep(PAUSE);
    }
}

/// In words; nothing: all is there.
fn missing(status: &ClusterStatus) -> Vec<String> {
    let mut missing = Vec::new();
    // What nobody serves nobody counts.
    match status.partitions.saturating_sub(status.partitions_served) {
        0 => {}
        count => missing.push(format!("{count} of {} partitions are not served", status.partitions)),
    }
    missing.extend(chunks_missing(&status.repair));
    if status.partitions_lossy > 0 {
        missing.push(format!("acknowledged writes may be gone from {} partitions", status.partitions_lossy));
    }
    let nodes = status.nodes.iter().filter(|node| node.state != NodeState::Normal && !node.rebuilt);
    missing.extend(nodes.map(|node| format!("node {} is {}", node.id, node.state.name())));
    let gateways = status.gateways.iter().filter(|gateway| !gateway.serving);
    missing.extend(gateways.map(|gateway| match gateway.state {
        NodeState::Normal => format!("gateway {} does not serve", gateway.id),
        state => format!("gateway {} is {}", gateway.id, state.name()),
    }));
    if status.gateways.is_empty() {
        missing.push("no gateway is there".to_owned());
    }
    // Nobody who is restarted would be let in.
    let problem = status.coordinator.metadata_problem.as_ref();
    missing.extend(problem.map(|why| format!("the metadata store cannot be used: {why}")));
    missing
}

#[cfg(test)]
mod tests {
    use shorttail_wire::control::{GatewayStatusEntry, NodeStatusEntry, RepairStatus};

    use super::*;

    fn whole() -> ClusterStatus {
        let node = |id, state, rebuilt| NodeStatusEntry { id, state, rebuilt, ..NodeStatusEntry::default() };
        let nodes = vec![node(0, NodeState::Normal, false), node(1, NodeState::Retired, true)];
        let gateways = vec![GatewayStatusEntry { serving: true, ..GatewayStatusEntry::default() }];
        ClusterStatus { partitions: 4, partitions_served: 4, nodes, gateways, ..ClusterStatus::default() }
    }

    fn missing_after(change: impl FnOnce(&mut ClusterStatus)) -> Vec<String> {
        let mut status = whole();
        change(&mut status);
        missing(&status)
    }

    #[test]
    fn whatever_is_missing_is_told() {
        assert_eq!(missing(&whole()), Vec::<String>::new());
        assert_eq!(missing_after(|status| status.partitions_served = 1), ["3 of 4 partitions are not served"]);
        let lossy = missing_after(|status| status.partitions_lossy = 2);
        assert_eq!(lossy, ["acknowledged writes may be gone from 2 partitions"]);
        let lost = |chunks_missing, lacking_of_stripe_max| {
            missing_after(|status| {
                status.repair = RepairStatus { chunks_missing, lacking_of_stripe_max, ..RepairStatus::default() };
            })
        };
        assert_eq!(lost(1, 1), ["1 chunk is missing"]);
        assert_eq!(lost(70, 2), ["70 chunks are missing"]);
        assert_eq!(lost(0, 2), ["stripes may lack 2 chunks, which no gateway counts yet"]);
        assert_eq!(missing_after(|status| status.nodes[1].rebuilt = false), ["node 1 is retired"]);
        assert_eq!(missing_after(|status| status.nodes[0].state = NodeState::Suspect), ["node 0 is suspect"]);
        assert_eq!(missing_after(|status| status.gateways[0].serving = false), ["gateway 0 does not serve"]);
        let dead = missing_after(|status| {
            (status.gateways[0].serving, status.gateways[0].state) = (false, NodeState::Dead);
        });
        assert_eq!(dead, ["gateway 0 is dead"]);
        assert_eq!(missing_after(|status| status.gateways.clear()), ["no gateway is there"]);
        let away = missing_after(|status| status.coordinator.metadata_problem = Some("refused".to_owned()));
        assert_eq!(away, ["the metadata store cannot be used: refused"]);
    }
}
