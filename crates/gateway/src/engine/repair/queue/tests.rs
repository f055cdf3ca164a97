//! Which stripes come up when, and what is counted of them.

use shorttail_units::Epoch;

use super::*;

#[test]
fn a_stripe_that_lost_more_is_queued_once_and_first() {
    let shape = CodeShape::reed_solomon(4, 2).expect("a shape");
    let [a, b, c] = [1, 2, 3].map(|number| StripeId::new(Epoch(1), number));
    let mut repair = Repair::default();
    repair.mark(b, 5, shape);
    repair.mark_all(&[(a, 0, shape), (c, 0, shape), (b, 5, shape), (c, 3, shape)]);
    assert_eq!(repair.due(0, 9), [c, a, b]);
    assert_eq!((repair.missing_count(), repair.lost_of_stripe_max()), (4, 2));
    assert_eq!([0, 1, 2, 3].map(|count| repair.lost_of_stripe_max_through(count)), [0, 1, 2, 2]);
    repair.check_invariants();
    repair.clear(c, 3);
    assert_eq!(repair.due(0, 9), [a, b, c]);
    repair.rest(a, 7);
    repair.mark_all(&[(a, 1, shape), (b, 1, shape)]);
    assert_eq!(repair.due(6, 9), [b, c], "what rests waits, whatever it loses");
    assert_eq!(repair.due(7, 9), [a, b, c]);
    repair.check_invariants();
}

/// More was lost than the code survives: what comes back is no spare chunk yet.
#[test]
fn a_stripe_that_lost_too_much_has_nothing_to_spare_when_one_chunk_is_back() {
    let shape: CodeShape = "lrc:4+2+2".parse().expect("a shape");
    let [a, b] = [1, 2].map(|number| StripeId::new(Epoch(1), number));
    let mut repair = Repair::default();
    let tolerance = shape.tolerance();
    (0..=tolerance).for_each(|chunk| repair.mark(b, chunk, shape));
    (0..tolerance - 1).for_each(|chunk| repair.mark(a, chunk, shape));
    assert_eq!(repair.due(0, 9), [b, a]);
    repair.clear(b, 0);
    assert_eq!(repair.due(0, 9), [b, a], "it survives no further loss, the other one does");
    assert_eq!(repair.get(b).map(|lost| lost.spare), Some(0));
    repair.clear(b, 1);
    assert_eq!(repair.get(b).map(|lost| lost.spare), Some(1));
}

/// As the engine looks at them: some at a time, every few milliseconds.
#[test]
fn whatever_is_stuck_holds_up_nothing_behind_it() {
    let shape = CodeShape::reed_solomon(4, 2).expect("a shape");
    let mut repair = Repair::default();
    for number in 0..1_000 {
        let stripe = StripeId::new(Epoch(1), number);
        (0..3).for_each(|chunk| repair.mark(stripe, chunk, shape));
    }
    let behind = StripeId::new(Epoch(1), 1_000);
    repair.mark(behind, 0, shape);
    let came = (0..200).map(|look| look * 5_000).find(|&now_us| {
        let due = repair.due(now_us, 32);
        let others = due.iter().filter(|&&stripe| stripe != behind);
        others.for_each(|&stripe| repair.rest_stuck(stripe, now_us + 100_000));
        repair.check_invariants();
        due.contains(&behind)
    });
    assert!(came.is_some(), "it never came up");
    assert!(repair.is_pressing());
    repair.rest_stuck(behind, 2_000_000);
    assert!(!repair.is_pressing(), "nothing can be repaired");
    // In turn, whoever is the most urgent.
    let mut seen = BTreeSet::new();
    for look in 0..251 {
        let now_us = 2_000_000 + look * 5_000;
        for stripe in repair.due_stuck(now_us, 4) {
            seen.insert(stripe);
            repair.rest_stuck(stripe, now_us + 100_000);
        }
    }
    assert_eq!(seen.len(), 1_001);
    repair.clear(behind, 0);
    repair.clear(StripeId::new(Epoch(1), 7), 1);
    assert_eq!(repair.due(3_000_000, 32), [StripeId::new(Epoch(1), 7)], "it lacks less than before");
    repair.check_invariants();
}

#[test]
fn what_waits_for_busy_nodes_lets_others_come_up() {
    let shape = CodeShape::reed_solomon(4, 2).expect("a shape");
    let mut repair = Repair::default();
    let all: Vec<_> = (0..10).map(|number| StripeId::new(Epoch(1), number)).collect();
    all.iter().for_each(|&stripe| repair.mark(stripe, 0, shape));
    let mut came = [(); 3].map(|()| repair.behind(4));
    assert_eq!(came.concat(), all);
    came = [(); 3].map(|()| repair.behind(4));
    assert_eq!(came.concat(), all, "from the beginning again");
}

#[test]
fn what_rests_is_looked_at_once_a_node_is_in_use_again_some_at_a_time() {
    let shape = CodeShape::reed_solomon(4, 2).expect("a shape");
    let [a, b, c] = [1, 2, 3].map(|number| StripeId::new(Epoch(1), number));
    let mut repair = Repair::default();
    for stripe in [a, b, c] {
        repair.mark(stripe, 0, shape);
        repair.rest(stripe, 100);
    }
    assert_eq!(repair.due(6, 2), []);
    repair.wake_resting();
    assert_eq!(repair.due(7, 2), [a, b]);
    repair.rest(a, 107);
    repair.rest(b, 107);
    assert_eq!(repair.due(8, 2), [c], "those that were woken rest again");
    repair.rest(c, 108);
    assert_eq!(repair.due(9, 2), []);
    repair.check_invariants();
}

#[test]
fn what_found_no_node_is_not_told_of_once_another_node_is_in_use() {
    let shape = CodeShape::reed_solomon(4, 2).expect("a shape");
    let stripe = StripeId::new(Epoch(1), 1);
    let mut repair = Repair::default();
    repair.mark(stripe, 0, shape);
    repair.rest_stuck(stripe, 100);
    repair.stranded.insert(stripe);
    repair.wake_resting();
    assert!(repair.stranded.is_empty() && repair.is_stuck(stripe), "it is looked at first");
    assert_eq!(repair.due_stuck(7, 1), [stripe]);
    repair.check_invariants();
}

/// Who waits until nothing is missing is not to go on in between.
#[test]
fn what_a_count_found_so_far_is_missing() {
    let mut repair = Repair::default();
    let found = |chunks| Some(AwayCount { chunks, ..AwayCount::default() });
    repair.counting = found(0);
    assert_eq!(repair.missing_count(), 0);
    repair.counting = found(3);
    assert_eq!(repair.missing_count(), 3);
    (repair.away_count, repair.counting) = (5, found(3));
    assert_eq!(repair.missing_count(), 5, "until it is known that these are back");
    (repair.away_count, repair.counting) = (4, None);
    assert_eq!(repair.missing_count(), 4);
}
