//! Scenarios: the metadata store is away for longer than anything is waited for.

use crate::candidate::State;

use super::*;

impl Stage {
    fn lose_store(&mut self, is_away: bool) {
        self.scene.coordinator.hold(is_away);
    }
}

/// Two gateways; the first is to hand over what it has. By them, and what it has.
fn of_two() -> (Stage, u16, u16) {
    let mut stage = Stage::new(2, 8);
    let (old, new) = (stage.join(), stage.join());
    stage.serve();
    (stage, old, new)
}

/// They hear only then that they are to: the owner would let go for nobody that knows what it had.
#[test]
fn heirs_have_time_to_prepare_once_the_store_is_there_again() {
    let (mut stage, old, new) = of_two();
    stage.drain(old);
    stage.lose_store(true);
    stage.pass_ms(2 * PREPARE_MS_MAX);
    assert_eq!(stage.lets_go(old), []);
    stage.lose_store(false);
    stage.pass_ms(PREPARE_MS_MAX - 200);
    assert_eq!(stage.lets_go(old), []);
    stage.prepare();
    assert_eq!((stage.lets_go(old), stage.loads()[&new]), (vec![1], 4));
}

#[test]
fn who_is_prepared_is_followed_to_when_the_store_is_there_again() {
    let (mut stage, old, _) = of_two();
    stage.drain(old);
    stage.lose_store(true);
    stage.prepare();
    assert_eq!(stage.lets_go(old), [], "nobody could follow");
    stage.lose_store(false);
    stage.beat();
    assert_eq!(stage.lets_go(old), [1]);
}

/// It goes on to beat, as it does not know that it is taken for dead.
#[test]
fn a_connection_that_cannot_be_closed_yet_is_closed_once() {
    let mut seat = Seat::new(settings(), Some(4));
    let mut now = Now::default();
    seat.begin_reign(now, 1, State::Known(Durable::new(77)), 77, None).expect("the same cluster");
    let tell = |seat: &mut Seat, now: Now, connection: u64, message: ToCoordinator| {
        seat.handle(now, Input::Message { connection: ConnectionId(connection), message });
    };
    tell(&mut seat, now, 1, ToCoordinator::RegisterNode(node(1, Some(0))));
    tell(&mut seat, now, 2, ToCoordinator::RegisterGateway(gateway_registration(None, 9)));
    while seat.poll_output(0).is_some() {
        seat.handle_saved(1);
    }
    tell(&mut seat, now, 3, ToCoordinator::RegisterNode(node(1, Some(1))));
    assert!(matches!(seat.poll_output(0), Some(Output::Persist(_))), "the store is not to have it for long");
    for _ in 0..2 * DEAD_AFTER_MS / HEARTBEAT_MS {
        now.mono_us += HEARTBEAT_MS * 1000;
        tell(&mut seat, now, 2, ToCoordinator::GatewayStatus(sees(&[])));
    }
    for connection in [1, 3, 1, 3, 1] {
        tell(&mut seat, now, connection, ToCoordinator::NodeStatus(NodeStatus::default()));
        tell(&mut seat, now, connection, ToCoordinator::RegisterNode(node(1, Some(2))));
    }
    seat.handle_saved(1);
    let mut closed = Vec::new();
    while let Some(output) = seat.poll_output(now.mono_us) {
        seat.handle_saved(1);
        closed.extend(if let Output::Close { connection } = output { Some(connection.0) } else { None });
    }
    assert_eq!(closed, [1, 3]);
    assert_eq!(seat.machine().expect("it leads").view().nodes.len(), 2, "nor is it another member");
}

impl Stage {
    fn is_known(&self, id: u16) -> bool {
        self.scene.coordinator.status().gateways.iter().any(|entry| entry.id == id)
    }
}

/// It is let in when the store is there again, and has as long for that as at any other time.
#[test]
fn a_gateway_that_cannot_come_back_is_not_forgotten_nor_is_its_drain() {
    let (mut stage, old, _) = of_two();
    stage.drain(old);
    stage.close(old);
    stage.gateways.get_mut(&old).expect("known").is_silent = true;
    stage.pass_ms(FORGET_GATEWAY_AFTER_MS / 2);
    stage.lose_store(true);
    stage.pass_ms(2 * FORGET_GATEWAY_AFTER_MS);
    stage.lose_store(false);
    stage.pass_ms(FORGET_GATEWAY_AFTER_MS / 2 - 200);
    assert!(stage.is_known(old) && stage.scene.persisted.draining.contains(&old));
    stage.pass_ms(1_000);
    assert!(!stage.is_known(old) && stage.scene.persisted.draining.contains(&old));
}

/// It is as if that one began only then.
#[test]
fn gateways_have_time_to_come_back_to_a_coordinator_that_began_without_its_store() {
    let (stage, late, first) = of_two();
    let owners = stage.owners();
    let mut stage = stage.restart();
    stage.gateways.values_mut().for_each(|actor| actor.is_silent = true);
    stage.lose_store(true);
    stage.pass_ms(2 * FORGET_GATEWAY_AFTER_MS);
    stage.lose_store(false);
    for (id, passed_ms) in [(first, GATEWAY_RETURN_MS - 200), (late, 2 * GATEWAY_RETURN_MS)] {
        stage.return_of(id).expect("let in");
        stage.silence(id, false);
        stage.serve();
        stage.pass_ms(passed_ms);
        assert_eq!(stage.owners(), owners);
    }
}

/// Members of a coordinator whose lease is over go to the one that leads, one after the other. Those that are still
/// here are not told that the others are dead: they would give up what they asked of them.
#[test]
fn who_leaves_a_coordinator_that_may_not_lead_is_not_told_to_be_dead() {
    let (mut stage, first, _) = of_two();
    let connection = stage.scene.coordinator.gateways[&first].presence.connection.expect("alive");
    let state = |stage: &Stage| stage.scene.coordinator.gateways[&first].presence.state;
    stage.scene.coordinator.set_leading(false);
    stage.scene.handle(Input::Closed { connection });
    assert_eq!(state(&stage), NodeState::Normal);
    assert!(stage.scene.coordinator.view().gateways.iter().all(|gateway| gateway.is_alive));
    stage.scene.coordinator.set_leading(true);
    stage.scene.handle(Input::Deadline);
    assert_eq!(state(&stage), NodeState::Dead, "it leads again, and nobody else does");
}

/// Where nobody else leads, those that are gone are found out by their silence.
#[test]
fn who_is_gone_is_silent_whoever_leads() {
    let (mut stage, first, _) = of_two();
    let connection = stage.scene.coordinator.gateways[&first].presence.connection.expect("alive");
    stage.scene.coordinator.set_leading(false);
    stage.scene.handle(Input::Closed { connection });
    stage.silence(first, true);
    stage.pass_ms(GATEWAY_DEAD_AFTER_MS + HEARTBEAT_MS);
    assert_eq!(stage.scene.coordinator.gateways[&first].presence.state, NodeState::Dead);
}
