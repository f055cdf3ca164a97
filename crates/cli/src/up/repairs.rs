//! What becomes of lost chunks, in lines for people: nodes are given up, their chunks rebuilt, nothing is missing any
//! more.
//!
//! ```text
//!          some are missing             some are rebuilt
//!  Whole -------------------> Missing -------------------> Rebuilding
//!    ^                           |                              |
//!    '----- none is missing -----'------------------------------'
//! ```
//!
//! Must not know: where lines go, or how chunks are rebuilt.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use shorttail_server::config::Address;
use shorttail_server::control::read_status;
use shorttail_wire::control::{ClusterStatus, HEARTBEAT_MS, NodeState, RepairStatus, counted, counted_are};

use crate::status::rounded;

/// Between two looks: members tell no sooner.
const PAUSE: Duration = Duration::from_millis(HEARTBEAT_MS);

/// Looks at the cluster until nobody listens any more.
pub fn start(coordinator: Address, tell: impl Fn(Box<ClusterStatus>) -> bool + Send + 'static) -> std::io::Result<()> {
    let look = move || {
        loop {
            std::thread::sleep(PAUSE);
            // A coordinator that is away is started again, and one that stands by knows nothing.
            let status = read_status(&coordinator).ok().filter(|status| !status.is_standby());
            if status.is_some_and(|status| !tell(Box::new(status))) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("look".into()).spawn(look).map(drop)
}

/// What was told so far.
#[derive(Default)]
pub struct Repairs {
    /// `None`: never looked.
    given_up: Option<BTreeSet<u16>>,
    phase: Phase,
}

#[derive(Clone, Copy, Default)]
enum Phase {
    #[default]
    Whole,
    Missing(Before),
    Rebuilding {
        before: Before,
        /// When it was seen to begin, and when chunks were missing last.
        since: Instant,
        until: Instant,
    },
}

/// What had been rebuilt when chunks began to be missing; or since then.
#[derive(Clone, Copy)]
struct Before {
    chunks: u64,
    bytes: u64,
}

impl Before {
    /// What was rebuilt since. A coordinator that begins anew has not heard of gateways that are gone.
    fn done(self, repair: &RepairStatus) -> Before {
        Before {
            chunks: repair.chunks_rebuilt_total.saturating_sub(self.chunks),
            bytes: repair.bytes_rebuilt_total.saturating_sub(self.bytes),
        }
    }
}

impl Repairs {
    /// Lines about what happened since the last look.
    pub fn note(&mut self, now: Instant, status: &ClusterStatus) -> Vec<String> {
        let mut lines = self.note_given_up(status);
        let repair = &status.repair;
        let done = Before { chunks: repair.chunks_rebuilt_total, bytes: repair.bytes_rebuilt_total };
        self.phase = match self.phase {
            Phase::Whole if is_missing(status) => Phase::Missing(done),
            Phase::Missing(_) | Phase::Rebuilding { .. } if is_whole(status) => {
                lines.push(self.whole_line(repair));
                Phase::Whole
            }
            Phase::Missing(before) if repair.chunks_missing > 0 && is_rebuilding(status, before) => {
                lines.push(format!("{} being rebuilt", counted_are(repair.chunks_missing, "chunk")));
                Phase::Rebuilding { before, since: now, until: now }
            }
            Phase::Rebuilding { before, since, .. } if repair.chunks_missing > 0 => {
                Phase::Rebuilding { before, since, until: now }
            }
            phase => phase,
        };
        lines
    }

    /// How far repair is; none: nothing is being rebuilt.
    pub fn progress(&self, status: &ClusterStatus) -> Option<String> {
        let repair = &status.repair;
        let Phase::Rebuilding { before, .. } = self.phase else { return None };
        let done = before.done(repair);
        let done = format!("{} ({}) rebuilt", counted(done.chunks, "chunk"), rounded(done.bytes));
        let pace = match repair.seconds_left {
            Some(seconds) => format!(", {}/s, {seconds} s left", rounded(repair.bytes_per_s)),
            None => String::new(),
        };
        (repair.chunks_missing > 0).then(|| format!("{done}, {} left{pace}", repair.chunks_missing))
    }

    fn note_given_up(&mut self, status: &ClusterStatus) -> Vec<String> {
        let retired = status.nodes.iter().filter(|node| node.state == NodeState::Retired);
        let retired: BTreeSet<u16> = retired.map(|node| node.id).collect();
        // One that a coordinator does not know of yet is not back.
        let back = |id: &u16| status.nodes.iter().any(|node| node.id == *id && node.state != NodeState::Retired);
        let before = self.given_up.take();
        let known = before.iter().flatten().filter(|id| !back(id)).chain(&retired).copied().collect();
        self.given_up = Some(known);
        let Some(before) = before else { return Vec::new() };
        let (alive, needed) = (status.repair.nodes_alive, status.repair.nodes_needed);
        let then = match alive < needed {
            true => format!(
                "what it held is rebuilt as far as the others hold nothing of it; all of it once {needed} nodes are alive, \
                 {alive} are"
            ),
            false => "what it held is rebuilt on the others".to_owned(),
        };
        retired.difference(&before).map(|id| format!("node {id} is given up: {then}")).collect()
    }

    fn whole_line(&self, repair: &RepairStatus) -> String {
        let whole = "no chunk is missing any more";
        let (before, took) = match self.phase {
            Phase::Whole => return whole.to_owned(),
            Phase::Missing(before) => (before, None),
            Phase::Rebuilding { before, since, until } => (before, Some(until - since)),
        };
        let Before { chunks, bytes } = before.done(repair);
        let took = took.map_or_else(String::new, |took| format!(" in {:.1} s", took.as_secs_f64()));
        match chunks {
            0 => whole.to_owned(),
            _ => format!("{whole}: {} ({}) rebuilt{took}", counted(chunks, "chunk"), rounded(bytes)),
        }
    }
}

fn is_missing(status: &ClusterStatus) -> bool {
    status.repair.chunks_missing > 0 || status.repair.lacking_of_stripe_max > 0
}

/// Nothing is missing, and everybody who would know has said so.
fn is_whole(status: &ClusterStatus) -> bool {
    !is_missing(status) && status.partitions_served == status.partitions
}

fn is_rebuilding(status: &ClusterStatus, before: Before) -> bool {
    status.repair.seconds_left.is_some() || status.repair.chunks_rebuilt_total > before.chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorttail_wire::control::NodeStatusEntry;

    /// A cluster of eight nodes, these of them given up.
    fn status(retired: &[u16], repair: RepairStatus) -> ClusterStatus {
        let state = |id| if retired.contains(&id) { NodeState::Retired } else { NodeState::Normal };
        let node = |id| NodeStatusEntry { id, state: state(id), ..NodeStatusEntry::default() };
        let repair = RepairStatus { nodes_alive: 8 - retired.len() as u16, nodes_needed: 6, ..repair };
        let nodes = (0..8).map(node).collect();
        ClusterStatus { partitions: 4, partitions_served: 4, nodes, repair, ..ClusterStatus::default() }
    }

    fn missing(chunks_missing: u64, chunks_rebuilt_total: u64) -> RepairStatus {
        let bytes_rebuilt_total = chunks_rebuilt_total << 16;
        let lacking_of_stripe_max = u16::from(chunks_missing > 0);
        RepairStatus {
            chunks_missing,
            chunks_rebuilt_total,
            bytes_rebuilt_total,
            lacking_of_stripe_max,
            ..Default::default()
        }
    }

    #[test]
    fn each_step_is_told_once() {
        let (mut repairs, start) = (Repairs::default(), Instant::now());
        let mut note = |second, status: &ClusterStatus| {
            let lines = repairs.note(start + Duration::from_secs(second), status);
            (lines, repairs.progress(status))
        };
        let nothing = (Vec::<String>::new(), None);
        assert_eq!(note(0, &status(&[], missing(0, 7))), nothing);
        // Dead, and it may come back.
        assert_eq!(note(1, &status(&[], missing(40, 7))), nothing);
        let (lines, _) = note(2, &status(&[3], missing(40, 7)));
        assert_eq!(lines, ["node 3 is given up: what it held is rebuilt on the others"]);
        let busy = RepairStatus { bytes_per_s: 2 << 20, seconds_left: Some(5), ..missing(30, 17) };
        let progress = Some("10 chunks (640KiB) rebuilt, 30 left, 2MiB/s, 5 s left".to_owned());
        assert_eq!(note(3, &status(&[3], busy)), (vec!["30 chunks are being rebuilt".to_owned()], progress.clone()));
        assert_eq!(note(4, &status(&[3], busy)), (vec![], progress));
        let last = RepairStatus { seconds_left: None, ..missing(1, 46) };
        assert_eq!(note(8, &status(&[3], last)), (vec![], Some("39 chunks (2.4MiB) rebuilt, 1 left".to_owned())));
        // Whether something else was lost is not told yet.
        let fresh = RepairStatus { lacking_of_stripe_max: 1, ..missing(0, 47) };
        assert_eq!(note(9, &status(&[3], fresh)), nothing);
        let unserved = ClusterStatus { partitions_served: 3, ..status(&[3], missing(0, 47)) };
        assert_eq!(note(10, &unserved), nothing);
        let (lines, progress) = note(11, &status(&[3], missing(0, 47)));
        assert_eq!(lines, ["no chunk is missing any more: 40 chunks (2.5MiB) rebuilt in 5.0 s"]);
        assert_eq!((progress, note(12, &status(&[3], missing(0, 47)))), (None, nothing));
    }

    #[test]
    fn what_came_back_by_itself_was_not_rebuilt() {
        let (mut repairs, now) = (Repairs::default(), Instant::now());
        for repair in [missing(0, 7), missing(40, 7)] {
            assert!(repairs.note(now, &status(&[], repair)).is_empty());
        }
        assert_eq!(repairs.note(now, &status(&[], missing(0, 7))), ["no chunk is missing any more"]);
    }

    #[test]
    fn what_was_given_up_before_is_no_news_and_too_few_nodes_are() {
        let (mut repairs, now) = (Repairs::default(), Instant::now());
        assert!(repairs.note(now, &status(&[0, 1], missing(0, 7))).is_empty());
        let lines = repairs.note(now, &status(&[0, 1, 2], missing(9, 7)));
        let partly =
            "what it held is rebuilt as far as the others hold nothing of it; all of it once 6 nodes are alive, 5 are";
        assert_eq!(lines, [format!("node 2 is given up: {partly}")]);
        // The next coordinator has heard of nobody yet.
        assert!(repairs.note(now, &ClusterStatus { partitions: 4, ..ClusterStatus::default() }).is_empty());
        assert!(repairs.note(now, &status(&[0, 1, 2], missing(9, 7))).is_empty());
        assert!(repairs.note(now, &status(&[0, 1], missing(9, 7))).is_empty());
        assert_eq!(repairs.note(now, &status(&[0, 1, 2], missing(9, 7))), lines, "it was back");
    }
}
