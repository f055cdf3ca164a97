//! Scenarios: members register, fall silent, come back, and are given up.

use shorttail_chaos::{ChaosOrder, FlipBits};
use shorttail_policy::{Change, Policy, PolicyName};
use shorttail_units::{ClusterId, CodeShape, Incarnation, NodeId, Now};
use shorttail_wire::control::*;

use crate::limits::*;
use crate::*;

mod costs;
mod crowded;
mod feasible;
mod gone;
mod leading;
mod leaving;
mod many;
mod reach;
mod tenures;
mod unheard;
mod uniting;
mod whereabouts;

const RETIRE_AFTER_MS: u64 = 30_000;
const CLUSTER: ClusterId = ClusterId(77);

fn settings() -> Settings {
    Settings {
        code: CodeShape::default(),
        partition_count: 4,
        node_count_expected: 8,
        gateway_count_expected: 1,
        retire_after_ms: RETIRE_AFTER_MS,
        unite_after_ms: UNITE_AFTER_MS,
        allow_chaos: true,
    }
}

/// A coordinator with a clock and the member's verbs.
struct Scene {
    settings: Settings,
    coordinator: Coordinator,
    now: Now,
    persisted: Durable,
    /// Epochs that some tenure had.
    used: std::collections::BTreeSet<u32>,
    connection_next: u64,
    /// Nodes that each connection was told of last.
    known: std::collections::BTreeMap<ConnectionId, std::collections::BTreeSet<u16>>,
    /// A gateway that beats and reaches no node.
    watcher: Option<ConnectionId>,
    /// Outputs since they were last taken.
    outputs: Vec<Output>,
}

impl Scene {
    fn new() -> Self {
        Scene::from_disk(Durable::new(CLUSTER.0))
    }

    fn from_disk(persisted: Durable) -> Self {
        Scene::with(settings(), persisted)
    }

    fn with(settings: Settings, persisted: Durable) -> Self {
        let now = Now::default();
        let coordinator = Coordinator::new(now, settings.clone(), persisted.clone());
        let used = persisted.tenures.keys().copied().collect();
        let (known, outputs) = (std::collections::BTreeMap::new(), Vec::new());
        Scene { settings, coordinator, now, persisted, used, connection_next: 0, known, watcher: None, outputs }
    }

    fn restart(self) -> Self {
        Scene::with(self.settings, self.persisted)
    }

    fn handle(&mut self, input: Input) {
        self.coordinator.handle(self.now, input);
        self.coordinator.check_invariants();
        let before = self.persisted.clone();
        while let Some(output) = self.coordinator.poll_output() {
            if let Output::Persist(durable) = &output {
                self.persisted = durable.clone();
            }
            tenures::check_told(&output, &self.persisted);
            tenures::check_known(&output, &self.persisted, &mut self.known);
            self.outputs.push(output);
        }
        tenures::check_step(&before, &self.persisted, &self.used);
        self.used.extend(self.persisted.tenures.keys());
    }

    fn tell(&mut self, connection: ConnectionId, message: ToCoordinator) {
        self.handle(Input::Message { connection, message });
    }

    fn report(&mut self, gateway: ConnectionId, status: GatewayStatus) {
        self.tell(gateway, ToCoordinator::GatewayStatus(status));
    }

    /// Something that is answered at once; the answer.
    fn order(&mut self, member: u16, wanted: Wanted) -> Result<String, String> {
        let answered = self.answers().len();
        self.handle(Input::Order { ticket: 1, member, wanted });
        self.answers().into_iter().nth(answered).expect("every order is answered").1
    }

    fn connect(&mut self) -> ConnectionId {
        self.connection_next += 1;
        ConnectionId(self.connection_next)
    }

    /// Lets time pass, waking at every deadline on the way; `beating` members send a heartbeat every 500 ms.
    fn pass_ms(&mut self, ms: u64, beating: &[ConnectionId]) {
        let end = self.now.mono_us + ms * 1000;
        let mut beat = self.now.mono_us + HEARTBEAT_MS * 1000;
        while self.now.mono_us < end {
            let deadline = self.coordinator.poll_deadline().unwrap_or(u64::MAX);
            self.now.mono_us = deadline.min(beat).min(end).max(self.now.mono_us);
            if self.now.mono_us == beat {
                beat += HEARTBEAT_MS * 1000;
                for &connection in beating {
                    self.tell(connection, ToCoordinator::NodeStatus(NodeStatus::default()));
                }
                if let Some(watcher) = self.watcher {
                    self.report(watcher, sees(&[]));
                }
            }
            self.handle(Input::Deadline);
        }
    }

