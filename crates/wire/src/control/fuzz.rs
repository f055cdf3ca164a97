//! Entry for fuzzers: any bytes, as one side of a control connection. Runs as a plain test too.
//!
//! The first byte chooses: who speaks (bit 0), and whether the rest is a stream of frames or one body, which gets its
//! header here and so goes deeper (bit 1).

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CONTROL_HEADER_BYTES, FromCoordinator, ToCoordinator, next_message, put_message};
use crate::crc32c;
use crate::length_check::length_check;

/// Reads every message of `data`.
///
/// # Panics
/// If the parser takes bytes that it was not given, or a message does not come back as it went.
pub fn fuzz_messages(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let mut framed = Vec::new();
    if choice & 2 != 0 {
        let body_bytes = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        framed.extend_from_slice(&body_bytes.to_le_bytes());
        framed.extend_from_slice(&length_check(body_bytes).to_le_bytes());
        framed.extend_from_slice(&crc32c(rest).to_le_bytes());
    }
    framed.extend_from_slice(rest);
    if choice & 1 == 0 {
        read_all::<ToCoordinator>(&framed);
    } else {
        read_all::<FromCoordinator>(&framed);
    }
}

fn read_all<M: Serialize + DeserializeOwned>(mut stream: &[u8]) {
    while let Ok(Some((message, taken))) = next_message::<M>(stream) {
        assert!((CONTROL_HEADER_BYTES..=stream.len()).contains(&taken), "took {taken} of {} bytes", stream.len());
        assert_survives(&message);
        stream = &stream[taken..];
    }
}

/// Compares encodings, not messages: a number that is none differs from itself.
fn assert_survives<M: Serialize + DeserializeOwned>(message: &M) {
    let mut sent = Vec::new();
    put_message(&mut sent, message).expect("it came in one frame");
    let (received, taken) = next_message::<M>(&sent).expect("our own frame").expect("a whole frame");
    assert_eq!(taken, sent.len());
    let mut sent_on = Vec::new();
    put_message(&mut sent_on, &received).expect("as long");
    assert_eq!(sent, sent_on, "a message changed on the way");
}
