//! Scenarios: clusters as large as they may be.

use std::sync::Arc;

use crate::candidate::State;

use super::*;

const TENURE_COUNT: u16 = 1024;
const LIFE: u64 = 9;

/// Nodes as many as there may be, and one gateway whose tenures have a partition each and wait for other voters.
fn large() -> Durable {
    let mut durable = Durable::new(CLUSTER.0);
    let incarnation = |id: u16| (1 << 60) + u64::from(id);
    let set = |skipped: u16| -> Vec<DurableVoter> {
        (0..NODE_COUNT_MAX as u16).filter(|&id| id != skipped).map(|id| (id, incarnation(id))).collect()
    };
    let node = |id| DurableNode { incarnation: incarnation(id), address: format!("n{id}:1"), ..DurableNode::default() };
    durable.nodes = (0..NODE_COUNT_MAX as u16).map(|id| (id, node(id))).collect();
    durable.epoch = u32::from(TENURE_COUNT);
    let tenure = |partition| DurableTenure {
        gateway_life: LIFE,
        partitions: vec![partition],
        terms: 1,
        voters: vec![set(u16::MAX)],
        before: vec![set(partition % 3)],
        ..DurableTenure::default()
    };
    durable.tenures = (0..TENURE_COUNT).map(|partition| (1 + u32::from(partition), tenure(partition))).collect();
    durable
}

#[test]
fn terms_of_very_many_tenures_and_nodes_are_told() {
    let settings = Settings { partition_count: TENURE_COUNT, ..settings() };
    let mut coordinator = Coordinator::new(Now::default(), settings, large());
    let session = GatewaySession { cluster_id: CLUSTER, gateway_id: 0 };
    let message = ToCoordinator::RegisterGateway(gateway_registration(Some(session), LIFE));
    coordinator.handle(Now::default(), Input::Message { connection: ConnectionId(1), message });
    let sent = std::iter::from_fn(|| coordinator.poll_output()).filter_map(|output| match output {
        Output::Send { message, .. } => Some(message),
        _ => None,
    });
    let mut told = None;
    for message in sent {
        let mut stream = Vec::new();
        put_message(&mut stream, &message).expect("no message is longer than any");
        assert_eq!(next_message(&stream), Ok(Some((message, stream.len()))));
        if let Ok(Some((FromCoordinator::Terms(terms), _))) = next_message(&stream) {
            told = Some(terms);
        }
    }
    let told = told.expect("it has tenures");
    assert_eq!(told.len(), usize::from(TENURE_COUNT));
    for (one, other) in told.iter().zip(&told[3..]) {
        assert_eq!((one.voters.len(), one.before[0].len()), (NODE_COUNT_MAX, NODE_COUNT_MAX - 1));
        assert!(Arc::ptr_eq(&one.voters, &other.voters) && Arc::ptr_eq(&one.before[0], &other.before[0]));
    }
}

/// As when power is back: each changes the state, which is as long as they are many, and it is copied once.
#[test]
fn what_is_saved_of_many_that_come_at_once_is_copied_once() {
    let mut durable = large();
    durable.tenures.clear();
    let mut coordinator = Coordinator::new(Now::default(), settings(), durable);
    for id in 0..NODE_COUNT_MAX as u16 {
        let message = ToCoordinator::RegisterNode(node(1 << 61, Some(id)));
        coordinator.handle(Now::default(), Input::Message { connection: ConnectionId(10 + u64::from(id)), message });
    }
    assert_eq!(coordinator.copy_count(), 0, "nobody takes it yet");
    let Some(Output::Persist(saved)) = coordinator.poll_output() else { panic!("it is saved first") };
    assert!(saved.nodes.values().all(|node| node.incarnation == 1 << 61), "as the last of them left it");
    while coordinator.poll_output().is_some() {}
    assert_eq!(coordinator.copy_count(), 1);
}

