//! What a gateway tells of its cores, with cores that do as the test says.

use mio::{Poll, Token};
use shorttail_units::Incarnation;
use shorttail_wire::control::{GatewayEntry, TenureEntry, TenureState};

use super::limits::REPORT_US_MAX;
use super::*;
use crate::net::Inbox;

/// Cores whose inboxes nobody reads.
struct Idle {
    cores: Cores,
    inboxes: Vec<(Poll, Inbox<ToCore>)>,
}

impl Idle {
    fn new(core_count: usize) -> Self {
        let (inboxes, outlets) = net::inboxes(core_count, Token(0)).expect("event descriptors");
        let published = Published {
            clock: Clock::start(),
            gauges: (0..core_count).map(|_| Arc::default()).collect(),
            terms: Arc::default(),
            tallies: Arc::new(Tallies::new(core_count)),
            policies: PolicyDesk::default(),
            coding_set_nodes: None,
            is_draining: Arc::default(),
        };
        Idle { cores: Cores { outlets, published }, inboxes }
    }

    /// Of the only tenure.
    fn publish(&self, core: usize, state: TenureState) {
        let mut report = self.cores.published.gauges[core].published.lock().expect("no panic");
        report.shares = vec![Share { epoch: 7, state, proven_by: 1 }];
        report.at_us = self.cores.published.clock.now().mono_us;
    }

    fn standings(&self) -> Vec<(u32, TenureState, u32)> {
        let standings = self.cores.published.status().standings;
        standings.into_iter().map(|standing| (standing.epoch.0, standing.state, standing.proven_by)).collect()
    }
}

#[test]
fn a_tenure_is_not_served_while_a_core_has_not_read_the_terms_of_it() {
    let idle = Idle::new(2);
    assert_eq!(idle.standings(), []);
    let (_, terms) = crate::control::single_tenure(Epoch(7), 2);
    idle.cores.tell_terms(&Arc::from([terms]));
    assert_eq!(idle.standings(), [(7, TenureState::TakingOver, 0)]);
    for state in [TenureState::Serving, TenureState::LetGo] {
        idle.publish(0, state);
        assert_eq!(
            idle.standings(),
            [(7, TenureState::TakingOver, 0)],
            "{state:?}: core 1 would forget whom it follows"
        );
    }
    assert!(matches!(idle.inboxes[1].1.take(), Some(ToCore::Terms(_))), "it was told");
    idle.publish(1, TenureState::LetGo);
    assert_eq!(idle.standings(), [(7, TenureState::LetGo, 1)]);
}

#[test]
fn a_gateway_does_not_serve_while_a_core_has_not_begun_its_share() {
    let idle = Idle::new(1);
    // It serves all that it has: nothing.
    idle.cores.published.gauges[0].is_serving.store(true, std::sync::atomic::Ordering::Release);
    let (_, terms) = crate::control::single_tenure(Epoch(7), 2);
    idle.cores.tell_terms(&Arc::from([terms]));
    assert!(!idle.cores.is_serving());
    idle.publish(0, TenureState::Serving);
    assert!(idle.cores.is_serving());
}

/// Nodes may answer the other cores: the share of this one is never taken over. And chunks that it counted may be
/// others when it goes on.
#[test]
fn a_gateway_with_a_core_that_stands_still_reaches_no_node() {
    let idle = Idle::new(2);
    let published = &idle.cores.published;
    let reports = |at_us: u64| CoreReport {
        at_us,
        nodes: vec![NodeSeen { id: 3, connected: true, chunks_left: Some(0), ..NodeSeen::default() }],
        ..CoreReport::default()
    };
    let told = |node: &NodeSeen| (node.connected, node.chunks_left);
    let reached = |now_us: u64| published.status_at(now_us).nodes.iter().map(told).collect::<Vec<_>>();
    for (core, at_us) in [(0, 2 * REPORT_US_MAX), (1, 1_000)] {
        *published.gauges[core].published.lock().expect("no panic") = reports(at_us);
    }
    assert_eq!(reached(1_000 + REPORT_US_MAX), [(true, Some(0))]);
    assert_eq!(reached(1_001 + REPORT_US_MAX), [(false, None)], "it tells of the node all the same");
}

