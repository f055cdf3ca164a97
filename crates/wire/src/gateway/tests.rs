//! Frames survive the wire, and bytes that are none are refused.

use proptest::prelude::*;

use super::*;

const HELLO: Hello = Hello { version: GATEWAY_PROTOCOL_VERSION, cluster_id: 7, gateway: 3 };

#[test]
fn frames_come_back_as_they_went_however_they_arrive() {
    let mut stream = Vec::new();
    put_frame(&mut stream, Kind::Hello, 0, &HELLO);
    let first_bytes = stream.len();
    begin_frame(&mut stream, Kind::NotOwner, 9, |_| {});
    for length in 0..first_bytes {
        assert_eq!(next_frame(&stream[..length]), Ok(None), "{length} bytes");
    }
    let (frame, taken) = next_frame(&stream).expect("well-formed").expect("whole");
    assert_eq!((frame.kind, frame.tag, taken), (Kind::Hello, 0, first_bytes));
    assert_eq!(Hello::from_body(frame.body), Ok(HELLO));
    let (frame, _) = next_frame(&stream[taken..]).expect("well-formed").expect("whole");
    assert_eq!(frame, Frame { kind: Kind::NotOwner, tag: 9, body: b"" });
}

#[test]
fn a_frame_that_was_changed_on_its_way_is_noticed() {
    let mut stream = Vec::new();
    put_frame(&mut stream, Kind::Hello, 5, &HELLO);
    for bit in 0..stream.len() * 8 {
        stream[bit / 8] ^= 1 << (bit % 8);
        assert!(next_frame(&stream).is_err(), "bit {bit}");
        stream[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn strangers_are_refused() {
    assert_eq!(HELLO.check(7), Ok(()));
    assert_eq!(HELLO.check(8), Err(Refusal::OtherCluster(8)));
    let old = Hello { version: 0, ..HELLO };
    assert_eq!(old.check(7), Err(Refusal::ProtocolVersion(GATEWAY_PROTOCOL_VERSION)));
}

/// The frame, the first field of a greeting and the refusal of a version are the same in all versions.
#[test]
fn an_asker_of_another_version_is_told_so_whatever_else_it_says() {
    for version in [0, GATEWAY_PROTOCOL_VERSION + 1, 300] {
        let varint = postcard::to_stdvec(&version).expect("a number");
        for rest in [&[][..], &[0xff; 40]] {
            let hello = Hello::parse(&[&varint[..], rest].concat()).expect("its version is understood");
            assert_eq!(hello.check(7), Err(Refusal::ProtocolVersion(GATEWAY_PROTOCOL_VERSION)));
        }
    }
    let whole = postcard::to_stdvec(&HELLO).expect("a greeting");
    assert_eq!(Hello::parse(&whole), Ok(HELLO));
    assert_eq!(Hello::parse(&whole[..whole.len() - 1]), Err(FrameError::Body));
    let refusal = postcard::to_stdvec(&Refusal::ProtocolVersion(300)).expect("a refusal");
    assert_eq!(refusal, [0, 0xac, 0x02]);
}

#[test]
fn a_declared_length_beyond_its_kind_is_refused_at_once() {
    let mut header = [0; HEADER_BYTES];
    header[4] = Kind::Hello as u8;
    header[..4].copy_from_slice(&(HELLO_BYTES_MAX as u32).to_le_bytes());
    assert_eq!(next_frame(&header), Err(FrameError::Checksum));
    header[6..8].copy_from_slice(&crate::length_check::length_check(HELLO_BYTES_MAX as u32).to_le_bytes());
    assert_eq!(next_frame(&header), Ok(None));
    let beyond = HELLO_BYTES_MAX as u32 + 1;
    header[..4].copy_from_slice(&beyond.to_le_bytes());
    assert_eq!(next_frame(&header), Err(FrameError::TooLong(beyond)));
    header[4] = 77;
    assert_eq!(next_frame(&header), Err(FrameError::Kind(77)));
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        if let Ok(Some((frame, taken))) = next_frame(&bytes) {
            prop_assert!(taken <= bytes.len());
            let _ = Hello::from_body(frame.body);
        }
    }
}
