//! Answers about the nodes of a gateway.

use serde::Serialize;

use crate::domain::Millis;

/// The nodes that live, by their own word of at most ten seconds ago.
#[cfg(test)]
#[derive(Serialize, utoipa::ToSchema)]
pub struct NodeList {
    nodes: Vec<NodeState>,
}

/// What a node says of itself.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct NodeState {
    /// The name of its machine, and the port that it listens on.
    pub node: String,
    pub version: &'static str,
    #[cfg_attr(test, schema(value_type = String, format = DateTime))]
    pub started_at: Millis,
    /// Watchers connected to it.
    pub watchers: u64,
    /// Feeds that it follows.
    pub feeds: u64,
    pub gifts_per_second: f64,
    /// Changes handed to watchers, each counted for each watcher.
    pub deliveries_per_second: f64,
    /// How long publishing takes in the store; 0 where nothing was published.
    pub p99_ms: f64,
    pub rss_bytes: u64,
    /// Processor cores in use.
    pub cpu: f64,
    /// Whether its /readyz says yes.
    pub ready: bool,
    /// Why not, or what an operator should see to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// What all nodes did together, in steps; the newest at the end.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Stats {
    /// From one value to the next.
    pub step_ms: u64,
    #[cfg_attr(test, schema(value_type = Vec<String>))]
    pub at: Vec<Millis>,
    pub series: Series,
}

/// A value for each time; of percentiles that of the slowest node.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Series {
    pub gifts_per_second: Vec<f64>,
    pub deliveries_per_second: Vec<f64>,
    pub watchers: Vec<f64>,
    pub publish_p99_ms: Vec<f64>,
    pub delivery_p99_ms: Vec<f64>,
    pub rss_bytes: Vec<f64>,
    pub store_p99_ms: Vec<f64>,
    /// Requests answered with 5xx.
    pub errors_per_second: Vec<f64>,
}
