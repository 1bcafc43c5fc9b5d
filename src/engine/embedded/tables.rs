//! The file: what is written at each commit, and how all of it is read back at start. Nothing else is ever read.
//!
//! | table | a row | goes when |
//! |---|---|---|
//! | `log` | what lasts of a commit ([`super::frame`]) | all of its stretch is in `elements` |
//! | `soon`, `later` | strings of a commit that expire within [`SOON_TABLE_SPAN_MS`], and after it | the last of them has expired |
//! | `elements` | a field, an item, a member, a string that lasts | it is no longer there |
//! | `meta` | what is about the file | – |
//! | `damaged` | whose records could not be read once | an operator repaired it |
//!
//! A key's string is either among those that expire or among what lasts. A commit that moves it to the other side writes down
//! on both what is there now.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::Path;

use rusqlite::{Connection, Error, params};

use super::effect::{Effect, Name};
use super::element::seal;
use super::file::{self, NewLog, WHAT_TO_DO, sentence};
use super::frame;
use super::keyspace::Keyspace;
use super::moving::{Moving, Step, Stretch, item, kind};
use super::reading::{self, Ends, Found};
use super::steady::Steady;
use crate::engine::protocol::owner::{Owner, Owners};

/// Strings that expire within this many milliseconds go to `soon`, all others that expire to `later`.
const SOON_TABLE_SPAN_MS: i64 = 600_000;

/// Bytes of the log that are moved together, by default.
pub(super) const CHECKPOINT_BYTES: usize = 32 << 20;

/// Steps of a move in one commit, at least. As many more as the commit itself adds, so that moving keeps up.
const MIN_CHECKPOINT_STEPS: usize = 150;

/// Rows that a commit deletes of those that are done with, of each table.
const MAX_ROWS_DELETED: usize = 16;

/// The file, open.
pub(super) struct Tables {
    conn: Connection,
    owners: Owners,
    /// Bytes of the log that are moved together.
    stretch: usize,
    /// The number of the last commit.
    number: i64,
    /// What the log has and is not being moved yet.
    gathered: Stretch,
    /// What is being moved.
    moving: Moving,
    /// Taken from what is being moved, and not committed yet.
    steps: VecDeque<Step>,
    /// Log rows up to this one were moved.
    moved: i64,
    /// The first log row that there is.
    first: i64,
    /// When the rows of `soon` and `later` end.
    ends: [Ends; 2],
    /// The end of the write-ahead log may not be synced: after a commit that failed, and after a start, since the process before may
    /// have been killed inside a commit. What is written behind such an end would look, after a power loss, as if
    /// everything in front had been synced ([`super::wal`]). So a new log is begun first.
    is_log_unsure: bool,
    clock: Steady,
    /// When a commit last noted where the steady clock is, by that clock.
    clock_noted: i64,
}

/// How often commits note where the steady clock is: by this much, in milliseconds, ids may be remembered longer after a reboot.
const NOTE_CLOCK_EVERY: i64 = 1_000;

/// What opening a file came to.
pub(super) struct Opened {
    pub tables: Tables,
    pub space: Keyspace,
    /// Owners whose records are damaged, as in [`crate::engine::protocol::owner::Owner`]'s words, and what was found.
    pub damaged: BTreeMap<Vec<u8>, String>,
    /// What epochs end with that begin on this data.
    pub life: String,
    pub clock: Steady,
}

impl Tables {
    /// Opens the file or makes it, and reads all of it. What has expired is left out.
    ///
    /// # Errors
    /// What is wrong and what to do, for the operator.
    pub fn open(path: &Path, owners: Owners, stretch: usize) -> Result<Opened, String> {
        let explain = |error: Error| format!("{}: {}", path.display(), sentence(&error));
        let conn = file::open(path)?;
        // A full disk prevents no reading; the first commit tries again.
        let is_log_unsure = !file::begin_log(&conn, &NewLog::Truncated).unwrap_or(false);
        let clock = Steady::of(&conn).map_err(explain)?;
        let found = reading::read(&conn, owners, clock.now()).map_err(explain)?;
        if let Some(what) = found.shared.first() {
            return Err(format!(
                "{} is damaged: {what} cannot be read, and it is not one feed's alone. {WHAT_TO_DO}",
                path.display()
            ));
        }
        for (owner, what) in &found.damaged {
            conn.execute(
                "INSERT OR REPLACE INTO damaged VALUES (?1, ?2, ?3)",
                params![owner, what, reading::sum_of_damage(owner, what)],
            )
            .map_err(explain)?;
        }
        let life = file::life(&conn).map_err(explain)?;
        let Found { space, gathered, number, first, ends, damaged, .. } = found;
        let tables = Tables {
            conn,
            owners,
            stretch,
            number,
            gathered,
            moving: Moving::default(),
            steps: VecDeque::new(),
            moved: first - 1,
            first,
            ends,
            is_log_unsure,
            clock: clock.clone(),
            clock_noted: i64::MIN,
        };
        Ok(Opened { tables, space, damaged, life, clock })
    }

