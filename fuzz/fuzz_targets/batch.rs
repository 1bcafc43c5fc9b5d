//! Batches of gifts.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tipcast_fuzz::targets::batch(data));
