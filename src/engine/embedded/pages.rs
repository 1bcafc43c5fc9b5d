//! Reads the trees of a database file past pages that are damaged, where SQLite gives up at the first one.
//!
//! A page counts as damaged when it is of another kind than its place asks for, when a cell of it cannot be read, when
//! its keys are not in order or not between those of the page above, or when it was met already. The format is
//! <https://sqlite.org/fileformat2.html>, sections 1.5 to 2.3; [`super::values`] has what a cell holds.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::values::{Value, compare, record, u16_at, u32_at, varint};

/// Trees are not deeper than this: each page has two branches or more.
const DEEPEST: usize = 32;

/// What kind of tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A table of rows that have a number of their own, in the order of those.
    Numbered,
    /// An index, or a table without such numbers: in the order of the columns.
    Keyed,
}

/// What a place in a tree holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    /// A row: its own number if it has one, and its columns as they are stored.
    Row(i64, Vec<Value>),
    /// A row of which only the first columns can be read: a page that it goes on on is damaged.
    Torn(i64, Vec<Value>),
    /// Rows may have stood here, on pages that are damaged.
    Hole,
}

/// A database file, read page by page.
pub(super) struct Pages {
    file: File,
    size: usize,
    /// Bytes of a page that hold something.
    usable: usize,
    count: u32,
    seen: HashSet<u32>,
}

struct Cell {
    /// The page with what comes before it, of a page that is no leaf.
    left: u32,
    rowid: i64,
    values: Vec<Value>,
    is_torn: bool,
}

struct Page {
    is_leaf: bool,
    cells: Vec<Cell>,
    /// The page with what comes after all cells, of a page that is no leaf.
    right: u32,
}

/// A walk through a tree.
struct Walk<'a, E> {
    kind: Kind,
    /// Columns of a row; none of an index.
    columns: Option<usize>,
    /// The row that was met last.
    last: Option<(i64, Vec<Value>)>,
    each: &'a mut dyn FnMut(Found) -> Result<(), E>,
}

impl Pages {
    /// Opens a file into which nobody writes, and to which nothing is to be added from a log beside it.
    pub(super) fn open(path: &Path) -> std::io::Result<Pages> {
        let mut file = File::open(path)?;
        let mut head = [0; 100];
        file.read_exact(&mut head)?;
        let size = match u16::from_be_bytes([head[16], head[17]]) {
            1 => 65_536,
            size => usize::from(size),
        };
        if size < 512 || !size.is_power_of_two() {
            return Err(std::io::Error::other("its pages have no size"));
        }
        let count = u32::try_from(file.metadata()?.len() / size as u64).unwrap_or(u32::MAX);
        let usable = size - usize::from(head[20]);
        Ok(Pages { file, size, usable, count, seen: HashSet::new() })
    }

    /// Goes through a tree in its order; rows have so many columns, if that is known. An error is what `each` said.
    pub(super) fn walk<E>(
        &mut self,
        root: u32,
        (kind, columns): (Kind, Option<usize>),
        each: &mut dyn FnMut(Found) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut walk = Walk { kind, columns, last: None, each };
        self.descend(root, None, 0, &mut walk)
    }

    fn descend<E>(
        &mut self,
        at: u32,
        until: Option<&(i64, Vec<Value>)>,
        depth: usize,
        walk: &mut Walk<'_, E>,
    ) -> Result<(), E> {
        let page = if depth < DEEPEST { self.page(at, walk) } else { None };
        let Some(page) = page.filter(|page| walk.is_in_order(page, until)) else {
            return (walk.each)(Found::Hole);
        };
        for Cell { left, rowid, values, is_torn } in page.cells {
            let place = (rowid, values);
            if !page.is_leaf {
                self.descend(left, Some(&place), depth + 1, walk)?;
                if walk.kind == Kind::Numbered {
                    continue;
                }
            }
            let (rowid, values) = place.clone();
            walk.last = Some(place);
            (walk.each)(if is_torn { Found::Torn(rowid, values) } else { Found::Row(rowid, values) })?;
        }
        if page.is_leaf { Ok(()) } else { self.descend(page.right, until, depth + 1, walk) }
    }

