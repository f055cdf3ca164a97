//! What a machine could rebuild at best: chunks arrive over loopback TCP, `k` for each lost one, are decoded, and the
//! result is copied to its place.
//!
//! One thread sends, one receives, decodes and copies, as many sources as the code needs: no requests, no checksums,
//! nobody else. Sources and results lie in more memory than caches hold, as those of nodes do.
//!
//! Results go to memory that is there already, so nothing is taken from the system: what no repair does. Or to new
//! memory, in the cheapest way that there is: written to a file in memory, the kernel takes pages and clears none.
//!
//! The same work beside a load, at a given pace and in the lowest scheduling class, says what any repair at that rate
//! does to clients on this machine: see [`Estimator::beside`].

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;
use shorttail_codes::{Code, Plan};

use crate::scheduling::enter_lowest_class;

/// Payload bytes of a packed chunk.
const CHUNK_BYTES: usize = 65_280;

/// Of each source, and of what is rebuilt; chunks beyond them lie where the first ones do.
const CHUNKS_IN_MEMORY: u64 = 4096;

/// The estimate and what it rests on.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Loopback {
    pub sources: usize,
    pub bytes: u64,
    pub seconds: f64,
    /// Of rebuilt chunks.
    pub mb_per_s: f64,
}

/// Memory that the estimate's work is done in.
pub struct Estimator {
    plan: Arc<Plan>,
    /// Chunks of each source, one behind the other.
    sources: Vec<Vec<u8>>,
    rebuilt: Vec<u8>,
}

/// Where results go.
enum Results<'a> {
    There(&'a mut [u8]),
    New(File),
}

impl Results<'_> {
    fn put(&mut self, chunk: u64, decoded: &[u8]) -> anyhow::Result<()> {
        match self {
            Results::There(memory) => {
                let place = place_of(chunk, memory);
                memory[place].copy_from_slice(decoded);
                Ok(())
            }
            Results::New(file) => file.write_all(decoded).context("no memory for what is rebuilt"),
        }
    }
}

impl Estimator {
    /// For `bytes` of chunks, of stripes whose first data chunk is lost.
    ///
    /// # Errors
    /// The code cannot do without a chunk.
    pub fn new(code: &Code, bytes: u64) -> anyhow::Result<Self> {
        let plan = code.read_plan(0, &|chunk| chunk != 0).context("the code tolerates no loss")?;
        let sources = plan.sources.iter().map(|_| memory(bytes)).collect();
        Ok(Estimator { plan, sources, rebuilt: memory(bytes) })
    }

    /// Rebuilds so many bytes as fast as it goes.
    ///
    /// # Errors
    /// The loopback fails.
    pub fn measure(&mut self, bytes: u64) -> anyhow::Result<Loopback> {
        self.rebuild(bytes, false, None)
    }

    /// The same, into new memory.
    ///
    /// # Errors
    /// The loopback fails, or there is no memory.
    pub fn measure_into_new(&mut self, bytes: u64) -> anyhow::Result<Loopback> {
        self.rebuild(bytes, true, None)
    }

    /// Rebuilds so many MB in each of `seconds`, while nothing else wants the processors.
    ///
    /// # Errors
    /// The loopback fails.
    pub fn beside(&mut self, mb_per_s: f64, seconds: f64) -> anyhow::Result<Loopback> {
        let per_chunk = Duration::from_secs_f64(CHUNK_BYTES as f64 / 1e6 / mb_per_s);
        self.rebuild((mb_per_s * seconds * 1e6) as u64, false, Some(per_chunk))
    }

    /// `per_chunk`: a chunk begins so long after the one before, and the threads are in the lowest class.
    fn rebuild(&mut self, bytes: u64, into_new: bool, per_chunk: Option<Duration>) -> anyhow::Result<Loopback> {
        let count = chunks_of(bytes);
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
        let address = listener.local_addr()?;
        let Estimator { plan, sources, rebuilt } = self;
        let mut results = if into_new { Results::New(new_memory()?) } else { Results::There(rebuilt) };
        let started = Instant::now();
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| send(address, sources, count, per_chunk));
            receive(&listener, plan, &mut results, count, per_chunk.is_some())?;
            sender.join().expect("the sender panicked")
        })?;
        let (seconds, bytes) = (started.elapsed().as_secs_f64(), count * CHUNK_BYTES as u64);
        if let Results::There(memory) = results {
            std::hint::black_box(memory);
        }
        Ok(Loopback { sources: self.sources.len(), bytes, seconds, mb_per_s: bytes as f64 / 1e6 / seconds })
    }
}

