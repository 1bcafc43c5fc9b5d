//! The server's configuration: defaults, file, environment, flags, in that order.
//!
//! `default.toml` beside this file is the documentation of every key and the source of the defaults.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

mod check;
mod layers;
mod reload;
mod secret;
mod size;
mod summary;

pub use layers::{Flags, STDIN, load};
pub use reload::Reloaded;
pub use secret::Secret;
pub use size::Size;
pub use summary::Summary;

/// The commented file that holds every key with its default.
pub const DEFAULT: &str = include_str!("default.toml");

/// Everything that can be set. Fields are the keys of `default.toml`, which says what they mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Config {
    pub auth: Auth,
    pub http: Http,
    pub limits: Limits,
    pub feeds: Feeds,
    pub drops: Drops,
    pub due: Due,
    pub reports: Reports,
    pub webhooks: Webhooks,
    pub redis: Redis,
    pub embedded: Embedded,
    pub log: Log,
    pub metrics: Metrics,
}

/// `[auth]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Auth {
    pub producer_keys: Vec<Secret>,
    pub admin_keys: Vec<Secret>,
    pub keys: Vec<KeyTable>,
    pub tokens: Tokens,
}

/// `[[auth.keys]]`: a key that may do some things to some feeds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct KeyTable {
    pub name: String,
    pub hash: Option<Secret>,
    pub secret: Option<Secret>,
    pub feeds: Option<Vec<String>>,
    pub may: Vec<String>,
    pub expires_at: Option<Moment>,
    #[serde(default)]
    pub signed: bool,
}

/// A time, as a text or as TOML's own kind of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum Moment {
    Text(String),
    Toml(toml::value::Datetime),
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Moment::Text(text) => text.fmt(f),
            Moment::Toml(time) => time.fmt(f),
        }
    }
}

/// `[auth.tokens]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Tokens {
    pub hs256_secrets: Vec<Secret>,
    pub public_keys: Vec<PathBuf>,
    pub jwks_file: PathBuf,
    pub jwks_url: String,
    pub issuer: String,
    pub audience: String,
    pub leeway_ms: u64,
    pub max_age_ms: u64,
}

/// `[http]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Http {
    pub listen: String,
    pub insecure: bool,
    pub allowed_origins: Vec<String>,
    pub hosts: Vec<String>,
    pub trusted_proxies: Vec<String>,
    pub forwarded_header: String,
    pub tls_cert: String,
    pub tls_key: String,
    pub hsts_max_age_s: u64,
    pub compress: bool,
    pub workers: usize,
    pub max_body_bytes: usize,
    pub max_batch_bytes: usize,
    pub head_timeout_ms: u64,
    pub body_timeout_ms: u64,
    pub keep_alive_ms: u64,
    pub send_buffer_bytes: usize,
    pub unready_ms: u64,
    pub drain_ms: u64,
    pub shutdown_ms: u64,
}

/// `[limits]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Limits {
    pub watchers: usize,
    pub watchers_per_address: usize,
    pub connections: usize,
    pub connections_per_address: usize,
    pub unsent_bytes_per_address: usize,
    pub handshakes: usize,
    pub handshakes_per_address: usize,
    pub followed_feeds: usize,
    pub subscriptions_per_address: usize,
    pub new_feeds_per_second: u32,
    pub new_feeds_burst: u32,
    pub commands_per_second: u32,
    pub commands_burst: u32,
    pub replay_bytes_per_second: u32,
    pub replay_bytes_burst: u32,
    pub history_bytes_per_second: u32,
    pub history_bytes_burst: u32,
    pub node_history_bytes_per_second: u32,
    pub node_history_bytes_burst: u32,
    pub count_loopback: bool,
    pub requests_per_second: u32,
    pub request_burst: u32,
    pub viewer_requests_per_second: u32,
    pub deliveries_per_second: u32,
    pub unverified_body_bytes: usize,
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
    pub visibility: String,
    pub presence: String,
    pub totals: Vec<String>,
    pub time_zone: String,
    pub points: std::collections::BTreeMap<String, u64>,
    pub review: String,
    pub review_timeout_ms: u64,
    pub review_default: String,
}

/// `[drops]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Drops {
    pub reminder_ms: u64,
}

/// `[due]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Due {
    pub scheduled_max: u64,
    pub longest_sleep_ms: u64,
    pub partitions: usize,
}

/// `[reports]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Reports {
    pub ledger_max: u64,
    pub backlog_max: u64,
    pub ledger_max_age_ms: u64,
    pub max_attempts: u64,
    pub dead_max: u64,
}

/// `[webhooks]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Webhooks {
    pub allow_private: bool,
    pub timeout_ms: u64,
    pub give_up_ms: u64,
    pub disable_after_ms: u64,
    pub in_flight: usize,
    pub in_flight_each: usize,
    pub secret_overlap_ms: u64,
}

/// `[redis]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Redis {
    pub url: String,
    pub ca_file: PathBuf,
    pub client_cert: PathBuf,
    pub client_key: PathBuf,
    pub sentinel_username: String,
    pub sentinel_password: Secret,
    pub addresses: Vec<String>,
    pub wait_replicas: usize,
    pub wait_ms: u64,
    pub ready_when: ReadyWhen,
    pub prefix: String,
    pub feed_idle_ttl_ms: u64,
    pub call_timeout_ms: u64,
    pub connect_timeout_ms: u64,
}

/// When a store of several shards counts as ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadyWhen {
    /// While at least one shard answers.
    Any,
    /// While every one does.
    All,
}

/// `[embedded]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Embedded {
    pub data_dir: PathBuf,
    pub max_memory: Size,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Log {
    pub format: LogFormat,
    pub level: String,
    pub audit: String,
    pub otlp_url: String,
    pub otlp_sample_percent: u64,
}

/// `[metrics]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Metrics {
    pub private_feeds: bool,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
