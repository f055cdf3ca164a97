//! Hand-made good and bad histories, and random ones against the definition.

use proptest::prelude::*;

use super::brute::{explains, is_linearizable};
use super::memory::{Fingerprint, Visited};
use super::*;
use crate::history::{Moment, Outcome};
use crate::limits::OPERATIONS_PER_KEY_MAX;
use crate::model::{Action, Answer, Value};
use crate::rng::Rng;

/// One operation of a hand-made history: from when, until when and with what answer (`None`: outcome unknown).
type Row = (u64, Action, Option<(u64, Answer)>);

fn known(from: u64, to: u64, action: Action, answer: Answer) -> Row {
    assert!(action.accepts(&answer), "{action} cannot answer {answer}");
    (from, action, Some((to, answer)))
}

fn unknown(from: u64, action: Action) -> Row {
    (from, action, None)
}

fn set(from: u64, to: u64, number: u64) -> Row {
    known(from, to, Action::Set(Value::number(number)), Answer::Done)
}

fn get(from: u64, to: u64, number: Option<u64>) -> Row {
    known(from, to, Action::Get, Answer::Found(number.map(Value::number)))
}

fn incr(from: u64, to: u64, delta: u64, answer: Option<u64>) -> Row {
    known(from, to, Action::Incr(delta), Answer::Number(answer))
}

fn delete(from: u64, to: u64, existed: bool) -> Row {
    known(from, to, Action::Delete, Answer::Existed(existed))
}

fn add(from: u64, to: u64, number: u64, stored: bool) -> Row {
    known(from, to, Action::Add(Value::number(number)), Answer::Applied(stored))
}

fn swap(from: u64, to: u64, expected: u64, new: u64, answer: Answer) -> Row {
    known(from, to, Action::CompareAndSet { expected: Value::number(expected), new: Value::number(new) }, answer)
}

fn append(from: u64, to: u64, tail: &str) -> Row {
    known(from, to, Action::Append(Value::bytes(tail.as_bytes())), Answer::Applied(true))
}

/// Orders the ends by time; at the same time, invocations come first, so that touching operations overlap.
fn history(mut rows: Vec<Row>) -> Vec<Operation> {
    rows.sort_by_key(|row| row.0);
    let ends = rows.iter().enumerate().flat_map(|(row, (from, _, returned))| {
        let invoked = (*from, 0, row);
        [Some(invoked), returned.as_ref().map(|(to, _)| (*to, 1, row))].into_iter().flatten()
    });
    let mut ends: Vec<_> = ends.collect();
    ends.sort_unstable();
    let moment = |wanted| {
        let order = ends.iter().position(|end| *end == wanted).expect("every end is there");
        Moment { order: order as u64, us: wanted.0 }
    };
    let operations = rows.iter().enumerate().map(|(row, (from, action, returned))| Operation {
        left: None,
        client: row as u32,
        action: action.clone(),
        invoked: moment((*from, 0, row)),
        outcome: match returned {
            Some((to, answer)) => Outcome::Answered(answer.clone(), moment((*to, 1, row))),
            None => Outcome::Lost,
        },
    });
    operations.collect()
}

