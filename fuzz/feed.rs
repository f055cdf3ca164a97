//! A corpus, fed to the entry of its fuzz target without any fuzzer: each file is one input, found by hand or by a
//! campaign, that once reached something new. Crates include this file in their tests.

use std::fs;
use std::path::Path;

/// A corpus is kept small, so that everybody runs all of it.
const FILE_COUNT_MAX: usize = 200;
const CORPUS_BYTES_MAX: usize = 300 * 1024;

pub fn feed(target: &str, entry: fn(&[u8])) {
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
