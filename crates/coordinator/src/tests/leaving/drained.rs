//! Scenarios: nodes that are drained die, and so do owners.

use super::*;

/// They were stopped before they were taken out. With them more would be missing than a later owner can do without.
#[test]
fn who_died_drained_has_no_voice_when_its_owner_dies() {
    let mut cluster = Cluster::new(9);
    for id in [0, 1] {
        cluster.drain(id).expect("enough others");
        cluster.reports(id, 0, 0);
    }
    let drained = [(0, 0), (1, 0)];
    (0..2).for_each(|_| cluster.counts(&drained, 0));
    assert_eq!(cluster.voter_counts(), [7]);
    (0..2).for_each(|id| cluster.die(id));
    cluster.counts(&drained, 0);
    assert_eq!(cluster.voter_counts(), [7]);
    let there: Vec<u16> = (2..9).collect();
    cluster.is_followed(&there);
    assert_eq!(cluster.voter_counts(), [7], "nobody says that they held nothing");
    cluster.counts(&[], 0);
    assert_eq!(cluster.voter_counts(), [7], "nor has the next owner counted");
    // What is used again and lives has a voice.
    cluster.nodes[0] = cluster.scene.node(node(1, Some(0))).0;
    cluster.reports(0, 1, 1 << 16);
    cluster.counts(&[], 0);
    assert_eq!(cluster.voter_counts(), [8]);
}

#[test]
fn who_died_before_it_was_drained_has_a_voice_when_its_owner_dies() {
    let mut cluster = Cluster::new(9);
    cluster.drain(0).expect("enough others");
    cluster.counts(&[(0, 10)], 0);
    cluster.die(0);
    cluster.is_followed(&(1..9).collect::<Vec<_>>());
    assert_eq!(cluster.voter_counts(), [9]);
}
