//! Who reads ledgers, and what each has of its own: `readers` says up to where each was handed its entries; `pending`
//! what a group has in hand, and what a reader is sent again, with its body, because the ledger may have forgotten
//! it; `letters` what was given up.

use rusqlite::{Row as SqlRow, params};

use super::db::{Db, parsed, text};
use super::fault::Step;
use super::ledger::{Kept, names};
use crate::domain::{DeadLetter, FeedId, Job, Millis, Reader};

/// How far a reader has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// The last number it was handed; of a webhook, the last it is done with.
    pub(super) handed: u64,
    /// Entries that were cut before it had acknowledged them.
    pub(super) lost: u64,
    /// What its sender remembers.
    pub(super) progress: String,
}

/// An entry in a reader's hands, or on its way there once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InHand {
    /// Its number.
    pub(super) no: u64,
    /// When its lease ends; 0 when it was given back.
    pub(super) until: Millis,
    /// How often it was handed out.
    pub(super) attempts: u64,
    /// Its record, when it is not to be looked for in the ledger.
    pub(super) body: Option<String>,
}

/// How far a reader has come; none when there is no such reader.
pub(super) fn standing(db: &Db, feed: i64, reader: &Reader) -> Step<Option<Standing>> {
    let sql = "SELECT * FROM readers WHERE feed = ?1 AND name = ?2";
    db.one(sql, params![feed, reader.to_string()], |r| {
        Ok(Standing { handed: r.get(2)?, lost: r.get(3)?, progress: r.get(4)? })
    })
}

/// Writes how far a reader has come.
pub(super) fn stand(db: &Db, feed: i64, reader: &Reader, standing: &Standing) -> Step<()> {
    let sql = "INSERT OR REPLACE INTO readers VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let Standing { handed, lost, progress } = standing;
    db.put(sql, params![feed, reader.to_string(), handed, lost, progress])
}

/// Who reads a feed's ledger, by name.
pub(super) fn of_feed(db: &Db, feed: i64) -> Step<Vec<Reader>> {
    db.all("SELECT * FROM readers WHERE feed = ?1 ORDER BY name", [feed], |r| parsed(r, 1))
}

/// Groups of all feeds, by feed and name, at most `max`; without those whose names cannot be read.
pub(super) fn all_groups(db: &Db, max: usize) -> Step<Vec<(FeedId, Reader)>> {
    let sql = "SELECT f.name, r.name FROM readers r JOIN feeds f ON f.no = r.feed
        WHERE r.name >= 'g:' AND r.name < 'g;' ORDER BY f.name, r.name LIMIT ?1";
    pairs(db, sql, [max as i64])
}

/// Webhooks' work that there is.
pub(super) fn jobs(db: &Db) -> Step<Vec<Job>> {
    let sql = "SELECT f.name, r.name FROM readers r JOIN feeds f ON f.no = r.feed
        WHERE NOT (r.name >= 'g:' AND r.name < 'g;') AND (
            r.handed < (SELECT max(last) FROM ledger l WHERE l.feed = r.feed)
            OR EXISTS (SELECT 1 FROM pending p WHERE p.feed = r.feed AND p.reader = r.name))";
    Ok(pairs(db, sql, [])?.into_iter().map(|(feed, reader)| Job { feed, reader }).collect())
}

fn pairs(db: &Db, sql: &str, params: impl rusqlite::Params) -> Step<Vec<(FeedId, Reader)>> {
    let mut query = db.conn.prepare_cached(sql)?;
    let mut rows = query.query(params)?;
    let mut found = Vec::new();
    while let Some(r) = rows.next()? {
        let pair = text(r, 0)?.parse().ok().zip(text(r, 1)?.parse().ok());
        found.extend(pair);
    }
    Ok(found)
}

