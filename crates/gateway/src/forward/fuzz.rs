//! Entry for fuzzers: any bytes, as one side of a connection between gateways.
//!
//! The first byte chooses: who speaks (bit 0), and whether the rest is a stream of frames or one body (bit 1),
//! which goes deeper.

use shorttail_units::{Now, UnixMs};
use shorttail_wire::gateway::{Body, Hello, Kind, Refusal, Welcome, begin_frame, next_frame};

use super::{Ask, parse_reply, put_reply};
use crate::mapstore::MapStore;

/// Reads every frame of `data`, and does what is asked.
///
/// # Panics
/// If the parser takes bytes that it was not given, a request that it lets in makes a command panic, or a message does
/// not come back as it went.
pub fn fuzz_frames(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let is_asker = choice & 1 == 0;
    let mut stream = Vec::new();
    match choice & 2 {
        0 => stream.extend_from_slice(rest),
        _ => {
            let kind = if is_asker { Kind::Ask } else { Kind::Answer };
            begin_frame(&mut stream, kind, u64::from(choice), |out| out.extend_from_slice(rest));
        }
    }
    let (mut store, mut at) = (MapStore::default(), 0);
    while let Ok(Some((frame, taken))) = next_frame(&stream[at..]) {
        assert!(taken <= stream.len() - at, "took {taken} of {} bytes", stream.len() - at);
        match frame.kind {
            Kind::Hello => drop(Hello::from_body(frame.body)),
            Kind::Welcome => drop(Welcome::from_body(frame.body)),
            Kind::Refused => drop(Refusal::from_body(frame.body)),
            Kind::Ask => do_asked(&mut store, frame.body),
            Kind::Answer => survive(frame.body),
            Kind::NotOwner => {}
        }
        at += taken;
    }
}

fn do_asked(store: &mut MapStore, body: &[u8]) {
    let Ok(ask) = Ask::parse(body) else { return };
    let mut sent = Vec::new();
    ask.put(&mut sent, 1);
    let (frame, taken) = next_frame(&sent).expect("our own frame").expect("a whole frame");
    assert_eq!(taken, sent.len());
    let mut sent_on = Vec::new();
    Ask::parse(frame.body).expect("what we sent").put(&mut sent_on, 1);
    assert_eq!(sent, sent_on, "a request changed on the way");
    let now = Now { mono_us: 1, unix_ms: UnixMs(1_700_000_000_000) };
    let reply = store.handle(now, ask.request);
    put_reply(&mut sent, 2, &reply);
}

fn survive(body: &[u8]) {
    let Ok(reply) = parse_reply(body) else { return };
    let mut sent = Vec::new();
    put_reply(&mut sent, 3, &reply);
    let (frame, _) = next_frame(&sent).expect("our own frame").expect("a whole frame");
    assert_eq!(parse_reply(frame.body), Ok(reply), "a reply changed on the way");
}
