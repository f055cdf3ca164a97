//! Nodes that are late, silent for a while, or for good.

use std::collections::VecDeque;

use shorttail_units::{CodeShape, OpNumber, PartitionId};
use shorttail_wire::node::NodeReply;

use super::*;
use crate::engine::limits::TICK_US;
use crate::engine::state::testing::{ask_as, confirm_all, engine_of_ready_nodes, keys_in, replies_of};
use crate::request::Reply;

const NODE: NodeId = NodeId(3);
const DONE: NodeReply<'_> = NodeReply::Done { used_bytes: 0, held_bytes: 0 };
const DEADLINE_US: u64 = 100_000;

fn session(core: u16) -> SessionId {
    SessionId { node: NODE, core }
}

/// Another node could take the place of any; the one that this is about has two cores.
fn engine() -> Engine {
    let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(4, 2).expect("a code"), 8);
    assert_eq!(engine.config.request_deadline_us, DEADLINE_US);
    let node = engine.nodes.get_mut(NODE).expect("a node");
    node.sessions.resize_with(2, Default::default);
    (node.sessions[1].connected, node.sessions[1].memory_bytes) = (true, 1 << 30);
    engine
}

fn phase(engine: &Engine) -> NodePhase {
    engine.nodes.get(NODE).expect("a node").phase
}

/// It is as late, and looked at.
fn pass_until(engine: &mut Engine, us: u64) {
    while engine.now.mono_us < us {
        let mono_us = (engine.now.mono_us + TICK_US).min(us);
        engine.set_now(Now { mono_us, ..engine.now });
        engine.check_deadlines();
        engine.run_work();
    }
}

fn ask(engine: &mut Engine, core: u16) -> PoolKey {
    let read =
        NodeRequest::ReadRange { stripe: StripeId::default(), offset: 0, length: 1 << 20, op: Default::default() };
    engine.ask_session(session(core), &read, What::Nothing)
}

fn answer(engine: &mut Engine, core: u16, tag: PoolKey) {
    let mut bytes = Vec::new();
    DONE.encode(tag.raw(), &mut bytes);
    engine.handle_session_input(engine.now, session(core), &bytes).expect("a reply");
}

/// What the server sends on a session: the tags.
fn sent(engine: &mut Engine, core: u16) -> Vec<PoolKey> {
    let bytes = engine.session_output(session(core)).map_or(Vec::new(), std::mem::take);
    let (mut tags, mut at) = (Vec::new(), 0);
    while let Some((frame, length)) = next_frame(&bytes[at..]).expect("frames") {
        tags.push(PoolKey::from_raw(frame.tag));
        at += length;
    }
    tags
}

#[test]
fn a_node_is_used_again_when_each_of_its_cores_answers() {
    for first in [0, 1] {
        let mut engine = engine();
        let read = ask(&mut engine, 1);
        pass_until(&mut engine, DEADLINE_US + TICK_US);
        assert_eq!(phase(&engine), NodePhase::Suspect);
        let pings = [0, 1].map(|core| *sent(&mut engine, core).last().expect("a ping"));
        assert!(!pings.contains(&read));
        answer(&mut engine, first, pings[usize::from(first)]);
        assert_eq!(phase(&engine), NodePhase::Suspect, "one of its cores stands still");
        pass_until(&mut engine, (HUNG_DEADLINES + 2) * DEADLINE_US);
        assert_eq!(phase(&engine), NodePhase::Hung);
        // What was asked before it was given up is of no use, what is asked now is.
        pass_until(&mut engine, (HUNG_DEADLINES + 10) * DEADLINE_US);
        assert_eq!(sent(&mut engine, first), [], "it has answered");
        let again = *sent(&mut engine, 1 - first).last().expect("a ping");
        answer(&mut engine, 1 - first, again);
        assert_eq!(phase(&engine), NodePhase::Ready);
    }
}

/// It may answer yet, and is used at once when it does.
#[test]
fn writes_wait_for_a_late_node_without_which_there_are_too_few() {
    for answers in [true, false] {
        let mut engine = engine();
        ask(&mut engine, 1);
        pass_until(&mut engine, DEADLINE_US + TICK_US);
        assert_eq!(phase(&engine), NodePhase::Suspect);
        for died in [6, 7] {
            engine.nodes.get_mut(NodeId(died)).expect("a node").phase = NodePhase::Away;
        }
        engine.tick();
        ask_as(&mut engine, 1, b"set a 0 0 1\r\n1\r\n");
        engine.run_work();
        assert_eq!((replies_of(&mut engine), engine.stripes.unsealed().len()), (vec![], 0), "it waits");
        if answers {
            let pings = [0, 1].map(|core| *sent(&mut engine, core).last().expect("a ping"));
            [0, 1].into_iter().zip(pings).for_each(|(core, ping)| answer(&mut engine, core, ping));
            engine.flush_logs();
            let slot = engine.stripes.unsealed()[0];
            confirm_all(&mut engine, slot);
        } else {
            pass_until(&mut engine, (HUNG_DEADLINES + 2) * DEADLINE_US);
            assert_eq!(phase(&engine), NodePhase::Hung);
            engine.tick();
            engine.run_work();
        }
        let told = replies_of(&mut engine);
        let expected = if answers { "STORED" } else { "SERVER_ERROR too few nodes" };
        assert!(matches!(&told[..], [Reply::Bytes(told)] if told.starts_with(expected.as_bytes())), "{told:?}");
    }
}

