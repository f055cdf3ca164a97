//! One request line: which command it is, and its arguments.

use memchr::memchr;

use super::limits::{KEY_BYTES_MAX, LINE_BYTES_MIN, META_TOKEN_COUNT_MAX, VALUE_BYTES_DECLARED_MAX};
use super::meta::{MetaFlags, MetaKey};
use super::number::{exact_i32, exact_u64, lax_i32, lax_u32};
use super::request::{Admin, Refusal, Request, StoreLine, StoreVerb};
use super::tokens::{Tokens, next_token};

type Parsed<'a> = Result<Request<'a>, Refusal>;

/// Parses one line. `line` ends with its `\n`, perhaps behind a `\r`.
///
/// # Errors
/// What memcached answers to a line that is no request.
pub fn parse_line(line: &[u8]) -> Parsed<'_> {
    if line.len() < LINE_BYTES_MIN {
        return Err(Refusal::bad_format());
    }
    let line = match line {
        [text @ .., b'\r', b'\n'] | [text @ .., b'\n'] => text,
        text => text,
    };
    let verb_bytes = memchr(b' ', line).unwrap_or(line.len());
    let (verb, rest) = line.split_at(verb_bytes);
    match verb {
        b"get" => get(false, None, rest),
        b"gets" => get(true, None, rest),
        b"set" => store(StoreVerb::Set, rest),
        b"mg" => meta(rest, 1, Refusal::new).map(|(key, flags)| Request::MetaGet { key, flags }),
        b"ms" => meta_set(rest),
        b"md" => meta_delete(rest),
        b"ma" => meta_arithmetic(rest),
        b"me" => meta_debug(rest),
        b"mn" => Ok(Request::MetaNoop),
        b"gat" => get_and_touch(false, rest),
        b"gats" => get_and_touch(true, rest),
        b"add" => store(StoreVerb::Add, rest),
        b"cas" => store(StoreVerb::Cas, rest),
        b"append" => store(StoreVerb::Append, rest),
        b"replace" => store(StoreVerb::Replace, rest),
        b"prepend" => store(StoreVerb::Prepend, rest),
        b"incr" => arithmetic(true, rest),
        b"decr" => arithmetic(false, rest),
        b"touch" => touch(rest),
        b"delete" => delete(rest),
        b"quit" => Ok(Request::Quit),
        b"stats" => Ok(Request::Stats { arguments: rest }),
        b"version" => Ok(Request::Version),
        b"watch" => Ok(Request::Admin { verb: Admin::Watch, arguments: rest, noreply: false }),
        _ => other(line),
    }
}

/// Commands that memcached finds by their first token, so that spaces may stand before them.
fn other(line: &[u8]) -> Parsed<'_> {
    let noreply = says_noreply(Tokens::new(line));
    let Some((verb, arguments)) = next_token(line) else { return Err(Refusal::new("ERROR")) };
    let verb = match verb {
        b"flush_all" => Admin::FlushAll,
        b"verbosity" => Admin::Verbosity,
        b"shutdown" => Admin::Shutdown,
        b"slabs" => Admin::Slabs,
        b"lru" => Admin::Lru,
        b"lru_crawler" => Admin::LruCrawler,
        b"cache_memlimit" => Admin::CacheMemlimit,
        b"debugtime" => Admin::Debugtime,
        _ => {
            let last = Tokens::new(arguments).last().unwrap_or_default();
            return Err(Refusal { close: last.starts_with(b"HTTP/"), ..Refusal::new("ERROR").quiet(noreply) });
        }
    };
    Ok(Request::Admin { verb, arguments, noreply })
}

fn says_noreply<'a>(tokens: impl Iterator<Item = &'a [u8]>) -> bool {
    tokens.last() == Some(b"noreply")
}

