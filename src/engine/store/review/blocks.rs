//! Users whose gifts are not shown (`lua/feed/block_change.lua`). A feed's blocks are in its slot, where its scripts read
//! them; those of all feeds are in a slot of their own, so every node remembers them for a moment and passes them to the
//! scripts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::domain::block::BLOCKS_MAX;
use crate::domain::json::push_string;
use crate::domain::{Block, BlockScope, FeedId, Gift, Millis};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::scripts;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::runner::Runner;

/// How long blocks are remembered: they hold on every node within a second.
const CACHE_TIME: Duration = Duration::from_millis(400);

/// Scopes whose blocks are remembered.
const MAX_CACHED_SCOPES: usize = 4_096;

/// Blocks by user.
type Blocks = Arc<HashMap<String, Block>>;

/// Blocked users.
pub(crate) struct BlockBook {
    runner: Arc<Runner>,
    lately: Mutex<HashMap<BlockScope, (Instant, Blocks)>>,
}

impl BlockBook {
    pub fn new(runner: Arc<Runner>) -> BlockBook {
        BlockBook { runner, lately: Mutex::default() }
    }

    fn key(&self, scope: &BlockScope) -> String {
        match scope {
            BlockScope::Feed(feed) => self.runner.keys.blocks(feed),
            BlockScope::All => self.runner.keys.blocks_of_all(),
        }
    }

    /// Whether the givers of these gifts are blocked in all feeds, a `1` or `0` for each. While that cannot be asked,
    /// what was so lately holds: no feed waits for the shard that knows.
    pub async fn everywhere(&self, gifts: impl Iterator<Item = &Gift>, now: Millis) -> String {
        let blocks = self.remembered(&BlockScope::All).await.unwrap_or_default();
        gifts.map(|gift| if holds(&blocks, &gift.user.id, now) { '1' } else { '0' }).collect()
    }

    /// See [`crate::engine::Store::is_blocked`].
    pub async fn is_blocked(&self, feed: &FeedId, user: &str, now: Millis) -> Result<bool, Fault> {
        let everywhere = self.remembered(&BlockScope::All).await.unwrap_or_default();
        if holds(&everywhere, user, now) {
            return Ok(true);
        }
        let here = self.remembered(&BlockScope::Feed(feed.clone())).await?;
        Ok(holds(&here, user, now))
    }

    /// See [`crate::engine::Store::unblock_user`].
    pub async fn unblock(&self, scope: &BlockScope, user: &str, now: Millis) -> Result<bool, Fault> {
        Ok(self.change(scope, user, "", now).await? == "ended")
    }

    pub(super) async fn change(
        &self,
        scope: &BlockScope,
        user: &str,
        until: &str,
        now: Millis,
    ) -> Result<String, Fault> {
        let mut spelled = String::new();
        push_string(&mut spelled, user);
        let mut call = self.runner.timed(&scripts::BLOCK_CHANGE, Some(now));
        call.key("blocks", self.key(scope)).arg("user", spelled).arg("until", until);
        call.arg("blocks_at_most", BLOCKS_MAX);
        let done = self.runner.run(&call).await;
        self.locked().remove(scope);
        done
    }

    async fn remembered(&self, scope: &BlockScope) -> Result<Blocks, Fault> {
        let known = self.locked().get(scope).cloned();
        if let Some((at, blocks)) = &known
            && at.elapsed() < CACHE_TIME
        {
            return Ok(blocks.clone());
        }
        match (self.read(scope).await, known) {
            (Ok(blocks), _) => Ok(blocks),
            (Err(fault), None) => Err(fault),
            (Err(fault), Some((_, blocks))) => {
                tracing::debug!(%scope, why = fault.why, "blocks cannot be read; those of before hold");
                self.keep(scope, blocks.clone());
                Ok(blocks)
            }
        }
    }

    pub(super) async fn read(&self, scope: &BlockScope) -> Result<Blocks, Fault> {
        let key = self.key(scope);
        // Feeds of other shards wait for those of all feeds no longer than a moment.
        let within = match scope {
            BlockScope::Feed(_) => self.runner.options.call_timeout,
            BlockScope::All => self.runner.part_timeout(),
        };
        let found = self.runner.backend.command(&key, redis::cmd("MGET").arg(&key), within).await?;
        let texts: Vec<Option<String>> = redis::from_redis_value(found).map_err(|_| Corrupt("blocks"))?;
        let text = texts.into_iter().next().flatten().unwrap_or_default();
        let blocks: Option<HashMap<String, Block>> = text.lines().map(read_line).collect();
        let blocks = Arc::new(blocks.ok_or(Corrupt("blocks"))?);
        self.keep(scope, blocks.clone());
        Ok(blocks)
    }

    fn keep(&self, scope: &BlockScope, blocks: Blocks) {
        let mut lately = self.locked();
        if lately.len() >= MAX_CACHED_SCOPES && !lately.contains_key(scope) {
            lately.retain(|_, (at, _)| at.elapsed() < CACHE_TIME);
        }
        if lately.len() < MAX_CACHED_SCOPES {
            lately.insert(scope.clone(), (Instant::now(), blocks));
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<BlockScope, (Instant, Blocks)>> {
        self.lately.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn holds(blocks: &HashMap<String, Block>, user: &str, now: Millis) -> bool {
    blocks.get(user).is_some_and(|block| block.holds(now))
}

/// "UNTIL AT USER".
fn read_line(line: &str) -> Option<(String, Block)> {
    let mut parts = line.splitn(3, ' ');
    let (until, at): (i64, i64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let user: String = serde_json::from_str(parts.next()?).ok()?;
    let until = (until != 0).then_some(Millis(until));
    Some((user.clone(), Block { user, at: Millis(at), until }))
}
