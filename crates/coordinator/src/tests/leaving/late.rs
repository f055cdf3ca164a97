//! Scenarios: owners hear late of what was given up, or are heard late, as the metadata store was away, or they were,
//! or the coordinator stood still.

use super::*;

impl Cluster {
    /// Which lives of the first two nodes nothing is missing of any more, as owners told.
    fn rebuilt(&self) -> [u64; 2] {
        [0, 1].map(|id| self.scene.persisted.nodes[&id].rebuilt_through)
    }

    /// That nothing is missing of the first two nodes counts for nothing when it is told first, and does later.
    fn believes_owners_only_later(&mut self) {
        self.counts(&[], 0);
        assert_eq!(self.rebuilt(), [0; 2]);
        assert!(self.remove(2, true).expect_err("a third one").contains("rs:4+2"));
        self.pass_telling(LOSS_TOLD_MS, 2, &[], 0);
        self.remove(2, true).expect("nothing is missing");
    }

    /// The metadata store is away, and a save waits for it or not; or it is there again.
    fn lose_store(&mut self, is_away: bool, saves: bool) {
        match saves {
            true => self.scene.coordinator.hold(is_away),
            false => self.scene.coordinator.set_leading(!is_away),
        }
    }
}

/// A switch was out, say, first for one rack and then for the next: what they hold is all there.
#[test]
fn nobody_is_given_up_while_the_store_is_away() {
    use NodeState::{Dead, Retired};
    for saves in [true, false] {
        let mut cluster = Cluster::new(12);
        cluster.counts(&[], 0);
        cluster.lose_store(true, saves);
        (0..5).for_each(|id| cluster.die(id));
        cluster.pass_telling(RETIRE_AFTER_MS + 4 * LOSS_TOLD_MS, 5, &[], 0);
        assert_eq!(cluster.states(0..5), [Dead; 5]);
        cluster.lose_store(false, saves);
        cluster.pass_telling(RETIRE_AFTER_MS - 1_000, 5, &[], 0);
        assert_eq!(cluster.states(0..5), [Dead; 5], "they were not let in before");
        cluster.pass_telling(2_000, 5, &[], 0);
        cluster.pass_telling(4 * LOSS_TOLD_MS, 5, &[], 2);
        assert_eq!(cluster.states(0..5), [Retired, Retired, Dead, Dead, Dead]);
    }
}

/// Owners rebuild nothing before they are told.
#[test]
fn what_was_given_up_as_the_store_went_away_counts_until_owners_have_told() {
    for saves in [true, false] {
        let (mut cluster, _, _) = two_memories_lost(false);
        cluster.lose_store(true, saves);
        cluster.pass_telling(4 * LOSS_TOLD_MS, 2, &[], 0);
        cluster.lose_store(false, saves);
        cluster.believes_owners_only_later();
    }
}

/// What it tells first it knew before it came.
#[test]
fn the_first_report_of_a_gateway_says_nothing_of_what_was_given_up() {
    let (cluster, _, _) = two_memories_lost(false);
    let mut cluster = cluster.restart_with_late_gateway(LOSS_TOLD_MS + 1_000);
    cluster.believes_owners_only_later();
}

/// It owns nothing, so it has nothing to tell.
#[test]
fn who_owns_nothing_and_comes_again_and_again_holds_up_nothing() {
    let (mut cluster, _, _) = two_memories_lost(false);
    for _ in 0..4 {
        cluster.scene.gateway(None).1.expect("let in");
        cluster.pass_telling(LOSS_TOLD_MS / 2, 2, &[], 0);
    }
    assert!(!cluster.scene.persisted.nodes.contains_key(&0), "what it held is rebuilt, so it is forgotten");
}

/// Only the time in which nobody is let in does not count.
#[test]
fn a_slow_save_makes_nobody_wait_for_longer_than_it_took() {
    use NodeState::{Dead, Retired};
    let mut cluster = Cluster::new(12);
    cluster.counts(&[], 0);
    cluster.die(0);
    cluster.pass_telling(RETIRE_AFTER_MS - 2_000, 1, &[], 0);
    cluster.lose_store(true, true);
    cluster.pass_telling(1_000, 1, &[], 0);
    cluster.lose_store(false, true);
    cluster.pass_telling(1_000, 1, &[], 0);
    assert_eq!(cluster.states(0..1), [Dead]);
    cluster.pass_telling(2_000, 1, &[], 0);
    assert_eq!(cluster.states(0..1), [Retired]);
}

/// What owners counted meanwhile is still to be read.
#[test]
fn the_time_for_which_the_coordinator_stood_still_is_not_time_in_which_owners_told() {
    use NodeState::{Dead, Retired};
    let mut cluster = Cluster::new(12);
    cluster.counts(&[], 0);
    (0..5).for_each(|id| cluster.die(id));
    cluster.pass_telling(RETIRE_AFTER_MS - HEARTBEAT_MS, 5, &[], 0);
    let there = cluster.nodes[5..].to_vec();
    cluster.scene.pass_ms(HEARTBEAT_MS, &there);
    assert_eq!(cluster.states(0..5), [Retired, Retired, Dead, Dead, Dead]);
    // It goes on in between, but for less than they need.
    for _ in 0..2 {
        cluster.scene.now.mono_us += 2 * LOSS_TOLD_MS * 1000;
        cluster.reports(11, 10, 1 << 20);
        assert_eq!(cluster.states(0..5), [Retired, Retired, Dead, Dead, Dead]);
        cluster.pass_telling(LOSS_TOLD_MS / 2 - HEARTBEAT_MS, 5, &[], 0);
        assert_eq!(cluster.states(0..5), [Retired, Retired, Dead, Dead, Dead]);
    }
    cluster.pass_telling(2 * HEARTBEAT_MS, 5, &[], 0);
    assert_eq!(cluster.states(0..5), [Retired, Retired, Retired, Retired, Dead], "nothing was lost with the first two");
}

/// An owner that reached a node reached the life before.
#[test]
fn what_an_owner_said_while_the_coordinator_stood_still_meets_nobody() {
    let mut cluster = Cluster::new(9);
    cluster.counts(&[], 0);
    cluster.return_empty(0..2, 2);
    cluster.scene.now.mono_us += 2 * LOSS_TOLD_MS * 1000;
    cluster.reaches(0..9, 0);
    cluster.pass_telling(LOSS_TOLD_MS, 0, &[], 0);
    assert!(cluster.remove(2, true).expect_err("a third one").contains("rs:4+2"));
    cluster.reaches(0..9, 0);
    cluster.remove(2, true).expect("they lack none");
}