/// Forgets a reader with all it has; false when there is no such reader.
pub(super) fn forget(db: &Db, feed: i64, reader: &Reader) -> Step<bool> {
    let name = reader.to_string();
    db.run("DELETE FROM pending WHERE feed = ?1 AND reader = ?2", params![feed, name])?;
    db.run("DELETE FROM letters WHERE feed = ?1 AND reader = ?2", params![feed, name])?;
    Ok(db.run("DELETE FROM readers WHERE feed = ?1 AND name = ?2", params![feed, name])? > 0)
}

/// Feeds that a reader of this name reads.
pub(super) fn feeds_of(db: &Db, reader: &Reader) -> Step<Vec<FeedId>> {
    let sql = "SELECT f.name FROM readers r JOIN feeds f ON f.no = r.feed WHERE r.name = ?1";
    names(db, sql, [reader.to_string()])
}

/// Entries in a reader's hands whose lease ended by `now`, in the ledger's order, at most `max`.
pub(super) fn over(db: &Db, feed: i64, reader: &Reader, now: Millis, max: usize) -> Step<Vec<InHand>> {
    let sql = "SELECT * FROM pending INDEXED BY pending_until
        WHERE feed = ?1 AND reader = ?2 AND until <= ?3 ORDER BY no LIMIT ?4";
    db.all(sql, params![feed, reader.to_string(), now.0, max as i64], read_in_hand)
}

/// One entry in a reader's hands.
pub(super) fn in_hand(db: &Db, feed: i64, reader: &Reader, no: u64) -> Step<Option<InHand>> {
    let sql = "SELECT * FROM pending WHERE feed = ?1 AND reader = ?2 AND no = ?3";
    db.one(sql, params![feed, reader.to_string(), no], read_in_hand)
}

/// Writes an entry in a reader's hands.
pub(super) fn hand(db: &Db, feed: i64, reader: &Reader, it: &InHand) -> Step<()> {
    let sql = "INSERT OR REPLACE INTO pending VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let InHand { no, until, attempts, body } = it;
    db.put(sql, params![feed, reader.to_string(), no, until.0, attempts, body])
}

/// Takes an entry out of a reader's hands; false when it is not there.
pub(super) fn let_go(db: &Db, feed: i64, reader: &Reader, no: u64) -> Step<bool> {
    let sql = "DELETE FROM pending WHERE feed = ?1 AND reader = ?2 AND no = ?3";
    Ok(db.run(sql, params![feed, reader.to_string(), no])? > 0)
}

/// Gives an entry in a reader's hands back; false when it is not there.
pub(super) fn give_back(db: &Db, feed: i64, reader: &Reader, no: u64) -> Step<bool> {
    match in_hand(db, feed, reader, no)? {
        Some(it) => hand(db, feed, reader, &InHand { until: Millis(0), ..it }).map(|()| true),
        None => Ok(false),
    }
}

/// Takes entries of the ledger up to `through` out of a reader's hands. How many there were.
pub(super) fn let_go_through(db: &Db, feed: i64, reader: &Reader, through: u64) -> Step<u64> {
    let sql = "DELETE FROM pending WHERE feed = ?1 AND reader = ?2 AND no <= ?3 AND body IS NULL";
    Ok(db.run(sql, params![feed, reader.to_string(), through])? as u64)
}

/// How many entries a reader has in its hands.
pub(super) fn hands(db: &Db, feed: i64, reader: &Reader) -> Step<u64> {
    let sql = "SELECT count(*) FROM pending WHERE feed = ?1 AND reader = ?2";
    Ok(db.value(sql, params![feed, reader.to_string()])?.unwrap_or(0))
}

/// When the first of a reader's leases ends.
pub(super) fn first_over(db: &Db, feed: i64, reader: &Reader) -> Step<Option<Millis>> {
    let sql = "SELECT min(until) FROM pending WHERE feed = ?1 AND reader = ?2";
    Ok(db.value(sql, params![feed, reader.to_string()])?.map(Millis))
}

/// The oldest entry in a reader's hands.
pub(super) fn oldest_in_hand(db: &Db, feed: i64, reader: &Reader) -> Step<Option<InHand>> {
    let sql = "SELECT * FROM pending WHERE feed = ?1 AND reader = ?2 ORDER BY no LIMIT 2";
    db.one(sql, params![feed, reader.to_string()], read_in_hand)
}

