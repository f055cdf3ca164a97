//! Scenarios: nodes are emptied, taken out, and come back.

use shorttail_units::Epoch;

use super::*;

mod drained;
mod followed;
mod late;
mod passing;
mod told;
mod waited_for;

/// Nodes 0 to `count - 1`, and one gateway that owns everything.
struct Cluster {
    scene: Scene,
    gateway: ConnectionId,
    nodes: Vec<ConnectionId>,
}

impl Cluster {
    fn new(count: u16) -> Self {
        Self::with(Settings { node_count_expected: count, ..settings() })
    }

    fn with(settings: Settings) -> Self {
        let count = settings.node_count_expected;
        let mut scene = Scene::with(settings, Durable::new(CLUSTER.0));
        let nodes = (0..count).map(|id| scene.node(node(1, Some(id))).0).collect();
        let (gateway, welcome) = scene.gateway(None);
        welcome.expect("let in");
        scene.watcher = Some(gateway);
        let mut cluster = Cluster { scene, gateway, nodes };
        for id in 0..count {
            cluster.reports(id, 10, 1 << 20);
        }
        assert_eq!(cluster.scene.persisted.tenures.len(), 1, "the gateway owns everything");
        cluster
    }

    /// A node says what it holds.
    fn reports(&mut self, id: u16, chunks_sealed: u64, memory_used_bytes: u64) {
        let status = NodeStatus {
            chunks_sealed,
            memory_used_bytes,
            memory_room_bytes: (1_u64 << 28).saturating_sub(memory_used_bytes),
            ..NodeStatus::default()
        };
        self.scene.tell(self.nodes[usize::from(id)], ToCoordinator::NodeStatus(status));
    }

    /// The gateway has refused so many stores.
    fn refuses(&mut self, stores_refused_total: u64) {
        let totals = StoreTotals { stores_refused_total, ..StoreTotals::default() };
        self.report(Vec::new(), totals, TenureState::Serving);
    }

    /// The gateway counts chunks on nodes that drain or are away.
    fn counts(&mut self, left: &[(u16, u64)], lost_of_stripe_max: u64) {
        let seen = |&(id, left): &(u16, u64)| NodeSeen { id, chunks_left: Some(left), ..NodeSeen::default() };
        // As of rs:4+2.
        let lost_of_readable_max = if lost_of_stripe_max > 2 { 1 } else { lost_of_stripe_max };
        let totals = StoreTotals { lost_of_stripe_max, lost_of_readable_max, ..StoreTotals::default() };
        self.report(left.iter().map(seen).collect(), totals, TenureState::Serving);
    }

    /// The gateway tells of nodes, of what it stores, and how far its tenures are.
    fn report(&mut self, nodes: Vec<NodeSeen>, totals: StoreTotals, state: TenureState) {
        let standings = self.standings(state);
        let status = GatewayStatus { nodes, totals, standings, ..GatewayStatus::default() };
        self.scene.report(self.gateway, status);
    }

    /// The gateway serves, tells of nodes, and is proven by these terms.
    fn report_proven_by(&mut self, proven_by: u32, nodes: Vec<NodeSeen>) {
        let standings = self.standings(TenureState::Serving).into_iter();
        let standings = standings.map(|standing| Standing { proven_by, ..standing }).collect();
        self.scene.report(self.gateway, GatewayStatus { nodes, standings, ..GatewayStatus::default() });
    }

    /// All tenures, in this state.
    fn standings(&self, state: TenureState) -> Vec<Standing> {
        let tenures = self.scene.persisted.tenures.iter();
        tenures.map(|(&epoch, known)| Standing { epoch: Epoch(epoch), proven_by: known.terms, state }).collect()
    }

    /// How many voters each set of the tenure has.
    fn voter_counts(&self) -> Vec<usize> {
        let tenure = self.scene.persisted.tenures.values().next().expect("a tenure");
        tenure.voters.iter().map(Vec::len).collect()
    }

    fn order(&mut self, id: u16, wanted: Wanted) -> Result<String, String> {
        self.scene.outputs.clear();
        self.scene.order(id, wanted)
    }

    fn drain(&mut self, id: u16) -> Result<String, String> {
        self.order(id, Wanted::DrainNode { cancel: false })
    }

    fn remove(&mut self, id: u16, lost: bool) -> Result<String, String> {
        self.order(id, Wanted::RemoveNode { lost })
    }

    fn die(&mut self, id: u16) {
        let connection = self.nodes[usize::from(id)];
        self.scene.handle(Input::Closed { connection });
    }

    fn problems(&self) -> Vec<String> {
        self.scene.coordinator.status().problems
    }

    fn repair(&self) -> RepairStatus {
        self.scene.coordinator.status().repair
    }

