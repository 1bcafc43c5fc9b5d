//! Looks at every row of every table, and says whose do not match their seals.

use std::collections::HashMap;

use rusqlite::{Connection, Row};

use super::db::tables;
use super::db::text;
use super::fault::{Fault, Step};
use super::log;
use super::seal;
use crate::domain::FeedId;

/// Something stored that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The feed that it concerns; none for what concerns no feed alone, or nobody knows whom.
    pub feed: Option<FeedId>,
    /// Which record and why, for the operator.
    pub what: String,
}

/// What a look at everything found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The same feed may be named more than once.
    pub(super) damage: Vec<Damage>,
    /// Names that stand in the place of damaged ones, and are no feed's.
    pub(super) false_names: Vec<FeedId>,
}

/// Tables in which a feed's rows are found by its number.
const BY_FEED: [&str; 13] = [
    "changes", "locks", "ids", "due", "dead", "drops", "claims", "ledger", "readers", "tallies", "told",
    "gifters", "undone",
];

/// Every damage that shows without knowing what records mean.
pub(super) fn scan(conn: &Connection) -> rusqlite::Result<Found> {
    let mut all = Found::default();
    let names = feeds(conn, &mut all)?;
    let found = &mut all.damage;
    for table in tables(conn)?.iter().filter(|table| *table != "feeds") {
        let whole = rows(conn, &format!("SELECT * FROM {table}"), |row| {
            let owner = match seal::check(row) {
                Ok(seal::Found::Whole) => return,
                Ok(seal::Found::Stray(feed)) => names.get(&feed).cloned(),
                Err(_) => owner(row, table, &names),
            };
            found.push(Damage { feed: owner, what: format!("a record in {table} is not as it was written") });
        });
        let Err(fault) = whole else { continue };
        let before = found.len();
        if table == "log" {
            for name in log::unreadable(conn)?.iter().filter_map(|no| names.get(no)) {
                found.push(Damage { feed: Some(name.clone()), what: format!("log: {fault:?}") });
            }
        }
        if BY_FEED.contains(&table.as_str()) {
            let sql = format!("SELECT * FROM {table} WHERE feed = ?1");
            for (no, name) in &names {
                let readable = conn.prepare(&sql).and_then(|mut query| {
                    let mut rows = query.query([no])?;
                    while rows.next()?.is_some() {}
                    Ok(())
                });
                if let Err(error) = readable {
                    found.push(Damage { feed: Some(name.clone()), what: format!("{table}: {error}") });
                }
            }
        }
        if found.len() == before {
            found.push(Damage { feed: None, what: format!("{table}: {fault:?}") });
        }
    }
    Ok(all)
}

/// The feeds by number; those that are damaged too, as far as their names are known.
fn feeds(
    conn: &Connection,
    Found { damage: found, false_names }: &mut Found,
) -> rusqlite::Result<HashMap<i64, FeedId>> {
    let mut names = HashMap::new();
    let mut note = |row: &Row<'_>, fault: Option<Fault>| {
        let name = match &fault {
            None => text(row, 1).ok().and_then(|name| name.parse().ok()),
            Some(_) => true_name(row),
        };
        if let (Some(name), Ok(no)) = (&name, row.get(0)) {
            names.insert(no, FeedId::clone(name));
        }
        let read = text(row, 1).ok().and_then(|name| name.parse().ok());
        false_names.extend(read.filter(|read| name.as_ref().is_some_and(|name| name != read)));
        if fault.is_some() || name.is_none() {
            let is_marked = row.get("seal").is_ok_and(|seal: i64| seal == 0);
            let what = if is_marked {
                "records of it were lost with pages that could not be read"
            } else {
                "its list is not as it was written"
            };
            found.push(Damage { feed: name, what: what.into() });
        }
    };
    let whole = rows(conn, "SELECT * FROM feeds", |row| note(row, seal::check(row).err()));
    if whole.is_err() {
        // The index of names has what the broken page had.
        let mut query = conn.prepare("SELECT rowid, name FROM feeds INDEXED BY sqlite_autoindex_feeds_1")?;
        let all = query.query_map([], |r| Ok((r.get(0)?, r.get::<_, String>(1)?)))?;
        for (no, name) in all.collect::<rusqlite::Result<Vec<(i64, String)>>>()? {
            let row = conn.query_row("SELECT rows FROM feeds WHERE no = ?1", [no], |_| Ok(()));
            let Ok(name) = name.parse::<FeedId>() else { continue };
            if let Err(error) = row {
                found.push(Damage { feed: Some(name.clone()), what: format!("feeds: {error}") });
            }
            names.insert(no, name);
        }
    }
    Ok(names)
}

/// The name of a feed whose row is damaged: as it was, if only its name is.
fn true_name(row: &Row<'_>) -> Option<FeedId> {
    let mended = seal::true_text(row, 1).ok().flatten();
    mended.or_else(|| text(row, 1).ok().map(str::to_owned))?.parse().ok()
}

fn owner(row: &Row<'_>, table: &str, names: &HashMap<i64, FeedId>) -> Option<FeedId> {
    let named = if table == "hooks" { Some(0) } else { named_feed(row) };
    if let Some(column) = named {
        let mended = seal::true_text(row, column).ok().flatten();
        return mended.or_else(|| text(row, column).ok().map(str::to_owned))?.parse().ok();
    }
    names.get(&row.get("feed").ok()?).cloned()
}

/// The column in which the row names its feed; none if it has the feed's number.
fn named_feed(row: &Row<'_>) -> Option<usize> {
    let column = row.as_ref().column_index("feed").ok()?;
    text(row, column).is_ok().then_some(column)
}

/// Every row that there is; an error when some cannot be read.
fn rows(conn: &Connection, sql: &str, mut each: impl FnMut(&Row<'_>)) -> Step<()> {
    let mut query = conn.prepare(sql)?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        each(row);
    }
    Ok(())
}
