//! File descriptors. Each connection takes one, and so does much of what the process does for itself, so they are
//! shared out at the start: clients never get those that the store, files and deliveries need.

use crate::config::{self, Config, ConfigError, Flags};
use crate::http::inbound::Bounds;

/// What the process has open before its first client: standard streams, the runtime, the embedded store.
const BASE_DESCRIPTORS: usize = 24;

/// What each worker has open: polls, wake-ups, the listening socket.
const PER_WORKER: usize = 10;

/// Connections to each server of Redis that the configuration names.
const PER_SERVER: usize = 6;

/// The least that is kept for what comes and goes, see [`Descriptors::spare`].
const SPARE_LEAST: usize = 32;

/// The least that is left for clients.
const CLIENTS_LEAST: usize = 32;

/// Connections that watchers never have, so that producers and health checks find a place.
const KEPT_ASIDE: usize = 128;

/// Claims of groups that may wait at the same time.
const WAITING_CLAIMS: usize = 10_000;

/// Clients that are refused for want of a permit at the same time.
const MAX_REFUSALS_AT_ONCE: usize = 256;

/// How the descriptors that the process may open are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptors {
    /// For what is always open.
    own: usize,
    /// For what comes and goes. A quarter each for: files and connections to the store that are made anew; deliveries to
    /// webhooks; connections that were cut and have not ended yet; clients that get the reason why they are refused.
    spare: usize,
    /// For connections of clients.
    clients: usize,
}

impl Descriptors {
    /// Shares out as many as the process may open. The error says how many are needed, and how to allow them.
    pub fn of(config: &Config) -> Result<Descriptors, ConfigError> {
        Descriptors::share(open_files(), config)
    }

    fn share(open_files: usize, config: &Config) -> Result<Descriptors, ConfigError> {
        let own = own(config);
        let least = own + SPARE_LEAST + CLIENTS_LEAST;
        if open_files < least {
            return Err(ConfigError(format!(
                "the limit of open files is {open_files}, and this configuration needs at least {least}: {own} for the \
                 server itself (with {} workers), {SPARE_LEAST} for files, its store and deliveries, {CLIENTS_LEAST} for \
                 clients. Raise it (`ulimit -n 4096` in the shell that starts it, LimitNOFILE=4096 in its systemd unit, \
                 `--ulimit nofile=4096` for Docker); each watcher takes one more",
                workers(config)
            )));
        }
        let spare =
            (open_files / 4).clamp(SPARE_LEAST, 4 * config.webhooks.in_flight.max(MAX_REFUSALS_AT_ONCE));
        // Where that is less than a quarter of a low limit, clients come first.
        let spare = spare.min(open_files - own - CLIENTS_LEAST);
        Ok(Descriptors { own, spare, clients: open_files - own - spare })
    }

    /// Connections of clients at the same time.
    fn connections(&self, config: &Config) -> usize {
        match config.limits.connections {
            0 => self.clients,
            most => most.min(self.clients),
        }
    }

    /// How many of them may be watchers'.
    pub fn watchers(&self, config: &Config) -> usize {
        let connections = self.connections(config);
        let most = connections - kept_aside(connections);
        match config.limits.watchers {
            0 => most,
            watchers => watchers.min(most),
        }
    }

    /// How many of them may be claims that wait: half of what watchers never have is left for requests that are answered
    /// at once.
    pub fn waiting_claims(&self, config: &Config) -> usize {
        let connections = self.connections(config);
        let left = connections - self.watchers(config) - kept_aside(connections) / 2;
        left.clamp(1, WAITING_CLAIMS)
    }

    /// Deliveries to webhooks under way at the same time.
    pub fn deliveries(&self, config: &Config) -> usize {
        config.webhooks.in_flight.min(self.spare / 4).max(1)
    }

    /// The bounds on connections.
    pub fn bounds(&self, config: &Config) -> Bounds {
        let limits = &config.limits;
        Bounds {
            most: self.connections(config),
            leaving: self.spare / 4,
            refusals: MAX_REFUSALS_AT_ONCE.min(self.spare / 4),
            per_address: limits.connections_per_address,
            unsent_per_address: limits.unsent_bytes_per_address,
            count_loopback: limits.count_loopback,
            handshakes: limits.handshakes,
            handshakes_per_address: limits.handshakes_per_address,
        }
    }
}

