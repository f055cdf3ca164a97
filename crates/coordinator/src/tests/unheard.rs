//! Scenarios: what is said of what the coordinator cannot know, or cannot give.

use super::tenures::Stage;
use super::*;

/// Who would follow was told to nobody, and who is only out of sight serves on.
#[test]
fn partitions_whose_owner_is_not_heard_while_nothing_can_be_saved_are_not_said_to_be_unserved() {
    let mut stage = Stage::new(2, 8);
    let (one, two) = (stage.join(), stage.join());
    stage.serve();
    let unserved = |stage: &Stage| stage.scene.coordinator.problems().into_iter().find(|it| it.kind == "unserved");
    assert_eq!(unserved(&stage), None);
    stage.scene.coordinator.hold(true);
    for (id, count) in [(one, 4), (two, 8)] {
        stage.die(id);
        stage.pass_ms(GATEWAY_RETURN_MS);
        let text = unserved(&stage).expect("it is to be told").text;
        assert!(text.starts_with(&format!("{count} of 8 partitions have no owner that is heard")), "{text}");
    }
    stage.scene.coordinator.hold(false);
    stage.beat();
    assert!(unserved(&stage).expect("nobody is there").text.starts_with("no gateway is alive"));
}

#[test]
fn who_gets_no_number_is_not_told_that_a_removal_helps() {
    let mut durable = Durable::new(1);
    durable.nodes.insert(5, DurableNode { incarnation: 1, address: "a:1".into(), ..DurableNode::default() });
    (0..=u16::MAX).filter(|&id| id != 5).for_each(|id| durable.removed.insert(id));
    let mut scene = Scene::from_disk(durable);
    let full = scene.node(node(2, None)).1.expect_err("all are given").to_string();
    assert!(full.contains("every number") && !full.contains("makes room"), "{full}");
    assert_eq!(scene.node(node(2, Some(5))).1.expect("in the place of one").node_id, NodeId(5));
}
