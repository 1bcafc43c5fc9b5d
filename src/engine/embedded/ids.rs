//! What was answered to each gift id. New ids are logged by the commit that brings them and stay in memory; they
//! come to the table `ids` when the log is settled, feed by feed and in order. An id is
//! forgotten when its window is over, and not while its gift waits.
//!
//! A row of the table holds ids of one feed that follow each other, in the order of their bytes: an insert costs as much
//! as spelling a dozen ids. Its key is a bound: no id in it is smaller, and all of the row before it are.

use rusqlite::{Row as SqlRow, params};

use super::db::{self, Db, text};
use super::fault::Step;
use super::id_lines::IdLines;
use super::known_ids::KnownIds;
use super::seal::{self, Found};
use crate::domain::answer::Remembered;
use crate::domain::{GiftId, Millis};

/// Bytes of ids in a row when some come between others, as those do that are made at random. With more a row has a page
/// of its own beside its leaf's, and both are written when one comes: that is so from 1 002 on, in a table without row numbers
/// and with pages of 4 KiB.
const SHORT: usize = 900;

/// When they come behind all of their feed, or many at once: what the leaf and a page of its own hold.
const LONG: usize = 4300;

/// Ids that are many.
const MANY: usize = 8;

/// Rows that one round of [`Ids::forget`] looks at, at most.
const ROUND: usize = 16_384;

const PUT: &str = "INSERT OR REPLACE INTO ids VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// Looks for ids to forget, in turn through the whole table: an index by time would cost every id as much as
/// writing it does.
pub(super) struct Ids {
    known: KnownIds,
    /// Ids written since they were looked after the last time: as many rows are looked at, of which each holds one or more, so the
    /// table can't outgrow it.
    written: usize,
    /// The last row that it looked at in this turn, by feed and key.
    looked_at: (i64, String),
    /// All ids that it saw in this turn, or that came since it began, hold until then.
    hold: Millis,
    /// Until then nothing can be forgotten.
    rest: Millis,
}

impl Default for Ids {
    fn default() -> Ids {
        let known = KnownIds::default();
        Ids {
            known,
            written: 0,
            looked_at: (i64::MIN, String::new()),
            hold: Millis::MAX,
            rest: Millis(i64::MIN),
        }
    }
}

impl Ids {
    /// With what is known of the ids in the table.
    pub(super) fn read(db: &Db) -> Step<Ids> {
        Ok(Ids { known: KnownIds::read(db)?, ..Ids::default() })
    }

    /// What the table says was answered to a gift id, and until when that is remembered.
    pub(super) fn find(&self, db: &Db, feed: i64, id: &GiftId) -> Step<Option<(Remembered, Millis)>> {
        if !self.known.may_hold(feed, id.as_str()) {
            return Ok(None);
        }
        let Some((_, body)) = row_of(db, feed, id.as_str())? else { return Ok(None) };
        let found = IdLines::all(&body)?.into_iter().find(|it| it.id == id.as_str());
        found.map(|it| Ok((it.read()?, it.until))).transpose()
    }

