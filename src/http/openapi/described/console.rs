//! Section 12 of the contract: what the console reads.

use super::params::FeedsQuery;
use super::refusals::Refusals;
use crate::http::answers::FeedList;

/// List feeds
///
/// By name; only those that the key covers. A new feed appears within 5 s. A page may be short, or empty, and have a
/// `next`.
#[utoipa::path(
    get,
    path = "/v1/feeds",
    operation_id = "listFeeds",
    tag = "operations",
    params(FeedsQuery),
    responses((status = 200, description = "A page of feeds", body = FeedList, example = json!(
        {"feeds": [{"feed": "show", "epoch": "00w6f5hrbbqm5", "seq": 7, "watchers": 2, "rows": 3, "visibility": "public",
            "last_at": "2026-01-31T12:00:00.000Z"}], "next": "show"}
    )), Refusals),
)]
pub(super) fn feeds() {}
