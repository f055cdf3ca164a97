//! What becomes of members, of partitions and of the cluster as a whole, in the log: there an operator finds when a
//! node died, when it was given up, and who took over.
//!
//! The cluster is looked at with each beat, and compared with what was said of it last. Who comes and goes again and
//! again is told of now and then: what it is by then, and how many changes were left out. A problem is known by its
//! kind, as numbers in its text change while it lasts; it is told when it is there at two looks in a row, and so is its
//! end.
//!
//! Must not know: why the coordinator decides so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use shorttail_coordinator::Problem;
use shorttail_coordinator::limits::DEAD_AFTER_MS;
use shorttail_wire::control::{NodeEntry, NodeState, View, ranges};

/// Lines about one node, or one kind of problem, that are said one after the other; then one in each pause.
const LINES_OF_ONE: u32 = 6;
/// About gateways and what they own: each of their processes has a number of its own.
const LINES_OF_GATEWAYS: u32 = 64;
const PAUSE: Duration = Duration::from_secs(30);
/// Of so many nodes that change alike at one look each has a line of its own; of more there is one line.
const EACH_MAX: usize = 16;
/// Nodes that are known from before have so long to come: until then they are not said to be dead.
const AWAITED: Duration = Duration::from_millis(DEAD_AFTER_MS);

/// How many lines may still be said.
#[derive(Debug)]
struct Budget {
    max: u32,
    left: u32,
    since: Instant,
}

impl Budget {
    fn new(now: Instant, max: u32) -> Self {
        Budget { max, left: max, since: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        while self.left < self.max && now.saturating_duration_since(self.since) >= PAUSE {
            (self.left, self.since) = (self.left + 1, self.since + PAUSE);
        }
        if self.left == self.max {
            self.since = now;
        }
        let may = self.left > 0;
        self.left -= u32::from(may);
        may
    }
}

/// Something as it was said and as it was seen last.
#[derive(Debug)]
struct Told<T> {
    said: T,
    seen: T,
    /// Since it was said.
    changes: u64,
    budget: Budget,
}

impl<T: Copy + PartialEq> Told<T> {
    fn new(now: Instant, said: T) -> Self {
        Told { said, seen: said, changes: 0, budget: Budget::new(now, LINES_OF_ONE) }
    }

    /// What was said before and how many changes were left out, if the change is to be said now.
    fn note(&mut self, now: Instant, seen: T) -> Option<(T, u64)> {
        self.changes += u64::from(seen != self.seen);
        self.seen = seen;
        if seen == self.said || !self.budget.take(now) {
            return None;
        }
        let left_out = std::mem::take(&mut self.changes).saturating_sub(1);
        Some((std::mem::replace(&mut self.said, seen), left_out))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    There,
    Dead,
    GivenUp,
    Removed,
}

/// Its stage, and the life of its memory.
type Seen = (Stage, u64);

fn seen_of(node: &NodeEntry) -> Seen {
    let stage = match node.state {
        _ if node.removed => Stage::Removed,
        NodeState::Normal | NodeState::Suspect => Stage::There,
        NodeState::Dead => Stage::Dead,
        NodeState::Retired => Stage::GivenUp,
    };
    // Of one that was taken out only the number is known in the end.
    (stage, if node.removed { 0 } else { node.incarnation.0 })
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NodeChange {
    Joined,
    Died,
    GivenUp,
    /// With what it held.
    Returned,
    ReturnedEmpty,
    Removed,
}

/// One line of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    Nodes {
        change: NodeChange,
        ids: Vec<u16>,
        left_out: u64,
        alive: usize,
    },
    /// `replaces`: some other one died before, and none came since.
    GatewayJoined {
        id: u16,
        replaces: bool,
        left_out: u64,
    },
    GatewayDied {
        id: u16,
        left_out: u64,
    },
    /// `is_planned`: it was handed over, or nobody owned it before.
    Owned {
        partitions: Vec<u16>,
        before: Option<u16>,
        now: u16,
        is_planned: bool,
        left_out: u64,
    },
    ProblemBegan {
        kind: &'static str,
        text: String,
        left_out: u64,
    },
    ProblemEnded {
        kind: &'static str,
        text: String,
        lasted: Duration,
        left_out: u64,
    },
}

#[derive(Debug)]
struct Trouble {
    /// How far it is; `None`: it is not there.
    extent: Told<Option<u16>>,
    /// At the last look, which may be over at the next.
    at_last_look: Option<u16>,
    text: String,
    since: Instant,
}

/// What was said of one reign.
#[derive(Debug)]
pub struct Chronicle {
    began: Instant,
    nodes: BTreeMap<u16, Told<Seen>>,
    /// Those that are alive.
    gateways: BTreeSet<u16>,
    /// That died, and nobody came in their place.
    gateways_missed: usize,
    gateway_lines: Budget,
    gateway_lines_left_out: u64,
    /// Of each partition the last owner.
    owners: BTreeMap<u16, u16>,
    tenures_lost: u64,
    troubles: BTreeMap<&'static str, Trouble>,
}

impl Chronicle {
    /// What a reign begins with is no news.
    pub fn begin(now: Instant, view: &View) -> Self {
        let gone = view.nodes.iter().filter(|node| node.state == NodeState::Retired);
        Chronicle {
            began: now,
            nodes: gone.map(|node| (node.id.0, Told::new(now, seen_of(node)))).collect(),
            gateways: BTreeSet::new(),
            gateways_missed: 0,
            gateway_lines: Budget::new(now, LINES_OF_GATEWAYS),
            gateway_lines_left_out: 0,
            owners: owners(view).collect(),
            tenures_lost: 0,
            troubles: BTreeMap::new(),
        }
    }