#[test]
fn what_a_hung_node_is_asked_stays_little_however_long_it_hangs() {
    const HANGS_US: u64 = 1_000_000_000;
    for is_sent in [false, true] {
        let mut engine = engine();
        ask(&mut engine, 0);
        let mut last = None;
        for us in (0..HANGS_US).step_by(DEADLINE_US as usize / 2) {
            engine.now.mono_us = us;
            engine.check_deadlines();
            engine.run_work();
            if is_sent {
                last = sent(&mut engine, 0).last().copied().or(last);
                sent(&mut engine, 1).last().copied().into_iter().for_each(|tag| answer(&mut engine, 1, tag));
            }
        }
        assert_eq!(phase(&engine), NodePhase::Hung);
        let node = engine.nodes.get(NODE).expect("a node");
        let asked = node.sessions.iter().map(|session| session.asked.len()).max();
        let outbox = node.sessions.iter().map(|session| session.outbox.len()).max();
        assert!(engine.awaited.iter().count() <= 2 && asked <= Some(2), "{asked:?}");
        assert!(outbox < Some(BATCH_BYTES_MAX + 100), "{outbox:?}");
        assert!(engine.monitor.outstanding(NODE).0 <= 2);
        if let Some(tag) = last {
            answer(&mut engine, 0, tag);
            assert_eq!(phase(&engine), NodePhase::Ready, "the answer to the first or the last one");
        }
    }
}

/// The owner has turns of 50 ms, and what all others are asked they answer in the next one.
#[test]
fn long_turns_keep_nobody_from_being_found_hung() {
    const TURN_US: u64 = 50_000;
    let mut engine = engine();
    let other = SessionId { node: NodeId(2), core: 0 };
    ask(&mut engine, 0);
    let mut hung_us = None;
    for mono_us in (TURN_US..3_000_000).step_by(TURN_US as usize) {
        let asked = engine.ask_session(other, &NodeRequest::Ping, What::Nothing);
        engine.handle_work(TURN_US - 1_000);
        engine.set_now(Now { mono_us, ..engine.now });
        let mut bytes = Vec::new();
        DONE.encode(asked.raw(), &mut bytes);
        engine.handle_session_input(engine.now, other, &bytes).expect("a reply");
        engine.check_deadlines();
        engine.run_work();
        if hung_us.is_none() && phase(&engine) == NodePhase::Hung {
            hung_us = Some(mono_us);
        }
    }
    assert!(hung_us.is_some_and(|us| (2_000_000..2_500_000).contains(&us)), "{hung_us:?}");
    assert!(engine.nodes.iter().all(|node| node.id == NODE || node.phase == NodePhase::Ready));
}

/// It worked for a while, and then stood still.
#[test]
fn what_a_turn_took_beside_its_work_is_a_pause() {
    let mut engine = engine();
    ask(&mut engine, 0);
    engine.handle_work(DEADLINE_US / 2);
    engine.set_now(Now { mono_us: 30 * DEADLINE_US, ..engine.now });
    engine.check_deadlines();
    engine.run_work();
    assert_eq!(phase(&engine), NodePhase::Ready);
    pass_until(&mut engine, 31 * DEADLINE_US);
    assert_eq!(phase(&engine), NodePhase::Suspect);
}

/// Fifteen reads are under way at any time, and one is answered each 10 ms, as long as `is_answered` says of when it
/// was asked and when that would be; when the node became suspect.
fn read_through_a_full_link(engine: &mut Engine, is_answered: impl Fn(u64, u64) -> bool) -> Option<u64> {
    const EVERY_US: u64 = 10_000;
    let mut asked: VecDeque<_> = (0..15).map(|_| (0, ask(engine, 0))).collect();
    for now_us in (EVERY_US..10_000_000).step_by(EVERY_US as usize) {
        pass_until(engine, now_us);
        if phase(engine) == NodePhase::Suspect {
            return Some(now_us);
        }
        let (asked_us, tag) = asked.pop_front().expect("fifteen");
        sent(engine, 0);
        if is_answered(asked_us, now_us) {
            answer(engine, 0, tag);
        }
        asked.push_back((now_us, ask(engine, 0)));
    }
    None
}

#[test]
fn a_node_that_answers_one_after_the_other_is_not_suspect_and_one_that_does_not_is_soon() {
    const FROM_US: u64 = 5_000_000;
    // Each is answered after 150 ms.
    assert_eq!(read_through_a_full_link(&mut engine(), |_, _| true), None);
    // All stand still from then on.
    let silent = read_through_a_full_link(&mut engine(), |_, now_us| now_us < FROM_US);
    assert_eq!(silent, Some(FROM_US + DEADLINE_US));
    // One is never answered: after the next one was, it is late as it always was.
    let overtaken = read_through_a_full_link(&mut engine(), |asked_us, _| asked_us != FROM_US);
    assert_eq!(overtaken, Some(FROM_US + 170_000));
}

