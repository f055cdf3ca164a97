//! Replies on their way out: they leave while this owner is proven, wait while it is not, and become
//! errors after a while.
//!
//! ```text
//! reply --proven--> client
//!   '--not proven--> waits --proven again--> client
//!                      '--1 s, too many, or a later owner--> reads: not the owner; writes: outcome unknown
//! ```
//! A proof as of a time that was read after a request came is good for its reply whenever that arrives: no other owner
//! had begun to serve when the request was there.
//!
//! Must not know: how the owner is proven, what replies say.

use std::collections::VecDeque;

use super::limits::{HELD_BYTES_MAX, HELD_COUNT_MAX, HELD_US_MAX};
use crate::command::{Access, BoxCommand, StoreError};
use crate::engine::Token;
use crate::request::{KeyspaceReply, Reply, ScannedKey};

#[derive(Debug)]
struct Waiting {
    token: Token,
    reply: Reply,
    /// Who asked, of a reply about one key.
    command: Option<BoxCommand>,
    since_us: u64,
}

#[derive(Debug, Default)]
pub(in crate::engine) struct Replies {
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// Errors say nothing that could be wrong, and leave at once.
    errors: VecDeque<(Token, Reply)>,
}

fn bytes_of(reply: &Reply) -> usize {
    match reply {
        Reply::Bytes(bytes) => bytes.len(),
        Reply::Keyspace(Ok(KeyspaceReply::Scanned { keys, .. })) => {
            keys.iter().map(|scanned| size_of::<ScannedKey>() + scanned.key.len()).sum()
        }
        Reply::Keyspace(Ok(KeyspaceReply::RandomKey(Some(key)))) => key.len(),
        _ => 0,
    }
}

impl Replies {
    pub fn push(&mut self, token: Token, reply: Reply, command: Option<BoxCommand>, now_us: u64) {
        self.waiting_bytes += bytes_of(&reply);
        self.waiting.push_back(Waiting { token, reply, command, since_us: now_us });
    }

    pub fn push_error(&mut self, token: Token, reply: Reply) {
        self.errors.push_back((token, reply));
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.errors.is_empty()
    }

    pub fn next_error(&mut self) -> Option<(Token, Reply)> {
        self.errors.pop_front()
    }

    /// The next reply of a proven owner.
    pub fn next(&mut self) -> Option<(Token, Reply)> {
        let Waiting { token, reply, .. } = self.pop()?;
        Some((token, reply))
    }

    /// The next reply of an owner that is not proven: an error, if one is due. `is_over`: it will not be proven again.
    pub fn next_overdue(&mut self, now_us: u64, is_over: bool) -> Option<(Token, Reply)> {
        let since_us = self.waiting.front()?.since_us;
        let is_full = self.waiting.len() > HELD_COUNT_MAX || self.waiting_bytes > HELD_BYTES_MAX;
        if !is_over && !is_full && now_us < since_us.saturating_add(HELD_US_MAX) {
            return None;
        }
        let Waiting { token, reply, command, .. } = self.pop()?;
        Some((token, without_proof(reply, command)))
    }

    fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.waiting.pop_front()?;
        self.waiting_bytes -= bytes_of(&waiting.reply);
        Some(waiting)
    }
}

/// What is said instead of a reply that may be wrong.
fn without_proof(reply: Reply, command: Option<BoxCommand>) -> Reply {
    match reply {
        Reply::Bytes(mut bytes) => {
            let command = command.expect("a reply about one key is kept with who asked");
            bytes.clear();
            command.refuse(error_of(command.access() == Access::Write), &mut bytes);
            Reply::Bytes(bytes)
        }
        Reply::Group(result) => Reply::Group(result.and(Err(error_of(true)))),
        Reply::Keyspace(result) => {
            let is_write = matches!(result, Ok(KeyspaceReply::Flushed));
            Reply::Keyspace(result.and(Err(error_of(is_write))))
        }
        // It says nothing that could be wrong: what is read is read later.
        Reply::Large { .. } => reply,
    }
}