/// The oldest entry of the ledger that a reader has in its hands.
pub(super) fn holds_from(db: &Db, feed: i64, reader: &Reader) -> Step<Option<u64>> {
    let sql = "SELECT no FROM pending WHERE feed = ?1 AND reader = ?2 AND body IS NULL ORDER BY no LIMIT 1";
    db.value(sql, params![feed, reader.to_string()])
}

/// What a reader is sent again, the oldest first, at most `max`.
pub(super) fn again(db: &Db, feed: i64, reader: &Reader, max: usize) -> Step<Vec<Kept>> {
    let sql = "SELECT * FROM pending WHERE feed = ?1 AND reader = ?2 AND body IS NOT NULL
        ORDER BY no LIMIT ?3";
    let read = |r: &SqlRow<'_>| Ok(Kept { no: r.get(2)?, body: r.get(5)? });
    db.all(sql, params![feed, reader.to_string(), max as i64], read)
}

/// Keeps a dead letter; the oldest beyond `most` go.
pub(super) fn write_letter(
    db: &Db,
    feed: i64,
    reader: &Reader,
    it: &Kept,
    (died_at, attempts, reason): (Millis, u64, &str),
    most: u64,
) -> Step<()> {
    let reader = reader.to_string();
    let sql = "INSERT INTO letters VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let place = db.value::<i64>("SELECT max(place) FROM letters", [])?.unwrap_or(0) + 1;
    db.put(sql, params![place, feed, reader, it.no, died_at.0, attempts, reason, it.body])?;
    let sql = "DELETE FROM letters WHERE reader = ?1 AND feed = ?2 AND place <= (SELECT place FROM letters
        WHERE reader = ?1 AND feed = ?2 ORDER BY place DESC LIMIT 1 OFFSET ?3)";
    db.run(sql, params![reader, feed, most]).map(drop)
}

/// A reader's dead letters, the oldest first, each with its place.
pub(super) fn letters(db: &Db, feed: i64, reader: &Reader) -> Step<Vec<(i64, Kept, DeadLetter)>> {
    let sql = "SELECT * FROM letters WHERE reader = ?1 AND feed = ?2 ORDER BY place";
    db.all(sql, params![reader.to_string(), feed], |r| {
        let kept = Kept { no: r.get(3)?, body: r.get(7)? };
        let (died_at, attempts, entry) = (Millis(r.get(4)?), r.get(5)?, kept.entry()?);
        Ok((r.get(0)?, kept, DeadLetter { died_at, reason: r.get(6)?, attempts, entry }))
    })
}

/// How many dead letters a reader has.
pub(super) fn count_letters(db: &Db, feed: i64, reader: &Reader) -> Step<u64> {
    let sql = "SELECT count(*) FROM letters WHERE reader = ?1 AND feed = ?2";
    Ok(db.value(sql, params![reader.to_string(), feed])?.unwrap_or(0))
}

/// Takes a dead letter off the list.
pub(super) fn remove_letter(db: &Db, place: i64) -> Step<()> {
    db.run("DELETE FROM letters WHERE place = ?1", [place]).map(drop)
}

/// Feeds in which a reader of this name has dead letters, at most `max`.
pub(super) fn letter_feeds(db: &Db, reader: &Reader, max: usize) -> Step<Vec<FeedId>> {
    let sql = "SELECT DISTINCT f.name FROM letters l JOIN feeds f ON f.no = l.feed WHERE l.reader = ?1
        ORDER BY f.name LIMIT ?2";
    names(db, sql, params![reader.to_string(), max as i64])
}

fn read_in_hand(r: &SqlRow<'_>) -> Step<InHand> {
    Ok(InHand { no: r.get(2)?, until: Millis(r.get(3)?), attempts: r.get(4)?, body: r.get(5)? })
}