    fn node(&mut self, registration: NodeRegistration) -> (ConnectionId, Result<NodeSession, Refusal>) {
        let connection = self.connect();
        self.outputs.clear();
        self.tell(connection, ToCoordinator::RegisterNode(registration));
        let answer = self.sent_to(connection).into_iter().find_map(|message| match message {
            FromCoordinator::NodeRegistered(welcome) => Some(Ok(welcome.session)),
            FromCoordinator::Refused(refusal) => Some(Err(refusal)),
            _ => None,
        });
        (connection, answer.expect("every registration is answered"))
    }

    fn gateway(&mut self, session: Option<GatewaySession>) -> (ConnectionId, Result<GatewayWelcome, Refusal>) {
        let connection = self.connect();
        self.outputs.clear();
        let life = 1000 + connection.0;
        self.register_gateway(connection, gateway_registration(session, life))
    }

    fn register_gateway(
        &mut self,
        connection: ConnectionId,
        registration: GatewayRegistration,
    ) -> (ConnectionId, Result<GatewayWelcome, Refusal>) {
        self.tell(connection, ToCoordinator::RegisterGateway(registration));
        let answer = self.sent_to(connection).into_iter().find_map(|message| match message {
            FromCoordinator::GatewayRegistered(welcome) => Some(Ok(welcome)),
            FromCoordinator::Refused(refusal) => Some(Err(refusal)),
            _ => None,
        });
        (connection, answer.expect("every registration is answered"))
    }

    fn sent_to(&self, to: ConnectionId) -> Vec<FromCoordinator> {
        let sent = self.outputs.iter().filter_map(|output| match output {
            Output::Send { connection, message } if *connection == to => Some(message.clone()),
            _ => None,
        });
        sent.collect()
    }

    fn state(&self, id: u16) -> NodeState {
        let view = self.coordinator.view();
        view.nodes.iter().find(|node| node.id == NodeId(id)).expect("a known node").state
    }
}

fn node(incarnation: u64, wanted_id: Option<u16>) -> NodeRegistration {
    NodeRegistration {
        protocol_version: CONTROL_PROTOCOL_VERSION,
        address: format!("127.0.0.1:{}", 7000 + wanted_id.unwrap_or(999)),
        incarnation: Incarnation(incarnation),
        pid: 100,
        memory_limit_bytes: 1 << 28,
        core_count: 1,
        wanted_id,
        domain: String::new(),
        allows_chaos: true,
        session: None,
    }
}

fn gateway_registration(session: Option<GatewaySession>, life: u64) -> GatewayRegistration {
    GatewayRegistration {
        protocol_version: CONTROL_PROTOCOL_VERSION,
        pid: 200,
        life,
        forward: Some(format!("unix:/run/g{life}.sock")),
        memcached: Some("127.0.0.1:11211".into()),
        redis: None,
        redis_advertise: None,
        unix_socket: None,
        admin: None,
        session,
    }
}

#[test]
fn members_register_and_everyone_hears_of_it() {
    let mut scene = Scene::new();
    let (gateway, welcome) = scene.gateway(None);
    let welcome = welcome.expect("let in");
    assert_eq!(welcome.partition_count, 4);
    assert_eq!(welcome.node_count_expected, 8);
    assert_eq!(scene.node(node(1, Some(5))).1.expect("let in").node_id, NodeId(5));
    let views: Vec<_> = scene.sent_to(gateway);
    assert!(matches!(&views[..], [FromCoordinator::View(view)] if view.nodes[0].id == NodeId(5)), "{views:?}");
}

#[test]
fn nodes_without_a_wish_get_different_numbers() {
    let mut scene = Scene::new();
    assert_eq!(scene.node(node(1, Some(0))).1.expect("let in").node_id, NodeId(0));
    assert_eq!(scene.node(node(2, None)).1.expect("let in").node_id, NodeId(1));
    assert_eq!(scene.node(node(3, None)).1.expect("let in").node_id, NodeId(2));
}

/// Nodes that a gateway reaches.
fn reached(ids: impl IntoIterator<Item = u16>) -> Vec<NodeSeen> {
    ids.into_iter().map(|id| NodeSeen { id, connected: true, ..NodeSeen::default() }).collect()
}

/// A gateway's heartbeat that says which nodes it reaches.
fn sees(nodes: &[u16]) -> GatewayStatus {
    GatewayStatus { nodes: reached(nodes.iter().copied()), ..GatewayStatus::default() }
}

