//! Taking a user's rows back in all feeds (`lua/feed/walk_turn.lua`). Nobody keeps a list of all feeds, so the keys of every
//! shard are walked through, some at a time. The store has the progress after every step: a walk whose node dies
//! goes on at another when the lease has run out.
//!
//! A place in a server's keys means nothing to another process, and slots that move take keys along. So a place is kept
//! with the process that gave it, and a shard begins anew when that is another one; all begin anew when slots have
//! other owners. To take rows back twice does nothing.

use std::time::Duration;

use crate::domain::{FeedId, Millis};
use crate::engine::protocol::faults::{Fault, FaultKind};
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::backend::BackendShards;
use crate::engine::{StoreResult, Walk};
use crate::metrics::labels::Operation;

/// How long a node has the turn after each step.
const LEASE_MS: u64 = 15_000;

/// A walk goes on so long after its begin: by then every node knows that the user is blocked.
const REST_MS: u64 = 1_500;

/// Keys that one step looks at in each shard, about: some hundred microseconds of its time.
const KEYS_PER_STEP: u32 = 512;

/// How far a walk is in one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ShardProgress {
    /// At this cursor of this process.
    At(u64, String),
    /// It is through.
    Done,
}

impl ShardProgress {
    fn read(word: &str) -> Option<ShardProgress> {
        if word == "." {
            return Some(ShardProgress::Done);
        }
        let (cursor, process) = word.split_once('@')?;
        Some(ShardProgress::At(cursor.parse().ok()?, process.to_owned()))
    }

    fn word(&self) -> String {
        match self {
            ShardProgress::At(cursor, process) => format!("{cursor}@{process}"),
            ShardProgress::Done => ".".to_owned(),
        }
    }
}

/// The places of a walk, as they are stored behind its begin: `LAYOUT`, and a word for each shard.
fn places(text: &str, layout: &str, shards: usize) -> Vec<ShardProgress> {
    let mut words = text.split(' ');
    let known: Option<Vec<ShardProgress>> =
        (words.next() == Some(layout)).then(|| words.map(ShardProgress::read).collect()).flatten();
    // Of another layout, or not begun yet.
    known
        .filter(|known| known.len() == shards)
        .unwrap_or_else(|| vec![ShardProgress::At(0, String::new()); shards])
}

impl Store {
    /// Begins to take every row of a user back in all feeds. Callers of [`Store::continue_walk`] on any node
    /// go on with it until all feeds are done. A repeat begins again.
    pub async fn begin_walk(&self, user: &str, now: Millis) -> StoreResult<()> {
        self.measured(Operation::RetractUser, None, async {
            self.call_walk_turn("", (user, "", "-"), now).await.map(drop)
        })
        .await
    }

    /// Makes one step of the oldest walk, if this node has its lease. The lease of a node that dies runs out.
    /// Shards that are away are left for later steps; an error means that nothing could be done. A walk ends
    /// early when the user's block of all feeds does.
    pub async fn continue_walk(&self, node: &str, now: Millis) -> StoreResult<Walk> {
        self.measured(Operation::Walk, None, async {
            let walks = self.parts.runner.keys.walks();
            let any: u64 = self.parts.runner.get(&walks, redis::cmd("EXISTS").arg(&walks)).await?;
            if any == 0 {
                return Ok(Walk::default());
            }
            let Some((user, text)) = self.call_walk_turn(node, ("", "", ""), now).await? else {
                return Ok(Walk::default());
            };
            let places_text = text.split_once(' ').ok_or(Corrupt("a walk"))?.1;
            let shards = self.parts.runner.backend.shards();
            if shards.count() == 0 {
                return Err(Fault::stay("no shard of Redis is known"));
            }
            let layout = shards.layout();
            let mut places = places(places_text, &layout, shards.count());
            let (mut walk, mut failed) = (Walk { user: Some(user.clone()), ..Walk::default() }, None);
            for (at, place) in places.iter_mut().enumerate() {
                if *place == ShardProgress::Done {
                    continue;
                }
                // A shard that is away is walked through later, and holds up no other.
                match self.walk_shard(&shards, at, place, &user, now).await {
                    Ok((next, feeds, rows)) => {
                        *place = next;
                        walk.feeds += feeds;
                        walk.rows += rows;
                    }
                    Err(fault) => failed = Some(fault),
                }
            }
            let is_over = places.iter().all(|place| *place == ShardProgress::Done);
            let words: Vec<String> =
                std::iter::once(layout).chain(places.iter().map(ShardProgress::word)).collect();
            let after = if is_over { String::new() } else { words.join(" ") };
            self.call_walk_turn("", (&user, &text, &after), now).await?;
            walk.is_over = is_over;
            match failed {
                Some(fault) if walk.feeds == 0 => Err(fault),
                _ => Ok(walk),
            }
        })
        .await
    }