    /// Lines about what changed since the last look. `tenures_lost`: how many ended without being handed over.
    pub fn note(&mut self, now: Instant, view: &View, tenures_lost: u64, problems: &[Problem]) -> Vec<Line> {
        let mut lines = self.note_nodes(now, view);
        let happened = self.note_gateways(view, tenures_lost);
        for line in happened {
            match self.gateway_lines.take(now) {
                true => lines.push(with_left_out(line, std::mem::take(&mut self.gateway_lines_left_out))),
                false => self.gateway_lines_left_out += 1,
            }
        }
        lines.extend(self.note_problems(now, problems));
        lines
    }

    fn note_nodes(&mut self, now: Instant, view: &View) -> Vec<Line> {
        let are_awaited = now.saturating_duration_since(self.began) < AWAITED;
        let mut changed: BTreeMap<NodeChange, Vec<(u16, u64)>> = BTreeMap::new();
        for node in &view.nodes {
            let (id, seen) = (node.id.0, seen_of(node));
            let change = match self.nodes.get_mut(&id) {
                Some(told) => told.note(now, seen).map(|(before, left_out)| (change(before, seen), left_out)),
                None if seen.0 == Stage::Dead && are_awaited => None,
                None => {
                    self.nodes.insert(id, Told::new(now, seen));
                    let joined = seen.0 == Stage::There;
                    Some((if joined { NodeChange::Joined } else { change((Stage::There, seen.1), seen) }, 0))
                }
            };
            if let Some((change, left_out)) = change {
                changed.entry(change).or_default().push((id, left_out));
            }
        }
        let alive = view.nodes.iter().filter(|node| node.state.is_alive()).count();
        let mut lines = Vec::new();
        for (change, nodes) in changed {
            let at_once = if nodes.len() > EACH_MAX { nodes.len() } else { 1 };
            lines.extend(nodes.chunks(at_once).map(|nodes| Line::Nodes {
                change,
                ids: nodes.iter().map(|&(id, _)| id).collect(),
                left_out: nodes.iter().map(|&(_, left_out)| left_out).sum(),
                alive,
            }));
        }
        lines
    }

    fn note_gateways(&mut self, view: &View, tenures_lost: u64) -> Vec<Line> {
        let alive = view.gateways.iter().filter(|gateway| gateway.is_alive).map(|gateway| gateway.id).collect();
        let before = std::mem::replace(&mut self.gateways, alive);
        let died = before.difference(&self.gateways).map(|&id| Line::GatewayDied { id, left_out: 0 });
        let mut lines: Vec<Line> = died.collect();
        self.gateways_missed += lines.len();
        for &id in self.gateways.difference(&before) {
            let replaces = self.gateways_missed > 0;
            self.gateways_missed -= usize::from(replaces);
            lines.push(Line::GatewayJoined { id, replaces, left_out: 0 });
        }
        let mut moved: BTreeMap<(Option<u16>, u16), Vec<u16>> = BTreeMap::new();
        for (partition, owner) in owners(view).collect::<BTreeMap<_, _>>() {
            let before = self.owners.insert(partition, owner);
            if before != Some(owner) {
                moved.entry((before, owner)).or_default().push(partition);
            }
        }
        let is_planned = std::mem::replace(&mut self.tenures_lost, tenures_lost) == tenures_lost;
        lines.extend(moved.into_iter().map(|((before, now), partitions)| {
            let is_planned = is_planned || before.is_none();
            Line::Owned { partitions, before, now, is_planned, left_out: 0 }
        }));
        lines
    }