fn get(with_cas: bool, exptime: Option<i32>, keys: &[u8]) -> Parsed<'_> {
    let Some((first, mut rest)) = next_token(keys) else { return Err(Refusal::bad_format()) };
    let keys = &keys[keys.len() - first.len() - rest.len()..];
    if first.len() > KEY_BYTES_MAX {
        return Err(Refusal::new(Refusal::LONG_KEY_OF_GET));
    }
    let mut long_key_at = None;
    while let (Some((key, more)), None) = (next_token(rest), long_key_at) {
        long_key_at = (key.len() > KEY_BYTES_MAX).then_some(keys.len() - more.len() - key.len());
        rest = more;
    }
    Ok(Request::Get { with_cas, exptime, keys, long_key_at })
}

fn get_and_touch(with_cas: bool, rest: &[u8]) -> Parsed<'_> {
    let Some((exptime, keys)) = next_token(rest) else { return Err(Refusal::bad_format()) };
    if next_token(keys).is_none() {
        return Err(Refusal::bad_format());
    }
    let exptime = exact_i32(exptime).ok_or(Refusal::new(Refusal::BAD_EXPTIME))?;
    get(with_cas, Some(exptime), keys)
}

fn store(verb: StoreVerb, rest: &[u8]) -> Parsed<'_> {
    let mut tokens = Tokens::new(rest);
    let (Some(key), Some(flags), Some(exptime), Some(declared)) =
        (tokens.next(), tokens.next(), tokens.next(), tokens.next())
    else {
        return Err(Refusal::bad_format());
    };
    let value_bytes = declared_bytes(declared)?;
    let compare = tokens.clone().next();
    let noreply = says_noreply(tokens);
    let refused = || Refusal::bad_format().quiet(noreply).skipping(value_bytes);
    let (Some(flags), Some(exptime), true) = (lax_u32(flags), lax_i32(exptime), key.len() <= KEY_BYTES_MAX) else {
        return Err(refused());
    };
    let compare = match verb {
        StoreVerb::Cas => Some(compare.and_then(exact_u64).ok_or_else(refused)?),
        _ => None,
    };
    Ok(Request::Store(StoreLine { verb, key, flags, exptime, value_bytes, compare, noreply }))
}

/// The declared length of a value. A line without a good one is refused with nothing to skip, because nobody knows
/// how much follows.
fn declared_bytes(token: &[u8]) -> Result<usize, Refusal> {
    let declared = exact_i32(token).filter(|declared| (0..=VALUE_BYTES_DECLARED_MAX).contains(declared));
    declared.and_then(|declared| usize::try_from(declared).ok()).ok_or(Refusal::bad_format())
}

fn arithmetic(increment: bool, rest: &[u8]) -> Parsed<'_> {
    let (key, delta, noreply) = key_and_argument(rest)?;
    let wrong = Refusal::new("CLIENT_ERROR invalid numeric delta argument").quiet(noreply);
    let delta = exact_u64(delta).ok_or(wrong)?;
    Ok(Request::Arithmetic { key, increment, delta, noreply })
}

fn touch(rest: &[u8]) -> Parsed<'_> {
    let (key, exptime, noreply) = key_and_argument(rest)?;
    let exptime = exact_i32(exptime).ok_or(Refusal::new(Refusal::BAD_EXPTIME).quiet(noreply))?;
    Ok(Request::Touch { key, exptime, noreply })
}

fn key_and_argument(rest: &[u8]) -> Result<(&[u8], &[u8], bool), Refusal> {
    let mut tokens = Tokens::new(rest);
    let (Some(key), Some(argument)) = (tokens.next(), tokens.next()) else { return Err(Refusal::bad_format()) };
    let noreply = says_noreply(Tokens::new(rest));
    if key.len() > KEY_BYTES_MAX {
        return Err(Refusal::bad_format().quiet(noreply));
    }
    Ok((key, argument, noreply))
}

