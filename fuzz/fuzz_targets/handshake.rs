//! Headers of a WebSocket handshake.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tipcast_fuzz::targets::handshake(data));