fn chunks_of(bytes: u64) -> u64 {
    (bytes / CHUNK_BYTES as u64).max(1)
}

/// For so many bytes of chunks, or as many as are kept; all of it was written to, so it is there.
fn memory(bytes: u64) -> Vec<u8> {
    let length = chunks_of(bytes).min(CHUNKS_IN_MEMORY) as usize * CHUNK_BYTES;
    (0..length).map(|at| (at % 251) as u8).collect()
}

/// A file in memory without a page yet.
fn new_memory() -> anyhow::Result<File> {
    Ok(memfd_create("shorttail-bench-rebuilt", MemfdFlags::CLOEXEC).context("cannot make a file in memory")?.into())
}

/// Where a chunk lies in its memory.
fn place_of(chunk: u64, memory: &[u8]) -> Range<usize> {
    let first = chunk as usize % (memory.len() / CHUNK_BYTES) * CHUNK_BYTES;
    first..first + CHUNK_BYTES
}

fn send(address: SocketAddr, sources: &[Vec<u8>], count: u64, per_chunk: Option<Duration>) -> anyhow::Result<()> {
    if per_chunk.is_some() {
        enter_lowest_class()?;
    }
    let connect = |_| TcpStream::connect(address).context("cannot connect");
    let mut streams = sources.iter().map(connect).collect::<anyhow::Result<Vec<_>>>()?;
    let mut due = Instant::now();
    for chunk in 0..count {
        if let Some(per_chunk) = per_chunk {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            due += per_chunk;
        }
        for (stream, source) in streams.iter_mut().zip(sources) {
            stream.write_all(&source[place_of(chunk, source)]).context("the loopback broke")?;
        }
    }
    Ok(())
}

fn receive(
    listener: &TcpListener,
    plan: &Plan,
    results: &mut Results<'_>,
    count: u64,
    in_lowest_class: bool,
) -> anyhow::Result<()> {
    let mut streams = Vec::new();
    for _ in &plan.sources {
        streams.push(listener.accept().context("nobody connects")?.0);
    }
    if in_lowest_class {
        enter_lowest_class()?;
    }
    let mut parts = vec![vec![0u8; CHUNK_BYTES]; streams.len()];
    let mut decoded = vec![0; CHUNK_BYTES];
    for chunk in 0..count {
        for (stream, part) in streams.iter_mut().zip(&mut parts) {
            stream.read_exact(part).context("the loopback broke")?;
        }
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        plan.decode(&parts, &mut decoded);
        results.put(chunk, &decoded)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_chunks_are_decoded_as_asked() {
        let code = Code::parse("rs:4+2").expect("a code");
        let bytes = 10 * CHUNK_BYTES as u64;
        let mut estimator = Estimator::new(&code, bytes).expect("a loss is tolerated");
        assert_eq!(estimator.rebuilt.len() as u64, bytes);
        let estimate = estimator.measure(bytes).expect("a loopback");
        assert_eq!((estimate.sources, estimate.bytes), (4, bytes));
        assert!(estimate.mb_per_s > 0.0);
        let estimate = estimator.measure_into_new(bytes).expect("a loopback, and memory");
        assert_eq!((estimate.sources, estimate.bytes), (4, bytes));
        assert!(Estimator::new(&Code::parse("rs:3+0").expect("a code"), 1).is_err());
    }

    #[test]
    fn chunks_beyond_the_memory_lie_where_the_first_ones_do() {
        let memory = memory(3 * CHUNK_BYTES as u64);
        let firsts = [0, 2, 3, 7].map(|chunk| place_of(chunk, &memory).start / CHUNK_BYTES);
        assert_eq!(firsts, [0, 2, 0, 1]);
    }

    #[test]
    fn beside_a_load_it_keeps_its_pace() {
        let code = Code::parse("rs:4+2").expect("a code");
        // A thread of its own: it stays in the lowest class.
        let pace = || Estimator::new(&code, 1).and_then(|mut estimator| estimator.beside(1.0, 0.5));
        let paced = std::thread::scope(|scope| scope.spawn(pace).join()).expect("no panic").expect("a loopback");
        assert_eq!(paced.bytes, 7 * CHUNK_BYTES as u64);
        // The first chunk is not waited for.
        assert!(paced.seconds >= 6.0 * CHUNK_BYTES as f64 / 1e6, "{paced:?}");
    }
}