/// Raises this process's limit of open files as far as it may by itself, and says so when that is less
/// than the watchers of `config` need.
#[cfg(unix)]
pub fn raise_limit(config: &Config) {
    let soft = match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(soft) => soft,
        Err(error) => return tracing::warn!("the limit of open files is unknown: {error}"),
    };
    // Where there are too few to start, starting says so.
    let Ok(descriptors) = Descriptors::of(config) else { return };
    let (wanted, most) = (config.limits.watchers, descriptors.watchers(config));
    match wanted {
        0 => tracing::info!(open_files = soft, "the limit of open files is the limit of watchers"),
        // The operator did not ask for this number, so the lack is no warning.
        _ if most < wanted && is_default(wanted) => {
            tracing::info!("{most} watchers get a place, because the limit of open files is {soft}")
        }
        _ if most < wanted => tracing::warn!(
            "the limit of open files is {soft}, too few for [limits] watchers ({wanted}): only {most} get a place, so \
             that producers do too. Raise it (ulimit -Hn, LimitNOFILE=) to {}, or lower [limits] watchers",
            wanted + KEPT_ASIDE + descriptors.own + 4 * config.webhooks.in_flight.max(MAX_REFUSALS_AT_ONCE)
        ),
        _ => {}
    }
}

/// Whether `[limits] watchers` is what it is without a configuration.
#[cfg(unix)]
fn is_default(watchers: usize) -> bool {
    config::load(None, Vec::new(), Flags::default()).is_ok_and(|config| config.limits.watchers == watchers)
}

/// Nothing to do here.
#[cfg(not(unix))]
pub fn raise_limit(_: &Config) {}

/// Threads of each kind, see `[http] workers`.
pub(super) fn workers(config: &Config) -> usize {
    match config.http.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
}

fn own(config: &Config) -> usize {
    let url = &config.redis.url;
    let servers = if url.is_empty() { 0 } else { 1 + url.matches(',').count() };
    BASE_DESCRIPTORS + PER_WORKER * workers(config) + PER_SERVER * servers
}

fn open_files() -> usize {
    #[cfg(unix)]
    let soft = rlimit::Resource::NOFILE.get_soft().ok().and_then(|soft| usize::try_from(soft).ok());
    #[cfg(not(unix))]
    let soft = None;
    soft.unwrap_or(usize::MAX)
}

/// At most a quarter of all connections.
fn kept_aside(connections: usize) -> usize {
    KEPT_ASIDE.min(connections / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;

    fn config() -> Config {
        let mut config = load(None, Vec::new(), Flags::default()).unwrap();
        config.http.workers = 2;
        config
    }

    #[test]
    fn the_process_producers_and_claims_have_descriptors_that_watchers_never_get() {
        let config = config();
        let few = Descriptors::share(300, &config).unwrap();
        assert_eq!(few, Descriptors { own: 44, spare: 75, clients: 181 });
        assert_eq!((few.watchers(&config), few.waiting_claims(&config)), (136, 23));
        assert_eq!((few.deliveries(&config), few.bounds(&config).refusals), (18, 18));
        let many = Descriptors::share(1 << 20, &config).unwrap();
        assert_eq!((many.own, many.spare), (44, 1024));
        assert_eq!((many.watchers(&config), many.waiting_claims(&config)), (100_000, 10_000));
        assert_eq!((many.deliveries(&config), many.bounds(&config).refusals), (256, 256));
        let mut bounded = config;
        bounded.limits.connections = 20;
        assert_eq!((few.watchers(&bounded), few.bounds(&bounded).most), (15, 20));
    }

    #[test]
    fn with_too_few_descriptors_it_says_how_many_are_needed_and_with_just_enough_it_starts() {
        let mut config = config();
        let refused = Descriptors::share(107, &config).unwrap_err().0;
        assert!(refused.contains("is 107, and this configuration needs at least 108"), "{refused}");
        let least = Descriptors::share(108, &config).unwrap();
        assert_eq!(least, Descriptors { own: 44, spare: 32, clients: 32 });
        assert_eq!((least.watchers(&config), least.waiting_claims(&config)), (24, 4));
        config.redis.url = "redis+cluster://a:1,b:2,c:3".into();
        assert!(Descriptors::share(108, &config).is_err(), "each server takes some");
    }
}