    fn entry(&self, id: u16) -> NodeEntry {
        self.scene.coordinator.view().nodes.into_iter().find(|node| node.id == NodeId(id)).expect("a known node")
    }

    fn drain_status(&self, id: u16) -> Option<DrainStatus> {
        let status = self.scene.coordinator.status();
        status.nodes.into_iter().find(|node| node.id == id).and_then(|node| node.drain)
    }
}

#[test]
fn a_node_is_drained_when_it_holds_nothing_and_every_owner_says_so() {
    let mut cluster = Cluster::new(8);
    cluster.drain(3).expect("enough others");
    assert!(cluster.entry(3).draining, "everybody is told");
    assert!(cluster.scene.persisted.nodes[&3].draining);
    let status = cluster.drain_status(3).expect("it drains");
    assert_eq!((status.drained, status.chunks_left), (false, 10));
    cluster.reports(3, 0, 0);
    assert!(!cluster.drain_status(3).expect("it drains").drained, "the owner may not know yet");
    cluster.counts(&[(3, 2)], 0);
    assert!(!cluster.drain_status(3).expect("it drains").drained, "a stripe is opened there just now");
    cluster.counts(&[(3, 0)], 0);
    assert!(cluster.drain_status(3).expect("it drains").drained);
    cluster.reports(3, 1, 1 << 16);
    assert!(!cluster.drain_status(3).expect("it drains").drained);
}

#[test]
fn a_drain_outlives_the_coordinator_and_the_node_until_it_is_cancelled() {
    let mut cluster = Cluster::new(8);
    cluster.drain(3).expect("enough others");
    let mut scene = cluster.scene.restart();
    scene.node(node(1, Some(3))).1.expect("let in");
    assert!(scene.persisted.nodes[&3].draining);
    cluster = Cluster { scene, ..cluster };
    let cancel = Wanted::DrainNode { cancel: true };
    cluster.order(3, cancel.clone()).expect("it drains");
    assert!(!cluster.entry(3).draining && !cluster.scene.persisted.nodes[&3].draining);
    assert!(cluster.order(3, cancel).expect_err("it does not").contains("not being drained"));
}

#[test]
fn what_cannot_be_drained_is_refused_with_the_reason() {
    let mut cluster = Cluster::new(7);
    assert!(cluster.drain(9).expect_err("unknown").contains("no node 9"));
    cluster.reports(0, 10, 1 << 40);
    assert!(cluster.drain(0).expect_err("too much").contains("the others have"));
    cluster.reports(0, 10, 1 << 20);
    cluster.drain(0).expect("six stay");
    let few = cluster.drain(1).expect_err("five would stay");
    assert!(few.contains("5 other nodes would stay, and a stripe needs 6"), "{few}");
    let gone = cluster.nodes[2];
    cluster.scene.handle(Input::Closed { connection: gone });
    let problem = cluster.drain_status(0).expect("it drains").problem;
    assert!(problem.expect("too few are left").contains("5 other nodes"));
    assert!(cluster.drain(2).expect_err("dead").contains("rebuilt elsewhere"));
}

#[test]
fn only_an_empty_node_is_removed_and_it_never_comes_back() {
    let mut cluster = Cluster::new(8);
    let full = cluster.remove(3, false).expect_err("it holds chunks");
    assert!(full.contains("shorttail drain node 3"), "{full}");
    cluster.drain(3).expect("enough others");
    cluster.counts(&[(3, 4)], 0);
    assert!(cluster.remove(3, false).is_err(), "not empty yet");
    cluster.reports(3, 0, 0);
    cluster.counts(&[(3, 0)], 0);
    cluster.remove(3, false).expect("drained");
    let told = cluster.scene.sent_to(cluster.nodes[3]);
    assert!(told.contains(&FromCoordinator::Refused(Refusal::Removed(3))), "{told:?}");
    let entry = cluster.entry(3);
    assert_eq!((entry.state, entry.removed, entry.draining), (NodeState::Retired, true, false));
    assert!(cluster.scene.coordinator.status().nodes.iter().all(|node| node.id != 3));
    let voters = cluster.scene.persisted.tenures.values().next().expect("a tenure").voters_told().to_vec();
    assert!(voters.iter().all(|&(id, _)| id != 3), "it has no voice any more: {voters:?}");
    assert!(cluster.remove(3, true).expect_err("twice").contains("already"));
    // With its memory, with another one, and after the coordinator was restarted.
    let mut scene = cluster.scene.restart();
    let session = Some(NodeSession { cluster_id: CLUSTER, node_id: NodeId(3) });
    for registration in [node(1, Some(3)), node(2, Some(3)), NodeRegistration { session, ..node(3, None) }] {
        assert_eq!(scene.node(registration).1, Err(Refusal::Removed(3)));
    }
    assert!(!Refusal::Removed(3).is_transient());
    assert_eq!(scene.node(node(9, None)).1.expect("a new node").node_id, NodeId(8));
}

