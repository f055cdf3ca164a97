//! Scenarios: how long a gateway is to own nothing.

use super::*;

#[test]
fn a_drain_outlives_the_coordinator_and_what_is_known_of_the_gateway() {
    let (stage, old, new) = planned();
    let mut stage = stage.restart();
    stage.return_of(old).expect("let in");
    stage.return_of(new).expect("let in");
    stage.serve();
    assert_eq!(stage.to_come(new), [4], "an epoch that was meant for another plan is not used");
    stage.close(old);
    stage.return_of(old).expect("let in");
    assert!(stage.scene.persisted.draining.contains(&old), "it may come back");
    stage.silence(old, true);
    stage.pass_ms(2 * FORGET_GATEWAY_AFTER_MS);
    assert!(!stage.scene.coordinator.gateways.contains_key(&old), "it is forgotten");
    stage.return_of(old).expect("let in");
    stage.silence(old, false);
    stage.serve();
    stage.pass_ms(2 * SETTLED_MS);
    assert_eq!((stage.loads(), stage.to_come(old)), ([(new, 8)].into(), vec![]));
    stage.silence(old, true);
    stage.close(old);
    stage.pass_ms(2 * FORGET_GATEWAY_AFTER_MS);
    assert_eq!(stage.order_drain(old, true), Ok(format!("gateway {old} is used again")), "whether it is there or not");
    assert!(stage.scene.persisted.draining.is_empty());
}

/// Its machine stood still together with that of the coordinator, say.
#[test]
fn a_drain_outlives_the_coordinator_however_late_the_gateway_comes() {
    for away_ms in [FORGET_GATEWAY_AFTER_MS - 1_000, 2 * FORGET_GATEWAY_AFTER_MS] {
        let (stage, old, new) = planned();
        let mut stage = stage.restart();
        stage.silence(old, true);
        stage.return_of(new).expect("let in");
        stage.serve();
        stage.pass_ms(away_ms);
        assert_eq!(stage.loads(), [(new, 8)].into());
        stage.return_of(old).expect("let in");
        stage.silence(old, false);
        stage.serve();
        stage.pass_ms(2 * SETTLED_MS);
        assert_eq!((stage.loads(), stage.to_come(old)), ([(new, 8)].into(), vec![]), "{away_ms}");
    }
}

/// Others come under other numbers: it is nobody's any more.
#[test]
fn a_drain_ends_with_a_process_that_is_surely_over() {
    let place = Some("127.0.0.1:7200");
    for is_told_to_end in [true, false] {
        let mut stage = Stage::new(2, 8);
        let (old, _) = (stage.join_at(place), stage.join());
        stage.serve();
        match is_told_to_end {
            true => stage.tells_to_leave(old),
            false => _ = stage.drain(old),
        }
        assert!(stage.scene.persisted.draining.contains(&old));
        stage.die(old);
        match is_told_to_end {
            true => stage.pass_ms(FORGET_GATEWAY_AFTER_MS + 100),
            false => _ = stage.join_at(place),
        }
        assert!(stage.scene.persisted.draining.is_empty(), "{is_told_to_end}");
    }
}

/// The process is the same, and so is what the operator wants of it.
#[test]
fn a_drained_gateway_that_comes_back_owns_nothing() {
    let mut stage = Stage::new(2, 4);
    let (drained, other) = (stage.join(), stage.join());
    stage.serve();
    stage.drain(drained);
    stage.close(drained);
    stage.return_of(drained).expect("let in");
    stage.serve();
    stage.pass_ms(2 * SETTLED_MS);
    assert_eq!(stage.loads(), [(other, 4)].into());
    assert_eq!(stage.to_come(drained), [], "nor is anything to come");
}
