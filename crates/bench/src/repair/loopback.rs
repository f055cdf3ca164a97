//! What a machine could rebuild at best: chunks arrive over loopback TCP, `k` for each lost one, are decoded, and the
//! result is copied to its place.
//!
//! One thread sends, one receives, decodes and copies, as many sources as the code needs: no requests, no checksums, no
//! memory management, nobody else.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use shorttail_codes::Code;

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

/// Rebuilds `bytes` of chunks, the first data chunk of each stripe.
///
/// # Errors
/// The code cannot do without a chunk, or the loopback fails.
pub fn measure(code: &Code, bytes: u64) -> anyhow::Result<Loopback> {
    let plan = code.read_plan(0, &|chunk| chunk != 0).context("the code tolerates no loss")?;
    let (sources, count) = (plan.sources.len(), (bytes / CHUNK_BYTES as u64).max(1));
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
    let address = listener.local_addr()?;
    let sender = std::thread::spawn(move || send(address, sources, count));
    let mut streams = Vec::new();
    for _ in 0..sources {
        streams.push(listener.accept().context("nobody connects")?.0);
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

fn send(address: std::net::SocketAddr, sources: usize, count: u64) -> anyhow::Result<()> {
    let connect = |_| TcpStream::connect(address).context("cannot connect");
    let mut streams = (0..sources).map(connect).collect::<anyhow::Result<Vec<_>>>()?;
    let chunk: Vec<u8> = (0..CHUNK_BYTES).map(|at| (at % 251) as u8).collect();
    for _ in 0..count {
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
}
