//! A state is put back from a backup that knows nothing of later owners.

use super::*;

/// Two gateways own everything, and two others that the state does not name come back to its coordinator: they own what
/// they took over under epochs 5 and 6.
struct PutBack {
    stage: Stage,
    before: Vec<(u32, u16, usize)>,
    later: [u16; 2],
}

fn put_back() -> PutBack {
    let mut stage = Stage::new(2, 4);
    let owners = [stage.join(), stage.join()];
    stage.serve();
    let (backup, before) = (stage.scene.persisted.clone(), stage.owners());
    let later = [stage.join(), stage.join()];
    owners.into_iter().for_each(|id| stage.die(id));
    stage.scene.persisted = backup;
    let mut stage = stage.restart();
    stage.scene.used.extend([5, 6]);
    for (id, epoch) in later.into_iter().zip([5, 6]) {
        let standing = Standing { epoch: Epoch(epoch), proven_by: 1, state: TenureState::Serving };
        let actor = stage.actor(id);
        (actor.standings, actor.is_silent) = ([(epoch, standing)].into(), true);
    }
    PutBack { stage, before, later }
}

impl PutBack {
    fn speaks(&mut self, id: u16) {
        self.stage.silence(id, false);
        self.stage.beat();
    }

    fn assert_dealt_beyond(&self, epoch: u32) {
        let owners = self.stage.owners();
        assert_eq!(owners.iter().map(|(.., count)| count).sum::<usize>(), 4);
        assert!(owners.iter().all(|(used, ..)| *used > epoch + EPOCHS_SKIPPED), "{owners:?}");
    }
}

#[test]
fn an_epoch_of_a_gateway_that_is_not_heard_yet_is_not_handed_out() {
    let mut scene = put_back();
    let [heard, late] = scene.later;
    scene.stage.return_of(heard).expect("let in");
    scene.speaks(heard);
    scene.stage.pass_ms(GATEWAY_RETURN_MS + GATEWAY_RETURN_SPREAD_MS);
    assert_eq!(scene.stage.loads(), [(heard, 4)].into());
    scene.assert_dealt_beyond(5);
    scene.stage.return_of(late).expect("let in");
    scene.speaks(late);
    assert_eq!(scene.stage.loads(), [(heard, 4)].into());
}

/// They are as many as owned something, so nobody else is waited for.
#[test]
fn nothing_is_dealt_before_all_that_are_there_told_of_their_epochs() {
    let mut scene = put_back();
    for id in scene.later {
        scene.stage.return_of(id).expect("let in");
        assert_eq!(scene.stage.owners(), scene.before);
    }
    scene.speaks(scene.later[0]);
    assert_eq!(scene.stage.owners(), scene.before);
    scene.speaks(scene.later[1]);
    assert_eq!(scene.stage.loads(), scene.later.map(|id| (id, 2)).into());
    scene.assert_dealt_beyond(5);
}

#[test]
fn who_tells_nothing_is_waited_for_until_it_is_dead() {
    let mut scene = put_back();
    let [heard, silent] = scene.later;
    scene.stage.return_of(heard).expect("let in");
    scene.stage.return_of(silent).expect("let in");
    scene.speaks(heard);
    scene.stage.pass_ms(GATEWAY_DEAD_AFTER_MS - 100);
    assert_eq!(scene.stage.owners(), scene.before);
    scene.stage.pass_ms(200);
    assert_eq!(scene.stage.loads(), [(heard, 4)].into());
}

/// A known one tells again on each connection; what it told before counts.
#[test]
fn who_told_once_is_not_waited_for_when_it_comes_back() {
    let mut stage = Stage::new(2, 4);
    let [stays, dies] = [stage.join(), stage.join()];
    stage.serve();
    let mut stage = stage.restart();
    stage.return_of(stays).expect("let in");
    stage.return_of(dies).expect("let in");
    stage.serve();
    stage.close(stays);
    stage.return_of(stays).expect("let in");
    stage.die(dies);
    assert_eq!(stage.loads(), [(stays, 4)].into());
}

#[test]
fn nothing_is_planned_before_all_that_are_there_told_of_their_epochs() {
    let mut stage = Stage::new(2, 4);
    let [drained, other, unheard] = [stage.join(), stage.join(), stage.join()];
    stage.serve();
    let mut stage = stage.restart();
    stage.silence(unheard, true);
    for id in [drained, other, unheard] {
        stage.return_of(id).expect("let in");
    }
    stage.serve();
    stage.drain(drained);
    let epoch = stage.scene.persisted.epoch;
    stage.serve();
    assert_eq!(stage.scene.persisted.epoch, epoch);
    stage.silence(unheard, false);
    stage.beat();
    assert!(stage.scene.persisted.epoch > epoch, "it hands over");
}
