//! The command table: what exists, how it is called, and who handles it. Dispatch, arity errors and COMMAND read it.
//!
//! Must not know: what commands do.

mod cluster;
mod entries;

pub use entries::COMMANDS;

use super::plan::{Call, Handled};

/// One command, or one subcommand of a container.
#[derive(Debug)]
pub struct CommandSpec {
    /// Lower case; a subcommand is `container|name`.
    pub name: &'static str,
    /// Arguments, the name included; a negative one is a minimum.
    pub arity: i32,
    /// Words, as COMMAND INFO tells them: flags, ACL categories, tips.
    pub flags: &'static str,
    pub categories: &'static str,
    pub tips: &'static str,
    pub keys: Option<KeyRange>,
    /// What is to be said of them; not empty for few commands.
    pub key_notes: &'static str,
    pub since: &'static str,
    pub group: &'static str,
    pub complexity: &'static str,
    pub summary: &'static str,
    pub handler: fn(&mut Call<'_>) -> Handled,
    /// Not empty: a container, whose own handler runs only without a subcommand.
    pub subcommands: &'static [CommandSpec],
}

/// Which arguments are keys.
#[derive(Clone, Copy, Debug)]
pub struct KeyRange {
    pub first: usize,
    /// Negative: counted from the end.
    pub last: i32,
    pub step: usize,
    /// What happens to them, as COMMAND INFO tells it.
    pub access: &'static str,
}

impl CommandSpec {
    const fn new(name: &'static str, arity: i32, handler: fn(&mut Call<'_>) -> Handled) -> Self {
        CommandSpec {
            name,
            arity,
            flags: "",
            categories: "",
            tips: "",
            keys: None,
            key_notes: "",
            since: "",
            group: "",
            complexity: "O(1)",
            summary: "",
            handler,
            subcommands: &[],
        }
    }

    const fn flags(mut self, flags: &'static str) -> Self {
        self.flags = flags;
        self
    }

    const fn categories(mut self, categories: &'static str) -> Self {
        self.categories = categories;
        self
    }

    const fn tips(mut self, tips: &'static str) -> Self {
        self.tips = tips;
        self
    }

    const fn keys(mut self, first: usize, last: i32, step: usize, access: &'static str) -> Self {
        self.keys = Some(KeyRange { first, last, step, access });
        self
    }

    const fn key_notes(mut self, notes: &'static str) -> Self {
        self.key_notes = notes;
        self
    }

    const fn about(
        mut self,
        group: &'static str,
        since: &'static str,
        complexity: &'static str,
        summary: &'static str,
    ) -> Self {
        self.group = group;
        self.since = since;
        self.complexity = complexity;
        self.summary = summary;
        self
    }

    /// Tells it from all other entries; see [`name_of`].
    pub fn number(&'static self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    const fn subcommands(mut self, subcommands: &'static [CommandSpec]) -> Self {
        self.subcommands = subcommands;
        self
    }

    pub fn accepts(&self, argument_count: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { argument_count >= wanted } else { argument_count == wanted }
    }

    pub fn needs_no_authentication(&self) -> bool {
        self.flags.split_whitespace().any(|flag| flag == "no_auth")
    }

    /// The subcommand called `word`, in any case.
    pub fn subcommand(&self, word: &[u8]) -> Option<&'static CommandSpec> {
        let called =
            |name: &str| name.split_once('|').is_some_and(|(_, own)| word.eq_ignore_ascii_case(own.as_bytes()));
        self.subcommands.iter().find(|spec| called(spec.name))
    }
}

/// Buckets of the perfect hash: enough that a seed without collisions is found at once.
const BUCKET_COUNT: usize = 1024;
/// A bucket without a command.
const EMPTY: u8 = u8::MAX;

/// Finds commands by name in one probe; the seed is searched for when this is compiled.
struct Index {
    seed: u32,
    buckets: [u8; BUCKET_COUNT],
}

static INDEX: Index = {
    assert!(COMMANDS.len() < EMPTY as usize, "an index entry is one byte");
    let mut seed = 1;
    loop {
        if let Some(buckets) = fill_buckets(seed) {
            break Index { seed, buckets };
        }
        seed += 1;
    }
};

const fn fill_buckets(seed: u32) -> Option<[u8; BUCKET_COUNT]> {
    let mut buckets = [EMPTY; BUCKET_COUNT];
    let mut index = 0;
    while index < COMMANDS.len() {
        let bucket = bucket_of(COMMANDS[index].name.as_bytes(), seed);
        if buckets[bucket] != EMPTY {
            return None;
        }
        buckets[bucket] = index as u8;
        index += 1;
    }
    Some(buckets)
}

/// Letters hash alike in both cases.
const fn bucket_of(name: &[u8], seed: u32) -> usize {
    let mut hash = seed;
    let mut at = 0;
    while at < name.len() {
        hash = hash.wrapping_mul(0x0100_0193) ^ (name[at] | 0x20) as u32;
        at += 1;
    }
    (hash.wrapping_mul(0x9E37_79B1) >> 22) as usize
}

/// Longer words are no commands; they are not even hashed.
const NAME_BYTES_MAX: usize = 16;

/// The command called `name`, in any case.
pub fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let spec = COMMANDS.get(usize::from(INDEX.buckets[bucket_of(name, INDEX.seed)]))?;
    name.eq_ignore_ascii_case(spec.name.as_bytes()).then_some(spec)
}

/// Every entry, each container before its subcommands.
pub fn all() -> impl Iterator<Item = &'static CommandSpec> {
    COMMANDS.iter().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands))
}

/// What the entry of this number is called; `None` if there is none.
pub fn name_of(number: usize) -> Option<&'static str> {
    all().find(|spec| spec.number() == number).map(|spec| spec.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_both_cases_and_nothing_else() {
        for spec in COMMANDS {
            assert!(spec.name.len() <= NAME_BYTES_MAX);
            for name in [spec.name.to_owned(), spec.name.to_ascii_uppercase()] {
                assert_eq!(find(name.as_bytes()).map(|found| found.name), Some(spec.name));
            }
            for sub in spec.subcommands {
                let own = sub.name.strip_prefix(spec.name).and_then(|rest| rest.strip_prefix('|')).expect("a prefix");
                assert_eq!(spec.subcommand(own.as_bytes()).map(|found| found.name), Some(sub.name));
            }
        }
        for name in ["", "ge", "gett", "lpush", "client|id", "a-name-that-is-far-too-long-for-a-command"] {
            assert!(find(name.as_bytes()).is_none(), "{name}");
        }
    }

    #[test]
    fn the_table_describes_every_command_in_full() {
        for spec in all() {
            assert!(!spec.summary.is_empty() && !spec.since.is_empty() && !spec.group.is_empty(), "{}", spec.name);
            assert!(spec.categories.contains("@fast") != spec.categories.contains("@slow"), "{}", spec.name);
            let writes = spec.flags.split_whitespace().any(|flag| flag == "write");
            assert_eq!(writes, spec.categories.contains("@write"), "{}", spec.name);
        }
    }
}
