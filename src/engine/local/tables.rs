//! The file: what is written at each commit, and how all of it is read back at start. Nothing else is ever read.
//!
//! | table | a row | goes when |
//! |---|---|---|
//! | `log` | what lasts of a commit ([`super::frame`]) | all of its stretch is in `elements` |
//! | `soon`, `later` | strings of a commit that expire within [`SOON`], and after it | the last of them has expired |
//! | `elements` | a field, an item, a member, a string that lasts | it is no longer there |
//! | `meta` | what is about the file | – |
//! | `damaged` | whose records could not be read once | an operator repaired it |
//!
//! A key's string is either among those that expire or among what lasts. A commit that brings it to the other side writes down
//! on both what is there now.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Error, ErrorCode, OptionalExtension, params};

use super::effect::{Effect, Name};
use super::frame;
use super::keyspace::Keyspace;
use super::moving::{Moving, Step, Stretch, item, kind, number_of};
use super::owner::{Owner, Owners, shown};

/// "TipC": whose file it is.
const APPLICATION_ID: i64 = 0x5469_7043;

/// The form of the tables. Those of the store of before this one are below 100.
const FORM: i64 = 100;

/// Strings that expire within this many milliseconds go to `soon`, all others that expire to `later`.
const SOON: i64 = 600_000;

/// Bytes of the log that are moved together, if nobody says otherwise.
pub(super) const STRETCH: usize = 32 << 20;

/// Steps of a move in one commit, at least. As many more as the commit itself brings, so that moving keeps up.
const STEPS: usize = 150;

/// Rows that a commit deletes of those that are done with, of each table.
const DELETED: usize = 16;

/// The file, open.
pub(super) struct Tables {
    conn: Connection,
    owners: Owners,
    /// Bytes of the log that are moved together.
    stretch: usize,
    /// The number of the last commit.
    number: i64,
    /// What the log has and nobody has begun to move.
    gathered: Stretch,
    /// What is being moved.
    moving: Moving,
    /// Taken from what is being moved, and not committed yet.
    steps: VecDeque<Step>,
    /// Log rows up to this one were moved.
    moved: i64,
    /// The first log row that there is.
    first: i64,
}

/// What opening a file came to.
pub(super) struct Opened {
    pub tables: Tables,
    pub space: Keyspace,
    /// Owners whose records are damaged, as in [`super::owner::Owner`]'s words, and what was found.
    pub damaged: BTreeMap<Vec<u8>, String>,
    /// What epochs end with that begin on this data.
    pub life: String,
}

/// What an operator can do about an error.
pub(super) fn sentence(error: &Error) -> String {
    use ErrorCode::{DatabaseBusy, DatabaseCorrupt, DiskFull, NotADatabase, ReadOnly, SystemIoFailure};
    let advice = match error.sqlite_error_code() {
        Some(DiskFull) => "the disk of the data folder is full; free some room",
        Some(ReadOnly) => "the data folder is read-only; make it writable",
        Some(DatabaseBusy) => "another program holds the database; close it",
        Some(DatabaseCorrupt | NotADatabase) => {
            "the database is damaged; stop, and run `tipcast store check`, which says what to do"
        }
        Some(SystemIoFailure) => "the disk of the data folder fails; look at the system's log",
        _ => "the database refused",
    };
    format!("{advice} ({error})")
}

impl Tables {
    /// Opens the file or makes it, and reads all of it. `now` is in milliseconds since 1970: what expired until then is left out.
    ///
    /// # Errors
    /// What is wrong and what to do, for the operator.
    pub fn open(path: &Path, owners: Owners, stretch: usize, now: i64) -> Result<Opened, String> {
        let told = |error: Error| format!("{}: {}", path.display(), sentence(&error));
        let conn = Connection::open(path).map_err(told)?;
        prepare(&conn, path).map_err(told)??;
        let mut tables = Tables {
            conn,
            owners,
            stretch,
            number: 0,
            gathered: Stretch::default(),
            moving: Moving::default(),
            steps: VecDeque::new(),
            moved: 0,
            first: 0,
        };
        let (space, damaged) = tables.read_all(path, now).map_err(told)??;
        let life = tables.life().map_err(told)?;
        Ok(Opened { tables, space, damaged, life })
    }

    fn life(&self) -> rusqlite::Result<String> {
        let known = "SELECT value FROM meta WHERE name = 'life'";
        if let Some(life) = self.conn.query_row(known, [], |row| row.get(0)).optional()? {
            return Ok(life);
        }
        let mut life = String::new();
        while life.len() < 5 {
            // Without a random source two files would have one life.
            let Ok(bits) = getrandom::u64() else { std::process::abort() };
            life.push(char::from(b"0123456789abcdefghijklmnopqrstuvwxyz"[(bits % 36) as usize]));
        }
        self.conn.execute("INSERT INTO meta VALUES ('life', ?1)", [&life])?;
        Ok(life)
    }