#[test]
fn a_node_is_given_up_only_while_the_code_survives_it() {
    let mut cluster = Cluster::new(9);
    cluster.die(0);
    cluster.counts(&[], 0);
    let lost = cluster.remove(0, false).expect_err("not rebuilt");
    assert!(lost.contains("--lost"), "{lost}");
    cluster.remove(0, true).expect("the code survives two");
    cluster.remove(1, true).expect("and this is the second");
    let third = cluster.remove(2, true).expect_err("a third one");
    assert!(third.contains("rs:4+2"), "{third}");
    // Owners were told, and count what is lost.
    cluster.scene.pass_ms(LOSS_TOLD_MS / 2, &cluster.nodes[2..]);
    cluster.counts(&[], 2);
    cluster.scene.pass_ms(LOSS_TOLD_MS / 2, &cluster.nodes[2..]);
    cluster.counts(&[], 2);
    assert!(cluster.remove(2, true).is_err(), "stripes lack two chunks");
    cluster.counts(&[], 1);
    cluster.remove(2, true).expect("they lack one");
}

/// Two nodes die and are given up: nobody is told that more was lost, neither before owners counted it nor after.
#[test]
fn what_was_given_up_is_counted_once() {
    let mut cluster = Cluster::new(9);
    cluster.counts(&[], 0);
    cluster.die(0);
    cluster.die(1);
    cluster.scene.pass_ms(RETIRE_AFTER_MS - 1, &cluster.nodes[2..]);
    assert_eq!(cluster.entry(1).state, NodeState::Dead);
    cluster.scene.pass_ms(1, &[]);
    assert_eq!(cluster.entry(1).state, NodeState::Retired);
    assert_eq!((cluster.problems(), cluster.repair().lacking_of_stripe_max), (Vec::new(), 2), "not told yet");
    cluster.counts(&[], 2);
    assert_eq!((cluster.problems(), cluster.repair().lacking_of_stripe_max), (Vec::new(), 2), "told");
    cluster.counts(&[], 1);
    assert_eq!(cluster.repair().lacking_of_stripe_max, 1, "some is rebuilt");
    assert!(cluster.remove(2, true).is_err(), "the report may be an older one");
    cluster.scene.pass_ms(LOSS_TOLD_MS, &cluster.nodes[2..]);
    cluster.counts(&[], 1);
    cluster.remove(2, true).expect("they lack one");
    assert_eq!(cluster.repair().lacking_of_stripe_max, 2);
    cluster.counts(&[], 3);
    assert!(cluster.problems()[0].starts_with("some stripes lost 3 chunks"), "what is told is believed");
}

#[test]
fn nodes_that_hold_nothing_lose_nothing() {
    let mut cluster = Cluster::new(12);
    let drained = [(0, 0), (1, 0), (2, 0)];
    for (id, _) in drained {
        cluster.drain(id).expect("enough others");
        cluster.reports(id, 0, 0);
    }
    for (id, _) in drained {
        cluster.counts(&drained, 0);
        cluster.remove(id, false).expect("drained");
        assert_eq!((cluster.problems(), cluster.repair().lacking_of_stripe_max), (Vec::new(), 0));
    }
    for id in [3, 4] {
        cluster.counts(&drained, 0);
        cluster.remove(id, true).expect("the code survives two, and nothing else was lost");
    }
    assert!(cluster.remove(5, true).expect_err("a third one").contains("rs:4+2"));
}

#[test]
fn nothing_is_given_up_while_no_owner_can_tell_what_is_lost() {
    let mut cluster = Cluster::new(9);
    let unknown = cluster.remove(1, true).expect_err("the owner takes over");
    assert!(unknown.contains("no owner can tell"), "{unknown}");
    cluster.counts(&[], 0);
    cluster.remove(1, true).expect("the owner knows of no loss");
    // Its core stands still, and knows nothing of who left since.
    cluster.report_proven_by(0, Vec::new());
    let unknown = cluster.remove(2, true).expect_err("what it said is of before");
    assert!(unknown.contains("no owner can tell"), "{unknown}");
    // A dead owner's count is nobody's.
    let connection = cluster.gateway;
    cluster.scene.watcher = None;
    cluster.scene.handle(Input::Closed { connection });
    let unknown = cluster.remove(2, true).expect_err("nobody owns anything");
    assert!(unknown.contains("no owner can tell"), "{unknown}");
    let (gateway, welcome) = cluster.scene.gateway(None);
    welcome.expect("let in");
    cluster.gateway = gateway;
    cluster.takes_over(&[]);
    assert!(cluster.remove(2, true).is_err(), "the next one is still learning");
    cluster.counts(&[], 0);
    cluster.remove(2, true).expect("it serves, and node 1 is the only one that was just given up");
}

