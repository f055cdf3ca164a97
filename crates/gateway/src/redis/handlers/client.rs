//! CLIENT: what a connection tells of itself.

use shorttail_wire::resp::{Protocol, encode, parse_i64};

use super::answer_help;
use crate::redis::error::CommandError;
use crate::redis::limits::NAME_BYTES_MAX;
use crate::redis::plan::{Call, Handled, Plan};

pub fn id(call: &mut Call<'_>) -> Handled {
    encode::count(call.out, call.connection.id);
    Ok(Plan::Answered)
}

pub fn getname(call: &mut Call<'_>) -> Handled {
    if call.connection.name.is_empty() {
        encode::null(call.out, call.connection.protocol);
    } else {
        encode::bulk(call.out, &call.connection.name);
    }
    Ok(Plan::Answered)
}

pub fn setname(call: &mut Call<'_>) -> Handled {
    let args = call.args;
    set_name(call, &args[2])?;
    ok(call)
}

/// Names the connection; CLIENT SETNAME and HELLO SETNAME.
pub fn set_name(call: &mut Call<'_>, name: &[u8]) -> Result<(), CommandError> {
    if !printable(name) {
        return Err(CommandError::fixed("ERR Client names cannot contain spaces, newlines or special characters."));
    }
    call.connection.name = name.to_vec();
    Ok(())
}

/// CLIENT SETINFO LIB-NAME name | LIB-VER version.
pub fn setinfo(call: &mut Call<'_>) -> Handled {
    let value = call.args.get(3).unwrap_or_default();
    let (name, field) = if call.is(2, "LIB-NAME") {
        ("lib-name", &mut call.connection.library_name)
    } else if call.is(2, "LIB-VER") {
        ("lib-ver", &mut call.connection.library_version)
    } else {
        let option = super::echoed(&call.args[2], usize::MAX);
        return Err(CommandError::owned([b"ERR Unrecognized option '", option, b"'"].concat()));
    };
    if !printable(value) {
        let text = format!("ERR {name} cannot contain spaces, newlines or special characters.");
        return Err(CommandError::owned(text.into_bytes()));
    }
    *field = value.to_vec();
    ok(call)
}

fn printable(name: &[u8]) -> bool {
    name.len() <= NAME_BYTES_MAX && name.iter().all(u8::is_ascii_graphic)
}

fn ok(call: &mut Call<'_>) -> Handled {
    call.out.extend_from_slice(encode::OK);
    Ok(Plan::Answered)
}

pub fn no_evict(call: &mut Call<'_>) -> Handled {
    call.connection.no_evict = on_or_off(call)?;
    ok(call)
}

pub fn no_touch(call: &mut Call<'_>) -> Handled {
    call.connection.no_touch = on_or_off(call)?;
    ok(call)
}

fn on_or_off(call: &Call<'_>) -> Result<bool, CommandError> {
    match () {
        () if call.is(2, "ON") => Ok(true),
        () if call.is(2, "OFF") => Ok(false),
        () => Err(CommandError::SYNTAX),
    }
}

pub fn info(call: &mut Call<'_>) -> Handled {
    let line = describe(call);
    encode::verbatim_text(call.out, call.connection.protocol, &line);
    Ok(Plan::Answered)
}

/// CLIENT LIST [TYPE type | ID id ...]: sessions do not know each other, so it lists the one that asks.
pub fn list(call: &mut Call<'_>) -> Handled {
    let mut listed = true;
    if call.args.len() == 4 && call.is(2, "TYPE") {
        let kind = &call.args[3];
        let known = ["normal", "replica", "slave", "pubsub", "master"];
        if !known.iter().any(|name| kind.eq_ignore_ascii_case(name.as_bytes())) {
            let shown = super::echoed(kind, usize::MAX);
            return Err(CommandError::owned([b"ERR Unknown client type '", shown, b"'"].concat()));
        }
        listed = kind.eq_ignore_ascii_case(b"normal");
    } else if call.args.len() > 3 && call.is(2, "ID") {
        listed = false;
        for id in call.args.skip(3).iter() {
            let id = parse_i64(id).filter(|&id| id > 0);
            let id = id.ok_or(CommandError::fixed("ERR Invalid client ID"))?;
            listed |= id.unsigned_abs() == call.connection.id;
        }
    } else if call.args.len() != 2 {
        return Err(CommandError::SYNTAX);
    }
    let line = if listed { describe(call) } else { Vec::new() };
    encode::verbatim_text(call.out, call.connection.protocol, &line);
    Ok(Plan::Answered)
}

/// One line of CLIENT LIST, in Redis' order of fields.
fn describe(call: &Call<'_>) -> Vec<u8> {
    let connection = &*call.connection;
    let seconds = |since_us: u64| call.now.mono_us.saturating_sub(since_us) / 1_000_000;
    let mut line =
        format!("id={} addr={} laddr={} fd=-1 name=", connection.id, connection.peer, connection.local).into_bytes();
    line.extend_from_slice(&connection.name);
    let flags = if connection.no_evict { "e" } else { "N" };
    line.extend_from_slice(
        format!(
            " age={} idle={} flags={flags} db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 \
             multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd={} user=",
            seconds(connection.connected_us),
            seconds(connection.last_command_us),
            call.spec.name,
        )
        .as_bytes(),
    );
    line.extend_from_slice(connection.user.as_deref().unwrap_or_default());
    let version = if connection.protocol == Protocol::Resp3 { 3 } else { 2 };
    line.extend_from_slice(format!(" redir=-1 resp={version} lib-name=").as_bytes());
    line.extend_from_slice(&connection.library_name);
    line.extend_from_slice(b" lib-ver=");
    line.extend_from_slice(&connection.library_version);
    line.push(b'\n');
    line
}

pub fn help(call: &mut Call<'_>) -> Handled {
    let lines = [
        "GETNAME",
        "    Tell the name of this connection.",
        "ID",
        "    Tell the id of this connection.",
        "INFO",
        "    Describe this connection.",
        "LIST [TYPE <type> | ID <id> [<id> ...]]",
        "    Describe connections; only the one that asks is known here.",
        "NO-EVICT (ON|OFF)",
        "    Note that this connection asks not to be dropped.",
        "NO-TOUCH (ON|OFF)",
        "    With ON, reads of this connection do not count as accesses.",
        "SETINFO (LIB-NAME <name> | LIB-VER <version>)",
        "    Note the client library of this connection.",
        "SETNAME <name>",
        "    Name this connection.",
    ];
    answer_help(call, "CLIENT", &lines)
}
