#![no_main]
//! A Redis client's connection, told by the bytes.

libfuzzer_sys::fuzz_target!(|data: &[u8]| shorttail_gateway::redis::fuzz::fuzz_session(data));
