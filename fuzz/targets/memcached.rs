#![no_main]
//! A memcached client's connection, told by the bytes.

libfuzzer_sys::fuzz_target!(|data: &[u8]| shorttail_gateway::memcached::fuzz::fuzz_session(data));
