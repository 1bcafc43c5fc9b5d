//! Mends a file with pages that are damaged: what can be read is copied to a new file, which takes its place, and each
//! feed of which something cannot be read is marked. So nobody writes beside a damaged page, and nobody but those
//! feeds notices.
//!
//! Whose rows stood on such a page is known by those before and behind it, when they are in the order of feeds, and
//! else by an index. Where neither says it the file stays as it is. A feed is marked by the seal 0 of its row in
//! `feeds`, which no row has that was written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, params, params_from_iter};

use super::db::tables;
use super::fault::sentence;
use super::layouts::{self, NEWEST};
use super::pages::{Found, Kind, Pages};
use super::values::Value;
use crate::domain::FeedId;
use crate::engine::folder::private;

/// How many damaged files are kept beside the database.
const KEPT: usize = 3;

/// What became of a file.
#[derive(Debug)]
pub(super) struct Mended {
    /// Feeds of which something is lost, and in which table.
    pub(super) lost: BTreeMap<FeedId, String>,
    /// Where the damaged file is now; none if as many are kept as may be.
    pub(super) kept: Option<PathBuf>,
}

/// Why a file was not mended; nothing was changed.
#[derive(Debug)]
pub(super) enum Unmended {
    /// It can be mended later: something is in the way.
    Later(String),
    /// What is damaged is not of single feeds.
    Never(String),
}

impl Unmended {
    /// What to say of it.
    pub(super) fn why(self) -> String {
        let (Unmended::Later(why) | Unmended::Never(why)) = self;
        why
    }
}

