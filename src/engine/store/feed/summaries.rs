//! The list of feeds, with how each stands.

use futures_util::future::join_all;
use redis::{Cmd, Value, cmd};
use serde::Deserialize;

use crate::domain::{FeedId, Millis, Position};
use crate::engine::protocol::faults::Fault;
use crate::engine::protocol::slots::slot_of_tag;
use crate::engine::protocol::wire::Corrupt;
use crate::engine::store::Store;
use crate::engine::store::feed::names::FeedNames;
use crate::engine::{FeedPage, FeedSummary, NameRange, Presence, StoreResult};
use crate::metrics::labels::Operation;

/// Of `meta` (`lua/feed/feed.lua`) what a list of feeds shows.
#[derive(Deserialize)]
struct Meta {
    epoch: String,
    seq: serde_json::Value,
    rows: u64,
    changed: i64,
    expires_at: Option<i64>,
}

impl Meta {
    fn at(&self) -> Option<Position> {
        let seq = self.seq.as_u64().or_else(|| self.seq.as_str()?.parse().ok())?;
        format!("{}:{seq}", self.epoch).parse().ok()
    }
}

/// What the commands about one feed answered.
enum Found {
    Nothing,
    /// Its shard does not answer.
    Unknown,
    Summary(FeedSummary),
    /// Some row's time has passed: how many there are is known when they were removed.
    Expired(FeedSummary),
}

impl Store {
    /// Writes the names of feeds that are new to this process to the index of names. Call it every two seconds.
    pub async fn write_feed_names(&self) -> StoreResult<()> {
        if self.parts.names.are_written() {
            return Ok(());
        }
        self.measured(Operation::Feeds, None, self.parts.names.write()).await
    }

    /// The feeds of these ranges behind `after`, by name, at most `limit`. Costs the store a command for each range and
    /// shard, and five for each feed.
    pub async fn list_feeds(
        &self,
        ranges: &[NameRange],
        after: Option<&FeedId>,
        limit: usize,
        now: Millis,
    ) -> StoreResult<FeedPage> {
        self.measured(Operation::Feeds, None, async {
            let names = &self.parts.names;
            let mut feeds = names.page(ranges, after, limit + 1).await?;
            let has_more = feeds.len() > limit;
            feeds.truncate(limit);
            let next = feeds.last().filter(|_| has_more).cloned();
            let (found, presence) = futures_util::join!(names.look_up(&feeds), self.read_presence(&feeds));
            // Counts of watchers that cannot be had now are no reason to hide feeds.
            let presence = presence.unwrap_or_default();
            let (mut gone, mut all) = (Vec::new(), Vec::with_capacity(feeds.len()));
            let settled = join_all(found.into_iter().map(async |found| match found {
                Found::Expired(summary) => {
                    let settled = self.parts.feeds.read_whole(&summary.feed, now).await;
                    let rows = settled.map_or(summary.rows, |list| list.rows.len() as u64);
                    Found::Summary(FeedSummary { rows, ..summary })
                }
                found => found,
            }));
            for ((found, feed), n) in settled.await.into_iter().zip(feeds).zip(0..) {
                match found {
                    Found::Summary(summary) | Found::Expired(summary) => {
                        let watchers = presence.get(n).map_or(0, |it: &Presence| it.watchers);
                        all.push(FeedSummary { watchers, ..summary });
                    }
                    Found::Nothing => gone.push(feed),
                    Found::Unknown => {}
                }
            }
            if let Err(fault) = names.remove(&gone).await {
                tracing::debug!(why = fault.why, "feeds that are gone stay in the index until the next look");
            }
            Ok(FeedPage { feeds: all, next })
        })
        .await
    }
}

impl FeedNames {
    async fn look_up(&self, feeds: &[FeedId]) -> Vec<Found> {
        let keys = &self.runner.keys;
        let asks: Vec<(u16, Cmd)> = feeds
            .iter()
            .flat_map(|feed| {
                let [sources, _] = keys.sources(feed);
                let [ledger, reports, _] = keys.ledger(feed);
                let [due, _] = keys.due(feed);
                let (mut meta, mut policy, mut others) = (cmd("GET"), cmd("GET"), cmd("EXISTS"));
                meta.arg(keys.meta(feed));
                policy.arg(keys.policy(feed));
                others.arg(&[
                    sources,
                    ledger,
                    reports,
                    due,
                    keys.hooks(feed),
                    keys.drops(feed),
                    keys.blocks(feed),
                ]);
                [meta, policy, others].map(|ask| (slot_of_tag(feed.as_str()), ask))
            })
            .collect();
        let replies = self.runner.backend.commands(&asks, self.runner.part_timeout()).await;
        let of_feeds = replies.chunks_exact(3).zip(feeds);
        of_feeds.map(|(replies, feed)| self.found(feed, replies)).collect()
    }

    fn found(&self, feed: &FeedId, replies: &[Result<Value, Fault>]) -> Found {
        let mut summary = FeedSummary {
            feed: feed.clone(),
            at: Position::start(),
            rows: 0,
            watchers: 0,
            visibility: self.runner.options.defaults.visibility,
            last_at: None,
            is_damaged: false,
        };
        match self.read(&mut summary, replies) {
            Ok(None) => Found::Nothing,
            Ok(Some(expires_at)) if expires_at <= Millis::now() => Found::Expired(summary),
            Ok(Some(_)) => Found::Summary(summary),
            Err(fault) if fault.is_data() => Found::Summary(FeedSummary { is_damaged: true, ..summary }),
            Err(_) => Found::Unknown,
        }
    }

    /// Reads what the store said. Answers when the first row expires; `None` of a feed of which nothing is stored.
    fn read(
        &self,
        summary: &mut FeedSummary,
        replies: &[Result<Value, Fault>],
    ) -> Result<Option<Millis>, Fault> {
        let value = |at: usize| replies.get(at).cloned().unwrap_or(Err(Corrupt("a reply").into()));
        let text = |value| redis::from_redis_value::<Option<String>>(value).map_err(|_| Corrupt("a reply"));
        let (meta, policy) = (text(value(0)?)?, text(value(1)?)?);
        if let Some(policy) = &policy {
            summary.visibility = self.runner.with_overrides(policy)?.visibility;
        }
        let Some(meta) = meta else {
            let others: u64 = redis::from_redis_value(value(2)?).map_err(|_| Corrupt("a reply"))?;
            return Ok((policy.is_some() || others > 0).then_some(Millis(i64::MAX)));
        };
        let meta: Meta = serde_json::from_str(&meta).map_err(|_| Corrupt("a feed's meta"))?;
        summary.at = meta.at().ok_or(Corrupt("a feed's meta"))?;
        (summary.rows, summary.last_at) = (meta.rows, Some(Millis(meta.changed)));
        Ok(Some(Millis(meta.expires_at.unwrap_or(i64::MAX))))
    }
}
