//! Messages survive the wire, and bytes that are none are refused.

use std::sync::Arc;

use crate::crc32c;
use proptest::prelude::*;
use shorttail_policy::{Change, Hedge, Policy, PolicyName, Update};
use shorttail_units::{ClusterId, Epoch, Incarnation, NodeId};

use super::*;
use crate::length_check::length_check;

fn node_registration() -> ToCoordinator {
    ToCoordinator::RegisterNode(NodeRegistration {
        protocol_version: CONTROL_PROTOCOL_VERSION,
        address: "unix:/run/n0.sock".into(),
        incarnation: Incarnation(7),
        pid: 42,
        memory_limit_bytes: 1 << 28,
        core_count: 1,
        wanted_id: Some(3),
        domain: String::new(),
        allows_chaos: true,
        session: Some(NodeSession { cluster_id: ClusterId(9), node_id: NodeId(3) }),
    })
}

#[test]
fn messages_come_back_as_they_went() {
    let messages = [node_registration(), ToCoordinator::NodeStatus(NodeStatus::default()), ToCoordinator::ReadStatus];
    let mut stream = Vec::new();
    messages.iter().for_each(|message| put_message(&mut stream, message).expect("it is short"));
    let mut rest = &stream[..];
    for expected in messages {
        let (message, taken) = next_message::<ToCoordinator>(rest).expect("well-formed").expect("complete");
        assert_eq!(message, expected);
        rest = &rest[taken..];
    }
    assert!(rest.is_empty());
}

#[test]
fn a_part_of_a_message_is_waited_for() {
    let mut stream = Vec::new();
    put_message(&mut stream, &node_registration()).expect("it is short");
    for length in 0..stream.len() {
        assert_eq!(next_message::<ToCoordinator>(&stream[..length]), Ok(None), "{length} bytes");
    }
}

/// What no version changes: the header, the first two fields of a registration, and the refusal of a version.
#[test]
fn members_of_another_version_are_told_so_whatever_else_they_say() {
    for version in [1, CONTROL_PROTOCOL_VERSION - 1, CONTROL_PROTOCOL_VERSION + 1, 300, u16::MAX] {
        for registration in [0_u8, 1] {
            let varint = postcard::to_stdvec(&version).expect("a number");
            for rest in [&[][..], &[0xff; 40]] {
                let stream = framed(&[&[registration][..], &varint, rest].concat());
                assert_eq!(next_request(&stream), Err(ControlFrameError::Version(version)));
            }
        }
    }
    let mut stream = Vec::new();
    put_message(&mut stream, &node_registration()).expect("it is short");
    assert_eq!(next_request(&stream), Ok(Some((node_registration(), stream.len()))));
    let body = [&[0, CONTROL_PROTOCOL_VERSION as u8][..], &[0xff; 40]].concat();
    assert_eq!(next_request(&framed(&body)), Err(ControlFrameError::Malformed), "of this version, and nonsense");
    let status = ToCoordinator::NodeStatus(NodeStatus::default());
    let mut stream = Vec::new();
    put_message(&mut stream, &status).expect("it is short");
    assert_eq!(next_request(&stream), Ok(Some((status, stream.len()))));
}

#[test]
fn the_refusal_of_a_version_is_the_same_in_all_versions() {
    let refusal = FromCoordinator::Refused(Refusal::ProtocolVersion(300));
    let mut stream = Vec::new();
    put_message(&mut stream, &refusal).expect("it is short");
    assert_eq!(stream, framed(&[2, 0, 0xac, 0x02]));
    let text = Refusal::ProtocolVersion(300).to_string();
    assert!(text.contains("version 300") && text.contains(&format!("version {CONTROL_PROTOCOL_VERSION}")), "{text}");
}

#[test]
fn a_declared_length_beyond_the_limit_is_refused_at_once() {
    let largest = CONTROL_BODY_BYTES_MAX as u32;
    let header = |length: u32| [&length.to_le_bytes()[..], &length_check(length).to_le_bytes(), &[0; 4]].concat();
    assert_eq!(next_message::<ToCoordinator>(&header(largest)), Ok(None));
    let beyond = largest + 1;
    assert_eq!(next_message::<ToCoordinator>(&header(beyond)), Err(ControlFrameError::TooLong(beyond)));
}

#[test]
fn a_message_beyond_the_limit_is_not_sent() {
    let of_length = |length| FromCoordinator::Refused(Refusal::Malformed("x".repeat(length)));
    let (mut stream, longest) = (Vec::new(), CONTROL_BODY_BYTES_MAX - 2 - 4);
    assert_eq!(put_message(&mut stream, &of_length(longest)), Ok(()));
    assert_eq!(next_message(&stream), Ok(Some((of_length(longest), stream.len()))));
    let refused = put_message(&mut stream, &of_length(longest + 1));
    assert_eq!(refused, Err(ControlFrameError::TooLong(CONTROL_BODY_BYTES_MAX as u32 + 1)));
    assert_eq!(stream.len(), CONTROL_HEADER_BYTES + CONTROL_BODY_BYTES_MAX, "nothing of it");
}

