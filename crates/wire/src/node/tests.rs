//! Every message survives the trip through bytes; no bytes from outside panic.

use proptest::prelude::*;
use shorttail_units::{
    ClusterId, CodeShape, Configuration, Epoch, Incarnation, NodeId, OpNumber, PartitionId, StripeId,
};

use super::*;

fn description() -> ChunkDescription {
    ChunkDescription {
        stripe: StripeId::new(Epoch(3), 77),
        epoch: Epoch(3),
        partition: PartitionId(2),
        kind: ChunkKind::Packed,
        index: 4,
        shape: CodeShape::default(),
        chunk_bytes: 65_280,
        configuration: Configuration::from_raw(3 << 32 | 1),
        members: Members([5, 3, 1, 7, 6, 2].map(NodeId).to_vec()),
    }
}

fn report() -> ChunkReport {
    ChunkReport {
        description: description(),
        sealed: true,
        damaged: false,
        length: 60_000,
        last: OpNumber(9),
        folded: OpNumber(8),
        close_epoch: Epoch(4),
        close_op: OpNumber(7),
        payload_crc: 0x1234_5678,
    }
}

fn requests() -> Vec<NodeRequest<'static>> {
    let stripe = StripeId::new(Epoch(3), 77);
    vec![
        NodeRequest::Hello(Hello {
            version: PROTOCOL_VERSION,
            cluster: ClusterId(9),
            core: 1,
            owner: 6,
            epoch: Epoch(3),
        }),
        NodeRequest::Fence { partition: 2, epoch: Epoch(3), next: stripe },
        NodeRequest::Renew { epoch: Epoch(3), lease_us: 1_000_000, partitions: vec![PartitionId(2), PartitionId(7)] },
        NodeRequest::Release { partition: PartitionId(2), epoch: Epoch(3) },
        NodeRequest::Open(description()),
        NodeRequest::Append {
            stripe,
            op: OpNumber(5),
            previous: OpNumber(3),
            stable: OpNumber(2),
            data_index: 1,
            offset: 640,
            bytes: b"payload",
        },
        NodeRequest::Stable { stripe, stable: OpNumber(4) },
        NodeRequest::Seal { stripe, last: OpNumber(9), chunk_last: OpNumber(8), sum: 7 },
        NodeRequest::Free {
            first: stripe,
            count: 3,
            epoch: Epoch(3),
            partition: PartitionId(2),
            up_to: Configuration::default().next(Epoch(3)),
        },
        NodeRequest::ReadRecord { stripe, offset: 12 },
        NodeRequest::Locate { stripe },
        NodeRequest::ReadRange { stripe, offset: 12, length: 100, op: OpNumber(4) },
        NodeRequest::Install { description: description(), bytes: b"piece" },
        NodeRequest::Scan { since: 0, after: stripe, count: 10, partitions: Vec::new() },
        NodeRequest::Scan { since: 7, after: stripe, count: 10, partitions: vec![PartitionId(2), PartitionId(900)] },
        NodeRequest::Inspect { stripe },
        NodeRequest::Close { stripe, epoch: Epoch(4), last: OpNumber(7) },
        NodeRequest::Ping,
        NodeRequest::ProbeWrite,
        NodeRequest::Reconfigure {
            stripe,
            epoch: Epoch(4),
            configuration: Configuration::default().next(Epoch(4)),
            members: description().members,
        },
        NodeRequest::Rebuild {
            description: description(),
            sources: vec![
                Source { index: 0, core: 1, node: NodeId(3), position: Some(65_792) },
                Source { index: 5, core: 0, node: NodeId(900), position: None },
            ],
        },
        NodeRequest::Peer(Hello {
            version: PROTOCOL_VERSION,
            cluster: ClusterId(9),
            core: 1,
            owner: 4 << 16,
            epoch: Epoch(0),
        }),
    ]
}

/// The frame, the kinds of greetings and the first four bytes of their bodies are the same in all versions.
#[test]
fn of_a_greeting_of_another_version_the_version_is_understood() {
    for kind in [1, 17] {
        for rest in [&[][..], &[0xff; 50]] {
            let version = PROTOCOL_VERSION + 3;
            let body = [&version.to_le_bytes()[..], rest].concat();
            let frame = Frame { kind, status: 0, tag: 7, body: &body };
            let Ok(NodeRequest::Hello(hello) | NodeRequest::Peer(hello)) = NodeRequest::parse(&frame) else {
                panic!("kind {kind}, {} bytes", rest.len());
            };
            assert_eq!(hello.version, version);
        }
    }
    let refused = NodeReply::Refused { refusal: Refusal::WrongVersion, detail: 13 };
    let mut bytes = Vec::new();
    refused.encode(7, &mut bytes);
    let (frame, _) = next_frame(&bytes).expect("well-formed").expect("whole");
    assert_eq!((frame.kind, frame.status, frame.body), (0x87, 11, &13_u64.to_le_bytes()[..]));
}

fn hello() -> HelloReply {
    HelloReply {
        version: PROTOCOL_VERSION,
        cluster: ClusterId(9),
        node: NodeId(4),
        incarnation: Incarnation(11),
        core_count: 2,
        memory_bytes: 1 << 30,
        used_bytes: 4096,
        held_bytes: 5,
        near: None,
        ring: None,
    }
}

fn near() -> NearMemory {
    NearMemory { device: 1, inode: 5, path: "/proc/7/fd/9".to_owned() }
}