#[test]
fn the_status_tells_of_each_node_what_all_gateways_saw() {
    let mut scene = Scene::new();
    scene.node(node(1, Some(0))).1.expect("let in");
    scene.node(node(1, Some(1))).1.expect("let in");
    assert_eq!(scene.coordinator.status().nodes[0].latency_us_p50, None, "nobody reported");
    let mut seen = NodeSeen { id: 1, connected: true, ..NodeSeen::default() };
    seen.read_latency.add(100, 98);
    let (quick, _) = scene.gateway(None);
    let (slow, _) = scene.gateway(None);
    let report = |seen: &NodeSeen| {
        let nodes = vec![NodeSeen { id: 0, connected: true, ..NodeSeen::default() }, seen.clone()];
        GatewayStatus { nodes, ..GatewayStatus::default() }
    };
    scene.report(quick, report(&seen));
    let mut seen = NodeSeen { id: 1, fail_slow: true, flagged_us: 30, redirect_count: 5, ..seen };
    seen.read_latency = LatencyHistogram::default();
    seen.write_latency.add(50_000, 2);
    scene.report(slow, report(&seen));
    let status = scene.coordinator.status();
    let [first, second] = &status.nodes[..] else { panic!("{status:?}") };
    assert_eq!((first.fail_slow, first.latency_us_p50), (false, None));
    assert_eq!((second.fail_slow, second.flagged_us, second.redirect_count), (true, 30, 5));
    assert_eq!((second.latency_us_p50, second.latency_us_p99), (Some(85), Some(40_000)));
    assert_eq!((second.read_latency_us_p99, second.write_latency_us_p50), (Some(100), Some(40_000)));
    assert_eq!((&status.gateways[0].nodes_fail_slow[..], &status.gateways[1].nodes_fail_slow[..]), (&[][..], &[1][..]));
}

#[test]
fn a_node_is_in_the_stage_that_the_last_of_the_living_owners_sees() {
    use NodeStage::{Coordinated, Degraded, Intermediate, Normal};
    let mut scene = Scene::new();
    scene.node(node(1, Some(0))).1.expect("let in");
    let stage = |scene: &Scene| scene.coordinator.status().nodes[0].stage;
    assert_eq!(stage(&scene), None, "nobody tells");
    let (first, _) = scene.gateway(None);
    let (second, _) = scene.gateway(None);
    let tell = |scene: &mut Scene, gateway, stage| {
        let nodes = vec![NodeSeen { id: 0, stage: Some(stage), ..NodeSeen::default() }];
        scene.tell(gateway, ToCoordinator::GatewayStatus(GatewayStatus { nodes, ..GatewayStatus::default() }));
    };
    tell(&mut scene, first, Normal);
    assert_eq!(stage(&scene), Some(Normal));
    for (one, other, of_both) in [
        (Intermediate, Normal, Intermediate),
        (Degraded, Intermediate, Intermediate),
        (Degraded, Degraded, Degraded),
        (Degraded, Coordinated, Degraded),
        (Normal, Coordinated, Coordinated),
        (Normal, Normal, Normal),
    ] {
        tell(&mut scene, first, one);
        tell(&mut scene, second, other);
        assert_eq!(stage(&scene), Some(of_both), "{one:?} and {other:?}");
    }
    tell(&mut scene, second, Intermediate);
    scene.handle(Input::Closed { connection: second });
    assert_eq!(stage(&scene), Some(Normal), "who is dead tells nothing");
}

#[test]
fn a_report_that_is_none_closes_the_connection() {
    let mut scene = Scene::new();
    let (gateway, _) = scene.gateway(None);
    let mut seen = NodeSeen { id: 1, ..NodeSeen::default() };
    seen.read_latency.classes = vec![(11, 1)];
    scene.report(gateway, GatewayStatus { nodes: vec![seen], ..GatewayStatus::default() });
    assert!(scene.outputs.contains(&Output::Close { connection: gateway }));
}

#[test]
fn a_node_that_a_gateway_reaches_is_not_given_up() {
    let mut scene = Scene::new();
    scene.node(node(1, Some(0))).1.expect("let in");
    let (gateway, _) = scene.gateway(None);
    for _ in 0..(DEAD_AFTER_MS + 3 * RETIRE_AFTER_MS) / 100 {
        scene.report(gateway, sees(&[0]));
        scene.pass_ms(100, &[]);
    }
    assert_eq!(scene.state(0), NodeState::Dead, "out of the coordinator's sight, and serving");
    for _ in 0..2 * RETIRE_AFTER_MS / 100 {
        scene.report(gateway, sees(&[]));
        scene.pass_ms(100, &[]);
    }
    assert_eq!(scene.state(0), NodeState::Retired);
}

