//! CLIENT: what a connection tells of itself, and of the others.

use std::sync::Arc;

use shorttail_units::Now;
use shorttail_wire::resp::{encode, parse_i64};

use super::answer_help;
use crate::redis::connection::WantedReplies;
use crate::redis::error::CommandError;
use crate::redis::limits::NAME_BYTES_MAX;
use crate::redis::plan::{Call, Handled, Plan};
use crate::redis::table;
use crate::roster::{ClientProtocol, Member};

pub fn id(call: &mut Call<'_>) -> Handled {
    encode::count(call.out, call.connection.seat.id);
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
    call.ok()
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
    call.ok()
}

fn printable(name: &[u8]) -> bool {
    name.len() <= NAME_BYTES_MAX && name.iter().all(u8::is_ascii_graphic)
}

pub fn no_evict(call: &mut Call<'_>) -> Handled {
    call.connection.no_evict = on_or_off(call)?;
    call.ok()
}

/// CLIENT REPLY ON | OFF | SKIP. Only ON is answered.
pub fn reply(call: &mut Call<'_>) -> Handled {
    let replies = &mut call.connection.replies;
    if call.args[2].eq_ignore_ascii_case(b"ON") {
        *replies = WantedReplies::All;
    } else if call.args[2].eq_ignore_ascii_case(b"OFF") {
        *replies = WantedReplies::None;
    } else if !call.args[2].eq_ignore_ascii_case(b"SKIP") {
        return Err(CommandError::SYNTAX);
    } else if *replies != WantedReplies::None {
        *replies = WantedReplies::NoneToNext;
    }
    call.ok()
}

pub fn no_touch(call: &mut Call<'_>) -> Handled {
    call.connection.no_touch = on_or_off(call)?;
    call.ok()
}

fn on_or_off(call: &Call<'_>) -> Result<bool, CommandError> {
    if call.is(2, "ON") {
        Ok(true)
    } else if call.is(2, "OFF") {
        Ok(false)
    } else {
        Err(CommandError::SYNTAX)
    }
}

pub fn info(call: &mut Call<'_>) -> Handled {
    let mut line = Vec::new();
    describe(&call.connection.seat, call.now, &mut line);
    encode::verbatim_text(call.out, call.connection.protocol, &line);
    Ok(Plan::Answered)
}

/// CLIENT LIST [TYPE type | ID id ...].
pub fn list(call: &mut Call<'_>) -> Handled {
    let roster = &call.shared.roster;
    let is_redis = |member: &Arc<Member>| member.protocol == ClientProtocol::Redis;
    let listed = if call.args.len() == 2 {
        roster.of_protocol(ClientProtocol::Redis)
    } else if call.args.len() == 4 && call.is(2, "TYPE") {
        let kind = &call.args[3];
        let known = ["normal", "replica", "slave", "pubsub", "master"];
        if !known.iter().any(|name| kind.eq_ignore_ascii_case(name.as_bytes())) {
            let shown = super::echoed(kind, usize::MAX);
            return Err(CommandError::owned([b"ERR Unknown client type '", shown, b"'"].concat()));
        }
        if kind.eq_ignore_ascii_case(b"normal") { roster.of_protocol(ClientProtocol::Redis) } else { Vec::new() }
    } else if call.args.len() > 3 && call.is(2, "ID") {
        super::bound_names(call.args.len())?;
        let id_of = |id| parse_i64(id).filter(|&id| id > 0).map(i64::unsigned_abs);
        let ids: Option<Vec<u64>> = call.args.skip(3).iter().map(id_of).collect();
        let ids = ids.ok_or(CommandError::fixed("ERR Invalid client ID"))?;
        ids.into_iter().filter_map(|id| roster.get(id).filter(is_redis)).collect()
    } else {
        return Err(CommandError::SYNTAX);
    };
    let mut lines = Vec::new();
    listed.iter().for_each(|member| describe(member, call.now, &mut lines));
    encode::verbatim_text(call.out, call.connection.protocol, &lines);
    Ok(Plan::Answered)
}

/// One line of CLIENT LIST, in Redis' order of fields.
fn describe(member: &Member, now: Now, line: &mut Vec<u8>) {
    let facts = member.facts();
    line.extend_from_slice(
        format!("id={} addr={} laddr={} fd=-1 name=", member.id, member.peer, member.local).as_bytes(),
    );
    line.extend_from_slice(&facts.name);
    let flags = if facts.no_evict { "e" } else { "N" };
    line.extend_from_slice(
        format!(
            " age={} idle={} flags={flags} db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 \
             multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd={} user=",
            member.age_s(now),
            member.idle_s(now),
            table::name_of(member.command()).unwrap_or("NULL"),
        )
        .as_bytes(),
    );
    line.extend_from_slice(&facts.user);
    let version = if facts.speaks_resp3 { 3 } else { 2 };
    line.extend_from_slice(format!(" redir=-1 resp={version} lib-name=").as_bytes());
    line.extend_from_slice(&facts.library_name);
    line.extend_from_slice(b" lib-ver=");
    line.extend_from_slice(&facts.library_version);
    line.push(b'\n');
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
        "    Describe the connections of Redis clients to this gateway.",
        "NO-EVICT (ON|OFF)",
        "    Note that this connection asks not to be dropped.",
        "NO-TOUCH (ON|OFF)",
        "    With ON, reads of this connection do not count as accesses.",
        "REPLY (ON|OFF|SKIP)",
        "    Send replies, none, or none to the next request.",
        "SETINFO (LIB-NAME <name> | LIB-VER <version>)",
        "    Note the client library of this connection.",
        "SETNAME <name>",
        "    Name this connection.",
    ];
    answer_help(call, "CLIENT", &lines)
}
