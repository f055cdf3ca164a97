//! Asks the coordinator, on a thread of its own: until the cluster serves, or how many nodes are left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use shorttail_server::config::Address;
use shorttail_server::control::read_status;
use shorttail_units::CodeShape;
use shorttail_wire::control::{ClusterStatus, NodeState, NodeStatusEntry};

use super::supervisor::Event;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(10);

/// Between two looks at how far the cluster is.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// A coordinator that is there answers in a millisecond, or when it gets a processor.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);

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

/// How many nodes are left, of those that were not removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodesLeft {
    /// Dead, with something that is not on other nodes yet.
    pub dead: usize,
    /// Dead, and what they held is on other nodes.
    pub rebuilt: usize,
    pub alive: usize,
}

impl NodesLeft {
    /// With what that means for stripes of this code.
    pub fn told(self, code: CodeShape) -> String {
        let NodesLeft { dead, rebuilt, alive } = self;
        let (all, tolerated, needed) = (dead + rebuilt + alive, code.tolerance(), code.chunk_count());
        let are = if dead == 1 { "is" } else { "are" };
        let beside = match rebuilt {
            0 => String::new(),
            1 => " (1 more is rebuilt)".to_owned(),
            _ => format!(" ({rebuilt} more are rebuilt)"),
        };
        let unstored = match alive < needed {
            true => format!("; only {alive} left alive and a stripe needs {needed}: nothing new can be stored"),
            false => String::new(),
        };
        format!(
            "{dead} of {all} nodes {are} dead and not rebuilt yet{beside}, {tolerated} at once are tolerated{unstored}"
        )
    }
}

/// Now that the process with this number died; none: the coordinator does not answer.
pub fn nodes_left(coordinator: Address, pid: u32) -> Option<NodesLeft> {
    let (tell, answer) = channel();
    let ask = move || drop(tell.send(read_status(&coordinator)));
    std::thread::Builder::new().name("ask".into()).spawn(ask).ok()?;
    let status = answer.recv_timeout(ANSWERED_WITHIN).ok()?.ok()?;
    Some(left(&status, pid))
}

/// The coordinator may not have noticed this death yet.
pub fn left(status: &ClusterStatus, pid: u32) -> NodesLeft {
    let is_alive = |node: &&NodeStatusEntry| node.state.is_alive() && node.pid != pid;
    let alive = status.nodes.iter().filter(is_alive).count();
    let rebuilt = status.nodes.iter().filter(|node| node.rebuilt).count();
    NodesLeft { dead: status.nodes.len() - alive - rebuilt, rebuilt, alive }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn nodes_that_are_not_alive_are_counted_by_whether_they_are_rebuilt() {
        let node = |pid, state| NodeStatusEntry { pid, state, ..NodeStatusEntry::default() };
        let status = |state| ClusterStatus {
            nodes: vec![
                node(7, state),
                node(8, NodeState::Retired),
                node(9, NodeState::Dead),
                NodeStatusEntry { rebuilt: true, ..node(12, NodeState::Retired) },
                node(10, NodeState::Suspect),
                node(11, NodeState::Normal),
            ],
            ..ClusterStatus::default()
        };
        assert_eq!(left(&status(NodeState::Dead), 7), NodesLeft { dead: 3, rebuilt: 1, alive: 2 });
        assert_eq!(left(&status(NodeState::Normal), 7).dead, 3, "not noticed yet");
    }

    #[test]
    fn it_is_said_when_too_few_nodes_are_left_for_a_stripe() {
        let told = |dead, rebuilt, alive| NodesLeft { dead, rebuilt, alive }.told(CodeShape::default());
        assert_eq!(told(1, 0, 7), "1 of 8 nodes is dead and not rebuilt yet, 2 at once are tolerated");
        assert_eq!(told(2, 0, 6), "2 of 8 nodes are dead and not rebuilt yet, 2 at once are tolerated");
        let beginning = "2 of 8 nodes are dead and not rebuilt yet (1 more is rebuilt), 2 at once are tolerated; only 5 left alive \
                         and a stripe needs 6: ";
        assert_eq!(told(2, 1, 5), format!("{beginning}nothing new can be stored"));
    }
}
