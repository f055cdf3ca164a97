//! Scenarios: what is told of nodes that are away or full.

use super::*;

#[test]
fn a_cluster_that_cannot_store_says_why() {
    let mut cluster = Cluster::new(6);
    cluster.counts(&[], 0);
    assert_eq!(cluster.problems(), [""; 0]);
    cluster.reports(4, 1, 1 << 28);
    cluster.refuses(0);
    assert_eq!(cluster.problems(), [""; 0], "where objects are evicted a full node is none");
    cluster.refuses(3);
    let problems = cluster.problems();
    assert!(
        problems[0].contains("16 % is in use, only 5 of 6 nodes have room for more chunks and a stripe needs 6;"),
        "{problems:?}"
    );
    cluster.die(0);
    let problems = cluster.problems();
    assert!(
        problems[0].contains("only 5 nodes are alive and a stripe needs 6: what is stored is served"),
        "{problems:?}"
    );
}

#[test]
fn stores_that_are_refused_are_a_problem_however_much_is_free() {
    let mut cluster = Cluster::new(6);
    cluster.refuses(0);
    let half = NodeStatus { memory_used_bytes: 1 << 27, memory_room_bytes: 1 << 27, ..NodeStatus::default() };
    for memory_room_bytes in [1 << 27, 1 << 20] {
        let status = NodeStatus { memory_room_bytes, ..half.clone() };
        (0..6).for_each(|id| cluster.scene.tell(cluster.nodes[id], ToCoordinator::NodeStatus(status.clone())));
        assert_eq!(cluster.problems(), [""; 0], "nobody was refused anything");
    }
    cluster.refuses(1);
    let problems = cluster.problems();
    let pieces = "50 % is in use, 49 % is free in pieces that no chunk fits in, no node has room for more chunks;";
    assert!(problems[0].contains(pieces), "{problems:?}");
    (0..6).for_each(|id| cluster.scene.tell(cluster.nodes[id], ToCoordinator::NodeStatus(half.clone())));
    let problems = cluster.problems();
    assert!(problems[0].contains("50 % is in use, the rest is kept for deletes and cleaning"), "{problems:?}");
    cluster.scene.now.mono_us += 10_000_000;
    cluster.refuses(1);
    assert_eq!(cluster.problems(), [""; 0], "none since");
}

/// Others have room, so nothing is refused; and nobody sees why that node takes nothing.
#[test]
fn a_node_whose_file_system_is_full_is_a_problem_until_there_is_room() {
    let mut cluster = Cluster::new(7);
    cluster.refuses(0);
    let tell = |cluster: &mut Cluster, lacks_pages| {
        let status = NodeStatus { lacks_pages, ..NodeStatus::default() };
        cluster.scene.tell(cluster.nodes[3], ToCoordinator::NodeStatus(status));
    };
    tell(&mut cluster, true);
    let problems = cluster.problems();
    assert!(problems.len() == 1 && problems[0].starts_with("node 3 is short of its --memory"), "{problems:?}");
    tell(&mut cluster, false);
    assert_eq!(cluster.problems(), [""; 0]);
    tell(&mut cluster, true);
    cluster.die(3);
    assert!(cluster.problems().iter().all(|problem| !problem.contains("--memory")), "{:?}", cluster.problems());
}

#[test]
fn what_cannot_be_read_is_not_called_served() {
    let mut cluster = Cluster::new(9);
    cluster.counts(&[], 0);
    for (id, lacking) in [(2, 1), (4, 2)] {
        cluster.die(id);
        assert_eq!((cluster.problems().len(), cluster.repair().lacking_of_stripe_max), (0, lacking));
    }
    cluster.die(7);
    let problems = cluster.problems();
    assert!(
        problems.len() == 1 && problems[0].starts_with("nodes 2, 4, 7 are away, and rs:4+2 survives"),
        "{problems:?}"
    );
    cluster.die(8);
    let problems = cluster.problems();
    assert!(problems[0].starts_with("nodes 2, 4, 7, 8 are away"), "{problems:?}");
    assert!(problems[1].ends_with("a stripe needs 6: nothing new is stored; start nodes"), "{problems:?}");
    // Of what nodes 7 and 8 held there is enough elsewhere.
    cluster.counts(&[(7, 0), (8, 0)], 0);
    let problems = cluster.problems();
    assert!(problems.len() == 1 && problems[0].contains("what is stored is served"), "{problems:?}");
    cluster.counts(&[(7, 0), (8, 0)], 1);
    let problems = cluster.problems();
    assert!(
        problems[0].starts_with("nodes 2, 4 are away, beside 1 of a stripe's chunks that are lost"),
        "{problems:?}"
    );
    cluster.counts(&[(4, 0), (7, 0), (8, 0)], 2);
    let problems = cluster.problems();
    assert!(problems[0].starts_with("node 2 is away, beside 2 of a stripe's chunks that are lost"), "{problems:?}");
    cluster.counts(&[(7, 0), (8, 0)], 3);
    let problems = cluster.problems();
    assert!(problems[0].starts_with("some stripes lost 3 chunks"), "{problems:?}");
}

