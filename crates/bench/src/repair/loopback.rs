//! What a machine could rebuild at best: chunks arrive over loopback TCP, `k` for each lost one, are decoded, and the
//! result is copied to its place.
//!
//! One thread sends, one receives, decodes and copies, as many sources as the code needs: no requests, no checksums, no
//! memory management, nobody else.
//!
//! The same work beside a load, at a given pace and in the lowest scheduling class, says what any repair at that rate does
//! to clients on this machine: see [`beside`].

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use shorttail_codes::Code;

use crate::scheduling::enter_lowest_class;

/// Payload bytes of a packed chunk.
const CHUNK_BYTES: usize = 65_280;

/// The estimate and what it rests on.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Loopback {
    pub sources: usize,
    pub bytes: u64,
    pub seconds: f64,
    /// Of rebuilt chunks.
    pub mb_per_s: f64,
}

/// Rebuilds `bytes` of chunks, the first data chunk of each stripe, as fast as it goes.
///
/// # Errors
/// The code cannot do without a chunk, or the loopback fails.
pub fn measure(code: &Code, bytes: u64) -> anyhow::Result<Loopback> {
    rebuild(code, bytes, None)
}

/// Rebuilds so many MB in each of `seconds`, while nothing else wants the processors.
///
/// # Errors
/// As [`measure`].
pub fn beside(code: &Code, mb_per_s: f64, seconds: f64) -> anyhow::Result<Loopback> {
    let per_chunk = Duration::from_secs_f64(CHUNK_BYTES as f64 / 1e6 / mb_per_s);
    rebuild(code, (mb_per_s * seconds * 1e6) as u64, Some(per_chunk))
}

/// `per_chunk`: a chunk begins so long after the one before, and the threads are in the lowest class.
fn rebuild(code: &Code, bytes: u64, per_chunk: Option<Duration>) -> anyhow::Result<Loopback> {
    let plan = code.read_plan(0, &|chunk| chunk != 0).context("the code tolerates no loss")?;
    let (sources, count) = (plan.sources.len(), (bytes / CHUNK_BYTES as u64).max(1));
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
    let address = listener.local_addr()?;
    let sender = std::thread::spawn(move || send(address, sources, count, per_chunk));
    let mut streams = Vec::new();
    for _ in 0..sources {
        streams.push(listener.accept().context("nobody connects")?.0);
    }
    if per_chunk.is_some() {
        enter_lowest_class()?;
    }
    let mut parts = vec![vec![0u8; CHUNK_BYTES]; sources];
    let (mut decoded, mut place) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let started = Instant::now();
    for _ in 0..count {
        for (stream, part) in streams.iter_mut().zip(&mut parts) {
            stream.read_exact(part).context("the loopback broke")?;
        }
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        plan.decode(&parts, &mut decoded);
        place.copy_from_slice(&decoded);
        std::hint::black_box(&place);
    }
    let seconds = started.elapsed().as_secs_f64();
    sender.join().expect("the sender panicked")?;
    let bytes = count * CHUNK_BYTES as u64;
    Ok(Loopback { sources, bytes, seconds, mb_per_s: bytes as f64 / 1e6 / seconds })
}

fn send(address: std::net::SocketAddr, sources: usize, count: u64, per_chunk: Option<Duration>) -> anyhow::Result<()> {
    if per_chunk.is_some() {
        enter_lowest_class()?;
    }
    let connect = |_| TcpStream::connect(address).context("cannot connect");
    let mut streams = (0..sources).map(connect).collect::<anyhow::Result<Vec<_>>>()?;
    let chunk: Vec<u8> = (0..CHUNK_BYTES).map(|at| (at % 251) as u8).collect();
    let mut due = Instant::now();
    for _ in 0..count {
        if let Some(per_chunk) = per_chunk {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            due += per_chunk;
        }
        for stream in &mut streams {
            stream.write_all(&chunk).context("the loopback broke")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_chunks_are_decoded_as_asked() {
        let code = Code::parse("rs:4+2").expect("a code");
        let estimate = measure(&code, 10 * CHUNK_BYTES as u64).expect("a loopback");
        assert_eq!((estimate.sources, estimate.bytes), (4, 10 * CHUNK_BYTES as u64));
        assert!(estimate.mb_per_s > 0.0);
        assert!(measure(&Code::parse("rs:3+0").expect("a code"), 1).is_err());
    }

    #[test]
    fn beside_a_load_it_keeps_its_pace() {
        let code = Code::parse("rs:4+2").expect("a code");
        // A thread of its own: it stays in the lowest class.
        let paced = std::thread::spawn(move || beside(&code, 1.0, 0.5)).join().expect("no panic").expect("a loopback");
        assert_eq!(paced.bytes, 7 * CHUNK_BYTES as u64);
        // The first chunk is not waited for.
        assert!(paced.seconds >= 6.0 * CHUNK_BYTES as f64 / 1e6, "{paced:?}");
    }
}
