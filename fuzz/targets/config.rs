#![no_main]
//! A configuration file, told by the bytes.

libfuzzer_sys::fuzz_target!(|text: &str| shorttail_server::config::fuzz::fuzz_config(text));