    /// The bytes of a page that was not met before.
    fn bytes(&mut self, at: u32) -> Option<Vec<u8>> {
        if at == 0 || at > self.count || !self.seen.insert(at) {
            return None;
        }
        let mut bytes = vec![0; self.size];
        self.file.seek(SeekFrom::Start(u64::from(at - 1) * self.size as u64)).ok()?;
        self.file.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    fn page<E>(&mut self, at: u32, walk: &Walk<'_, E>) -> Option<Page> {
        let bytes = self.bytes(at)?;
        let is_leaf = match (bytes[0], walk.kind) {
            (13, Kind::Numbered) | (10, Kind::Keyed) => true,
            (5, Kind::Numbered) | (2, Kind::Keyed) => false,
            _ => return None,
        };
        let count = usize::from(u16_at(&bytes, 3)?);
        let pointers = if is_leaf { 8 } else { 12 };
        let right = if is_leaf { 0 } else { u32_at(&bytes, 8)? };
        let mut cells = Vec::with_capacity(count);
        let mut taken = free(&bytes)?;
        for n in 0..count {
            let start = usize::from(u16_at(&bytes, pointers + 2 * n)?);
            let (cell, length) = self.cell(&bytes, start, is_leaf, walk)?;
            taken.push((start, start + length.max(4)));
            cells.push(cell);
        }
        // Whatever is no cell says that it is free, so that none is missing.
        taken.sort_unstable();
        let begin = content(&bytes)?;
        let used: usize = taken.iter().map(|(from, to)| to - from).sum();
        let is_apart = taken.iter().zip(taken.iter().skip(1)).all(|(before, after)| before.1 <= after.0);
        let is_within = taken.first().is_none_or(|first| first.0 >= begin) && begin >= pointers + 2 * count;
        let is_whole = begin + used + usize::from(bytes[7]) == self.usable;
        (is_apart && is_within && is_whole).then_some(Page { is_leaf, cells, right })
    }

    /// A cell, and how many bytes of the page it takes.
    fn cell<E>(
        &mut self,
        page: &[u8],
        start: usize,
        is_leaf: bool,
        walk: &Walk<'_, E>,
    ) -> Option<(Cell, usize)> {
        let whole = page.get(start..self.usable)?;
        let mut rest = whole;
        let mut cell = Cell { left: 0, rowid: 0, values: Vec::new(), is_torn: false };
        if !is_leaf {
            cell.left = u32_at(rest, 0)?;
            rest = &rest[4..];
        }
        if walk.kind == Kind::Numbered && !is_leaf {
            cell.rowid = varint(&mut rest)?;
            return Some((cell, whole.len() - rest.len()));
        }
        let length = usize::try_from(varint(&mut rest)?).ok()?;
        if walk.kind == Kind::Numbered {
            cell.rowid = varint(&mut rest)?;
        }
        let local = self.local(length, walk.kind);
        let mut payload = rest.get(..local)?.to_vec();
        let taken = whole.len() - rest.len() + local + if local < length { 4 } else { 0 };
        if local < length {
            let next = u32_at(rest, local)?;
            cell.is_torn = self.gather(&mut payload, next, length).is_none();
        }
        let (values, is_whole) = record(&payload)?;
        let fits = walk.columns.is_none_or(|columns| values.len() == columns);
        if !(cell.is_torn || is_whole && fits) {
            return None;
        }
        cell.values = values;
        Some((cell, taken))
    }

    /// How much of a record of this length stands on the page itself.
    fn local(&self, length: usize, kind: Kind) -> usize {
        let usable = self.usable;
        let least = (usable - 12) * 32 / 255 - 23;
        let most = match kind {
            Kind::Numbered => usable - 35,
            Kind::Keyed => (usable - 12) * 64 / 255 - 23,
        };
        match least + length.saturating_sub(least) % (usable - 4) {
            _ if length <= most => length,
            some if some <= most => some,
            _ => least,
        }
    }

    /// Reads on from page to page until the record has its length.
    fn gather(&mut self, payload: &mut Vec<u8>, mut next: u32, length: usize) -> Option<()> {
        while payload.len() < length {
            let page = self.bytes(next)?;
            let some = (length - payload.len()).min(self.usable - 4);
            payload.extend_from_slice(page.get(4..4 + some)?);
            next = u32_at(&page, 0)?;
        }
        Some(())
    }
}

impl<E> Walk<'_, E> {
    /// True when what stands on the page comes after the row that was met last, in order, and before `until`.
    fn is_in_order(&self, page: &Page, until: Option<&(i64, Vec<Value>)>) -> bool {
        let mut before = self.last.as_ref().map(|(rowid, values)| (*rowid, &values[..]));
        for cell in &page.cells {
            let this = (cell.rowid, &cell.values[..]);
            if before.is_some_and(|before| self.compare(before, this) != Ordering::Less) {
                return false;
            }
            before = Some(this);
        }
        let (Some(until), Some(last)) = (until, page.cells.last()) else { return true };
        // A page of numbered rows may end with the very number that stands above it.
        let order = self.compare((last.rowid, &last.values), (until.0, &until.1));
        order == Ordering::Less || order == Ordering::Equal && self.kind == Kind::Numbered
    }

    fn compare(&self, a: (i64, &[Value]), b: (i64, &[Value])) -> Ordering {
        if self.kind == Kind::Numbered {
            return a.0.cmp(&b.0);
        }
        let columns = a.1.iter().zip(b.1).map(|(a, b)| compare(a, b));
        // Of a row that is torn only the first columns are known.
        columns.into_iter().find(|order| *order != Ordering::Equal).unwrap_or(Ordering::Less)
    }
}