/// Nothing that rests on it leaves before, and nothing that came before waits for it.
#[test]
fn what_is_saved_keeps_its_place_among_what_is_told() {
    let mut coordinator = Coordinator::new(Now::default(), settings(), Durable::new(CLUSTER.0));
    let tell = |coordinator: &mut Coordinator, connection: u64, message| {
        coordinator.handle(Now::default(), Input::Message { connection: ConnectionId(connection), message });
    };
    tell(&mut coordinator, 1, ToCoordinator::ReadStatus);
    tell(&mut coordinator, 2, ToCoordinator::RegisterNode(node(1, Some(0))));
    tell(&mut coordinator, 3, ToCoordinator::ReadStatus);
    tell(&mut coordinator, 4, ToCoordinator::RegisterNode(node(1, Some(1))));
    let mut place = || match coordinator.poll_output() {
        Some(Output::Persist(durable)) => (0, durable.nodes.len()),
        Some(Output::Send { connection, .. }) => (connection.0, 0),
        other => panic!("{other:?}"),
    };
    assert_eq!([place(), place(), place(), place(), place()], [(1, 0), (0, 2), (2, 0), (3, 0), (4, 0)]);
    // One that left already is as it was.
    tell(&mut coordinator, 5, ToCoordinator::RegisterNode(node(1, Some(2))));
    assert!(coordinator.is_to_save());
    assert!(matches!(coordinator.poll_output(), Some(Output::Persist(durable)) if durable.nodes.len() == 3));
    assert!(!coordinator.is_to_save());
}

/// As when a rack gets its power back: what changed is told once, not once for each.
#[test]
fn members_who_come_and_leave_at_once_are_told_of_all_of_them_in_one_view() {
    const COUNT: u16 = 300;
    let mut seat = Seat::new(settings(), Some(4));
    seat.begin_reign(Now::default(), 1, State::Known(Durable::new(CLUSTER.0)), CLUSTER.0, None)
        .expect("the same cluster");
    let connection = |id: u16| ConnectionId(10 + u64::from(id));
    for id in 0..COUNT {
        let message = ToCoordinator::RegisterNode(node(1, Some(id)));
        seat.handle(Now::default(), Input::Message { connection: connection(id), message });
    }
    let outputs = put_out(&mut seat);
    let saves = outputs.iter().filter(|output| matches!(output, Output::Persist(_)));
    assert_eq!(saves.count(), 1);
    assert_eq!(alive_in_views(&outputs), [300; 300]);
    for id in 100..COUNT {
        seat.handle(Now::default(), Input::Closed { connection: connection(id) });
    }
    assert_eq!(alive_in_views(&put_out(&mut seat)), [100; 100]);
}

/// Others are not kept waiting for as long as more come.
#[test]
fn members_are_told_of_those_that_came_while_more_and_more_come() {
    let mut seat = Seat::new(settings(), Some(4));
    seat.begin_reign(Now::default(), 1, State::Known(Durable::new(CLUSTER.0)), CLUSTER.0, None)
        .expect("the same cluster");
    let mut view_count = 0;
    for id in 0..300 {
        let now = Now { mono_us: u64::from(id) * 10_000, ..Now::default() };
        let message = ToCoordinator::RegisterNode(node(1, Some(id)));
        seat.handle(now, Input::Message { connection: ConnectionId(10 + u64::from(id)), message });
        // The store has each a moment after the next one came.
        seat.handle_saved(1);
        while let Some(output) = seat.poll_output(now.mono_us) {
            let to_first = |output: &Output| matches!(output, Output::Send { connection: ConnectionId(10), .. });
            view_count += usize::from(to_first(&output));
        }
    }
    assert!((20..60).contains(&view_count), "{view_count} in three seconds");
}

/// With a store that has everything at once.
fn put_out(seat: &mut Seat) -> Vec<Output> {
    let mut outputs = Vec::new();
    while let Some(output) = seat.poll_output(0) {
        seat.handle_saved(1);
        outputs.push(output);
    }
    outputs
}

/// How many nodes are alive, by each view that a member is told.
fn alive_in_views(outputs: &[Output]) -> Vec<usize> {
    let views = outputs.iter().filter_map(|output| match output {
        Output::Send { message: FromCoordinator::View(view), .. } => Some(view),
        _ => None,
    });
    let alive = |view: &Arc<View>| view.nodes.iter().filter(|node| node.state == NodeState::Normal).count();
    views.map(alive).collect()
}

