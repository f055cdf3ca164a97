//! Asks the coordinator, on a thread of its own: until the cluster serves, or how many nodes are down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use shorttail_server::config::Address;
use shorttail_server::control::read_status;
use shorttail_wire::control::{ClusterStatus, NodeState};

use super::supervisor::Event;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(10);

/// Between two looks at how far the cluster is.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// A coordinator that is there answers in a millisecond.
const ANSWERED_WITHIN: Duration = Duration::from_millis(500);

/// What is waited for.
pub struct Wanted {
    /// All of these.
    pub gateway_pids: Vec<u32>,
    pub node_count: usize,
    pub within: Duration,
}

/// What a probe finds; a status if the coordinator answered.
pub enum Found {
    Serving(Box<ClusterStatus>),
    /// Not yet.
    Waiting(Option<Box<ClusterStatus>>),
    /// Not within the time.
    NotServing(Option<Box<ClusterStatus>>),
}

/// How many probes were started. Only the last one counts: what earlier ones wait for may be over.
#[derive(Clone, Default)]
pub struct Probes(Arc<AtomicU64>);

impl Probes {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    pub fn is_last(&self, number: u64) -> bool {
        self.0.load(Ordering::Acquire) == number
    }
}

/// Tells `Serving` once, or `NotServing` when the time is over; `Waiting` now and then before that. Ends also when
/// nobody listens any more, or another probe begins.
pub fn start(coordinator: Address, wanted: Wanted, probes: &Probes, tell: Sender<Event>) -> std::io::Result<()> {
    let (number, probes) = (probes.next(), probes.clone());
    let tell = move |found| tell.send(Event::Probed { number, found });
    let probe = move || {
        let deadline = Instant::now() + wanted.within;
        let mut told_at = Instant::now() + TOLD_EVERY;
        while probes.is_last(number) {
            let status = read_status(&coordinator).ok();
            if let Some(status) = status.as_ref().filter(|status| is_served(status, &wanted)) {
                // Nobody listens when the cluster is being stopped.
                return drop(tell(Found::Serving(Box::new(status.clone()))));
            }
            if Instant::now() >= deadline {
                return drop(tell(Found::NotServing(status.map(Box::new))));
            }
            if Instant::now() >= told_at {
                told_at += TOLD_EVERY;
                if tell(Found::Waiting(status.map(Box::new))).is_err() {
                    return;
                }
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

/// Nodes whose chunks are missing now that the process with this number died; none: the coordinator does not answer.
pub fn nodes_down(coordinator: Address, pid: u32) -> Option<usize> {
    let (tell, answer) = channel();
    let ask = move || drop(tell.send(read_status(&coordinator)));
    std::thread::Builder::new().name("ask".into()).spawn(ask).ok()?;
    let status = answer.recv_timeout(ANSWERED_WITHIN).ok()?.ok()?;
    Some(down(&status, pid))
}

/// Those that were rebuilt or removed are made up for. The coordinator may not have noticed this death yet.
fn down(status: &ClusterStatus, pid: u32) -> usize {
    let is_up = |state| matches!(state, NodeState::Normal | NodeState::Suspect);
    let is_unnoticed = status.nodes.iter().any(|node| node.pid == pid && is_up(node.state));
    (usize::from(status.repair.lacking_of_stripe_max) + usize::from(is_unnoticed)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorttail_wire::control::{NodeStatusEntry, RepairStatus};

    /// A child that dies before it serves is waited for no longer once the next one is started.
    #[test]
    fn a_probe_ends_when_the_next_one_begins() {
        let (probes, (tell, events)) = (Probes::default(), channel());
        let nobody = Address::Unix("nowhere.sock".into());
        for within in [Duration::from_secs(1), Duration::ZERO] {
            let wanted = Wanted { gateway_pids: vec![1], node_count: 0, within };
            start(nobody.clone(), wanted, &probes, tell.clone()).expect("a thread");
        }
        drop(tell);
        let told: Vec<u64> = events
            .iter()
            .filter_map(|event| match event {
                Event::Probed { number, found: Found::NotServing(None) } => Some(number),
                _ => None,
            })
            .collect();
        assert_eq!(told, [2], "both have ended, and the first one said nothing");
    }

    #[test]
    fn nodes_are_down_until_they_are_made_up_for() {
        let node = |pid, state| NodeStatusEntry { pid, state, ..NodeStatusEntry::default() };
        let status = |lacking_of_stripe_max, state| ClusterStatus {
            nodes: vec![node(7, state), node(8, NodeState::Retired), node(9, NodeState::Dead)],
            repair: RepairStatus { lacking_of_stripe_max, ..RepairStatus::default() },
            ..ClusterStatus::default()
        };
        assert_eq!(down(&status(2, NodeState::Dead), 7), 2);
        assert_eq!(down(&status(1, NodeState::Normal), 7), 2, "this death is not among them yet");
        assert_eq!(down(&status(0, NodeState::Dead), 7), 1, "nothing was on it");
    }
}
