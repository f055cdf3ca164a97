//! `stats detail`: counts per key prefix, while an operator wants them.

use std::collections::BTreeMap;

use super::limits::PREFIX_COUNT_MAX;

/// Counts per key prefix: the part of a key before the delimiter (`-D`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrefixStats {
    pub enabled: bool,
    prefixes: BTreeMap<Vec<u8>, PrefixCounts>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PrefixCounts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

impl PrefixStats {
    pub fn count_get(&mut self, key: &[u8], delimiter: u8) {
        self.change(key, delimiter, |counts| counts.gets += 1);
    }

    pub fn count_set(&mut self, key: &[u8], delimiter: u8) {
        self.change(key, delimiter, |counts| counts.sets += 1);
    }

    pub fn count_delete(&mut self, key: &[u8], delimiter: u8) {
        self.change(key, delimiter, |counts| counts.deletes += 1);
    }

    /// Counts the hit that a `VALUE` reply shows.
    pub fn count_hit(&mut self, reply: &[u8], delimiter: u8) {
        let key = reply.strip_prefix(b"VALUE ").and_then(|rest| rest.split(|&byte| byte == b' ').next());
        if let Some(key) = key {
            self.change(key, delimiter, |counts| counts.hits += 1);
        }
    }

    fn change(&mut self, key: &[u8], delimiter: u8, change: impl FnOnce(&mut PrefixCounts)) {
        if !self.enabled {
            return;
        }
        // memcached counts no key without delimiter.
        let Some(length) = memchr::memchr(delimiter, key) else { return };
        if let Some(counts) = self.prefixes.get_mut(&key[..length]) {
            change(counts);
        } else if self.prefixes.len() < PREFIX_COUNT_MAX {
            change(self.prefixes.entry(key[..length].to_vec()).or_default());
        }
    }

    /// What two cores counted together; enabled as this one is.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        for (prefix, counts) in &other.prefixes {
            let own = sum.prefixes.entry(prefix.clone()).or_default();
            own.gets += counts.gets;
            own.hits += counts.hits;
            own.sets += counts.sets;
            own.deletes += counts.deletes;
        }
        sum
    }

    pub fn clear(&mut self) {
        self.prefixes.clear();
    }

    pub fn dump(&self) -> Vec<u8> {
        let mut dump = Vec::new();
        for (prefix, counts) in &self.prefixes {
            dump.extend_from_slice(b"PREFIX ");
            dump.extend_from_slice(prefix);
            let PrefixCounts { gets, hits, sets, deletes } = counts;
            dump.extend_from_slice(format!(" get {gets} hit {hits} set {sets} del {deletes}\r\n").as_bytes());
        }
        dump.extend_from_slice(b"END\r\n");
        dump
    }
}