/// Whose a row is.
enum Whose {
    /// Rows are in the order of the numbers of feeds; an index that begins with that number too.
    ByNumber(Option<&'static str>),
    /// Rows are in the order of the names of feeds.
    ByName,
    /// A row's own number is that of its feed.
    ItsNumber,
    /// This column of this index is the number of the feed; its last column is the row's own number.
    ByIndex(&'static str, usize),
    /// Nobody's.
    Nobody,
}

fn whose(table: &str) -> Option<Whose> {
    Some(match table {
        "changes" | "locks" | "ids" | "drops" | "ledger" | "readers" | "gifters" | "undone" | "approved" => {
            Whose::ByNumber(None)
        }
        "due" => Whose::ByNumber(Some("due_id")),
        "pending" => Whose::ByNumber(Some("pending_until")),
        "hooks" | "sources" | "refunds" | "blocks" => Whose::ByName,
        "tallies" | "told" => Whose::ItsNumber,
        "claims" => Whose::ByIndex("sqlite_autoindex_claims_1", 0),
        "dead" => Whose::ByIndex("dead_feed", 0),
        "letters" => Whose::ByIndex("letters_reader", 1),
        "log" => Whose::ByIndex("log_places", 1),
        "revoked" | "requests" | "journal" => Whose::Nobody,
        _ => return None,
    })
}

/// Mends the file. Nobody may have it open to write.
pub(super) fn mend(path: &Path) -> Result<Mended, Unmended> {
    let later = |e: std::io::Error| Unmended::Later(e.to_string());
    let trees = trees(path)?;
    let unfinished = path.with_added_extension("mending");
    let remove = || drop(std::fs::remove_file(&unfinished));
    remove();
    private(OpenOptions::new().create_new(true).write(true)).open(&unfinished).map_err(later)?;
    let lost = copy(path, &unfinished, trees).inspect_err(|_| remove())?;
    let place = || -> std::io::Result<Option<PathBuf>> {
        File::open(&unfinished)?.sync_all()?;
        let mut names = (1..=KEPT).map(|n| path.with_added_extension(format!("damaged-{n}")));
        let kept = names.find(|name| !name.exists());
        if let Some(kept) = &kept {
            // The database is under its name at every moment.
            std::fs::hard_link(path, kept).or_else(|_| std::fs::copy(path, kept).map(drop))?;
        }
        // They are empty, and of the other file.
        for end in ["-wal", "-shm"] {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            match std::fs::remove_file(name) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        std::fs::rename(&unfinished, path)?;
        path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())?;
        Ok(kept)
    };
    let kept = place().map_err(later).inspect_err(|_| remove())?;
    Ok(Mended { lost, kept })
}

/// The first page of each table and index; all of the file is in one piece afterwards.
fn trees(path: &Path) -> Result<BTreeMap<String, u32>, Unmended> {
    let read = || -> rusqlite::Result<_> {
        let conn = Connection::open(path)?;
        conn.busy_timeout(Duration::from_secs(2))?;
        let layout: i64 = conn.query_row("PRAGMA user_version", [], |r| r.get(0))?;
        let is_busy: bool = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |r| r.get(0))?;
        let mut query = conn.prepare("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0")?;
        let trees = query.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
        Ok((layout, is_busy, trees))
    };
    let never = |e| Unmended::Never(format!("the list of its tables cannot be read: {e}"));
    match read().map_err(never)? {
        (layout, ..) if layout != NEWEST => {
            Err(Unmended::Never(format!("it is of layout {layout}, and only layout {NEWEST} can be mended")))
        }
        (_, true, _) => {
            let why = "another program reads it; it can be mended when that has ended";
            Err(Unmended::Later(why.into()))
        }
        (.., trees) => Ok(trees),
    }
}

fn copy(from: &Path, to: &Path, trees: BTreeMap<String, u32>) -> Result<BTreeMap<FeedId, String>, Unmended> {
    let pages = Pages::open(from).map_err(|e| Unmended::Never(e.to_string()))?;
    let new = || -> rusqlite::Result<Connection> {
        let conn = Connection::open(to)?;
        super::seal::teach(&conn)?;
        conn.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;")?;
        layouts::upgrade(&conn, 0)?;
        conn.execute_batch("BEGIN IMMEDIATE")?;
        Ok(conn)
    };
    let conn = new()?;
    let mut copy = Copy { pages, trees, conn, names: BTreeMap::new(), lost: BTreeMap::new() };
    copy.feeds()?;
    for table in tables(&copy.conn)? {
        if !["feeds", "probe"].contains(&&*table) {
            copy.table(&table)?;
        }
    }
    Ok(copy.finish()?)
}

struct Copy {
    pages: Pages,
    trees: BTreeMap<String, u32>,
    conn: Connection,
    /// All feeds by number.
    names: BTreeMap<i64, String>,
    /// Feeds of which something is lost.
    lost: BTreeMap<i64, String>,
}

/// A place in a table between two rows; none is the table's begin or end.
type Gap = (Option<Place>, Option<Place>);

/// A row's own number, and its first columns.
type Place = (i64, Vec<Value>);

impl Copy {
    /// Copies the rows of a table. Its gaps, and the first columns of rows of which no more can be read.
    fn rows(&mut self, table: &str) -> Result<(Vec<Gap>, Vec<Place>), Unmended> {
        let (kind, columns) = columns(&self.conn, table)?;
        let marks: Vec<String> = (1..=columns.len()).map(|n| format!("?{n}")).collect();
        let sql = format!("INSERT INTO {table} ({}) VALUES ({})", columns.join(", "), marks.join(", "));
        let mut insert = self.conn.prepare(&sql)?;
        let (mut gaps, mut torn, mut before) = (Vec::<Gap>::new(), Vec::new(), None);
        let mut is_open = false;
        let root = self.trees.get(table).copied().unwrap_or(0);
        let shape = (kind, Some(columns.len()));
        self.pages.walk::<Unmended>(root, shape, &mut |found| {
            let (rowid, mut values, is_whole) = match found {
                Found::Hole => {
                    if !std::mem::replace(&mut is_open, true) {
                        gaps.push((before.clone(), None));
                    }
                    return Ok(());
                }
                Found::Row(rowid, values) => (rowid, values, true),
                Found::Torn(rowid, values) => (rowid, values, false),
            };
            if kind == Kind::Numbered {
                values.iter_mut().take(1).for_each(|first| *first = Value::Integer(rowid));
            }
            // What is of another type than its column, or stands there twice, is no row of ours.
            let done = if is_whole { insert.execute(params_from_iter(&values)) } else { Ok(0) };
            let is_refused =
                |e: &rusqlite::Error| e.sqlite_error_code() == Some(ErrorCode::ConstraintViolation);
            match done {
                Ok(1) => {}
                Err(error) if !is_refused(&error) => return Err(error.into()),
                _ => torn.push((rowid, values.clone())),
            }
            // The first columns are enough to know whose it is.
            values.truncate(2);
            if std::mem::take(&mut is_open)
                && let Some(gap) = gaps.last_mut()
            {
                gap.1 = Some((rowid, values.clone()));
            }
            before = Some((rowid, values));
            Ok(())
        })?;
        Ok((gaps, torn))
    }

