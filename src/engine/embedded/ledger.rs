//! Ledgers of feeds, in memory and on disk.
//!
//! `ledger` holds entries in chunks, as `changes` does. Those of a feed that nobody reads are logged first (see
//! [`super::log`]) and brought to `ledger` many at a time.

use rusqlite::{Row as SqlRow, params};

use super::db::{Db, text};
use super::fault::{Fault, Step};
use super::frames::Record;
use crate::domain::{Cursor, Entry, FeedId, HookId, Millis};
use crate::engine::record::{ENTRY_LINES, Records};

/// Entries in one stored chunk: what a reader of one entry looks through.
const CHUNK: u64 = 256;

/// Chunks of a ledger that one trimming forgets at most: more would hold up everybody's commit.
const CUT_MOST: usize = 1024;

/// A feed's ledger in memory.
#[derive(Default)]
pub(super) struct Ledger {
    /// What the tables say of it, once somebody looked.
    pub(super) known: Option<Known>,
    /// Entries that are not in the table of ledgers yet, one after another.
    unwritten: String,
    /// How many they are.
    count: u64,
    /// How many of them are logged, and how long their text is.
    logged: (u64, usize),
    /// Where a chunk of them ends, and the time of its last entry.
    full: Vec<(usize, Millis)>,
    /// When the first and the last of them happened.
    first_at: Millis,
    last_at: Millis,
    /// The number from which on the ledger is looked at again for what can go.
    trim_at: u64,
    /// True when this group brought something for readers, even if no change of the list came of it.
    pub(super) stirred: bool,
    /// What was logged of it before it was read back, and is not in memory.
    pub(super) found: Vec<Record>,
}

/// What the tables say of a ledger.
#[derive(Clone, Default)]
pub(super) struct Known {
    /// Its oldest number; 0 while it is empty.
    pub(super) base: u64,
    /// The number after its newest; 0 while it is empty.
    pub(super) next: u64,
    /// Groups and webhooks of this feed.
    pub(super) own: usize,
    /// This feed's webhooks, with their `batch_ms`.
    pub(super) hooks: Vec<(HookId, u64)>,
    /// Webhooks of all feeds that read here.
    pub(super) joined: Vec<HookId>,
}

impl Known {
    /// Numbers a ledger that has no entry yet.
    fn begin(&mut self, at: Millis) {
        if self.next == 0 {
            self.base = Cursor::first(at).0;
            self.next = self.base;
        }
    }

    /// The last number that a reader who was handed entries up to `handed` has, or that was before the ledger.
    pub(super) fn handed(&self, handed: u64) -> u64 {
        handed.max(self.base.saturating_sub(1))
    }

    /// The number of the newest entry; 0 when there is none.
    pub(super) fn last(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    fn is_read(&self) -> bool {
        self.own > 0 || !self.joined.is_empty()
    }
}

impl Ledger {
    /// True when subscriptions are to be told although the list did not change. Asked once per group.
    pub(super) fn must_tell(&mut self) -> bool {
        let read = self.known.as_ref().is_none_or(Known::is_read);
        std::mem::take(&mut self.stirred) && read
    }

    /// Adds what `push` appends, if anything, as an entry; false if that was nothing.
    pub(super) fn enter(&mut self, at: Millis, push: impl FnOnce(&mut String)) -> bool {
        let before = self.unwritten.len();
        push(&mut self.unwritten);
        if self.unwritten.len() == before {
            return false;
        }
        if self.count == 0 {
            self.first_at = at;
        }
        self.stirred |= self.count == self.logged.0;
        self.last_at = at;
        self.count += 1;
        if self.count.is_multiple_of(CHUNK) {
            self.full.push((self.unwritten.len(), at));
        }
        true
    }

    /// How many entries of it are not on disk.
    pub(super) fn new_entries(&self) -> u64 {
        self.count - self.logged.0
    }

    /// True when something of it is not in the table of ledgers.
    pub(super) fn is_unwritten(&self) -> bool {
        self.count > 0
    }

