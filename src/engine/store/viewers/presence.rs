//! How many watch each feed. A node's counts are fields of its feeds' hashes; that it lives is one key with a time
//! to live, which it renews. A count whose node's key is gone does not count, and the next reader removes it.

use std::collections::{HashMap, HashSet};

use redis::{Cmd, Value, cmd};

use crate::domain::FeedId;
use crate::engine::StoreResult;
use crate::engine::presence::{Count, NODE_LEASE_MS, Presence};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::slots::{slot_of_key, slot_of_tag};
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::feed::lists::Feeds;
use crate::metrics::labels::Operation;

/// Feeds reported or read in one trip.
const FEEDS_PER_TRIP: usize = 256;

/// How long counts are kept that are not renewed, in milliseconds. Nodes report all counts more often than that.
const KEPT_MS: u64 = 86_400_000;

impl Store {
    /// Reports the watchers of these feeds on `node`, and that the node lives. Call it at least every third
    /// of [`crate::engine::presence::NODE_LEASE_MS`], also without counts. Returns false if the store did not
    /// know the node: what it reported before may be lost, so all counts are to be reported again.
    pub async fn report_presence(&self, node: &str, counts: &[(FeedId, Count)]) -> StoreResult<bool> {
        self.measured(Operation::Attend, None, async {
            // First: who reads meanwhile takes a count without its node for one of a dead node, and removes it.
            let key = self.parts.runner.keys.node(node);
            let lease = asking("SET", &[&key, "1", "PX", &NODE_LEASE_MS.to_string(), "GET"]);
            let before =
                self.parts.runner.backend.command(&key, &lease, self.parts.runner.part_timeout()).await;
            let mut missed = None;
            for chunk in counts.chunks(FEEDS_PER_TRIP) {
                let mut asks = Vec::with_capacity(3 * chunk.len());
                for (feed, Count { watchers, overlays }) in chunk {
                    let keys = &self.parts.runner.keys;
                    for (key, count) in [(keys.watching(feed), watchers), (keys.overlays(feed), overlays)] {
                        let slot = slot_of_tag(feed.as_str());
                        if *count == 0 {
                            asks.push((slot, asking("HDEL", &[&key, node])));
                        } else {
                            asks.push((slot, asking("HSET", &[&key, node, &count.to_string()])));
                            asks.push((slot, asking("PEXPIRE", &[&key, &KEPT_MS.to_string()])));
                        }
                    }
                }
                let replies =
                    self.parts.runner.backend.commands(&asks, self.parts.runner.part_timeout()).await;
                missed = missed.or(replies.into_iter().find_map(Result::err));
            }
            match missed {
                Some(fault) => Err(fault),
                None => Ok(before? != Value::Nil),
            }
        })
        .await
    }

    /// How many watch these feeds, in the order asked.
    pub async fn read_presence(&self, feeds: &[FeedId]) -> StoreResult<Vec<Presence>> {
        self.measured(Operation::Presence, None, async {
            let mut all = Vec::with_capacity(feeds.len());
            for chunk in feeds.chunks(FEEDS_PER_TRIP) {
                all.extend(self.parts.feeds.presence_of(chunk).await?);
            }
            Ok(all)
        })
        .await
    }
}

impl Feeds {
    async fn presence_of(&self, feeds: &[FeedId]) -> Result<Vec<Presence>, Fault> {
        let keys = &self.runner.keys;
        // Two hashes of each feed: of those who watch, and of overlays.
        let hashes: Vec<String> =
            feeds.iter().flat_map(|feed| [keys.watching(feed), keys.overlays(feed)]).collect();
        let asks: Vec<(u16, Cmd)> =
            hashes.iter().map(|key| (slot_of_key(key), asking("HGETALL", &[key]))).collect();
        let replies = self.runner.backend.commands(&asks, self.runner.part_timeout()).await;
        let mut counts: Vec<HashMap<String, u64>> = Vec::with_capacity(hashes.len());
        for reply in replies {
            match reply {
                Ok(reply) => {
                    counts.push(redis::from_redis_value(reply).map_err(|_| Corrupt("counts of watchers"))?);
                }
                Err(fault) if feeds.len() == 1 => return Err(fault),
                // Asked together, a shard that is away hides its own feeds' counts only.
                Err(_) => counts.push(HashMap::new()),
            }
        }
        let alive = self.alive(&counts).await?;
        let mut gone = Vec::new();
        for (key, counts) in hashes.iter().zip(&counts) {
            for node in counts.keys().filter(|node| !alive.contains(*node)) {
                gone.push((slot_of_key(key), asking("HDEL", &[key, node])));
            }
        }
        if !gone.is_empty() {
            // The next reader meets them again.
            let _ = self.runner.backend.commands(&gone, self.runner.part_timeout()).await;
        }
        let here = |counts: &HashMap<String, u64>| -> (u64, u64) {
            let here = counts.iter().filter(|(node, count)| alive.contains(*node) && **count > 0);
            (here.clone().map(|(_, count)| count).sum(), here.count() as u64)
        };
        let of_feed = |counts: &[HashMap<String, u64>]| {
            let ((watchers, nodes), (overlays, _)) = (here(&counts[0]), here(&counts[1]));
            Presence { watchers, overlays, nodes }
        };
        Ok(counts.chunks_exact(2).map(of_feed).collect())
    }

    /// Which of the nodes that reported something live.
    async fn alive(&self, counts: &[HashMap<String, u64>]) -> Result<HashSet<String>, Fault> {
        let nodes: HashSet<&String> = counts.iter().flat_map(HashMap::keys).collect();
        let nodes: Vec<String> = nodes.into_iter().cloned().collect();
        let Some(first) = nodes.first() else { return Ok(HashSet::new()) };
        let mut leases = cmd("MGET");
        for node in &nodes {
            leases.arg(self.runner.keys.node(node));
        }
        let slot = slot_of_key(&self.runner.keys.node(first));
        let reply = self.runner.backend.commands(&[(slot, leases)], self.runner.part_timeout()).await;
        let Some(Ok(reply)) = reply.into_iter().next() else {
            // The shard that knows who lives is away, which is no reason to hide the feeds of others.
            return Ok(nodes.into_iter().collect());
        };
        let leases: Vec<Option<String>> =
            redis::from_redis_value(reply).map_err(|_| Corrupt("leases of nodes"))?;
        Ok(nodes.into_iter().zip(leases).filter(|(_, lease)| lease.is_some()).map(|(node, _)| node).collect())
    }
}

fn asking(name: &str, args: &[&str]) -> Cmd {
    let mut command = cmd(name);
    for arg in args {
        command.arg(*arg);
    }
    command
}
