//! Replies of two sessions pass through an injector, by hand.

use shorttail_chaos::{Corrupt, FaultKind, Loss, Slow, Stall};
use shorttail_units::{OpNumber, StripeId};

use super::*;

const NEVER_FOR: Option<u64> = None;

/// An injector and what left it, session by session.
struct Scene {
    injector: Injector,
    now_us: u64,
}

impl Scene {
    fn with(kind: FaultKind) -> Self {
        let mut scene = Scene { injector: Injector::new(3), now_us: 1_000 };
        scene.apply(kind);
        scene
    }

    fn apply(&mut self, kind: FaultKind) {
        let fault = Fault { kind, for_us: NEVER_FOR };
        fault.check().expect("it makes sense");
        self.injector.apply(self.now_us, fault);
    }

    fn ask(&mut self, session: usize, tag: u64, request: &NodeRequest<'_>) {
        let mut bytes = Vec::new();
        request.encode(tag, &mut bytes);
        self.injector.note_requests(self.now_us, session, &bytes);
    }

    fn answer(&mut self, session: usize, tag: u64, reply: &NodeReply<'_>) -> Result<(), Broken> {
        let mut bytes = Vec::new();
        reply.encode(tag, &mut bytes);
        let result = self.injector.judge(self.now_us, session, &mut bytes);
        assert!(bytes.is_empty(), "what was judged is taken");
        result
    }

    /// Lets time pass; the tags of what left, with the session.
    fn pass(&mut self, us: u64) -> Vec<(usize, u64)> {
        self.now_us += us;
        let mut sessions = Vec::new();
        self.injector.release(self.now_us, &mut sessions);
        let mut left = Vec::new();
        for session in [1, 2] {
            let Some(ready) = self.injector.ready(session) else { continue };
            let mut rest = &ready[..];
            while let Some((frame, length)) = next_frame(rest).expect("frames") {
                left.push((session, frame.tag));
                rest = &rest[length..];
            }
            ready.clear();
        }
        left
    }
}

fn read() -> NodeRequest<'static> {
    NodeRequest::ReadRecord { stripe: StripeId::from_raw(9), offset: 0 }
}

fn slow(delay_us: u64) -> Slow {
    Slow { delay_us, ..Slow::default() }
}

const DONE: NodeReply<'static> = NodeReply::Done { used_bytes: 0, held_bytes: 0 };

#[test]
fn only_what_is_meant_waits_and_nothing_else_waits_for_it() {
    let mut scene = Scene::with(FaultKind::Slow(Slow { only: Some(Class::Read), ..slow(500) }));
    scene.ask(1, 7, &read());
    scene.ask(1, 8, &NodeRequest::Ping);
    assert_eq!(scene.answer(1, 7, &NodeReply::Bytes(b"abc")), Ok(()));
    assert_eq!(scene.answer(1, 8, &DONE), Ok(()));
    assert_eq!(scene.answer(2, 3, &DONE), Ok(()));
    assert_eq!(scene.injector.due_us(), Some(1_500));
    assert_eq!(scene.pass(499), [(1, 8), (2, 3)]);
    assert_eq!(scene.pass(1), [(1, 7)]);
    assert_eq!((scene.injector.due_us(), scene.injector.injected().delayed), (None, 1));
}

#[test]
fn acknowledgements_are_writes_with_the_bytes_of_their_appends() {
    let stripe = StripeId::from_raw(4);
    let mut scene = Scene::with(FaultKind::Slow(Slow { only: Some(Class::Write), above_bytes: 150, ..slow(10) }));
    let append = |op| NodeRequest::Append {
        stripe,
        op: OpNumber(op),
        previous: OpNumber(op - 1),
        stable: OpNumber(0),
        data_index: 0,
        offset: 0,
        bytes: &[7; 50],
    };
    scene.ask(1, 0, &append(1));
    scene.ask(1, 0, &append(2));
    scene.answer(1, 0, &NodeReply::Acked { stripe, op: OpNumber(2) }).expect("goes on");
    assert_eq!(scene.injector.due_us(), Some(1_010), "two appends of a hundred bytes with their headers");
    scene.ask(1, 0, &append(3));
    scene.answer(1, 0, &NodeReply::Acked { stripe, op: OpNumber(3) }).expect("goes on");
    assert_eq!(scene.pass(0), [(1, 0)], "one alone is below");
}

