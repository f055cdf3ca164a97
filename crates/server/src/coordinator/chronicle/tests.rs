//! Looks at a cluster that changes.

use shorttail_units::{Epoch, Incarnation, NodeId};
use shorttail_wire::control::{GatewayEntry, TenureEntry};

use super::*;

const LOOK: Duration = Duration::from_millis(500);

struct Scene {
    view: View,
    lost: u64,
    problems: Vec<Problem>,
    now: Instant,
    chronicle: Chronicle,
}

impl Scene {
    /// Eight nodes and two gateways with two partitions each, all of which was said.
    fn new() -> Self {
        let mut scene = Scene::of(View::default());
        scene.view.nodes = (0..8).map(node).collect();
        scene.view.gateways = [0, 1].map(gateway).into();
        scene.own(&[(0, &[0, 1]), (1, &[2, 3])]);
        let lines = scene.look();
        assert_eq!(lines.len(), 12);
        assert!(!lines.iter().any(Line::is_warning), "{lines:?}");
        scene
    }

    fn of(view: View) -> Self {
        let now = Instant::now();
        Scene { chronicle: Chronicle::begin(now, &view), view, lost: 0, problems: Vec::new(), now }
    }

    fn look(&mut self) -> Vec<Line> {
        self.now += LOOK;
        self.chronicle.note(self.now, &self.view, self.lost, &self.problems)
    }

    fn own(&mut self, owned: &[(u16, &[u16])]) {
        let tenure = |&(gateway, partitions): &(u16, &[u16])| TenureEntry {
            epoch: Epoch(1),
            gateway,
            partitions: partitions.to_vec(),
        };
        self.view.tenures = owned.iter().map(tenure).collect();
    }

    fn node(&mut self, id: usize, state: NodeState) -> Vec<Line> {
        self.view.nodes[id].state = state;
        self.look()
    }

