//! Scenarios: what is done for all nodes at once is what would be done for each, and as seldom as it may.

use super::*;
use crate::members::GatewayMember;

/// More than are looked at after each heartbeat.
const COUNT: u16 = LOOKED_AT_ONCE_MAX as u16 + 36;

/// All nodes, and two gateways.
struct Crowd {
    scene: Scene,
    nodes: Vec<ConnectionId>,
    gateways: [ConnectionId; 2],
}

impl Crowd {
    fn new() -> Self {
        let mut scene = Scene::with(Settings { node_count_expected: COUNT, ..settings() }, Durable::new(77));
        let nodes = (0..COUNT).map(|id| scene.node(node(1, Some(id))).0).collect();
        let gateways = [scene.gateway(None).0, scene.gateway(None).0];
        assert_eq!(scene.persisted.tenures.len(), 1, "the first owns everything");
        Crowd { scene, nodes, gateways }
    }

    /// The gateways serve what they own, or take it over, and tell this of each node.
    fn report(&mut self, state: TenureState, tell: &mut dyn FnMut(u16) -> NodeSeen, lost_of_readable_max: u64) {
        for (place, connection) in self.gateways.into_iter().enumerate() {
            let Some(&crate::coordinator::Member::Gateway(id)) = self.scene.coordinator.connections.get(&connection)
            else {
                continue;
            };
            let own = self.scene.persisted.tenures.iter().filter(|(_, tenure)| tenure.gateway == id);
            let standing = |(&epoch, tenure): (&u32, &DurableTenure)| Standing {
                epoch: shorttail_units::Epoch(epoch),
                proven_by: tenure.terms,
                state,
            };
            let standings = own.map(standing).collect();
            let nodes = (0..COUNT).map(&mut *tell).collect();
            let lost_of_readable_max = if place == 0 { lost_of_readable_max } else { 0 };
            let totals = StoreTotals { lost_of_readable_max, ..StoreTotals::default() };
            let status = GatewayStatus { standings, nodes, totals, ..GatewayStatus::default() };
            self.scene.tell(connection, ToCoordinator::GatewayStatus(status));
        }
    }

    fn retired(&self) -> usize {
        let view = self.scene.coordinator.view();
        view.nodes.iter().filter(|node| node.state == NodeState::Retired).count()
    }
}

/// The same numbers in every run.
struct Draws(u64);

