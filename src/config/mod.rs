//! What the server is told before it starts: defaults, file, environment, flags, in that order.
//!
//! `default.toml` beside this file is the documentation of every key and the source of the defaults.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

mod layers;

pub use layers::{Flags, load};

/// The commented file that holds every key with its default.
pub const DEFAULT: &str = include_str!("default.toml");

/// Everything that can be set. Fields are the keys of `default.toml`, which says what they mean.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Config {
    pub http: Http,
    pub feeds: Feeds,
    pub redis: Redis,
    pub embedded: Embedded,
    pub log: Log,
}

/// `[http]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Http {
    pub listen: String,
    pub insecure: bool,
    pub workers: usize,
    pub max_body_bytes: usize,
    pub max_batch_bytes: usize,
    pub head_timeout_ms: u64,
    pub body_timeout_ms: u64,
    pub keep_alive_ms: u64,
    pub send_buffer_bytes: usize,
    pub shutdown_ms: u64,
}

/// `[feeds]`: a policy, field by field. What a policy may be is the domain's to say, which this leaf
/// does not know: [`crate::app`] asks it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Feeds {
    pub capacity: u64,
    pub dedup: String,
    pub dedup_window_ms: u64,
    pub row_ttl_ms: u64,
    pub delay_ms: u64,
    pub flush_ms: u64,
    pub idempotency_window_ms: u64,
    pub history: u64,
}

/// `[redis]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Redis {
    pub url: String,
    pub prefix: String,
    pub feed_idle_ttl_ms: u64,
    pub call_timeout_ms: u64,
    pub connect_timeout_ms: u64,
}

/// `[embedded]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Embedded {
    pub data_dir: PathBuf,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Log {
    pub format: LogFormat,
    pub level: String,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Why the server cannot start with this configuration: a sentence that says where and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// The address to listen on. Resolves host names.
    pub fn listen_address(&self) -> Result<SocketAddr, ConfigError> {
        let listen = &self.http.listen;
        let told = "give an address and a port, such as 127.0.0.1:8080 or [::1]:8080";
        let found = listen.to_socket_addrs().map(|mut all| all.next());
        match found {
            Ok(Some(address)) => Ok(address),
            Ok(None) => Err(ConfigError(format!("[http] listen: {listen:?} names no address; {told}"))),
            Err(e) => Err(ConfigError(format!("[http] listen: {listen:?} cannot be used ({e}); {told}"))),
        }
    }

    /// Ranges, and combinations that would go wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        let Config { http, redis, .. } = self;
        for (key, value, least, most) in [
            ("[http] workers", http.workers as u64, 0, 512),
            ("[http] max_body_bytes", http.max_body_bytes as u64, 1_024, 16 << 20),
            ("[http] max_batch_bytes", http.max_batch_bytes as u64, 1_024, 64 << 20),
            ("[http] head_timeout_ms", http.head_timeout_ms, 100, 600_000),
            ("[http] body_timeout_ms", http.body_timeout_ms, 100, 600_000),
            ("[http] keep_alive_ms", http.keep_alive_ms, 0, 3_600_000),
            ("[http] send_buffer_bytes", http.send_buffer_bytes as u64, 4_096, 16 << 20),
            ("[http] shutdown_ms", http.shutdown_ms, 1_000, 600_000),
            ("[redis] call_timeout_ms", redis.call_timeout_ms, 50, 4_000),
            ("[redis] connect_timeout_ms", redis.connect_timeout_ms, 50, 10_000),
        ] {
            if !(least..=most).contains(&value) {
                return Err(ConfigError(format!("{key} must be from {least} to {most}; it is {value}")));
            }
        }
        if !redis.url.is_empty() && !redis.url.starts_with("redis://") {
            let told = "it must look like redis://127.0.0.1:6379, or be empty for the embedded engine";
            return Err(ConfigError(format!("[redis] url is not a Redis URL; {told}")));
        }
        if redis.url.is_empty() && self.embedded.data_dir.as_os_str().is_empty() {
            return Err(ConfigError(
                "[embedded] data_dir is empty; name a folder, or set [redis] url".into(),
            ));
        }
        self.check_listen()
    }

    fn check_listen(&self) -> Result<(), ConfigError> {
        let address = self.listen_address()?;
        if address.ip().is_loopback() || self.http.insecure {
            return Ok(());
        }
        Err(ConfigError(format!(
            "refusing to listen on {address}: nobody is asked who they are, so anyone who reaches this address \
             could write to every feed. Listen on 127.0.0.1, or give --insecure if something in front keeps \
             strangers out"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default() -> Config {
        load(None, Vec::new(), Flags::default()).unwrap()
    }

    #[test]
    fn the_default_file_parses_and_passes() {
        assert_eq!(default().check(), Ok(()));
        assert_eq!(default().listen_address().unwrap().to_string(), "127.0.0.1:8080");
    }

    #[test]
    fn beyond_loopback_it_needs_insecure() {
        let mut config = default();
        config.http.listen = "0.0.0.0:8080".into();
        assert!(config.check().unwrap_err().0.contains("--insecure"));
        config.http.insecure = true;
        assert_eq!(config.check(), Ok(()));
        config.http.listen = "[::1]:0".into();
        config.http.insecure = false;
        assert_eq!(config.check(), Ok(()));
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let mut config = default();
        config.http.listen = "8080".into();
        assert!(config.check().unwrap_err().0.contains("[http] listen"));
        let mut config = default();
        config.redis.url = "localhost:6379".into();
        assert!(config.check().unwrap_err().0.contains("[redis] url"));
        let mut config = default();
        config.http.shutdown_ms = 0;
        assert!(config.check().unwrap_err().0.contains("[http] shutdown_ms"));
    }
}
