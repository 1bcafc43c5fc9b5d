//! Faults that tests inject: a build without the feature `faults`, which only tests switch on, has none.
//!
//! In a test build, the environment variable `TIPCAST_FAULTS` names a folder. A file in it whose name is
//! that of a point in the code says what happens there next: `panic` (once; the file is renamed to
//! `NAME.struck`), `stall MS` (once, for the next that passes), or `fail` (until the file is gone). The file
//! `clock` sets the clock, see `domain::Millis::now`.

#[cfg(feature = "faults")]
mod injected {
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use std::time::Duration;

    fn file(point: &str) -> Option<PathBuf> {
        static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
        let folder = FOLDER.get_or_init(|| std::env::var_os("TIPCAST_FAULTS").map(PathBuf::from));
        Some(folder.as_ref()?.join(point))
    }

    /// How long to stall. Panics if the file says so.
    fn struck(point: &str) -> Option<Duration> {
        let file = file(point)?;
        let order = std::fs::read_to_string(&file).ok()?;
        let order = order.trim();
        if order != "panic" && !order.starts_with("stall ") {
            return None;
        }
        // It strikes the one that renames it first.
        std::fs::rename(&file, file.with_extension("struck")).ok()?;
        match order.strip_prefix("stall ") {
            Some(ms) => ms.parse().ok().map(Duration::from_millis),
            None => panic!("the test wants {point} to panic"),
        }
    }

    /// A point that a task passes.
    pub async fn pass(point: &str) {
        if let Some(stall) = struck(point) {
            tokio::time::sleep(stall).await;
        }
    }

    /// A point that a thread passes.
    pub fn pass_blocking(point: &str) {
        if let Some(stall) = struck(point) {
            std::thread::sleep(stall);
        }
    }

    /// Whether what is tried here is to fail.
    pub fn fails(point: &str) -> bool {
        file(point)
            .is_some_and(|file| std::fs::read_to_string(file).is_ok_and(|order| order.trim() == "fail"))
    }
}

#[cfg(not(feature = "faults"))]
mod injected {
    /// A point that a task passes.
    #[inline(always)]
    pub async fn pass(_: &str) {}

    /// A point that a thread passes.
    #[inline(always)]
    pub fn pass_blocking(_: &str) {}

    /// Whether what is tried here is to fail.
    #[inline(always)]
    pub fn fails(_: &str) -> bool {
        false
    }
}

pub use injected::{fails, pass, pass_blocking};
