//! Flags as `getopt_long` takes them: `-vvv`, `-p11211`, `-m 64`, `--port=11211`, `--port 11211`, `--por 11211`.

use super::{EXIT_FAILURE, Refusal};

/// Whether a flag has a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    Nothing,
    Value,
    /// Only as `--long=value`.
    Maybe,
}

/// One flag by both its names.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    pub short: char,
    pub long: Option<&'static str>,
    pub takes: Takes,
}

/// A flag that was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Given {
    pub short: char,
    pub value: Option<String>,
}

/// All flags in order. What is no flag is ignored, as memcached does.
///
/// # Errors
/// In the words of the C library, for a flag that is unknown or lacks its value.
pub fn parse(flags: &[Flag], arguments: &[String]) -> Result<Vec<Given>, Refusal> {
    let mut given = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            break;
        } else if let Some(long) = argument.strip_prefix("--") {
            given.push(parse_long(flags, long, &mut rest)?);
        } else if let Some(cluster) = argument.strip_prefix('-').filter(|cluster| !cluster.is_empty()) {
            parse_cluster(flags, cluster, &mut rest, &mut given)?;
        }
    }
    Ok(given)
}

fn parse_long<'a>(
    flags: &[Flag],
    argument: &str,
    rest: &mut impl Iterator<Item = &'a String>,
) -> Result<Given, Refusal> {
    let (name, inline) = match argument.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (argument, None),
    };
    let flag = find_long(flags, name)?;
    let value = match (flag.takes, inline) {
        (Takes::Nothing, Some(_)) => return Err(refuse(&format!("option '--{name}' doesn't allow an argument"))),
        (Takes::Nothing, None) => None,
        (Takes::Maybe, inline) => inline,
        (Takes::Value, Some(value)) => Some(value),
        (Takes::Value, None) => {
            let next = rest.next().cloned();
            Some(next.ok_or_else(|| refuse(&format!("option '--{name}' requires an argument")))?)
        }
    };
    Ok(Given { short: flag.short, value })
}

/// By its whole name, or by the beginning of only one.
fn find_long(flags: &[Flag], name: &str) -> Result<Flag, Refusal> {
    let named = |wanted: &dyn Fn(&str) -> bool| -> Vec<Flag> {
        flags.iter().filter(|flag| flag.long.is_some_and(wanted)).copied().collect()
    };
    if let [flag] = named(&|long| long == name)[..] {
        return Ok(flag);
    }
    match named(&|long| long.starts_with(name))[..] {
        [flag] => Ok(flag),
        [] => Err(refuse(&format!("unrecognized option '--{name}'"))),
        _ => Err(refuse(&format!("option '--{name}' is ambiguous"))),
    }
}

fn parse_cluster<'a>(
    flags: &[Flag],
    cluster: &str,
    rest: &mut impl Iterator<Item = &'a String>,
    given: &mut Vec<Given>,
) -> Result<(), Refusal> {
    for (index, short) in cluster.char_indices() {
        let flag = flags.iter().find(|flag| flag.short == short);
        let flag = flag.ok_or_else(|| refuse(&format!("invalid option -- '{short}'")))?;
        if flag.takes != Takes::Value {
            given.push(Given { short, value: None });
            continue;
        }
        let inline = &cluster[index + short.len_utf8()..];
        let value = if inline.is_empty() { rest.next().cloned() } else { Some(inline.to_owned()) };
        let value = value.ok_or_else(|| refuse(&format!("option requires an argument -- '{short}'")))?;
        given.push(Given { short, value: Some(value) });
        return Ok(());
    }
    Ok(())
}

fn refuse(problem: &str) -> Refusal {
    Refusal::new(EXIT_FAILURE, format!("memcached: {problem}\nIllegal argument \"?\""))
}