fn replies() -> Vec<NodeReply<'static>> {
    let stripe = StripeId::new(Epoch(3), 77);
    let raw = vec![
        RawOp { op: OpNumber(9), data_index: 1, offset: 4, length: 3, bytes: b"abc" },
        RawOp { op: OpNumber(10), data_index: 1, offset: 7, length: 3, bytes: b"" },
    ];
    vec![
        NodeReply::Hello(hello()),
        NodeReply::Hello(HelloReply { near: Some(near()), ..hello() }),
        NodeReply::Hello(HelloReply { ring: Some(near()), ..hello() }),
        NodeReply::Hello(HelloReply { near: Some(near()), ring: Some(near()), ..hello() }),
        NodeReply::Located { position: 1 << 40 },
        NodeReply::Done { used_bytes: 77, held_bytes: 66 },
        NodeReply::Fenced { joined: StripeId::new(Epoch(3), 9) },
        NodeReply::Acked { stripe, op: OpNumber(5) },
        NodeReply::Bytes(b"bytes"),
        NodeReply::Chunks(Scanned {
            reports: vec![report(), report()],
            undescribed: vec![(stripe, PartitionId(6))],
            freed: vec![stripe, stripe],
            is_complete: false,
            change: 9,
        }),
        NodeReply::Chunks(Scanned { is_complete: true, ..Scanned::default() }),
        NodeReply::Inspected(InspectReport { report: report(), raw }),
        NodeReply::Refused { refusal: Refusal::Fenced, detail: 4 },
        NodeReply::Damaged { stripe },
        NodeReply::Rebuilt { stripe, outcome: Ok(()), position: Some(65_792) },
        NodeReply::Rebuilt { stripe, outcome: Ok(()), position: None },
        NodeReply::Rebuilt { stripe, outcome: Err((Refusal::Damaged, Some(3))), position: None },
        NodeReply::Rebuilt { stripe, outcome: Err((Refusal::OutOfMemory, None)), position: None },
    ]
}

#[test]
fn messages_survive_the_trip() {
    for (place, request) in requests().iter().enumerate() {
        let mut bytes = Vec::new();
        request.encode(place as u64, &mut bytes);
        let (frame, length) = next_frame(&bytes).expect("a frame").expect("complete");
        assert_eq!((length, frame.tag), (bytes.len(), place as u64));
        assert_eq!(NodeRequest::parse(&frame).as_ref(), Ok(request));
    }
    for reply in &replies() {
        let mut bytes = Vec::new();
        reply.encode(7, &mut bytes);
        let (frame, _) = next_frame(&bytes).expect("a frame").expect("complete");
        assert_eq!(NodeReply::parse(&frame).as_ref(), Ok(reply));
    }
}

/// Of every message, every bit: the receiver waits for more, or ends the session, but believes nothing.
#[test]
fn a_message_that_was_changed_on_its_way_is_noticed() {
    let mut messages: Vec<Vec<u8>> = Vec::new();
    for request in requests() {
        let mut bytes = Vec::new();
        request.encode(7, &mut bytes);
        messages.push(bytes);
    }
    for reply in replies() {
        let mut bytes = Vec::new();
        reply.encode(7, &mut bytes);
        messages.push(bytes);
    }
    for mut bytes in messages {
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(next_frame(&bytes).is_err(), "bit {bit} of {bytes:?}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn a_frame_that_is_wrong_on_purpose_can_be_made_to_pass() {
    let mut bytes = Vec::new();
    NodeReply::Bytes(b"bytes").encode(7, &mut bytes);
    bytes[FRAME_HEADER_BYTES] ^= 1;
    assert_eq!(next_frame(&bytes), Err(FrameError::Checksum));
    seal_frame(&mut bytes);
    let (frame, _) = next_frame(&bytes).expect("a frame").expect("complete");
    assert_eq!(frame.body, b"cytes");
}

#[test]
fn a_frame_that_has_not_arrived_is_awaited_and_one_too_long_refused() {
    let mut bytes = Vec::new();
    NodeRequest::Ping.encode(1, &mut bytes);
    assert_eq!(next_frame(&bytes[..FRAME_HEADER_BYTES - 1]), Ok(None));
    bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(next_frame(&bytes), Err(FrameError::TooLong(u32::MAX)));
}

proptest! {
    #[test]
    fn bytes_from_outside_never_panic(kind: u8, status: u8, body: Vec<u8>) {
        let frame = Frame { kind, status, tag: 0, body: &body };
        let _ = NodeRequest::parse(&frame);
        let _ = NodeReply::parse(&frame);
        let _ = next_frame(&body);
    }

    #[test]
    fn a_truncated_request_is_an_error(place in 0usize..16, cut in 1usize..20) {
        let mut bytes = Vec::new();
        let request = requests().remove(place);
        request.encode(0, &mut bytes);
        let (frame, _) = next_frame(&bytes).expect("a frame").expect("complete");
        let keep = frame.body.len().saturating_sub(cut);
        let short = Frame { body: &frame.body[..keep], ..frame };
        if keep < frame.body.len() {
            prop_assert_ne!(NodeRequest::parse(&short), Ok(request));
        }
    }
}

#[test]
fn a_source_is_a_chunk_of_the_stripe() {
    let sources = vec![Source { index: 6, core: 0, node: NodeId(1), position: None }];
    let mut bytes = Vec::new();
    NodeRequest::Rebuild { description: description(), sources }.encode(0, &mut bytes);
    let (frame, _) = next_frame(&bytes).expect("a frame").expect("complete");
    assert_eq!(NodeRequest::parse(&frame), Err(FrameError::Value("source")));
}
