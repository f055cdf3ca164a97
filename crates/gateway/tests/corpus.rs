//! The corpora of the client protocols, fed to a session each.

#[path = "../../../fuzz/feed.rs"]
mod feed;

use feed::feed;

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
