//! Sources of a feed, what came to each, and refunds. They stand under the feed's name and not its number: a source
//! does not begin a feed.

use std::collections::BTreeMap;

use rusqlite::{Row as SqlRow, params};

use super::db::{Db, parsed, text};
use super::fault::{Fault, Step};
use super::txn::FeedTxn;
use crate::domain::{FeedId, GiftId, Source, SourceId, SourceNote, SourceTally};
use crate::engine::{Kept, REFUNDS_MAX, SOURCES_MAX, Swapped};

/// See [`crate::engine::ListSources`].
pub(super) fn all(txn: &FeedTxn<'_>) -> Step<Vec<Kept>> {
    txn.db.all("SELECT * FROM sources WHERE feed = ?1 ORDER BY name", [txn.name.as_str()], read)
}

/// See [`crate::engine::SwapSource`].
pub(super) fn swap(
    txn: &mut FeedTxn<'_>,
    name: &SourceId,
    was: Option<u64>,
    to: Option<&Source>,
) -> Step<Swapped> {
    let known = all(txn)?;
    let old = known.iter().find(|(id, ..)| id == name);
    if old.map(|(_, source, _)| source.version) != was {
        return Ok(Swapped::Stale);
    }
    if old.is_none() && to.is_some() && known.len() >= SOURCES_MAX {
        return Ok(Swapped::Full);
    }
    let tally = old.map(|(.., tally)| tally.clone()).unwrap_or_default();
    txn.touch()?;
    match to {
        Some(source) => put(txn.db, txn.name, name, source, &tally)?,
        None => {
            let sql = "DELETE FROM sources WHERE feed = ?1 AND name = ?2";
            txn.db.run(sql, params![txn.name.as_str(), name.as_str()])?;
        }
    }
    Ok(Swapped::Done)
}

/// See [`crate::engine::RecordDelivery`].
pub(super) fn note(txn: &mut FeedTxn<'_>, name: &SourceId, note: &SourceNote) -> Step<()> {
    let known = all(txn)?.into_iter().find(|(id, ..)| id == name);
    let Some((_, source, mut tally)) = known else { return Ok(()) };
    tally.note(note, txn.now);
    txn.touch()?;
    put(txn.db, txn.name, name, &source, &tally)
}

/// See [`crate::engine::RecordRefund`]. Of the feed's refunds the newest stay.
pub(super) fn note_refund(txn: &mut FeedTxn<'_>, gift: &GiftId) -> Step<()> {
    txn.touch()?;
    let feed = txn.name.as_str();
    let sql = "INSERT OR REPLACE INTO refunds VALUES (?1, ?2, ?3, ?4)";
    txn.db.put(sql, params![feed, gift.as_str(), txn.now.0])?;
    let sql = "DELETE FROM refunds WHERE feed = ?1 AND gift IN
        (SELECT gift FROM refunds WHERE feed = ?1 ORDER BY at DESC, gift DESC LIMIT -1 OFFSET ?2)";
    txn.db.run(sql, params![feed, REFUNDS_MAX as i64]).map(drop)
}

/// See [`crate::engine::IsRefunded`].
pub(super) fn is_refunded(txn: &FeedTxn<'_>, gift: &GiftId) -> Step<bool> {
    let sql = "SELECT * FROM refunds WHERE feed = ?1 AND gift = ?2";
    Ok(txn.db.one(sql, params![txn.name.as_str(), gift.as_str()], |_| Ok(()))?.is_some())
}

fn put(db: &Db, feed: &FeedId, name: &SourceId, source: &Source, tally: &SourceTally) -> Step<()> {
    let sql = "INSERT OR REPLACE INTO sources VALUES (?1, ?2, ?3, ?4, ?5)";
    let (body, came) = (serde_json::json!(source), serde_json::json!(tally.fields()));
    db.put(sql, params![feed.as_str(), name.as_str(), body.to_string(), came.to_string()])
}

fn read(r: &SqlRow<'_>) -> Step<Kept> {
    let garbled = |e: serde_json::Error| Fault::garbled(format!("a source cannot be read: {e}"));
    let source = serde_json::from_str(text(r, 2)?).map_err(garbled)?;
    let came: BTreeMap<String, String> = serde_json::from_str(text(r, 3)?).map_err(garbled)?;
    let fields = came.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Ok((parsed(r, 1)?, source, SourceTally::of_fields(fields)))
}
