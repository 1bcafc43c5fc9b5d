//! The tables of sources and refunds.

use std::collections::BTreeMap;

use rusqlite::{Row as SqlRow, params};

use super::{Store, parsed, unreadable};
use crate::domain::{FeedId, GiftId, Millis, Source, SourceId, SourceTally};
use crate::engine::Kept;

/// By the feed's name and not its number: a source does not begin a feed.
pub const TABLES: &str = "
CREATE TABLE sources (
    feed TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, came TEXT NOT NULL, PRIMARY KEY (feed, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE refunds (
    feed TEXT NOT NULL, gift TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (feed, gift)
) STRICT, WITHOUT ROWID;
";

impl Store {
    /// A feed's sources, by name.
    pub fn sources(&self, feed: &FeedId) -> rusqlite::Result<Vec<Kept>> {
        let sql = "SELECT name, body, came FROM sources WHERE feed = ?1 ORDER BY name";
        self.db.prepare_cached(sql)?.query_map([feed.as_str()], read)?.collect()
    }

    /// Writes a source and what came to it, or with none forgets both.
    pub fn put_source(
        &self,
        feed: &FeedId,
        name: &SourceId,
        to: Option<(&Source, &SourceTally)>,
    ) -> rusqlite::Result<()> {
        match to {
            Some((source, tally)) => {
                let sql = "INSERT OR REPLACE INTO sources (feed, name, body, came) VALUES (?1, ?2, ?3, ?4)";
                let (body, came) = (serde_json::json!(source), serde_json::json!(tally.fields()));
                let fields = params![feed.as_str(), name.as_str(), body.to_string(), came.to_string()];
                self.db.prepare_cached(sql)?.execute(fields)
            }
            None => {
                let sql = "DELETE FROM sources WHERE feed = ?1 AND name = ?2";
                self.db.prepare_cached(sql)?.execute(params![feed.as_str(), name.as_str()])
            }
        }
        .map(drop)
    }

    /// Remembers a refund, and of the feed's the newest so many.
    pub fn put_refund(&self, feed: &FeedId, gift: &GiftId, at: Millis, most: usize) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO refunds (feed, gift, at) VALUES (?1, ?2, ?3)";
        self.db.prepare_cached(sql)?.execute(params![feed.as_str(), gift.as_str(), at.0])?;
        let sql = "DELETE FROM refunds WHERE feed = ?1 AND gift IN \
            (SELECT gift FROM refunds WHERE feed = ?1 ORDER BY at DESC, gift DESC LIMIT -1 OFFSET ?2)";
        self.db.prepare_cached(sql)?.execute(params![feed.as_str(), most as i64])?;
        Ok(())
    }

    /// Whether a gift is refunded.
    pub fn is_refunded(&self, feed: &FeedId, gift: &GiftId) -> rusqlite::Result<bool> {
        let sql = "SELECT 1 FROM refunds WHERE feed = ?1 AND gift = ?2";
        self.db.prepare_cached(sql)?.exists(params![feed.as_str(), gift.as_str()])
    }
}

fn read(r: &SqlRow<'_>) -> rusqlite::Result<Kept> {
    let source = serde_json::from_str(r.get_ref(1)?.as_str()?).map_err(|e| unreadable(1, e))?;
    let came: BTreeMap<String, String> =
        serde_json::from_str(r.get_ref(2)?.as_str()?).map_err(|e| unreadable(2, e))?;
    let fields = came.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Ok((parsed(r, 0)?, source, SourceTally::of_fields(fields)))
}
