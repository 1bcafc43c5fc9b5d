//! The due queues of feeds: `due` holds what waits for its time, `dead` what was given up; and in memory, when each
//! feed has something due next.

use std::collections::{BTreeSet, HashMap};

use rusqlite::{Row as SqlRow, params};

use super::db::{Db, text};
use super::fault::{Fault, Step};
use crate::domain::{DuePlace, FeedId, Millis};
use crate::engine::{DEAD_KEPT, DeadDue, DueFeed, DueTurn};

/// An entry of a feed's due queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DueEntry {
    /// When it is due, and its place among those of the same time.
    pub(super) place: DuePlace,
    /// See [`crate::domain::DueKind::letter`]; as it stands in the table, so that it can be one that this
    /// version does not know.
    pub(super) kind: char,
    /// What it is about.
    pub(super) id: String,
    /// What is needed to handle it; of a gift, its record.
    pub(super) body: String,
    /// How often it could not be handled.
    pub(super) tries: u64,
}

/// When each feed has something due next; a copy in memory of what the table says.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    at: HashMap<FeedId, Millis>,
    by_time: BTreeSet<(Millis, FeedId)>,
    /// The next entry's place; one that no entry in the table has.
    next_place: u64,
    /// In how many milliseconds something is due that came in before everything else, since the last look.
    sooner: Option<u64>,
}

impl Agenda {
    /// As the table says.
    pub(super) fn read(db: &Db) -> Step<Agenda> {
        let sql = "SELECT f.name, d.at FROM (SELECT feed, min(at) AS at FROM due GROUP BY feed) d
            JOIN feeds f ON f.no = d.feed";
        let last: Option<u64> = db.value("SELECT max(place) FROM due", [])?;
        let mut agenda = Agenda { next_place: last.unwrap_or(0) + 1, ..Agenda::default() };
        let mut query = db.conn.prepare(sql)?;
        let mut rows = query.query([])?;
        while let Some(r) = rows.next()? {
            // A name that is none belongs to a feed that is damaged.
            if let Ok(feed) = text(r, 0)?.parse() {
                agenda.set(&feed, Some(Millis(r.get(1)?)), Millis(i64::MAX));
            }
        }
        Ok(agenda)
    }

    /// The feed has something due at this time next, or nothing; the caller's clock says `now`.
    pub(super) fn set(&mut self, feed: &FeedId, at: Option<Millis>, now: Millis) {
        let head = self.by_time.first().map(|(at, _)| *at);
        if let Some(old) = self.at.remove(feed) {
            self.by_time.remove(&(old, feed.clone()));
        }
        if let Some(at) = at {
            self.at.insert(feed.clone(), at);
            self.by_time.insert((at, feed.clone()));
            if head.is_none_or(|head| at < head) {
                let in_ms = at.since(now);
                self.sooner = Some(self.sooner.map_or(in_ms, |sooner| sooner.min(in_ms)));
            }
        }
    }

    fn note(&mut self, feed: &FeedId, at: Millis, now: Millis) {
        if self.at.get(feed).is_none_or(|known| at < *known) {
            self.set(feed, Some(at), now);
        }
    }

    /// Adds an entry to the queue of a feed. Every kind of entry comes in here.
    pub(super) fn add(
        &mut self,
        db: &Db,
        (name, feed): (&FeedId, i64),
        (kind, id, body): (char, &str, String),
        (at, now): (Millis, Millis),
    ) -> Step<()> {
        let place = DuePlace { at, order: self.next_place };
        self.next_place += 1;
        add(db, feed, &DueEntry { place, kind, id: id.to_owned(), body, tries: 0 })?;
        self.note(name, at, now);
        Ok(())
    }

    /// Feeds whose time has come at `now`, those that wait longest first; and the time after theirs.
    pub(super) fn come(&self, max: usize, now: Millis) -> (Vec<FeedId>, Option<Millis>) {
        let is_due = |(at, feed): &(Millis, FeedId)| (*at <= now).then(|| feed.clone());
        let feeds: Vec<_> = self.by_time.iter().map_while(is_due).take(max).collect();
        let next = self.by_time.iter().nth(feeds.len()).map(|(at, _)| *at);
        (feeds, next)
    }

    /// See [`crate::engine::ClaimDue`]. There is one process, so a turn needs no end: the feed stays in
    /// the agenda until its step has put it elsewhere.
    pub(super) fn turn(&self, max: usize, now: Millis) -> DueTurn {
        let (feeds, next) = self.come(max, now);
        let turn = |feed| DueFeed { feed, token: String::new(), reclaimed: false };
        let feeds = feeds.into_iter().map(turn).collect();
        DueTurn { feeds, next_in_ms: next.map(|at| at.since(now)), waiting: self.waiting() }
    }

