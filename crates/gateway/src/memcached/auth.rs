//! ASCII authentication (`-Y`): the first command must be a `set` whose value is `user password`.

use shorttail_wire::memcached::{Tokens, exact_u32};

use super::limits::{AUTH_LINE_BYTES_MAX, AUTH_LINE_BYTES_MIN, AUTH_VALUE_BYTES_MAX};
use crate::session::{Credential, Shared};

/// What an unauthenticated connection did.
#[derive(Debug, PartialEq, Eq)]
pub enum AuthStep {
    /// More input is needed.
    Wait,
    /// The first `consumed` bytes are dealt with; answer `line`, if there is one.
    Took {
        consumed: usize,
        line: Option<&'static str>,
    },
    Accepted {
        consumed: usize,
    },
    Close,
}

/// An authentication exchange.
#[derive(Debug, Default)]
pub struct Auth {
    /// Bytes of value and line end that are awaited behind the `set` line.
    awaited_bytes: Option<usize>,
}

impl Auth {
    pub fn step(&mut self, input: &[u8], shared: &mut Shared) -> AuthStep {
        match self.awaited_bytes {
            None => self.line(input),
            Some(awaited) if input.len() < awaited => AuthStep::Wait,
            Some(awaited) => {
                self.awaited_bytes = None;
                verdict(&input[..awaited], shared)
            }
        }
    }

    fn line(&mut self, input: &[u8]) -> AuthStep {
        let Some(end) = memchr::memchr(b'\n', input) else {
            return if input.len() > AUTH_LINE_BYTES_MAX { AuthStep::Close } else { AuthStep::Wait };
        };
        if end < AUTH_LINE_BYTES_MIN {
            return AuthStep::Close;
        }
        let consumed = end + 1;
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        let declared = Tokens::new(line).nth(4).and_then(exact_u32).and_then(|declared| usize::try_from(declared).ok());
        let (line, awaited) = match declared.filter(|_| line.starts_with(b"set")) {
            None => (Some("CLIENT_ERROR unauthenticated"), None),
            Some(declared) if declared > AUTH_VALUE_BYTES_MAX => (Some("CLIENT_ERROR auth token too long"), None),
            Some(declared) => (None, Some(declared + 2)),
        };
        self.awaited_bytes = awaited;
        AuthStep::Took { consumed, line }
    }
}

/// Judges the value with its line end.
fn verdict(chunk: &[u8], shared: &mut Shared) -> AuthStep {
    let consumed = chunk.len();
    let refuse = |line| AuthStep::Took { consumed, line: Some(line) };
    let Some(value) = chunk.strip_suffix(b"\r\n") else {
        return refuse("CLIENT_ERROR bad command line termination");
    };
    let Some(space) = memchr::memchr(b' ', value) else {
        return refuse("CLIENT_ERROR bad authentication token format");
    };
    let (user, password) = (&value[..space], &value[space + 1..]);
    let matches = |known: &Credential| equal(&known.user, user) & equal(&known.password, password);
    // All are compared, so that the time says nothing about which one was near.
    let accepted = shared.settings.credentials.iter().fold(false, |any, known| any | matches(known));
    shared.counters.auth_commands += 1;
    if accepted {
        return AuthStep::Accepted { consumed };
    }
    shared.counters.auth_errors += 1;
    refuse("CLIENT_ERROR authentication failure")
}

/// Compares in a time that depends on the lengths only.
fn equal(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}
