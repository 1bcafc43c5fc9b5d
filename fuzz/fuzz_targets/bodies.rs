//! Bodies of the API but for gifts.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tipcast_fuzz::targets::bodies(data));