/// One that owns nothing passes on all that its clients ask.
#[test]
fn a_gateway_without_a_tenure_tells_of_messages_that_were_hurt() {
    let idle = Idle::new(2);
    let published = &idle.cores.published;
    for (core, hurt_total) in [(0, 2), (1, 3)] {
        *published.gauges[core].published.lock().expect("no panic") =
            CoreReport { hurt_total, ..CoreReport::default() };
    }
    assert_eq!(published.status_at(0).totals.messages_damaged_total, 5);
}

#[test]
fn a_core_that_stands_still_is_proven_no_more() {
    let share = Share { epoch: 7, state: TenureState::Serving, proven_by: 2 };
    let report = CoreReport { shares: vec![share], at_us: 1_000, ..CoreReport::default() };
    let proven_by = |now_us: u64| report.shares_at(now_us).map(|share| share.proven_by).collect::<Vec<_>>();
    assert_eq!(proven_by(0), [2], "it reads its clock before it is read");
    assert_eq!(proven_by(1_000 + REPORT_US_MAX), [2]);
    assert_eq!(proven_by(1_001 + REPORT_US_MAX), [0]);
    assert_eq!(report.shares_at(u64::MAX).next().map(|share| share.state), Some(TenureState::Serving));
}

/// A node takes a session that is meant for another one for its own.
#[test]
fn a_dead_node_is_not_looked_for_where_another_one_listens() {
    let node = |id: u16, port: u16, state: NodeState| NodeEntry {
        id: NodeId(id),
        address: format!("10.0.0.5:{port}"),
        state,
        incarnation: Incarnation(1),
        domain: String::new(),
        draining: false,
        removed: false,
    };
    let nodes = vec![
        node(3, 7001, NodeState::Dead),
        node(4, 7002, NodeState::Dead),
        node(5, 7003, NodeState::Retired),
        node(8, 7001, NodeState::Suspect),
        node(9, 7004, NodeState::Normal),
    ];
    let known = addresses(&View { nodes, ..View::default() });
    assert_eq!(known.into_keys().collect::<Vec<_>>(), [4, 8, 9].map(NodeId));
}

/// A balancer is to have somewhere to send clients.
#[test]
fn a_gateway_that_is_drained_leaves_only_if_another_one_stays() {
    let gateway = |id, is_alive, draining| GatewayEntry { id, is_alive, draining, ..GatewayEntry::default() };
    let leaves = |gateways: &[GatewayEntry]| is_to_leave(&View { gateways: gateways.to_vec(), ..View::default() }, 1);
    assert!(leaves(&[gateway(1, true, true), gateway(2, true, false)]));
    assert!(!leaves(&[gateway(1, true, false), gateway(2, true, false)]));
    assert!(!leaves(&[gateway(1, true, true), gateway(2, false, false)]), "it is dead");
    assert!(!leaves(&[gateway(1, true, true), gateway(2, true, true)]), "it leaves, too");
    assert!(!leaves(&[gateway(1, true, true)]) && !leaves(&[gateway(2, true, false)]));
}

#[test]
fn gateways_that_a_new_coordinator_has_yet_to_hear_are_there() {
    let gateway = |id, is_alive, draining| GatewayEntry { id, is_alive, draining, ..GatewayEntry::default() };
    let tenure = |gateway| TenureEntry { epoch: Epoch(1), gateway, partitions: vec![0] };
    let view = |gateways: &[GatewayEntry], tenures: &[TenureEntry]| {
        has_others(&View { gateways: gateways.to_vec(), tenures: tenures.to_vec(), ..View::default() }, 1)
    };
    let me = gateway(1, true, true);
    assert!(!view(std::slice::from_ref(&me), &[tenure(1)]));
    assert!(view(std::slice::from_ref(&me), &[tenure(1), tenure(2)]), "it owns something, and is not heard yet");
    assert!(!view(&[me.clone(), gateway(2, false, false)], &[tenure(2)]), "it is dead");
    assert!(!view(&[me.clone(), gateway(2, true, true)], &[tenure(2)]), "it leaves, too");
    assert!(view(&[me, gateway(2, true, false)], &[]));
}
