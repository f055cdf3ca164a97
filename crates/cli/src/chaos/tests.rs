//! What is typed is what is ordered.

use clap::Parser;
use shorttail_chaos::{ChaosOrder, Class, Corrupt, Cycle, Fault, FaultKind, FlipBits, Loss, Ramp, Slow, Stall, Tail};
use shorttail_wire::control::{ChaosStatus, NodeStatusEntry};

use super::*;
use crate::arguments::{Cli, Verb};

fn typed(line: &str) -> Result<(Nodes, ChaosOrder), String> {
    let words = format!("shorttail chaos {line}");
    let cli = Cli::try_parse_from(words.split_whitespace()).map_err(|error| error.to_string())?;
    let Verb::Chaos(command) = cli.verb else { panic!("another verb") };
    Ok(command.verb.order().expect("an order"))
}

fn ordered(line: &str) -> ChaosOrder {
    typed(line).unwrap_or_else(|problem| panic!("{line}: {problem}")).1
}

fn fault(kind: FaultKind) -> ChaosOrder {
    ChaosOrder::Apply(Fault { kind, for_us: None })
}

#[test]
fn every_way_of_being_slow_can_be_typed() {
    let slow = |slow: Slow| fault(FaultKind::Slow(slow));
    let by = |delay_us| Slow { delay_us, ..Slow::default() };
    for (line, order) in [
        ("slow 3 --delay 50ms", slow(by(50_000))),
        ("slow 3 --delay 50ms --jitter", slow(Slow { jitter_ppm: 500_000, ..by(50_000) })),
        ("slow 3 --delay 50ms --jitter=10%", slow(Slow { jitter_ppm: 100_000, ..by(50_000) })),
        (
            "slow 3 --tail 1%:200ms",
            slow(Slow { tail: Some(Tail { share_ppm: 10_000, extra_us: 200_000 }), ..Slow::default() }),
        ),
        (
            "slow 3 --ramp 0..50ms/10s",
            slow(Slow { ramp: Some(Ramp { from_us: 0, to_us: 50_000, over_us: 10_000_000 }), ..Slow::default() }),
        ),
        (
            "slow 3 --delay 1ms --square 10s",
            slow(Slow { square: Some(Cycle { bad_us: 10_000_000, good_us: 10_000_000 }), ..by(1_000) }),
        ),
        ("slow 3 --delay 1ms --reads-only", slow(Slow { only: Some(Class::Read), ..by(1_000) })),
        ("slow 3 --delay 1ms --writes-only", slow(Slow { only: Some(Class::Write), ..by(1_000) })),
        ("slow 3 --delay 1ms --values-above 16KiB", slow(Slow { above_bytes: 16_384, ..by(1_000) })),
        ("slow 3 --bandwidth 1MiB/s", slow(Slow { bandwidth: 1 << 20, ..Slow::default() })),
    ] {
        assert_eq!(ordered(line), order, "{line}");
        assert_eq!(order.check(), Ok(()), "{line}");
    }
}

#[test]
fn every_other_fault_can_be_typed() {
    let cycle = Cycle { bad_us: 50_000, good_us: 2_000 };
    for (line, order) in [
        ("stall 3", fault(FaultKind::Stall(Stall { cycle: None }))),
        ("stall 3 --duty 50ms/2ms", fault(FaultKind::Stall(Stall { cycle: Some(cycle) }))),
        ("drop 3", fault(FaultKind::Drop(Loss { share_ppm: 1_000_000, reset: false }))),
        ("drop 3 --share 1% --reset", fault(FaultKind::Drop(Loss { share_ppm: 10_000, reset: true }))),
        ("corrupt 3 --share 1%", fault(FaultKind::Corrupt(Corrupt { share_ppm: 10_000 }))),
        ("corrupt 3 --bits 7", ChaosOrder::FlipBits(FlipBits { count: 7 })),
        ("kill 3", ChaosOrder::Kill),
        ("clear 3", ChaosOrder::Clear),
    ] {
        assert_eq!(typed(line), Ok((Nodes::Some(vec![3]), order)), "{line}");
    }
    let stall = Fault { kind: FaultKind::Stall(Stall { cycle: None }), for_us: Some(1_000_000) };
    assert_eq!(ordered("stall 3 --for 1s"), ChaosOrder::Apply(stall));
    assert_eq!(typed("clear"), Ok((Nodes::All, ChaosOrder::Clear)));
    assert_eq!(typed("kill 1,2").map(|typed| typed.0), Ok(Nodes::Some(vec![1, 2])));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for line in [
        "slow --delay 50ms",
        "slow 3 --delay 50",
        "slow 3 --delay 1ms --reads-only --writes-only",
        "corrupt 3",
        "corrupt 3 --bits 1 --share 1%",
        "corrupt 3 --bits 1 --for 1s",
        "drop 3 --share 0%",
        "kill",
    ] {
        assert!(typed(line).is_err(), "{line}");
    }
    let either = typed("corrupt 3").expect_err("what harm?");
    assert!(either.contains("--bits") && either.contains("--share"), "{either}");
    assert!(ordered("slow 3").check().is_err_and(|why| why.to_string().contains("by how much")));
}

#[test]
fn the_table_shows_faults_and_what_they_did() {
    let ChaosOrder::Apply(fault) = ordered("slow 3 --delay 50ms") else { panic!("a fault") };
    let chaos = ChaosStatus { faults: vec![fault], delayed_total: 12, ..ChaosStatus::default() };
    let slow = NodeStatusEntry { id: 3, chaos_allowed: true, chaos, ..NodeStatusEntry::default() };
    let nodes = vec![slow, NodeStatusEntry { id: 4, ..NodeStatusEntry::default() }];
    let text = table(&ClusterStatus { nodes, chaos_allowed: true, ..ClusterStatus::default() });
    assert!(text.contains("\n3     normal  12       0        0          0             slow 50ms\n"), "{text}");
    assert!(text.contains("\n4     normal  0        0        0          0             not allowed\n"), "{text}");
}