impl Scene {
    /// A gateway tells all the while that it sees these nodes.
    fn pass_ms_seen(&mut self, ms: u64, gateway: ConnectionId, seen: &[u16]) {
        for _ in 0..ms / 100 {
            self.report(gateway, sees(seen));
            self.pass_ms(100, &[]);
        }
    }
}

/// Gateways miss its answers for a moment: that alone gives nobody up, however long the coordinator has not seen it.
#[test]
fn a_node_is_given_up_after_the_whole_time_without_an_answer_to_anybody() {
    let mut scene = Scene::new();
    scene.node(node(1, Some(0))).1.expect("let in");
    let (gateway, _) = scene.gateway(None);
    scene.pass_ms_seen(DEAD_AFTER_MS + RETIRE_AFTER_MS * 3 / 2, gateway, &[0]);
    scene.pass_ms_seen(RETIRE_AFTER_MS - 200, gateway, &[]);
    assert_eq!(scene.state(0), NodeState::Dead);
    scene.pass_ms_seen(RETIRE_AFTER_MS, gateway, &[0]);
    assert_eq!(scene.state(0), NodeState::Dead, "it answered in between");
    scene.pass_ms_seen(RETIRE_AFTER_MS + 200, gateway, &[]);
    assert_eq!(scene.state(0), NodeState::Retired);
}

#[test]
fn without_a_gateway_to_tell_no_node_is_given_up() {
    let mut scene = Scene::new();
    scene.node(node(1, Some(0))).1.expect("let in");
    scene.pass_ms(DEAD_AFTER_MS + 5 * RETIRE_AFTER_MS, &[]);
    assert_eq!(scene.state(0), NodeState::Dead);
}

#[test]
fn a_silent_node_is_suspect_then_dead_then_retired() {
    let mut scene = Scene::new();
    scene.node(node(1, Some(0))).1.expect("let in");
    scene.watcher = Some(scene.gateway(None).0);
    scene.pass_ms(SUSPECT_AFTER_MS - 1, &[]);
    assert_eq!(scene.state(0), NodeState::Normal);
    scene.pass_ms(1, &[]);
    assert_eq!(scene.state(0), NodeState::Suspect);
    scene.pass_ms(DEAD_AFTER_MS - SUSPECT_AFTER_MS, &[]);
    assert_eq!(scene.state(0), NodeState::Dead);
    scene.pass_ms(RETIRE_AFTER_MS - 1, &[]);
    assert_eq!(scene.state(0), NodeState::Dead);
    scene.pass_ms(1, &[]);
    assert_eq!(scene.state(0), NodeState::Retired);
    assert_eq!(scene.persisted.nodes[&0].retired_through, 1);
}

#[test]
fn heartbeats_keep_a_node_normal_and_bring_a_suspect_back() {
    let mut scene = Scene::new();
    let (beating, _) = scene.node(node(1, Some(0)));
    scene.pass_ms(60_000, &[beating]);
    assert_eq!(scene.state(0), NodeState::Normal);
    scene.pass_ms(SUSPECT_AFTER_MS, &[]);
    assert_eq!(scene.state(0), NodeState::Suspect);
    scene.tell(beating, ToCoordinator::NodeStatus(NodeStatus::default()));
    assert_eq!(scene.state(0), NodeState::Normal);
}

#[test]
fn a_closed_connection_is_a_death_and_the_same_memory_may_return() {
    let mut scene = Scene::new();
    let (connection, session) = scene.node(node(1, Some(0)));
    scene.handle(Input::Closed { connection });
    assert_eq!(scene.state(0), NodeState::Dead);
    let again = NodeRegistration { session: session.ok(), ..node(1, None) };
    assert_eq!(scene.node(again).1.expect("let in").node_id, NodeId(0));
    assert_eq!(scene.state(0), NodeState::Normal);
    scene.pass_ms(RETIRE_AFTER_MS, &[]);
    assert_ne!(scene.state(0), NodeState::Retired, "the death before counts no longer");
}

