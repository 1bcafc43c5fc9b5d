//! Opens the store that the configuration names.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::to_raw_value;

use super::memory;
use crate::config::{Config, ConfigError, Feeds, ReadyWhen, Redis, Reports};
use crate::domain::{Policy, PolicyPatch, Refused};
use crate::engine::store::StoreOptions;
use crate::engine::{ReportLimits, Store, StoreError};
use crate::metrics::Metrics;
use crate::supervise::Parts;

/// `[feeds]` as a policy: read by the same rules as the body of a PUT.
pub(super) fn default_policy(feeds: &Feeds) -> Result<Policy, ConfigError> {
    let read = to_raw_value(feeds).map_err(|e| Refused::Syntax(e.to_string()));
    match read.and_then(|raw| PolicyPatch::parse(&raw)) {
        Ok(patch) => Ok(Policy::default().with(&patch)),
        Err(Refused::Syntax(why)) => Err(ConfigError(format!("[feeds] {why}"))),
        Err(Refused::Invalid(faults)) => {
            let all = faults.iter().map(|f| format!("{} {}", f.pointer.trim_start_matches('/'), f.detail));
            Err(ConfigError(format!("[feeds] {}", all.collect::<Vec<_>>().join("; "))))
        }
    }
}

/// The store that `config` asks for.
pub(super) async fn open(
    config: &Config,
    defaults: Policy,
    metrics: &Arc<Metrics>,
    parts: &Arc<Parts>,
) -> Result<Store, StoreError> {
    let options = StoreOptions {
        metrics: metrics.clone(),
        parts: parts.clone(),
        scheduled_max: config.due.scheduled_max,
        reports: report_limits(&config.reports),
        due_parts: config.due.partitions,
        drop_reminder_ms: config.drops.reminder_ms,
        steady: true,
        max_memory: match config.embedded.max_memory.0 {
            0 => memory::bound(),
            bytes => bytes,
        },
        ..redis_options(&config.redis, defaults)
    };
    match config.redis.url.is_empty() {
        true => Store::embedded(options, config.embedded.data_dir.clone()).await,
        false => Store::redis(options).await,
    }
}

/// What can be said of the store without asking it.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    if config.redis.url.is_empty() {
        return Ok(());
    }
    let options = redis_options(&config.redis, Policy::default());
    Store::check(&options).map_err(|why| ConfigError(format!("[redis] {why}")))
}

fn report_limits(reports: &Reports) -> ReportLimits {
    ReportLimits {
        ledger_max: reports.ledger_max,
        backlog_max: reports.backlog_max,
        max_age_ms: reports.ledger_max_age_ms,
        max_attempts: reports.max_attempts,
        dead_max: reports.dead_max,
    }
}

/// How this configuration reaches its Redis: enough for who calls no script.
pub(super) fn target_options(config: &Config) -> StoreOptions {
    StoreOptions { due_parts: config.due.partitions, ..redis_options(&config.redis, Policy::default()) }
}

fn redis_options(redis: &Redis, defaults: Policy) -> StoreOptions {
    StoreOptions {
        defaults,
        prefix: redis.prefix.clone(),
        feed_idle_ttl_ms: redis.feed_idle_ttl_ms,
        call_timeout: Duration::from_millis(redis.call_timeout_ms),
        connect_timeout: Duration::from_millis(redis.connect_timeout_ms),
        ca_file: some_file(&redis.ca_file),
        client_cert: some_file(&redis.client_cert),
        client_key: some_file(&redis.client_key),
        sentinel_username: some_text(&redis.sentinel_username),
        sentinel_password: some_text(redis.sentinel_password.expose()),
        addresses: redis.addresses.clone(),
        wait_replicas: redis.wait_replicas,
        wait: Duration::from_millis(redis.wait_ms),
        ready_when_all: redis.ready_when == ReadyWhen::All,
        ..StoreOptions::new(redis.url.clone())
    }
}

fn some_file(path: &Path) -> Option<PathBuf> {
    (!path.as_os_str().is_empty()).then(|| path.to_owned())
}

fn some_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Flags, load};

    #[test]
    fn the_default_file_is_the_default_policy_and_ranges_are_named() {
        let mut feeds = load(None, Vec::new(), Flags::default()).unwrap().feeds;
        assert_eq!(default_policy(&feeds), Ok(Policy::default()));
        feeds.capacity = 101;
        feeds.dedup = "join".into();
        let refused = default_policy(&feeds).unwrap_err().0;
        assert!(
            refused.starts_with("[feeds] capacity must be") && refused.contains("dedup must be"),
            "{refused}"
        );
    }
}