#[test]
fn a_dead_node_is_rebuilt_once_nobody_misses_a_chunk_of_it() {
    let mut cluster = Cluster::new(8);
    let rebuilt =
        |cluster: &Cluster| cluster.scene.coordinator.status().nodes.iter().map(|node| node.rebuilt).collect();
    let none: Vec<bool> = vec![false; 8];
    cluster.counts(&[(3, 0)], 0);
    assert_eq!(none, rebuilt(&cluster), "it lives");
    cluster.die(3);
    cluster.counts(&[(3, 10)], 0);
    assert_eq!(none, rebuilt(&cluster));
    cluster.counts(&[(3, 0)], 0);
    let which: Vec<bool> = rebuilt(&cluster);
    assert!(which[3] && which.iter().filter(|is_rebuilt| **is_rebuilt).count() == 1, "{which:?}");
}

/// A later owner learns by them that something is missing: they do not move, and no owner counts them.
#[test]
fn what_is_left_of_lost_stripes_on_a_node_that_drains_is_told() {
    let mut cluster = Cluster::new(8);
    cluster.drain(3).expect("enough others");
    cluster.reports(3, 1, 1 << 16);
    let problem = |cluster: &Cluster| cluster.drain_status(3).expect("it drains").problem;
    for (left, lost) in [(2, 3), (0, 2)] {
        cluster.counts(&[(3, left)], lost);
        assert_eq!(problem(&cluster), None, "a chunk of a stripe that can be read is on its way");
    }
    cluster.counts(&[(3, 0)], 3);
    let told = problem(&cluster).expect("it would drain for ever");
    assert!(told.starts_with("1 chunk is left of stripes that are lost"), "{told}");
    let refused = cluster.remove(3, false).expect_err("it holds something");
    assert!(refused.contains("not empty: 1 chunk is left") && refused.contains("remove node 3 --lost"), "{refused}");
    cluster.remove(3, true).expect("nothing that can be read is lost with it");
}

/// Who takes over has not counted what it takes over, whatever it said before.
#[test]
fn no_node_is_rebuilt_while_a_partition_is_taken_over() {
    let mut cluster = Cluster::new(8);
    cluster.die(3);
    let is_rebuilt = |cluster: &Cluster| cluster.scene.coordinator.status().nodes[3].rebuilt;
    let (heir, welcome) = cluster.scene.gateway(None);
    welcome.expect("let in");
    let owner = std::mem::replace(&mut cluster.gateway, heir);
    cluster.counts(&[(3, 0)], 0);
    cluster.scene.handle(Input::Closed { connection: owner });
    assert!(!is_rebuilt(&cluster), "nobody told of what the first owner had");
    assert!(cluster.remove(3, false).is_err());
    cluster.counts(&[(3, 7)], 0);
    assert!(!is_rebuilt(&cluster));
    cluster.counts(&[(3, 0)], 0);
    assert!(is_rebuilt(&cluster));
    cluster.remove(3, false).expect("all of it is elsewhere");
}

#[test]
fn what_is_rebuilt_is_told_however_few_nodes_there_are_and_what_cannot_be_is_not_waited_for() {
    let mut cluster = Cluster::new(6);
    let totals = StoreTotals {
        chunks_missing: 40,
        chunks_to_rebuild: 27,
        chunks_rebuilt_total: 10,
        bytes_rebuilt_total: 10 << 16,
        repair_bytes_per_s: 1 << 16,
        ..StoreTotals::default()
    };
    cluster.report(Vec::new(), totals, TenureState::Serving);
    assert_eq!((cluster.repair().bytes_per_s, cluster.repair().seconds_left), (1 << 16, Some(27)));
    cluster.die(0);
    assert_eq!((cluster.repair().bytes_per_s, cluster.repair().seconds_left), (1 << 16, Some(27)));
    let totals = StoreTotals { chunks_to_rebuild: 0, repair_bytes_per_s: 0, ..totals };
    cluster.report(Vec::new(), totals, TenureState::Serving);
    assert_eq!((cluster.repair().bytes_per_s, cluster.repair().seconds_left), (0, None));
}

