//! Headers that hold signatures.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tipcast_fuzz::targets::signatures(data));
