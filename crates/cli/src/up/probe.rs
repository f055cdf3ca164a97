//! Waits, on a thread of its own, until the cluster serves.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use shorttail_server::config::Address;
use shorttail_server::control::read_status;
use shorttail_wire::control::{ClusterStatus, NodeState};

use super::supervisor::Event;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(10);

/// What is waited for.
pub struct Wanted {
    /// All of these.
    pub gateway_pids: Vec<u32>,
    pub node_count: usize,
    pub within: Duration,
}

/// Tells `Serving` once, or `NotServing` when the time is over. Ends also when nobody listens any more.
pub fn start(coordinator: Address, wanted: Wanted, tell: Sender<Event>) -> std::io::Result<()> {
    let probe = move || {
        let deadline = Instant::now() + wanted.within;
        loop {
            let status = read_status(&coordinator).ok();
            if let Some(status) = status.as_ref().filter(|status| is_served(status, &wanted)) {
                // Nobody listens when the cluster is being stopped.
                return drop(tell.send(Event::Serving(Box::new(status.clone()))));
            }
            if Instant::now() >= deadline {
                return drop(tell.send(Event::NotServing(status.map(Box::new))));
            }
            std::thread::sleep(PAUSE);
        }
    };
    std::thread::Builder::new().name("probe".into()).spawn(probe).map(drop)
}

fn is_served(status: &ClusterStatus, wanted: &Wanted) -> bool {
    let nodes = status.nodes.iter().filter(|node| node.state == NodeState::Normal).count();
    let is_serving = |pid: &u32| status.gateways.iter().any(|gateway| gateway.pid == *pid && gateway.serving);
    let all_served = status.partitions_served == status.partitions;
    all_served && wanted.gateway_pids.iter().all(is_serving) && nodes >= wanted.node_count
}