#[track_caller]
fn good(rows: Vec<Row>) {
    let operations = history(rows);
    match check(b"key", &operations) {
        Verdict::Linearizable { order, .. } => assert!(explains(&operations, &order), "{order:?} explains nothing"),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn bad(rows: Vec<Row>) -> (Operation, Violation) {
    let operations = history(rows);
    match check(b"key", &operations) {
        Verdict::Violation(violation) => (operations[violation.operation].clone(), violation),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_and_a_quiet_key_are_good() {
    good(vec![]);
    good(vec![unknown(0, Action::Get), unknown(0, Action::Delete)]);
    good(vec![get(0, 1, None), set(2, 3, 1), get(4, 5, Some(1)), delete(6, 7, true), get(8, 9, None)]);
}

#[test]
fn overlapping_operations_take_any_order() {
    good(vec![set(0, 10, 1), set(0, 10, 2), get(11, 12, Some(1))]);
    good(vec![set(0, 10, 1), set(0, 10, 2), get(11, 12, Some(2))]);
    good(vec![set(0, 10, 1), get(1, 2, None), get(3, 4, Some(1))]);
    bad(vec![set(0, 10, 1), set(0, 10, 2), get(11, 12, Some(1)), get(13, 14, Some(2))]);
}

#[test]
fn a_stale_read_is_bad() {
    let (culprit, violation) = bad(vec![set(0, 1, 1), set(2, 3, 2), get(4, 5, Some(2)), get(6, 7, Some(1))]);
    assert_eq!(culprit.invoked.us, 6);
    assert_eq!(violation.possible, [Model::holding(Value::number(2))]);
}

#[test]
fn a_read_that_goes_back_during_a_write_is_bad() {
    bad(vec![set(0, 1, 1), set(2, 20, 2), get(3, 4, Some(2)), get(5, 6, Some(1))]);
}

#[test]
fn a_lost_write_is_bad() {
    bad(vec![set(0, 1, 1), get(2, 3, None)]);
    bad(vec![set(0, 1, 1), set(2, 3, 2), get(4, 5, Some(1))]);
    bad(vec![set(0, 1, 1), append(2, 3, "2"), append(2, 3, "3"), get(4, 5, Some(12))]);
}

#[test]
fn a_duplicated_increment_is_bad() {
    good(vec![set(0, 1, 5), incr(2, 9, 1, Some(6)), incr(2, 9, 1, Some(7)), get(10, 11, Some(7))]);
    bad(vec![set(0, 1, 5), incr(2, 3, 1, Some(6)), get(4, 5, Some(7))]);
    bad(vec![set(0, 1, 5), incr(2, 9, 1, Some(6)), incr(2, 9, 1, Some(6))]);
    bad(vec![set(0, 1, 5), incr(2, 3, 1, Some(7))]);
}

#[test]
fn a_resurrected_delete_is_bad() {
    bad(vec![set(0, 1, 1), delete(2, 3, true), get(4, 5, None), get(6, 7, Some(1))]);
    bad(vec![set(0, 1, 1), delete(2, 3, true), delete(4, 5, true)]);
    good(vec![set(0, 1, 1), delete(2, 9, true), get(3, 4, Some(1)), get(5, 6, None)]);
}

#[test]
fn only_one_of_two_adds_or_swaps_wins() {
    good(vec![add(0, 9, 1, true), add(0, 9, 2, false), get(10, 11, Some(1))]);
    bad(vec![add(0, 9, 1, true), add(0, 9, 2, true)]);
    bad(vec![add(0, 1, 1, false)]);
    good(vec![set(0, 1, 1), swap(2, 9, 1, 2, Answer::Swapped), swap(2, 9, 1, 3, Answer::Differs)]);
    bad(vec![set(0, 1, 1), swap(2, 9, 1, 2, Answer::Swapped), swap(2, 9, 1, 3, Answer::Swapped)]);
    bad(vec![set(0, 1, 1), swap(2, 3, 1, 2, Answer::Absent)]);
}

#[test]
fn an_unknown_outcome_may_apply_late_or_never() {
    let write = || vec![set(0, 1, 1), unknown(2, Action::Set(Value::number(2)))];
    let with = |rows: Vec<Row>| [write(), rows].concat();
    good(with(vec![get(3, 4, Some(1)), get(1_000, 1_001, Some(1))]));
    good(with(vec![get(3, 4, Some(1)), set(5, 6, 3), get(1_000, 1_001, Some(2))]));
    good(with(vec![get(3, 4, Some(1)), delete(5, 6, true), delete(7, 8, true), get(9, 10, None)]));
}

#[test]
fn an_unknown_outcome_never_applies_before_its_invocation() {
    bad(vec![get(0, 1, Some(2)), unknown(2, Action::Set(Value::number(2)))]);
}

#[test]
fn an_unknown_outcome_applied_twice_is_bad() {
    let write = unknown(2, Action::Set(Value::number(2)));
    bad(vec![write.clone(), get(3, 4, Some(2)), set(5, 6, 3), get(7, 8, Some(3)), get(9, 10, Some(2))]);
    let (culprit, violation) = bad(vec![set(0, 1, 5), unknown(2, Action::Incr(1)), get(3, 4, Some(7))]);
    assert_eq!(culprit.invoked.us, 3);
    assert_eq!(violation.possible, [5, 6].map(|number| Model::holding(Value::number(number))));
    bad(vec![write.clone(), delete(3, 4, true), delete(5, 6, true)]);
    good(vec![write.clone(), write, delete(3, 4, true), delete(5, 6, true)]);
}

#[test]
fn an_unknown_failed_swap_may_be_either() {
    let swap = unknown(2, Action::CompareAndSet { expected: Value::number(1), new: Value::number(2) });
    good(vec![set(0, 1, 1), swap.clone(), get(3, 4, Some(2))]);
    good(vec![set(0, 1, 1), swap.clone(), set(3, 4, 3), get(5, 6, Some(3))]);
    bad(vec![set(0, 1, 1), swap, set(3, 4, 3), get(5, 6, Some(2)), get(7, 8, Some(3))]);
}

#[test]
fn the_prefix_ends_where_it_first_becomes_impossible() {
    // The add's own answer is what cannot be: until it returns, the reads could be explained by its success.
    let rows = vec![add(0, 100, 1, false), get(10, 11, Some(1)), get(12, 13, Some(1))];
    let (culprit, violation) = bad(rows);
    assert_eq!(culprit.invoked.us, 0, "{}", violation.text);
    // With an end before it, the same history is good; what follows the end does not matter.
    let (culprit, _) = bad(vec![set(0, 1, 1), get(2, 3, Some(9)), set(4, 5, 9), get(6, 7, Some(1))]);
    assert_eq!(culprit.invoked.us, 2);
}

#[test]
fn the_explanation_shows_the_culprit_and_what_the_key_held() {
    let (_, violation) = bad(vec![
        set(100, 110, 1),
        set(120, 160, 2),
        unknown(130, Action::Delete),
        get(170, 180, Some(7)),
        set(190, 195, 8),
    ]);
    let lines: Vec<&str> = violation.text.lines().collect();
    assert_eq!(lines[0], "key \"key\": client 3: get -> \"7\"");
    assert_eq!(lines[2], "  in those orders the key then held one of: absent, \"2\"");
    assert!(lines[4].contains("set \"1\" -> done") && lines[4].contains("|="), "{}", violation.text);
    assert!(lines[6].contains("delete -> outcome unknown") && lines[6].contains("|?"), "{}", violation.text);
    assert!(lines[7].starts_with('>'), "{}", violation.text);
    assert_eq!(lines.len(), 8, "what comes after the culprit is not shown:\n{}", violation.text);
}

#[test]
fn the_explanation_of_a_long_history_is_short() {
    let mut rows: Vec<Row> = (0..300).map(|at| set(10 * at, 10 * at + 5, at)).collect();
    rows.extend((0..300).map(|at| unknown(10 * at, Action::Set(Value::number(1_000 + at)))));
    rows.push(get(5_000, 5_001, Some(7)));
    let (culprit, violation) = bad(rows);
    assert_eq!(culprit.invoked.us, 5_000);
    assert!(violation.text.lines().count() < 40, "{}", violation.text);
    assert!(violation.text.contains("set \"299\" -> done"), "{}", violation.text);
}

/// Rows of clients that work one after the other, each in a closed loop, against one key that really is atomic.
/// `lost_ppm` of the operations have an unknown outcome, half of those without effect.
fn workload(seed: u64, clients: usize, count: usize, lost_ppm: u32) -> Vec<Row> {
    let mut rng = Rng::new(seed);
    let mut free_at = vec![0; clients];
    let mut pending: Vec<(u64, u64, u64, Action)> = Vec::new();
    for number in 0..count as u64 {
        let client = rng.index(clients);
        let from = free_at[client] + rng.exponential_us(50, 1_000);
        let takes_effect = from + 1 + rng.exponential_us(50, 1_000);
        let to = takes_effect + 1 + rng.exponential_us(50, 1_000);
        free_at[client] = to + 1;
        let action = match rng.below(10) {
            0..4 => Action::Get,
            4..7 => Action::Set(Value::number(1_000 * number)),
            7 => Action::Delete,
            8 => Action::IncrOrCreate(1),
            _ => Action::Add(Value::number(1_000 * number)),
        };
        pending.push((takes_effect, from, to, action));
    }
    pending.sort_by_key(|row| row.0);
    let mut model = Model::default();
    let mut rows = Vec::new();
    for (_, from, to, action) in pending {
        let lost = rng.chance_ppm(lost_ppm);
        if lost && rng.chance_ppm(500_000) {
            rows.push(unknown(from, action));
            continue;
        }
        let (next, answer) = model.step(&action);
        model = next;
        rows.push(if lost { unknown(from, action) } else { known(from, to, action, answer) });
    }
    rows
}

/// Spoils the last read.
fn spoil(rows: &mut [Row]) {
    let last = rows.iter_mut().filter(|row| row.1.only_reads()).filter_map(|row| row.2.as_mut());
    let (_, answer) = last.last().expect("a workload reads");
    *answer = Answer::Found(Some(Value::number(7)));
}

#[test]
fn real_workloads_are_good_and_spoilt_ones_bad_within_few_configurations() {
    let shapes = [(8, 300, 0, 5_000), (8, 300, 50_000, 20_000), (16, 300, 20_000, 200_000), (4, 1_500, 10_000, 20_000)];
    for (clients, count, lost_ppm, configurations_max) in shapes {
        let mut rows = workload(clients as u64, clients, count, lost_ppm);
        let operations = history(rows.clone());
        match check(b"key", &operations) {
            Verdict::Linearizable { order, configurations } => {
                assert!(explains(&operations, &order));
                assert!(configurations <= configurations_max, "{clients} clients: {configurations}");
            }
            other => panic!("{clients} clients: {other:?}"),
        }
        // The whole space of the spoilt one is searched; with more clients that is beyond a test's patience.
        if clients <= 8 {
            spoil(&mut rows);
            bad(rows);
        }
    }
}

#[test]
fn the_longest_history_is_judged_without_a_deep_stack() {
    let mut rows: Vec<Row> = (0..OPERATIONS_PER_KEY_MAX as u64 - 1).map(|at| set(2 * at, 2 * at + 1, at)).collect();
    rows.push(get(10_000, 10_001, Some(OPERATIONS_PER_KEY_MAX as u64 - 2)));
    good(rows.clone());
    spoil(&mut rows);
    bad(rows);
}

#[test]
fn a_hundred_unknown_writes_do_not_explode() {
    let mut rows: Vec<Row> = (0..100).map(|at| unknown(at, Action::Set(Value::number(1_000 * at)))).collect();
    rows.extend((0..20).map(|at| unknown(at, Action::Incr(1))));
    rows.extend((0..30).map(|at| get(1_000 + 10 * at, 1_001 + 10 * at, Some(2_000 * at + at % 2))));
    good(rows.clone());
    rows.push(get(9_000, 9_001, Some(9_999)));
    let (culprit, _) = bad(rows);
    assert_eq!(culprit.invoked.us, 9_000);
}

#[test]
fn unknown_writes_that_nobody_saw_do_not_explode() {
    // Each may or may not have happened before what is appended, and then all is overwritten.
    let swap_of = |at| Action::CompareAndSet { expected: Value::number(at), new: Value::number(1_000 + at) };
    let round =
        |at: u64| [set(10 * at, 10 * at + 1, at), unknown(10 * at, swap_of(at)), append(10 * at + 2, 10 * at + 3, "7")];
    let mut rows: Vec<Row> = (0..60).flat_map(round).collect();
    good(rows.clone());
    rows.push(get(9_000, 9_001, Some(9_999)));
    bad(rows);
}

#[test]
fn a_search_gives_up_at_its_limit() {
    // Appends that all overlap and that nobody reads but in full: the answer takes 2^n configurations and more.
    let mut rows: Vec<Row> = (0..12).map(|at| append(0, 100, &format!("{at:x}"))).collect();
    rows.push(add(0, 100, 1, true));
    rows.push(get(101, 102, Some(2)));
    let operations = history(rows);
    let found = search(&Problem::new(&operations, u64::MAX), 1_000);
    assert!(matches!(found, Found::TooHard { configurations: 1_000 }), "{found:?}");
}

#[test]
fn what_does_not_compare_counts_as_work() {
    let place = Fingerprint::default();
    let mut visited = Visited::default();
    // Each has spent more of one class and less of another than every other one.
    for at in 0..1_000 {
        assert!(visited.insert(place, &[at, 1_000 - at]));
    }
    assert_eq!(visited.len(), 1_000);
    assert_eq!(visited.effort(), 1_000 + (999 * 1_000 / 2) / 64);
}

/// A tiny history: some of the answers come from an atomic key, some are drawn.
fn tiny_history() -> impl Strategy<Value = Vec<Row>> {
    let value = || (1u64..3).prop_map(Value::number);
    let action = prop_oneof![
        3 => Just(Action::Get),
        2 => value().prop_map(Action::Set),
        1 => value().prop_map(Action::Add),
        1 => value().prop_map(Action::Replace),
        1 => (value(), value()).prop_map(|(expected, new)| Action::CompareAndSet { expected, new }),
        1 => Just(Action::Delete),
        1 => Just(Action::Incr(1)),
        1 => Just(Action::IncrOrCreate(1)),
        1 => Just(Action::ClearDue),
        1 => value().prop_map(Action::Append),
    ];
    // Invocation, time of effect after it, return after that, fate.
    let row = (action, 0u64..14, 0u64..7, 0u64..7, 0u32..12, 1u64..4);
    proptest::collection::vec(row, 0..9).prop_map(|mut rows| {
        rows.sort_by_key(|(_, from, effect, ..)| from + effect);
        let mut model = Model::default();
        let told = rows.into_iter().map(|(action, from, effect, rest, fate, drawn)| {
            let (next, answer) = model.step(&action);
            // Fates: 0 no effect and unknown, 1 effect and unknown, 2 and 3 a wrong answer perhaps, else an honest one.
            if fate != 0 {
                model = next;
            }
            let to = from + effect + rest;
            match fate {
                0 | 1 => (from, action, None),
                2 | 3 => {
                    let answer = match answer {
                        Answer::Found(_) => Answer::Found((drawn < 3).then(|| Value::number(drawn))),
                        Answer::Applied(applied) => Answer::Applied(!applied),
                        Answer::Existed(existed) => Answer::Existed(!existed),
                        Answer::Number(_) => Answer::Number(Some(drawn)),
                        Answer::Swapped => Answer::Differs,
                        other => other,
                    };
                    (from, action, Some((to, answer)))
                }
                _ => (from, action, Some((to, answer))),
            }
        });
        told.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_definition(rows in tiny_history()) {
        let operations = history(rows);
        match check(b"key", &operations) {
            Verdict::Linearizable { order, .. } => prop_assert!(explains(&operations, &order)),
            Verdict::Violation(violation) => {
                prop_assert!(!is_linearizable(&operations));
                let Outcome::Answered(_, end) = operations[violation.operation].outcome else {
                    panic!("the culprit was answered");
                };
                // The prefix is bad, and what comes before its last answer is good.
                prop_assert!(!is_linearizable(&prefix(&operations, end.order)), "{}", violation.text);
                prop_assert!(is_linearizable(&prefix(&operations, end.order - 1)), "{}", violation.text);
            }
            Verdict::TooHard { .. } => panic!("tiny histories are easy"),
        }
    }
}

fn until(from: u64, to: u64, number: u64, at_us: u64) -> Row {
    known(from, to, Action::SetUntil(Value::number(number), at_us), Answer::Done)
}

/// The moment at which lifetimes end.
fn over(at_us: u64) -> Row {
    known(at_us, at_us, Action::Expire(at_us), Answer::Done)
}

#[test]
fn a_value_that_is_over_is_not_seen_and_one_that_is_not_is_not_missed() {
    good(vec![until(0, 1, 1, 10), get(2, 3, Some(1)), over(10), get(11, 12, None)]);
    // Around the end, either.
    good(vec![until(0, 1, 1, 10), over(10), get(8, 12, Some(1)), get(9, 13, None)]);
    bad(vec![until(0, 1, 1, 10), get(2, 3, None), over(10)]);
    bad(vec![until(0, 1, 1, 10), over(10), get(11, 12, Some(1))]);
    // Once it was missed, it is not seen again.
    bad(vec![until(0, 1, 1, 10), over(10), get(8, 12, None), get(13, 14, Some(1))]);
    // What the value before was, nobody sees again.
    bad(vec![set(0, 1, 7), until(2, 3, 1, 10), over(10), get(11, 12, Some(7))]);
}

#[test]
fn a_touch_moves_the_end_and_a_late_store_is_over_at_once() {
    let touch = |from, to, at_us| known(from, to, Action::TouchUntil(at_us), Answer::Applied(true));
    good(vec![until(0, 1, 1, 10), touch(2, 3, 20), over(10), get(11, 12, Some(1)), over(20), get(21, 22, None)]);
    bad(vec![until(0, 1, 1, 10), touch(2, 3, 20), over(10), get(11, 12, None), over(20)]);
    bad(vec![until(0, 1, 1, 20), touch(2, 3, 10), over(10), get(11, 12, Some(1)), over(20)]);
    // It may be stored before or after the value is over.
    good(vec![until(0, 15, 1, 10), over(10), get(16, 17, None)]);
    bad(vec![until(0, 15, 1, 10), over(10), get(16, 17, Some(1))]);
    good(vec![unknown(0, Action::SetUntil(Value::number(1), 10)), over(10), get(11, 12, None)]);
    // A value for ever is not over when the one before would have been.
    bad(vec![until(0, 1, 1, 10), set(2, 3, 2), over(10), get(11, 12, None)]);
}

#[track_caller]
fn judged_with_evictions(rows: Vec<Row>) -> bool {
    let operations = crate::history::with_evictions(&history(rows));
    let is_good = matches!(check(b"key", &operations), Verdict::Linearizable { .. });
    assert_eq!(is_good, is_linearizable(&operations), "the definition says otherwise");
    is_good
}

#[test]
fn an_evicted_key_may_be_missed_and_an_old_value_never_seen() {
    assert!(judged_with_evictions(vec![set(0, 1, 1), get(2, 3, None)]));
    assert!(judged_with_evictions(vec![set(0, 1, 1), delete(2, 3, false), set(4, 5, 2), get(6, 7, None)]));
    assert!(!judged_with_evictions(vec![set(0, 1, 1), get(2, 3, None), get(4, 5, Some(1))]));
    assert!(!judged_with_evictions(vec![set(0, 1, 1), set(2, 3, 2), get(4, 5, Some(1))]));
    assert!(!judged_with_evictions(vec![set(0, 1, 1), add(2, 3, 2, true), get(4, 5, Some(1))]));
    assert!(!judged_with_evictions(vec![delete(0, 1, true)]));
    // What is not known to have happened may have met an evicted key.
    let grown = unknown(2, Action::AppendOrCreate(Value::number(5)));
    assert!(judged_with_evictions(vec![set(0, 1, 1), grown.clone(), get(4, 5, Some(5))]));
    assert!(judged_with_evictions(vec![set(0, 1, 1), grown.clone(), get(4, 5, Some(15))]));
    assert!(!judged_with_evictions(vec![set(0, 1, 1), grown, get(4, 5, Some(51))]));
}

/// A flush for later is an operation that begins when it is due.
#[test]
fn a_flush_for_later_takes_what_was_stored_before_and_nothing_early() {
    let flush = |from, to| known(from, to, Action::Clear, Answer::Done);
    good(vec![set(0, 1, 1), get(2, 3, Some(1)), flush(10, 50), get(12, 13, Some(1)), get(20, 21, None)]);
    bad(vec![set(0, 1, 1), get(2, 3, None), flush(10, 50)]);
    bad(vec![set(0, 1, 1), flush(10, 50), get(20, 21, None), get(22, 23, Some(1))]);
    bad(vec![set(0, 1, 1), flush(10, 50), get(51, 52, Some(1))]);
    good(vec![set(0, 1, 1), unknown(10, Action::Clear), get(51, 52, Some(1))]);
}

#[test]
fn what_is_stored_after_a_flush_was_due_does_not_go_with_it() {
    let due = |from, to| known(from, to, Action::ClearDue, Answer::Done);
    good(vec![set(0, 1, 1), due(10, 50), get(12, 13, Some(1)), set(14, 16, 2), get(17, 18, Some(2))]);
    bad(vec![set(0, 1, 1), due(10, 50), set(14, 16, 2), get(17, 18, None)]);
    // What was asked for before its time may have happened before it or after it.
    good(vec![set(8, 16, 2), due(10, 50), get(17, 18, None)]);
    good(vec![set(8, 16, 2), due(10, 50), get(17, 18, Some(2))]);
    bad(vec![set(0, 1, 1), due(10, 50), append(14, 16, "2"), get(17, 18, Some(12))]);
    good(vec![set(0, 1, 1), due(10, 50), delete(14, 16, true), get(17, 18, None)]);
    bad(vec![set(0, 1, 1), due(10, 50), delete(14, 16, true), set(17, 18, 2), get(19, 20, None)]);
    good(vec![set(0, 1, 1), unknown(10, Action::ClearDue), set(14, 16, 2), get(17, 18, None)]);
}

/// The history as it was known at a point of it.
fn prefix(operations: &[Operation], end: u64) -> Vec<Operation> {
    let known = operations.iter().filter(|operation| operation.invoked.order <= end).cloned();
    let cut = known.map(|mut operation| {
        if matches!(&operation.outcome, Outcome::Answered(_, at) if at.order > end) {
            operation.outcome = Outcome::Pending;
        }
        operation
    });
    cut.collect()
}

#[test]
fn the_random_histories_are_of_both_kinds() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let drawn = (0..400).map(|_| history(tiny_history().new_tree(&mut runner).unwrap().current()));
    let good = drawn.filter(|operations| is_linearizable(operations)).count();
    assert!((100..340).contains(&good), "{good} of 400 are good");
}

/// Eighteen appends may each have happened or not, at any time and in any order; the value shows two of them.
#[test]
fn what_left_no_trace_is_not_placed_in_every_order() {
    let tail = |number: u64| format!("<{number:02}>");
    let mut rows = vec![known(0, 1, Action::Set(Value::bytes(b"a")), Answer::Done)];
    rows.extend((0..18).map(|number| unknown(2 + number, Action::Append(Value::bytes(tail(number).as_bytes())))));
    let shown = format!("a{}{}", tail(11), tail(4));
    rows.push(known(40, 41, Action::Get, Answer::Found(Some(Value::bytes(shown.as_bytes())))));
    match check(b"key", &history(rows)) {
        Verdict::Linearizable { configurations, .. } => assert!(configurations < 100, "{configurations}"),
        other => panic!("{other:?}"),
    }
}

/// No answer shows the value, but one says that there was one.
#[test]
fn what_no_answer_shows_may_have_happened() {
    good(vec![unknown(0, Action::Set(Value::number(5))), add(1, 2, 6, false), delete(3, 4, true), get(5, 6, None)]);
}