/// Where cells begin.
fn content(page: &[u8]) -> Option<usize> {
    Some(match u16_at(page, 5)? {
        0 => 65_536,
        begin => usize::from(begin),
    })
}

/// The pieces of a page that are free, from where to where, but for those of less than four bytes.
fn free(page: &[u8]) -> Option<Vec<(usize, usize)>> {
    let (mut pieces, mut at) = (Vec::new(), usize::from(u16_at(page, 1)?));
    while at > 0 {
        let (next, length) = (usize::from(u16_at(page, at)?), usize::from(u16_at(page, at + 2)?));
        pieces.push((at, at + length));
        if next > 0 && next < at + length || length < 4 {
            return None;
        }
        at = next;
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(path: &Path, root: u32, shape: (Kind, Option<usize>)) -> Vec<Found> {
        let mut found = vec![];
        let each = &mut |it| {
            found.push(it);
            Ok::<(), ()>(())
        };
        Pages::open(path).unwrap().walk(root, shape, each).unwrap();
        found
    }

    #[test]
    fn it_reads_what_sqlite_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("some.db");
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute_batch(
            "CREATE TABLE n (no INTEGER PRIMARY KEY, body TEXT, x);
            CREATE TABLE k (a INTEGER, b TEXT, body BLOB, PRIMARY KEY (b, a)) WITHOUT ROWID; BEGIN;",
        )
        .unwrap();
        let (mut numbered, mut keyed) = (vec![], vec![]);
        let numbers = [0, 1, -1, 127, -128, 300, 70_000, -9_000_000, 1 << 40, i64::MIN, i64::MAX];
        for n in 0..600_i64 {
            let x = match n % 5 {
                0 => Value::Null,
                1 => Value::Real(n as f64 / 3.0),
                2 => Value::Blob(vec![n as u8; n as usize % 9]),
                _ => Value::Integer(numbers[n as usize % numbers.len()]),
            };
            // Some go on on many pages.
            let body = "x".repeat(if n % 50 == 0 { 20_000 } else { n as usize * 3 });
            conn.execute("INSERT INTO n VALUES (?1, ?2, ?3)", rusqlite::params![n * 7, body, x]).unwrap();
            let key = format!("{:03}", n * 37 % 600);
            conn.execute("INSERT INTO k VALUES (?1, ?2, ?3)", rusqlite::params![n, key, body.as_bytes()])
                .unwrap();
            numbered.push(Found::Row(n * 7, vec![Value::Null, Value::Text(body.clone().into()), x]));
            let columns = vec![Value::Text(key.into()), Value::Integer(n), Value::Blob(body.into())];
            keyed.push(Found::Row(0, columns));
        }
        conn.execute_batch("COMMIT").unwrap();
        let root = |name: &str| {
            let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
            conn.query_row(sql, [name], |r| r.get::<_, u32>(0)).unwrap()
        };
        let text = |found: &Found| {
            let Found::Row(_, values) = found else { panic!() };
            let Value::Text(text) = &values[0] else { panic!() };
            text.clone()
        };
        keyed.sort_by_key(text);
        assert!(all(&path, root("n"), (Kind::Numbered, Some(3))) == numbered);
        assert!(all(&path, root("k"), (Kind::Keyed, Some(3))) == keyed);
        assert_eq!(all(&path, root("k"), (Kind::Numbered, Some(3))), [Found::Hole], "of another kind");
        assert_eq!(all(&path, root("k"), (Kind::Keyed, Some(4)))[0], Found::Hole, "of another table");
        assert_eq!(all(&path, 1_000_000, (Kind::Keyed, None)), [Found::Hole]);
    }

    #[test]
    fn whatever_bytes_are_garbled_nothing_is_read_that_was_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("some.db");
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute_batch("CREATE TABLE k (a INTEGER, body TEXT, PRIMARY KEY (a)) WITHOUT ROWID").unwrap();
        for n in 0..400 {
            conn.execute("INSERT INTO k VALUES (?1, ?2)", rusqlite::params![n, "y".repeat(90)]).unwrap();
        }
        let shape = (Kind::Keyed, Some(2));
        let whole = all(&path, 2, shape);
        let bytes = std::fs::read(&path).unwrap();
        let mut seed = 1_u64;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for _ in 0..300 {
            let mut bytes = bytes.clone();
            // Heads and pointers: what rows hold is what their seals are for.
            let page = 4096 * (1 + next(bytes.len() / 4096 - 1));
            for _ in 0..4 {
                bytes[page + next(64)] = next(256) as u8;
            }
            std::fs::write(&path, bytes).unwrap();
            let read = all(&path, 2, shape);
            let rows: Vec<_> = read.iter().filter(|it| matches!(it, Found::Row(..))).collect();
            assert!(rows.iter().all(|row| whole.contains(row)));
            assert!(rows.len() == whole.len() || read.contains(&Found::Hole), "{}", rows.len());
        }
    }
}
