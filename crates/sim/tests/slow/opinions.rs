//! What other cores of a gateway found out about nodes that this one hardly asks.

use shorttail_gateway::engine::{Engine, EngineConfig};
use shorttail_monitor::{Class, Opinion, Opinions};
use shorttail_units::{ClusterId, CodeShape, Epoch, NodeId, Now, UnixMs};

fn at(mono_us: u64) -> Now {
    Now { mono_us, unix_ms: UnixMs(0) }
}

fn slow_writer(node: NodeId) -> Opinions {
    let opinion = Opinion { node, class: Class::Write, fail_slow: true, latency_us: 50_000, peers_us: 300 };
    Opinions { reports: vec![opinion] }
}

#[test]
fn a_core_takes_over_what_the_others_say_and_lets_go_of_it() {
    let config = EngineConfig::new(CodeShape::default(), Epoch(1), ClusterId(1), 8);
    let mut engine: Engine = Engine::new(config, at(1_000_000));
    engine.handle_nodes(&(0..8).map(NodeId).collect::<Vec<_>>());
    assert_eq!(engine.opinions(), Opinions::default(), "it asked nobody");
    engine.handle_opinions(at(2_000_000), &slow_writer(NodeId(3)));
    assert!(engine.watched(NodeId(3)).fail_slow && !engine.watched(NodeId(4)).fail_slow);
    let verdict = engine.poll_verdict().expect("a verdict to log");
    assert_eq!((verdict.node, verdict.fail_slow), (NodeId(3), true));
    assert_eq!(engine.opinions(), Opinions::default(), "hearsay is not passed on");
    engine.handle_opinions(at(3_000_000), &Opinions::default());
    assert!(!engine.watched(NodeId(3)).fail_slow);
    assert!(engine.poll_verdict().is_some_and(|verdict| !verdict.fail_slow));
}
