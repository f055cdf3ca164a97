//! Scenarios: the metadata store is away for longer than anything is waited for.

use super::*;

impl Stage {
    fn lose_store(&mut self, is_away: bool) {
        self.scene.coordinator.hold(is_away);
    }
}

/// Two gateways; the first is to hand over what it has. By them, and what it has.
fn of_two() -> (Stage, u16, u16) {
    let mut stage = Stage::new(2, 8);
    let (old, new) = (stage.join(), stage.join());
    stage.serve();
    (stage, old, new)
}

/// They hear only then that they are to: the owner would let go for nobody that knows what it had.
#[test]
fn heirs_have_time_to_prepare_once_the_store_is_there_again() {
    let (mut stage, old, new) = of_two();
    stage.drain(old);
    stage.lose_store(true);
    stage.pass_ms(2 * PREPARE_MS_MAX);
    assert_eq!(stage.lets_go(old), []);
    stage.lose_store(false);
    stage.pass_ms(PREPARE_MS_MAX - 200);
    assert_eq!(stage.lets_go(old), []);
    stage.prepare();
    assert_eq!((stage.lets_go(old), stage.loads()[&new]), (vec![1], 4));
}

#[test]
fn who_is_prepared_is_followed_to_when_the_store_is_there_again() {
    let (mut stage, old, _) = of_two();
    stage.drain(old);
    stage.lose_store(true);
    stage.prepare();
    assert_eq!(stage.lets_go(old), [], "nobody could follow");
    stage.lose_store(false);
    stage.beat();
    assert_eq!(stage.lets_go(old), [1]);
}