    /// Makes what a group of calls left behind durable. `asked`: a row is to be written though nothing was left. On an error
    /// nothing was written; false where there was nothing to write.
    pub fn commit(&mut self, effects: &[Effect], asked: bool, now: i64) -> rusqlite::Result<bool> {
        let frames = self.frames(effects, now);
        if !asked && frames.iter().all(|(frame, _)| frame.is_empty()) {
            return Ok(false);
        }
        if self.steps.is_empty() {
            self.steps = self.moving.take(STEPS + 2 * effects.len());
        }
        let wrote = self.write(&frames, asked, now);
        if wrote.is_err() && !self.conn.is_autocommit() {
            // After some errors SQLite has rolled back already; the error of a second ROLLBACK means nothing.
            let _ = self.conn.execute_batch("ROLLBACK");
        }
        wrote?;
        self.number += 1;
        self.steps.clear();
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
                    if until - now <= SOON { &mut soon } else { &mut later }.push(effect);
                }
                Effect::String { key, .. } if !seen.insert(key) => {}
                effect => lasting.push(effect),
            }
        }
        [lasting, soon, later].map(|effects| {
            let until = effects.iter().map(|effect| match effect {
                Effect::String { until: Some(until), .. } | Effect::Dropped { until, .. } => *until,
                _ => 0,
            });
            let until = until.max().unwrap_or(0);
            (frame::write(self.number + 1, effects.into_iter().rev(), self.owners), until)
        })
    }

    fn write(&mut self, frames: &[(Vec<u8>, i64); 3], asked: bool, now: i64) -> rusqlite::Result<()> {
        let number = self.number + 1;
        let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| -> rusqlite::Result<usize> {
            self.conn.prepare_cached(sql)?.execute(values)
        };
        run("BEGIN IMMEDIATE", &[])?;
        let [(lasting, _), soon, later] = frames;
        if !lasting.is_empty() {
            run("INSERT INTO log VALUES (?1, ?2)", &[&number, lasting])?;
        }
        for ((frame, until), insert, delete) in [
            (
                soon,
                "INSERT INTO soon VALUES (?1, ?2, ?3)",
                "DELETE FROM soon WHERE number IN (SELECT number FROM soon WHERE until < ?1 LIMIT ?2)",
            ),
            (
                later,
                "INSERT INTO later VALUES (?1, ?2, ?3)",
                "DELETE FROM later WHERE number IN (SELECT number FROM later WHERE until < ?1 LIMIT ?2)",
            ),
        ] {
            if !frame.is_empty() {
                run(insert, &[&number, until, frame])?;
            }
            run(delete, &[&now, &(DELETED as i64)])?;
        }
        if asked {
            run("INSERT OR REPLACE INTO meta VALUES ('asked', ?1)", &[&number])?;
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
            if run(delete, &[&self.moved, &(DELETED as i64)])? < DELETED {
                self.first = self.moved + 1;
            }
        }
        run("COMMIT", &[]).map(drop)
    }

    #[allow(clippy::type_complexity)]
    fn read_all(
        &mut self,
        path: &Path,
        now: i64,
    ) -> rusqlite::Result<Result<(Keyspace, BTreeMap<Vec<u8>, String>), String>> {
        let mut damage = Damage { path: path.display().to_string(), ..Damage::default() };
        let mut lasting = Keyspace::default();
        self.read_elements(&mut lasting, &mut damage)?;
        self.read_log(&mut lasting, &mut damage)?;
        let mut space = self.read_expiring(now, &mut damage)?;
        space.merge(lasting);
        if let Some(why) = damage.of_nobody {
            return Ok(Err(why));
        }
        let seen: HashMap<u32, &Vec<u8>> =
            damage.owners.iter().map(|word| (crc32fast::hash(word), word)).collect();
        let mut all: BTreeMap<Vec<u8>, String> = damage.known;
        for (sum, parsed) in damage.unclear {
            let is_its_own = crc32fast::hash(&parsed) == sum;
            let Some(owner) = seen.get(&sum).copied().or(is_its_own.then_some(&parsed)) else {
                return Ok(Err(unclear(path, "a record of `elements`")));
            };
            all.entry(owner.clone()).or_insert_with(|| "a record is not what was written".into());
        }
        let before = "SELECT owner, what FROM damaged";
        let mut query = self.conn.prepare(before)?;
        for row in query.query_map([], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, String>(1)?)))? {
            let (owner, what) = row?;
            all.insert(owner, what);
        }
        drop(query);
        for (owner, what) in &all {
            if owner.first() == Some(&b's') {
                return Ok(Err(unclear(path, &shown(owner))));
            }
            self.conn.execute("INSERT OR REPLACE INTO damaged VALUES (?1, ?2)", params![owner, what])?;
        }
        Ok(Ok((space, all)))
    }

    fn read_elements(&self, space: &mut Keyspace, damage: &mut Damage) -> rusqlite::Result<()> {
        let mut query =
            self.conn.prepare("SELECT key, element, value FROM elements ORDER BY key, element")?;
        let mut rows = query.query([])?;
        let mut expiries = Vec::new();
        while let Some(row) = rows.next()? {
            let (key, element) = (row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
            let value = row.get_ref(2)?.as_blob()?;
            let owner = (self.owners)(key).word().unwrap_or_default();
            match unseal(&owner, key, element, value).and_then(|value| effect_of(key, element, value)) {
                Ok(effect) => {
                    damage.owners.insert(owner);
                    match effect {
                        effect @ Effect::Expires { .. } => expiries.push(effect),
                        effect => space.apply(&effect),
                    }
                }
                Err(sum) => damage.unclear.push((sum, owner)),
            }
        }
        // Behind the elements of their collections, which begin without an expiry.
        expiries.iter().for_each(|effect| space.apply(effect));
        Ok(())
    }

    fn read_log(&mut self, space: &mut Keyspace, damage: &mut Damage) -> rusqlite::Result<()> {
        let mut query = self.conn.prepare("SELECT number, frame FROM log ORDER BY number")?;
        let mut rows = query.query([])?;
        let (mut first, mut last) = (None, 0);
        while let Some(row) = rows.next()? {
            let (number, bytes) = (row.get(0)?, row.get_ref(1)?.as_blob()?);
            first = first.or(Some(number));
            last = number;
            for effect in damage.frame("log", number, bytes) {
                space.apply(&effect);
                self.gathered.add(&effect);
            }
            self.gathered.end = number;
            self.gathered.bytes += bytes.len();
        }
        self.number = self.number.max(last);
        self.first = first.unwrap_or(last + 1);
        self.moved = self.first - 1;
        Ok(())
    }

    /// Strings that expire, in the order in which they were written, whichever of the two tables has them.
    fn read_expiring(&mut self, now: i64, damage: &mut Damage) -> rusqlite::Result<Keyspace> {
        let mut space = Keyspace::default();
        let mut soon = self.conn.prepare("SELECT number, frame FROM soon ORDER BY number")?;
        let mut later = self.conn.prepare("SELECT number, frame FROM later ORDER BY number")?;
        let (mut soon, mut later) = (soon.query([])?, later.query([])?);
        let (mut one, mut other) = (next_row(&mut soon)?, next_row(&mut later)?);
        loop {
            let from_soon = match (&one, &other) {
                (None, None) => break,
                (Some((at, _)), Some((behind, _))) => at <= behind,
                (one, _) => one.is_some(),
            };
            let (table, row) = match from_soon {
                true => ("soon", std::mem::replace(&mut one, next_row(&mut soon)?)),
                false => ("later", std::mem::replace(&mut other, next_row(&mut later)?)),
            };
            let Some((number, bytes)) = row else { break };
            self.number = self.number.max(number);
            for effect in damage.frame(table, number, &bytes) {
                match &effect {
                    Effect::String { key, until: Some(until), .. } if *until <= now => {
                        // It takes the place of what was there before all the same.
                        space.apply(&Effect::Dropped { key: key.clone(), until: *until });
                    }
                    effect => space.apply(effect),
                }
            }
        }
        Ok(space)
    }
}

