//! COMMAND: the command table as clients read it.

use shorttail_wire::resp::{Args, Protocol, encode};

use super::answer_help;
use super::cluster::keys;
use crate::redis::error::CommandError;
use crate::redis::glob::Case;
use crate::redis::plan::{Call, Handled, Plan};
use crate::redis::table::{self, COMMANDS, CommandSpec, KeyRange};

/// COMMAND without a subcommand.
pub fn all(call: &mut Call<'_>) -> Handled {
    encode::array(call.out, COMMANDS.len());
    let protocol = call.protocol();
    COMMANDS.iter().for_each(|spec| encode_info(call.out, spec, protocol));
    Ok(Plan::Answered)
}

pub fn info(call: &mut Call<'_>) -> Handled {
    if call.args.len() == 2 {
        return all(call);
    }
    super::bound_names(call.args.len())?;
    let protocol = call.protocol();
    encode::array(call.out, call.args.len() - 2);
    for name in call.args.skip(2).iter() {
        match find_full(name) {
            Some(spec) => encode_info(call.out, spec, protocol),
            None => encode::null(call.out, protocol),
        }
    }
    Ok(Plan::Answered)
}

pub fn count(call: &mut Call<'_>) -> Handled {
    encode::count(call.out, COMMANDS.len() as u64);
    Ok(Plan::Answered)
}

/// COMMAND LIST [FILTERBY (MODULE name | ACLCAT category | PATTERN pattern)].
pub fn list(call: &mut Call<'_>) -> Handled {
    let named = |wanted: &dyn Fn(&CommandSpec) -> bool| -> Vec<&'static str> {
        table::all().filter(|spec| wanted(spec)).map(|spec| spec.name).collect()
    };
    let names = match call.args.len() {
        2 => named(&|_| true),
        5 if call.is(2, "FILTERBY") => {
            let value = &call.args[4];
            if call.is(3, "MODULE") {
                Vec::new()
            } else if call.is(3, "ACLCAT") {
                let category = [b"@", value].concat().to_ascii_lowercase();
                named(&|spec| spec.categories.split_whitespace().any(|word| word.as_bytes() == category))
            } else if call.is(3, "PATTERN") {
                let glob = super::glob(value, Case::Ignored)?;
                named(&|spec| glob.matches(spec.name.as_bytes()))
            } else {
                return Err(CommandError::SYNTAX);
            }
        }
        _ => return Err(CommandError::SYNTAX),
    };
    encode::array(call.out, names.len());
    names.iter().for_each(|name| encode::bulk(call.out, name.as_bytes()));
    Ok(Plan::Answered)
}

pub fn docs(call: &mut Call<'_>) -> Handled {
    super::bound_names(call.args.len())?;
    let protocol = call.protocol();
    let specs: Vec<_> = match call.args.len() {
        2 => COMMANDS.iter().collect(),
        _ => call.args.skip(2).iter().filter_map(find_full).collect(),
    };
    encode::map(call.out, protocol, specs.len());
    specs.iter().for_each(|spec| encode_docs(call.out, spec, protocol));
    Ok(Plan::Answered)
}

pub fn getkeys(call: &mut Call<'_>) -> Handled {
    let (_, keys) = named_keys(call.args.skip(2))?;
    encode::array(call.out, keys.len());
    keys.iter().for_each(|key| encode::bulk(call.out, key));
    Ok(Plan::Answered)
}

pub fn getkeysandflags(call: &mut Call<'_>) -> Handled {
    let command = call.args.skip(2);
    let (range, keys) = named_keys(command)?;
    let is_set_get = || command.skip(3).iter().any(|option| option.eq_ignore_ascii_case(b"get"));
    // Those of SET depend on what it is to do.
    let access = match range.access.strip_suffix(" variable_flags") {
        Some(access) if is_set_get() => access,
        Some(_) => "OW update",
        None => range.access,
    };
    let protocol = call.protocol();
    encode::array(call.out, keys.len());
    for key in keys {
        encode::array(call.out, 2);
        encode::bulk(call.out, key);
        encode_words(call.out, access, protocol);
    }
    Ok(Plan::Answered)
}

/// The keys in a whole command, and where its entry says that they are.
fn named_keys(command: Args<'_>) -> Result<(KeyRange, Vec<&[u8]>), CommandError> {
    let container = table::find(&command[0]);
    let spec = container.and_then(|spec| match command.get(1) {
        Some(word) if !spec.subcommands.is_empty() => spec.subcommand(word),
        _ => Some(spec),
    });
    let spec = spec.ok_or(CommandError::fixed("ERR Invalid command specified"))?;
    let Some(range) = spec.keys else {
        return Err(CommandError::fixed("ERR The command has no key arguments"));
    };
    if !spec.accepts(command.len()) {
        return Err(CommandError::fixed("ERR Invalid number of arguments specified for command"));
    }
    Ok((range, keys(range, command).collect()))
}

