#![no_main]
//! An owner's connection to a node, told by the bytes.

libfuzzer_sys::fuzz_target!(|data: &[u8]| shorttail_node::fuzz::fuzz_session(data));
