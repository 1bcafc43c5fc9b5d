//! How many watch each feed. A node's counts are fields of its feeds' hashes; that it lives is one key with a time
//! to live, which it renews. A count whose node's key is gone does not count, and is taken out by whoever meets it.

use std::collections::{HashMap, HashSet};

use redis::Value;

use super::{RedisEngine, wire};
use crate::domain::FeedId;
use crate::engine::presence::{NODE_LEASE_MS, Presence, PresenceStore};
use crate::engine::{EngineError, Wait};

/// Feeds told or asked about in one trip.
const FEEDS: usize = 256;

/// How long what nobody renews is kept, in seconds. Nodes tell all they have more often than that.
const KEPT_SECONDS: u64 = 86_400;

impl PresenceStore for RedisEngine {
    fn attend<'a>(&'a self, node: &'a str, counts: &'a [(FeedId, u64)]) -> Wait<'a, bool> {
        Box::pin(async move {
            let _permit = self.permit()?;
            let (keys, within) = (&self.store.keys, self.store.options.call_timeout);
            for chunk in counts.chunks(FEEDS) {
                let mut pipe = redis::pipe();
                for (feed, count) in chunk {
                    let key = keys.watching(feed);
                    match count {
                        0 => drop(pipe.cmd("HDEL").arg(key).arg(node)),
                        count => {
                            pipe.cmd("HSET").arg(&key).arg(node).arg(*count);
                            pipe.cmd("EXPIRE").arg(key).arg(KEPT_SECONDS);
                        }
                    }
                }
                self.store.lane().commands(&pipe, within).await?;
            }
            // Last: a count that is there without its node is nobody's, and may be taken out before.
            let mut cmd = redis::cmd("SET");
            cmd.arg(keys.node(node)).arg(1).arg("PX").arg(NODE_LEASE_MS).arg("GET");
            let before = self.store.lane().command(&cmd, within).await?;
            Ok(!matches!(before, Value::Nil))
        })
    }

    fn presence<'a>(&'a self, feeds: &'a [FeedId]) -> Wait<'a, Vec<Presence>> {
        Box::pin(async move {
            let _permit = self.permit()?;
            let mut all = Vec::with_capacity(feeds.len());
            for chunk in feeds.chunks(FEEDS) {
                all.extend(self.presence_of(chunk).await?);
            }
            Ok(all)
        })
    }
}

impl RedisEngine {
    async fn presence_of(&self, feeds: &[FeedId]) -> Result<Vec<Presence>, EngineError> {
        let (keys, within) = (&self.store.keys, self.store.options.call_timeout);
        let mut pipe = redis::pipe();
        for feed in feeds {
            pipe.cmd("HGETALL").arg(keys.watching(feed));
        }
        let replies = self.store.lane().commands(&pipe, within).await?;
        let counts: Result<Vec<HashMap<String, u64>>, _> =
            replies.into_iter().map(redis::from_redis_value).collect();
        let counts = counts.map_err(|_| wire::Garbled("counts of watchers"))?;
        let nodes: Vec<&String> =
            counts.iter().flat_map(HashMap::keys).collect::<HashSet<_>>().into_iter().collect();
        let mut alive = HashSet::new();
        if !nodes.is_empty() {
            let mut cmd = redis::cmd("MGET");
            for node in &nodes {
                cmd.arg(keys.node(node));
            }
            let leases = self.store.lane().command(&cmd, within).await?;
            let leases: Vec<Option<String>> =
                redis::from_redis_value(leases).map_err(|_| wire::Garbled("leases of nodes"))?;
            alive
                .extend(nodes.iter().zip(leases).filter(|(_, lease)| lease.is_some()).map(|(node, _)| *node));
        }
        let mut gone = redis::pipe();
        for (feed, counts) in feeds.iter().zip(&counts) {
            for node in counts.keys().filter(|node| !alive.contains(node)) {
                gone.cmd("HDEL").arg(keys.watching(feed)).arg(node);
            }
        }
        if !gone.is_empty() {
            // Whoever asks next meets them again.
            let _ = self.store.lane().commands(&gone, within).await;
        }
        let sum = |counts: &HashMap<String, u64>| {
            let here = counts.iter().filter(|(node, count)| alive.contains(node) && **count > 0);
            Presence { watchers: here.clone().map(|(_, count)| count).sum(), nodes: here.count() as u64 }
        };
        Ok(counts.iter().map(sum).collect())
    }
}