#[test]
fn a_stalled_node_answers_nothing_until_its_faults_are_cleared() {
    let mut scene = Scene::with(FaultKind::Stall(Stall::default()));
    scene.answer(1, 1, &DONE).expect("goes on");
    scene.answer(2, 2, &DONE).expect("goes on");
    assert_eq!(scene.injector.due_us(), None);
    assert_eq!(scene.pass(1_000_000_000), []);
    scene.injector.clear();
    assert_eq!(scene.injector.due_us(), Some(0));
    assert_eq!(scene.pass(0), [(1, 1), (2, 2)]);
    assert!(!scene.injector.concerns(scene.now_us, 1), "the direct way again");
}

#[test]
fn what_follows_the_last_held_reply_stays_behind_what_is_ready() {
    let mut scene = Scene::with(FaultKind::Slow(slow(100)));
    let mut cut = b"the end of a reply".to_vec();
    scene.injector.adopt(1, &mut cut);
    scene.injector.clear();
    assert!(cut.is_empty() && scene.injector.concerns(scene.now_us, 1), "half a reply is on its way");
    scene.answer(1, 5, &DONE).expect("goes on");
    let ready = scene.injector.ready(1).expect("something");
    assert!(ready.starts_with(b"the end of a reply") && ready.len() == 18 + FRAME_HEADER_BYTES + 16);
    ready.clear();
    assert!(!scene.injector.concerns(scene.now_us, 1));
}

#[test]
fn lost_replies_are_gone_and_a_broken_connection_says_so() {
    let mut scene = Scene::with(FaultKind::Drop(Loss { share_ppm: 1_000_000, reset: false }));
    assert_eq!(scene.answer(1, 1, &DONE), Ok(()));
    assert_eq!((scene.pass(1_000_000), scene.injector.injected().dropped), (vec![], 1));
    scene.apply(FaultKind::Drop(Loss { share_ppm: 1_000_000, reset: true }));
    assert_eq!(scene.answer(1, 1, &DONE), Err(Broken));
}

#[test]
fn one_bit_of_what_is_read_flips_and_nothing_of_other_replies() {
    let mut scene = Scene::with(FaultKind::Corrupt(Corrupt { share_ppm: 1_000_000 }));
    scene.ask(1, 7, &read());
    scene.answer(1, 7, &NodeReply::Bytes(&[0; 64])).expect("goes on");
    scene.answer(1, 8, &DONE).expect("goes on");
    let ready = scene.injector.ready(1).expect("both").clone();
    let (frame, length) = next_frame(&ready).expect("a frame").expect("whole");
    assert_eq!((frame.tag, frame.body.iter().map(|byte| byte.count_ones()).sum::<u32>()), (7, 1));
    let (frame, _) = next_frame(&ready[length..]).expect("a frame").expect("whole");
    assert_eq!(NodeReply::parse(&frame), Ok(DONE));
    assert_eq!(scene.injector.injected().corrupted, 1);
}

#[test]
fn a_session_that_too_much_waits_for_ends() {
    let mut scene = Scene::with(FaultKind::Stall(Stall::default()));
    let megabyte = vec![0; 1 << 20];
    let ended = (0..40).position(|tag| scene.answer(1, tag, &NodeReply::Bytes(&megabyte)).is_err());
    assert_eq!(ended, Some(31), "with their headers, 32 are more than 32 MiB");
    scene.injector.forget(1);
    assert!(scene.injector.held.is_empty(), "nobody is left to tell");
    assert_eq!(scene.answer(2, 1, &DONE), Ok(()));
    scene.injector.clear();
    assert_eq!(scene.pass(0), [(2, 1)]);
}
