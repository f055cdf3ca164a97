//! A node of two cores that is away for one of them: the session with the other one stands, and that core goes on with
//! what it was ordered.

use shorttail_units::ClusterId;
use shorttail_wire::node::{HelloReply, PROTOCOL_VERSION, Scanned};

use super::*;

const TWO_CORES: NodeId = NodeId(0);

impl Scene {
    /// Node 0 has two cores, of which each told all: the one that the stripe falls on, and the other one.
    fn two_cores(&mut self) -> [SessionId; 2] {
        let node = self.engine.nodes.get_mut(TWO_CORES).expect("a node");
        node.sessions.resize_with(2, Default::default);
        node.incarnation = Some(Incarnation(1));
        for session in &mut node.sessions {
            (session.connected, session.greeted, session.memory_bytes) = (true, true, 1 << 30);
            session.incarnation = node.incarnation;
        }
        let own = self.engine.nodes.session_of(TWO_CORES, self.stripe);
        [own, SessionId { core: 1 - own.core, ..own }]
    }

    /// The session is back, and greeted and fenced.
    fn greet(&mut self, id: SessionId) {
        let hello = HelloReply {
            version: PROTOCOL_VERSION,
            cluster: ClusterId(7),
            node: id.node,
            incarnation: Incarnation(1),
            core_count: 2,
            memory_bytes: 1 << 30,
            used_bytes: 0,
            held_bytes: 0,
            near: None,
            ring: None,
        };
        self.engine.handle_session_opened(Now::default(), id);
        self.engine.greeted(id, &hello);
        for partition in self.engine.config.partitions.clone() {
            self.engine.fenced(id, partition, StripeId::default());
        }
    }

    /// The core tells that it holds these chunks and no other.
    fn tells(&mut self, id: SessionId, scanned: Scanned) {
        let session = self.engine.nodes.session(id).expect("a session");
        let number = session.scan.as_ref().expect("it was asked").number;
        self.engine.scanned(id, number, Scanned { change: 1, ..scanned });
    }
}

/// It made a chunk meanwhile, and that was not heard.
#[test]
fn a_core_whose_session_stood_tells_again_what_it_holds() {
    let mut scene = scene();
    let [own, other] = scene.two_cores();
    scene.engine.repair.mark(scene.stripe, 0, shape());
    scene.engine.handle_session_closed(Now::default(), other);
    scene.greet(other);
    scene.tells(other, Scanned::default());
    assert!(!scene.engine.nodes.is_ready(TWO_CORES), "the other one was not asked");
    let shown = scene.shown(0, true);
    scene.tells(own, Scanned { reports: vec![shown], ..Scanned::default() });
    assert!(scene.engine.nodes.is_ready(TWO_CORES));
    assert!(scene.engine.repair.lacks(scene.stripe).is_empty());
    scene.engine.check_invariants();
}

/// The core may still be making the chunk when it tells what it holds.
#[test]
fn what_a_core_makes_whose_session_stands_is_freed_when_another_node_takes_its_place() {
    let mut scene = scene();
    let [_, other] = scene.two_cores();
    scene.engine.repair.mark(scene.stripe, 0, shape());
    scene.engine.repair.get_mut(scene.stripe).expect("it lacks a chunk").refused.push(TWO_CORES);
    scene.engine.give_orders();
    scene.engine.handle_session_closed(Now::default(), other);
    for node in 1..4 {
        scene.asked(node).into_iter().for_each(|(tag, _)| scene.answer(node, tag, &DONE));
    }
    scene.engine.give_orders();
    assert!(!scene.counts().1.contains(&TWO_CORES), "another one is to hold it");
    assert!(scene.engine.pending_frees().any(|free| free == (TWO_CORES, scene.stripe)));
}

/// Its other core keeps it away: what changes after it told is not told by it again.
#[test]
fn a_core_that_told_before_another_one_hears_of_other_members() {
    let mut scene = scene();
    let [own, other] = scene.two_cores();
    scene.engine.handle_session_closed(Now::default(), other);
    let told = |scene: &mut Scene| {
        let bytes = std::mem::take(scene.engine.nodes.session_mut(own).expect("a session").rest());
        !bytes.is_empty()
    };
    told(&mut scene);
    scene.engine.tell_members(scene.stripe);
    assert!(!told(&mut scene), "it has yet to tell");
    scene.engine.nodes.session_mut(own).expect("a session").greeted = true;
    scene.engine.tell_members(scene.stripe);
    assert!(told(&mut scene));
}
