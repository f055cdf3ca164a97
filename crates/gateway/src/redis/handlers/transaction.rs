//! MULTI and what follows it. There are no transactions: nothing is done of what is sent behind MULTI, and it ends as Redis
//! ends one in which something was wrong.
//!
//! Clients send a whole transaction at once and read later. Were its commands carried out one by one between two errors,
//! a client that tries again would have them carried out twice. One that reads each answer ends what it began only if it was told OK.

use shorttail_wire::resp::{Args, encode};

use crate::redis::connection::Connection;
use crate::redis::error::CommandError;
use crate::redis::plan::{Handled, Plan};

const NOTHING_IS_DONE: CommandError =
    CommandError::fixed("ERR MULTI is not supported: nothing is done before EXEC or DISCARD");
/// As Redis ends a transaction in which something was wrong.
const ABORTED: CommandError = CommandError::fixed("EXECABORT Transaction discarded because of previous errors.");

/// What is answered to the beginning of one; `None`: it is none.
pub fn begin(args: Args<'_>, connection: &mut Connection, out: &mut Vec<u8>) -> Option<Handled> {
    if !is_alone(args, "multi") {
        return None;
    }
    if !connection.authenticated() {
        return Some(Err(CommandError::NO_AUTH));
    }
    connection.in_transaction = true;
    out.extend_from_slice(encode::OK);
    Some(Ok(Plan::Answered))
}

/// What is answered in a transaction; `None`: it goes its usual way.
pub fn answer(args: Args<'_>, connection: &mut Connection, out: &mut Vec<u8>) -> Option<Handled> {
    if args[0].eq_ignore_ascii_case(b"quit") || is_alone(args, "reset") {
        return None;
    }
    let is_end = is_alone(args, "exec") || is_alone(args, "discard");
    connection.in_transaction = !is_end;
    Some(if is_alone(args, "discard") {
        out.extend_from_slice(encode::OK);
        Ok(Plan::Answered)
    } else {
        Err(if is_end { ABORTED } else { NOTHING_IS_DONE })
    })
}

/// Is this word the whole request?
fn is_alone(args: Args<'_>, word: &str) -> bool {
    args.len() == 1 && args[0].eq_ignore_ascii_case(word.as_bytes())
}
