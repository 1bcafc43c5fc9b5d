//! Short texts in paths, queries and headers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tipcast_fuzz::targets::names(data));
