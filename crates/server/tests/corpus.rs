//! The corpus of the configuration file, read as one each.

#[path = "../../../fuzz/feed.rs"]
mod feed;

use feed::feed;

/// The target is fed with texts only; so is this.
fn config(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        shorttail_server::config::fuzz::fuzz_config(text);
    }
}

#[test]
fn config_files_survive_their_corpus() {
    feed("config", config);
}
