//! What a layout asks for beside the statements of its tables: records are brought from the old shape to the new one.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row};

use super::db::tables;
use super::id_lines::Columns;
use super::seal::{self, Found};
use crate::domain::{Fingerprint, Millis};

/// Gives every row of every table its seal. What came before there were any is taken as it is.
pub(super) fn seal_all(conn: &Connection) -> rusqlite::Result<()> {
    for table in tables(conn)? {
        let mut info = conn.prepare(&format!("SELECT name FROM pragma_table_info('{table}')"))?;
        let columns = info.query_map([], |r| r.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
        conn.execute_batch(&format!(
            "ALTER TABLE {table} ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;
            UPDATE {table} SET seal = seal({});",
            columns.join(", ")
        ))?;
    }
    Ok(())
}

/// Brings locks that have a row each into one chunk for each feed. What is damaged stays damaged.
pub(super) fn gather_locks(conn: &Connection) -> rusqlite::Result<()> {
    let mut chunks: BTreeMap<i64, (String, bool)> = BTreeMap::new();
    let mut query = conn.prepare("SELECT * FROM locks_by_key ORDER BY feed, key")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let feed: i64 = row.get(0)?;
        match seal::check(row) {
            Ok(Found::Whole) => {
                let (key, shown, until): (String, String, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
                chunks.entry(feed).or_default().0 += &format!("{until} {shown} {key}\n");
            }
            Ok(Found::Stray(feed)) => chunks.entry(feed).or_default().1 = true,
            Err(_) => chunks.entry(feed).or_default().1 = true,
        }
    }
    drop(rows);
    drop(query);
    for (feed, (body, is_damaged)) in chunks {
        let sql = "INSERT INTO locks VALUES (?1, 1, ?2, seal(?1, 1, ?2) + ?3)";
        conn.execute(sql, rusqlite::params![feed, body, i64::from(is_damaged)])?;
    }
    conn.execute_batch("DROP TABLE locks_by_key")
}

/// Whose a record is whose feed stands in this column, and whether it is damaged.
fn owner(row: &Row<'_>, column: usize) -> rusqlite::Result<(i64, bool)> {
    Ok(match seal::check(row) {
        Ok(Found::Whole) => (row.get(column)?, false),
        Ok(Found::Stray(feed)) => (feed, true),
        Err(_) => (row.get(column)?, true),
    })
}

/// Brings entries of the table before the log into it. What is damaged stays damaged.
pub(super) fn log_jots(conn: &Connection) -> rusqlite::Result<()> {
    let mut query = conn.prepare("SELECT * FROM jots ORDER BY place")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (feed, is_damaged) = owner(row, 1)?;
        let (place, last, count): (i64, i64, i64) = (row.get(0)?, row.get(2)?, row.get(3)?);
        let (at, entries): (i64, String) = (row.get(4)?, row.get(5)?);
        let sql = "INSERT INTO log VALUES
            (?1, ?2, 0, '', '', ?3, ?4, ?5, ?6, seal(?1, ?2, 0, '', '', ?3, ?4, ?5, ?6) + ?7)";
        let values = rusqlite::params![place, feed, last, count, at, entries, i64::from(is_damaged)];
        conn.execute(sql, values)?;
    }
    drop(rows);
    drop(query);
    conn.execute_batch("DROP TABLE jots")
}

/// Brings what is logged without ids to the table that has them. What is damaged stays damaged.
pub(super) fn log_again(conn: &Connection) -> rusqlite::Result<()> {
    let mut query = conn.prepare("SELECT * FROM log_without_ids ORDER BY place")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (feed, is_damaged) = owner(row, 1)?;
        let sql = "INSERT INTO log SELECT place, ?2, seq, changes, locks, '', last, count, at, entries,
            seal(place, ?2, seq, changes, locks, '', last, count, at, entries) + ?3
            FROM log_without_ids WHERE place = ?1";
        conn.execute(sql, rusqlite::params![row.get::<_, i64>(0)?, feed, i64::from(is_damaged)])?;
    }
    drop(rows);
    drop(query);
    conn.execute_batch("DROP TABLE log_without_ids")
}

/// Brings ids that have a row each into chunks. What is damaged stays damaged, with those that stand beside it.
pub(super) fn gather_ids(conn: &Connection) -> rusqlite::Result<()> {
    const FULL: usize = 900;
    // The feed, the key, how many they are, the least of their times, their lines, and whether one of them is damaged.
    let put = |(feed, first, count, least, body, is_damaged): &(i64, String, i64, i64, String, bool)| {
        let sql = "INSERT OR REPLACE INTO ids VALUES (?1, ?2, ?3, ?4, ?5, seal(?1, ?2, ?3, ?4, ?5) + ?6)";
        let values = rusqlite::params![feed, first, count, least, body, i64::from(*is_damaged)];
        conn.prepare_cached(sql)?.execute(values).map(drop)
    };
    let mut open: Option<(i64, String, i64, i64, String, bool)> = None;
    let mut query = conn.prepare("SELECT * FROM ids_one_by_one ORDER BY feed, id")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let feed: i64 = row.get(0)?;
        if let Some(last) = open.take_if(|chunk| chunk.0 != feed) {
            put(&last)?;
        }
        let mut chunk = open.take();
        match seal::check(row) {
            Ok(Found::Whole) => {
                let id: String = row.get(1)?;
                if let Some(full) = chunk.take_if(|chunk| chunk.4.len() >= FULL) {
                    put(&full)?;
                }
                let chunk =
                    chunk.get_or_insert_with(|| (feed, id.clone(), 0, i64::MAX, String::new(), false));
                let (epoch, at, part): (String, String, String) = (row.get(4)?, row.get(6)?, row.get(9)?);
                let (status, seq, count) = (row.get(3)?, row.get(5)?, row.get(7)?);
                let until: i64 = row.get(8)?;
                let words = Columns { id: &id, status, epoch: &epoch, seq, row: &at, count };
                words.push_with(&mut chunk.4, Fingerprint(row.get(2)?), Millis(until), &part);
                (chunk.2, chunk.3) = (chunk.2 + 1, chunk.3.min(until));
            }
            Ok(Found::Stray(owner)) => put(&(owner, String::new(), 0, 0, String::new(), true))?,
            // Its id may be another than it was: it says nothing of where it stood.
            Err(_) => chunk.get_or_insert_with(|| (feed, String::new(), 0, 0, String::new(), false)).5 = true,
        }
        open = chunk;
    }
    open.iter().try_for_each(put)?;
    drop(rows);
    drop(query);
    conn.execute_batch("DROP TABLE ids_one_by_one")
}

/// Has chunks of ids be the first run of their feed. What is damaged stays damaged.
pub(super) fn begin_runs(conn: &Connection) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO ids VALUES (?1, 0, ?2, ?3, ?4, ?5, seal(?1, 0, ?2, ?3, ?4, ?5) + ?6)";
    let mut insert = conn.prepare(sql)?;
    let mut query = conn.prepare("SELECT * FROM ids_in_order ORDER BY feed, first")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (feed, is_damaged) = owner(row, 0)?;
        let (first, body): (String, String) = (row.get(1)?, row.get(4)?);
        let (count, least): (i64, i64) = (row.get(2)?, row.get(3)?);
        insert.execute(rusqlite::params![feed, first, count, least, body, i64::from(is_damaged)])?;
    }
    drop(rows);
    drop(query);
    drop(insert);
    conn.execute_batch("DROP TABLE ids_in_order")
}
