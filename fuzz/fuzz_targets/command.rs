//! Commands of a socket: never panics, and never tells a credential.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tipcast::domain::json;
use tipcast::http::watch::command::{self, Command};

fuzz_target!(|text: &str| {
    match command::parse(text) {
        Ok(Command::Subscribe { feed, .. } | Command::Unsubscribe { feed }) => {
            assert!((1..=64).contains(&feed.to_string().len()));
            assert!(json::syntax(text.as_bytes()).is_ok());
        }
        Ok(told @ Command::Auth { .. }) => {
            assert_eq!(format!("{told:?}"), "Auth { credential: Credential(…) }");
        }
        Err(bad) => assert!(!bad.message.is_empty()),
    }
});
