//! Answers about all feeds.

use serde::Serialize;

use crate::domain::{FeedId, Millis, Visibility};
use crate::engine::{self, FeedPage};

/// Feeds by name, and behind which name the next page begins.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct FeedList {
    #[cfg_attr(test, schema(max_items = 1000))]
    feeds: Vec<FeedSummary>,
    /// What the next page is asked for with; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<String>))]
    next: Option<FeedId>,
}

/// How a feed stands.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct FeedSummary {
    #[cfg_attr(test, schema(value_type = String))]
    feed: FeedId,
    epoch: String,
    seq: u64,
    /// Watchers on all nodes.
    watchers: u64,
    /// Rows of its list.
    rows: u64,
    visibility: Visibility,
    /// When it changed last; null if it never did.
    #[cfg_attr(test, schema(value_type = Option<String>, format = DateTime, required))]
    last_at: Option<Millis>,
    /// True if what is stored of it cannot be read; absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(test, schema(required = false))]
    damaged: bool,
}

impl From<FeedPage> for FeedList {
    fn from(page: FeedPage) -> Self {
        FeedList { feeds: page.feeds.into_iter().map(FeedSummary::from).collect(), next: page.next }
    }
}

impl From<engine::FeedSummary> for FeedSummary {
    fn from(it: engine::FeedSummary) -> Self {
        FeedSummary {
            feed: it.feed,
            epoch: it.at.epoch.to_string(),
            seq: it.at.seq,
            watchers: it.watchers,
            rows: it.rows,
            visibility: it.visibility,
            last_at: it.last_at,
            damaged: it.is_damaged,
        }
    }
}