    fn has(&mut self, problems: &[(&'static str, &str, u16)]) -> Vec<Line> {
        let problem = |&(kind, text, extent): &(&'static str, &str, u16)| Problem { kind, text: text.into(), extent };
        self.problems = problems.iter().map(problem).collect();
        self.look()
    }
}

fn node(id: u16) -> NodeEntry {
    NodeEntry {
        id: NodeId(id),
        incarnation: Incarnation(5),
        address: String::new(),
        domain: String::new(),
        state: NodeState::Normal,
        draining: false,
        removed: false,
    }
}

fn gateway(id: u16) -> GatewayEntry {
    GatewayEntry { id, is_alive: true, ..GatewayEntry::default() }
}

fn nodes(change: NodeChange, ids: &[u16], alive: usize) -> Vec<Line> {
    vec![Line::Nodes { change, ids: ids.to_vec(), left_out: 0, alive }]
}

#[test]
fn what_becomes_of_a_node_is_said_once() {
    use NodeState::{Dead, Normal, Retired, Suspect};
    let mut scene = Scene::new();
    assert!(scene.node(4, Suspect).is_empty(), "it may only be late");
    let died = scene.node(4, Dead);
    assert_eq!(died, nodes(NodeChange::Died, &[4], 7));
    assert!(died[0].is_warning() && scene.look().is_empty());
    assert_eq!(scene.node(4, Normal), nodes(NodeChange::Returned, &[4], 8));
    scene.node(4, Dead);
    assert_eq!(scene.node(4, Retired), nodes(NodeChange::GivenUp, &[4], 7));
    scene.view.nodes[4].incarnation = Incarnation(6);
    assert_eq!(scene.node(4, Normal), nodes(NodeChange::ReturnedEmpty, &[4], 8));
    scene.view.nodes[4].removed = true;
    assert_eq!(scene.node(4, Retired), nodes(NodeChange::Removed, &[4], 7));
    scene.view.nodes[4].incarnation = Incarnation(0);
    assert!(scene.look().is_empty(), "of one that is forgotten the number is left");
}

#[test]
fn a_node_that_comes_and_goes_does_not_flood_the_log() {
    let mut scene = Scene::new();
    let mut said = 0;
    for _ in 0..500 {
        said += scene.node(4, NodeState::Dead).len() + scene.node(4, NodeState::Normal).len();
    }
    let pauses = (1000 * LOOK).div_duration_f64(PAUSE) as usize;
    assert!(said <= LINES_OF_ONE as usize + pauses + 1, "{said}");
    assert_eq!(scene.node(5, NodeState::Dead).len(), 1, "others are not kept from being told of");
    scene.now += PAUSE;
    let lines = scene.node(4, NodeState::Dead);
    let [Line::Nodes { left_out, .. }] = lines[..] else { panic!("{lines:?}") };
    assert!(left_out > 10, "{left_out}");
}

#[test]
fn of_many_nodes_that_die_together_there_is_one_line() {
    let mut scene = Scene::new();
    scene.view.nodes = (0..100).map(node).collect();
    scene.look();
    let dies = |node: &mut NodeEntry| node.state = NodeState::Dead;
    scene.view.nodes[..EACH_MAX].iter_mut().for_each(dies);
    assert_eq!(scene.look().len(), EACH_MAX);
    scene.view.nodes[EACH_MAX..].iter_mut().for_each(dies);
    assert_eq!(scene.look(), nodes(NodeChange::Died, &(EACH_MAX as u16..100).collect::<Vec<_>>(), 0));
}

#[test]
fn who_was_known_before_has_time_to_come() {
    let dead = |id| NodeEntry { state: NodeState::Dead, ..node(id) };
    let mut scene = Scene::of(View { nodes: vec![dead(0), dead(1)], ..View::default() });
    assert!(scene.look().is_empty());
    let joined = scene.node(0, NodeState::Normal);
    assert_eq!(joined, nodes(NodeChange::Joined, &[0], 1));
    assert!(!joined[0].is_warning());
    scene.now += AWAITED;
    assert_eq!(scene.look(), nodes(NodeChange::Died, &[1], 1));
}

#[test]
fn who_takes_over_from_a_gateway_that_died_is_said() {
    let owned = |before, now, is_planned| Line::Owned {
        partitions: vec![0, 1],
        before: Some(before),
        now,
        is_planned,
        left_out: 0,
    };
    let mut scene = Scene::new();
    scene.view.gateways[0].is_alive = false;
    scene.own(&[(1, &[0, 1, 2, 3])]);
    scene.lost = 1;
    let lines = scene.look();
    assert_eq!(lines, [Line::GatewayDied { id: 0, left_out: 0 }, owned(0, 1, false)]);
    assert!(lines.iter().all(Line::is_warning));
    // It is started again, forgotten, and its heir is given what it had.
    scene.view.gateways[0] = gateway(2);
    let joined = scene.look();
    assert_eq!(joined, [Line::GatewayJoined { id: 2, replaces: true, left_out: 0 }]);
    assert!(joined[0].is_warning());
    scene.own(&[(2, &[0, 1]), (1, &[2, 3])]);
    let lines = scene.look();
    assert_eq!(lines, [owned(1, 2, true)]);
    assert!(!lines[0].is_warning());
}

#[test]
fn gateways_that_die_one_after_the_other_do_not_flood_the_log() {
    let mut scene = Scene::new();
    let count = 4 * LINES_OF_GATEWAYS as u16;
    let said: usize = (0..count)
        .map(|number| {
            scene.view.gateways[0] = gateway(10 + number);
            scene.look().len()
        })
        .sum();
    assert!(said <= 2 * LINES_OF_GATEWAYS as usize, "{said} of {}", 2 * count);
    scene.now += PAUSE;
    scene.view.gateways.pop();
    let lines = scene.look();
    assert!(matches!(lines[..], [Line::GatewayDied { id: 1, left_out: 1.. }]), "{lines:?}");
}

#[test]
fn a_problem_is_said_when_it_begins_and_when_it_ends_whatever_its_numbers() {
    let mut scene = Scene::new();
    let began = |kind, text: &str| vec![Line::ProblemBegan { kind, text: text.into(), left_out: 0 }];
    assert!(scene.has(&[("away", "nodes 1, 2 are", 0)]).is_empty(), "it may be over by the next look");
    assert_eq!(scene.has(&[("away", "nodes 1, 2, 3 are", 0)]), began("away", "nodes 1, 2, 3 are"));
    assert!(scene.has(&[("away", "nodes 1, 2, 3, 4 are", 0)]).is_empty());
    assert!(scene.has(&[]).is_empty(), "it may be there again at the next look");
    let text = "nodes 1, 2, 3, 4 are".to_owned();
    assert_eq!(scene.has(&[]), [Line::ProblemEnded { kind: "away", text, lasted: 3 * LOOK, left_out: 0 }]);
    assert!(scene.has(&[]).is_empty());
}

#[test]
fn a_problem_that_grows_is_said_again_and_one_that_comes_and_goes_now_and_then() {
    let mut scene = Scene::new();
    let said = |scene: &mut Scene, problems: &[(&'static str, &str, u16)]| {
        (0..2).map(|_| scene.has(problems).len()).sum::<usize>()
    };
    assert_eq!(said(&mut scene, &[("losses", "of 3", 3)]), 1);
    assert_eq!(said(&mut scene, &[("losses", "of 5", 5)]), 1);
    assert_eq!(said(&mut scene, &[("losses", "of 4", 4)]), 0);
    let mut count = 0;
    for _ in 0..100 {
        count += said(&mut scene, &[("full", "full", 0)]) + said(&mut scene, &[]);
    }
    assert!(count <= 2 * LINES_OF_ONE as usize + 400 / 60 + 2, "{count}");
}
