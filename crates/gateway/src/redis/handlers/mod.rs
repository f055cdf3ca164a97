//! One function per command: from arguments to a [`Plan`].
//!
//! Must not know: how plans are carried out.

pub mod client;
pub mod cluster;
pub mod command;
pub mod config;
pub mod connection;
pub mod expiry;
pub mod keys;
pub mod keyspace;
pub mod many;
pub mod server;
pub mod strings;
mod transaction;

use shorttail_units::Now;
use shorttail_wire::resp::Args;

use super::connection::Connection;
use super::error::CommandError;
use super::glob::{Case, Glob};
use super::limits::{self, ERROR_ECHO_BYTES_MAX};
use super::plan::{Call, Handled, Plan};
use super::table;
use crate::session::Shared;

/// Finds the command, checks arity and authentication, and runs its handler; replies are appended to `out`.
pub fn handle(
    args: Args<'_>,
    connection: &mut Connection,
    shared: &mut Shared,
    now: Now,
    out: &mut Vec<u8>,
) -> Handled {
    shared.counters.commands_total += 1;
    if connection.in_transaction
        && let Some(answer) = transaction::answer(args, connection, out)
    {
        return answer;
    }
    let spec = match find(args) {
        Ok(spec) => spec,
        Err(error) => return transaction::begin(args, connection, out).unwrap_or(Err(error)),
    };
    connection.seat.mark(now, spec.number());
    if !spec.accepts(args.len()) {
        return Err(CommandError::arity(spec.name));
    }
    if !connection.authenticated() && !spec.needs_no_authentication() {
        return Err(CommandError::NO_AUTH);
    }
    if !shared.settings.redis_cluster.tells_owners() && cluster::is_of_cluster(spec) {
        return Err(cluster::DISABLED);
    }
    if shared.settings.redis_cluster.sends_clients() {
        cluster::redirect(spec, args, connection, shared)?;
    }
    (spec.handler)(&mut Call { args, spec, connection, shared, now, out })
}

/// The entry for a request, a subcommand's own where there is one.
fn find(args: Args<'_>) -> Result<&'static table::CommandSpec, CommandError> {
    let spec = table::find(&args[0]).ok_or_else(|| unknown_command(args))?;
    match args.get(1) {
        Some(word) if !spec.subcommands.is_empty() => {
            spec.subcommand(word).ok_or_else(|| unknown_subcommand(spec.name, word))
        }
        _ => Ok(spec),
    }
}

/// At most `max` bytes of `word`, as C prints a string.
fn echoed(word: &[u8], max: usize) -> &[u8] {
    let word = &word[..word.len().min(max)];
    word.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn unknown_command(args: Args<'_>) -> CommandError {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(echoed(&args[0], ERROR_ECHO_BYTES_MAX));
    text.extend_from_slice(b"', with args beginning with: ");
    let start = text.len();
    for arg in args.skip(1).iter() {
        let used = text.len() - start;
        if used >= ERROR_ECHO_BYTES_MAX {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(echoed(arg, ERROR_ECHO_BYTES_MAX - used));
        text.extend_from_slice(b"' ");
    }
    CommandError::owned(text)
}

fn unknown_subcommand(container: &str, word: &[u8]) -> CommandError {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(echoed(word, ERROR_ECHO_BYTES_MAX));
    text.extend_from_slice(format!("'. Try {} HELP.", container.to_ascii_uppercase()).as_bytes());
    CommandError::owned(text)
}

/// At most so many names are answered that take much room each.
fn bound_names(count: usize) -> Result<(), CommandError> {
    if count > limits::NAMES_MAX { Err(CommandError::TOO_MANY_NAMES) } else { Ok(()) }
}

/// A pattern of a client.
fn glob(pattern: &[u8], case: Case) -> Result<Glob, CommandError> {
    if pattern.len() > limits::PATTERN_BYTES_MAX {
        Err(CommandError::LONG_PATTERN)
    } else {
        Ok(Glob::new(pattern, case))
    }
}

/// Answers a HELP subcommand: the heading, the lines given, and HELP itself.
fn answer_help(call: &mut Call<'_>, container: &str, lines: &[&str]) -> Handled {
    use shorttail_wire::resp::encode;
    encode::array(call.out, lines.len() + 3);
    let heading = format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    encode::simple(call.out, heading.as_bytes());
    for line in lines.iter().chain(&["HELP", "    Prints this help."]) {
        encode::simple(call.out, line.as_bytes());
    }
    Ok(Plan::Answered)
}
