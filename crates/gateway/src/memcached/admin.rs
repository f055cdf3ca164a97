//! Commands for operators. What memcached tunes with them does not exist here; settings without meaning are checked
//! and accepted, so that scripts go on working, and what cannot be done is refused.

use shorttail_units::Now;
use shorttail_wire::memcached::{Admin, Refusal, Tokens, exact_i32, exact_u32};

use super::command::MemcachedCommand;
use super::expiry::expiry;
use super::limits::VERBOSITY_MAX;
use super::session::MemcachedSession;
use super::stats::Question;
use crate::request::KeyspaceRequest;
use crate::session::{RequestSink, Shared};

impl MemcachedSession {
    /// Runs an operator's command; `false` if it must wait.
    pub(super) fn admin(
        &mut self,
        now: Now,
        shared: &mut Shared,
        verb: Admin,
        arguments: &[u8],
        noreply: bool,
        sink: &mut impl RequestSink<MemcachedCommand>,
    ) -> bool {
        let line = match verb {
            Admin::FlushAll => match flush_time(now, shared, arguments, noreply) {
                Err(line) => line,
                Ok(request) => {
                    let asked = self.ask(Question::Flush { noreply }, request, sink);
                    shared.counters.flush_commands += u64::from(asked);
                    return asked;
                }
            },
            Admin::Verbosity => verbosity(shared, arguments),
            Admin::Shutdown => match shutdown(shared, arguments) {
                Some(line) => line,
                None => {
                    self.close();
                    return true;
                }
            },
            Admin::Debugtime => debugtime(shared, arguments),
            Admin::Slabs => slabs(arguments),
            Admin::Lru => "ERROR",
            Admin::LruCrawler => lru_crawler(arguments),
            Admin::CacheMemlimit => cache_memlimit(arguments),
            Admin::Watch => "CLIENT_ERROR watch commands not allowed",
        };
        if !noreply {
            self.say(line);
        }
        true
    }
}

fn flush_time(now: Now, shared: &mut Shared, arguments: &[u8], noreply: bool) -> Result<KeyspaceRequest, &'static str> {
    if shared.settings.flush_disabled {
        shared.counters.flush_commands += 1;
        return Err("CLIENT_ERROR flush_all not allowed");
    }
    let mut tokens = Tokens::new(arguments);
    let delay = match (tokens.next(), noreply && tokens.clone().next().is_none()) {
        (None, _) | (Some(_), true) => 0,
        (Some(delay), false) => exact_i32(delay).ok_or(Refusal::BAD_EXPTIME)?,
    };
    let at = if delay > 0 { expiry(delay, now) } else { None };
    Ok(KeyspaceRequest::flush(at))
}

fn verbosity(shared: &mut Shared, arguments: &[u8]) -> &'static str {
    let Some(level) = Tokens::new(arguments).next().and_then(exact_u32) else { return Refusal::BAD_FORMAT };
    shared.settings.verbosity = u8::try_from(level).unwrap_or(VERBOSITY_MAX).min(VERBOSITY_MAX);
    "OK"
}

/// `None`: the server is to end.
fn shutdown(shared: &mut Shared, arguments: &[u8]) -> Option<&'static str> {
    if !shared.settings.shutdown_enabled {
        return Some("SERVER_ERROR: shutdown not enabled");
    }
    let mut tokens = Tokens::new(arguments);
    match (tokens.next(), tokens.next()) {
        (None | Some(b"graceful"), None) => {
            shared.counters.shutdown_asked = true;
            None
        }
        _ => Some("CLIENT_ERROR invalid shutdown mode"),
    }
}

/// Moves the clock; pausing it (`p`, `r`) is accepted, because the clock stands still between two commands anyway.
fn debugtime(shared: &mut Shared, arguments: &[u8]) -> &'static str {
    let argument = Tokens::new(arguments).next().filter(|_| shared.settings.debug_commands);
    match argument {
        Some(b"p" | b"r") => "OK",
        Some(seconds) => match exact_i32(seconds) {
            Some(seconds) => {
                shared.counters.debug_time_s = shared.counters.debug_time_s.saturating_add(i64::from(seconds));
                "OK"
            }
            None => "ERROR",
        },
        None => "ERROR",
    }
}

fn slabs(arguments: &[u8]) -> &'static str {
    let mut tokens = Tokens::new(arguments);
    let (subcommand, first, second) = (tokens.next(), tokens.next(), tokens.next());
    match (subcommand, first) {
        (Some(b"reassign"), Some(_)) if second.is_some() => "CLIENT_ERROR slab reassignment disabled",
        (Some(b"automove"), Some(b"ratio" | b"freeratio")) => match second.map(|text| text.is_ascii()) {
            Some(true) => "OK",
            _ => "ERROR",
        },
        (Some(b"automove"), Some(b"window")) => match second.and_then(exact_u32) {
            None => Refusal::BAD_FORMAT,
            Some(3..=1800) => "OK",
            Some(_) => "CLIENT_ERROR automove window too low or too high",
        },
        (Some(b"automove"), Some(level)) => match exact_u32(level) {
            None => Refusal::BAD_FORMAT,
            Some(0..=2) => "OK",
            Some(_) => "ERROR",
        },
        _ => "ERROR",
    }
}

fn lru_crawler(arguments: &[u8]) -> &'static str {
    let mut tokens = Tokens::new(arguments);
    match (tokens.next(), tokens.next()) {
        (Some(b"enable" | b"disable"), None) => "OK",
        (Some(b"crawl" | b"metadump" | b"mgdump"), Some(_)) => "CLIENT_ERROR lru crawler disabled",
        (Some(b"tocrawl"), Some(count)) => exact_u32(count).map_or(Refusal::BAD_FORMAT, |_| "OK"),
        (Some(b"sleep"), Some(time)) => match exact_u32(time) {
            None => Refusal::BAD_FORMAT,
            Some(0..=1_000_000) => "OK",
            Some(_) => "CLIENT_ERROR sleep must be one second or less",
        },
        _ => "ERROR",
    }
}

fn cache_memlimit(arguments: &[u8]) -> &'static str {
    match Tokens::new(arguments).next().and_then(exact_u32) {
        None => "ERROR",
        Some(0..8) => "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
        Some(_) => "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust",
    }
}
