//! MULTI and what follows it. There are no transactions: nothing is done of what is sent behind MULTI, and it ends as
//! Redis ends one in which something was wrong.
//!
//! Clients send a whole transaction at once and read later. Were its commands carried out one by one between two
//! errors, a client that tries again would have them carried out twice. One that reads each answer ends what it began
//! only if it was told OK.

use shorttail_wire::resp::{Args, encode};

use crate::redis::connection::Connection;
use crate::redis::error::CommandError;
use crate::redis::plan::{Handled, Plan};

const NOTHING_IS_DONE: CommandError =
    CommandError::fixed("ERR MULTI is not supported: nothing is done before EXEC or DISCARD");
/// As Redis ends a transaction in which something was wrong.
const ABORTED: CommandError = CommandError::fixed("EXECABORT Transaction discarded because of previous errors.");

/// What is answered outside of one; `None`: it is no word of transactions.
///
/// WATCH is none, beside its error in one: who is told that a key is watched relies on it.
pub fn begin(args: Args<'_>, connection: &mut Connection, out: &mut Vec<u8>) -> Option<Handled> {
    let word = word_of(&args[0]).filter(|&word| word != "watch")?;
    Some(check(word, args, connection).and_then(|()| match word {
        "exec" => Err(CommandError::fixed("ERR EXEC without MULTI")),
        "discard" => Err(CommandError::fixed("ERR DISCARD without MULTI")),
        _ => {
            connection.in_transaction = word == "multi";
            out.extend_from_slice(encode::OK);
            Ok(Plan::Answered)
        }
    }))
}

/// What is answered in a transaction; `None`: it goes its usual way.
pub fn answer(args: Args<'_>, connection: &mut Connection, out: &mut Vec<u8>) -> Option<Handled> {
    let is_reset = args.len() == 1 && args[0].eq_ignore_ascii_case(b"reset");
    if args[0].eq_ignore_ascii_case(b"quit") || is_reset {
        return None;
    }
    let Some(word) = word_of(&args[0]) else { return Some(Err(NOTHING_IS_DONE)) };
    Some(check(word, args, connection).and_then(|()| match word {
        "multi" => Err(CommandError::fixed("ERR MULTI calls can not be nested")),
        "watch" => Err(CommandError::fixed("ERR WATCH inside MULTI is not allowed")),
        "exec" => {
            connection.in_transaction = false;
            Err(ABORTED)
        }
        "discard" => {
            connection.in_transaction = false;
            out.extend_from_slice(encode::OK);
            Ok(Plan::Answered)
        }
        _ => Err(NOTHING_IS_DONE),
    }))
}

fn word_of(name: &[u8]) -> Option<&'static str> {
    let words = ["multi", "exec", "discard", "watch", "unwatch"];
    words.into_iter().find(|word| name.eq_ignore_ascii_case(word.as_bytes()))
}

/// Has it as many arguments as it takes, and is it from somebody who may ask?
fn check(word: &str, args: Args<'_>, connection: &mut Connection) -> Result<(), CommandError> {
    if (args.len() > 1) != (word == "watch") {
        // EXEC ends the transaction, whatever is wrong with it.
        if word == "exec" {
            connection.in_transaction = false;
            return Err(CommandError::fixed(
                "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command",
            ));
        }
        return Err(CommandError::arity(word));
    }
    if !connection.authenticated() {
        return Err(CommandError::NO_AUTH);
    }
    Ok(())
}