#[test]
fn a_retired_incarnation_must_wipe() {
    let mut scene = Scene::new();
    let (connection, session) = scene.node(node(4, Some(0)));
    scene.handle(Input::Closed { connection });
    scene.watcher = Some(scene.gateway(None).0);
    scene.pass_ms(RETIRE_AFTER_MS, &[]);
    let returning = NodeRegistration { session: session.ok(), ..node(4, Some(0)) };
    assert_eq!(scene.node(returning.clone()).1, Err(Refusal::Retired { retired_through: 4 }));
    let mut scene = scene.restart();
    assert_eq!(scene.node(returning).1, Err(Refusal::Retired { retired_through: 4 }), "also after a restart");
    assert_eq!(scene.node(node(5, Some(0))).1.expect("wiped").node_id, NodeId(0));
}

#[test]
fn a_new_life_of_a_node_retires_the_old_one() {
    let mut scene = Scene::new();
    let (connection, _) = scene.node(node(4, Some(0)));
    assert_eq!(scene.node(node(5, Some(0))).1, Err(Refusal::NodeIdTaken(0)), "the old one may be alive");
    scene.handle(Input::Closed { connection });
    scene.node(node(5, Some(0))).1.expect("the old one is dead");
    let view = scene.coordinator.view();
    assert_eq!((view.nodes.len(), view.nodes[0].incarnation), (1, Incarnation(5)));
    assert_eq!(scene.persisted.nodes[&0].retired_through, 4);
    let old = scene.node(node(4, Some(0))).1;
    assert_eq!(old, Err(Refusal::Retired { retired_through: 5 }), "whoever has the number by now");
}

/// Only the coordinator lost sight of it: it may serve, and would be struck out of sets of voters by another life.
#[test]
fn a_number_is_taken_while_gateways_reach_its_node() {
    let mut scene = Scene::new();
    let (connection, _) = scene.node(node(4, Some(0)));
    let (gateway, _) = scene.gateway(None);
    scene.report(gateway, sees(&[0]));
    scene.handle(Input::Closed { connection });
    scene.pass_ms_seen(REACH_TOLD_MS, gateway, &[0]);
    scene.report(gateway, sees(&[0]));
    assert_eq!(scene.node(node(5, Some(0))).1, Err(Refusal::NodeIdTaken(0)));
    scene.report(gateway, sees(&[]));
    scene.node(node(5, Some(0))).1.expect("nobody reaches the one before");
}

#[test]
fn a_node_that_is_restarted_is_let_in_though_gateways_have_not_missed_it_yet() {
    let mut scene = Scene::new();
    let (gateway, _) = scene.gateway(None);
    for life in 4..8 {
        let (connection, session) = scene.node(node(life, Some(0)));
        session.expect("the one before ended");
        scene.report(gateway, sees(&[0]));
        scene.pass_ms(REACH_TOLD_MS, &[connection]);
        scene.report(gateway, sees(&[0]));
        scene.handle(Input::Closed { connection });
        scene.report(gateway, sees(&[0]));
    }
}

#[test]
fn a_cluster_keeps_its_code_and_its_partitions() {
    let code = |name: &str| name.parse::<CodeShape>().expect("a code");
    let mut durable = Durable::new(CLUSTER.0);
    assert_eq!(durable.settle(code("rs:4+2"), None, 12), Ok(12));
    assert_eq!(durable.settle(code("rs:4+2"), None, 4), Ok(12), "gateways may become fewer");
    assert_eq!(durable.settle(code("rs:4+2"), Some(12), 4), Ok(12));
    let refused = durable.settle(code("rs:4+2"), Some(4), 4).expect_err("another number");
    assert!(refused.contains("--partitions 12"), "{refused}");
    let refused = durable.settle(code("rs:8+2"), None, 4).expect_err("another code");
    assert!(refused.contains("--code rs:4+2") && refused.contains("rs:8+2"), "{refused}");
    assert_eq!(Durable::new(1).settle(code("rs:4+2"), Some(7), 4), Ok(7));
}

#[test]
fn members_survive_a_restart_of_the_coordinator() {
    let mut scene = Scene::new();
    let (_, session) = scene.node(node(9, Some(3)));
    let mut scene = scene.restart();
    assert_eq!(scene.state(3), NodeState::Dead, "known, but not heard of yet");
    let returning = NodeRegistration { session: session.ok(), ..node(9, None) };
    assert_eq!(scene.node(returning).1.expect("let in").node_id, NodeId(3));
    assert_eq!(scene.state(3), NodeState::Normal);
}