    /// Makes what a group of calls left behind durable. `asked`: a row is to be written though nothing was left. On an error
    /// nothing was written; false where there was nothing to write.
    pub fn commit(&mut self, effects: &[Effect], asked: bool, now: i64) -> rusqlite::Result<bool> {
        let frames = self.frames(effects, now);
        if !asked && frames.iter().all(|(frame, _)| frame.is_empty()) {
            return Ok(false);
        }
        if self.is_log_unsure {
            self.is_log_unsure = !file::begin_log(&self.conn, &NewLog::Restarted)?;
        }
        if self.steps.is_empty() {
            self.steps = self.moving.take(MIN_CHECKPOINT_STEPS + 2 * effects.len());
        }
        let notes_clock = now >= self.clock_noted.saturating_add(NOTE_CLOCK_EVERY);
        let wrote = self.write(&frames, asked, notes_clock, now);
        if wrote.is_err() && !self.conn.is_autocommit() {
            // After some errors SQLite has rolled back already; the error of a second ROLLBACK means nothing.
            let _ = self.conn.execute_batch("ROLLBACK");
        }
        self.is_log_unsure |= wrote.is_err();
        wrote?;
        self.number += 1;
        if notes_clock {
            self.clock_noted = now;
        }
        self.steps.clear();
        for (ends, (frame, until)) in self.ends.iter_mut().zip(&frames[1..]) {
            let gone: Vec<_> = over(ends, now).copied().collect();
            for end in gone {
                ends.remove(&end);
            }
            if !frame.is_empty() {
                ends.insert((*until, self.number));
            }
        }
        if !frames[0].0.is_empty() {
            effects
                .iter()
                .filter(|it| (self.owners)(it.key()) != Owner::Fleeting)
                .for_each(|it| self.gathered.add(it));
            self.gathered.end = self.number;
            self.gathered.bytes += frames[0].0.len();
        }
        self.turn_over();
        Ok(true)
    }

    /// Notes where the steady clock is, at the end: the process may have been idle for hours.
    pub fn close(self) {
        if let Err(error) = self.clock.write(&self.conn) {
            tracing::debug!(%error, "the steady clock goes on from the last commit");
        }
    }

    /// When a stretch was moved the next one begins, if it is long enough.
    fn turn_over(&mut self) {
        if !self.moving.is_empty() {
            return;
        }
        self.moved = self.moved.max(self.moving.end);
        if self.gathered.bytes >= self.stretch && self.first > self.moved {
            self.moving = std::mem::take(&mut self.gathered).into_moving();
        }
    }

    /// What lasts, what expires soon, and what expires later; with the time at which the last of it does.
    fn frames(&self, effects: &[Effect], now: i64) -> [(Vec<u8>, i64); 3] {
        let (mut lasting, mut soon, mut later) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen: HashSet<&Name> = HashSet::new();
        // From the end: of strings that were written several times the last one is enough.
        for effect in effects.iter().rev() {
            match effect {
                Effect::String { until: Some(until), .. } | Effect::Dropped { until, .. } => {
                    if until - now <= SOON_TABLE_SPAN_MS { &mut soon } else { &mut later }.push(effect);
                }
                Effect::String { key, .. } if !seen.insert(key) => {}
                effect => lasting.push(effect),
            }
        }
        [lasting, soon, later].map(|effects| {
            let until = effects.iter().filter_map(|effect| effect.until()).max().unwrap_or(0);
            (frame::write(self.number + 1, effects.into_iter().rev(), self.owners), until)
        })
    }

    fn write(
        &mut self,
        frames: &[(Vec<u8>, i64); 3],
        asked: bool,
        notes_clock: bool,
        now: i64,
    ) -> rusqlite::Result<()> {
        let number = self.number + 1;
        let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| -> rusqlite::Result<usize> {
            self.conn.prepare_cached(sql)?.execute(values)
        };
        run("BEGIN IMMEDIATE", &[])?;
        let [(lasting, _), soon, later] = frames;
        if !lasting.is_empty() {
            run("INSERT INTO log VALUES (?1, ?2)", &[&number, lasting])?;
        }
        for ((frame, _), insert) in
            [(soon, "INSERT INTO soon VALUES (?1, ?2)"), (later, "INSERT INTO later VALUES (?1, ?2)")]
        {
            if !frame.is_empty() {
                run(insert, &[&number, frame])?;
            }
        }
        for (ends, delete) in self
            .ends
            .iter()
            .zip(["DELETE FROM soon WHERE number = ?1", "DELETE FROM later WHERE number = ?1"])
        {
            for (_, number) in over(ends, now) {
                run(delete, &[number])?;
            }
        }
        if asked {
            run("INSERT OR REPLACE INTO meta VALUES ('asked', ?1)", &[&number])?;
        }
        if notes_clock {
            self.clock.write(&self.conn)?;
        }
        for step in &self.steps {
            match step {
                Step::Clear(key) => run("DELETE FROM elements WHERE key = ?1", &[&&**key])?,
                Step::Cut(key, first, end) => {
                    let cut = "DELETE FROM elements WHERE key = ?1 AND (element >= ?2 AND element < ?3 \
                               OR element >= ?4 AND element < ?5)";
                    let (lowest, behind) = (vec![kind::ITEM], vec![kind::ITEM + 1]);
                    run(cut, &[&&**key, &lowest, &item(*first), &item(*end), &behind])?
                }
                Step::Put(key, element, value) => {
                    let sealed = seal(self.owners, key, element, value);
                    run("INSERT OR REPLACE INTO elements VALUES (?1, ?2, ?3)", &[&&**key, element, &sealed])?
                }
                Step::Take(key, element) => {
                    run("DELETE FROM elements WHERE key = ?1 AND element = ?2", &[&&**key, element])?
                }
            };
        }
        if self.first <= self.moved {
            let delete =
                "DELETE FROM log WHERE number IN (SELECT number FROM log WHERE number <= ?1 LIMIT ?2)";
            if run(delete, &[&self.moved, &(MAX_ROWS_DELETED as i64)])? < MAX_ROWS_DELETED {
                self.first = self.moved + 1;
            }
        }
        run("COMMIT", &[]).map(drop)
    }
}

/// Rows that have expired, as many of them as one commit deletes.
fn over(ends: &Ends, now: i64) -> impl Iterator<Item = &(i64, i64)> {
    ends.range(..(now, i64::MIN)).take(MAX_ROWS_DELETED)
}
