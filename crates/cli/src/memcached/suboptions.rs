//! `-o`: a comma-separated list of memcached's extended options.
//!
//! Nearly all of them tune a slab allocator and an LRU that are not there: they are checked for form, accepted, and
//! reported by `stats settings` as they were given.

use super::{EX_USAGE, EXIT_FAILURE, Refusal};

/// What the list asked for.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Suboptions {
    pub idle_timeout_s: Option<u64>,
    /// Names as in `stats settings`, and values.
    pub reported: Vec<(&'static str, String)>,
    pub notes: Vec<String>,
}

/// What follows the name of a suboption.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// Nothing; reported as this value.
    Word(&'static str),
    /// A number within these limits.
    Number(i64, i64),
    /// A number, or nothing for 1.
    NumberOrOne(i64, i64),
    Fraction,
    Text,
}

/// Name, form, and name in `stats settings` ("" if it has none).
const KNOWN: [(&str, Form, &str); 39] = [
    ("maxconns_fast", Form::Word("yes"), "maxconns_fast"),
    ("no_maxconns_fast", Form::Word("no"), "maxconns_fast"),
    ("hashpower", Form::Number(12, 32), "hashpower_init"),
    ("no_hashexpand", Form::Word(""), ""),
    ("slab_reassign", Form::Word("yes"), "slab_reassign"),
    ("no_slab_reassign", Form::Word("no"), "slab_reassign"),
    ("slab_automove", Form::NumberOrOne(0, 2), "slab_automove"),
    ("no_slab_automove", Form::Word("0"), "slab_automove"),
    ("slab_automove_ratio", Form::Fraction, "slab_automove_ratio"),
    ("slab_automove_window", Form::Number(3, 1800), "slab_automove_window"),
    ("tail_repair_time", Form::Number(10, i64::MAX), "tail_repair_time"),
    ("hash_algorithm", Form::Text, "hash_algorithm"),
    ("lru_crawler", Form::Word("yes"), "lru_crawler"),
    ("no_lru_crawler", Form::Word("no"), "lru_crawler"),
    ("lru_crawler_sleep", Form::Number(0, 1_000_000), "lru_crawler_sleep"),
    ("lru_crawler_tocrawl", Form::Number(0, u32::MAX as i64), "lru_crawler_tocrawl"),
    ("lru_maintainer", Form::Word("yes"), "lru_maintainer_thread"),
    ("no_lru_maintainer", Form::Word("no"), "lru_maintainer_thread"),
    ("hot_lru_pct", Form::Number(1, 79), "hot_lru_pct"),
    ("warm_lru_pct", Form::Number(1, 79), "warm_lru_pct"),
    ("hot_max_factor", Form::Fraction, "hot_max_factor"),
    ("warm_max_factor", Form::Fraction, "warm_max_factor"),
    ("temporary_ttl", Form::Number(0, u32::MAX as i64), "temporary_ttl"),
    ("idle_timeout", Form::Number(0, u32::MAX as i64), ""),
    ("watcher_logbuf_size", Form::Number(0, u32::MAX as i64), "watcher_logbuf_size"),
    ("worker_logbuf_size", Form::Number(0, u32::MAX as i64), "worker_logbuf_size"),
    ("slab_sizes", Form::Text, ""),
    ("slab_chunk_max", Form::Number(1, 1024), ""),
    ("track_sizes", Form::Word("yes"), "track_sizes"),
    ("inline_ascii_resp", Form::Word("yes"), "inline_ascii_response"),
    ("no_inline_ascii_resp", Form::Word("no"), "inline_ascii_response"),
    ("no_chunked_items", Form::Word(""), ""),
    ("modern", Form::Word(""), ""),
    ("no_modern", Form::Word(""), ""),
    ("drop_privileges", Form::Word("yes"), "drop_privileges"),
    ("no_drop_privileges", Form::Word("no"), "drop_privileges"),
    ("relaxed_privileges", Form::Word(""), ""),
    ("resp_obj_mem_limit", Form::Number(0, u32::MAX as i64), "resp_obj_mem_limit"),
    ("read_buf_mem_limit", Form::Number(0, u32::MAX as i64), "read_buf_mem_limit"),
];

/// Beginnings of suboptions of features that are not here.
const ABSENT: [(&str, &str); 4] = [
    ("ssl_", "TLS is not supported by this server"),
    ("ext_", "external storage is not supported by this server"),
    ("proxy_", "the proxy is not supported by this server"),
    ("sock_cookie_id", "socket cookies are not supported by this server"),
];

impl Suboptions {
    /// Takes one list.
    ///
    /// # Errors
    /// For what is unknown, malformed, or cannot be honoured.
    pub fn take(&mut self, list: &str) -> Result<(), Refusal> {
        list.split(',').filter(|item| !item.is_empty()).try_for_each(|item| self.take_one(item))
    }

    fn take_one(&mut self, item: &str) -> Result<(), Refusal> {
        let (name, value) = match item.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (item, None),
        };
        if let Some((_, why)) = ABSENT.iter().find(|(beginning, _)| name.starts_with(beginning)) {
            return Err(Refusal::new(EX_USAGE, format!("-o {name}: {why}")));
        }
        let known = KNOWN.iter().find(|(known, _, _)| *known == name);
        let Some(&(name, form, setting)) = known else {
            return Err(Refusal::new(EXIT_FAILURE, format!("Illegal suboption \"{item}\"")));
        };
        let reported = check(name, form, value)?;
        if name == "idle_timeout" {
            self.idle_timeout_s = reported.parse().ok();
            return Ok(());
        }
        if !setting.is_empty() {
            self.reported.push((setting, reported));
        }
        self.notes.push(format!("-o {item}: accepted; it has no meaning for this server"));
        Ok(())
    }
}

/// The value as it is reported.
fn check(name: &str, form: Form, value: Option<&str>) -> Result<String, Refusal> {
    let refuse = |message: String| Refusal::new(EXIT_FAILURE, message);
    let needed = || value.ok_or_else(|| refuse(format!("Missing argument for {name}")));
    let number = |text: &str, least: i64, most: i64| {
        let number = text.parse::<i64>().ok().filter(|number| (least..=most).contains(number));
        number.map(|number| number.to_string()).ok_or_else(|| refuse(format!("{name} must be {least} to {most}")))
    };
    match form {
        Form::Word(word) => Ok(word.to_owned()),
        Form::Number(least, most) => number(needed()?, least, most),
        Form::NumberOrOne(least, most) => number(value.unwrap_or("1"), least, most),
        Form::Fraction => {
            let fraction = needed()?.parse::<f64>().ok().filter(|fraction| *fraction > 0.0 && fraction.is_finite());
            fraction.map(|fraction| format!("{fraction:.2}")).ok_or_else(|| refuse(format!("{name} must be > 0")))
        }
        Form::Text if name == "hash_algorithm" => match needed()? {
            algorithm @ ("jenkins" | "murmur3" | "xxh3") => Ok(algorithm.to_owned()),
            _ => Err(refuse("Unknown hash_algorithm option (jenkins, murmur3, xxh3)".to_owned())),
        },
        Form::Text => needed().map(str::to_owned),
    }
}
