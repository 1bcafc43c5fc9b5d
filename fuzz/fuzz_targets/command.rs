//! Commands of a socket with many feeds: never panics, and a socket of one feed takes none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tipcast::domain::json;
use tipcast::http::watch::command::{self, Command};

fuzz_target!(|text: &str| {
    assert!(command::parse(text, false).is_err());
    match command::parse(text, true) {
        Ok(Command::Subscribe { feed, .. } | Command::Unsubscribe { feed }) => {
            assert!((1..=64).contains(&feed.to_string().len()));
            assert!(json::syntax(text.as_bytes()).is_ok());
        }
        Err(why) => assert!(!why.is_empty()),
    }
});
