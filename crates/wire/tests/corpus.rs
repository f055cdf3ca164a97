//! The corpus of the control protocol, fed to its parser.

#[path = "../../../fuzz/feed.rs"]
mod feed;

use feed::feed;

#[test]
fn control_messages_survive_their_corpus() {
    feed("control", shorttail_wire::control::fuzz::fuzz_messages);
}
