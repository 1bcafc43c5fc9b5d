//! `tipcast listen` and `tipcast trigger` as developers run them: the program itself against a gateway.

mod listen;
mod trigger;

use serde_json::Value;

use crate::support::process::Process;

/// The program with these words behind its name, against this gateway.
fn command(words: &[&str], url: &str) -> Vec<String> {
    words.iter().chain(&["--feed", "show", "--url", url]).map(|word| (*word).to_owned()).collect()
}

/// The lines of JSON among what a program wrote.
fn entries(said: &str) -> Vec<Value> {
    said.lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Waits until the program has printed entries of these gifts, in this order.
fn wait_for_gifts(process: &Process, wanted: &[&str]) {
    let deadline = std::time::Instant::now() + 3 * crate::support::case::PATIENCE;
    loop {
        let said = process.said();
        let printed = entries(&said);
        let ids: Vec<&str> = printed.iter().filter_map(|entry| entry["gift"]["id"].as_str()).collect();
        if ids == wanted {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{wanted:?}:\n{said}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
