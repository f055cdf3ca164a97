//! Scenarios: members that listen anywhere, seen from here and there.

use super::*;

fn at(address: &str, wanted_id: Option<u16>) -> NodeRegistration {
    NodeRegistration { address: address.into(), ..node(5, wanted_id) }
}

impl Scene {
    /// Where others are told that a node is.
    fn address(&self, id: u16) -> String {
        let view = self.coordinator.view();
        view.nodes.iter().find(|node| node.id == NodeId(id)).expect("a known node").address.clone()
    }
}

/// The leader is on its machine for a while: what is seen from there is of no use to the others.
#[test]
fn a_node_stays_where_others_reach_it_when_it_comes_from_the_coordinators_machine() {
    let mut scene = Scene::new();
    scene.node(at("0.0.0.0:7001", Some(3))).1.expect("let in");
    assert_eq!(scene.address(3), "127.0.0.1:7001", "nothing better is known");
    scene.node(at("10.0.0.7:7001", Some(3))).1.expect("let in");
    for anywhere in ["0.0.0.0:7001", "[::]:7001"] {
        scene.node(at(anywhere, Some(3))).1.expect("let in");
        assert_eq!(
            (scene.address(3).as_str(), scene.persisted.nodes[&3].address.as_str()),
            ("10.0.0.7:7001", "10.0.0.7:7001")
        );
    }
    let mut scene = scene.restart();
    scene.node(at("0.0.0.0:7001", Some(3))).1.expect("let in");
    assert_eq!(scene.address(3), "10.0.0.7:7001");
    for said in ["127.0.0.1:7001", "10.0.0.8:7001"] {
        scene.node(at(said, Some(3))).1.expect("let in");
        assert_eq!(scene.address(3), said, "it says so itself");
    }
    scene.node(at("0.0.0.0:7009", Some(3))).1.expect("let in");
    assert_eq!(scene.address(3), "127.0.0.1:7009", "it listens elsewhere now");
}

#[test]
fn a_gateway_stays_where_others_reach_it_when_it_comes_from_the_coordinators_machine() {
    let mut scene = Scene::new();
    let mut session = None;
    for (forward, told) in [("10.0.0.7:7200", "10.0.0.7:7200"), ("0.0.0.0:7200", "10.0.0.7:7200")] {
        let connection = scene.connect();
        let registration = GatewayRegistration { forward: Some(forward.into()), ..gateway_registration(session, 1000) };
        session = Some(scene.register_gateway(connection, registration).1.expect("let in").session);
        assert_eq!(scene.coordinator.view().gateways[0].forward.as_deref(), Some(told));
    }
}

/// Its first welcome was lost, and it does not know its number.
#[test]
fn a_node_that_is_seen_from_another_host_is_the_same() {
    let mut scene = Scene::new();
    let (first, session) = scene.node(at("10.0.0.7:7001", None));
    let id = session.expect("let in").node_id;
    scene.handle(Input::Closed { connection: first });
    for address in ["10.1.0.7:7001", "0.0.0.0:7001", "10.0.0.7:7001"] {
        let (_, again) = scene.node(at(address, None));
        assert_eq!(again.expect("let in").node_id, id, "{address}");
    }
    assert_eq!(scene.coordinator.view().nodes.len(), 1);
    assert_ne!(scene.node(at("10.0.0.7:7002", None)).1.expect("let in").node_id, id, "another one");
    let path = scene.node(at("unix:/run/n.sock", None)).1.expect("let in").node_id;
    assert_eq!(scene.node(at("unix:/run/n.sock", None)).1.expect("let in").node_id, path);
    assert_eq!(scene.coordinator.view().nodes.len(), 3);
}