#[test]
fn strangers_are_refused_with_the_reason() {
    let mut scene = Scene::new();
    let old = NodeRegistration { protocol_version: 0, ..node(1, None) };
    assert_eq!(scene.node(old).1, Err(Refusal::ProtocolVersion(CONTROL_PROTOCOL_VERSION)));
    let foreign = NodeSession { cluster_id: ClusterId(1), node_id: NodeId(0) };
    let foreign = NodeRegistration { session: Some(foreign), ..node(1, None) };
    assert_eq!(scene.node(foreign).1, Err(Refusal::OtherCluster(CLUSTER.0)));
    let long = NodeRegistration { address: "x".repeat(ADDRESS_BYTES_MAX + 1), ..node(1, None) };
    assert!(matches!(scene.node(long).1, Err(Refusal::Malformed(_))));
    assert!(matches!(scene.node(node(0, None)).1, Err(Refusal::Malformed(_))));
    assert!(scene.coordinator.view().nodes.is_empty());
}

#[test]
fn a_status_from_someone_unregistered_closes_the_connection() {
    let mut scene = Scene::new();
    let connection = scene.connect();
    scene.tell(connection, ToCoordinator::NodeStatus(NodeStatus::default()));
    assert_eq!(scene.outputs, [Output::Close { connection }]);
}

#[test]
fn a_second_registration_on_one_connection_ends_both() {
    let mut scene = Scene::new();
    let (connection, _) = scene.node(node(1, Some(0)));
    scene.tell(connection, ToCoordinator::RegisterNode(node(2, Some(1))));
    assert_eq!(scene.state(0), NodeState::Dead);
    assert!(scene.outputs.contains(&Output::Close { connection }));
}

#[test]
fn the_cluster_has_room_for_so_many_nodes_only() {
    let mut durable = Durable::new(1);
    for id in 0..NODE_COUNT_MAX as u16 {
        durable.nodes.insert(id, DurableNode { incarnation: 1, address: "a:1".into(), ..DurableNode::default() });
    }
    let mut scene = Scene::from_disk(durable);
    let full = scene.node(node(2, None)).1.expect_err("full");
    assert!(matches!(&full, Refusal::Full(_)) && full.to_string().contains("remove node"), "{full}");
    assert!(scene.node(node(2, Some(7))).1.is_ok(), "a known number has its place");
}

#[test]
fn a_node_that_was_taken_out_leaves_its_place() {
    let mut durable = Durable::new(1);
    for id in 0..NODE_COUNT_MAX as u16 {
        durable.nodes.insert(id, DurableNode { address: "a:1".into(), removed: id == 9, ..DurableNode::default() });
    }
    let mut scene = Scene::from_disk(durable);
    assert_eq!(scene.node(node(2, Some(9))).1, Err(Refusal::Removed(9)));
    assert_eq!(scene.node(node(2, None)).1.expect("room").node_id, NodeId(NODE_COUNT_MAX as u16));
    assert!(matches!(scene.node(node(3, None)).1, Err(Refusal::Full(_))));
}

