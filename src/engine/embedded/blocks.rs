//! Users whose gifts are not shown, and names that were approved. Blocks stand under the feed's name and not its
//! number: a block does not begin a feed.

use std::collections::BTreeMap;

use rusqlite::{Row as SqlRow, params};

use super::db::{Db, text};
use super::fault::Step;
use super::feeds::Feeds;
use super::txn::FeedTxn;
use crate::domain::block::BLOCKS_MAX;
use crate::domain::review::{NAME_KEPT_MS, NAMES_MAX};
use crate::domain::{Block, BlockScope, Blocked, Millis, Person};

/// Blocks of one scope, by user.
pub(super) type Blocks = BTreeMap<String, Block>;

/// How `blocks` spells the scope of all feeds.
const ALL: &str = "*";

/// Blocks of all feeds.
pub(super) fn of_all(db: &Db) -> Step<Blocks> {
    read_all(db, ALL)
}

/// Whether this user's gifts are kept from being shown in the feed.
pub(super) fn is_blocked(txn: &mut FeedTxn<'_>, user: &str) -> Step<bool> {
    let now = txn.now;
    if txn.common.blocks_of_all.get(user).is_some_and(|block| block.holds(now)) {
        return Ok(true);
    }
    if txn.feed.blocks.is_none() {
        txn.feed.blocks = Some(read_all(txn.db, txn.name.as_str())?);
    }
    let block = txn.feed.blocks.as_ref().and_then(|blocks| blocks.get(user));
    Ok(block.is_some_and(|block| block.holds(now)))
}

/// See [`crate::engine::ReviewStore::block`].
pub(super) fn put(feeds: &mut Feeds, scope: &BlockScope, block: &Block) -> Step<Blocked> {
    change(feeds, scope, block.at, |blocks| {
        if blocks.len() >= BLOCKS_MAX && !blocks.contains_key(&block.user) {
            return Blocked::Full;
        }
        match blocks.insert(block.user.clone(), block.clone()) {
            Some(_) => Blocked::Replaced,
            None => Blocked::New,
        }
    })
}

/// See [`crate::engine::ReviewStore::unblock`].
pub(super) fn remove(feeds: &mut Feeds, scope: &BlockScope, user: &str, now: Millis) -> Step<bool> {
    change(feeds, scope, now, |blocks| blocks.remove(user).is_some())
}

/// See [`crate::engine::ReviewStore::blocks`].
pub(super) fn list(feeds: &mut Feeds, scope: &BlockScope, now: Millis) -> Step<Vec<Block>> {
    let all = match scope {
        BlockScope::All => feeds.common.blocks_of_all.clone(),
        BlockScope::Feed(feed) => feeds.on(feed, now, |txn| read_all(txn.db, txn.name.as_str()))?,
    };
    Ok(all.into_values().filter(|block| block.holds(now)).collect())
}

/// Changes the blocks of a scope; those that are over go.
fn change<T>(
    feeds: &mut Feeds,
    scope: &BlockScope,
    now: Millis,
    rule: impl FnOnce(&mut Blocks) -> T,
) -> Step<T> {
    let edit = |db: &Db, feed: &str, was: Blocks| -> Step<(T, Blocks)> {
        let mut blocks = was.clone();
        blocks.retain(|_, block| block.holds(now));
        let done = rule(&mut blocks);
        for user in was.keys().filter(|user| !blocks.contains_key(*user)) {
            db.run("DELETE FROM blocks WHERE feed = ?1 AND user = ?2", params![feed, user])?;
        }
        for (user, block) in blocks.iter().filter(|(user, block)| was.get(*user) != Some(*block)) {
            let sql = "INSERT OR REPLACE INTO blocks VALUES (?1, ?2, ?3, ?4, seal(?1, ?2, ?3, ?4))";
            db.run(sql, params![feed, user, block.at.0, block.until.map(|until| until.0)])?;
        }
        Ok((done, blocks))
    };
    match scope {
        BlockScope::All => {
            feeds.db.begin()?;
            let was = feeds.common.blocks_of_all.clone();
            let (done, blocks) = edit(&feeds.db, ALL, was)?;
            feeds.common.blocks_of_all = blocks;
            Ok(done)
        }
        BlockScope::Feed(feed) => feeds.on(feed, now, |txn| {
            txn.touch()?;
            let was = read_all(txn.db, txn.name.as_str())?;
            let (done, blocks) = edit(txn.db, txn.name.as_str(), was)?;
            txn.feed.blocks = Some(blocks);
            Ok(done)
        }),
    }
}

fn read_all(db: &Db, feed: &str) -> Step<Blocks> {
    let all = db.all("SELECT * FROM blocks WHERE feed = ?1", [feed], read)?;
    Ok(all.into_iter().map(|block| (block.user.clone(), block)).collect())
}

fn read(r: &SqlRow<'_>) -> Step<Block> {
    let until: Option<i64> = r.get(3)?;
    Ok(Block { user: text(r, 1)?.to_owned(), at: Millis(r.get(2)?), until: until.map(Millis) })
}

/// Whether this name of this user was approved lately.
pub(super) fn name_passes(txn: &FeedTxn<'_>, person: &Person) -> Step<bool> {
    let Some(no) = txn.feed.no else { return Ok(false) };
    let sql = "SELECT * FROM approved WHERE feed = ?1 AND user = ?2 AND name = ?3";
    let until = txn.db.one(sql, params![no, person.id, person.name], |r| Ok(Millis(r.get(3)?)))?;
    Ok(until.is_some_and(|until| txn.now < until))
}

/// Lets this name of this user pass from now on. Of too many those that are over first go.
pub(super) fn approve_name(txn: &mut FeedTxn<'_>, person: &Person) -> Step<()> {
    let no = txn.number()?;
    let until = txn.now.plus(NAME_KEPT_MS);
    let sql = "INSERT OR REPLACE INTO approved VALUES (?1, ?2, ?3, ?4, seal(?1, ?2, ?3, ?4))";
    txn.db.run(sql, params![no, person.id, person.name, until.0])?;
    let sql = "DELETE FROM approved WHERE feed = ?1 AND (user, name) IN
        (SELECT user, name FROM approved WHERE feed = ?1 ORDER BY until DESC, user, name LIMIT -1 OFFSET ?2)";
    txn.db.run(sql, params![no, NAMES_MAX as i64]).map(drop)
}
