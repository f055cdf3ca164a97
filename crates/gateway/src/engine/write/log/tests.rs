//! Stripes that are abandoned.

use shorttail_units::CodeShape;
use shorttail_wire::node::next_frame;

use super::*;
use crate::engine::SessionId;
use crate::engine::state::testing::{ask, confirm_all, engine_of_ready_nodes, replies_of};

/// Up to where members of a stripe are told that its operations are stable, in all that was ever sent.
fn told_stable(engine: &mut Engine, of: StripeId) -> Vec<(NodeId, OpNumber)> {
    let mut told = Vec::new();
    for node in (0..engine.nodes.iter().count() as u16).map(NodeId) {
        let bytes = engine.session_output(SessionId { node, core: 0 }).map_or(Vec::new(), std::mem::take);
        let mut at = 0;
        while let Some((frame, length)) = next_frame(&bytes[at..]).expect("frames") {
            at += length;
            match NodeRequest::parse(&frame).expect("a request") {
                NodeRequest::Stable { stripe, stable } if stripe == of => told.push((node, stable)),
                _ => {}
            }
        }
    }
    told
}

/// The next owner may find no more of it than its members know, if another one dies with this owner.
#[test]
fn members_that_are_left_hear_at_once_of_what_was_answered() {
    let mut engine = engine_of_ready_nodes(CodeShape::default(), 6);
    ask(&mut engine, b"set a 0 0 1\r\n1\r\n");
    let [slot] = engine.stripes.unsealed().to_vec()[..] else { panic!("one stripe") };
    let (id, last) = (engine.stripes.at(slot).id, engine.stripes.at(slot).bytes().last_op());
    confirm_all(&mut engine, slot);
    assert_eq!(replies_of(&mut engine).len(), 1, "it is stored");
    let stripe = engine.stripes.at(slot);
    let holds = |&member: &usize| stripe.bytes().member_last(member) == last;
    let mut holders: Vec<NodeId> =
        (0..stripe.members.len()).filter(holds).map(|member| stripe.members[member]).collect();
    holders.sort_unstable();
    assert_eq!(holders.len(), 3, "its chunk of data, and what parity is made of");
    let dead = holders.remove(0);
    engine.handle_session_closed(engine.now, SessionId { node: dead, core: 0 });
    assert_eq!(told_stable(&mut engine, id), [(holders[0], last), (holders[1], last)]);
}
