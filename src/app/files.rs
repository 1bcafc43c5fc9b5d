//! File descriptors: each connection takes one.

use crate::config::Config;

/// Connections beside watchers: producers, probes, the store, files.
const BESIDES: u64 = 256;

/// Raises this process's limit of open files as far as it may by itself, and says so when that is less
/// than the watchers of `config` need.
#[cfg(unix)]
pub fn raise_limit(config: &Config) {
    let soft = match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(soft) => soft,
        Err(error) => return tracing::warn!("the limit of open files is unknown: {error}"),
    };
    let needed = config.limits.watchers as u64 + BESIDES;
    match config.limits.watchers {
        0 => tracing::info!(open_files = soft, "the limit of open files is the limit of watchers"),
        watchers if soft < needed => tracing::warn!(
            "the limit of open files is {soft}, too few for [limits] watchers ({watchers}): connections beyond it \
             wait until others end. Raise it (ulimit -Hn, LimitNOFILE=) to {needed}, or lower [limits] watchers"
        ),
        _ => {}
    }
}

/// Nothing to do here.
#[cfg(not(unix))]
pub fn raise_limit(_: &Config) {}
