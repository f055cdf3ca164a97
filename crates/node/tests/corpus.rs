//! The corpus of the node protocol, fed to a node each.

#[path = "../../../fuzz/feed.rs"]
mod feed;

use feed::feed;

#[test]
fn node_sessions_survive_their_corpus() {
    feed("node", shorttail_node::fuzz::fuzz_session);
}