/// Heartbeats are the more the more nodes there are, and so is what a look costs.
#[test]
fn many_nodes_that_beat_are_looked_at_together_and_one_that_does_not_is_found() {
    const COUNT: u16 = 1_000;
    const BEAT_US: u64 = 500_000;
    let look_every_us = u64::from(COUNT) * LOOK_LATER_US;
    let mut coordinator = Coordinator::new(Now::default(), settings(), Durable::new(CLUSTER.0));
    let handle = |coordinator: &mut Coordinator, mono_us, input| {
        coordinator.handle(Now { mono_us, ..Now::default() }, input);
        while coordinator.poll_output().is_some() {}
    };
    let connection = |id: u16| ConnectionId(10 + u64::from(id));
    for id in 0..COUNT {
        let message = ToCoordinator::RegisterNode(node(1, Some(id)));
        handle(&mut coordinator, 0, Input::Message { connection: connection(id), message });
    }
    let (looks, mut suspect_us) = (coordinator.look_count(), None);
    let until_us = 2 * SUSPECT_AFTER_MS * 1000;
    for beat in 0..until_us / BEAT_US {
        for id in 1..COUNT {
            let now_us = beat * BEAT_US + u64::from(id) * BEAT_US / u64::from(COUNT);
            while let Some(due_us) = coordinator.poll_deadline().filter(|&due_us| due_us <= now_us) {
                handle(&mut coordinator, due_us, Input::Deadline);
            }
            let message = ToCoordinator::NodeStatus(NodeStatus::default());
            let look_count = coordinator.look_count();
            handle(&mut coordinator, now_us, Input::Message { connection: connection(id), message });
            let is_soon = coordinator.poll_deadline().is_some_and(|due_us| due_us <= now_us + look_every_us);
            assert!(is_soon || coordinator.look_count() > look_count, "whatever comes or does not come");
            let is_suspect = coordinator.nodes[&0].presence.state == NodeState::Suspect;
            suspect_us = suspect_us.or(is_suspect.then_some(now_us));
        }
    }
    let looks = coordinator.look_count() - looks;
    assert!(looks <= until_us / look_every_us + until_us / BEAT_US, "{looks}");
    let suspect_us = suspect_us.expect("it is silent");
    let late_us = suspect_us.checked_sub(SUSPECT_AFTER_MS * 1000).expect("not before its time");
    assert!(late_us <= look_every_us + BEAT_US / u64::from(COUNT), "{late_us}");
    coordinator.check_invariants();
    assert!(coordinator.view().nodes[1..].iter().all(|node| node.state == NodeState::Normal));
}

/// It is late for its looks again and again, as it has much to do; nobody was late because of that.
#[test]
fn a_coordinator_of_many_nodes_that_is_often_late_finds_a_silent_gateway() {
    const COUNT: u16 = LOOKED_AT_ONCE_MAX as u16 + 1;
    const GAP_MS: u64 = STOOD_STILL_MS + 50;
    let mut scene = Scene::new();
    let nodes: Vec<ConnectionId> = (0..COUNT).map(|id| scene.node(node(1, Some(id))).0).collect();
    let (_, welcome) = scene.gateway(None);
    let silent = welcome.expect("let in").session.gateway_id;
    for _ in 0..2 * GATEWAY_DEAD_AFTER_MS / GAP_MS {
        scene.now.mono_us += GAP_MS * 1000;
        nodes.iter().for_each(|&node| scene.tell(node, ToCoordinator::NodeStatus(NodeStatus::default())));
    }
    assert!(!scene.coordinator.status().gateways.iter().any(|entry| entry.id == silent && entry.state.is_alive()));
}

#[test]
fn a_coordinator_of_many_nodes_that_stood_still_itself_forgives() {
    let mut scene = Scene::new();
    let nodes: Vec<ConnectionId> = (0..=LOOKED_AT_ONCE_MAX as u16).map(|id| scene.node(node(1, Some(id))).0).collect();
    nodes.iter().for_each(|&node| scene.tell(node, ToCoordinator::NodeStatus(NodeStatus::default())));
    scene.now.mono_us += 2 * DEAD_AFTER_MS * 1000;
    scene.tell(nodes[0], ToCoordinator::NodeStatus(NodeStatus::default()));
    scene.handle(Input::Deadline);
    assert!(scene.coordinator.view().nodes.iter().all(|node| node.state == NodeState::Normal));
}
