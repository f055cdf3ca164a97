//! Commands about the connection: PING, AUTH, HELLO, SELECT, RESET, QUIT.

use shorttail_wire::resp::{Protocol, encode, parse_i64};

use crate::redis::connection::DEFAULT_USER;
use crate::redis::error::CommandError;
use crate::redis::handlers::client::set_name;
use crate::redis::info::REDIS_VERSION;
use crate::redis::plan::{Call, Handled, Plan};

pub fn ping(call: &mut Call<'_>) -> Handled {
    match call.args.len() {
        1 => call.out.extend_from_slice(b"+PONG\r\n"),
        2 => encode::bulk(call.out, &call.args[1]),
        _ => return Err(CommandError::arity(call.spec.name)),
    }
    Ok(Plan::Answered)
}

pub fn echo(call: &mut Call<'_>) -> Handled {
    encode::bulk(call.out, &call.args[1]);
    Ok(Plan::Answered)
}

pub fn quit(call: &mut Call<'_>) -> Handled {
    call.out.extend_from_slice(encode::OK);
    Ok(Plan::AnsweredLast)
}

pub fn reset(call: &mut Call<'_>) -> Handled {
    call.connection.reset(&call.shared.settings);
    encode::simple(call.out, b"RESET");
    Ok(Plan::Answered)
}

pub fn select(call: &mut Call<'_>) -> Handled {
    let index = call.integer32(1)?;
    if index != 0 && call.settings().redis_cluster.sends_clients() {
        return Err(CommandError::fixed("ERR SELECT is not allowed in cluster mode"));
    }
    if index != 0 {
        return Err(CommandError::DB_RANGE);
    }
    call.ok()
}

/// AUTH [user] password.
pub fn auth(call: &mut Call<'_>) -> Handled {
    if call.args.len() > 3 {
        return Err(CommandError::SYNTAX);
    }
    if call.args.len() == 2 {
        if call.settings().credentials.is_empty() {
            return Err(CommandError::fixed(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        authenticate(call, DEFAULT_USER, call.args.get(1).unwrap_or_default())?;
    } else {
        authenticate(call, call.args.get(1).unwrap_or_default(), call.args.get(2).unwrap_or_default())?;
    }
    call.ok()
}

fn authenticate(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> Result<(), CommandError> {
    call.shared.counters.auth_commands += 1;
    if !call.connection.authenticate(user, password, &call.shared.settings) {
        call.shared.counters.auth_errors += 1;
        return Err(CommandError::WRONG_PASSWORD);
    }
    Ok(())
}

/// HELLO [protocol [AUTH user password] [SETNAME name]].
pub fn hello(call: &mut Call<'_>) -> Handled {
    let protocol = match call.args.get(1) {
        None => None,
        Some(text) => Some(parse_protocol(text)?),
    };
    // Options act in their order, as in Redis: a wrong password is told before a later syntax error.
    let args = call.args;
    let mut index = 2;
    while index < args.len() {
        let more = args.len() - index - 1;
        if call.is(index, "AUTH") && more >= 2 {
            authenticate(call, &args[index + 1], &args[index + 2])?;
            index += 3;
        } else if call.is(index, "SETNAME") && more >= 1 {
            set_name(call, &args[index + 1])?;
            index += 2;
        } else {
            let option = super::echoed(&args[index], usize::MAX);
            return Err(CommandError::owned([b"ERR Syntax error in HELLO option '", option, b"'"].concat()));
        }
    }
    if !call.connection.authenticated() {
        return Err(CommandError::fixed(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> \
             option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    call.connection.protocol = protocol.unwrap_or(call.connection.protocol);
    describe_server(call);
    Ok(Plan::Answered)
}

fn parse_protocol(text: &[u8]) -> Result<Protocol, CommandError> {
    match parse_i64(text) {
        Some(2) => Ok(Protocol::Resp2),
        Some(3) => Ok(Protocol::Resp3),
        Some(_) => Err(CommandError::fixed("NOPROTO unsupported protocol version")),
        None => Err(CommandError::fixed("ERR Protocol version is not an integer or out of range")),
    }
}

fn describe_server(call: &mut Call<'_>) {
    let protocol = call.protocol();
    encode::map(call.out, protocol, 7);
    encode::bulk(call.out, b"server");
    encode::bulk(call.out, b"redis");
    encode::bulk(call.out, b"version");
    encode::bulk(call.out, REDIS_VERSION.as_bytes());
    encode::bulk(call.out, b"proto");
    encode::integer(call.out, if protocol == Protocol::Resp3 { 3 } else { 2 });
    encode::bulk(call.out, b"id");
    encode::count(call.out, call.connection.seat.id);
    encode::bulk(call.out, b"mode");
    let mode = if call.settings().redis_cluster.sends_clients() { "cluster" } else { "standalone" };
    encode::bulk(call.out, mode.as_bytes());
    encode::bulk(call.out, b"role");
    encode::bulk(call.out, b"master");
    encode::bulk(call.out, b"modules");
    encode::array(call.out, 0);
}
