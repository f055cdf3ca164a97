//! What clients do: keys, actions and values, drawn from the run's seed.
//!
//! Must not know: the cluster. Every value is written once in a run, so that comparing values is comparing versions,
//! except on counters, where clients do not swap.

use std::collections::HashMap;

use crate::model::{Action, Value};
use crate::rng::Rng;

/// One thing that a client is about to ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    Key {
        key: Vec<u8>,
        action: Action,
        touches: bool,
    },
    /// Swaps what was read last of the key; nothing was read yet: reads.
    SwapRead {
        key: Vec<u8>,
        new: Value,
    },
    Group {
        pairs: Vec<(Vec<u8>, Value)>,
        only_if_absent: bool,
    },
    Flush,
    /// A flush after so many milliseconds.
    FlushLater {
        delay_ms: u64,
    },
    /// Of a key that is to be given a lifetime, in milliseconds from now.
    Until {
        key: Vec<u8>,
        /// `None`: the value stays.
        value: Option<Value>,
        lifetime_ms: u64,
    },
    Count,
    Scan,
}

#[derive(Debug)]
pub struct Workload {
    rng: Rng,
    plain: Vec<Vec<u8>>,
    counters: Vec<Vec<u8>>,
    /// Keys of one hash slot, which groups take.
    grouped: Vec<Vec<u8>>,
    value_bytes_max: usize,
    large_value_ppm: u32,
    flush_ppm: u32,
    value_next: u64,
    /// Draws beside the others, so that runs without lifetimes are what they are.
    ends: Rng,
    lifetime_ppm: u32,
    delayed_flush_ppm: u32,
}

/// Lifetimes and delays of flushes, in milliseconds: shorter and longer than most faults.
const LIFETIME_MS: std::ops::Range<u64> = 1..300;

/// Longest of the values that are not large, in bytes.
const SMALL_BYTES_MAX: u64 = 60;

/// So many pairs of keys, each pair of one slot and one tag.
pub fn alike_keys(pair_count: usize, tag_of: impl Fn(&[u8]) -> u32) -> Vec<[String; 2]> {
    let mut known: HashMap<u32, String> = HashMap::new();
    let mut pairs = Vec::new();
    for number in 0_u64.. {
        if pairs.len() == pair_count {
            break;
        }
        let key = format!("{{alike}}{number}");
        match known.remove(&tag_of(key.as_bytes())) {
            Some(other) => pairs.push([other, key]),
            None => _ = known.insert(tag_of(key.as_bytes()), key),
        }
    }
    pairs
}

impl Workload {
    pub fn new(rng: Rng, key_count: usize, value_bytes_max: usize, large_value_ppm: u32, flush_ppm: u32) -> Self {
        let named = |prefix: &str, count: usize| (0..count).map(|key| format!("{prefix}{key}").into_bytes()).collect();
        Workload {
            rng,
            plain: named("key", key_count),
            counters: named("counter", key_count.div_ceil(6)),
            grouped: named("{group}", 3),
            value_bytes_max,
            large_value_ppm,
            flush_ppm,
            value_next: 1,
            ends: Rng::new(0),
            lifetime_ppm: 0,
            delayed_flush_ppm: 0,
        }
    }

    /// Some values end by themselves.
    pub fn with_lifetimes(self, ends: Rng, lifetime_ppm: u32, delayed_flush_ppm: u32) -> Self {
        Workload { ends, lifetime_ppm, delayed_flush_ppm, ..self }
    }

