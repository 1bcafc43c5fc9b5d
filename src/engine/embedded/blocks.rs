//! The tables of users whose gifts are not shown, and of names that were approved. Blocks stand under the feed's name
//! and not its number: a block does not begin a feed.

use std::collections::BTreeMap;

use rusqlite::{Row as SqlRow, params};

use super::db::{Db, text};
use super::fault::Step;
use crate::domain::review::NAMES_MAX;
use crate::domain::{Block, Millis, Person};

/// Blocks of one scope, by user.
pub(super) type Blocks = BTreeMap<String, Block>;

/// How `blocks` spells the scope of all feeds.
pub(super) const ALL: &str = "*";

/// Blocks of all feeds.
pub(super) fn of_all(db: &Db) -> Step<Blocks> {
    read_all(db, ALL)
}

/// Makes `blocks` of what was `was`.
pub(super) fn replace(db: &Db, feed: &str, was: &Blocks, blocks: &Blocks) -> Step<()> {
    for user in was.keys().filter(|user| !blocks.contains_key(*user)) {
        db.run("DELETE FROM blocks WHERE feed = ?1 AND user = ?2", params![feed, user])?;
    }
    for (user, block) in blocks.iter().filter(|(user, block)| was.get(*user) != Some(*block)) {
        let sql = "INSERT OR REPLACE INTO blocks VALUES (?1, ?2, ?3, ?4, ?5)";
        db.put(sql, params![feed, user, block.at.0, block.until.map(|until| until.0)])?;
    }
    Ok(())
}

/// Blocks under this name.
pub(super) fn read_all(db: &Db, feed: &str) -> Step<Blocks> {
    let all = db.all("SELECT * FROM blocks WHERE feed = ?1", [feed], read)?;
    Ok(all.into_iter().map(|block| (block.user.clone(), block)).collect())
}

fn read(r: &SqlRow<'_>) -> Step<Block> {
    let until: Option<i64> = r.get(3)?;
    Ok(Block { user: text(r, 1)?.to_owned(), at: Millis(r.get(2)?), until: until.map(Millis) })
}

/// Until when this name of this user passes, if it was approved.
pub(super) fn name_passes_until(db: &Db, feed: i64, person: &Person) -> Step<Option<Millis>> {
    let sql = "SELECT * FROM approved WHERE feed = ?1 AND user = ?2 AND name = ?3";
    db.one(sql, params![feed, person.id, person.name], |r| Ok(Millis(r.get(3)?)))
}

/// Lets this name of this user pass until then. Of too many those that are over first go.
pub(super) fn approve_name(db: &Db, feed: i64, person: &Person, until: Millis) -> Step<()> {
    let sql = "INSERT OR REPLACE INTO approved VALUES (?1, ?2, ?3, ?4, ?5)";
    db.put(sql, params![feed, person.id, person.name, until.0])?;
    let sql = "DELETE FROM approved WHERE feed = ?1 AND (user, name) IN
        (SELECT user, name FROM approved WHERE feed = ?1 ORDER BY until DESC, user, name LIMIT -1 OFFSET ?2)";
    db.run(sql, params![feed, NAMES_MAX as i64]).map(drop)
}