#[test]
fn what_was_told_of_an_earlier_drain_does_not_count() {
    let mut cluster = Cluster::new(8);
    cluster.drain(3).expect("enough others");
    cluster.reports(3, 0, 0);
    cluster.counts(&[(3, 0)], 0);
    assert!(cluster.drain_status(3).expect("it drains").drained);
    cluster.order(3, Wanted::DrainNode { cancel: true }).expect("it drains");
    cluster.drain(3).expect("enough others");
    assert!(!cluster.drain_status(3).expect("it drains").drained, "it was used meanwhile");
    cluster.counts(&[(3, 0)], 0);
    assert!(!cluster.drain_status(3).expect("it drains").drained, "it has not said so itself");
    cluster.reports(3, 0, 0);
    assert!(cluster.drain_status(3).expect("it drains").drained);
    cluster.order(3, Wanted::DrainNode { cancel: true }).expect("it drains");
    cluster.drain(3).expect("enough others");
    cluster.reports(3, 0, 0);
    assert!(!cluster.drain_status(3).expect("it drains").drained, "the owner has not said so");
}

#[test]
fn a_dead_node_of_which_nothing_is_missing_is_removed_without_ado() {
    let mut cluster = Cluster::new(8);
    let connection = cluster.nodes[5];
    cluster.scene.handle(Input::Closed { connection });
    cluster.counts(&[(5, 3)], 0);
    assert!(cluster.remove(5, false).is_err());
    cluster.counts(&[(5, 0)], 0);
    cluster.remove(5, false).expect("all of it is elsewhere");
}

/// One core let go and counts no more, another one has not heard of it: together they serve, proven by nothing.
#[test]
fn an_owner_of_which_a_part_let_go_does_not_say_that_a_node_is_empty() {
    let mut cluster = Cluster::new(8);
    cluster.die(5);
    cluster.report_proven_by(0, vec![NodeSeen { id: 5, chunks_left: Some(0), ..NodeSeen::default() }]);
    assert!(cluster.remove(5, false).is_err());
}

#[test]
fn who_is_drained_has_a_voice_again_when_it_is_used_or_too_few_others_are_left() {
    let mut cluster = Cluster::new(8);
    for id in [0, 1] {
        cluster.drain(id).expect("enough others");
        cluster.reports(id, 0, 0);
    }
    let drained = [(0, 0), (1, 0)];
    (0..2).for_each(|_| cluster.counts(&drained, 0));
    assert_eq!(cluster.voter_counts(), [6]);
    cluster.order(1, Wanted::DrainNode { cancel: true }).expect("it drains");
    cluster.counts(&drained, 0);
    assert_eq!(cluster.voter_counts(), [7], "whatever the owner told of the drain");
    for id in 1..6 {
        cluster.scene.handle(Input::Closed { connection: cluster.nodes[id] });
    }
    let there: Vec<ConnectionId> = [0, 6, 7].map(|id: usize| cluster.nodes[id]).to_vec();
    // The gateway goes on telling what it knows.
    cluster.scene.watcher = None;
    // Two are given up at a time.
    for _ in 0..(RETIRE_AFTER_MS + 2 * LOSS_TOLD_MS) / HEARTBEAT_MS + 4 {
        cluster.scene.pass_ms(HEARTBEAT_MS, &there);
        cluster.counts(&drained, 0);
    }
    assert_eq!(cluster.voter_counts(), [3], "two that stay, and the one that is drained");
}

#[test]
fn no_node_is_removed_that_stripes_need() {
    let mut cluster = Cluster::new(6);
    for lost in [false, true] {
        assert!(cluster.remove(0, lost).expect_err("six are needed").contains("a stripe needs 6"));
    }
}

#[test]
fn a_node_that_still_drains_is_to_be_waited_for() {
    let mut cluster = Cluster::new(8);
    cluster.drain(3).expect("enough others");
    cluster.reports(3, 1, 1 << 16);
    let wait = cluster.remove(3, false).expect_err("it holds a chunk");
    assert_eq!(wait, "node 3 is being drained and still holds 1 chunk: wait until it is drained");
    cluster.reports(3, 0, 0);
    let wait = cluster.remove(3, false).expect_err("its owner may put something there");
    assert_eq!(wait, "node 3 is being drained, and owners have not counted it yet: wait until it is drained");
}

impl Cluster {
    fn states(&self, ids: std::ops::Range<u16>) -> Vec<NodeState> {
        ids.map(|id| self.entry(id).state).collect()
    }