/// The sign of life that is asked of it is behind 250 reads that are answered one after the other.
#[test]
fn a_node_behind_a_full_link_is_never_hung() {
    const EVERY_US: u64 = 10_000;
    let mut engine = engine();
    let mut asked: VecDeque<_> = (0..250).map(|_| ask(&mut engine, 0)).collect();
    sent(&mut engine, 0);
    let mut suspect_us = None;
    for now_us in (EVERY_US..10_000_000).step_by(EVERY_US as usize) {
        pass_until(&mut engine, now_us);
        match phase(&engine) {
            NodePhase::Ready if suspect_us.is_none() => asked.push_back(ask(&mut engine, 0)),
            NodePhase::Ready => break,
            NodePhase::Suspect => {
                suspect_us.get_or_insert(now_us);
                sent(&mut engine, 1).into_iter().for_each(|tag| answer(&mut engine, 1, tag));
                asked.extend(sent(&mut engine, 0));
            }
            other => panic!("{other:?} after {now_us} us"),
        }
        sent(&mut engine, 0);
        asked.pop_front().into_iter().for_each(|tag| answer(&mut engine, 0, tag));
    }
    assert!(suspect_us.is_some() && phase(&engine) == NodePhase::Ready, "it answered the sign of life");
}

/// It says something all the time, and nothing that it was asked.
#[test]
fn what_a_talking_node_never_answers_is_gone_round_after_twenty_deadlines_and_hung_after_sixty() {
    let mut engine = engine();
    let read = ask(&mut engine, 0);
    let mut acked = Vec::new();
    NodeReply::Acked { stripe: StripeId::default(), op: Default::default() }.encode(0, &mut acked);
    let suspect_us = HUNG_DEADLINES * DEADLINE_US;
    let hung_us = suspect_us + TALKING_DEADLINES * DEADLINE_US;
    while engine.now.mono_us < hung_us {
        engine.handle_session_input(engine.now, session(0), &acked).expect("a reply");
        let expected = if engine.now.mono_us <= suspect_us { NodePhase::Ready } else { NodePhase::Suspect };
        assert_eq!(phase(&engine), expected, "at {}", engine.now.mono_us);
        assert_eq!(engine.awaited.get(read).is_some(), expected == NodePhase::Ready, "nothing waits for a suspect");
        let until_us = engine.now.mono_us + 10_000;
        pass_until(&mut engine, until_us);
        sent(&mut engine, 1).into_iter().for_each(|tag| answer(&mut engine, 1, tag));
    }
    pass_until(&mut engine, hung_us + 2 * TICK_US);
    assert_eq!(phase(&engine), NodePhase::Hung);
}

/// An operation 2 s old that one parity has not acknowledged, and one of 110 ms that the other has not, either.
#[test]
fn of_a_stripe_only_the_member_that_is_late_itself_is_suspect() {
    let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(4, 2).expect("a code"), 8);
    let keys: Vec<String> = keys_in(&engine, PartitionId(0)).take(2).collect();
    let set = |engine: &mut Engine, key: &str| {
        ask_as(engine, 1, format!("set {key} 0 0 1\r\n1\r\n").as_bytes());
    };
    set(&mut engine, &keys[0]);
    let [slot] = engine.stripes.unsealed().to_vec()[..] else { panic!("one stripe") };
    let (id, members) = (engine.stripes.at(slot).id, engine.stripes.at(slot).members.clone());
    let asked: Vec<_> = engine.awaited.iter().map(|(tag, awaited)| (tag, awaited.session)).collect();
    for (tag, session) in asked {
        let mut bytes = Vec::new();
        DONE.encode(tag.raw(), &mut bytes);
        engine.handle_session_input(engine.now, session, &bytes).expect("a reply");
    }
    let acknowledge = |engine: &mut Engine, member: usize, op: u32| {
        engine.acknowledged(members[member], id, OpNumber(op));
    };
    (0..5).for_each(|member| acknowledge(&mut engine, member, 1));
    let mut acked = Vec::new();
    NodeReply::Acked { stripe: StripeId::default(), op: Default::default() }.encode(0, &mut acked);
    let late_us = HUNG_DEADLINES * DEADLINE_US;
    while engine.now.mono_us <= late_us {
        for &node in members.iter() {
            engine.handle_session_input(engine.now, SessionId { node, core: 0 }, &acked).expect("a reply");
            assert!(engine.nodes.is_ready(node), "{node} at {}", engine.now.mono_us);
        }
        if engine.now.mono_us == late_us - 110_000 {
            set(&mut engine, &keys[1]);
            (0..4).for_each(|member| acknowledge(&mut engine, member, 2));
        }
        let until_us = engine.now.mono_us + 10_000;
        pass_until(&mut engine, until_us);
    }
    assert!(!engine.nodes.is_ready(members[5]), "the one 2 s late");
    assert!(engine.nodes.is_ready(members[4]), "the one 110 ms late");
}
