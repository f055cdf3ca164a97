//! Each fault by itself, and together, in virtual time.

use proptest::prelude::*;

use super::*;
use crate::cycle::Cycle;
use crate::fault::{Corrupt, Loss, Ramp, Stall, Tail};

const MS: u64 = 1_000;
const START_US: u64 = 7_000_000;

fn read(bytes: u64) -> Traffic {
    Traffic { class: Class::Read, request_bytes: 12, reply_bytes: bytes }
}

fn write(bytes: u64) -> Traffic {
    Traffic { class: Class::Write, request_bytes: bytes, reply_bytes: 12 }
}

fn with(kind: FaultKind) -> FaultModel {
    with_for(kind, None)
}

fn with_for(kind: FaultKind, for_us: Option<u64>) -> FaultModel {
    let mut model = FaultModel::new(1);
    let fault = Fault { kind, for_us };
    fault.check().expect("a fault that makes sense");
    model.apply(START_US, fault);
    model
}

/// Delay of a reply `since_us` after the start of the fault.
fn delay(model: &mut FaultModel, since_us: u64, traffic: Traffic) -> u64 {
    match model.judge(START_US + since_us, traffic) {
        Fate::Leave { at_us, flip: None } => at_us - START_US - since_us,
        fate => panic!("{fate:?}"),
    }
}

#[test]
fn without_a_fault_everything_leaves_at_once() {
    let mut model = FaultModel::new(1);
    assert_eq!(delay(&mut model, 0, read(100)), 0);
    assert!(!model.is_active(START_US));
}

#[test]
fn a_constant_delay_is_constant_and_no_reply_delays_another() {
    let mut model = with(FaultKind::Slow(Slow { delay_us: 50 * MS, ..Slow::default() }));
    let delays: Vec<u64> = (0..100).map(|step| delay(&mut model, step, read(100))).collect();
    assert!(delays.iter().all(|&delay| delay == 50 * MS), "{delays:?}");
    let other = Traffic { class: Class::Other, request_bytes: 0, reply_bytes: 8 };
    assert_eq!(delay(&mut model, 0, other), 50 * MS);
}

#[test]
fn jitter_spreads_evenly_around_the_delay() {
    let mut model = with(FaultKind::Slow(Slow { delay_us: 10 * MS, jitter_ppm: 500_000, ..Slow::default() }));
    let delays: Vec<u64> = (0..10_000).map(|_| delay(&mut model, 0, read(1))).collect();
    assert!(delays.iter().all(|delay| (5 * MS..=15 * MS).contains(delay)));
    let mean = delays.iter().sum::<u64>() / 10_000;
    assert!((9_800..=10_200).contains(&mean), "{mean}");
    assert!(delays.iter().min() < Some(&5_100) && delays.iter().max() > Some(&14_900));
}

#[test]
fn a_heavy_tail_hits_its_share() {
    let tail = Tail { share_ppm: 10_000, extra_us: 200 * MS };
    let mut model = with(FaultKind::Slow(Slow { tail: Some(tail), ..Slow::default() }));
    let late = (0..100_000).filter(|_| delay(&mut model, 0, read(1)) == 200 * MS).count();
    assert!((900..=1_100).contains(&late), "{late} of 100000");
}

#[test]
fn a_ramp_rises_evenly_and_stays_and_may_fall() {
    let ramp = Ramp { from_us: 0, to_us: 50 * MS, over_us: 10_000 * MS };
    let mut model = with(FaultKind::Slow(Slow { ramp: Some(ramp), ..Slow::default() }));
    let at = [0, 2_000 * MS, 5_000 * MS, 10_000 * MS, 60_000 * MS];
    assert_eq!(at.map(|since| delay(&mut model, since, read(1))), [0, 10 * MS, 25 * MS, 50 * MS, 50 * MS]);
    let ramp = Ramp { from_us: 40 * MS, to_us: 20 * MS, over_us: 10 * MS };
    let mut model = with(FaultKind::Slow(Slow { ramp: Some(ramp), delay_us: MS, ..Slow::default() }));
    assert_eq!([0, 5 * MS, 10 * MS].map(|since| delay(&mut model, since, read(1))), [41 * MS, 31 * MS, 21 * MS]);
}

#[test]
fn a_square_wave_begins_slow() {
    let square = Cycle { bad_us: 10_000 * MS, good_us: 10_000 * MS };
    let mut model = with(FaultKind::Slow(Slow { delay_us: MS, square: Some(square), ..Slow::default() }));
    let at = [0, 9_999 * MS, 10_000 * MS, 19_999 * MS, 20_000 * MS];
    assert_eq!(at.map(|since| delay(&mut model, since, read(1))), [MS, MS, 0, 0, MS]);
}

#[test]
fn a_fault_may_mean_one_class_or_large_values_only() {
    let slow = Slow { delay_us: MS, only: Some(Class::Write), above_bytes: 16_384, ..Slow::default() };
    let mut model = with(FaultKind::Slow(slow));
    let traffic = [read(100_000), write(16_384), write(16_385)];
    assert_eq!(traffic.map(|traffic| delay(&mut model, 0, traffic)), [0, 0, MS]);
    let mut model = with(FaultKind::Slow(Slow { only: Some(Class::Read), ..slow }));
    assert_eq!(traffic.map(|traffic| delay(&mut model, 0, traffic)), [MS, 0, 0]);
}