impl Draws {
    fn draw(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// As decision 0013 says it: of each node by itself.
fn lost_at_worst(coordinator: &Coordinator, beside: u16) -> usize {
    let told = coordinator.living().map(|gateway| gateway.status.totals.lost_of_readable_max as usize);
    let told = told.max().unwrap_or(0);
    let others = || coordinator.nodes.iter().filter(|&(&id, _)| id != beside);
    let untold = others().filter(|(_, node)| coordinator.is_loss_untold(node)).count();
    if coordinator.can_tell_losses() {
        return told + untold;
    }
    let may_miss = |id: &u16| coordinator.durable.nodes[id].may_miss();
    let all = others().filter(|(id, node)| may_miss(id) || coordinator.is_loss_untold(node)).count();
    all.min(coordinator.settings.code.tolerance()).max(told + untold)
}

#[test]
fn what_is_looked_up_for_all_nodes_is_so_for_each() {
    let mut draws = Draws(7);
    for round in 0..40 {
        let mut crowd = Crowd::new();
        let state = if round % 4 == 0 { TenureState::TakingOver } else { TenureState::Serving };
        let lost = draws.draw(3);
        let mut tell = |id| NodeSeen {
            id,
            connected: draws.draw(2) > 0,
            chunks_left: [None, Some(0), Some(0), Some(3)][draws.draw(4) as usize],
            ..NodeSeen::default()
        };
        crowd.report(state, &mut tell, lost);
        if round % 5 == 0 {
            crowd.scene.handle(Input::Closed { connection: crowd.gateways[round % 2] });
        }
        let coordinator = &mut crowd.scene.coordinator;
        for (id, node) in &mut coordinator.nodes {
            if draws.draw(2) > 0 {
                node.presence.apply(coordinator.now_us, crate::lifecycle::Event::ConnectionClosed);
            }
            node.given_up_us = [None, Some(coordinator.now_us)][draws.draw(8) as usize / 7];
            node.is_met = draws.draw(8) > 0;
            coordinator.durable.nodes.get_mut(id).expect("every member").retired_through = draws.draw(8) / 7;
        }
        let told = coordinator.told_of_nodes();
        for &id in coordinator.nodes.keys() {
            let is_told = coordinator.living().any(|gateway| gateway.has_told);
            let sees = |gateway: &crate::members::GatewayMember| {
                gateway.has_told && gateway.status.nodes.iter().any(|seen| seen.id == id && seen.connected)
            };
            assert_eq!(told.may_be_serving(id), !is_told || coordinator.living().any(sees), "round {round}, node {id}");
            assert_eq!(coordinator.is_empty_as(&told, id), coordinator.is_empty(id), "round {round}, node {id}");
            assert_eq!(coordinator.lost_at_worst(id), lost_at_worst(coordinator, id), "round {round}, node {id}");
        }
    }
}

/// Each heartbeat of the others would have all of them gone through.
#[test]
fn nodes_that_are_waited_for_are_gone_through_now_and_then() {
    const AWAY: u16 = 40;
    let mut crowd = Crowd::new();
    let mut told = [Some(5); AWAY as usize];
    let tell = |told: [Option<u64>; AWAY as usize]| {
        move |id: u16| NodeSeen {
            id,
            connected: id >= AWAY,
            chunks_left: told.get(usize::from(id)).copied().flatten(),
            ..NodeSeen::default()
        }
    };
    let there = crowd.nodes.split_off(usize::from(AWAY));
    let pass_ms = |crowd: &mut Crowd, ms: u64, told, lost| {
        for _ in 0..ms / HEARTBEAT_MS {
            crowd.scene.pass_ms(HEARTBEAT_MS, &there);
            crowd.report(TenureState::Serving, &mut tell(told), lost);
        }
    };
    pass_ms(&mut crowd, SETTLED_MS, told, 0);
    for &connection in &crowd.nodes.clone() {
        crowd.scene.handle(Input::Closed { connection });
    }
    pass_ms(&mut crowd, RETIRE_AFTER_MS + 1_000, told, 0);
    pass_ms(&mut crowd, LOSS_TOLD_MS, told, 2);
    assert_eq!(crowd.retired(), 2, "as many as may be missing");
    let counts = |crowd: &Crowd| [crowd.scene.coordinator.look_count(), crowd.scene.coordinator.due_count()];
    let [looks, dues] = counts(&crowd);
    for beat in 0..HEARTBEAT_MS {
        crowd.scene.pass_ms(1, &[]);
        crowd.scene.tell(there[beat as usize % there.len()], ToCoordinator::NodeStatus(NodeStatus::default()));
    }
    let [looks, dues] = [counts(&crowd)[0] - looks, counts(&crowd)[1] - dues];
    assert!(looks >= HEARTBEAT_MS && (2..=1 + HEARTBEAT_MS / DUE_EVERY_MS).contains(&dues), "{looks} {dues}");

    // What is owed is done though nobody is heard any more.
    told[7] = Some(0);
    crowd.report(TenureState::Serving, &mut tell(told), 2);
    told[8] = Some(0);
    crowd.report(TenureState::Serving, &mut tell(told), 2);
    crowd.scene.pass_ms(DUE_EVERY_MS, &[]);
    assert_eq!(crowd.retired(), 4, "and those that hold nothing");
}

#[test]
fn what_the_status_sums_up_for_all_nodes_is_so_for_each() {
    let mut draws = Draws(8);
    for round in 0..8 {
        let mut crowd = Crowd::new();
        let mut tell = |id| {
            let mut seen = NodeSeen {
                // Some are told of by nobody.
                id: if draws.draw(4) > 0 { id } else { COUNT },
                fail_slow: draws.draw(3) > 0,
                redirect_count: draws.draw(9),
                flagged_us: draws.draw(9),
                chunks_left: [None, Some(0)][draws.draw(2) as usize],
                ..NodeSeen::default()
            };
            seen.read_latency.add(100 << draws.draw(4), 1 + draws.draw(3));
            seen
        };
        for _ in 0..3 {
            crowd.scene.now.mono_us += 10_000_000;
            crowd.report(TenureState::Serving, &mut tell, 0);
        }
        if round % 2 == 0 {
            crowd.scene.handle(Input::Closed { connection: crowd.gateways[1] });
        }
        crowd.nodes[..9].iter().for_each(|&connection| crowd.scene.handle(Input::Closed { connection }));
        let coordinator = &crowd.scene.coordinator;
        for entry in coordinator.status().nodes {
            let of_node = |seen: &&NodeSeen| seen.id == entry.id;
            let of_gateway = |gateway: &GatewayMember| gateway.counted().find(|&(id, _)| id == entry.id);
            let all: Vec<_> =
                coordinator.gateways.values().filter_map(of_gateway).map(|(_, counted)| counted).collect();
            let redirects = all.iter().map(|counted| counted.redirect_count).sum();
            assert_eq!(entry.redirect_count, redirects, "node {}", entry.id);
            assert_eq!(entry.flagged_us, all.iter().map(|counted| counted.flagged_us).max().unwrap_or(0));
            let mut recent = LatencyHistogram::default();
            let mut is_slow = false;
            for gateway in coordinator.living() {
                for seen in gateway.status.nodes.iter().filter(of_node) {
                    let seen = &gateway.recent.of(std::slice::from_ref(seen))[0];
                    (recent, is_slow) = (recent.plus(&seen.read_latency), is_slow || seen.fail_slow);
                }
            }
            assert_eq!((entry.fail_slow, entry.read_latency_us_p50), (is_slow, recent.percentile_us(500_000)));
            assert_eq!(entry.rebuilt, entry.state == NodeState::Dead && coordinator.is_empty(entry.id));
        }
    }
}

/// As when a leader follows another one, and all come to it.
#[test]
fn nodes_that_come_together_share_looks_and_are_looked_at_soon() {
    let mut scene = Crowd::new().scene.restart();
    (0..COUNT).for_each(|id| _ = scene.node(node(1, Some(id))).1.expect("let in"));
    assert!(scene.coordinator.look_count() <= 1, "{}", scene.coordinator.look_count());
    let due_us = scene.coordinator.poll_deadline().expect("a look is owed");
    assert!(due_us <= scene.now.mono_us + u64::from(COUNT) * LOOK_LATER_US);
    assert!(scene.coordinator.view().nodes.iter().all(|node| node.state == NodeState::Normal), "known at once");
}
