//! The tables of reports: ledgers, who reads them, and what each reader has of its own.
//!
//! `ledger` holds entries in chunks, as `changes` does: a commit touches one page of it per feed. So that a feed
//! that nobody reads costs less, its entries are jotted down in `jots` first, all feeds' side by side, and brought
//! to `ledger` many at a time; what of `jots` is in `ledger` already says the number of its last entry. `readers`
//! says up to where each was handed its entries; `pending` what a group has in hand, and what a reader is
//! sent again, with its body, because the ledger may have forgotten it; `letters` what was given up.

use rusqlite::{OptionalExtension, Row as SqlRow, params};

use super::super::super::record::{ENTRY_LINES, Records};
use super::{Store, parsed, unreadable};
use crate::domain::{Cursor, DeadLetter, Entry, FeedId, Job, Millis, Reader};

/// What layout 5 adds.
pub(super) const TABLES: &str = "
CREATE TABLE ledger (
    feed INTEGER NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL, at INTEGER NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (feed, last)
) STRICT, WITHOUT ROWID;
CREATE TABLE jots (
    place INTEGER PRIMARY KEY, feed INTEGER NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL,
    at INTEGER NOT NULL, body TEXT NOT NULL
) STRICT;
CREATE TABLE readers (
    feed INTEGER NOT NULL, name TEXT NOT NULL, handed INTEGER NOT NULL, lost INTEGER NOT NULL,
    progress TEXT NOT NULL, PRIMARY KEY (feed, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE pending (
    feed INTEGER NOT NULL, reader TEXT NOT NULL, no INTEGER NOT NULL, until INTEGER NOT NULL,
    attempts INTEGER NOT NULL, body TEXT, PRIMARY KEY (feed, reader, no)
) STRICT, WITHOUT ROWID;
CREATE INDEX pending_until ON pending (feed, reader, until);
CREATE TABLE letters (
    place INTEGER PRIMARY KEY, feed INTEGER NOT NULL, reader TEXT NOT NULL, no INTEGER NOT NULL,
    died_at INTEGER NOT NULL, attempts INTEGER NOT NULL, reason TEXT NOT NULL, body TEXT NOT NULL
) STRICT;
CREATE INDEX letters_reader ON letters (reader, feed, place);
CREATE TABLE hooks (
    scope TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;
";

/// Chunks of a ledger that one trimming forgets at most: more would hold up everybody's commit.
const CUT_MOST: usize = 1024;

/// How far a reader has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The last number it was handed; of a webhook, the last it is done with.
    pub handed: u64,
    /// Entries that were cut before it had acknowledged them.
    pub lost: u64,
    /// What its sender remembers.
    pub progress: String,
}

/// An entry in a reader's hands, or on its way there once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InHand {
    /// Its number.
    pub no: u64,
    /// When its lease ends; 0 when it was given back.
    pub until: Millis,
    /// How often it was handed out.
    pub attempts: u64,
    /// Its record, when it is not to be looked for in the ledger.
    pub body: Option<String>,
}

/// An entry as it is stored.
pub struct Kept {
    /// Its number.
    pub no: u64,
    /// Its record.
    pub body: String,
}

impl Kept {
    /// The entry.
    pub fn entry(&self) -> rusqlite::Result<Entry> {
        let entry = Records::new(&self.body).entry(Cursor(self.no));
        entry.ok_or_else(|| unreadable(0, std::fmt::Error))
    }
}

impl Store {
    /// The oldest number of a ledger and the one after its newest; none while it is empty.
    pub fn ledger_ends(&self, feed: i64) -> rusqlite::Result<Option<(u64, u64)>> {
        let end = |order: &str| {
            let sql = format!("SELECT last, count FROM ledger WHERE feed = ?1 ORDER BY last {order} LIMIT 1");
            let read = |r: &SqlRow<'_>| Ok((r.get::<_, u64>(0)?, r.get::<_, u64>(1)?));
            self.db.prepare_cached(&sql)?.query_row([feed], read).optional()
        };
        let (oldest, newest) = (end("ASC")?, end("DESC")?);
        Ok(oldest.zip(newest).map(|((first, count), (last, _))| (first + 1 - count, last + 1)))
    }

    /// Appends `count` entries, the last of them with the number `last` and of the time `at`.
    pub fn enter(&self, feed: i64, last: u64, count: u64, at: Millis, body: &str) -> rusqlite::Result<()> {
        let sql = "INSERT INTO ledger (feed, last, count, at, body) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.db.prepare_cached(sql)?.execute(params![feed, last, count, at.0, body]).map(drop)
    }

    /// Keeps entries that are not in the ledger yet, as [`Store::enter`] would.
    pub fn jot(&self, feed: i64, last: u64, count: u64, at: Millis, body: &str) -> rusqlite::Result<()> {
        let sql = "INSERT INTO jots (feed, last, count, at, body) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.db.prepare_cached(sql)?.execute(params![feed, last, count, at.0, body]).map(drop)
    }

    /// Brings what was jotted down and is not in a ledger there.
    pub fn gather_jots(&self) -> rusqlite::Result<()> {
        let sql = "INSERT INTO ledger (feed, last, count, at, body)
            SELECT feed, last, count, at, body FROM jots j
            WHERE last > coalesce((SELECT max(last) FROM ledger l WHERE l.feed = j.feed), 0) ORDER BY place";
        self.db.prepare_cached(sql)?.execute([])?;
        self.forget_jots()
    }

    /// Forgets what was jotted down: all of it is in its ledger.
    pub fn forget_jots(&self) -> rusqlite::Result<()> {
        self.db.prepare_cached("DELETE FROM jots")?.execute([]).map(drop)
    }

    /// Entries from number `from` on, at most `max`.
    pub fn entries(&self, feed: i64, from: u64, max: usize) -> rusqlite::Result<Vec<Kept>> {
        let sql = "SELECT last, count, body FROM ledger WHERE feed = ?1 AND last >= ?2 ORDER BY last";
        let mut query = self.db.prepare_cached(sql)?;
        let mut rows = query.query(params![feed, from])?;
        let mut found = Vec::new();
        while found.len() < max
            && let Some(r) = rows.next()?
        {
            let first = r.get::<_, u64>(0)? + 1 - r.get::<_, u64>(1)?;
            let body = r.get_ref(2)?.as_str()?;
            let kept = bodies(body).enumerate().map(|(n, body)| (first + n as u64, body));
            let wanted = kept.filter(|(no, _)| *no >= from).take(max - found.len());
            found.extend(wanted.map(|(no, body)| Kept { no, body: body.to_owned() }));
        }
        Ok(found)
    }

    /// The number of the first entry of `since` or later; none when all are older.
    pub fn first_since(&self, feed: i64, since: Millis) -> rusqlite::Result<Option<u64>> {
        // Backwards: whoever asks expects the answer near the end.
        let sql = "SELECT last, count, at, body FROM ledger WHERE feed = ?1 ORDER BY last DESC";
        let mut query = self.db.prepare_cached(sql)?;
        let mut rows = query.query([feed])?;
        let mut first = None;
        while let Some(r) = rows.next()? {
            if r.get::<_, i64>(2)? < since.0 {
                break;
            }
            let number = r.get::<_, u64>(0)? + 1 - r.get::<_, u64>(1)?;
            let at = |body: &str| body.lines().next()?.rsplit(' ').next()?.parse::<i64>().ok();
            let younger = bodies(r.get_ref(3)?.as_str()?).take_while(|body| at(body) < Some(since.0));
            first = Some(number + younger.count() as u64);
        }
        Ok(first)
    }

    /// Feeds whose last entry is of `since` or later. Looks at every feed: for what happens rarely.
    pub fn entered_since(&self, since: Millis) -> rusqlite::Result<Vec<(i64, FeedId)>> {
        let sql = "SELECT no, name FROM feeds f
            WHERE (SELECT at FROM ledger WHERE feed = f.no ORDER BY last DESC LIMIT 1) >= ?1";
        let mut query = self.db.prepare_cached(sql)?;
        query.query_map([since.0], |r| Ok((r.get(0)?, parsed(r, 1)?)))?.collect()
    }

    /// The last number of the oldest chunks that are older than `at`, among those that one trimming looks at.
    pub fn ledger_older(&self, feed: i64, at: Millis) -> rusqlite::Result<Option<u64>> {
        let sql = "SELECT max(last) FROM
            (SELECT last, at FROM ledger WHERE feed = ?1 ORDER BY last LIMIT ?2) WHERE at < ?3";
        self.db.prepare_cached(sql)?.query_row(params![feed, CUT_MOST as i64, at.0], |r| r.get(0))
    }

    /// Forgets the oldest chunks that end before `keep_from`, or some of them. The last number that went.
    pub fn cut_ledger(&self, feed: i64, keep_from: u64) -> rusqlite::Result<Option<u64>> {
        let sql = "SELECT max(last) FROM
            (SELECT last FROM ledger WHERE feed = ?1 AND last < ?2 ORDER BY last LIMIT ?3)";
        let fields = params![feed, keep_from, CUT_MOST as i64];
        let last: Option<u64> = self.db.prepare_cached(sql)?.query_row(fields, |r| r.get(0))?;
        if let Some(last) = last {
            let sql = "DELETE FROM ledger WHERE feed = ?1 AND last <= ?2";
            self.db.prepare_cached(sql)?.execute(params![feed, last])?;
        }
        Ok(last)
    }

    /// How far a reader has come; none when there is no such reader.
    pub fn reader(&self, feed: i64, reader: &Reader) -> rusqlite::Result<Option<Standing>> {
        let sql = "SELECT handed, lost, progress FROM readers WHERE feed = ?1 AND name = ?2";
        let read = |r: &SqlRow<'_>| Ok(Standing { handed: r.get(0)?, lost: r.get(1)?, progress: r.get(2)? });
        self.db.prepare_cached(sql)?.query_row(params![feed, reader.to_string()], read).optional()
    }

    /// Writes how far a reader has come.
    pub fn stand(&self, feed: i64, reader: &Reader, standing: &Standing) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO readers (feed, name, handed, lost, progress)
            VALUES (?1, ?2, ?3, ?4, ?5)";
        let Standing { handed, lost, progress } = standing;
        let fields = params![feed, reader.to_string(), handed, lost, progress];
        self.db.prepare_cached(sql)?.execute(fields).map(drop)
    }

    /// Who reads a feed's ledger, by name.
    pub fn readers(&self, feed: i64) -> rusqlite::Result<Vec<Reader>> {
        let mut query = self.db.prepare_cached("SELECT name FROM readers WHERE feed = ?1 ORDER BY name")?;
        query.query_map([feed], |r| parsed(r, 0))?.collect()
    }

    /// Groups of all feeds, by feed and name, at most `max`.
    pub fn all_groups(&self, max: usize) -> rusqlite::Result<Vec<(FeedId, Reader)>> {
        let sql = "SELECT f.name, r.name FROM readers r JOIN feeds f ON f.no = r.feed
            WHERE r.name >= 'g:' AND r.name < 'g;' ORDER BY f.name, r.name LIMIT ?1";
        let mut query = self.db.prepare_cached(sql)?;
        query.query_map([max as i64], |r| Ok((parsed(r, 0)?, parsed(r, 1)?)))?.collect()
    }

    /// Forgets a reader with all it has; false when there is no such reader.
    pub fn forget_reader(&self, feed: i64, reader: &Reader) -> rusqlite::Result<bool> {
        let name = reader.to_string();
        for sql in [
            "DELETE FROM pending WHERE feed = ?1 AND reader = ?2",
            "DELETE FROM letters WHERE feed = ?1 AND reader = ?2",
        ] {
            self.db.prepare_cached(sql)?.execute(params![feed, name])?;
        }
        let sql = "DELETE FROM readers WHERE feed = ?1 AND name = ?2";
        Ok(self.db.prepare_cached(sql)?.execute(params![feed, name])? > 0)
    }

    /// Feeds that a reader of this name reads.
    pub fn feeds_of(&self, reader: &Reader) -> rusqlite::Result<Vec<(i64, FeedId)>> {
        let sql = "SELECT f.no, f.name FROM readers r JOIN feeds f ON f.no = r.feed WHERE r.name = ?1";
        let mut query = self.db.prepare_cached(sql)?;
        query.query_map([reader.to_string()], |r| Ok((r.get(0)?, parsed(r, 1)?)))?.collect()
    }

    /// Webhooks' work that there is.
    pub fn jobs(&self) -> rusqlite::Result<Vec<Job>> {
        let sql = "SELECT f.name, r.name FROM readers r JOIN feeds f ON f.no = r.feed
            WHERE NOT (r.name >= 'g:' AND r.name < 'g;') AND (
                r.handed < (SELECT max(last) FROM ledger l WHERE l.feed = r.feed)
                OR EXISTS (SELECT 1 FROM pending p WHERE p.feed = r.feed AND p.reader = r.name))";
        let mut query = self.db.prepare_cached(sql)?;
        query.query_map([], |r| Ok(Job { feed: parsed(r, 0)?, reader: parsed(r, 1)? }))?.collect()
    }

    /// Entries in a reader's hands whose lease ended by `now`, in the ledger's order, at most `max`.
    pub fn over(&self, feed: i64, reader: &Reader, now: Millis, max: usize) -> rusqlite::Result<Vec<InHand>> {
        let sql = "SELECT no, until, attempts, body FROM pending INDEXED BY pending_until
            WHERE feed = ?1 AND reader = ?2 AND until <= ?3 ORDER BY no LIMIT ?4";
        let mut query = self.db.prepare_cached(sql)?;
        query.query_map(params![feed, reader.to_string(), now.0, max as i64], read_in_hand)?.collect()
    }

    /// One entry in a reader's hands.
    pub fn in_hand(&self, feed: i64, reader: &Reader, no: u64) -> rusqlite::Result<Option<InHand>> {
        let sql = "SELECT no, until, attempts, body FROM pending WHERE feed = ?1 AND reader = ?2 AND no = ?3";
        let mut query = self.db.prepare_cached(sql)?;
        query.query_row(params![feed, reader.to_string(), no], read_in_hand).optional()
    }

    /// Writes an entry in a reader's hands.
    pub fn hand(&self, feed: i64, reader: &Reader, it: &InHand) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO pending (feed, reader, no, until, attempts, body)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let InHand { no, until, attempts, body } = it;
        let fields = params![feed, reader.to_string(), no, until.0, attempts, body];
        self.db.prepare_cached(sql)?.execute(fields).map(drop)
    }

    /// Takes an entry out of a reader's hands; false when it is not there.
    pub fn let_go(&self, feed: i64, reader: &Reader, no: u64) -> rusqlite::Result<bool> {
        let sql = "DELETE FROM pending WHERE feed = ?1 AND reader = ?2 AND no = ?3";
        Ok(self.db.prepare_cached(sql)?.execute(params![feed, reader.to_string(), no])? > 0)
    }

    /// Gives an entry in a reader's hands back; false when it is not there.
    pub fn give_back(&self, feed: i64, reader: &Reader, no: u64) -> rusqlite::Result<bool> {
        let sql = "UPDATE pending SET until = 0 WHERE feed = ?1 AND reader = ?2 AND no = ?3";
        Ok(self.db.prepare_cached(sql)?.execute(params![feed, reader.to_string(), no])? > 0)
    }

    /// Takes entries of the ledger up to `through` out of a reader's hands. How many there were.
    pub fn let_go_through(&self, feed: i64, reader: &Reader, through: u64) -> rusqlite::Result<u64> {
        let sql = "DELETE FROM pending WHERE feed = ?1 AND reader = ?2 AND no <= ?3 AND body IS NULL";
        let gone = self.db.prepare_cached(sql)?.execute(params![feed, reader.to_string(), through])?;
        Ok(gone as u64)
    }

    /// How many entries a reader has in its hands.
    pub fn hands(&self, feed: i64, reader: &Reader) -> rusqlite::Result<u64> {
        let sql = "SELECT count(*) FROM pending WHERE feed = ?1 AND reader = ?2";
        self.db.prepare_cached(sql)?.query_row(params![feed, reader.to_string()], |r| r.get(0))
    }

    /// When the first of a reader's leases ends.
    pub fn first_over(&self, feed: i64, reader: &Reader) -> rusqlite::Result<Option<Millis>> {
        let sql = "SELECT min(until) FROM pending WHERE feed = ?1 AND reader = ?2";
        let read = |r: &SqlRow<'_>| Ok(r.get::<_, Option<i64>>(0)?.map(Millis));
        self.db.prepare_cached(sql)?.query_row(params![feed, reader.to_string()], read)
    }

    /// The oldest entry in a reader's hands.
    pub fn oldest_in_hand(&self, feed: i64, reader: &Reader) -> rusqlite::Result<Option<InHand>> {
        let sql = "SELECT no, until, attempts, body FROM pending WHERE feed = ?1 AND reader = ?2
            ORDER BY no LIMIT 1";
        let mut query = self.db.prepare_cached(sql)?;
        query.query_row(params![feed, reader.to_string()], read_in_hand).optional()
    }

    /// The oldest entry of the ledger that a reader has in its hands.
    pub fn holds_from(&self, feed: i64, reader: &Reader) -> rusqlite::Result<Option<u64>> {
        let sql =
            "SELECT no FROM pending WHERE feed = ?1 AND reader = ?2 AND body IS NULL ORDER BY no LIMIT 1";
        let mut query = self.db.prepare_cached(sql)?;
        query.query_row(params![feed, reader.to_string()], |r| r.get(0)).optional()
    }

    /// What a reader is sent again, the oldest first, at most `max`.
    pub fn again(&self, feed: i64, reader: &Reader, max: usize) -> rusqlite::Result<Vec<Kept>> {
        let sql = "SELECT no, body FROM pending WHERE feed = ?1 AND reader = ?2 AND body IS NOT NULL
            ORDER BY no LIMIT ?3";
        let mut query = self.db.prepare_cached(sql)?;
        let read = |r: &SqlRow<'_>| Ok(Kept { no: r.get(0)?, body: r.get(1)? });
        query.query_map(params![feed, reader.to_string(), max as i64], read)?.collect()
    }

    /// Keeps a dead letter; the oldest beyond `most` go.
    pub fn write_letter(
        &self,
        feed: i64,
        reader: &Reader,
        it: &Kept,
        (died_at, attempts, reason): (Millis, u64, &str),
        most: u64,
    ) -> rusqlite::Result<()> {
        let reader = reader.to_string();
        let sql = "INSERT INTO letters (feed, reader, no, died_at, attempts, reason, body)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let fields = params![feed, reader, it.no, died_at.0, attempts, reason, it.body];
        self.db.prepare_cached(sql)?.execute(fields)?;
        let sql =
            "DELETE FROM letters WHERE reader = ?1 AND feed = ?2 AND place <= (SELECT place FROM letters
            WHERE reader = ?1 AND feed = ?2 ORDER BY place DESC LIMIT 1 OFFSET ?3)";
        self.db.prepare_cached(sql)?.execute(params![reader, feed, most]).map(drop)
    }

    /// A reader's dead letters, the oldest first, each with its place.
    pub fn letters(&self, feed: i64, reader: &Reader) -> rusqlite::Result<Vec<(i64, Kept, DeadLetter)>> {
        let sql = "SELECT place, no, body, died_at, attempts, reason FROM letters
            WHERE reader = ?1 AND feed = ?2 ORDER BY place";
        let mut query = self.db.prepare_cached(sql)?;
        let read = |r: &SqlRow<'_>| {
            let kept = Kept { no: r.get(1)?, body: r.get(2)? };
            let (died_at, attempts, entry) = (Millis(r.get(3)?), r.get(4)?, kept.entry()?);
            Ok((r.get(0)?, kept, DeadLetter { died_at, reason: r.get(5)?, attempts, entry }))
        };
        query.query_map(params![reader.to_string(), feed], read)?.collect()
    }

    /// How many dead letters a reader has.
    pub fn count_letters(&self, feed: i64, reader: &Reader) -> rusqlite::Result<u64> {
        let sql = "SELECT count(*) FROM letters WHERE reader = ?1 AND feed = ?2";
        self.db.prepare_cached(sql)?.query_row(params![reader.to_string(), feed], |r| r.get(0))
    }

    /// Takes a dead letter off the list.
    pub fn remove_letter(&self, place: i64) -> rusqlite::Result<()> {
        self.db.prepare_cached("DELETE FROM letters WHERE place = ?1")?.execute([place]).map(drop)
    }

    /// Feeds in which a reader of this name has dead letters, at most `max`.
    pub fn letter_feeds(&self, reader: &Reader, max: usize) -> rusqlite::Result<Vec<FeedId>> {
        let sql = "SELECT DISTINCT f.name FROM letters l JOIN feeds f ON f.no = l.feed WHERE l.reader = ?1
            ORDER BY f.name LIMIT ?2";
        let mut query = self.db.prepare_cached(sql)?;
        query.query_map(params![reader.to_string(), max as i64], |r| parsed(r, 0))?.collect()
    }
}

/// The records of entries, one after another.
fn bodies(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (end, _) = rest.match_indices('\n').nth(ENTRY_LINES - 1)?;
        let (body, after) = rest.split_at(end + 1);
        rest = after;
        Some(body)
    })
}

fn read_in_hand(r: &SqlRow<'_>) -> rusqlite::Result<InHand> {
    Ok(InHand { no: r.get(0)?, until: Millis(r.get(1)?), attempts: r.get(2)?, body: r.get(3)? })
}