    fn note_problems(&mut self, now: Instant, problems: &[Problem]) -> Vec<Line> {
        for problem in problems {
            let trouble = self.troubles.entry(problem.kind).or_insert_with(|| Trouble {
                extent: Told::new(now, None),
                at_last_look: None,
                text: String::new(),
                since: now,
            });
            trouble.text.clone_from(&problem.text);
        }
        let mut lines = Vec::new();
        for (&kind, trouble) in &mut self.troubles {
            let extent = problems.iter().find(|problem| problem.kind == kind).map(|problem| problem.extent);
            let at_last_look = std::mem::replace(&mut trouble.at_last_look, extent);
            if at_last_look != extent {
                continue;
            }
            let Some((before, left_out)) = trouble.extent.note(now, extent) else { continue };
            let text = trouble.text.clone();
            match (before, extent) {
                (Some(before), Some(extent)) if extent < before => {}
                (_, Some(_)) => {
                    trouble.since = if before.is_none() { now } else { trouble.since };
                    lines.push(Line::ProblemBegan { kind, text, left_out });
                }
                (_, None) => {
                    let lasted = now.saturating_duration_since(trouble.since);
                    lines.push(Line::ProblemEnded { kind, text, lasted, left_out });
                }
            }
        }
        lines
    }
}

fn owners(view: &View) -> impl Iterator<Item = (u16, u16)> {
    view.tenures.iter().flat_map(|tenure| tenure.partitions.iter().map(|&partition| (partition, tenure.gateway)))
}

fn change(before: Seen, now: Seen) -> NodeChange {
    match now.0 {
        Stage::Removed => NodeChange::Removed,
        Stage::GivenUp => NodeChange::GivenUp,
        Stage::Dead => NodeChange::Died,
        Stage::There if before.1 == now.1 => NodeChange::Returned,
        Stage::There => NodeChange::ReturnedEmpty,
    }
}

fn with_left_out(mut line: Line, count: u64) -> Line {
    if let Line::GatewayJoined { left_out, .. } | Line::GatewayDied { left_out, .. } | Line::Owned { left_out, .. } =
        &mut line
    {
        *left_out = count;
    }
    line
}

impl Line {
    /// Should an operator see it who asked for warnings only?
    fn is_warning(&self) -> bool {
        match self {
            Line::Nodes { change, .. } => *change != NodeChange::Joined,
            Line::GatewayJoined { replaces, .. } => *replaces,
            Line::Owned { is_planned, .. } => !is_planned,
            Line::GatewayDied { .. } | Line::ProblemBegan { .. } | Line::ProblemEnded { .. } => true,
        }
    }

    /// Into the log. What somebody else tells of, too, is no warning.
    pub fn log(&self, is_told_elsewhere: bool) {
        macro_rules! say {
            ($($what:tt)+) => {
                match self.is_warning() && !is_told_elsewhere {
                    true => tracing::warn!($($what)+),
                    false => tracing::info!($($what)+),
                }
            };
        }
        match self {
            Line::Nodes { change, ids, left_out, alive } => {
                let who = match ids.as_slice() {
                    [id] => format!("node {id} {}", change.told(false)),
                    ids => format!("nodes {} {}", ranges(ids), change.told(true)),
                };
                say!(alive, changes_left_out = shown(*left_out), "{who}");
            }
            Line::GatewayJoined { id, left_out, .. } => {
                say!(changes_left_out = shown(*left_out), "gateway {id} joined");
            }
            Line::GatewayDied { id, left_out } => {
                say!(changes_left_out = shown(*left_out), "gateway {id} is dead");
            }
            Line::Owned { partitions, before, now, is_planned, left_out } => {
                let what = match before {
                    None => "owns partitions".to_owned(),
                    Some(before) if *is_planned => format!("was handed partitions by gateway {before}"),
                    Some(before) => format!("takes over partitions of gateway {before}"),
                };
                say!(partitions = ranges(partitions), changes_left_out = shown(*left_out), "gateway {now} {what}");
            }
            Line::ProblemBegan { kind, text, left_out } => {
                say!(kind, changes_left_out = shown(*left_out), "problem: {text}");
            }
            Line::ProblemEnded { kind, text, lasted, left_out } => {
                let lasted_s = lasted.as_secs();
                say!(kind, lasted_s, changes_left_out = shown(*left_out), "this problem is over: {text}");
            }
        }
    }
}

impl NodeChange {
    fn told(self, are_many: bool) -> String {
        let what = match self {
            NodeChange::Joined => return "joined".to_owned(),
            NodeChange::Died => "dead",
            NodeChange::GivenUp => "given up",
            NodeChange::Returned => "back, with all that was held",
            NodeChange::ReturnedEmpty => "back, with an empty memory",
            NodeChange::Removed => "removed from the cluster",
        };
        format!("{} {what}", if are_many { "are" } else { "is" })
    }
}

/// A field that is there if it says something.
fn shown(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}

#[cfg(test)]
mod tests;
