//! Requests to a block device, replayed on a store of objects.
//!
//! ```text
//! offset, size of a request          operation
//! read   at 12 MiB, 64 KiB     ->    get key(12 MiB)
//! write  at 12 MiB,  8 KiB     ->    set key(12 MiB), value of 8 KiB      the next get of this key reads 8 KiB
//! ```
//!
//! The aligned address at which a request begins is a key, its size the size of the value. Deviation: a device knows
//! that extents overlap, a store of objects does not; a read gets what was written last under its own address, however
//! long the trace says it was. [`Summary`] says what that makes of the sizes. Before the replay every key is set once,
//! in the size of its first request. At its end a trace begins again.
//!
//! Must not know: files' formats (`cloudphysics`, `msr`), time: a replay has its own pace.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::limits::{KEYS_MAX, VALUE_BYTES_MAX};

mod cloudphysics;
mod file;
mod msr;
mod options;
mod usr1;

pub use file::read_trace;
pub use options::TraceOptions;

/// A request as a trace file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    pub offset_bytes: u64,
    pub bytes: u32,
    pub is_read: bool,
}

/// A request as it is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Keys are numbered in the order in which they occur.
    pub key: u32,
    pub is_read: bool,
}

/// A whole trace; it has at least one request.
#[derive(Clone, Debug)]
pub struct Trace {
    pub accesses: Vec<Access>,
    pub summary: Summary,
    /// Sizes of key `i` are `sizes[starts[i]..starts[i + 1]]`: of its first request, then of its writes in turn.
    starts: Vec<usize>,
    sizes: Vec<u32>,
}

/// What a trace is like, in the file and as it is replayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub name: String,
    /// Made by rule, not recorded.
    pub is_synthetic: bool,
    pub requests: u64,
    pub keys: u32,
    /// Of all keys before the replay.
    pub bytes_stored: u64,
    pub read_share: f64,
    pub read_bytes_mean: f64,
    pub write_bytes_mean: f64,
    /// Of what reads get in the first pass; smaller or larger than in the file where a write changed the size.
    pub read_bytes_mean_replayed: f64,
}

/// Why a trace was refused.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum TraceError {
    #[error("the trace has no requests")]
    Empty,
    #[error("a request of {bytes} bytes is larger than the {VALUE_BYTES_MAX} that a value may have")]
    TooLarge { bytes: u32 },
    #[error("the trace touches more than {KEYS_MAX} blocks")]
    TooManyKeys,
}

impl Trace {
    /// Gathers requests; blocks are `align` bytes apart. Requests of no bytes are left out.
    ///
    /// # Errors
    /// There is nothing in it, or too much.
    pub fn new(name: &str, requests: &[BlockRequest], align: u64) -> Result<Self, TraceError> {
        let mut keys: HashMap<u64, u32> = HashMap::new();
        let mut sizes_of: Vec<Vec<u32>> = Vec::new();
        let mut accesses = Vec::with_capacity(requests.len());
        for request in requests.iter().filter(|request| request.bytes > 0) {
            if request.bytes as usize > VALUE_BYTES_MAX {
                return Err(TraceError::TooLarge { bytes: request.bytes });
            }
            let next = u32::try_from(keys.len()).ok().filter(|&next| next < KEYS_MAX).ok_or(TraceError::TooManyKeys)?;
            let key = *keys.entry(request.offset_bytes / align.max(1)).or_insert(next);
            if key == next {
                sizes_of.push(vec![request.bytes]);
            }
            if !request.is_read {
                sizes_of[key as usize].push(request.bytes);
            }
            accesses.push(Access { key, is_read: request.is_read });
        }
        if accesses.is_empty() {
            return Err(TraceError::Empty);
        }
        let starts = std::iter::once(0).chain(sizes_of.iter().scan(0, |end, sizes| {
            *end += sizes.len();
            Some(*end)
        }));
        let starts = starts.collect();
        let mut trace = Trace { accesses, summary: Summary::default(), starts, sizes: sizes_of.concat() };
        trace.summary = trace.summarise(name, requests);
        Ok(trace)
    }