fn next_row(rows: &mut rusqlite::Rows<'_>) -> rusqlite::Result<Option<(i64, Vec<u8>)>> {
    rows.next()?.map(|row| Ok((row.get(0)?, row.get(1)?))).transpose()
}

/// What reading found that is not what was written.
#[derive(Default)]
struct Damage {
    path: String,
    /// Everybody of whom anything could be read.
    owners: BTreeSet<Vec<u8>>,
    known: BTreeMap<Vec<u8>, String>,
    /// Elements of which it is not certain whose they are: the checksum of the owner that was written beside it, and the owner as
    /// the key reads.
    unclear: Vec<(u32, Vec<u8>)>,
    /// Why the file cannot be used.
    of_nobody: Option<String>,
}

impl Damage {
    fn frame(&mut self, table: &str, number: i64, bytes: &[u8]) -> Vec<Effect> {
        let Some((written, parts)) = frame::read(bytes) else {
            self.of_nobody = Some(unclear(Path::new(&self.path), &format!("a row of `{table}`")));
            return Vec::new();
        };
        let mut effects = Vec::new();
        for part in parts {
            match part.effects.filter(|_| written == number) {
                Some(read) => effects.extend(read),
                None => {
                    let what = format!("a record in row {number} of `{table}` is not what was written");
                    self.known.insert(part.owner.clone(), what);
                }
            }
            self.owners.insert(part.owner);
        }
        effects
    }
}