#[test]
fn a_bandwidth_is_shared_and_what_waits_for_it_adds_up() {
    let mut model = with(FaultKind::Slow(Slow { bandwidth: 1_000_000, ..Slow::default() }));
    let delays = [0; 3].map(|since| delay(&mut model, since, write(988)));
    assert_eq!(delays, [1_000, 2_000, 3_000], "a thousand bytes with the reply, a microsecond each");
    assert_eq!(delay(&mut model, 2_500, read(488)), 500 + 500, "what is left of the queue, and its own time");
    assert_eq!(delay(&mut model, 60_000, read(488)), 500, "the link is free again");
}

#[test]
fn a_stall_holds_everything_until_it_is_over() {
    let mut model = with_for(FaultKind::Stall(Stall::default()), Some(1_000 * MS));
    let at = [0, 400 * MS, 999_999, 1_000 * MS];
    assert_eq!(at.map(|since| delay(&mut model, since, read(1))), [1_000 * MS, 600 * MS, 1, 0]);
    let mut model = with(FaultKind::Stall(Stall::default()));
    assert_eq!(model.judge(START_US, read(1)), Fate::Leave { at_us: FaultModel::NEVER, flip: None });
    model.clear();
    assert_eq!(delay(&mut model, 0, read(1)), 0);
}

#[test]
fn a_duty_cycle_lets_replies_go_in_its_good_phases() {
    let cycle = Cycle { bad_us: 50 * MS, good_us: 2 * MS };
    let mut model = with(FaultKind::Stall(Stall { cycle: Some(cycle) }));
    let at = [0, 49 * MS, 50 * MS, 51 * MS, 52 * MS];
    assert_eq!(at.map(|since| delay(&mut model, since, read(1))), [50 * MS, MS, 0, 0, 50 * MS]);
    model.apply(START_US, Fault { kind: FaultKind::Slow(Slow { delay_us: 3 * MS, ..Slow::default() }), for_us: None });
    let late = delay(&mut model, 50 * MS, read(1));
    assert_eq!(late, 52 * MS, "due in the next bad phase, it waits for its end");
}

#[test]
fn drops_take_their_share_and_may_take_the_connection() {
    for (reset, fate) in [(false, Fate::Vanish), (true, Fate::Reset)] {
        let mut model = with(FaultKind::Drop(Loss { share_ppm: 10_000, reset }));
        let gone = (0..100_000).filter(|_| model.judge(START_US, write(1)) == fate).count();
        assert!((900..=1_100).contains(&gone), "{gone} of 100000");
    }
}

#[test]
fn only_what_is_read_is_corrupted() {
    let mut model = with(FaultKind::Corrupt(Corrupt { share_ppm: 1_000_000 }));
    assert!(matches!(model.judge(START_US, read(9)), Fate::Leave { at_us: START_US, flip: Some(_) }));
    assert_eq!(delay(&mut model, 0, write(9)), 0);
}

#[test]
fn a_fault_replaces_its_kind_only_and_ends_by_itself() {
    let slow = |delay_us| FaultKind::Slow(Slow { delay_us, ..Slow::default() });
    let mut model = with_for(slow(50 * MS), Some(10 * MS));
    model.apply(START_US, Fault { kind: FaultKind::Corrupt(Corrupt { share_ppm: 1 }), for_us: None });
    assert_eq!(model.faults(START_US).len(), 2);
    model.apply(START_US, Fault { kind: slow(MS), for_us: Some(20 * MS) });
    assert_eq!((model.faults(START_US).len(), delay(&mut model, 0, write(1))), (2, MS));
    assert_eq!((delay(&mut model, 20 * MS, write(1)), model.faults(START_US + 20 * MS).len()), (0, 1));
    model.clear();
    assert!(!model.is_active(START_US));
}

fn any_slow() -> impl Strategy<Value = Slow> {
    let delays = (0u64..100_000, 0u32..=1_000_000, proptest::option::of((1u32..=1_000_000, 0u64..100_000)));
    let shape =
        (proptest::option::of((0u64..9_000, 0u64..9_000, 1u64..9_000)), proptest::option::of((1u64..99, 1u64..99)));
    (delays, shape, 0u64..1_000_000).prop_map(|((delay_us, jitter_ppm, tail), (ramp, square), bandwidth)| Slow {
        delay_us,
        jitter_ppm,
        tail: tail.map(|(share_ppm, extra_us)| Tail { share_ppm, extra_us }),
        ramp: ramp.map(|(from_us, to_us, over_us)| Ramp { from_us, to_us, over_us }),
        square: square.map(|(bad_us, good_us)| Cycle { bad_us, good_us }),
        bandwidth,
        ..Slow::default()
    })
}

proptest! {
    #[test]
    fn nothing_leaves_before_its_time_and_one_seed_gives_one_course(
        slow in any_slow(),
        cycle in proptest::option::of((1u64..99, 1u64..99)),
        steps in proptest::collection::vec((0u64..10_000, 0u64..100_000), 1..50),
    ) {
        let mut model = FaultModel::new(9);
        model.apply(START_US, Fault { kind: FaultKind::Slow(slow), for_us: None });
        if let Some((bad_us, good_us)) = cycle {
            let stall = Stall { cycle: Some(Cycle { bad_us, good_us }) };
            model.apply(START_US, Fault { kind: FaultKind::Stall(stall), for_us: None });
        }
        let mut twin = model.clone();
        let mut now_us = START_US;
        for (step_us, bytes) in steps {
            now_us += step_us;
            let fate = model.judge(now_us, read(bytes));
            prop_assert_eq!(fate, twin.judge(now_us, read(bytes)));
            let Fate::Leave { at_us, flip: None } = fate else { panic!("{fate:?}") };
            prop_assert!(at_us >= now_us && at_us < FaultModel::NEVER);
        }
    }
}
