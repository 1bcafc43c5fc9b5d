//! Headers by which proxies say for whom they ask.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tipcast_fuzz::targets::forwarded(data));