    /// Plain keys are these instead.
    pub fn with_keys(self, keys: impl Iterator<Item = String>) -> Self {
        Workload { plain: keys.map(String::into_bytes).collect(), ..self }
    }

    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        [&self.plain, &self.counters, &self.grouped].into_iter().flatten().map(Vec::as_slice)
    }

    /// The next wish of some client.
    pub fn wish(&mut self) -> Wish {
        if self.ends.chance_ppm(self.delayed_flush_ppm) {
            return Wish::FlushLater { delay_ms: self.ends.range(LIFETIME_MS) };
        }
        let wish = self.endless_wish();
        let is_plain = matches!(&wish, Wish::Key { action: Action::Set(_) | Action::Touch, .. });
        if !is_plain || !self.ends.chance_ppm(self.lifetime_ppm) {
            return wish;
        }
        let lifetime_ms = self.ends.range(LIFETIME_MS);
        match wish {
            Wish::Key { key, action: Action::Set(value), .. } => Wish::Until { key, value: Some(value), lifetime_ms },
            Wish::Key { key, .. } => Wish::Until { key, value: None, lifetime_ms },
            other => other,
        }
    }

    fn endless_wish(&mut self) -> Wish {
        if self.rng.chance_ppm(self.flush_ppm) {
            return Wish::Flush;
        }
        match self.rng.below(100) {
            0..3 => self.group(),
            3 => Wish::Count,
            4 => Wish::Scan,
            5..15 => self.count(),
            _ => self.change(),
        }
    }

    fn group(&mut self) -> Wish {
        let only_if_absent = self.rng.chance_ppm(300_000);
        let mut keys = self.grouped.clone();
        self.rng.shuffle(&mut keys);
        keys.truncate(1 + self.rng.index(keys.len()));
        let pairs = keys.into_iter().map(|key| (key, self.small_value())).collect();
        Wish::Group { pairs, only_if_absent }
    }

    fn count(&mut self) -> Wish {
        let key = self.rng.choose(&self.counters).expect("counters").clone();
        let action = match self.rng.below(10) {
            0..5 => Action::Incr(1 + self.rng.below(9)),
            5..7 => Action::IncrOrCreate(1 + self.rng.below(9)),
            7 => Action::Delete,
            8 => Action::Set(Value::number(self.rng.below(1_000_000))),
            _ => Action::Get,
        };
        Wish::Key { key, action, touches: false }
    }

    fn change(&mut self) -> Wish {
        let from = if self.rng.chance_ppm(100_000) { &self.grouped } else { &self.plain };
        // Half of the operations meet on the first two keys.
        let narrow = self.rng.chance_ppm(500_000);
        let key = from[self.rng.index(if narrow { from.len().min(2) } else { from.len() })].clone();
        let action = match self.rng.below(100) {
            0..30 => Action::Get,
            30..35 => return Wish::Key { key, action: Action::Get, touches: true },
            35..60 => Action::Set(self.value()),
            60..68 => Action::Add(self.value()),
            68..75 => Action::Replace(self.value()),
            75..82 => return Wish::SwapRead { key, new: self.value() },
            82..90 => Action::Delete,
            90..93 => Action::Touch,
            93..97 => Action::Append(self.small_value()),
            _ => Action::AppendOrCreate(self.small_value()),
        };
        Wish::Key { key, action, touches: false }
    }

    fn value(&mut self) -> Value {
        if self.rng.chance_ppm(self.large_value_ppm) {
            let length = self.rng.range(SMALL_BYTES_MAX..self.value_bytes_max as u64 + 1);
            return self.value_of(length as usize);
        }
        self.small_value()
    }

    fn small_value(&mut self) -> Value {
        let length = self.rng.below(SMALL_BYTES_MAX);
        self.value_of(length as usize)
    }

    /// A value that was never written, at least as long as its name.
    pub fn value_of(&mut self, length: usize) -> Value {
        let mut bytes = format!("v{:06}.", self.value_next).into_bytes();
        // Not all alike, so that a piece in the wrong place shows.
        let salt = self.value_next;
        self.value_next += 1;
        let named = bytes.len();
        bytes.extend((named..length).map(|at| b'a' + ((at as u64 * 7 + salt * 13 + (at as u64 >> 5)) % 26) as u8));
        Value::bytes(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_value_is_written_twice() {
        let mut workload = Workload::new(Rng::new(1), 5, 4_000, 200_000, 1_000);
        let mut seen = BTreeSet::new();
        for _ in 0..2_000 {
            let values = match workload.wish() {
                Wish::Key { key, action: Action::Set(value) | Action::Add(value) | Action::Replace(value), .. }
                    if key.starts_with(b"key") =>
                {
                    vec![value]
                }
                Wish::SwapRead { new, .. } => vec![new],
                Wish::Group { pairs, .. } => pairs.into_iter().map(|(_, value)| value).collect(),
                _ => Vec::new(),
            };
            assert!(values.into_iter().all(|value| seen.insert(value)));
        }
        assert!(seen.len() > 500);
    }
}