/// memcached ignores what stands behind the key. Words that begin with neither a number (old clients send a delay) nor
/// `noreply` are refused all the same, as by memcached up to 1.6.18: `memccapable` wants it so.
fn delete(rest: &[u8]) -> Parsed<'_> {
    let Some((key, more)) = next_token(rest) else { return Err(Refusal::bad_format()) };
    let noreply = says_noreply(Tokens::new(rest));
    if key.len() > KEY_BYTES_MAX {
        return Err(Refusal::bad_format().quiet(noreply));
    }
    match next_token(more) {
        Some((word, _)) if word != b"noreply" && exact_i32(word).is_none() => {
            let line = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
            Err(Refusal::new(line).quiet(noreply))
        }
        _ => Ok(Request::Delete { key, noreply }),
    }
}

/// Key and flags of a meta command with `skipped` tokens (key, and value length of `ms`) before its flags.
fn meta<'a>(
    rest: &'a [u8],
    skipped: usize,
    refuse: impl Fn(&'static str) -> Refusal,
) -> Result<(MetaKey<'a>, MetaFlags), Refusal> {
    let mut tokens = Tokens::new(rest);
    let Some(key) = tokens.next() else { return Err(Refusal::bad_format()) };
    for _ in 1..skipped {
        tokens.next().ok_or(Refusal::bad_format())?;
    }
    if !are_like_flags(tokens) {
        return Err(Refusal::bad_format());
    }
    MetaFlags::parse(key, tokens, META_TOKEN_COUNT_MAX - 1 - skipped).map_err(refuse)
}

/// A token that cannot be a flag makes the line no meta command at all.
fn are_like_flags(mut tokens: Tokens<'_>) -> bool {
    tokens.all(|token| token.first().is_some_and(|&first| matches!(first, b'A'..=b'z' | b'0'..=b'9')))
}

fn unless_opaque_is_long<'a>(flags: &MetaFlags, request: Request<'a>) -> Result<Request<'a>, &'static str> {
    if flags.opaque_fits() { Ok(request) } else { Err(Refusal::LONG_OPAQUE) }
}

fn meta_delete(rest: &[u8]) -> Parsed<'_> {
    let (key, flags) = meta(rest, 1, Refusal::new)?;
    unless_opaque_is_long(&flags, Request::MetaDelete { key, flags }).map_err(Refusal::new)
}

fn meta_set(rest: &[u8]) -> Parsed<'_> {
    let declared = Tokens::new(rest).nth(1).ok_or(Refusal::bad_format())?;
    let value_bytes = declared_bytes(declared)?;
    let refuse = |line| Refusal::new(line).skipping(value_bytes);
    let (key, flags) = meta(rest, 2, refuse)?;
    if !matches!(flags.mode(), 0 | b'E' | b'A' | b'P' | b'R' | b'S') {
        return Err(refuse("CLIENT_ERROR invalid mode for ms M token"));
    }
    unless_opaque_is_long(&flags, Request::MetaSet { key, value_bytes, flags }).map_err(refuse)
}

fn meta_arithmetic(rest: &[u8]) -> Parsed<'_> {
    // Whatever is wrong with the flags, memcached answers one line.
    let (key, flags) = meta(rest, 1, |_| Refusal::new("CLIENT_ERROR invalid or duplicate flag"))?;
    if !matches!(flags.mode(), 0 | b'I' | b'+' | b'D' | b'-') {
        return Err(Refusal::new("CLIENT_ERROR invalid mode for ma M token"));
    }
    unless_opaque_is_long(&flags, Request::MetaArithmetic { key, flags }).map_err(Refusal::new)
}

fn meta_debug(rest: &[u8]) -> Parsed<'_> {
    let mut tokens = Tokens::new(rest);
    let Some(key) = tokens.next().filter(|key| key.len() <= KEY_BYTES_MAX) else { return Err(Refusal::bad_format()) };
    if !are_like_flags(tokens) {
        return Err(Refusal::bad_format());
    }
    // memcached looks at the flag only if one more word follows.
    let key = match (tokens.next(), tokens.next()) {
        (Some(b"b"), Some(_)) => MetaKey::decode(key).ok_or(Refusal::bad_format())?,
        _ => MetaKey::Plain(key),
    };
    Ok(Request::MetaDebug { key })
}
