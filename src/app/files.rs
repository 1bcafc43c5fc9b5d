//! File descriptors: each connection takes one.

use crate::config::Config;
use crate::http::inbound::Bounds;

/// Descriptors for what is no client's connection: the store, threads, deliveries to webhooks.
const OWN: usize = 512;

/// Connections that watchers never have, so that producers and health checks find a place.
const KEPT_ASIDE: usize = 128;

/// Raises this process's limit of open files as far as it may by itself, and says so when that is less
/// than the watchers of `config` need.
#[cfg(unix)]
pub fn raise_limit(config: &Config) {
    let soft = match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(soft) => soft,
        Err(error) => return tracing::warn!("the limit of open files is unknown: {error}"),
    };
    let needed = config.limits.watchers + OWN + KEPT_ASIDE;
    match config.limits.watchers {
        0 => tracing::info!(open_files = soft, "the limit of open files is the limit of watchers"),
        watchers if watchers_most(config) < watchers => tracing::warn!(
            "the limit of open files is {soft}, too few for [limits] watchers ({watchers}): only {} get a place, so \
             that producers do too. Raise it (ulimit -Hn, LimitNOFILE=) to {needed}, or lower [limits] watchers",
            watchers_most(config)
        ),
        _ => {}
    }
}

/// Nothing to do here.
#[cfg(not(unix))]
pub fn raise_limit(_: &Config) {}

/// How many connections there may be, by `[limits]` and by the limit of open files.
pub(super) fn bounds(config: &Config) -> Bounds {
    let limits = &config.limits;
    Bounds {
        most: connections(open_files(), limits.connections),
        per_address: limits.connections_per_address,
        count_loopback: limits.count_loopback,
        handshakes: limits.handshakes,
        handshakes_per_address: limits.handshakes_per_address,
    }
}

/// How many of them may be watchers'.
pub(super) fn watchers_most(config: &Config) -> usize {
    let most = for_watchers(connections(open_files(), config.limits.connections));
    match config.limits.watchers {
        0 => most,
        watchers => watchers.min(most),
    }
}

fn open_files() -> usize {
    #[cfg(unix)]
    let soft = rlimit::Resource::NOFILE.get_soft().ok().and_then(|soft| usize::try_from(soft).ok());
    #[cfg(not(unix))]
    let soft = None;
    soft.unwrap_or(usize::MAX)
}

/// Of so many descriptors the process keeps some for itself, at most a quarter.
fn connections(open_files: usize, configured: usize) -> usize {
    let room = open_files - OWN.min(open_files / 4);
    if configured == 0 { room } else { configured.min(room) }
}

/// Watchers have at least three quarters.
fn for_watchers(connections: usize) -> usize {
    connections - KEPT_ASIDE.min(connections / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_and_producers_have_descriptors_that_watchers_never_get() {
        assert_eq!((connections(400, 0), for_watchers(300)), (300, 225));
        assert_eq!((connections(1 << 20, 0), for_watchers(100_000)), ((1 << 20) - 512, 99_872));
        assert_eq!(connections(400, 100), 100);
        assert_eq!(connections(400, 1_000), 300);
    }
}