#[test]
fn an_http_server_is_recognised() {
    let refused = next_message::<ToCoordinator>(b"HTTP/1.1 400 Bad Request\r\n").expect_err("no length");
    assert_eq!(refused, ControlFrameError::Http);
    assert!(refused.to_string().contains("--listen"), "{refused}");
}

#[test]
fn a_body_with_bytes_after_its_message_is_refused() {
    let mut message = Vec::new();
    put_message(&mut message, &ToCoordinator::ReadStatus).expect("it is short");
    let mut stream = framed(&[&message[CONTROL_HEADER_BYTES..], &[0]].concat());
    assert_eq!(next_message::<ToCoordinator>(&stream), Err(ControlFrameError::Malformed));
    stream[CONTROL_HEADER_BYTES] ^= 1;
    assert_eq!(next_message::<ToCoordinator>(&stream), Err(ControlFrameError::Checksum));
}

/// Any body, its header right.
pub fn framed(body: &[u8]) -> Vec<u8> {
    let body_bytes = body.len() as u32;
    let check = length_check(body_bytes).to_le_bytes();
    [&body_bytes.to_le_bytes(), &check[..], &crc32c(body).to_le_bytes(), body].concat()
}

#[test]
fn a_message_that_was_changed_on_its_way_is_noticed() {
    let mut stream = Vec::new();
    put_message(&mut stream, &node_registration()).expect("it is short");
    for bit in 0..stream.len() * 8 {
        stream[bit / 8] ^= 1 << (bit % 8);
        assert!(next_message::<ToCoordinator>(&stream).is_err(), "bit {bit}");
        stream[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_welcome_and_a_view_come_back_as_they_went() {
    let welcome = FromCoordinator::GatewayRegistered(GatewayWelcome {
        session: GatewaySession { cluster_id: ClusterId(1), gateway_id: 0 },
        partition_count: 4,
        code: "lrc:12+2+2".parse().expect("a shape"),
        node_count_expected: 8,
    });
    let entry = NodeEntry {
        id: NodeId(2),
        incarnation: Incarnation(8),
        address: "127.0.0.1:1".into(),
        domain: "rack 7".into(),
        state: NodeState::Suspect,
        draining: true,
        removed: false,
    };
    let gateway =
        GatewayEntry { id: 1, is_alive: true, forward: Some("unix:/run/g1.sock".into()), ..Default::default() };
    let tenure = TenureEntry { epoch: Epoch(5), gateway: 1, partitions: vec![0, 3] };
    let view = FromCoordinator::View(Arc::new(View {
        number: 3,
        node_count_expected: 8,
        nodes: vec![entry],
        gateways: vec![gateway],
        tenures: vec![tenure],
    }));
    let voter = Voter { node: NodeId(2), incarnation: Incarnation(8) };
    let terms = FromCoordinator::Terms(vec![Terms {
        epoch: Epoch(5),
        number: 2,
        partitions: vec![0, 3],
        voters: [voter].into(),
        before: vec![[voter].into()],
        lets_go: true,
        prepares: false,
    }]);
    let change = Change { hedge: Some(Hedge::late_binding(2)), update: Some(Update::InPlace), ..Change::default() };
    let policy = Order::Policy(PolicyOrder { partition: Some(3), change });
    let order = FromCoordinator::Order { number: 7, order: Box::new(policy) };
    let served = FromCoordinator::Served(vec![(5, true), (1 << 20, false)]);
    for expected in [welcome, view, terms, order, served] {
        let mut stream = Vec::new();
        put_message(&mut stream, &expected).expect("it is short");
        assert_eq!(next_message(&stream), Ok(Some((expected, stream.len()))));
    }
}

#[test]
fn policies_of_neighbours_are_one_span() {
    let [usual, paper] = [PolicyName::Adaptive, PolicyName::Shorttail].map(Policy::of);
    let spans = PolicySpan::all(&[usual, usual, paper, usual]);
    let bounds: Vec<(u16, u16)> = spans.iter().map(|span| (span.first, span.last)).collect();
    assert_eq!(bounds, [(0, 1), (2, 2), (3, 3)]);
    assert_eq!((spans[0].policy, spans[1].policy), (usual, paper));
    let status = ToCoordinator::GatewayStatus(GatewayStatus { policies: spans, ..GatewayStatus::default() });
    let mut stream = Vec::new();
    put_message(&mut stream, &status).expect("it is short");
    assert_eq!(next_message(&stream), Ok(Some((status, stream.len()))));
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = next_message::<ToCoordinator>(&bytes);
        let bytes = framed(&bytes);
        let _ = next_message::<ToCoordinator>(&bytes);
        let _ = next_message::<FromCoordinator>(&bytes);
    }
}