/// First many short pieces are rebuilt, then whole chunks.
#[test]
fn the_time_that_repair_takes_is_told_by_what_was_rebuilt_of_late() {
    let mut cluster = Cluster::new(6);
    let tell = |cluster: &mut Cluster, chunks_rebuilt_total, bytes_rebuilt_total| {
        let (chunks_to_rebuild, repair_bytes_per_s) = (10_000, 64 << 20);
        let totals = StoreTotals {
            chunks_to_rebuild,
            repair_bytes_per_s,
            chunks_rebuilt_total,
            bytes_rebuilt_total,
            ..StoreTotals::default()
        };
        cluster.report(Vec::new(), totals, TenureState::Serving);
        cluster.repair().seconds_left
    };
    let (pieces, bytes) = (100_000, 100_000 << 11);
    assert_eq!(tell(&mut cluster, pieces, bytes), Some(0));
    let mut left = None;
    for second in 1..=4 {
        cluster.scene.now.mono_us += 1_000_000;
        left = tell(&mut cluster, pieces + second * 1_000, bytes + ((second * 1_000) << 16));
    }
    assert_eq!(left, Some(9));
}

/// What moves is shared by all that drain.
#[test]
fn nodes_that_drain_together_take_as_long_as_all_of_them() {
    let mut cluster = Cluster::new(9);
    (0..2).for_each(|id| cluster.reports(id, 100, 100 << 16));
    let totals = StoreTotals { move_bytes_per_s: 10 << 16, ..StoreTotals::default() };
    let seconds_left = |cluster: &mut Cluster| -> Vec<Option<u64>> {
        cluster.report(Vec::new(), totals, TenureState::Serving);
        let nodes = cluster.scene.coordinator.status().nodes;
        nodes.iter().filter_map(|node| node.drain.as_ref()).map(|drain| drain.seconds_left).collect()
    };
    cluster.drain(0).expect("enough others");
    assert_eq!(seconds_left(&mut cluster), [Some(10)]);
    cluster.drain(1).expect("enough others");
    assert_eq!(seconds_left(&mut cluster), [Some(20); 2]);
    cluster.die(1);
    assert_eq!(seconds_left(&mut cluster)[0], Some(10), "what is away does not move");
}

#[test]
fn partitions_that_nobody_serves_are_a_problem() {
    let mut cluster = Cluster::new(8);
    let problems = cluster.problems();
    assert!(problems[0].starts_with("4 of 4 partitions are not served yet"), "{problems:?}");
    cluster.counts(&[], 0);
    assert_eq!(cluster.problems(), [""; 0]);
    let connection = cluster.gateway;
    cluster.scene.watcher = None;
    cluster.scene.handle(Input::Closed { connection });
    let problems = cluster.problems();
    assert!(problems[0].starts_with("no gateway is alive: nobody serves"), "{problems:?}");
}

/// What was given up a moment ago may count twice, and is not said to be lost for sure.
#[test]
fn what_may_be_lost_is_told_as_the_most_that_it_can_be() {
    let mut cluster = Cluster::new(8);
    cluster.counts(&[], 0);
    (0..3).for_each(|id| cluster.die(id));
    let problems = cluster.problems().join("\n");
    assert!(
        problems.contains("died without such a file is lost: start it empty with its number (`--id`)"),
        "{problems}"
    );
    cluster.pass_telling(RETIRE_AFTER_MS + 1_000, 3, &[], 0);
    cluster.counts(&[], 2);
    let problems = cluster.problems().join("\n");
    let why = "node 2 is away for long and is not given up, as stripes may have lost up to 4 chunks already";
    assert!(problems.contains(why), "{problems}");
}

#[test]
fn nodes_that_replace_others_are_expected() {
    let mut cluster = Cluster::new(8);
    let expected = |cluster: &Cluster| cluster.scene.coordinator.status().nodes_expected;
    for id in 0..4 {
        let (connection, joined) = cluster.scene.node(node(1, Some(8 + id)));
        joined.expect("let in");
        cluster.nodes.push(connection);
        cluster.drain(id).expect("enough others");
        cluster.reports(id, 0, 0);
        (0..2).for_each(|_| cluster.counts(&[(id, 0)], 0));
        cluster.remove(id, false).expect("it is empty");
        assert_eq!(expected(&cluster), 8);
    }
}