    /// Brings what became of gift ids to the table; they are in order, each of them once.
    pub(super) fn put(&mut self, db: &Db, feed: i64, all: &[IdLines<'_>]) -> Step<()> {
        let mut rest = all;
        while let Some(first) = rest.first() {
            db.begin()?;
            let next = "SELECT first FROM ids WHERE feed = ?1 AND first > ?2 ORDER BY first LIMIT 1";
            let next = db.value::<String>(next, params![feed, first.id])?;
            let those = next.as_ref().map_or(rest.len(), |next| rest.partition_point(|it| *it.id < **next));
            let (new, later) = rest.split_at(those);
            let row = row_of(db, feed, first.id)?;
            let (key, old) = row.as_ref().map_or((first.id, ""), |(key, body)| (key.as_str(), body.as_str()));
            let old = IdLines::all(old)?;
            let all = merged(&old, new);
            let are_behind = old.last().is_none_or(|last| last.id < first.id);
            if are_behind && (next.is_none() || new.len() >= MANY) {
                put_rows(db, feed, key, &all, (old.len(), LONG, LONG))?;
            } else {
                let most = if new.len() < MANY { SHORT } else { LONG };
                // Each row gets some room for what comes between its ids.
                let total: usize = all.iter().map(|it| it.text.len()).sum();
                put_rows(db, feed, key, &all, (0, most, total / total.div_ceil(most).max(1)))?;
            }
            for it in new {
                self.written += 1;
                // The search may rest, or have passed here: either way it must not rest longer than this.
                self.hold = self.hold.min(it.until);
                self.rest = self.rest.min(it.until);
                self.known.add(feed, it.id);
            }
            rest = later;
        }
        Ok(())
    }

    /// Ids written since the last round.
    pub(super) fn written(&self) -> usize {
        self.written
    }

    /// One round: looks at some ids and forgets those whose window is over at `now`. After a turn in which all
    /// still held, it rests until the first does not. What cannot be read stays, and is for whoever asks for it.
    pub(super) fn forget(&mut self, db: &Db, now: Millis) -> Step<()> {
        let most = (self.written + 256).min(ROUND);
        self.written = self.written.saturating_sub(most);
        self.look(db, now, most)
    }

    fn look(&mut self, db: &Db, now: Millis, most: usize) -> Step<()> {
        if now < self.rest {
            return Ok(());
        }
        let mut last = std::mem::replace(&mut self.looked_at, (i64::MIN, String::new()));
        let (mut looked, mut over) = (0, Vec::new());
        {
            let sql = "SELECT * FROM ids WHERE (feed, first) > (?1, ?2) ORDER BY feed, first LIMIT ?3";
            let mut query = db.conn.prepare_cached(sql)?;
            let mut rows = query.query(params![last.0, last.1, most as i64])?;
            while let Some(r) = rows.next()? {
                looked += 1;
                if looked == most {
                    last = (r.get(0)?, r.get_ref(1)?.as_str().unwrap_or_default().to_owned());
                }
                let least = Millis(r.get(3)?);
                if least > now {
                    self.hold = self.hold.min(least);
                } else if seal::check(r).is_ok_and(|found| found == Found::Whole) {
                    over.push((r.get::<_, i64>(0)?, r.get::<_, String>(1)?, r.get::<_, String>(4)?));
                }
            }
        }
        if !over.is_empty() {
            self.hold = self.hold.min(now);
            db.begin()?;
            for (feed, key, body) in over {
                let Ok(mut lines) = IdLines::all(&body) else { continue };
                lines.retain(|it| it.until > now);
                if lines.is_empty() {
                    db.run("DELETE FROM ids WHERE feed = ?1 AND first = ?2", params![feed, key])?;
                } else {
                    put_row(&mut *db.conn.prepare_cached(PUT)?, feed, &key, &lines)?;
                }
            }
        }
        if looked == most {
            self.looked_at = last;
        } else {
            self.rest = std::mem::replace(&mut self.hold, Millis::MAX);
        }
        Ok(())
    }
}

/// The key and the ids of the row in which this id stands if it stands anywhere; none when there is no such row.
fn row_of(db: &Db, feed: i64, id: &str) -> Step<Option<(String, String)>> {
    // Two, so that a row that belongs to another feed is passed over.
    let sql = "SELECT * FROM ids WHERE feed = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 2";
    let read = |r: &SqlRow<'_>| Ok((text(r, 1)?.to_owned(), text(r, 4)?.to_owned()));
    db.one(sql, params![feed, id], read)
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

/// Puts ids into rows of which the first has this key. `same`: that row has these first ones of them, and no others.
/// `most`, `enough`: a row gets no id more when it has as many bytes as is enough, nor one with which it had more than the most.
fn put_rows(
    db: &Db,
    feed: i64,
    key: &str,
    all: &[IdLines<'_>],
    (same, most, enough): (usize, usize, usize),
) -> Step<()> {
    let mut insert = db.conn.prepare_cached(PUT)?;
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
            put_row(&mut insert, feed, key, these)?;
        }
        key = later.first().map_or("", |it| it.id);
        rest = later;
    }
    Ok(())
}

/// Puts these ids, of which there is at least one, into a row.
pub(super) fn put_row(
    insert: &mut rusqlite::Statement<'_>,
    feed: i64,
    key: &str,
    lines: &[IdLines<'_>],
) -> Step<()> {
    let mut body = String::with_capacity(lines.iter().map(|it| it.text.len()).sum());
    lines.iter().for_each(|it| body.push_str(it.text));
    let least = lines.iter().map(|it| it.until.0).min().unwrap_or(i64::MAX);
    db::put(insert, params![feed, key, lines.len() as i64, least, body])
}
