//! Headers by which proxies name the client.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tipcast_fuzz::targets::forwarded(data));