    /// Copies the feeds. The index of names has what damaged pages had.
    fn feeds(&mut self) -> Result<(), Unmended> {
        let (gaps, torn) = self.rows("feeds")?;
        let read = || -> rusqlite::Result<_> {
            let mut query = self.conn.prepare("SELECT no, CAST(name AS TEXT) FROM feeds")?;
            let all = query.query_map([], |r| {
                Ok((r.get(0)?, String::from_utf8_lossy(r.get_ref(1)?.as_bytes()?).into_owned()))
            })?;
            all.collect()
        };
        self.names = read()?;
        if gaps.is_empty() && torn.is_empty() {
            return Ok(());
        }
        for row in self.index("sqlite_autoindex_feeds_1")? {
            let [Value::Text(name), Value::Integer(no)] = &row[..] else { continue };
            if !self.names.contains_key(no) {
                let name = String::from_utf8_lossy(name).into_owned();
                let sql = "INSERT INTO feeds VALUES (?1, ?2, '', 0, 0, 0, '{}', '', 0, 0)";
                self.conn.execute(sql, params![no, name])?;
                self.lost.insert(*no, "feeds".into());
                self.names.insert(*no, name);
            }
        }
        match torn.iter().find(|(no, _)| !self.names.contains_key(no)) {
            Some((no, _)) => Err(Unmended::Never(format!("the name of feed number {no} cannot be read"))),
            None => Ok(()),
        }
    }

    fn table(&mut self, table: &str) -> Result<(), Unmended> {
        let (gaps, torn) = self.rows(table)?;
        if gaps.is_empty() && torn.is_empty() {
            return Ok(());
        }
        let shared =
            || Unmended::Never(format!("it is damaged in a place that all feeds share: the table {table}"));
        let mut hurt = BTreeSet::new();
        match whose(table).ok_or_else(shared)? {
            Whose::Nobody => {
                tracing::error!(table, "some records that are of no feed are lost");
            }
            Whose::ByNumber(index) => {
                hurt.extend(torn.iter().filter_map(|(_, values)| number(values.first())));
                // With an index that is whole it is known who has rows at all.
                let having = index.and_then(|index| self.index(index).ok());
                let having: Option<BTreeSet<i64>> =
                    having.map(|rows| rows.iter().filter_map(|row| number(row.first())).collect());
                for (before, after) in gaps {
                    let first = before.and_then(|(_, values)| number(values.first()));
                    let last = after.and_then(|(_, values)| number(values.first()));
                    if first.is_none() && last.is_none() && having.is_none() {
                        return Err(shared());
                    }
                    let between = first.unwrap_or(i64::MIN)..=last.unwrap_or(i64::MAX);
                    let all = self.names.range(between).map(|(no, _)| *no);
                    hurt.extend(all.filter(|no| having.as_ref().is_none_or(|having| having.contains(no))));
                }
            }
            Whose::ItsNumber => {
                hurt.extend(torn.iter().map(|(rowid, _)| *rowid));
                for (before, after) in gaps {
                    if before.is_none() && after.is_none() {
                        return Err(shared());
                    }
                    let (first, last) = numbers(before, after);
                    hurt.extend(self.names.range(first..=last).map(|(no, _)| *no));
                }
            }
            Whose::ByIndex(index, column) => {
                let torn: BTreeSet<i64> = torn.iter().map(|(rowid, _)| *rowid).collect();
                let gaps: Vec<_> = gaps.into_iter().map(|(before, after)| numbers(before, after)).collect();
                let rows = self.index(index).map_err(|_| shared())?;
                hurt.extend(rows.iter().filter_map(|row| {
                    let rowid = number(row.last())?;
                    let is_lost = torn.contains(&rowid)
                        || gaps.iter().any(|(first, last)| (*first..=*last).contains(&rowid));
                    is_lost.then(|| number(row.get(column)))?
                }));
            }
            Whose::ByName => {
                let name = |values: &[Value]| match values.first() {
                    Some(Value::Text(name)) => Some(String::from_utf8_lossy(name).into_owned()),
                    _ => None,
                };
                let mut ranges: Vec<_> = torn.iter().map(|(_, it)| (name(it), name(it))).collect();
                ranges.extend(gaps.into_iter().map(|(before, after)| {
                    (before.and_then(|(_, it)| name(&it)), after.and_then(|(_, it)| name(&it)))
                }));
                for (first, last) in ranges {
                    let first = first.unwrap_or_default();
                    let is_in =
                        |name: &str| *name >= *first && last.as_ref().is_none_or(|last| *name <= **last);
                    // What is of all feeds stands under this name.
                    if is_in("*") {
                        return Err(shared());
                    }
                    hurt.extend(self.names.iter().filter(|(_, name)| is_in(name)).map(|(no, _)| *no));
                }
            }
        }
        for no in hurt {
            self.lost.entry(no).or_insert_with(|| table.to_owned());
        }
        Ok(())
    }

