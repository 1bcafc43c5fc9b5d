//! Answers about the process and its store.

use serde::Serialize;

/// The process lives.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Liveness {
    /// `alive`
    pub status: &'static str,
}

/// Whether the store answers for all feeds.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReadinessStatus {
    Ready,
    /// Some of several shards do not answer.
    Degraded,
}

/// The store answers.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Readiness {
    pub status: ReadinessStatus,
    /// `embedded` or `redis`
    pub engine: &'static str,
    /// Only where the store has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<ShardCounts>,
    /// What an operator should change though the store works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Primaries of a cluster.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct ShardCounts {
    /// Those that answer.
    #[cfg_attr(test, schema(value_type = u64))]
    pub up: usize,
    /// Those that do not: their feeds answer 503.
    #[cfg_attr(test, schema(value_type = u64))]
    pub down: usize,
}