    pub fn key_count(&self) -> u32 {
        self.summary.keys
    }

    pub fn largest(&self) -> usize {
        self.sizes.iter().copied().max().unwrap_or(0) as usize
    }

    /// Size of the value of a key's `version`: 1 is what was set before the replay, then the trace's writes in
    /// turn, over and over.
    pub fn value_size(&self, key: u32, version: u32) -> usize {
        let sizes = &self.sizes[self.starts[key as usize]..self.starts[key as usize + 1]];
        let size = match (version, sizes) {
            (0 | 1, _) | (_, [_]) => sizes[0],
            (_, [_, writes @ ..]) => writes[(version as usize - 2) % writes.len()],
            (_, []) => 0,
        };
        size as usize
    }

    fn summarise(&self, name: &str, requests: &[BlockRequest]) -> Summary {
        let mean = |is_read: bool| {
            let sizes = requests.iter().filter(|one| one.is_read == is_read && one.bytes > 0).map(|one| one.bytes);
            let (count, sum) = sizes.fold((0u64, 0u64), |(count, sum), bytes| (count + 1, sum + u64::from(bytes)));
            (count, sum as f64 / count.max(1) as f64)
        };
        let (reads, read_bytes_mean) = mean(true);
        let mut versions = vec![1u32; self.starts.len() - 1];
        let mut read_bytes = 0u64;
        for access in &self.accesses {
            let version = &mut versions[access.key as usize];
            if access.is_read {
                read_bytes += self.value_size(access.key, *version) as u64;
            } else {
                *version += 1;
            }
        }
        let keys = u32::try_from(versions.len()).expect("counted as a u32");
        Summary {
            name: name.to_owned(),
            is_synthetic: false,
            requests: self.accesses.len() as u64,
            keys,
            bytes_stored: (0..keys).map(|key| self.value_size(key, 1) as u64).sum(),
            read_share: reads as f64 / self.accesses.len() as f64,
            read_bytes_mean,
            write_bytes_mean: mean(false).1,
            read_bytes_mean_replayed: read_bytes as f64 / reads.max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: char, offset_bytes: u64, bytes: u32) -> BlockRequest {
        BlockRequest { offset_bytes, bytes, is_read: kind == 'r' }
    }

    #[test]
    fn a_block_is_a_key_and_its_writes_give_the_sizes() {
        let requests = [
            request('r', 8192, 100),
            request('w', 0, 7),
            request('w', 8200, 300),
            request('r', 8192, 100),
            request('w', 8192, 50),
            request('r', 0, 9),
            request('w', 1, 0),
        ];
        let trace = Trace::new("t", &requests, 4096).expect("good");
        let keys: Vec<u32> = trace.accesses.iter().map(|access| access.key).collect();
        assert_eq!(keys, [0, 1, 0, 0, 0, 1]);
        assert_eq!([1, 2, 3, 4, 5].map(|version| trace.value_size(0, version)), [100, 300, 50, 300, 50]);
        assert_eq!([1, 2, 3].map(|version| trace.value_size(1, version)), [7, 7, 7]);
        let summary = &trace.summary;
        assert_eq!((summary.keys, summary.bytes_stored, summary.read_share), (2, 107, 0.5));
        // The second read of block 2 gets the 300 bytes that the trace wrote, that of block 0 gets 7.
        assert_eq!(summary.read_bytes_mean, 209.0 / 3.0);
        assert_eq!(summary.read_bytes_mean_replayed, 407.0 / 3.0);
        assert_eq!((summary.write_bytes_mean, trace.largest()), (119.0, 300));
    }

    #[test]
    fn nothing_and_too_much_are_refused() {
        assert_eq!(Trace::new("t", &[request('r', 0, 0)], 1).expect_err("nothing"), TraceError::Empty);
        let too_large = Trace::new("t", &[request('r', 0, u32::MAX)], 1).expect_err("too large");
        assert_eq!(too_large, TraceError::TooLarge { bytes: u32::MAX });
    }
}