pub fn help(call: &mut Call<'_>) -> Handled {
    let lines = [
        "(no subcommand)",
        "    Describe all commands.",
        "COUNT",
        "    Count the commands.",
        "DOCS [<command-name> ...]",
        "    Tell what commands are for.",
        "GETKEYS <full-command>",
        "    Pick the keys out of a whole command.",
        "GETKEYSANDFLAGS <full-command>",
        "    Pick the keys out of a whole command, and tell what happens to them.",
        "INFO [<command-name> ...]",
        "    Describe commands.",
        "LIST [FILTERBY (MODULE <name> | ACLCAT <category> | PATTERN <pattern>)]",
        "    Name the commands.",
    ];
    answer_help(call, "COMMAND", &lines)
}

/// A command by its full name, `container|subcommand` included.
fn find_full(name: &[u8]) -> Option<&'static CommandSpec> {
    let Some(bar) = name.iter().position(|&byte| byte == b'|') else { return table::find(name) };
    table::find(&name[..bar])?.subcommand(&name[bar + 1..])
}

fn encode_info(out: &mut Vec<u8>, spec: &CommandSpec, protocol: Protocol) {
    encode::array(out, 10);
    encode::bulk(out, spec.name.as_bytes());
    encode::integer(out, i64::from(spec.arity));
    encode_words(out, spec.flags, protocol);
    let (first, last, step) = spec.keys.map_or((0, 0, 0), |range| (range.first, range.last, range.step));
    encode::count(out, first as u64);
    encode::integer(out, i64::from(last));
    encode::count(out, step as u64);
    encode_words(out, spec.categories, protocol);
    let tips: Vec<_> = spec.tips.split_whitespace().collect();
    encode::set(out, protocol, tips.len());
    tips.iter().for_each(|tip| encode::bulk(out, tip.as_bytes()));
    match spec.keys {
        Some(range) => encode_key_range(out, range, spec.key_notes, protocol),
        None => encode::set(out, protocol, 0),
    }
    encode::set(out, protocol, spec.subcommands.len());
    spec.subcommands.iter().for_each(|sub| encode_info(out, sub, protocol));
}

fn encode_words(out: &mut Vec<u8>, words: &str, protocol: Protocol) {
    encode::set(out, protocol, words.split_whitespace().count());
    words.split_whitespace().for_each(|word| encode::simple(out, word.as_bytes()));
}

/// One key specification: a range that begins at an index.
fn encode_key_range(out: &mut Vec<u8>, range: KeyRange, notes: &str, protocol: Protocol) {
    encode::set(out, protocol, 1);
    encode::map(out, protocol, if notes.is_empty() { 3 } else { 4 });
    if !notes.is_empty() {
        encode::bulk(out, b"notes");
        encode::bulk(out, notes.as_bytes());
    }
    encode::bulk(out, b"flags");
    encode_words(out, range.access, protocol);
    encode::bulk(out, b"begin_search");
    encode_search(out, protocol, b"index", &[(b"index", range.first.cast_signed() as i64)]);
    encode::bulk(out, b"find_keys");
    // The last key counts from the first one, unless it counts from the end.
    let last = if range.last < 0 { i64::from(range.last) } else { i64::from(range.last) - range.first as i64 };
    let spec: [(&[u8], i64); 3] = [(b"lastkey", last), (b"keystep", range.step as i64), (b"limit", 0)];
    encode_search(out, protocol, b"range", &spec);
}

fn encode_search(out: &mut Vec<u8>, protocol: Protocol, kind: &[u8], spec: &[(&[u8], i64)]) {
    encode::map(out, protocol, 2);
    encode::bulk(out, b"type");
    encode::bulk(out, kind);
    encode::bulk(out, b"spec");
    encode::map(out, protocol, spec.len());
    for (name, value) in spec {
        encode::bulk(out, name);
        encode::integer(out, *value);
    }
}

fn encode_docs(out: &mut Vec<u8>, spec: &CommandSpec, protocol: Protocol) {
    let fields =
        [("summary", spec.summary), ("since", spec.since), ("group", spec.group), ("complexity", spec.complexity)];
    encode::bulk(out, spec.name.as_bytes());
    encode::map(out, protocol, fields.len() + usize::from(!spec.subcommands.is_empty()));
    for (name, value) in fields {
        encode::bulk(out, name.as_bytes());
        encode::bulk(out, value.as_bytes());
    }
    if !spec.subcommands.is_empty() {
        encode::bulk(out, b"subcommands");
        encode::map(out, protocol, spec.subcommands.len());
        spec.subcommands.iter().for_each(|sub| encode_docs(out, sub, protocol));
    }
}