    /// Every row of an index; an error when some cannot be read.
    fn index(&mut self, index: &str) -> Result<Vec<Vec<Value>>, Unmended> {
        let (mut rows, root) = (Vec::new(), self.trees.get(index).copied().unwrap_or(0));
        self.pages.walk(root, (Kind::Keyed, None), &mut |found| match found {
            Found::Row(_, values) => {
                rows.push(values);
                Ok(())
            }
            Found::Torn(..) | Found::Hole => {
                Err(Unmended::Never(format!("the index {index} cannot be read either")))
            }
        })?;
        Ok(rows)
    }

    /// Marks the feeds of which something is lost.
    fn finish(self) -> rusqlite::Result<BTreeMap<FeedId, String>> {
        for no in self.lost.keys() {
            self.conn.execute("UPDATE feeds SET seal = 0 WHERE no = ?1", [no])?;
        }
        self.conn.execute_batch("COMMIT")?;
        let named = |(no, table): (i64, String)| {
            Some((self.names.get(&no)?.parse().ok()?, format!("records of it in the table {table} are lost")))
        };
        Ok(self.lost.into_iter().filter_map(named).collect())
    }
}

/// Writing the new file failed.
impl From<rusqlite::Error> for Unmended {
    fn from(error: rusqlite::Error) -> Unmended {
        Unmended::Later(sentence(&error))
    }
}

/// The columns of a table in the order in which a row stores them.
fn columns(conn: &Connection, table: &str) -> rusqlite::Result<(Kind, Vec<String>)> {
    let sql = "SELECT wr FROM pragma_table_list WHERE name = ?1";
    let is_keyed: bool = conn.query_row(sql, [table], |r| r.get(0))?;
    let (kind, order) = if is_keyed { (Kind::Keyed, "pk = 0, pk, cid") } else { (Kind::Numbered, "cid") };
    let mut query = conn.prepare(&format!("SELECT name FROM pragma_table_info(?1) ORDER BY {order}"))?;
    let names = query.query_map([table], |r| r.get(0))?.collect::<rusqlite::Result<_>>()?;
    Ok((kind, names))
}

fn number(value: Option<&Value>) -> Option<i64> {
    match value {
        Some(Value::Integer(number)) => Some(*number),
        _ => None,
    }
}

/// The numbers of rows that may have stood in a gap.
fn numbers(before: Option<Place>, after: Option<Place>) -> (i64, i64) {
    let first = before.map_or(i64::MIN, |(rowid, _)| rowid.saturating_add(1));
    (first, after.map_or(i64::MAX, |(rowid, _)| rowid.saturating_sub(1)))
}
