//! The corpora of the client protocols, fed to a session each.
//!
//! Without any fuzzer: each file is one input, found by hand or by a campaign, that once reached something new.

use std::fs;
use std::path::Path;

/// A corpus is kept small, so that everybody runs all of it.
const FILE_COUNT_MAX: usize = 200;
const CORPUS_BYTES_MAX: usize = 300 * 1024;

fn feed(target: &str, entry: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = files.map(|file| file.expect("a readable corpus").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", directory.display());
    assert!(paths.len() < FILE_COUNT_MAX, "{} has {} files", directory.display(), paths.len());
    let mut corpus_bytes = 0;
    for path in paths {
        let data = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        corpus_bytes += data.len();
        // The harness shows this when the entry panics.
        println!("{}", path.display());
        entry(&data);
    }
    assert!(corpus_bytes < CORPUS_BYTES_MAX, "{} has {corpus_bytes} bytes", directory.display());
}

#[test]
fn memcached_sessions_survive_their_corpus() {
    feed("memcached", shorttail_gateway::memcached::fuzz::fuzz_session);
}

#[test]
fn redis_sessions_survive_their_corpus() {
    feed("redis", shorttail_gateway::redis::fuzz::fuzz_session);
}

#[test]
fn frames_between_gateways_survive_their_corpus() {
    feed("gateway", shorttail_gateway::forward::fuzz_frames);
}