    /// Puts what is new into the record that the commit logs.
    pub(super) fn log(&mut self, record: &mut Record) {
        let known = self.known.get_or_insert_default();
        known.begin(self.first_at);
        let (before, from) = self.logged;
        (record.last, record.count) = (known.last() + self.count, self.count - before);
        record.at = self.last_at;
        record.entries.push_str(&self.unwritten[from..]);
        self.logged = (self.count, self.unwritten.len());
    }

    /// Brings what memory has to the table of ledgers. The time of the first entry.
    pub(super) fn write(&mut self, db: &Db, feed: i64) -> Step<Millis> {
        let known = self.known.get_or_insert_default();
        known.begin(self.first_at);
        self.logged = (0, 0);
        let (text, count) = (std::mem::take(&mut self.unwritten), std::mem::take(&mut self.count));
        let mut ends = std::mem::take(&mut self.full);
        if !count.is_multiple_of(CHUNK) {
            ends.push((text.len(), self.last_at));
        }
        let (mut from, mut left) = (0, count);
        for (end, at) in ends {
            let some = left.min(CHUNK);
            known.next += some;
            enter(db, feed, known.next - 1, some, at, &text[from..end])?;
            (from, left) = (end, left - some);
        }
        Ok(self.first_at)
    }

    /// Whether enough came since the last time to look what can go, of a ledger that keeps `ledger_max`.
    pub(super) fn must_trim(&mut self, ledger_max: u64) -> bool {
        let Some(known) = &self.known else { return false };
        let slack = (ledger_max / 8).clamp(1, 256);
        if known.next - known.base <= ledger_max + slack || known.next < self.trim_at {
            return false;
        }
        self.trim_at = known.next + slack;
        true
    }
}

/// An entry as it is stored.
pub(super) struct Kept {
    /// Its number.
    pub(super) no: u64,
    /// Its record.
    pub(super) body: String,
}

impl Kept {
    /// The entry.
    pub(super) fn entry(&self) -> Step<Entry> {
        let entry = Records::new(&self.body).entry(Cursor(self.no));
        entry.ok_or_else(|| Fault::garbled(format!("entry {} of its ledger cannot be read", self.no)))
    }
}

/// The oldest number of a ledger and the one after its newest; none while it is empty.
pub(super) fn ends(db: &Db, feed: i64) -> Step<Option<(u64, u64)>> {
    let read = |r: &SqlRow<'_>| Ok((r.get::<_, u64>(1)?, r.get::<_, u64>(2)?));
    let oldest = db.one("SELECT * FROM ledger WHERE feed = ?1 ORDER BY last LIMIT 2", [feed], read)?;
    let newest = db.one("SELECT * FROM ledger WHERE feed = ?1 ORDER BY last DESC LIMIT 2", [feed], read)?;
    Ok(oldest.zip(newest).map(|((first, count), (last, _))| (first + 1 - count, last + 1)))
}

fn enter(db: &Db, feed: i64, last: u64, count: u64, at: Millis, body: &str) -> Step<()> {
    let sql = "INSERT INTO ledger VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    db.put(sql, params![feed, last, count, at.0, body])
}

/// Brings what was logged of a ledger, and is neither there nor in memory, to it.
pub(super) fn gather(db: &Db, feed: i64, records: &[Record]) -> Step<()> {
    let after = ends(db, feed)?.map_or(0, |(_, next)| next.saturating_sub(1));
    db.begin()?;
    for Record { last, count, at, entries, .. } in records {
        if *count > 0 && *last > after {
            enter(db, feed, *last, *count, *at, entries)?;
        }
    }
    Ok(())
}

/// Entries from number `from` on, at most `max`, without holes.
pub(super) fn entries(db: &Db, feed: i64, from: u64, max: usize) -> Step<Vec<Kept>> {
    let sql = "SELECT * FROM ledger WHERE feed = ?1 AND last >= ?2 ORDER BY last LIMIT ?3";
    let mut found: Vec<Kept> = Vec::new();
    // No chunk is empty, so `max` of them are enough.
    db.all(sql, params![feed, from, max as i64], |r| {
        let (last, count): (u64, u64) = (r.get(1)?, r.get(2)?);
        let chunk = bodies(text(r, 4)?, count)?;
        let numbered = (last + 1 - count..).zip(chunk).skip_while(|(no, _)| *no < from);
        for (no, body) in numbered.take(max - found.len()) {
            if found.last().is_some_and(|before| before.no + 1 != no) {
                return Err(Fault::garbled(format!("the entry before {no} of its ledger is not there")));
            }
            found.push(Kept { no, body: body.to_owned() });
        }
        Ok(())
    })?;
    Ok(found)
}

/// The number of the first entry of `since` or later; none when all are older.
pub(super) fn first_since(db: &Db, feed: i64, since: Millis) -> Step<Option<u64>> {
    // Chunk by chunk and backwards: whoever asks expects the answer near the end.
    let sql = "SELECT * FROM ledger WHERE feed = ?1 AND last < ?2 ORDER BY last DESC LIMIT 1";
    let (mut first, mut before) = (None, i64::MAX);
    loop {
        let chunk = db.one(sql, params![feed, before], |r| {
            let (last, count, at): (u64, u64, i64) = (r.get(1)?, r.get(2)?, r.get(3)?);
            let number = last + 1 - count;
            let young = bodies(text(r, 4)?, count)?.into_iter().position(|body| time(body) >= Some(since.0));
            Ok((last as i64, (at >= since.0).then(|| number + young.unwrap_or(0) as u64)))
        })?;
        match chunk {
            Some((last, Some(number))) => (first, before) = (Some(number), last),
            _ => return Ok(first),
        }
    }
}

/// When the entry of this record happened.
fn time(body: &str) -> Option<i64> {
    body.lines().next()?.rsplit(' ').next()?.parse().ok()
}

/// Feeds whose last entry is of `since` or later. Looks at every feed: for what happens rarely.
pub(super) fn entered_since(db: &Db, since: Millis) -> Step<Vec<FeedId>> {
    let sql = "SELECT name FROM feeds f
        WHERE (SELECT at FROM ledger WHERE feed = f.no ORDER BY last DESC LIMIT 1) >= ?1";
    names(db, sql, [since.0])
}

/// Names of feeds, without those that are none: they belong to feeds that are damaged.
pub(super) fn names(db: &Db, sql: &str, params: impl rusqlite::Params) -> Step<Vec<FeedId>> {
    let mut query = db.conn.prepare_cached(sql)?;
    let mut rows = query.query(params)?;
    let mut names = Vec::new();
    while let Some(r) = rows.next()? {
        names.extend(text(r, 0).ok().and_then(|name| name.parse().ok()));
    }
    Ok(names)
}

/// The last number of the oldest chunks that are older than `at`, among those that one trimming looks at.
pub(super) fn older(db: &Db, feed: i64, at: Millis) -> Step<Option<u64>> {
    let sql = "SELECT max(last) FROM
        (SELECT last, at FROM ledger WHERE feed = ?1 ORDER BY last LIMIT ?2) WHERE at < ?3";
    db.value(sql, params![feed, CUT_MOST as i64, at.0])
}

/// Forgets the oldest chunks that end before `keep_from`, or some of them. The last number that went.
pub(super) fn cut(db: &Db, feed: i64, keep_from: u64) -> Step<Option<u64>> {
    let sql = "SELECT max(last) FROM
        (SELECT last FROM ledger WHERE feed = ?1 AND last < ?2 ORDER BY last LIMIT ?3)";
    let last: Option<u64> = db.value(sql, params![feed, keep_from, CUT_MOST as i64])?;
    if let Some(last) = last {
        db.run("DELETE FROM ledger WHERE feed = ?1 AND last <= ?2", params![feed, last])?;
    }
    Ok(last)
}

/// The records of a chunk of `count` entries.
fn bodies(chunk: &str, count: u64) -> Step<Vec<&str>> {
    let mut rest = chunk;
    let mut found = Vec::with_capacity(count as usize);
    while let Some((end, _)) = rest.match_indices('\n').nth(ENTRY_LINES - 1) {
        let (body, after) = rest.split_at(end + 1);
        found.push(body);
        rest = after;
    }
    if !rest.is_empty() || found.len() as u64 != count {
        return Err(Fault::garbled("a chunk of its ledger has not the entries it should have"));
    }
    Ok(found)
}
