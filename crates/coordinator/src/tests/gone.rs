//! Scenarios: gateways that counted something leave, are forgotten, and come back.

use super::*;

/// A report of a gateway that stores so many objects and refused so many stores, and rebuilt a chunk for each.
fn told(objects: u64, count: u64) -> GatewayStatus {
    let totals = StoreTotals {
        objects,
        chunks_missing: objects,
        stores_refused_total: count,
        chunks_rebuilt_total: count,
        ..StoreTotals::default()
    };
    let node = NodeSeen { id: 0, connected: true, redirect_count: count, flagged_us: count, ..NodeSeen::default() };
    GatewayStatus { totals, nodes: vec![node], ..GatewayStatus::default() }
}

impl Scene {
    /// Lets a process in, which may have been a member before.
    fn counting(&mut self, session: Option<GatewaySession>, life: u64) -> (ConnectionId, Option<GatewaySession>) {
        let connection = self.connect();
        self.outputs.clear();
        // Nobody serves where another one did.
        let memcached = Some(format!("127.0.0.1:{life}"));
        let registration = GatewayRegistration { memcached, ..gateway_registration(session, life) };
        let welcome = self.register_gateway(connection, registration).1.expect("let in");
        (connection, Some(welcome.session))
    }

    fn forget_gateways(&mut self) {
        self.pass_ms(FORGET_GATEWAY_AFTER_MS + GATEWAY_DEAD_AFTER_MS, &[]);
        assert_eq!(self.coordinator.status().gateways, []);
    }

    /// What the status tells: objects, chunks that are missing, and the counters.
    fn counted(&self) -> (u64, u64, [u64; 2]) {
        let status = self.coordinator.status();
        (
            status.objects,
            status.repair.chunks_missing,
            [status.stores_refused_total, status.repair.chunks_rebuilt_total],
        )
    }
}

#[test]
fn no_counter_falls_when_a_gateway_leaves() {
    let mut scene = Scene::new();
    let (one, session) = scene.counting(None, 1);
    scene.report(one, told(5, 7));
    assert_eq!(scene.counted(), (5, 5, [7, 7]));
    scene.handle(Input::Closed { connection: one });
    assert_eq!(scene.counted(), (0, 0, [7, 7]), "dead");
    scene.forget_gateways();
    assert_eq!(scene.counted(), (0, 0, [7, 7]), "forgotten");
    // Another process begins at 0, whatever its number.
    let (other, _) = scene.counting(None, 2);
    scene.report(other, told(3, 2));
    assert_eq!(scene.counted(), (3, 3, [9, 9]));
    scene.handle(Input::Closed { connection: other });
    // The first was silent only: it is not counted twice, nor less before it has told.
    let (one, _) = scene.counting(session, 1);
    assert_eq!(scene.counted(), (0, 0, [9, 9]));
    scene.report(one, told(4, 8));
    assert_eq!(scene.counted(), (4, 4, [10, 10]));
}

/// Of a node: writes that were placed on it, which add up, and how long it was slow, which all see alike.
#[test]
fn no_counter_of_a_node_falls_when_a_gateway_leaves() {
    let mut scene = Scene::new();
    scene.node(node(1, Some(0))).1.expect("let in");
    let counted = |scene: &Scene| {
        let status = scene.coordinator.status();
        [status.nodes[0].redirect_count, status.nodes[0].flagged_us]
    };
    let (one, session) = scene.counting(None, 1);
    scene.report(one, told(5, 7));
    assert_eq!(counted(&scene), [7, 7]);
    scene.handle(Input::Closed { connection: one });
    assert_eq!(counted(&scene), [7, 7], "dead");
    scene.forget_gateways();
    assert_eq!(counted(&scene), [7, 7], "forgotten");
    let (other, _) = scene.counting(None, 2);
    scene.report(other, told(3, 2));
    assert_eq!(counted(&scene), [9, 7], "another process begins at 0");
    let (one, _) = scene.counting(session, 1);
    assert_eq!(counted(&scene), [9, 7], "it was silent only");
    scene.report(one, GatewayStatus::default());
    assert_eq!(counted(&scene), [9, 7], "it has not met the node again");
    scene.report(one, told(4, 8));
    assert_eq!(counted(&scene), [10, 8]);
    for part in [told(2, 3), GatewayStatus::default(), told(1, 1)] {
        scene.report(one, part);
        assert_eq!(counted(&scene), [10, 8], "some of its cores, or all, own nothing");
    }
    scene.handle(Input::Closed { connection: one });
    scene.forget_gateways();
    assert_eq!(counted(&scene), [10, 8], "it has left");
}

#[test]
fn of_many_that_are_gone_the_sum_is_kept() {
    let mut scene = Scene::new();
    let count = GONE_GATEWAYS_MAX as u64 + 3;
    for life in 1..=count {
        let (connection, _) = scene.counting(None, life);
        scene.report(connection, told(1, life));
        scene.handle(Input::Closed { connection });
    }
    scene.forget_gateways();
    let sum = count * (count + 1) / 2;
    assert_eq!(scene.counted(), (0, 0, [sum, sum]));
    scene.counting(None, count);
    assert_eq!(scene.counted(), (0, 0, [sum, sum]), "one of the last is known again");
}
