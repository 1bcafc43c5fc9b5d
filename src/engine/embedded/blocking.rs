//! Who is blocked, and whose name was approved: asked and changed in the step that needs it.

use super::blocks::{self, Blocks};
use super::db::Db;
use super::fault::Step;
use super::feeds::Feeds;
use super::txn::FeedTxn;
use crate::domain::block::BLOCKS_MAX;
use crate::domain::review::NAME_KEPT_MS;
use crate::domain::{Block, BlockScope, Blocked, Millis, Person};

/// Whether this user's gifts are kept from being shown in the feed.
pub(super) fn is_blocked(txn: &mut FeedTxn<'_>, user: &str) -> Step<bool> {
    let now = txn.now;
    if txn.common.blocks_of_all.get(user).is_some_and(|block| block.holds(now)) {
        return Ok(true);
    }
    if txn.feed.blocks.is_none() {
        txn.feed.blocks = Some(blocks::read_all(txn.db, txn.name.as_str())?);
    }
    let block = txn.feed.blocks.as_ref().and_then(|blocks| blocks.get(user));
    Ok(block.is_some_and(|block| block.holds(now)))
}

/// See [`crate::engine::BlockUser`].
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

/// See [`crate::engine::UnblockUser`].
pub(super) fn remove(feeds: &mut Feeds, scope: &BlockScope, user: &str, now: Millis) -> Step<bool> {
    change(feeds, scope, now, |blocks| blocks.remove(user).is_some())
}

/// See [`crate::engine::ListBlocks`].
pub(super) fn list(feeds: &mut Feeds, scope: &BlockScope, now: Millis) -> Step<Vec<Block>> {
    let all = match scope {
        BlockScope::All => feeds.common.blocks_of_all.clone(),
        BlockScope::Feed(feed) => feeds.on(feed, now, |txn| blocks::read_all(txn.db, txn.name.as_str()))?,
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
        blocks::replace(db, feed, &was, &blocks)?;
        Ok((done, blocks))
    };
    match scope {
        BlockScope::All => {
            feeds.db.begin()?;
            let was = feeds.common.blocks_of_all.clone();
            let (done, blocks) = edit(&feeds.db, blocks::ALL, was)?;
            feeds.common.blocks_of_all = blocks;
            Ok(done)
        }
        BlockScope::Feed(feed) => feeds.on(feed, now, |txn| {
            txn.touch()?;
            let was = blocks::read_all(txn.db, txn.name.as_str())?;
            let (done, blocks) = edit(txn.db, txn.name.as_str(), was)?;
            txn.feed.blocks = Some(blocks);
            Ok(done)
        }),
    }
}

/// Whether this name of this user was approved lately.
pub(super) fn name_passes(txn: &FeedTxn<'_>, person: &Person) -> Step<bool> {
    let Some(no) = txn.feed.no else { return Ok(false) };
    let until = blocks::name_passes_until(txn.db, no, person)?;
    Ok(until.is_some_and(|until| txn.now < until))
}

/// Lets this name of this user pass from now on.
pub(super) fn approve_name(txn: &mut FeedTxn<'_>, person: &Person) -> Step<()> {
    let no = txn.number()?;
    blocks::approve_name(txn.db, no, person, txn.now.plus(NAME_KEPT_MS))
}
