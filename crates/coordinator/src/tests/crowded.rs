//! Scenarios: as many gateways as there may be, most of them dead.

use super::*;

/// A process that serves nobody where another one did.
fn come(scene: &mut Scene, life: u64) -> (ConnectionId, Result<GatewayWelcome, Refusal>) {
    let connection = scene.connect();
    scene.outputs.clear();
    let memcached = Some(format!("127.0.0.1:{life}"));
    scene.register_gateway(connection, GatewayRegistration { memcached, ..gateway_registration(None, life) })
}

fn known(scene: &Scene) -> Vec<u16> {
    scene.coordinator.status().gateways.iter().map(|entry| entry.id).collect()
}

#[test]
fn gateways_that_are_dead_leave_their_place_to_others() {
    let mut scene = Scene::new();
    let max = GATEWAY_COUNT_MAX as u16;
    let connections: Vec<ConnectionId> = (0..max).map(|id| come(&mut scene, 1 + u64::from(id)).0).collect();
    let full = come(&mut scene, 900).1;
    assert!(matches!(full, Err(Refusal::Full(_))), "all of them live: {full:?}");
    // The second died first, and the first is to own nothing, should it come back, however late.
    scene.handle(Input::Order { ticket: 1, member: 0, wanted: Wanted::DrainGateway { cancel: false } });
    for id in [1, 0, 2] {
        scene.handle(Input::Closed { connection: connections[id] });
        scene.now.mono_us += 1000;
    }
    let next = |scene: &mut Scene, life| come(scene, life).1.expect("a place is free").session.gateway_id;
    assert_eq!(next(&mut scene, 901), max);
    assert!(known(&scene).len() == GATEWAY_COUNT_MAX && !known(&scene).contains(&1), "{:?}", known(&scene));
    assert_eq!(next(&mut scene, 902), max + 1);
    assert!(known(&scene).contains(&2) && !known(&scene).contains(&0), "{:?}", known(&scene));
    assert_eq!(next(&mut scene, 903), max + 2);
    assert!(known(&scene).len() == GATEWAY_COUNT_MAX && !known(&scene).contains(&2), "{:?}", known(&scene));
    assert!(matches!(come(&mut scene, 904).1, Err(Refusal::Full(_))));
    assert!(scene.persisted.draining.contains(&0));
}

impl Scene {
    /// A gateway comes, is drained, and dies; its number.
    fn drain_one(&mut self, life: u64) -> u16 {
        let (connection, welcome) = come(self, life);
        let id = welcome.expect("let in").session.gateway_id;
        self.order(id, Wanted::DrainGateway { cancel: false }).expect("another one stays");
        self.handle(Input::Closed { connection });
        self.now.mono_us += 1;
        id
    }
}

#[test]
fn of_very_many_drains_the_first_are_forgotten_and_none_of_who_is_there() {
    let mut scene = Scene::new();
    let there = [1, 2].map(|life| come(&mut scene, life).1.expect("let in").session.gateway_id);
    scene.order(there[0], Wanted::DrainGateway { cancel: false }).expect("another one stays");
    // As if many had come and gone: numbers begin anew after the last.
    scene.persisted.gateway_id_next = u16::MAX - 99;
    let mut scene = Scene { coordinator: Coordinator::new(scene.now, settings(), scene.persisted.clone()), ..scene };
    let session = |gateway_id| Some(GatewaySession { cluster_id: CLUSTER, gateway_id });
    for (id, life) in there.into_iter().zip([1, 2]) {
        let connection = scene.connect();
        scene.register_gateway(connection, gateway_registration(session(id), life)).1.expect("its own number");
    }
    let drained: Vec<u16> = (0..DRAINS_MAX as u64 + 9).map(|more| scene.drain_one(100 + more)).collect();
    assert!(drained[0] > drained[drained.len() - 1] && !there.iter().any(|id| drained.contains(id)));
    let mut kept: Vec<u16> = [&there[..1], &drained[10..]].concat();
    kept.sort_unstable();
    assert_eq!(scene.persisted.draining.iter().copied().collect::<Vec<_>>(), kept);

    // The number of one that is forgotten is given again.
    scene.coordinator.gateways.retain(|id, _| there.contains(id));
    scene.coordinator.durable.gateway_id_next = drained[20];
    assert_eq!(come(&mut scene, 9_000).1.expect("let in").session.gateway_id, drained[20]);
    assert!(!scene.persisted.draining.contains(&drained[20]) && scene.persisted.draining.contains(&drained[21]));
}

#[test]
fn who_owns_something_keeps_its_number_however_many_come_meanwhile() {
    let mut scene = Scene::new();
    (0..8).for_each(|id| _ = scene.node(node(1, Some(id))).1.expect("let in"));
    let (owner, welcome) = come(&mut scene, 1);
    let session = welcome.expect("let in").session;
    assert_eq!(scene.persisted.tenures.values().map(|tenure| tenure.gateway).collect::<Vec<_>>(), [session.gateway_id]);
    scene.handle(Input::Closed { connection: owner });
    // Two are waited for, so nothing is dealt anew meanwhile.
    let settings = Settings { gateway_count_expected: 2, ..scene.settings };
    let mut scene = Scene::with(settings, scene.persisted);
    // Within the time that it has to come back.
    for life in 2..2 + GATEWAY_COUNT_MAX as u64 {
        let (connection, welcome) = come(&mut scene, life);
        assert_ne!(welcome.expect("let in").session.gateway_id, session.gateway_id);
        scene.handle(Input::Closed { connection });
    }
    let connection = scene.connect();
    scene.outputs.clear();
    let back = scene.register_gateway(connection, gateway_registration(Some(session), 1)).1;
    assert_eq!(back.expect("its own number").session, session);
    assert_eq!(known(&scene).len(), GATEWAY_COUNT_MAX);
    let owners: Vec<u16> = scene.persisted.tenures.values().map(|tenure| tenure.gateway).collect();
    assert_eq!(owners, [session.gateway_id]);
}