    /// Time passes, with the nodes from this one on there, and the gateway telling of losses.
    fn pass_telling(&mut self, ms: u64, first_there: usize, left: &[(u16, u64)], lost_of_stripe_max: u64) {
        self.scene.watcher = None;
        let there = self.nodes[first_there..].to_vec();
        for _ in 0..ms / HEARTBEAT_MS {
            self.scene.pass_ms(HEARTBEAT_MS, &there);
            self.counts(left, lost_of_stripe_max);
        }
    }
}

const THREE_FOUR_EMPTY: [(u16, u64); 5] = [(0, 9), (1, 9), (2, 9), (3, 9), (4, 0)];

/// A switch was out, say: what they hold is all there.
#[test]
fn no_more_nodes_are_given_up_than_may_be_missing() {
    use NodeState::{Dead, Normal, Retired};
    let mut cluster = Cluster::new(12);
    cluster.counts(&[], 0);
    (0..5).for_each(|id| cluster.die(id));
    cluster.pass_telling(RETIRE_AFTER_MS + 1_000, 5, &THREE_FOUR_EMPTY, 0);
    assert_eq!(cluster.states(0..5), [Retired, Retired, Dead, Dead, Retired], "and one that held nothing");
    cluster.pass_telling(10 * RETIRE_AFTER_MS, 5, &THREE_FOUR_EMPTY, 2);
    assert_eq!(cluster.states(0..5), [Retired, Retired, Dead, Dead, Retired]);
    let problems = cluster.problems().join("\n");
    let why = "nodes 2, 3 are away for long and are not given up, as stripes may have lost up to 2 chunks already and rs:4+2 \
               survives the loss of 2: start them again; `shorttail remove node 2 --lost`";
    assert!(problems.contains(why), "{problems}");
    let (connection, back) = cluster.scene.node(node(1, Some(3)));
    back.expect("with what it holds");
    cluster.nodes[3] = connection;
    cluster.pass_telling(HEARTBEAT_MS, 3, &THREE_FOUR_EMPTY, 2);
    assert_eq!(cluster.states(2..4), [Dead, Normal]);
    cluster.pass_telling(RETIRE_AFTER_MS, 3, &THREE_FOUR_EMPTY, 1);
    assert_eq!(cluster.states(2..4), [Retired, Normal], "as soon as some is rebuilt");
}