#[test]
fn the_status_sums_what_live_gateways_report() {
    let mut scene = Scene::new();
    let (beating, welcome) = scene.node(node(1, Some(0)));
    welcome.expect("let in");
    scene.tell(beating, ToCoordinator::NodeStatus(NodeStatus { memory_used_bytes: 75, ..NodeStatus::default() }));
    let (gateway, _) = scene.gateway(None);
    let totals = StoreTotals { objects: 5, bytes_stored: 50, ..StoreTotals::default() };
    scene.report(gateway, GatewayStatus { serving: true, totals, ..GatewayStatus::default() });
    let asker = scene.connect();
    scene.outputs.clear();
    scene.tell(asker, ToCoordinator::ReadStatus);
    let answers = scene.sent_to(asker);
    let [FromCoordinator::Status(status)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((status.objects, status.bytes_stored, status.bytes_used), (5, 50, 75));
    assert_eq!(status.code, "rs:4+2");
    assert!(status.gateways[0].serving);
    assert_eq!(status.gateways[0].admin, None, "it has none of its own");
    scene.handle(Input::Closed { connection: gateway });
    let status = scene.coordinator.status();
    assert_eq!((status.objects, status.gateways[0].serving), (0, false));
    scene.pass_ms(FORGET_GATEWAY_AFTER_MS, &[]);
    assert!(scene.coordinator.status().gateways.is_empty());
}

/// Its welcome waits behind a save that takes longer than it does.
#[test]
fn a_gateway_that_was_not_answered_in_time_is_let_in_without_another_save() {
    let mut scene = Scene::new();
    let mut enter = |life| {
        let connection = scene.connect();
        scene.outputs.clear();
        let session = scene.register_gateway(connection, gateway_registration(None, life)).1.expect("let in").session;
        let is_saved = scene.outputs.iter().any(|output| matches!(output, Output::Persist(_)));
        scene.handle(Input::Closed { connection });
        (session.gateway_id, is_saved)
    };
    assert_eq!(enter(1), (0, true));
    assert_eq!(enter(1), (0, false));
    assert_eq!(enter(2), (1, true), "another one");
}

#[test]
fn a_dead_gateway_is_forgotten_once_another_serves_in_its_place() {
    let mut scene = Scene::new();
    let at = |life, memcached: &str, forward: &str| GatewayRegistration {
        memcached: Some(memcached.into()),
        forward: Some(forward.into()),
        ..gateway_registration(None, life)
    };
    let enter = |scene: &mut Scene, registration| {
        let connection = scene.connect();
        scene.register_gateway(connection, registration).1.expect("let in");
        connection
    };
    let ids = |scene: &Scene| -> Vec<u16> { scene.coordinator.status().gateways.iter().map(|one| one.id).collect() };
    let first = enter(&mut scene, at(1, "127.0.0.1:11211", "10.0.0.1:5000"));
    scene.handle(Input::Closed { connection: first });
    enter(&mut scene, at(2, "127.0.0.1:11211", "10.0.0.2:5000"));
    enter(&mut scene, at(3, "127.0.0.1:11212", "10.0.0.1:5001"));
    assert_eq!(ids(&scene), [0, 1, 2], "on another machine, and at another port");
    enter(&mut scene, at(4, "127.0.0.1:11211", "10.0.0.1:5002"));
    assert_eq!(ids(&scene), [1, 2, 3]);
    // One that lives is not replaced.
    enter(&mut scene, at(5, "127.0.0.1:11211", "10.0.0.1:5003"));
    assert_eq!(ids(&scene), [1, 2, 3, 4]);
}

/// A coordinator with a node that obeys (0) and one that does not (1), and their connections.
fn with_nodes() -> (Scene, ConnectionId, ConnectionId) {
    let mut scene = Scene::new();
    let (brave, _) = scene.node(node(1, Some(0)));
    let (meek, _) = scene.node(NodeRegistration { allows_chaos: false, ..node(1, Some(1)) });
    scene.outputs.clear();
    (scene, brave, meek)
}

impl Scene {
    fn order_chaos(&mut self, ticket: u64, member: u16, order: ChaosOrder) {
        let wanted = Wanted::Member(Order::Chaos(order));
        self.handle(Input::Order { ticket, member, wanted });
    }

    fn order_policy(&mut self, ticket: u64, member: u16, partition: Option<u16>, change: Change) {
        let order = Order::Policy(PolicyOrder { partition, change });
        self.handle(Input::Order { ticket, member, wanted: Wanted::Member(order) });
    }

    /// The order that a member was sent last.
    fn order_to(&self, to: ConnectionId) -> Option<(u64, Order)> {
        self.sent_to(to).into_iter().rev().find_map(|message| match message {
            FromCoordinator::Order { number, order } => Some((number, *order)),
            _ => None,
        })
    }

    /// The order to be faulty that a node was sent last.
    fn ordered(&self, to: ConnectionId) -> Option<(u64, ChaosOrder)> {
        match self.order_to(to)? {
            (number, Order::Chaos(order)) => Some((number, order)),
            other => panic!("{other:?} to a node"),
        }
    }

    fn answers(&self) -> Vec<(u64, Result<String, String>)> {
        let answers = self.outputs.iter().filter_map(|output| match output {
            Output::Answer { ticket, outcome } => Some((*ticket, outcome.clone())),
            _ => None,
        });
        answers.collect()
    }
}

fn obeyed(number: u64, outcome: &Result<String, String>) -> ToCoordinator {
    let chaos = ChaosStatus { delayed_total: 9, ..ChaosStatus::default() };
    ToCoordinator::Obeyed { number, outcome: outcome.clone(), chaos }
}

#[test]
fn an_order_goes_to_its_node_and_its_outcome_to_whoever_ordered() {
    let (mut scene, brave, meek) = with_nodes();
    scene.order_chaos(7, 0, ChaosOrder::Clear);
    scene.order_chaos(8, 0, ChaosOrder::Kill);
    let (number, order) = scene.ordered(brave).expect("sent");
    assert_eq!((order, scene.ordered(meek), scene.answers()), (ChaosOrder::Kill, None, vec![]));
    let outcome = Ok("no fault".to_owned());
    scene.tell(meek, obeyed(number - 1, &outcome));
    assert_eq!(scene.answers(), [], "not its order");
    for _ in 0..2 {
        scene.tell(brave, obeyed(number - 1, &outcome));
    }
    assert_eq!(scene.answers(), [(7, outcome)], "answered once");
    assert_eq!(scene.coordinator.status().nodes[0].chaos.delayed_total, 9, "known at once");
    scene.handle(Input::Closed { connection: brave });
    assert_eq!(scene.answers()[1..], [(8, Ok("killed".to_owned()))]);
}

#[test]
fn who_does_not_answer_is_not_waited_for() {
    let (mut scene, brave, _) = with_nodes();
    scene.order_chaos(1, 0, ChaosOrder::Clear);
    scene.pass_ms(ORDER_WITHIN_MS - 1, &[brave]);
    assert_eq!(scene.answers(), []);
    scene.pass_ms(1, &[brave]);
    assert!(
        matches!(&scene.answers()[..], [(1, Err(why))] if why.contains("2000 ms; it may obey yet")),
        "{:?}",
        scene.answers()
    );
    scene.order_chaos(2, 0, ChaosOrder::Clear);
    scene.handle(Input::Closed { connection: brave });
    assert_eq!(scene.answers()[1..], [(2, Err("it went away".to_owned()))]);
}

#[test]
fn orders_that_nobody_may_obey_are_refused_and_not_sent() {
    let (mut scene, brave, meek) = with_nodes();
    let mut refused = |node, order| {
        scene.outputs.clear();
        scene.order_chaos(1, node, order);
        assert_eq!((scene.ordered(brave), scene.ordered(meek)), (None, None));
        let [(1, Err(why))] = &scene.answers()[..] else { panic!("{:?}", scene.outputs) };
        why.clone()
    };
    assert_eq!(refused(1, ChaosOrder::Clear), "node 1 was not started with --allow-chaos");
    assert_eq!(refused(5, ChaosOrder::Clear), "there is no node 5");
    assert!(refused(0, ChaosOrder::FlipBits(FlipBits { count: 0 })).contains("number of bits"));
    scene.handle(Input::Closed { connection: brave });
    scene.order_chaos(2, 0, ChaosOrder::Kill);
    assert_eq!(scene.answers()[1..], [(2, Err("node 0 is dead".to_owned()))]);
    let settings = Settings { allow_chaos: false, ..settings() };
    scene.coordinator = Coordinator::new(scene.now, settings, scene.persisted.clone());
    scene.order_chaos(3, 0, ChaosOrder::Kill);
    assert_eq!(scene.answers()[2..], [(3, Err("the cluster was not started with --allow-chaos".to_owned()))]);
}

#[test]
fn a_change_of_policy_goes_to_its_gateway() {
    let mut scene = Scene::new();
    let (connection, welcome) = scene.gateway(None);
    let welcome = welcome.expect("let in");
    let (id, count) = (welcome.session.gateway_id, welcome.partition_count);
    let change = Change { policy: Some(PolicyName::Llf), ..Change::default() };
    scene.order_policy(4, id, Some(count - 1), change);
    let (number, order) = scene.order_to(connection).expect("sent");
    assert_eq!(order, Order::Policy(PolicyOrder { partition: Some(count - 1), change }));
    let outcome = Ok("done".to_owned());
    scene.tell(connection, obeyed(number, &outcome));
    assert_eq!(scene.answers(), [(4, outcome)]);
    let policies = vec![PolicySpan { first: 0, last: count - 1, policy: Policy::of(PolicyName::Llf) }];
    scene.report(connection, GatewayStatus { policies: policies.clone(), ..GatewayStatus::default() });
    assert_eq!(scene.coordinator.status().gateways[0].policies, policies);
}

#[test]
fn changes_of_policy_that_make_no_sense_are_refused() {
    let mut scene = Scene::new();
    let (connection, welcome) = scene.gateway(None);
    let welcome = welcome.expect("let in");
    let (id, count) = (welcome.session.gateway_id, welcome.partition_count);
    let change = Change { policy: Some(PolicyName::Llf), ..Change::default() };
    let cases = [
        (id, None, Change::default(), "nothing is to change".to_owned()),
        (id, Some(count), change, format!("there is no partition {count}: they are 0 to {}", count - 1)),
        (id + 1, None, change, format!("there is no gateway {}", id + 1)),
    ];
    for (member, partition, change, why) in cases {
        scene.outputs.clear();
        scene.order_policy(1, member, partition, change);
        assert_eq!((scene.order_to(connection), scene.answers()), (None, vec![(1, Err(why))]));
    }
}