fn unclear(path: &Path, what: &str) -> String {
    format!(
        "{} is damaged: {what} cannot be read, and it is not one feed's alone. Nothing was changed. Look at the disk, move the \
         folder away, then `tipcast store restore` a backup in its place",
        path.display()
    )
}

/// `OWNER'S SUM (4), SUM (4), VALUE`.
fn seal(owners: Owners, key: &[u8], element: &[u8], value: &[u8]) -> Vec<u8> {
    let owner = crc32fast::hash(&owners(key).word().unwrap_or_default()).to_be_bytes();
    [&owner, &sum(owner, key, element, value).to_be_bytes()[..], value].concat()
}

fn sum(owner: [u8; 4], key: &[u8], element: &[u8], value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in [&owner, &(key.len() as u32).to_be_bytes()[..], key, element, value] {
        hasher.update(part);
    }
    hasher.finalize()
}

/// What was sealed, or the checksum of its owner as it stands there. Where only that is damaged the rest says whose it is.
fn unseal<'a>(owner: &[u8], key: &[u8], element: &[u8], sealed: &'a [u8]) -> Result<&'a [u8], u32> {
    let own = crc32fast::hash(owner).to_be_bytes();
    let Some((written, rest)) = sealed.split_first_chunk::<4>() else { return Err(u32::from_be_bytes(own)) };
    let whole = rest
        .split_first_chunk::<4>()
        .filter(|(stated, value)| u32::from_be_bytes(**stated) == sum(own, key, element, value));
    whole.map(|(_, value)| value).ok_or(u32::from_be_bytes(*written))
}

/// An element as an effect; an error is a value of another form.
fn effect_of(key: &[u8], element: &[u8], value: &[u8]) -> Result<Effect, u32> {
    let (key, value): (Name, Arc<[u8]>) = (key.into(), value.into());
    let number = || <[u8; 8]>::try_from(&*value).ok();
    let effect = element.split_first().and_then(|(first, name)| {
        Some(match *first {
            kind::UNTIL => Effect::Expires { key: key.clone(), until: Some(i64::from_be_bytes(number()?)) },
            kind::FIELD => Effect::Field { key: key.clone(), field: name.into(), value: Some(value.clone()) },
            kind::ITEM => Effect::Item { key: key.clone(), number: number_of(name)?, value: value.clone() },
            kind::STRING => Effect::String { key: key.clone(), value: value.clone(), until: None },
            kind::SCORE => {
                let score = Some(f64::from_be_bytes(number()?));
                Effect::Score { key: key.clone(), member: name.into(), score }
            }
            _ => return None,
        })
    });
    effect.ok_or(0)
}

fn prepare(conn: &Connection, path: &Path) -> rusqlite::Result<Result<(), String>> {
    conn.busy_timeout(Duration::from_secs(2))?;
    conn.set_prepared_statement_cache_capacity(64);
    let fresh = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))? == 0;
    let owner: i64 = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let form: i64 = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if !fresh && owner != APPLICATION_ID && form != FORM {
        return Ok(Err(format!(
            "{} is another program's database, or that of a tipcast of before 0.2; choose another folder",
            path.display()
        )));
    }
    if !fresh && form != FORM {
        return Ok(Err(format!(
            "{} has form {form}, and this tipcast knows form {FORM}; run the tipcast that wrote it, or choose another folder",
            path.display()
        )));
    }
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "cache_size", -32_768)?;
    conn.pragma_update(None, "journal_size_limit", 32 << 20)?;
    // Small ones: a large log is never caught up with while commits go on.
    conn.pragma_update(None, "wal_autocheckpoint", 2_000)?;
    if fresh {
        conn.execute_batch(&format!(
            "BEGIN IMMEDIATE;
             CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
             CREATE TABLE log (number INTEGER PRIMARY KEY, frame BLOB NOT NULL);
             CREATE TABLE soon (number INTEGER PRIMARY KEY, until INTEGER NOT NULL, frame BLOB NOT NULL);
             CREATE INDEX soon_until ON soon (until);
             CREATE TABLE later (number INTEGER PRIMARY KEY, until INTEGER NOT NULL, frame BLOB NOT NULL);
             CREATE INDEX later_until ON later (until);
             CREATE TABLE elements (key BLOB, element BLOB, value BLOB NOT NULL, PRIMARY KEY (key, element)) WITHOUT ROWID;
             CREATE TABLE damaged (owner BLOB PRIMARY KEY, what TEXT NOT NULL) WITHOUT ROWID;
             PRAGMA application_id = {APPLICATION_ID};
             PRAGMA user_version = {FORM};
             COMMIT;"
        ))?;
    }
    Ok(Ok(()))
}
