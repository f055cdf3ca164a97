#![no_main]
//! One side of a connection between gateways, told by the bytes.

libfuzzer_sys::fuzz_target!(|data: &[u8]| shorttail_gateway::forward::fuzz_frames(data));
