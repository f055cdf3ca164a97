#![no_main]
//! One side of a control connection, told by the bytes.

libfuzzer_sys::fuzz_target!(|data: &[u8]| shorttail_wire::control::fuzz::fuzz_messages(data));