    /// Gives a walk up.
    pub(in crate::engine::store) async fn end_walk(&self, user: &str, now: Millis) -> Result<(), Fault> {
        self.call_walk_turn("", (user, "", ""), now).await.map(drop)
    }

    /// Looks at some keys of a shard, and takes the user's rows back in the feeds among them: where it is then, and how
    /// many feeds and rows there were.
    async fn walk_shard(
        &self,
        shards: &BackendShards,
        at: usize,
        place: &ShardProgress,
        user: &str,
        now: Millis,
    ) -> Result<(ShardProgress, u64, u64), Fault> {
        let ShardProgress::At(cursor, process) = place else { return Ok((ShardProgress::Done, 0, 0)) };
        let keys = &self.parts.runner.keys;
        let (pattern, within) = (keys.list_of_any(), self.parts.runner.options.call_timeout);
        let scanned =
            shards.scan(at, *cursor, (&pattern, KEYS_PER_STEP), within).await?.ok_or(Corrupt("keys"))?;
        let (next, found, server) = (scanned.cursor, scanned.keys, scanned.process);
        if *cursor != 0 && server != *process {
            // Another process, to which the cursor means nothing: from the start.
            return Ok((ShardProgress::At(0, server), 0, 0));
        }
        let (mut feeds, mut rows) = (0, 0);
        for feed in found.iter().filter_map(|key| keys.feed_of_list(key)) {
            feeds += 1;
            rows += self.retract_in_feed(&feed, user, now).await?;
        }
        let next = if next == 0 { ShardProgress::Done } else { ShardProgress::At(next, server) };
        Ok((next, feeds, rows))
    }

    /// A feed that is damaged is left as it is.
    async fn retract_in_feed(&self, feed: &FeedId, user: &str, now: Millis) -> Result<u64, Fault> {
        match self.parts.feeds.retract_user(feed, user, now).await {
            Err(fault) if matches!(fault.kind, FaultKind::Data) => {
                tracing::warn!(%feed, why = fault.why, "rows of a blocked user could not be taken back");
                Ok(0)
            }
            rows => rows,
        }
    }

    /// Makes the call; `change` is a user, and what is known of the walk before and after.
    async fn call_walk_turn(
        &self,
        node: &str,
        (user, before, after): (&str, &str, &str),
        now: Millis,
    ) -> Result<Option<(String, String)>, Fault> {
        let mut call = self.parts.runner.timed(&scripts::WALK_TURN, Some(now));
        call.key("walks", self.parts.runner.keys.walks()).arg("node", node);
        call.arg("lease", LEASE_MS).arg("rest", REST_MS);
        call.arg("user", user).arg("before", before).arg("after", after);
        let said: Vec<String> = self.parts.runner.run_within(&call, Duration::from_secs(2)).await?;
        match &said[..] {
            [user, text] => Ok(Some((user.clone(), text.clone()))),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_another_layout_or_of_none_begin_anew() {
        let begin = ShardProgress::At(0, String::new());
        assert_eq!(places("-", "a1", 2), [begin.clone(), begin.clone()]);
        let known = [ShardProgress::Done, ShardProgress::At(77, "f00".to_owned())];
        let text = format!("a1 {} {}", known[0].word(), known[1].word());
        assert_eq!(places(&text, "a1", 2), known);
        assert_eq!(places(&text, "a2", 2), [begin.clone(), begin.clone()], "slots have other owners");
        assert_eq!(places(&text, "a1", 3), [begin.clone(), begin.clone(), begin]);
    }
}