fn error_of(is_write: bool) -> StoreError {
    if is_write { StoreError::OutcomeUnknown } else { StoreError::NotOwner }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{ApplyContext, Command, Effect, ObjectRef, Wants};
    use crate::request::RequestId;

    #[derive(Debug)]
    struct Verb(Access);

    impl Command for Verb {
        fn key(&self) -> &[u8] {
            b"key"
        }

        fn access(&self) -> Access {
            self.0
        }

        fn wants(&self) -> Wants {
            Wants::Nothing
        }

        fn apply(&mut self, _: Option<ObjectRef<'_>>, _: &ApplyContext, _: &mut Vec<u8>) -> Effect {
            Effect::Keep
        }

        fn refuse(&self, error: StoreError, reply: &mut Vec<u8>) {
            reply.extend_from_slice(error.to_string().as_bytes());
        }
    }

    fn verb(access: Access) -> BoxCommand {
        Box::new(Verb(access))
    }

    fn token(seq: u64) -> Token {
        Token { connection: 1, id: RequestId { seq, part: 0 } }
    }

    fn replies() -> Replies {
        let mut replies = Replies::default();
        replies.push(token(1), Reply::Bytes(b"value".to_vec()), Some(verb(Access::Read)), 0);
        replies.push(token(2), Reply::Bytes(b"stored".to_vec()), Some(verb(Access::Write)), 10);
        replies.push(token(3), Reply::Group(Ok(true)), None, 20);
        replies
    }

    fn error(error: StoreError) -> Reply {
        Reply::Bytes(error.to_string().into_bytes())
    }

    #[test]
    fn replies_that_wait_too_long_become_errors_one_by_one() {
        let mut replies = replies();
        assert_eq!(replies.next_overdue(HELD_US_MAX - 1, false), None);
        assert_eq!(replies.next_overdue(HELD_US_MAX, false), Some((token(1), error(StoreError::NotOwner))));
        assert_eq!(replies.next_overdue(HELD_US_MAX, false), None, "the next one came later");
        assert_eq!(replies.next(), Some((token(2), Reply::Bytes(b"stored".to_vec()))), "proven again");
    }

    #[test]
    fn with_a_later_owner_nothing_waits() {
        let mut replies = replies();
        replies.push_error(token(4), error(StoreError::TooLarge));
        assert_eq!(replies.next_error(), Some((token(4), error(StoreError::TooLarge))));
        assert_eq!(replies.next_overdue(0, true), Some((token(1), error(StoreError::NotOwner))));
        assert_eq!(replies.next_overdue(0, true), Some((token(2), error(StoreError::OutcomeUnknown))));
        assert_eq!(replies.next_overdue(0, true), Some((token(3), Reply::Group(Err(StoreError::OutcomeUnknown)))));
        assert!(replies.is_empty());
    }

    #[test]
    fn what_waits_is_bounded_in_number_and_bytes() {
        let mut replies = replies();
        replies.push(token(4), Reply::Bytes(vec![0; HELD_BYTES_MAX]), Some(verb(Access::Read)), 0);
        let mut overdue = std::iter::from_fn(|| replies.next_overdue(0, false));
        assert_eq!(overdue.by_ref().count(), 2, "without these two the others are within the bound");
    }

    #[test]
    fn what_is_listed_counts_too() {
        let listed = |key: Vec<u8>| ScannedKey { key, value_bytes: 0, expiry: None };
        let keys = vec![listed(vec![0; 1000]), listed(vec![0; 500])];
        let scanned = Reply::Keyspace(Ok(KeyspaceReply::Scanned { next: 0, keys }));
        assert_eq!(bytes_of(&scanned), 1500 + 2 * size_of::<ScannedKey>());
        assert_eq!(bytes_of(&Reply::Keyspace(Ok(KeyspaceReply::RandomKey(Some(vec![0; 70]))))), 70);
        assert_eq!(bytes_of(&Reply::Keyspace(Ok(KeyspaceReply::Count(3)))), 0);
    }
}
