//! Ranges, and combinations that would go wrong: each refusal is a sentence that says what would
//! happen and what to do instead.

use std::net::{SocketAddr, ToSocketAddrs};

use super::{Config, ConfigError, DEFAULT, Secret};

/// The most gifts of one batch; fewer cells than that and a full batch could never pass.
const MAX_BATCH_GIFTS: u32 = 128;

/// The longest of most times; those of `domain::limits`, which this layer does not know (`tests/it/limits.rs` compares).
const WEEK_MS: u64 = 604_800_000;

/// A year.
const YEAR_MS: u64 = 31_536_000_000;

impl Config {
    /// The address to listen on. Resolves host names.
    pub fn listen_address(&self) -> Result<SocketAddr, ConfigError> {
        let listen = &self.http.listen;
        let advice = "give an address and a port, such as 127.0.0.1:8080 or [::1]:8080";
        let found = listen.to_socket_addrs().map(|mut all| all.next());
        match found {
            Ok(Some(address)) => Ok(address),
            Ok(None) => Err(ConfigError(format!("[http] listen: {listen:?} names no address; {advice}"))),
            Err(e) => Err(ConfigError(format!("[http] listen: {listen:?} cannot be used ({e}); {advice}"))),
        }
    }

    /// `https` where there is a certificate, else `http`.
    pub fn scheme(&self) -> &'static str {
        if self.http.tls_cert.is_empty() { "http" } else { "https" }
    }

    /// Ranges, and combinations that would go wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        self.check_stores()?;
        self.check_limits()?;
        self.check_listen()
    }

    /// What is allowed and yet may not be what was meant, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        let beyond = self.listen_address().is_ok_and(|address| !address.ip().is_loopback());
        if beyond && self.http.insecure && !self.has_keys() {
            all.push(format!(
                "[http] insecure: everybody who reaches {} may write to every feed; set [auth] producer_keys \
                 unless something in front keeps strangers out",
                self.http.listen
            ));
        }
        if !self.http.trusted_proxies.is_empty() && !self.has_keys() {
            all.push(
                "[http] trusted_proxies are set and there are no [auth] keys: the proxy lets everybody write, or, where \
                 it is seen to be one, nobody (403). Make a key with `tipcast key new`"
                    .into(),
            );
        }
        if !self.redis.url.is_empty()
            && !DEFAULT.contains(&format!("data_dir = {:?}", self.embedded.data_dir))
        {
            all.push(format!(
                "[embedded] data_dir is not used while [redis] url is set: the feeds in {:?} are not shown",
                self.embedded.data_dir
            ));
        }
        if self.auth.producer_keys.iter().any(|key| !key.expose().starts_with("sha256:")) {
            all.push(
                "[auth] producer_keys holds a key itself: whoever reads the configuration can write. \
                 `tipcast key new` prints a key and the hash that can stand here instead"
                    .into(),
            );
        }
        if self.auth.admin_keys.iter().any(|key| !key.expose().starts_with("sha256:")) {
            all.push(
                "[auth] admin_keys holds a key itself: whoever reads the configuration can use /admin. \
                 `tipcast key new` prints a key and the hash that can stand here instead"
                    .into(),
            );
        }
        let kept = self.leaving_ms();
        if kept != (self.http.unready_ms, self.http.drain_ms) {
            all.push(format!(
                "[http] unready_ms and drain_ms do not fit into shutdown_ms ({}) and are cut to {} and {} ms; \
                 raise shutdown_ms if that is too short",
                self.http.shutdown_ms, kept.0, kept.1
            ));
        }
        all
    }

    /// Whether it holds what nobody else may read. Hashes of keys are not secret.
    pub fn holds_secrets(&self) -> bool {
        let Config { auth, redis, .. } = self;
        let is_key = |key: &Secret| !key.expose().starts_with("sha256:");
        let has_password = |url: &str| {
            let rest = url.split_once("://").map_or("", |(_, rest)| rest);
            rest.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
        };
        auth.producer_keys.iter().chain(&auth.admin_keys).any(is_key)
            || auth.keys.iter().any(|key| key.secret.is_some() || key.hash.as_ref().is_some_and(is_key))
            || !auth.tokens.hs256_secrets.is_empty()
            || !redis.sentinel_password.expose().is_empty()
            || has_password(&redis.url)
    }

    /// What everybody who runs this configuration must know, although nothing is wrong with it.
    pub fn notes(&self) -> Vec<String> {
        if self.has_keys() {
            return Vec::new();
        }
        let but = match self.http.insecure {
            true => "",
            false => {
                " Requests that are seen to come through a proxy get 403, but a tunnel (ssh -R) or a proxy that adds no \
                 header looks like a program of this machine."
            }
        };
        vec![format!(
            "there are no [auth] keys: everybody who reaches {} may write to every feed.{but} Make a key with `tipcast key \
             new` before others can reach it",
            self.http.listen
        )]
    }

    /// `unready_ms` and `drain_ms` as they are kept: together never so long that running requests would
    /// have no time left of `shutdown_ms`.
    pub fn leaving_ms(&self) -> (u64, u64) {
        let http = &self.http;
        let unready = http.unready_ms.min(http.shutdown_ms / 2);
        (unready, http.drain_ms.min((http.shutdown_ms - unready) / 2))
    }

    fn check_ranges(&self) -> Result<(), ConfigError> {
        let Config { auth, http, limits, drops, redis, due, reports, webhooks, .. } = self;
        for (key, value, least, most) in [
            ("[http] workers", http.workers as u64, 0, 512),
            ("[http] max_body_bytes", http.max_body_bytes as u64, 1_024, 16 << 20),
            ("[http] max_batch_bytes", http.max_batch_bytes as u64, 1_024, 64 << 20),
            ("[http] head_timeout_ms", http.head_timeout_ms, 100, 600_000),
            ("[http] body_timeout_ms", http.body_timeout_ms, 100, 600_000),
            ("[http] keep_alive_ms", http.keep_alive_ms, 0, 3_600_000),
            ("[http] send_buffer_bytes", http.send_buffer_bytes as u64, 4_096, 16 << 20),
            ("[http] unready_ms", http.unready_ms, 0, 600_000),
            ("[http] drain_ms", http.drain_ms, 0, 600_000),
            ("[http] shutdown_ms", http.shutdown_ms, 1_000, 1_200_000),
            ("[limits] watchers", limits.watchers as u64, 0, 10_000_000),
            ("[http] hsts_max_age_s", http.hsts_max_age_s, 0, 63_072_000),
            ("[limits] connections", limits.connections as u64, 0, 10_000_000),
            ("[limits] connections_per_address", limits.connections_per_address as u64, 0, 10_000_000),
            ("[limits] unsent_bytes_per_address", limits.unsent_bytes_per_address as u64, 0, 1 << 40),
            ("[limits] handshakes", limits.handshakes as u64, 0, 10_000_000),
            ("[limits] handshakes_per_address", limits.handshakes_per_address as u64, 0, 10_000_000),
            ("[limits] followed_feeds", limits.followed_feeds as u64, 0, 10_000_000),
            ("[limits] subscriptions_per_address", limits.subscriptions_per_address as u64, 0, 10_000_000),
            ("[limits] new_feeds_per_second", u64::from(limits.new_feeds_per_second), 0, 1_000_000),
            ("[limits] new_feeds_burst", u64::from(limits.new_feeds_burst), 1, 1_000_000),
            ("[limits] commands_per_second", u64::from(limits.commands_per_second), 0, 1_000_000),
            ("[limits] commands_burst", u64::from(limits.commands_burst), 64, 255),
            ("[limits] replay_bytes_per_second", u64::from(limits.replay_bytes_per_second), 0, 1_000_000_000),
            ("[limits] replay_bytes_burst", u64::from(limits.replay_bytes_burst), 65_536, 1_000_000_000),
            (
                "[limits] history_bytes_per_second",
                u64::from(limits.history_bytes_per_second),
                0,
                1_000_000_000,
            ),
            ("[limits] history_bytes_burst", u64::from(limits.history_bytes_burst), 65_536, 1_000_000_000),
            (
                "[limits] node_history_bytes_per_second",
                u64::from(limits.node_history_bytes_per_second),
                0,
                1_000_000_000,
            ),
            (
                "[limits] node_history_bytes_burst",
                u64::from(limits.node_history_bytes_burst),
                65_536,
                1_000_000_000,
            ),
            ("[limits] watchers_per_address", limits.watchers_per_address as u64, 0, 10_000_000),
            ("[limits] requests_per_second", u64::from(limits.requests_per_second), 0, 1_000_000),
            ("[limits] deliveries_per_second", u64::from(limits.deliveries_per_second), 0, 1_000_000),
            ("[limits] unverified_body_bytes", limits.unverified_body_bytes as u64, 65_536, 1 << 40),
            ("[limits] request_burst", u64::from(limits.request_burst), 0, 10_000_000),
            (
                "[limits] viewer_requests_per_second",
                u64::from(limits.viewer_requests_per_second),
                1,
                1_000_000,
            ),
            ("[auth.tokens] leeway_ms", auth.tokens.leeway_ms, 0, 300_000),
            ("[auth.tokens] max_age_ms", auth.tokens.max_age_ms, 1_000, YEAR_MS),
            ("[drops] reminder_ms", drops.reminder_ms, 0, WEEK_MS),
            ("[due] scheduled_max", due.scheduled_max, 1, 10_000_000),
            ("[due] longest_sleep_ms", due.longest_sleep_ms, 100, 60_000),
            ("[due] partitions", due.partitions as u64, 1, 16),
            ("[reports] ledger_max", reports.ledger_max, 100, 10_000_000),
            ("[reports] backlog_max", reports.backlog_max, reports.ledger_max, 100_000_000),
            ("[reports] max_attempts", reports.max_attempts, 1, 1_000),
            ("[reports] dead_max", reports.dead_max, 1, 100_000),
            ("[webhooks] timeout_ms", webhooks.timeout_ms, 100, 60_000),
            ("[webhooks] give_up_ms", webhooks.give_up_ms, 1_000, WEEK_MS),
            ("[webhooks] disable_after_ms", webhooks.disable_after_ms, 0, YEAR_MS),
            ("[webhooks] in_flight", webhooks.in_flight as u64, 1, 4_096),
            ("[webhooks] in_flight_each", webhooks.in_flight_each as u64, 1, 4_096),
            ("[webhooks] secret_overlap_ms", webhooks.secret_overlap_ms, 0, YEAR_MS),
            ("[log] otlp_sample_percent", self.log.otlp_sample_percent, 0, 100),
            ("[redis] wait_replicas", redis.wait_replicas as u64, 0, 16),
            ("[redis] wait_ms", redis.wait_ms, 1, 10_000),
            ("[redis] call_timeout_ms", redis.call_timeout_ms, 50, 4_000),
            ("[redis] connect_timeout_ms", redis.connect_timeout_ms, 50, 10_000),
        ] {
            if !(least..=most).contains(&value) {
                return Err(ConfigError(format!("{key} must be from {least} to {most}; it is {value}")));
            }
        }
        if reports.ledger_max_age_ms != 0 && !(60_000..=YEAR_MS).contains(&reports.ledger_max_age_ms) {
            return Err(ConfigError(format!(
                "[reports] ledger_max_age_ms must be 0 or from 60000 to 31536000000; it is {}",
                reports.ledger_max_age_ms
            )));
        }
        if http.max_batch_bytes < http.max_body_bytes {
            return Err(ConfigError(format!(
                "[http] max_batch_bytes ({}) is smaller than max_body_bytes ({}): a gift that may be sent alone \
                 would be refused in a batch; make it at least as large",
                http.max_batch_bytes, http.max_body_bytes
            )));
        }
        Ok(())
    }

    fn check_stores(&self) -> Result<(), ConfigError> {
        let Config { redis, embedded, .. } = self;
        let scheme =
            redis.url.split_once("://").map(|(scheme, _)| scheme.split('+').next().unwrap_or_default());
        if !redis.url.is_empty() && !matches!(scheme, Some("redis" | "rediss" | "unix")) {
            let advice = "it must look like redis://127.0.0.1:6379, redis+cluster://a:6379,b:6379 or \
                        redis+sentinel://a:26379,b:26379/PRIMARY, or be empty for the embedded store";
            return Err(ConfigError(format!("[redis] url is not a Redis URL; {advice}")));
        }
        if redis.client_cert.as_os_str().is_empty() != redis.client_key.as_os_str().is_empty() {
            let advice = "[redis] client_cert and client_key belong together: set both, or none";
            return Err(ConfigError(advice.into()));
        }
        let has_files = !redis.ca_file.as_os_str().is_empty() || !redis.client_cert.as_os_str().is_empty();
        if has_files && scheme == Some("redis") {
            let advice = "[redis] ca_file and client_cert are for TLS, and the url asks for none: write rediss:// in \
                        place of redis://, or leave the files out";
            return Err(ConfigError(advice.into()));
        }
        if redis.url.is_empty() && embedded.data_dir.as_os_str().is_empty() {
            return Err(ConfigError(
                "[embedded] data_dir is empty; name a folder, or set [redis] url".into(),
            ));
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        if limits.watchers > 0 && limits.watchers_per_address > limits.watchers {
            return Err(ConfigError(format!(
                "[limits] watchers_per_address ({}) is above watchers ({}): one address could take every place; \
                 lower it, or set it to 0 for no limit per address",
                limits.watchers_per_address, limits.watchers
            )));
        }
        if limits.unverified_body_bytes < self.http.max_batch_bytes {
            return Err(ConfigError(format!(
                "[limits] unverified_body_bytes ({}) is below [http] max_batch_bytes ({}): a signed batch could never \
                 pass; make it several times as much",
                limits.unverified_body_bytes, self.http.max_batch_bytes
            )));
        }
        let burst = limits.request_burst;
        match limits.requests_per_second {
            0 if burst > 0 => Err(ConfigError(
                "[limits] request_burst does nothing without requests_per_second; set both or neither".into(),
            )),
            1.. if (1..MAX_BATCH_GIFTS).contains(&burst) => Err(ConfigError(format!(
                "[limits] request_burst is {burst}, so a batch of more gifts could never pass; make it at \
                 least {MAX_BATCH_GIFTS}, or 0"
            ))),
            _ => Ok(()),
        }
    }

    /// Whether anybody has a key.
    pub(super) fn has_keys(&self) -> bool {
        let auth = &self.auth;
        !(auth.producer_keys.is_empty() && auth.admin_keys.is_empty() && auth.keys.is_empty())
    }

    fn check_listen(&self) -> Result<(), ConfigError> {
        let address = self.listen_address()?;
        if address.ip().is_loopback() || self.http.insecure || self.has_keys() {
            return Ok(());
        }
        Err(ConfigError(format!(
            "refusing to listen on {address}: there are no [auth] keys, so anyone who reaches this \
             address could write to every feed. Make a key with `tipcast key new`, or listen on 127.0.0.1, or \
             give --insecure if something in front keeps strangers out"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flags, load};

    fn default() -> Config {
        load(None, Vec::new(), Flags::default()).unwrap()
    }

    /// What the changed default configuration is refused with.
    fn refused(change: impl FnOnce(&mut Config)) -> String {
        let mut config = default();
        change(&mut config);
        config.check().unwrap_err().0
    }

    #[test]
    fn the_default_file_parses_and_passes_without_a_warning() {
        assert_eq!(default().check(), Ok(()));
        assert_eq!(default().warnings(), Vec::<String>::new());
        assert_eq!(default().listen_address().unwrap().to_string(), "127.0.0.1:8080");
    }

    #[test]
    fn beyond_loopback_it_needs_keys_or_insecure() {
        let mut config = default();
        config.http.listen = "0.0.0.0:8080".into();
        let advice = config.check().unwrap_err().0;
        assert!(advice.contains("--insecure") && advice.contains("tipcast key new"), "{advice}");
        config.http.insecure = true;
        assert_eq!(config.check(), Ok(()));
        assert!(config.warnings()[0].contains("0.0.0.0:8080"), "{:?}", config.warnings());
        config.http.insecure = false;
        config.auth.producer_keys = vec![format!("sha256:{}", "0".repeat(64)).into()];
        assert_eq!((config.check(), config.warnings()), (Ok(()), vec![]));
        config.auth.producer_keys.clear();
        config.http.listen = "[::1]:0".into();
        assert_eq!(config.check(), Ok(()));
    }

    #[test]
    fn values_out_of_range_are_named() {
        assert!(refused(|c| c.http.listen = "8080".into()).contains("[http] listen"));
        assert!(refused(|c| c.redis.url = "localhost:6379".into()).contains("[redis] url"));
        assert!(refused(|c| c.http.shutdown_ms = 0).contains("[http] shutdown_ms"));
        assert!(refused(|c| c.embedded.data_dir = "".into()).contains("[embedded] data_dir"));
    }

    #[test]
    fn combinations_that_would_go_wrong_are_refused_with_what_would_happen() {
        assert!(refused(|c| c.limits.watchers = 10).contains("could take every place"));
        assert!(refused(|c| c.limits.request_burst = 500).contains("does nothing without"));
        let advice = refused(|c| (c.limits.requests_per_second, c.limits.request_burst) = (10, 50));
        assert!(advice.contains("could never pass"), "{advice}");
        assert!(refused(|c| c.http.max_batch_bytes = 4_096).contains("refused in a batch"));
        let mut config = default();
        (config.limits.watchers, config.limits.requests_per_second) = (0, 10);
        assert_eq!(config.check(), Ok(()));
    }

    #[test]
    fn a_short_shutdown_shortens_what_comes_before_it() {
        let mut config = default();
        assert_eq!(config.leaving_ms(), (500, 3_000));
        config.http.shutdown_ms = 1_000;
        assert_eq!((config.check(), config.leaving_ms()), (Ok(()), (500, 250)));
        assert!(config.warnings()[0].contains("cut to 500 and 250 ms"), "{:?}", config.warnings());
    }

    #[test]
    fn useless_settings_are_warned_about() {
        let mut config = default();
        config.redis.url = "redis://127.0.0.1".into();
        assert_eq!(config.warnings(), Vec::<String>::new());
        config.embedded.data_dir = "/var/lib/tipcast".into();
        config.auth.producer_keys = vec!["correct horse battery".to_owned().into()];
        let advice = config.warnings();
        assert_eq!((config.check(), advice.len()), (Ok(()), 2));
        assert!(advice[0].contains("/var/lib/tipcast") && !advice[1].contains("horse"), "{advice:?}");
        config.auth.admin_keys = vec!["staple battery horse".to_owned().into()];
        let advice = config.warnings();
        assert!(advice[2].contains("admin_keys") && !advice[2].contains("horse"), "{advice:?}");
    }
}