/// What is lost nobody can tell before a partition is served: then what was given up counts.
#[test]
fn while_a_partition_is_taken_over_as_few_are_given_up() {
    use NodeState::{Dead, Retired};
    let mut cluster = Cluster::new(12);
    cluster.scene.watcher = None;
    (0..2).for_each(|id| cluster.die(id));
    cluster.pass_taking_over(2 * RETIRE_AFTER_MS, &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(cluster.states(0..2), [Retired; 2]);
    (2..4).for_each(|id| cluster.die(id));
    cluster.pass_taking_over(10 * RETIRE_AFTER_MS, &[4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(cluster.states(0..4), [Retired, Retired, Dead, Dead]);
    cluster.pass_telling(LOSS_TOLD_MS, 4, &THREE_FOUR_EMPTY, 0);
    assert_eq!(cluster.states(0..4), [Retired; 4], "nothing was lost with the first two");
}

#[test]
fn the_operator_may_give_up_what_is_waited_for() {
    let mut cluster = Cluster::new(12);
    cluster.counts(&[], 0);
    (0..3).for_each(|id| cluster.die(id));
    assert!(cluster.remove(2, true).is_err(), "they may be back soon");
    cluster.pass_telling(RETIRE_AFTER_MS + 1_000, 3, &THREE_FOUR_EMPTY, 0);
    cluster.pass_telling(LOSS_TOLD_MS, 3, &THREE_FOUR_EMPTY, 2);
    assert_eq!(cluster.states(0..3), [NodeState::Retired, NodeState::Retired, NodeState::Dead]);
    assert!(cluster.remove(5, true).is_err(), "not one that is there");
    for id in [2, 0] {
        cluster.remove(id, true).expect("its memory is gone, or was given up");
        assert!(cluster.entry(id).removed);
    }
}

/// Of the others no more than before.
#[test]
fn stripes_that_are_lost_do_not_keep_nodes_from_being_given_up() {
    let mut cluster = Cluster::new(12);
    cluster.counts(&[], 3);
    cluster.die(0);
    cluster.pass_telling(RETIRE_AFTER_MS + 1_000, 1, &[(0, 9)], 3);
    assert_eq!(cluster.entry(0).state, NodeState::Retired);
}

/// After all processes were stopped: nobody has said yet whom it reaches.
#[test]
fn a_gateway_that_has_not_reported_does_not_say_that_a_node_is_gone() {
    let mut cluster = Cluster::new(8);
    cluster.counts(&[], 0);
    cluster.die(0);
    cluster.scene.watcher = None;
    let connection = cluster.gateway;
    cluster.scene.handle(Input::Closed { connection });
    let there = cluster.nodes[1..].to_vec();
    cluster.scene.pass_ms(RETIRE_AFTER_MS - 1, &there);
    cluster.gateway = cluster.scene.gateway(None).0;
    cluster.scene.pass_ms(1, &there);
    assert_eq!(cluster.entry(0).state, NodeState::Dead);
    cluster.pass_telling(RETIRE_AFTER_MS, 1, &[], 0);
    assert_eq!(cluster.entry(0).state, NodeState::Retired);
}

#[test]
fn the_time_for_which_the_coordinator_stood_still_does_not_count() {
    let mut cluster = Cluster::new(8);
    cluster.counts(&[], 0);
    cluster.die(0);
    cluster.pass_telling(2_000, 1, &[], 0);
    cluster.scene.now.mono_us += 2 * RETIRE_AFTER_MS * 1000;
    cluster.counts(&[], 0);
    assert_eq!(cluster.entry(0).state, NodeState::Dead);
    cluster.pass_telling(RETIRE_AFTER_MS - 2_500, 1, &[], 0);
    assert_eq!(cluster.entry(0).state, NodeState::Dead);
    cluster.pass_telling(1_000, 1, &[], 0);
    assert_eq!(cluster.entry(0).state, NodeState::Retired);
}

impl Cluster {
    /// The gateway tells that it reaches the nodes, and of losses.
    fn reaches(&mut self, ids: std::ops::Range<u16>, lost_of_readable_max: u64) {
        let totals = StoreTotals { lost_of_readable_max, ..StoreTotals::default() };
        self.report(reached(ids), totals, TenureState::Serving);
    }

    /// Nodes come back with another memory.
    fn return_empty(&mut self, ids: std::ops::Range<u16>, incarnation: u64) {
        for id in ids {
            self.die(id);
            let (connection, session) = self.scene.node(node(incarnation, Some(id)));
            session.expect("let in");
            self.nodes[usize::from(id)] = connection;
        }
    }
}

/// What they held is lost, whether a gateway has met the new life or not.
#[test]
fn nodes_that_came_back_empty_count_until_owners_know_and_have_told() {
    let mut cluster = Cluster::new(9);
    cluster.counts(&[], 0);
    cluster.return_empty(0..2, 2);
    assert!(cluster.remove(2, true).expect_err("a third one").contains("rs:4+2"));
    cluster.pass_telling(2 * LOSS_TOLD_MS, 0, &[], 0);
    assert!(cluster.remove(2, true).is_err(), "no gateway has met the new lives");
    // One of them dies again, and is counted once.
    cluster.return_empty(0..1, 3);
    cluster.die(0);
    cluster.pass_telling(2 * LOSS_TOLD_MS, 1, &[(0, 9)], 0);
    assert!(cluster.remove(2, true).expect_err("a third one").contains("may lack 2 chunks"));
    cluster.return_empty(0..1, 4);
    cluster.reaches(0..9, 1);
    assert!(cluster.remove(2, true).is_err(), "it may be the life before that it reaches");
    cluster.pass_telling(LOSS_TOLD_MS, 0, &[], 0);
    cluster.reaches(0..9, 2);
    assert!(cluster.remove(2, true).is_err(), "they lack two");
    cluster.reaches(0..9, 1);
    cluster.remove(2, true).expect("they lack one");
}

impl Cluster {
    /// The coordinator begins anew, and all that it lets in come back to it as they are.
    fn restart(self) -> Self {
        self.restart_with_late_gateway(0)
    }

    /// The gateway comes after so long.
    fn restart_with_late_gateway(self, ms: u64) -> Self {
        let mut scene = self.scene.restart();
        let lives = scene.persisted.nodes.clone();
        let nodes: Vec<_> = lives.iter().map(|(&id, known)| scene.node(node(known.incarnation, Some(id))).0).collect();
        scene.pass_ms(ms, &nodes);
        let gateway = scene.connect();
        let session = GatewaySession { cluster_id: CLUSTER, gateway_id: 0 };
        let life = scene.persisted.tenures.values().next().expect("a tenure").gateway_life;
        scene.register_gateway(gateway, gateway_registration(Some(session), life)).1.expect("let in");
        Cluster { scene, gateway, nodes }
    }
}

/// What they had was given up by the coordinator before, of which the owner may not have heard.
#[test]
fn what_was_given_up_before_a_coordinator_began_counts_until_owners_have_told() {
    let (cluster, _, _) = two_memories_lost(false);
    let mut cluster = cluster.restart();
    cluster.counts(&[], 0);
    assert!(cluster.remove(2, true).expect_err("a third one").contains("rs:4+2"));
    cluster.pass_telling(LOSS_TOLD_MS, 2, &[], 0);
    cluster.remove(2, true).expect("nothing is missing");
}

#[test]
fn what_was_rebuilt_before_a_coordinator_began_does_not_count() {
    let mut cluster = Cluster::new(10);
    cluster.counts(&[], 0);
    (0..2).for_each(|id| cluster.die(id));
    cluster.pass_telling(RETIRE_AFTER_MS + 1_000, 2, &[], 0);
    assert_eq!(cluster.states(0..2), [NodeState::Retired; 2]);
    cluster.pass_telling(LOSS_TOLD_MS, 2, &[], 0);
    let mut cluster = cluster.restart();
    cluster.counts(&[], 0);
    (2..4).for_each(|id| _ = cluster.remove(id, true).expect("the code survives two"));
}

/// They were there again long ago.
#[test]
fn lives_that_followed_what_was_rebuilt_count_for_nothing_when_a_coordinator_begins() {
    let mut cluster = Cluster::new(9);
    cluster.counts(&[], 0);
    cluster.return_empty(0..2, 2);
    cluster.pass_telling(LOSS_TOLD_MS, 0, &[], 0);
    cluster.reaches(0..9, 0);
    let mut cluster = cluster.restart();
    cluster.counts(&[], 0);
    cluster.remove(2, true).expect("they lack none");
}

#[test]
fn a_coordinator_that_begins_does_not_know_who_was_met() {
    let mut cluster = Cluster::new(9);
    cluster.counts(&[], 0);
    cluster.return_empty(0..2, 2);
    cluster = cluster.restart();
    cluster.counts(&[], 0);
    assert!(cluster.remove(2, true).expect_err("a third one").contains("rs:4+2"));
    cluster.pass_telling(LOSS_TOLD_MS, 0, &[], 0);
    assert!(cluster.remove(2, true).is_err(), "the owner does not reach them");
    cluster.reaches(0..9, 0);
    cluster.remove(2, true).expect("they lack none");
}

impl Cluster {
    /// The gateway is gone; another one comes, which reaches nodes and takes over.
    fn is_followed(&mut self, reached: &[u16]) {
        self.scene.watcher = None;
        let connection = self.gateway;
        self.scene.handle(Input::Closed { connection });
        self.gateway = self.scene.gateway(None).0;
        self.takes_over(reached);
    }

    fn takes_over(&mut self, ids: &[u16]) {
        self.report(reached(ids.iter().copied()), StoreTotals::default(), TenureState::TakingOver);
    }

    /// Time passes while a gateway that reaches these nodes takes over.
    fn pass_taking_over(&mut self, ms: u64, reached: &[u16]) {
        let there: Vec<ConnectionId> = reached.iter().map(|&id| self.nodes[usize::from(id)]).collect();
        for _ in 0..ms / HEARTBEAT_MS {
            self.scene.pass_ms(HEARTBEAT_MS, &there);
            self.takes_over(reached);
        }
    }
}

/// Of nine nodes two lost their memory, and came back or were taken out; those that are there, and of these all but
/// node 2.
fn two_memories_lost(come_back: bool) -> (Cluster, std::ops::Range<u16>, Vec<u16>) {
    let mut cluster = Cluster::new(9);
    cluster.counts(&[], 0);
    if come_back {
        cluster.return_empty(0..2, 2);
    } else {
        (0..2).for_each(|id| _ = cluster.remove(id, true).expect("the code survives it"));
    }
    let there = if come_back { 0..9 } else { 2..9 };
    (cluster, there.clone(), there.filter(|&id| id != 2).collect())
}

/// The last owner told of what two nodes lost, and it was not rebuilt: what a third has may be the last that there is.
#[test]
fn what_is_not_rebuilt_is_not_forgotten_while_nobody_serves() {
    for come_back in [true, false] {
        let (mut cluster, there, reached) = two_memories_lost(come_back);
        cluster.pass_telling(LOSS_TOLD_MS, 0, &[], 2);
        cluster.reaches(there, 2);
        cluster.die(2);
        for _ in 0..RETIRE_AFTER_MS / HEARTBEAT_MS + 2 {
            let there: Vec<ConnectionId> = reached.iter().map(|&id| cluster.nodes[usize::from(id)]).collect();
            cluster.scene.pass_ms(HEARTBEAT_MS, &there);
            cluster.counts(&[], 2);
        }
        assert_eq!(cluster.entry(2).state, NodeState::Dead, "stripes lack two chunks");
        cluster.is_followed(&reached);
        cluster.pass_taking_over(RETIRE_AFTER_MS + 1_000, &reached);
        assert_eq!(cluster.entry(2).state, NodeState::Dead, "as many as before, whoever is to tell of it");
        let problems = cluster.problems().join("\n");
        assert!(
            problems.contains("may have lost up to 2 chunks already and rs:4+2 survives the loss of 2"),
            "{problems}"
        );
        cluster.remove(2, true).expect("its memory is gone, as the operator knows");
    }
}

/// What the last owner told to be rebuilt need not be waited for, however long ago it was lost.
#[test]
fn what_was_rebuilt_does_not_count_while_nobody_serves() {
    for come_back in [true, false] {
        let (mut cluster, there, reached) = two_memories_lost(come_back);
        cluster.pass_telling(LOSS_TOLD_MS, usize::from(there.start), &[], 2);
        cluster.reaches(there.clone(), 2);
        cluster.pass_telling(HEARTBEAT_MS, usize::from(there.start), &[], 2);
        cluster.reaches(there, 0);
        cluster.die(2);
        cluster.is_followed(&reached);
        cluster.pass_taking_over(RETIRE_AFTER_MS + 1_000, &reached);
        assert_eq!(cluster.entry(2).state, NodeState::Retired, "{come_back}: {:?}", cluster.problems());
    }
}

impl Cluster {
    /// A node joins, and is taken out again; its number.
    fn come_and_go(&mut self, incarnation: u64) -> u16 {
        let (connection, session) = self.scene.node(node(incarnation, None));
        let id = session.expect("let in").node_id.0;
        self.counts(&[(id, 0)], 0);
        self.scene.handle(Input::Closed { connection });
        self.counts(&[(id, 0)], 0);
        self.remove(id, false).expect("it held nothing");
        self.counts(&[], 0);
        id
    }
}

/// Numbers are never given twice, and there are 65 536; the state has to fit in one value of a metadata store.
#[test]
fn of_nodes_that_were_taken_out_long_ago_only_the_number_is_kept() {
    let mut cluster = Cluster::new(8);
    cluster.counts(&[], 0);
    cluster.scene.watcher = None;
    for round in 0..300 {
        assert_eq!(cluster.come_and_go(100 + round), 8 + round as u16);
        if round % 10 == 9 {
            cluster.pass_telling(LOSS_TOLD_MS, 0, &[], 0);
            assert_eq!(cluster.scene.persisted.nodes.len(), 8, "all of it is told");
        }
    }
    assert_eq!(Vec::from(cluster.scene.persisted.removed.clone()), [(8, 307)]);
    let view = cluster.scene.coordinator.view();
    assert!((0..308).eq(view.nodes.iter().map(|node| node.id.0)), "in order");
    assert!(view.nodes[8..].iter().all(|node| node.removed && node.state == NodeState::Retired));
    assert_eq!(cluster.scene.coordinator.status().nodes.len(), 8);
    assert!(cluster.remove(8, true).expect_err("twice").contains("already"));
    let mut scene = cluster.scene.restart();
    for id in [8, 100, 307] {
        assert_eq!(scene.node(node(1000, Some(id))).1, Err(Refusal::Removed(id)));
    }
    assert_eq!(scene.node(node(1000, None)).1.expect("let in").node_id, NodeId(308));
}

/// What a node had when it was given up counts until owners told that it is rebuilt, and its lives as long as a later
/// owner may ask for them.
#[test]
fn a_node_that_was_taken_out_is_remembered_as_long_as_it_matters() {
    let mut cluster = Cluster::new(9);
    cluster.counts(&[], 0);
    cluster.remove(2, true).expect("the code survives it");
    let is_known = |cluster: &Cluster| cluster.scene.persisted.nodes.contains_key(&2);
    cluster.pass_telling(2 * LOSS_TOLD_MS, 0, &[], 1);
    assert!(is_known(&cluster), "stripes lack a chunk");
    let reached = [0, 1, 3, 4, 5, 6, 7, 8];
    cluster.is_followed(&reached);
    cluster.pass_taking_over(2 * LOSS_TOLD_MS, &reached);
    assert!(is_known(&cluster), "nobody can tell");
    cluster.counts(&[], 0);
    assert!(!is_known(&cluster), "nothing is missing");
    assert!(cluster.entry(2).removed);

    let mut cluster = Cluster::new(9);
    cluster.counts(&[], 0);
    cluster.remove(2, true).expect("the code survives it");
    // The owner is proven by the voters before, of which it is one.
    cluster.scene.watcher = None;
    for _ in 0..2 * LOSS_TOLD_MS / HEARTBEAT_MS {
        let there = cluster.nodes.clone();
        cluster.scene.pass_ms(HEARTBEAT_MS, &there);
        cluster.report_proven_by(1, Vec::new());
    }
    assert!(is_known(&cluster), "whoever follows asks for it");
    cluster.counts(&[], 0);
    cluster.counts(&[], 0);
    assert!(!is_known(&cluster));
}
