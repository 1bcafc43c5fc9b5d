//! One run of a feed's ids (see [`super::id_runs`]): rows of ids that follow each other, in the order of their bytes. An insert
//! costs as much as spelling a dozen ids, so many stand in a row. A row's key is a bound: no id in it is smaller, and all
//! of the row before are.

use rusqlite::{Row as SqlRow, params};

use super::db::{self, Db, text};
use super::fault::Step;
use super::id_lines::IdLines;

/// Bytes of ids in a row when few came between others. With more a row has a page
/// of its own beside its leaf's, and both are written when one comes: that is so from 1 002 on, in a table without row numbers
/// and with pages of 4 KiB.
const SHORT: usize = 900;

/// When they come behind all others, or many at once: what the leaf and a page of its own hold.
const LONG: usize = 4300;

/// Ids that are many.
const MANY: usize = 8;

const PUT: &str = "INSERT OR REPLACE INTO ids VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The feed's number.
    pub(super) feed: i64,
    /// Its own, within the feed.
    pub(super) run: i64,
}

/// A row.
pub(super) struct IdRow {
    pub(super) key: String,
    /// How many ids it has, and their lines.
    pub(super) count: usize,
    pub(super) body: String,
}

impl Run {
    /// The row in which this id stands if it stands anywhere; none when there is no such row.
    pub(super) fn row_of(self, db: &Db, id: &str) -> Step<Option<IdRow>> {
        // Two, so that a row that belongs to another feed is passed over.
        let sql =
            "SELECT * FROM ids WHERE feed = ?1 AND run = ?2 AND first <= ?3 ORDER BY first DESC LIMIT 2";
        db.one(sql, params![self.feed, self.run, id], read)
    }

    /// The row behind the one with this key.
    pub(super) fn row_behind(self, db: &Db, key: &str) -> Step<Option<IdRow>> {
        let sql = "SELECT * FROM ids WHERE feed = ?1 AND run = ?2 AND first > ?3 ORDER BY first LIMIT 2";
        db.one(sql, params![self.feed, self.run, key], read)
    }

    /// The key of the last row.
    pub(super) fn last_key(self, db: &Db) -> Step<Option<String>> {
        let sql = "SELECT first FROM ids WHERE feed = ?1 AND run = ?2 ORDER BY first DESC LIMIT 1";
        db.value(sql, params![self.feed, self.run])
    }

    /// How many rows are behind this key, and not more than so many.
    pub(super) fn count_behind(self, db: &Db, key: &str, most: usize) -> Step<usize> {
        let sql =
            "SELECT count(*) FROM (SELECT 1 FROM ids WHERE feed = ?1 AND run = ?2 AND first > ?3 LIMIT ?4)";
        Ok(db.value(sql, params![self.feed, self.run, key, most as i64])?.unwrap_or(0))
    }

    /// Removes a row.
    pub(super) fn remove(self, db: &Db, key: &str) -> Step<()> {
        let sql = "DELETE FROM ids WHERE feed = ?1 AND run = ?2 AND first = ?3";
        db.run(sql, params![self.feed, self.run, key]).map(drop)
    }

    /// Brings ids to their rows; they are in order, each of them once.
    pub(super) fn put(self, db: &Db, all: &[IdLines<'_>]) -> Step<()> {
        let mut rest = all;
        while let Some(first) = rest.first() {
            db.begin()?;
            let next =
                "SELECT first FROM ids WHERE feed = ?1 AND run = ?2 AND first > ?3 ORDER BY first LIMIT 1";
            let next = db.value::<String>(next, params![self.feed, self.run, first.id])?;
            let those = next.as_ref().map_or(rest.len(), |next| rest.partition_point(|it| *it.id < **next));
            let (new, later) = rest.split_at(those);
            let row = self.row_of(db, first.id)?;
            let (key, old) = row.as_ref().map_or((first.id, ""), |row| (&*row.key, &*row.body));
            let old = IdLines::all(old)?;
            let ids = merged(&old, new);
            if old.last().is_none_or(|last| last.id < first.id) && (next.is_none() || new.len() >= MANY) {
                self.put_rows(db, key, &ids, (old.len(), LONG, LONG))?;
            } else {
                let most = if new.len() < MANY { SHORT } else { LONG };
                // Each row gets some room for what comes between its ids.
                let total: usize = ids.iter().map(|it| it.text.len()).sum();
                self.put_rows(db, key, &ids, (0, most, total / total.div_ceil(most).max(1)))?;
            }
            rest = later;
        }
        Ok(())
    }

    /// Puts ids into rows of which the first has this key. `same`: that row has these first ones of them, and no others.
    /// `most`, `enough`: a row gets no id more when it has as many bytes as is enough, nor one with which it had more than the most.
    fn put_rows(
        self,
        db: &Db,
        key: &str,
        all: &[IdLines<'_>],
        (same, most, enough): (usize, usize, usize),
    ) -> Step<()> {
        let (mut rest, mut key) = (all, key);
        while let Some(first) = rest.first() {
            let mut len = first.text.len();
            let more = rest[1..].iter().take_while(|it| {
                let fits = len < enough && len + it.text.len() <= most;
                len += it.text.len();
                fits
            });
            let (these, later) = rest.split_at(1 + more.count());
            let is_there = rest.len() == all.len() && these.len() == same;
            if !is_there {
                self.put_row(db, key, these)?;
            }
            key = later.first().map_or("", |it| it.id);
            rest = later;
        }
        Ok(())
    }

    /// Puts these ids, of which there is at least one, into a row.
    pub(super) fn put_row(self, db: &Db, key: &str, lines: &[IdLines<'_>]) -> Step<()> {
        let mut body = String::with_capacity(lines.iter().map(|it| it.text.len()).sum());
        lines.iter().for_each(|it| body.push_str(it.text));
        let least = lines.iter().map(|it| it.until.0).min().unwrap_or(i64::MAX);
        let insert = &mut *db.conn.prepare_cached(PUT)?;
        db::put(insert, params![self.feed, self.run, key, lines.len() as i64, least, body])
    }
}

fn read(r: &SqlRow<'_>) -> Step<IdRow> {
    Ok(IdRow { key: text(r, 2)?.to_owned(), count: r.get(3)?, body: text(r, 5)?.to_owned() })
}

/// Both in order; of an id that is in both, the newer.
fn merged<'a>(old: &[IdLines<'a>], new: &[IdLines<'a>]) -> Vec<IdLines<'a>> {
    let (mut all, mut old) = (Vec::with_capacity(old.len() + new.len()), old.iter().peekable());
    for it in new {
        all.extend(std::iter::from_fn(|| old.next_if(|before| before.id < it.id)));
        old.next_if(|before| before.id == it.id);
        all.push(*it);
    }
    all.extend(old);
    all
}
