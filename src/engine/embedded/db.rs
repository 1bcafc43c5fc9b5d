//! The open file: transactions, and rows that are checked as they are read.

use std::cell::RefCell;

use rusqlite::types::{FromSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, Row, Statement, ToSql};

use super::fault::{Fault, Step};
use super::seal::{self, Found, Seal};
use crate::supervise::faults;

/// The connection of the writer.
pub(super) struct Db {
    pub(super) conn: Connection,
    /// Why nothing can be written at the moment: a failed group is gone through once more for its readers.
    refusing: RefCell<Option<String>>,
}

impl Db {
    pub(super) fn new(conn: Connection) -> Db {
        Db { conn, refusing: RefCell::default() }
    }

    /// An error while every write is refused. Whoever is going to write asks this first.
    pub(super) fn may_write(&self) -> Step<()> {
        self.refusing.borrow().as_ref().map_or(Ok(()), |why| Err(Fault::Disk(why.clone())))
    }

    /// True when a transaction is open.
    pub(super) fn is_begun(&self) -> bool {
        !self.conn.is_autocommit()
    }

    /// Starts a transaction unless one is open. Whatever is written through this value does so.
    pub(super) fn begin(&self) -> Step<()> {
        self.may_write()?;
        if self.conn.is_autocommit() {
            let begun = self.conn.prepare_cached("BEGIN IMMEDIATE").and_then(|mut sql| sql.execute([]));
            begun.map_err(|e| Fault::of_commit(&e))?;
        }
        Ok(())
    }

    /// Makes everything since [`Db::begin`] durable; false when there was nothing.
    pub(super) fn commit(&self) -> Step<bool> {
        let begun = self.is_begun();
        if begun {
            if faults::fails("disk") {
                return Err(Fault::Disk("the disk of the data folder is full; a test says so".into()));
            }
            faults::pass_blocking("before-commit");
            let done = self.conn.prepare_cached("COMMIT").and_then(|mut sql| sql.execute([]));
            done.map_err(|e| Fault::of_commit(&e))?;
            faults::pass_blocking("after-commit");
        }
        Ok(begun)
    }

    /// Takes everything since [`Db::begin`] back.
    pub(super) fn rollback(&self) {
        if !self.conn.is_autocommit() {
            // SQLite rolls back by itself on some errors; then this one has nothing to do.
            let _ = self.conn.execute_batch("ROLLBACK");
        }
    }

    /// Has every write refused, or with none allows them again.
    pub(super) fn refuse(&self, why: Option<String>) {
        *self.refusing.borrow_mut() = why;
    }

    /// True while every write is refused.
    pub(super) fn is_refusing(&self) -> bool {
        self.refusing.borrow().is_some()
    }

    /// Writes; how many rows it concerned.
    pub(super) fn run(&self, sql: &str, params: impl Params) -> Step<usize> {
        self.begin()?;
        Ok(self.conn.prepare_cached(sql)?.execute(params)?)
    }

    /// Writes a row: `values` are its columns in the order of the table, but for the last one, which is their seal and
    /// the last parameter of `sql`.
    pub(super) fn put(&self, sql: &str, values: &[&dyn ToSql]) -> Step<()> {
        self.begin()?;
        put(&mut *self.conn.prepare_cached(sql)?, values)
    }

    /// One value that is computed and no record: a count, a sum, the end of a range.
    pub(super) fn value<T: FromSql>(&self, sql: &str, params: impl Params) -> Step<Option<T>> {
        let found =
            self.conn.prepare_cached(sql)?.query_row(params, |r| r.get::<_, Option<T>>(0)).optional()?;
        Ok(found.flatten())
    }

    /// The first row of a `SELECT *`, checked.
    pub(super) fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> Step<T>,
    ) -> Step<Option<T>> {
        Ok(self.some(sql, params, 1, read)?.pop())
    }

    /// Every row of a `SELECT *`, checked.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> Step<T>,
    ) -> Step<Vec<T>> {
        self.some(sql, params, usize::MAX, read)
    }

    fn some<T>(
        &self,
        sql: &str,
        params: impl Params,
        max: usize,
        mut read: impl FnMut(&Row<'_>) -> Step<T>,
    ) -> Step<Vec<T>> {
        let mut query = self.conn.prepare_cached(sql)?;
        let mut rows = query.query(params)?;
        let mut found = Vec::new();
        while found.len() < max
            && let Some(row) = rows.next()?
        {
            if seal::check(row)? == Found::Whole {
                found.push(read(row)?);
            }
        }
        Ok(found)
    }
}

/// [`Db::put`] with a statement that is prepared.
pub(super) fn put(query: &mut Statement<'_>, values: &[&dyn ToSql]) -> Step<()> {
    let mut seal = Seal::default();
    for (n, value) in (1..).zip(values) {
        let value = value.to_sql()?;
        seal.add(match &value {
            ToSqlOutput::Borrowed(value) => *value,
            ToSqlOutput::Owned(value) => ValueRef::from(value),
            _ => return Err(Fault::Disk("a value of no kind that is stored".into())),
        });
        query.raw_bind_parameter(n, value)?;
    }
    query.raw_bind_parameter(values.len() + 1, seal.value())?;
    query.raw_execute()?;
    Ok(())
}

/// A column as a value that is spelled as text.
pub(super) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(r: &Row<'_>, column: usize) -> Step<T> {
    let text = text(r, column)?;
    text.parse().map_err(|why| Fault::garbled(format!("a record's text cannot be read: {why}")))
}

/// A column of text.
pub(super) fn text<'r>(r: &'r Row<'_>, column: usize) -> Step<&'r str> {
    r.get_ref(column)?
        .as_str()
        .map_err(|why| Fault::garbled(format!("a record's text cannot be read: {why}")))
}

/// The tables of a file, by name.
pub(super) fn tables(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name";
    conn.prepare(sql)?.query_map([], |r| r.get(0))?.collect()
}
