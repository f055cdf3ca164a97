//! Drives a session with arbitrary bytes, cut at arbitrary places: the body of the fuzz target and of its plain test.

use super::limits::{GET_LINE_BYTES_MAX, OUTPUT_BYTES_MAX};
use super::loopback::{AnswerOrder, Loopback};
use crate::session::{Credential, Session, Settings};

/// Largest value that the fuzzed session accepts: small, so that inputs reach the limit.
const VALUE_BYTES_MAX: usize = 4096;

/// The first byte of `data` chooses: authentication (bit 0), the order of answers (bits 1 and 2), and how the rest is
/// cut (the other bits). The rest is what the client sends.
///
/// # Panics
/// If the session breaks a promise: it reads past its input, keeps more than its bounds, or stays silent for ever.
pub fn fuzz_session(data: &[u8]) {
    let Some((&choice, input)) = data.split_first() else { return };
    let mut settings = Settings { value_bytes_max: VALUE_BYTES_MAX, ..Settings::default() };
    if choice & 1 == 1 {
        settings.credentials.push(Credential { user: b"u".to_vec(), password: b"p".to_vec() });
    }
    let mut loopback = Loopback::new(settings);
    loopback.order = match choice >> 1 & 3 {
        0 => AnswerOrder::Asked,
        1 => AnswerOrder::Reversed,
        _ => AnswerOrder::Shuffled(u64::from(choice)),
    };
    let piece_bytes = usize::from(choice >> 3) * usize::from(choice >> 3) + 1;
    for piece in input.chunks(piece_bytes) {
        let said = loopback.send(piece);
        // One reply may begin below the limit of the output and be as large as a value.
        assert!(said.len() <= piece.len().max(1) * (OUTPUT_BYTES_MAX + VALUE_BYTES_MAX), "too much output");
        assert!(loopback.input.len() <= GET_LINE_BYTES_MAX, "the session hoards input");
        assert!(loopback.session.wants_input() || loopback.session.closing(), "nothing else is to come");
        if loopback.session.closing() {
            assert!(loopback.input.is_empty(), "a closed session consumes everything");
        }
    }
}