    /// Feeds in which something waits.
    pub(super) fn waiting(&self) -> u64 {
        self.at.len() as u64
    }

    /// In how many milliseconds, by the clock of the call that brought it, something is due that came before
    /// everything else, if anything did since the last time this was asked.
    pub(super) fn sooner(&mut self) -> Option<u64> {
        self.sooner.take()
    }
}

/// Adds an entry at its place.
pub(super) fn add(db: &Db, feed: i64, entry: &DueEntry) -> Step<()> {
    let sql = "INSERT INTO due VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let DueEntry { place, kind, id, body, tries } = entry;
    db.put(sql, params![feed, place.at.0, place.order, kind.to_string(), id, body, tries])
}

/// Takes an entry out.
pub(super) fn remove(db: &Db, feed: i64, place: DuePlace) -> Step<()> {
    let sql = "DELETE FROM due WHERE feed = ?1 AND at = ?2 AND place = ?3";
    db.run(sql, params![feed, place.at.0, place.order]).map(drop)
}

/// The entry of this kind about this.
pub(super) fn find(db: &Db, feed: i64, kind: char, id: &str) -> Step<Option<DueEntry>> {
    let sql = "SELECT * FROM due WHERE feed = ?1 AND kind = ?2 AND id = ?3";
    db.one(sql, params![feed, kind.to_string(), id], read)
}

/// Entries that are due at `now`, in order, at most `max`.
pub(super) fn due(db: &Db, feed: i64, now: Millis, max: usize) -> Step<Vec<DueEntry>> {
    let sql = "SELECT * FROM due WHERE feed = ?1 AND at <= ?2 ORDER BY at, place LIMIT ?3";
    db.all(sql, params![feed, now.0, max as i64], read)
}

/// Entries of this kind after a place, in order, at most `max`.
pub(super) fn after(db: &Db, feed: i64, kind: char, after: DuePlace, max: usize) -> Step<Vec<DueEntry>> {
    let sql = "SELECT * FROM due WHERE feed = ?1 AND (at, place) > (?2, ?3) AND kind = ?4
        ORDER BY at, place LIMIT ?5";
    db.all(sql, params![feed, after.at.0, after.order, kind.to_string(), max as i64], read)
}

/// When the feed's first entry is due.
pub(super) fn next(db: &Db, feed: i64) -> Step<Option<Millis>> {
    let sql = "SELECT * FROM due WHERE feed = ?1 ORDER BY at, place LIMIT 2";
    Ok(db.one(sql, [feed], read)?.map(|entry| entry.place.at))
}

/// How many entries of this kind wait.
pub(super) fn count(db: &Db, feed: i64, kind: char) -> Step<u64> {
    let sql = "SELECT count(*) FROM due INDEXED BY due_id WHERE feed = ?1 AND kind = ?2";
    Ok(db.value(sql, params![feed, kind.to_string()])?.unwrap_or(0))
}

/// Keeps an entry that was given up; the oldest of too many goes.
pub(super) fn bury(db: &Db, feed: i64, dead: &DeadDue, body: &str) -> Step<()> {
    let sql = "INSERT INTO dead VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let DeadDue { kind, id, due, at, reason } = dead;
    let no = db.value::<i64>("SELECT max(no) FROM dead", [])?.unwrap_or(0) + 1;
    db.put(sql, params![no, feed, kind.to_string(), id, due.0, at.0, reason, body])?;
    let sql = "DELETE FROM dead WHERE feed = ?1 AND no <= (
        SELECT no FROM dead WHERE feed = ?1 ORDER BY no DESC LIMIT 1 OFFSET ?2)";
    db.run(sql, params![feed, DEAD_KEPT as i64]).map(drop)
}

/// What was given up, the newest first.
pub(super) fn dead(db: &Db, feed: i64) -> Step<Vec<DeadDue>> {
    db.all("SELECT * FROM dead WHERE feed = ?1 ORDER BY no DESC", [feed], |r| {
        let (due, at) = (Millis(r.get(4)?), Millis(r.get(5)?));
        Ok(DeadDue { kind: letter(r, 2)?, id: r.get(3)?, due, at, reason: r.get(6)? })
    })
}

fn letter(r: &SqlRow<'_>, column: usize) -> Step<char> {
    text(r, column)?.chars().next().ok_or_else(|| Fault::garbled("something due is of no kind"))
}

fn read(r: &SqlRow<'_>) -> Step<DueEntry> {
    let place = DuePlace { at: Millis(r.get(1)?), order: r.get(2)? };
    Ok(DueEntry { place, kind: letter(r, 3)?, id: r.get(4)?, body: r.get(5)?, tries: r.get(6)? })
}
